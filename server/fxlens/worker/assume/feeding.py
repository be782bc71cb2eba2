"""Options for the arguments of a forward: tensors of the right shape and dtype, lists of them, numbers and flags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from . import annotated, arguments, gym_spaces, kinds, layers
from .names import habit as name_habit
from .options import Options
from .places import NOTHING, View
from .reading import Reader
from .slots import Option, Slot
from .source import plain
from .tensors import BATCH, LENGTH, Sizes, Spec, named_dims, pattern_dims

_TENSOR_ATTRIBUTES = {
    "device", "dtype", "data", "T", "ndim", "is_cuda", "requires_grad", "grad", "real", "imag", "mT", "shape",
    "is_sparse",
    "layout", "is_nested",
}  # fmt: skip
_SAYS_TENSOR = {
    "layer": 5.0, "weight": 5.0, "pattern": 6.0, "dims": 6.0, "cast": 3.0, "tensor": 3.0, "rank_at_least": 2.0,
    "joined": 2.0,
    "size": 5.0, "invert": 1.0, "arithmetic": 0.5, "with": 0.5, "slice": 0.3, "argument": 0.8,
}  # fmt: skip
_SAYS_OTHER = {
    "iterate": ("list", 2.5), "unpack": ("list", 3.0), "index": ("list", 0.8), "length": ("list", 0.6),
    "star": ("list", 2.5),
    "same_length": ("list", 1.5), "key": ("mapping", 6.0), "get": ("mapping", 5.0), "contains": ("mapping", 2.0),
    "mapping": ("mapping", 4.0), "call": ("callable", 6.0), "int": ("int", 6.0), "string": ("str", 6.0),
    "name_in": ("str", 6.0), "module": ("module", 5.0), "number": ("int", 2.0), "order": ("int", 0.7),
    "truth": ("bool", 0.6),
    "callable": ("callable", 3.0),
}  # fmt: skip


class Feeding(Options):
    """Options for one module's forward. ``module`` is constructed; its layers determine their inputs."""

    def __init__(
        self,
        reader: Reader,
        names: dict[str, Any],
        hints: Mapping[str, list[str]],
        module: Any,
        given: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(reader, names, hints, type(module))
        self.module = module
        self.sizes = Sizes(module, given)
        self.text = self._documentation()

    def options(self, slot: Slot) -> list[Option]:
        found: list[Option] = []
        if slot.default is not NOTHING:
            found.append(
                Option(
                    kinds.of_value(slot.default),
                    "default",
                    repr(slot.default) if slot.default is None else str(slot.default),
                )
            )
        found += [Option("hint", "hint", text) for text in self.hints.get(slot.name, ())[:4]]
        if (of_space := gym_spaces.fed(self.module, slot.name)) is not None and slot.default is NOTHING:
            found.append(of_space)
        self.depth += 1
        rows = [self.of_kind(kind, how, slot) for kind, how in self._ranked(slot)[:5]]
        self.depth -= 1
        for row in rows[:1]:
            found += row[:3]
        found += [row[0] for row in rows[1:] if row]
        for row in rows:
            found += row[1:5]
        found.append(Option("none", "trial", "None"))
        unique: dict[str, Option] = {}
        for option in found:
            unique.setdefault(option.signature, option)
        return list(unique.values())[:16]

    def _ranked(self, slot: Slot) -> list[tuple[str, str]]:
        scores: dict[str, float] = {"tensor": 3.0}
        hows: dict[str, str] = {"tensor": "use"}

        def vote(kind: str, weight: float, how: str) -> None:
            if kind and kind != "any":
                scores[kind] = scores.get(kind, 0.0) + weight
                hows.setdefault(kind, how)

        for arm in annotated.members(slot.annotation):
            kind = annotated.kind(arm)
            vote(kind, 1.0 if kind == "none" else 30.0, "annotation")
        if slot.default is not NOTHING and slot.default is not None:
            vote(kinds.of_value(slot.default), 12.0, "default")
            if isinstance(slot.default, (bool, int, float, str)):
                return [(kinds.of_value(slot.default), "default")]
        told = annotated.documented(self.text, slot.name)
        vote(told, 8.0, "comment")
        seen: dict[str, int] = {}
        compared: list[Any] = []
        for place in slot.view.places:
            far = slot.view.distance[id(place)]
            if far and place.annotation is not NOTHING:
                for arm in annotated.members(place.annotation):
                    kind = annotated.kind(arm)
                    vote(kind if kind not in ("float", "none") else "", 3.0, "use")
            elif far and isinstance(place.default, (int, bool)):
                vote(kinds.of_value(place.default), 1.5, "use")
            for use, detail in place.uses:
                seen[use] = seen.get(use, 0) + 1
                if seen[use] > 3 and use != "attribute":
                    continue
                if use in _SAYS_TENSOR:
                    vote("tensor", _SAYS_TENSOR[use], "use")
                elif use in _SAYS_OTHER:
                    vote(*_SAYS_OTHER[use], "use")
                elif use == "attribute":
                    vote("tensor" if detail in _TENSOR_ATTRIBUTES else "config", 3.0 if seen[use] < 4 else 0.3, "use")
                elif use == "compare" and detail not in compared:
                    compared.append(detail)  # one of several layers may make the comparison
                    vote(
                        {str: "str", bool: "bool", int: "int"}.get(type(detail), ""),
                        6.0 if isinstance(detail, str) else 1.5,
                        "use",
                    )
                elif use == "isinstance":
                    vote(
                        {list: "list", tuple: "list", dict: "mapping", int: "int", str: "str", bool: "bool"}.get(
                            detail, "tensor"
                        ),
                        0.8,
                        "use",
                    )
                elif use == "key_of":
                    vote("str" if isinstance(detail[0], str) else "int", 6.0, "use")
        usual = name_habit(slot.name)
        if usual is not None and usual.kind == "bool" and arguments.habit(slot.name) is None:
            vote("bool", 4.5, "name")
        if arguments.is_number(slot.name):
            vote("int", 3.2 if len(slot.name) > 1 or slot.name.isupper() else 1.0, "name")
        return [(kind, hows[kind]) for kind in sorted(scores, key=lambda each: -scores[each])]

    # Tensors

    def _tensor(self, slot: Slot, how: str) -> list[Option]:
        return [tensor_option(spec, how) for spec, how in self.specs(slot)]

    def _none(self, slot: Slot, how: str) -> list[Option]:
        return [Option("none", how, "None")]

    def _int(self, slot: Slot, how: str) -> list[Option]:
        name = slot.name.lower()
        first = (
            [str(self.sizes.image)]
            if name in ("h", "w", "height", "width")
            else ["0"]
            if re.search("pos|offset|start|idx|index|iter|epoch", name)
            else []
        )
        compared = [str(d) for d in slot.view.details("compare") if type(d) is int]
        return [Option("int", how, text) for text in dict.fromkeys([*first, *compared, "2", "4", "16", "1", "0"])]

    def _callable(self, slot: Slot, how: str) -> list[Option]:
        return [Option("module", how, "nn.Identity()"), Option("callable", how, "torch.nn.functional.relu")]

    _module = _callable

    def specs(self, slot: Slot) -> Iterator[tuple[Spec, str]]:
        """Tensors for an argument, the best known first."""
        view = slot.view
        need = self._need(view)
        merged = _merged(view.details("dims"))
        ranks = [len(d) for d in merged]
        lowest = max([d for d in view.details("rank_at_least") if isinstance(d, int)], default=0)
        kind, usual = arguments.habit(slot.name) or ("", ())
        yield from ((spec, "annotation") for spec in self._annotated(slot))
        for pattern, sizes in view.details("pattern"):
            spec = self._of_pattern(pattern, dict(sizes), need)
            if spec is not None:
                yield self._typed(spec, kind, need, view), "use"
        told = named_dims(self.text, slot.name)
        if told and (not ranks or len(told) in ranks) and len(told) >= lowest:
            shape = self.sizes.shape(told, need.channels if need is not None else None)
            yield self._typed(self._sized(Spec(self._with_need(shape, need)), view), kind, need, view), "comment"
        for dims in merged:
            shape = self.sizes.shape(dims, need.channels if need is not None else None)
            if len(dims) == 5:
                # Videos have few frames.
                shape = tuple(
                    5 if name.lower() in ("t", "f", "_", "n") and i else size
                    for i, (name, size) in enumerate(zip(dims, shape, strict=True))
                )
            if need is not None and len(dims) in need.ranks:
                spec = need.spec(len(dims), self.sizes.image)
            elif all(each == "_" for each in dims):
                spec = next(iter(self._plain(len(dims), need)))
            else:
                spec = Spec(self._with_need(shape, need))
            yield self._typed(self._sized(spec, view), kind, need, view), "use"
        yield from self._after_linear(view, need, kind)
        if need is not None:
            for rank in need.ranks:
                if rank >= lowest and (not ranks or rank in ranks):
                    yield self._typed(self._sized(need.spec(rank, self.sizes.image), view), "", need, view), "layer"
        for dims in usual:
            named = [each for each in dims if len(each) > 2]
            if len(dims) >= lowest and all(self.sizes.named(each) for each in named):
                yield self._typed(Spec(self._usual_shape(dims)), kind, need, view), "name"
        for rank in (3, 4, 2, 5, 1):
            if rank >= lowest:
                for spec in self._plain(rank, need):
                    yield self._typed(self._sized(spec, view), kind, need, view), "trial"

    def _after_linear(self, view: View, need: layers.Need | None, kind: str) -> Iterator[tuple[Spec, str]]:
        """Requirements on a linear layer's result apply to all but the last dimension."""
        after = view.part("linear")
        if need is None or need.channels is None or not after:
            return
        for pattern, sizes in after.details("pattern"):
            spec = self._of_pattern(pattern, dict(sizes), None)
            if spec is not None and len(spec.shape) in need.ranks:
                yield replace(spec, shape=(*spec.shape[:-1], need.channels)), "use"
        for dims in _merged(after.details("dims")):
            if len(dims) in need.ranks:
                shape = self.sizes.shape(dims)
                yield Spec((*shape[:-1], need.channels)), "use"

    def _need(self, view: View) -> layers.Need | None:
        for use, detail in view.uses("layer", "weight"):
            found = layers.need(detail[0].value, detail[1]) if use == "layer" else layers.of_weight(*detail)
            if found is not None:
                return found
        return None

    def _typed(self, spec: Spec, kind: str, need: layers.Need | None, view: View) -> Spec:
        if need is not None and need.high:
            return replace(spec, kind="long", high=need.high)
        if need is not None and kind != "bool":
            return spec
        if kind == "long" and not any(use in ("layer", "weight") for use, _ in view.uses()):
            return replace(spec, kind="long", high=10)
        if kind == "full":
            return replace(spec, kind="full", high=LENGTH)
        if kind == "bool":
            return replace(spec, kind="bool") if not view.has("arithmetic", "with") or view.has("invert") else spec
        names = {detail[0] for detail in view.details("argument")}
        if {"cross_entropy", "nll_loss", "one_hot", "embedding"} & names and view.details("argument"):
            at = next(
                (d[1] for d in view.details("argument") if d[0] in ("cross_entropy", "nll_loss", "one_hot")), None
            )
            if at == 1 or "one_hot" in names:
                return replace(spec, kind="long", high=10)
        if {"gather", "index_select", "scatter", "scatter_", "take_along_dim"} & names and any(
            d[1] > 1 for d in view.details("argument")
        ):
            return replace(spec, kind="long", high=4)
        if {"masked_fill", "masked_fill_", "where"} & names and any(
            d[1] in (0, 1) and d[0].startswith("masked") for d in view.details("argument")
        ):
            return replace(spec, kind="bool") if "mask" in kind or kind == "bool" else spec
        if view.has("invert"):
            return replace(spec, kind="bool")
        return spec

    def _sized(self, spec: Spec, view: View) -> Spec:
        """Specs with the sizes that the code compares with."""
        shape = list(spec.shape)
        for index, size in view.details("size"):
            if -len(shape) <= index < len(shape) and 0 < size < 10_000:
                shape[index] = size
        return replace(spec, shape=tuple(shape))

    def _with_need(self, shape: tuple[int, ...], need: layers.Need | None) -> tuple[int, ...]:
        if need is None or need.channels is None or len(shape) not in need.ranks:
            return shape
        changed = list(shape)
        changed[need.at] = need.channels
        return tuple(changed)

    def _usual_shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        fixed = {"N": LENGTH, "A": 4096}
        return tuple(fixed.get(each) or self.sizes.shape((each,), None)[0] if each != "B" else BATCH for each in dims)

    def _plain(self, rank: int, need: layers.Need | None) -> list[Spec]:
        """Tensors of a rank, with channels at the usual dimension."""
        width = (need.channels if need is not None else None) or self.sizes.feature or 16
        image = self.sizes.image
        shapes: dict[int, list[tuple[int, ...]]] = {
            0: [()],
            1: [(BATCH,), (width,)],
            2: [(BATCH, width), (BATCH, LENGTH)],
            3: [(BATCH, LENGTH, width), (BATCH, width, LENGTH * 2)],
            4: [(BATCH, width, image, image), (BATCH, image, image, width), (BATCH, 3, image, image)],
            5: [(BATCH, width, 5, image, image), (BATCH, 5, width, image, image)],
        }
        found = shapes.get(rank) or [(BATCH, *([LENGTH] * (rank - 1)))]
        if need is not None and need.at == 1 and rank == 3:
            found.reverse()
        return [Spec(shape) for shape in found]

    def reranked(self, spec: Spec, rank: int) -> list[Spec]:
        """The same tensor with another rank."""
        shape = spec.shape
        width = shape[1] if len(shape) in (4, 5) else shape[-1] if shape else self.sizes.feature or 16
        image = self.sizes.image
        rows: dict[int, list[tuple[int, ...]]] = {
            1: [(BATCH,), (width,)],
            2: [(BATCH, width), (BATCH, LENGTH)],
            3: [(BATCH, LENGTH, width), (BATCH, width, 64)],
            4: [
                (BATCH, width, image, image),
                (BATCH, 3, image, image),
                (BATCH, image, image, width),
                (BATCH, 4, LENGTH, width),
            ],
            5: [(BATCH, width, 5, image, image), (BATCH, 5, width, image, image), (BATCH, 5, 3, image, image)],
        }
        return [replace(spec, shape=each) for each in rows.get(rank, [(BATCH, *([LENGTH] * (rank - 1)))])]

    def _annotated(self, slot: Slot) -> Iterator[Spec]:
        for arm in annotated.members(slot.annotation):
            dims = getattr(arm, "dim_str", None)
            if not isinstance(dims, str) or "..." in dims or "*" in dims:
                continue
            names = [each.split("=")[-1] for each in dims.split()]
            told = str(getattr(arm, "dtypes", ""))
            kind = (
                "long"
                if "int" in told and "float" not in told
                else "bool"
                if "bool" in told and "float" not in told
                else "float"
            )
            yield Spec(self.sizes.shape(names), kind)

    def _of_pattern(self, pattern: str, given: dict[str, int], need: layers.Need | None) -> Spec | None:
        dims = pattern_dims(pattern)
        if dims is None:
            return None
        shape = []
        for index, group in enumerate(dims):
            size = 1
            for name in group:
                inner = self.sizes.shape(
                    (name,) if index else ("b" if name in ("b", "n") else name,), need.channels if need else None, given
                )[0]
                # `(h p1)` with p1 given: a few patches are enough.
                size *= inner if len(group) == 1 or name in given else 4
            shape.append(size)
        return Spec(tuple(shape))

    def _documentation(self) -> str:
        """Docstrings and comments of the forward and of the class."""
        forward = plain(getattr(self.module, "forward", None))
        if forward is None:
            return ""
        node = self.reader.sources.of_function(forward)
        lines = self.reader.sources.lines(forward.__code__.co_filename)
        if node is None or not lines:
            return ""
        own = lines[max(0, node.lineno - 3) : node.end_lineno]
        comments = [line.partition("#")[2] if "#" in line else "" for line in own]
        documents = [forward.__doc__ or "", *comments, type(self.module).__doc__ or ""]
        return "\n".join(each for each in documents if each)


def _merged(rows: list[Any]) -> list[tuple[str, ...]]:
    """One row of names for each rank: `_` if no row has one."""
    found: dict[int, list[str]] = {}
    for row in rows:
        known = found.setdefault(len(row), ["_"] * len(row))
        for index, name in enumerate(row):
            if known[index] == "_":
                known[index] = name
    return [tuple(each) for each in found.values()]


def tensor_option(spec: Spec, how: str) -> Option:
    return Option("tensor", how, spec.text, spec=spec)
