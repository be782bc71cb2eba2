"""Options that are modules, classes of them, and functions: from annotations, uses and names."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from ..scope import spelled
from . import annotated, kinds
from .abstract import concrete
from .names import snake, words
from .places import NOTHING, View
from .slots import Option, Slot

if TYPE_CHECKING:
    from .options import Options


class Modules:
    """Makes these options for `Options`."""

    def __init__(self, options: Options) -> None:
        self._of = options

    def of_call(self, slot: Slot, how: str) -> list[Option]:
        found = []
        for note in (slot.annotation, *(place.annotation for place in slot.view.places)):
            for arm in annotated.members(note):
                if isinstance(arm, type) and annotated.kind(arm) == "call":
                    found.append(self.call_of(arm, how, slot))
        return found

    def call_of(self, kind: type, how: str, slot: Slot) -> Option:
        """``Config(dim=64)``: the class with its required parameters."""
        option = Option("call", how, head=spelled(kind, self._of.names), makes=kind)
        reading = self._of.reader.constructor(kind) if self._of.reader.is_own(kind.__init__) else None  # type: ignore[misc]
        for name, (note, default) in annotated.fields(kind).items():
            places = [reading.parameters[name]] if reading is not None and name in reading.parameters else []
            view = View([*places, *slot.view.part("attribute", name).places])
            if default is NOTHING:
                option.parts[name] = self._of.slot(name, view, (*slot.path, name), note, within=(*slot.within, kind))
            else:
                option.known[name] = self._of.slot(name, view, (*slot.path, name), note, default, (*slot.within, kind))
        return option

    def of_class(self, slot: Slot, how: str) -> list[Option]:
        """Options for a class, or another callable that makes a module."""
        import torch

        nn = torch.nn
        asked = words(slot.name)
        usual: list[Any] = []
        counts = [d[0] + len(d[1]) for d in slot.view.details("call") if isinstance(d, tuple)]
        name = snake(slot.name)
        if "norm" in name or "bn" in asked:
            flat = self._uses_layers(slot, ("Conv2d", "ConvTranspose2d"))
            usual = [nn.BatchNorm2d, nn.LayerNorm] if flat else [nn.LayerNorm, nn.BatchNorm2d, nn.BatchNorm1d]
            if counts and counts[0] >= 2 and not flat:
                usual = [nn.LayerNorm, nn.GroupNorm]
        elif "act" in name or "nonlin" in name:
            usual = [nn.GELU, nn.ReLU]
        elif "conv" in name:
            usual = [nn.Conv2d, nn.Conv1d, nn.Linear]
        elif "pool" in name:
            usual = [nn.MaxPool2d, nn.AvgPool2d]
        elif "drop" in name:
            usual = [nn.Dropout]
        elif "linear" in name:
            usual = [nn.Linear]
        elif "rnn" in name or "cell" in name:
            usual = [nn.LSTM, nn.GRU]
        for arm in annotated.members(slot.annotation):
            bound = next((each for each in getattr(arm, "__args__", ()) if isinstance(each, type)), None)
            if bound is not None and bound is not nn.Module:
                usual.insert(0, bound)
        own = self._own_classes(slot, asked, counts)
        if not usual and not own:
            own = self._own_classes(slot, [], counts)[:2] if slot.view.keys("attribute") else []
        found = [Option("class", "name", spelled(each, self._of.names)) for each in [*own, *usual]]
        return [*found, Option("class", how, "nn.Identity"), Option("class", how, "nn.Linear")]

    def _uses_layers(self, slot: Slot, layers: tuple[str, ...]) -> bool:
        """Whether the constructed class makes layers of these names."""
        node = self._of.reader.sources.of_function(self._of.target.__init__)  # type: ignore[misc]
        return node is not None and any(
            (isinstance(each, ast.Attribute) and each.attr in layers)
            or (isinstance(each, ast.Name) and each.id in layers)
            for each in ast.walk(node)
        )

    def _own_classes(self, slot: Slot, asked: list[str], counts: list[int]) -> list[type]:
        """Module classes in sight whose name shares a word with the parameter's."""
        import torch

        needed = [key for key in slot.view.keys("attribute") if isinstance(key, str)] if counts else []
        found: list[tuple[int, type]] = []
        general = {"layer", "module", "type", "class", "cls", "fn", "func", "net", "model", "num", "n"}
        joined = "".join(asked)
        for value in dict.fromkeys(each for each in self._of.names.values() if isinstance(each, type)):
            if not issubclass(value, torch.nn.Module) or value is self._of.target or value in slot.within:
                continue
            if value.__module__.startswith("torch.") or any(not hasattr(value, key) for key in needed):
                continue
            if counts and not _accepts(value, max(counts)):
                continue
            own = words(value.__name__)
            shared = sum(len(word) if word not in general else 1 for word in set(asked) & set(own))
            if len(joined) > 2 and (joined in value.__name__.lower() or value.__name__.lower() in joined):
                shared += len(joined)
            if not asked:
                shared = 1
            if shared > (1 if asked else 0) or (shared and set(asked) <= general and set(asked) <= set(own)):
                found.append((-shared * 10 + len(own), value))
        if (
            not found
            and counts
            and asked
            and set(asked) <= general | {"block", "conv", "unit", "cell", "stage", "bottleneck"}
        ):
            # A name like `block` says nothing: use the first class of the file that accepts these arguments.
            return self._own_classes(slot, [], counts)
        found.sort(key=lambda pair: pair[0])
        return [each for _, each in found[:4]]

    def of_callable(self, slot: Slot, how: str) -> list[Option]:
        made = slot.view.part("result")
        makes_modules = made.has("call", "module", "layer") or annotated.kind(slot.annotation) == "class"
        asked = words(slot.name)
        name = snake(slot.name)
        given = annotated.result(slot.annotation)
        if given in ("int", "float", "bool", "str"):
            return [Option("callable", how, f"lambda *_: {each.text}") for each in self._of.of_kind(given, how, slot)]
        if not makes_modules:
            texts = [repr(each) for each in slot.view.details("compare") if type(each) is str]
            if {"opt", "optim", "optimizer"} & set(asked):
                made_from = ["torch.optim.Adam"]
            elif "act" in name or "nonlin" in name:
                made_from = ["F.relu", "nn.ReLU()", "nn.ReLU"]
            elif "norm" in name:
                made_from = ["nn.LayerNorm(64)", "nn.LayerNorm", "nn.Identity()"]
            else:
                made_from = []
            if texts:
                return [
                    *self._of.of_kind("str", how, slot),
                    *(Option("callable", how, each) for each in made_from),
                ]
            found = [Option("callable", how, each) for each in made_from]
            if self._is_factory(asked) or slot.view.has("attribute"):
                return [*found, *self.of_class(slot, how), *self.of_module(slot, how)]
            return [*found, *self.of_module(slot, how), *self.of_class(slot, how)]
        return [*self.of_class(slot, how), *self.of_module(slot, how)]

    def _is_factory(self, asked: list[str]) -> bool:
        return bool({"layer", "block", "class", "cls", "type", "builder"} & set(asked))

    of_norm = of_act = of_callable

    def of_module(self, slot: Slot, how: str) -> list[Option]:
        """Options for a module: one of the workspace whose name fits, or one that returns its first argument."""
        import torch

        found = []
        if self._of.depth < 4:
            needed = words(slot.name)
            for kind in self._own_classes(slot, needed, []):
                if annotated.kind(slot.annotation) == "module" and not issubclass(kind, self._bound(slot.annotation)):
                    continue
                if all(_takes(kind, *detail) for detail in slot.view.details("call") if isinstance(detail, tuple)):
                    whole = [each for each in self._concrete(kind) if not _wraps(each, slot.name)]
                    found += [self.call_of(each, "name", slot) for each in whole]
            found = found[:3]
        note = annotated.members(slot.annotation)[0]
        for kind in [*self.tested(slot), *self.like(slot)]:
            if not any(each.head == spelled(kind, self._of.names) for each in found):
                found.insert(0, self.call_of(kind, "use", slot))
        if isinstance(note, type) and annotated.kind(note) == "module" and note.__module__.split(".")[0] != "torch":
            if note is not self._of.target:
                found[:0] = [self.call_of(each, "annotation", slot) for each in self._concrete(note)[:3]]
        elif isinstance(note, type) and issubclass(note, torch.nn.Linear):
            found.insert(0, Option("module", "annotation", "nn.Linear(64, 64)"))
        results = [d for d in slot.view.part("result").details("unpack") if isinstance(d, int)]
        given = [
            d
            for d in self._of.attributes(slot)
            if d not in kinds.MODULE_ATTRIBUTES or d.startswith(("num", "out", "in_", "embed"))
        ]
        parts = {key: self._of.slot(key, slot.view.part("attribute", key), (*slot.path, key)) for key in given}
        head = spelled(self._of.names["PassThrough"], self._of.names)
        option = Option("module", how, head=head, parts=parts)
        if results:
            count = Slot("results", View([]), (*slot.path, "results"))
            count.make = lambda _: [Option("int", "use", str(results[0]))]
            option.items.append(count)
        usual = ["nn.Identity()", "nn.Linear(64, 64)"]
        if {"net", "network", "model", "backbone", "encoder", "module"} & set(words(slot.name)):
            usual.append(
                "nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())"
            )
            if "torchvision" in self._of.names:
                usual.append("torchvision.models.resnet18()")
        return [*found, option, *(Option("module", how, text) for text in usual)]

    def _concrete(self, kind: type) -> list[type]:
        """The class, or its concrete subclasses."""
        return [each for each in concrete(kind, self._of.reader.sources) if each is not self._of.target] or [kind]

    def tested(self, slot: Slot) -> list[type]:
        """Classes of the workspace that the code checks with ``isinstance``."""
        found = [
            each for each in slot.view.details("isinstance") if isinstance(each, type) and each is not self._of.target
        ]
        return [each for each in found if self._of.reader.is_own(each.__init__)][:2]  # type: ignore[misc]

    def like(self, slot: Slot) -> list[type]:
        """Classes of the workspace that have all attributes read."""
        wanted = {key for key in slot.view.keys("attribute") if isinstance(key, str)}
        if len(wanted - kinds.MODULE_ATTRIBUTES) < 1:
            return []
        found = [
            each
            for each in self._of.reader.module_classes()
            if each is not self._of.target
            and wanted <= self._of.reader.attributes(each)
            and not _wraps(each, slot.name)
        ]
        asked = set(words(slot.name))
        imported = {getattr(each, "__module__", None) for each in self._of.names.values()}
        return sorted(
            found,
            key=lambda each: (
                not asked & set(words(each.__name__)),
                each.__module__ != self._of.target.__module__,
                each.__module__ not in imported,
            ),
        )[:2]

    def _bound(self, note: Any) -> type:
        import torch

        arm = annotated.members(note)[0]
        return arm if isinstance(arm, type) else torch.nn.Module


def _takes(kind: type, count: int, names: tuple[str, ...]) -> bool:
    """Whether the forward of a class accepts this many arguments, and these names."""
    try:
        parameters = list(inspect.signature(kind.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return True
    plain = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    known = {each.name for each in parameters}
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        count = 0
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        names = tuple(name for name in names if name in known)
    required = [each for each in plain[count:] if each.default is each.empty and each.name not in names]
    return count <= len(plain) and set(names) <= known and not required


def _wraps(kind: type, name: str) -> bool:
    """Whether the class itself needs an argument of such a name, ``actor_network`` for ``network``: it wraps such a
    module."""
    required = [each for each, (_, default) in annotated.fields(kind).items() if default is NOTHING]
    return any(words(each)[-1:] == words(name)[-1:] for each in required)


def _accepts(kind: type, count: int) -> bool:
    """Whether the class accepts this many arguments."""
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    required = sum(each.default is each.empty and each.kind is not each.VAR_KEYWORD for each in parameters)
    return required <= count <= len(parameters)
