"""Options for a parameter of a constructor, from hints, annotations, uses in the code and names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..scope import AttrDict, spelled
from . import annotated, kinds
from .names import habit, snake, strings, words
from .places import NOTHING, View
from .reading import Reader
from .slots import Option, Slot

MOST = 16
DEEPEST = 4
_NESTED = {"config", "mapping", "module", "call", "list", "tuple", "callable", "class", "norm", "act"}


class Options:
    """Makes the options of slots, for one class in one module's names.

    Args:
        names: what an expression may use, see ``worker.scope``.
        hints: by parameter's name, texts that calls elsewhere pass for it.
    """

    def __init__(self, reader: Reader, names: dict[str, Any], hints: Mapping[str, list[str]], target: type) -> None:
        self.reader = reader
        self.names = names
        self.hints = hints
        self.target = target
        self.depth = 0

    def slot(
        self,
        name: str,
        view: View,
        path: tuple[str, ...],
        annotation: Any = NOTHING,
        default: Any = NOTHING,
        within: tuple[type, ...] = (),
    ) -> Slot:
        return Slot(name, view, path, annotation, default, within, make=self.options)

    def options(self, slot: Slot) -> list[Option]:
        """All options of a slot, the most likely first, each text once."""
        found: list[Option] = []
        if slot.default is not NOTHING and (text := literal(slot.default)) is not None:
            found.append(Option(kinds.of_value(slot.default), "default", text))
        found += [Option("hint", "hint", text) for text in self.hints.get(slot.name, ())[:4]]
        ranked = kinds.ranked(slot.view, slot.annotation, slot.default)
        self.depth += 1
        # One of each kind first: the second best number comes after the best list.
        rows = [self._of_kind(kind, how, slot) for kind, how in ranked[:5]]
        self.depth -= 1
        for row in rows[:1]:
            found += row[:1]
        if rows and ranked[0][0] in ("str", "choice", "callable", "module", "class"):
            found += rows[0][1:6]
        found += [row[0] for row in rows[1:] if row]
        for row in rows:
            found += row[1:]
        found += self._fallbacks(slot)
        unique: dict[str, Option] = {}
        for option in found:
            unique.setdefault(option.signature, option)
        return list(unique.values())[:MOST]

    def _of_kind(self, kind: str, how: str, slot: Slot) -> list[Option]:
        method = getattr(self, f"_{kind}", None)
        if method is None or (kind in _NESTED and len(slot.path) > DEEPEST):
            return []
        return method(slot, how)

    def _fallbacks(self, slot: Slot) -> list[Option]:
        guess = habit(slot.name)
        number = guess is not None and guess.kind in ("int", "number")
        found = [Option("int", "name" if number else "trial", text) for text in self._sizes(slot)]
        more = [Option("none", "trial", "None"), Option("bool", "trial", "False"), Option("float", "trial", "0.5")]
        if number:
            return [*found, more[0], more[2]]
        return [*found[:1], *more, *found[1:], Option("class", "trial", "nn.Identity")]

    # One method for each kind

    def _sizes(self, slot: Slot) -> list[str]:
        for name, _ in slot.view.names():
            guess = habit(name)
            if guess is not None and guess.kind in ("int", "number", "list") and guess.values:
                return list(guess.values)
        own = habit(slot.name)
        return (
            list(own.values)
            if own is not None and own.kind in ("int", "number", "list") and own.values
            else ["16", "4", "2", "1"]
        )

    def _int(self, slot: Slot, how: str) -> list[Option]:
        compared = [d for d in slot.view.details("compare") if type(d) is int]
        keys = [key for detail in slot.view.details("key_of") for key in detail if type(key) is int]
        texts = [str(each) for each in keys]
        usual = self._sizes(slot)
        if compared and usual[0] not in map(str, compared) and habit(slot.name) is None:
            texts += [str(each) for each in compared if each > 0]
        return [Option("int", how, text) for text in dict.fromkeys([*texts, *usual, *map(str, compared)])]

    def _number(self, slot: Slot, how: str) -> list[Option]:
        return self._int(slot, how)

    def _float(self, slot: Slot, how: str) -> list[Option]:
        guess = next((h for name, _ in slot.view.names() if (h := habit(name)) and h.kind in ("float", "number")), None)
        values = guess.values if guess is not None else ("0.5", "1.0", "0.1")
        return [Option("float", how, text if "." in text or "e" in text else f"{text}.0") for text in values]

    def _bool(self, slot: Slot, how: str) -> list[Option]:
        guess = habit(slot.name)
        first = guess.values[0] if guess is not None and guess.kind == "bool" else "False"
        return [Option("bool", how, first), Option("bool", how, "True" if first == "False" else "False")]

    def _str(self, slot: Slot, how: str) -> list[Option]:
        texts = [repr(each) for each in slot.view.details("compare") if type(each) is str and each]
        texts += [repr(key) for detail in slot.view.details("key_of") for key in detail if isinstance(key, str)]
        usual = strings(slot.name)
        for holder in slot.view.details("name_in"):
            texts += self._members(holder.value, slot.name)
        if not texts:
            return [Option("str", "name" if usual else how, each) for each in usual or ("'a'",)]
        wanted = [each for each in usual if each in texts]
        return [Option("str", how, each) for each in dict.fromkeys([*wanted, *texts])]

    def _members(self, holder: Any, name: str) -> list[str]:
        usual = [*words(name), "ReLU", "relu", "GELU", "gelu", "BatchNorm2d", "LayerNorm", "Linear", "resnet18"]
        return [repr(each) for each in usual if hasattr(holder, each)]

    def _choice(self, slot: Slot, how: str) -> list[Option]:
        found = []
        for arm in annotated.members(slot.annotation) + [place.annotation for place in slot.view.places]:
            for each in annotated.choices(arm):
                text = literal(each)
                name = getattr(each, "name", None)
                if text is None and name is not None:
                    text = f"{spelled(type(each), self.names)}.{name}"
                if text is not None:
                    found.append(Option("choice", how, text))
        return found

    def _none(self, slot: Slot, how: str) -> list[Option]:
        return [Option("none", how, "None")]

    _path = _none

    def _device(self, slot: Slot, how: str) -> list[Option]:
        return [
            Option("device", how, "'cpu'"),
            Option("device", how, "torch.device('cpu')"),
            Option("none", how, "None"),
        ]

    def _dtype(self, slot: Slot, how: str) -> list[Option]:
        return [Option("dtype", how, "torch.float32"), Option("none", how, "None")]

    def _tensor(self, slot: Slot, how: str) -> list[Option]:
        rank = max([len(d) for d in slot.view.details("dims")], default=2)
        texts = [f"torch.ones({', '.join(['16'] * rank)})", "torch.ones(16)", "torch.ones(1)"]
        if slot.name.endswith("observation_space"):
            texts.insert(1, "torch.ones(4, 84, 84)")  # its shape is what is read: frames of a game
        return [Option("tensor", how, text) for text in texts]

    def _list(self, slot: Slot, how: str, kind: str = "list") -> list[Option]:
        notes, fixed = self._item_notes(slot)
        length = fixed or self._length(slot)
        found = []
        if annotated.kind(slot.annotation) == "tuple" or slot.view.details("isinstance") == [tuple]:
            kind = "tuple"
        for count in dict.fromkeys((length, 2, 3, 4, 1) if fixed is None else (length,)):
            items = []
            for index in range(count):
                note = notes[min(index, len(notes) - 1)]
                name = kinds_singular(slot.name)
                item = self.slot(
                    name, slot.view.part("item", index), (*slot.path, str(index)), note, within=slot.within
                )
                self._spread(slot, item, index)
                items.append(item)
            found.append(Option(kind, how, items=items))
        return found

    def _tuple(self, slot: Slot, how: str) -> list[Option]:
        return self._list(slot, how, "tuple")

    def _item_notes(self, slot: Slot) -> tuple[list[Any], int | None]:
        for note in (slot.annotation, *(place.annotation for place in slot.view.places)):
            for arm in annotated.members(note):
                if annotated.kind(arm) in ("list", "tuple"):
                    return annotated.items(arm)
        return [NOTHING], None

    def _length(self, slot: Slot) -> int:
        unpacked = [d for d in slot.view.details("unpack") if isinstance(d, int)]
        if unpacked:
            return unpacked[0]
        indexes = [d + 1 if d >= 0 else -d for d in slot.view.details("index") if isinstance(d, int)]
        return max([*indexes, 3 if slot.view.has("slice") else 2])

    def _spread(self, slot: Slot, item: Slot, index: int) -> None:
        """Widths of stages grow, ``[64, 128, 256]``; sizes of a window do not."""
        first = item.options()[0] if item.options() else None
        if first is None or first.kind != "int" or not first.text.isdigit():
            return
        size = int(first.text)
        wide = snake(slot.name).endswith("s") and not any(
            part in slot.name for part in ("head", "size", "group", "kernel")
        )
        if index and wide and size >= 16 and slot.view.details("unpack") == []:
            item.options().insert(0, Option("int", first.how, str(size * 2 ** min(index, 3))))

    def _mapping(self, slot: Slot, how: str) -> list[Option]:
        keys = [key for key in slot.view.keys("key") if isinstance(key, str)]
        optional = {key for key in slot.view.details("get") if isinstance(key, str)}
        attributes = self._attributes(slot)
        parts = {}
        for key in [*keys, *attributes]:
            part = slot.view.part("key", key) if key in keys else slot.view.part("attribute", key)
            if key not in optional:
                parts[key] = self.slot(key, part, (*slot.path, key))
        if attributes:
            return [Option("config", how, head=spelled(AttrDict, self.names), parts=parts)]
        if not parts and slot.view.has("mapping", "iterate") and not optional:
            value = self.slot("value", slot.view.part("value"), (*slot.path, "a"))
            return [Option("dict", how, parts={"a": value}), Option("dict", how, text="{}")]
        return [Option("dict", how, parts=parts)] if parts else [Option("dict", how, text="{}")]

    def _attributes(self, slot: Slot) -> list[str]:
        optional = set(slot.view.details("hasattr"))
        return [key for key in slot.view.keys("attribute") if isinstance(key, str) and key not in optional]

    def _config(self, slot: Slot, how: str) -> list[Option]:
        like = [self.call_of(each, "use", slot) for each in [*self._tested(slot), *self._like(slot)]]
        return [*like, *self._settings(slot, how)]

    def _settings(self, slot: Slot, how: str) -> list[Option]:
        if slot.view.has("key", "get", "mapping", "contains", "star"):
            return [*self._mapping(slot, how), *self._namespace(slot, how)]
        return self._namespace(slot, how)

    def _namespace(self, slot: Slot, how: str) -> list[Option]:
        parts = {
            key: self.slot(key, slot.view.part("attribute", key), (*slot.path, key)) for key in self._attributes(slot)
        }
        from types import SimpleNamespace

        return [
            Option("config", how, head=spelled(SimpleNamespace, self.names), parts=parts),
            Option("config", how, head=spelled(AttrDict, self.names), parts=dict(parts)),
        ]

    def _call(self, slot: Slot, how: str) -> list[Option]:
        found = []
        for note in (slot.annotation, *(place.annotation for place in slot.view.places)):
            for arm in annotated.members(note):
                if isinstance(arm, type) and annotated.kind(arm) == "call":
                    found.append(self.call_of(arm, how, slot))
        return found

    def call_of(self, kind: type, how: str, slot: Slot) -> Option:
        """``Config(dim=64)``: the class with its required parameters."""
        option = Option("call", how, head=spelled(kind, self.names))
        reading = self.reader.constructor(kind) if self.reader.is_own(kind.__init__) else None  # type: ignore[misc]
        for name, (note, default) in annotated.fields(kind).items():
            places = [reading.parameters[name]] if reading is not None and name in reading.parameters else []
            view = View([*places, *slot.view.part("attribute", name).places])
            if default is NOTHING:
                option.parts[name] = self.slot(name, view, (*slot.path, name), note, within=(*slot.within, kind))
            else:
                option.known[name] = self.slot(name, view, (*slot.path, name), note, default, (*slot.within, kind))
        return option

    def _class(self, slot: Slot, how: str) -> list[Option]:
        """A class, or something else that makes a module when it is called."""
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
        found = [Option("class", "name", spelled(each, self.names)) for each in [*own, *usual]]
        return [*found, Option("class", how, "nn.Identity"), Option("class", how, "nn.Linear")]

    def _uses_layers(self, slot: Slot, layers: tuple[str, ...]) -> bool:
        """Whether the class that is constructed makes layers of these names."""
        node = self.reader.sources.of_function(self.target.__init__)  # type: ignore[misc]
        import ast

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
        for value in dict.fromkeys(each for each in self.names.values() if isinstance(each, type)):
            if not issubclass(value, torch.nn.Module) or value is self.target or value in slot.within:
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
            # `block` says nothing: the first class of the file that takes these arguments.
            return self._own_classes(slot, [], counts)
        found.sort(key=lambda pair: pair[0])
        return [each for _, each in found[:4]]

    def _callable(self, slot: Slot, how: str) -> list[Option]:
        made = slot.view.part("result")
        makes_modules = made.has("call", "module", "layer") or annotated.kind(slot.annotation) == "class"
        asked = words(slot.name)
        name = snake(slot.name)
        if not makes_modules:
            texts = [repr(each) for each in slot.view.details("compare") if type(each) is str]
            if "act" in name or "nonlin" in name:
                made_from = ["F.relu", "nn.ReLU()", "nn.ReLU"]
            elif "norm" in name:
                made_from = ["nn.LayerNorm(64)", "nn.LayerNorm", "nn.Identity()"]
            else:
                made_from = []
            if texts:
                return [*self._str(slot, how), *(Option("callable", how, each) for each in made_from)]
            found = [Option("callable", how, each) for each in made_from]
            if self._is_factory(asked) or slot.view.has("attribute"):
                return [*found, *self._class(slot, how), *self._module(slot, how)]
            return [*found, *self._module(slot, how), *self._class(slot, how)]
        return [*self._class(slot, how), *self._module(slot, how)]

    def _is_factory(self, asked: list[str]) -> bool:
        return bool({"layer", "block", "class", "cls", "type", "builder"} & set(asked))

    _norm = _act = _callable

    def _module(self, slot: Slot, how: str) -> list[Option]:
        """A module that exists: one of the workspace whose name fits, or one that passes its first argument on."""
        found = []
        if self.depth < 4:
            needed = words(slot.name)
            for kind in self._own_classes(slot, needed, []):
                if annotated.kind(slot.annotation) == "module" and not issubclass(kind, self._bound(slot.annotation)):
                    continue
                if all(_takes(kind, *detail) for detail in slot.view.details("call") if isinstance(detail, tuple)):
                    found.append(self.call_of(kind, "name", slot))
            found = found[:3]
        note = annotated.members(slot.annotation)[0]
        import torch

        for kind in [*self._tested(slot), *self._like(slot)]:
            if not any(each.head == spelled(kind, self.names) for each in found):
                found.insert(0, self.call_of(kind, "use", slot))
        if isinstance(note, type) and annotated.kind(note) == "module" and note.__module__.split(".")[0] != "torch":
            if note is not self.target:
                found.insert(0, self.call_of(note, "annotation", slot))
        elif isinstance(note, type) and issubclass(note, torch.nn.Linear):
            found.insert(0, Option("module", "annotation", "nn.Linear(64, 64)"))
        results = [d for d in slot.view.part("result").details("unpack") if isinstance(d, int)]
        given = [
            d
            for d in self._attributes(slot)
            if d not in kinds.MODULE_ATTRIBUTES or d.startswith(("num", "out", "in_", "embed"))
        ]
        parts = {key: self.slot(key, slot.view.part("attribute", key), (*slot.path, key)) for key in given}
        head = spelled(self.names["PassThrough"], self.names)
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
            if "torchvision" in self.names:
                usual.append("torchvision.models.resnet18()")
        return [*found, option, *(Option("module", how, text) for text in usual)]

    def _tested(self, slot: Slot) -> list[type]:
        """Classes of the workspace that the code asks for with ``isinstance``."""
        found = [each for each in slot.view.details("isinstance") if isinstance(each, type) and each is not self.target]
        return [each for each in found if self.reader.is_own(each.__init__)][:2]  # type: ignore[misc]

    def _like(self, slot: Slot) -> list[type]:
        """Classes of the workspace that have all the attributes that are read."""
        wanted = {key for key in slot.view.keys("attribute") if isinstance(key, str)}
        if len(wanted - kinds.MODULE_ATTRIBUTES) < 1:
            return []
        found = [
            each
            for each in self.reader.module_classes()
            if each is not self.target and wanted <= self.reader.attributes(each)
        ]
        asked = set(words(slot.name))
        return sorted(
            found, key=lambda each: (not asked & set(words(each.__name__)), each.__module__ != self.target.__module__)
        )[:2]

    def _bound(self, note: Any) -> type:
        import torch

        arm = annotated.members(note)[0]
        return arm if isinstance(arm, type) else torch.nn.Module


def literal(value: Any) -> str | None:
    """A value as text, where it is made of numbers, texts and containers of them."""
    if value is None or type(value) in (int, bool, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if value == value and abs(value) != float("inf") else None
    if type(value) in (list, tuple, dict):
        parts = [*value] if type(value) is not dict else [*value.keys(), *value.values()]
        return repr(value) if all(literal(each) is not None for each in parts) else None
    return None


def kinds_singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 2 else name


def _takes(kind: type, count: int, names: tuple[str, ...]) -> bool:
    """Whether the forward of a class can be called with so many arguments and these names."""
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


def _accepts(kind: type, count: int) -> bool:
    """Whether the class can be called with so many arguments."""
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    required = sum(each.default is each.empty and each.kind is not each.VAR_KEYWORD for each in parameters)
    return required <= count <= len(parameters)
