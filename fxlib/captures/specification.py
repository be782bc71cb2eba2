"""``dynamic_shapes`` for torch.export: proposed for the dimensions that vary, refined as torch suggests, proven by
running."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxlib.captures import torch_side
from fxlib.captures.guards import around
from fxlib.captures.isolation import copied, restored
from fxlib.captures.pins import Shapes
from fxlib.captures.sizes import Dimension, Inputs
from fxlib.shapes.derived import Expression

__all__ = ["Specification", "propose", "varies"]

_ROUNDS = 6  # rounds of torch's suggestions
_LONGEST = 4096  # rows of a table that counts as one of positions
_FIX = re.compile(r"^\s*(?P<name>\w+) = (?P<value>.+?)\s*(?:#.*)?$")
_DIM = re.compile(r"Dim\('(?P<name>\w+)'(?:, min=(?P<min>[\w-]+))?(?:, max=(?P<max>[\w-]+))?\)")
_DERIVED = re.compile(r"^(?:(?P<factor>\d+)\*)?(?P<root>[A-Za-z_]\w*)(?: ?(?P<shift>[+-] ?\d+))?$")


@dataclass
class Specification:
    """The dimensions that may vary: an `Expression` for each, and the range of each root (None if open).

    ``sizes`` are the sizes by root at which the exported program was run and agreed with eager. ``limits`` are
    remarks about dimensions that were left out.
    """

    dims: dict[Dimension, Expression] = field(default_factory=dict)
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    sizes: list[dict[str, int]] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    program: Any = field(default=None, repr=False, compare=False)
    inputs: Inputs | None = field(default=None, repr=False, compare=False)

    @property
    def proven(self) -> bool:
        """Whether the program agreed with eager at three sizes, or nothing varies."""
        return len(self.sizes) >= 3

    @property
    def text(self) -> str:
        """Source of the argument: ``{"x": {0: Dim("batch"), 2: Dim("height")}}``."""
        if self.inputs is None:
            return "None"
        roots = {root: self._dim(root) for root in self.ranges}
        shapes = self.inputs.shapes({each: expr.text(roots[expr.root]) for each, expr in self.dims.items()})
        return _written(shapes)

    def _dim(self, root: str) -> str:
        low, high = self.ranges[root]
        bounds = "".join(f", {name}={value}" for name, value in (("min", low), ("max", high)) if value is not None)
        return f'Dim("{root}"{bounds})'

    def shapes(self) -> Any:
        """The argument itself, for torch.export."""
        from torch.export import Dim

        assert self.inputs is not None
        made: dict[str, Any] = {}
        for root, (low, high) in self.ranges.items():
            bounds = {name: value for name, value in (("min", low), ("max", high)) if value is not None}
            made[root] = Dim(root, **bounds)
        values = {}
        for each, expr in self.dims.items():
            size = made[expr.root] if expr.factor == 1 else expr.factor * made[expr.root]
            values[each] = size + expr.shift if expr.shift else size
        return self.inputs.shapes(values)


def propose(module: torch.nn.Module, shapes: Shapes, varying: Iterable[Dimension] = ()) -> Specification:
    """A specification for a model that `pins.analyse` looked at.

    Dimensions that stay symbols are used, in groups of equal ones, if the model itself accepts another size. torch's
    suggestions (ranges, multiples, equal dimensions) are followed until the export succeeds; a dimension for which
    torch suggests only a constant is left out. ``varying`` restricts it to dimensions that are known to vary.
    """
    return _Proposal(module, shapes, set(varying)).run()


def varies(module: torch.nn.Module, inputs: Inputs, dimensions: Iterable[Dimension]) -> bool:
    """Whether torch.export accepts these dimensions as dynamic, and the program agrees with eager at the sizes of
    ``inputs`` and at one other. The model's state is restored."""
    from torch.export import Dim

    group = sorted(dimensions)
    try:
        with restored(module):
            args, kwargs = copied((inputs.args, inputs.kwargs))
            shapes = inputs.shapes(dict.fromkeys(group, Dim.DYNAMIC))
            program = torch_side.exported(module, args, kwargs, shapes).module()
        for given in (inputs, inputs.resized({each: inputs.dimensions()[each] + 3 for each in group})):
            with restored(module):
                expected = _run(module, given)
            with restored(module):
                if not _equal(expected, _run(program, given)):
                    return False
    except Exception:
        return False
    return True


def _run(call: Any, inputs: Inputs) -> Any:
    with torch_side.quiet(), torch.no_grad():
        torch.manual_seed(0)
        return call(*copied(inputs.args), **copied(inputs.kwargs))


class _Proposal:
    def __init__(self, module: torch.nn.Module, shapes: Shapes, varying: set[Dimension]) -> None:
        self.module = module
        self.inputs = shapes.inputs
        self.known = shapes.inputs.dimensions()
        groups = [group & shapes.free for group in shapes.groups if group & shapes.free]
        alone = [{each} for each in sorted(shapes.free) if not any(each in group for group in groups)]
        wanted = [group for group in (*groups, *alone) if not varying or group & varying]
        self.groups = sorted(wanted, key=lambda group: sorted(group))

    def run(self) -> Specification:
        specification = Specification(inputs=self.inputs)
        names: set[str] = set()
        for group in self.groups:
            if self._varies(group):
                name = self._name(group, names)
                names.add(name)
                specification.ranges[name] = (None, self._most(group))
                specification.dims.update({each: Expression(name) for each in group})
        self._export(specification)
        while specification.program is not None and specification.dims:
            wrong = self._prove(specification)
            if wrong is None:
                break
            self._drop(specification, wrong, "the program gives different results from the model at another size")
            self._export(specification)
        return specification

    # ---- names

    def _name(self, group: set[Dimension], taken: set[str]) -> str:
        tensors = self.inputs.tensors()
        first = min(group, key=lambda each: (each.dim, each.path))
        rank = tensors[first.path].dim()
        name = f"{re.sub(r'[^0-9a-zA-Z]+', '_', first.name).strip('_')}_{first.dim}"
        if first.dim == 0 and rank > 0:
            name = "batch" if "batch" not in taken else name
        elif rank >= 4 and first.dim >= rank - 2:
            name = "height" if first.dim == rank - 2 else "width"
        elif first.dim == 1 and (rank == 3 or not tensors[first.path].is_floating_point()):
            name = "length"
        if name in taken:
            name = f"{re.sub(r'[^0-9a-zA-Z]+', '_', first.name).strip('_')}_{first.dim}"
        return name

    # ---- eager

    def _varies(self, group: set[Dimension]) -> bool:
        """Whether the model accepts another size of these dimensions."""
        size = self.known[next(iter(group))]
        for other in (size + 1, 2 * size):
            try:
                with restored(self.module):
                    _run(self.module, self.inputs.resized(dict.fromkeys(group, other)))
            except Exception:
                continue
            return True
        return False

    def _most(self, group: set[Dimension]) -> int | None:
        """The largest size for which an embedding of positions has rows. torch.export cannot know it, since the indices
        are values."""
        tensors = self.inputs.tensors()
        tokens = (each for each in group if not tensors[each.path].is_floating_point())
        if not any(each.dim == min(tensors[each.path].dim() - 1, 1) for each in tokens):
            return None  # a batch or an image
        size = self.known[next(iter(group))]
        tables = {each.num_embeddings for each in self.module.modules() if isinstance(each, torch.nn.Embedding)}
        for rows in sorted(each for each in tables if size < each <= _LONGEST):
            if not self._outside(group, rows + 1):
                continue
            # A table may begin with rows for padding: two in OPT and RoBERTa.
            return next((each for each in range(rows, max(rows - 4, size), -1) if not self._outside(group, each)), None)
        return None

    def _outside(self, group: set[Dimension], size: int) -> bool:
        """Whether the model rejects this size."""
        try:
            with restored(self.module):
                _run(self.module, self.inputs.resized(dict.fromkeys(group, size)))
        except (IndexError, RuntimeError) as error:
            return "allocate" not in str(error)
        except Exception:
            return False
        return False

    # ---- torch.export

    def _export(self, specification: Specification) -> None:
        specification.program = None
        for _ in range(_ROUNDS):
            if not specification.dims:
                return
            try:
                with restored(self.module):
                    args, kwargs = copied((self.inputs.args, self.inputs.kwargs))
                    specification.program = torch_side.exported(self.module, args, kwargs, specification.shapes())
                return
            except Exception as error:
                if not self._follow(specification, str(error)):
                    return

    def _follow(self, specification: Specification, text: str) -> bool:
        """Change the specification as torch suggests. False if it suggests nothing that can be done."""
        _, found, rest = text.partition("Suggested fixes:")
        changed = False
        unequal = "!=" in text
        for line in rest.strip("\n").splitlines() if found else ():
            fix = _FIX.match(line)
            if fix is None:
                break
            changed = self._apply(specification, fix["name"], fix["value"]) or changed
        if changed:
            return True
        for root in dict.fromkeys(re.findall(r"of (\w+) = ", text)) if unequal else ():
            # Some sizes of the range would give another program: drop the smallest, if nothing else is known.
            if root not in specification.ranges:
                continue
            low, high = specification.ranges[root]
            example = self._example(specification, root)
            least, most = around(text, root, low or 2, high, example)
            if (least, most) == (low or 2, high):
                least = min(least + 1, example)
            if (least, most) != (low or 2, high):
                specification.ranges[root] = (low if least == 2 else least, most)
                changed = True
        if changed:
            return True
        # Without a suggestion, the named dimensions are left out one by one; if none is named, the batch comes last.
        violated = re.search(r"Constraints violated \(([^)]+)\)", text)
        named = violated[1].split(", ") if violated else re.findall(r"\w+", text)
        inner_first = sorted(reversed(specification.ranges), key="batch".__eq__)
        for root in (*named, *inner_first):
            if root in specification.ranges:
                self._drop(specification, root, "torch.export cannot keep it a symbol")
                return True
        return False

    def _example(self, specification: Specification, root: str) -> int:
        """The root's value in the example."""
        for each, expression in specification.dims.items():
            if expression.root == root:
                return expression.root_at(self.known[each]) or 0
        return 0

    def _apply(self, specification: Specification, name: str, value: str) -> bool:
        if dim := _DIM.match(value):
            low, high = (
                int(bound) if bound and bound.lstrip("-").isdigit() else None for bound in (dim["min"], dim["max"])
            )
            if name.startswith("_") or name in specification.ranges:
                low = low if low is not None and low > 1 else None
                high = specification.ranges.get(name, (None, None))[1] if high is None else high
                changed = specification.ranges.get(name) != (low, high)
                specification.ranges[name] = (low, high)
                return changed
            return False
        if name not in specification.ranges:
            return False
        if value.isdigit() or value == "None":
            self._drop(specification, name, f"torch.export makes it the constant {value}")
            return True
        derived = _DERIVED.match(value)
        if derived is None:
            self._drop(specification, name, f"torch.export requires {value}")
            return True
        expression = Expression(
            derived["root"], int(derived["factor"] or 1), int((derived["shift"] or "0").replace(" ", ""))
        )
        for each, old in specification.dims.items():
            if old.root == name:
                specification.dims[each] = expression
        del specification.ranges[name]
        specification.ranges.setdefault(expression.root, (None, None))
        return True

    @staticmethod
    def _drop(specification: Specification, root: str, reason: str) -> None:
        gone = [each for each, expression in specification.dims.items() if expression.root == root]
        for each in gone:
            del specification.dims[each]
        specification.ranges.pop(root, None)
        specification.limits.append(f"{', '.join(each.text for each in sorted(gone))}: {reason}")

    # ---- proof

    def _prove(self, specification: Specification) -> str | None:
        """Run the program and the model at three sizes of each root, with the others unchanged, and of all at once.

        Returns the root for which they do not agree; None if all agree."""
        base = {}
        for expression in specification.dims.values():
            base[expression.root] = self._example(specification, expression.root)
        specification.sizes = [base] if self._agrees(specification, base) else []
        if not specification.sizes:
            return next(iter(base))
        together: list[dict[str, int]] = [dict(base), dict(base)]
        for root, value in base.items():
            good = []
            for other in _others(value, *specification.ranges[root]):
                agrees = self._agrees(specification, {**base, root: other})
                if agrees is False:
                    return root
                if agrees:
                    good.append(other)
                if len(good) == 2:
                    break
            for sizes, other in zip(together, good, strict=False):
                sizes[root] = other
        for sizes in together:
            if sizes != base and self._agrees(specification, sizes):
                specification.sizes.append(sizes)
        return None

    def _agrees(self, specification: Specification, values: dict[str, int]) -> bool | None:
        """Whether both return the same; None if the model itself rejects these sizes."""
        sizes = {each: expression.at(values[expression.root]) for each, expression in specification.dims.items()}
        inputs = self.inputs.resized(sizes)
        try:
            with restored(self.module):
                expected = _run(self.module, inputs)
        except Exception:
            return None
        try:
            with restored(self.module):
                found = _run(specification.program.module(), inputs)
        except Exception:
            return False
        return _equal(expected, found)


def _others(value: int, low: int | None, high: int | None) -> Iterator[int]:
    """Further sizes to try for a dimension."""
    for other in (value + 1, 2 * value, value + 3, 3 * value, value - 1, value // 2):
        if other != value and other >= max(low or 2, 2) and (high is None or other <= high):
            yield other


def _equal(expected: Any, found: Any) -> bool:
    one, other = pytree.tree_leaves(expected), pytree.tree_leaves(found)
    if len(one) != len(other):
        return False
    for left, right in zip(one, other, strict=True):
        if isinstance(left, torch.Tensor) != isinstance(right, torch.Tensor):
            return False
        if not isinstance(left, torch.Tensor):
            continue
        if left.shape != right.shape or left.dtype != right.dtype:
            return False
        if left.device.type != "meta" and not torch.allclose(left.double(), right.double(), 1e-3, 1e-4, equal_nan=True):
            return False
    return True


def _written(value: Any) -> str:
    """``dynamic_shapes`` as source, without dimensions that do not vary."""
    if isinstance(value, dict):
        entries = {key: _written(item) for key, item in value.items() if not isinstance(key, int) or item is not None}
        if not entries and value:
            return "None"
        return "{" + ", ".join(f"{_key(key)}: {text}" for key, text in entries.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_written(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return str(value)


def _key(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) else repr(key)
