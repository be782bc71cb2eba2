"""Options for a parameter of a constructor, from hints, annotations, uses in the code and names."""

from __future__ import annotations

import ast
import functools
import inspect
import keyword
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from ..scope import AttrDict, spelled
from . import annotated, gym_spaces, kinds
from .modules import Modules
from .names import habit, snake, strings, words
from .places import NOTHING, View, singular
from .reading import Reader
from .slots import Option, Slot

MOST = 16
DEEPEST = 4
_MEMBERS = {"rnn": ("LSTM", "GRU"), "cell": ("LSTM", "GRU"), "norm": ("BatchNorm2d", "LayerNorm")}
"""What modules have under names with such a word in them."""
_USUAL_MEMBERS = ("ReLU", "relu", "GELU", "gelu", "BatchNorm2d", "LayerNorm", "Linear", "resnet18")
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
        self._modules = Modules(self)
        self._rows: dict[str, list[tuple[Any, ...] | list[Any]]] | None = None

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
        found += [self._hint(slot, text) for text in self.hints.get(slot.name, ())[:4]]
        ranked = kinds.ranked(slot.view, slot.annotation, slot.default)
        self.depth += 1
        # One of each kind first: the second-best number comes after the best list.
        rows = [self.of_kind(kind, how, slot) for kind, how in ranked[:5]]
        self.depth -= 1
        for row in rows[:1]:
            found += row[:1]
        if rows and ranked[0][0] in ("str", "choice", "callable", "module", "class"):
            found += rows[0][1:6]
        found += self._of_others(slot)
        found += [row[0] for row in rows[1:] if row]
        for row in rows:
            found += row[1:]
        found += self._fallbacks(slot)
        unique: dict[str, Option] = {}
        for option in found:
            unique.setdefault(option.signature, option)
        return list(unique.values())[:MOST]

    def _hint(self, slot: Slot, text: str) -> Option:
        """The argument of a call elsewhere; for a configuration, values that are read may be changed."""
        node = ast.parse(text, mode="eval").body
        head, data = _configuration(node, spelled(AttrDict, self.names))
        if isinstance(node, ast.List) and node.elts and slot.view.places:
            items = [
                self.slot(singular(slot.name), slot.view.part("item", at), (*slot.path, str(at)))
                for at in range(len(node.elts))
            ]
            for item, value in zip(items, node.elts, strict=True):
                item.make = functools.partial(self._hinted, ast.unparse(value))
            return Option("list", "hint", items=items)
        keys: list[Any] = [getattr(key, "value", None) for key in data.keys] if isinstance(data, ast.Dict) else []
        if not isinstance(data, ast.Dict) or not all(map(_is_name, keys)):
            return Option("hint", "hint", text)
        parts: dict[str, Slot] = {}
        for key, value in zip(keys, data.values, strict=True):
            view = View([*slot.view.part("attribute", key).places, *slot.view.part("key", key).places])
            parts[key] = self.slot(key, view, (*slot.path, key))
            parts[key].make = functools.partial(self._hinted, ast.unparse(value))
        # An argument that is apparently unused is written only once it is needed.
        read = {key: each for key, each in parts.items() if each.view.places} or parts
        rest = {key: each for key, each in parts.items() if key not in read}
        return Option("config" if head else "dict", "hint", head=head, parts=read, known=rest)

    def _hinted(self, text: str, slot: Slot) -> list[Option]:
        hint, view = self._hint(slot, text), slot.view
        own = self.options(slot) if view.places else []
        asked = view.has("truth") or None in view.details("compare")
        if text == "None" and own and not asked and view.has("index", "item", "iterate", "unpack", "length", "int"):
            return [own[0], hint, *own[1:]]  # the code probably replaces it, so it cannot be the final value
        return [hint, *own]

    def of_kind(self, kind: str, how: str, slot: Slot) -> list[Option]:
        """The options of a slot of this kind."""
        method = getattr(self, f"_{kind}", None) or getattr(self._modules, f"of_{kind}", None)
        if method is None or (kind in _NESTED and len(slot.path) > DEEPEST):
            return []
        return method(slot, how)

    def _of_others(self, slot: Slot) -> list[Option]:
        """Lists that are defaults of parameters of this name elsewhere in the module: ``kernel=(1, 3, 3, 1)``."""
        if self._rows is None:
            self._rows = {}
            for function in _functions(self.names, self.target.__module__):
                for name, each in inspect.signature(function).parameters.items():
                    if type(each.default) in (list, tuple) and each.default and literal(each.default) is not None:
                        self._rows.setdefault(name, []).append(each.default)
        return [Option("hint", "use", repr(each)) for each in self._rows.get(slot.name, ())]

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
        compared = [repr(each) for each in slot.view.details("compare") if type(each) is str and each]
        compared += [repr(key) for detail in slot.view.details("key_of") for key in detail if isinstance(key, str)]
        usual = strings(slot.name)
        holders = [each.value for each in slot.view.details("name_in")]
        # What a module has under that name, `getattr(nn, rnn_type)`, before what the code makes an exception of.
        named = [name for each in holders for name in self._members(each, _MEMBERS.get(_part_of(slot.name), ()))]
        others = [name for each in holders for name in self._members(each, (*words(slot.name), *_USUAL_MEMBERS))]
        texts = [*named, *compared, *others]
        if not texts:
            return [Option("str", "name" if usual else how, each) for each in usual or ("'a'",)]
        wanted = [each for each in usual if each in texts]
        return [Option("str", how, each) for each in dict.fromkeys([*wanted, *texts])]

    def _members(self, holder: Any, names: Sequence[str]) -> list[str]:
        return [repr(each) for each in names if hasattr(holder, each)]

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
        if gym_spaces.is_named(slot.name):
            texts.insert(1, "torch.ones(4, 84, 84)")  # its shape is read: frames of a game
        return [Option("tensor", how, text) for text in texts]

    def _space(self, slot: Slot, how: str) -> list[Option]:
        return gym_spaces.options(slot, how, self.names)

    def _list(self, slot: Slot, how: str, kind: str = "list") -> list[Option]:
        notes, fixed = self._item_notes(slot)
        numbers = all(annotated.kind(note) in ("int", "float", "bool") for note in notes)
        if numbers and slot.view.part("item").has("unpack", "iterate"):  # `for x, y in sizes`
            notes, fixed = [NOTHING], None
        length = fixed or self._length(slot)
        found = [Option("hint", how, row) for row in slot.view.details("row")]  # `assert sizes in [[1, 2], [3]]`
        if annotated.kind(slot.annotation) == "tuple" or slot.view.details("isinstance") == [tuple]:
            kind = "tuple"
        # Nested lists of lists would be too many.
        others = (2, 3, 4, 1) if fixed is None and len(slot.path) < 3 else ()
        for count in dict.fromkeys((length, *others)):
            items = []
            for index in range(count):
                note = notes[min(index, len(notes) - 1)]
                name = singular(slot.name)
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
        """Lists with growing values for widths of stages, ``[64, 128, 256]``, but not for window sizes."""
        wide = snake(slot.name).endswith("s") and not any(
            part in slot.name for part in ("head", "size", "group", "kernel")
        )
        make = item.make
        if not index or not wide or make is None or slot.view.details("unpack") != []:
            return

        def grown(each: Slot) -> list[Option]:
            found = make(each)
            first = found[0] if found else None
            if first is not None and first.kind == "int" and first.text.isdigit() and int(first.text) >= 16:
                found.insert(0, Option("int", first.how, str(int(first.text) * 2 ** min(index, 3))))
            return found

        item.make = grown

    def _mapping(self, slot: Slot, how: str) -> list[Option]:
        keys = [key for key in slot.view.keys("key") if isinstance(key, str)]
        optional = {key for key in slot.view.details("get") if isinstance(key, str)}
        attributes = self.attributes(slot)
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

    def attributes(self, slot: Slot) -> list[str]:
        optional = set(slot.view.details("hasattr"))
        names = [key for key in slot.view.keys("attribute") if isinstance(key, str) and key not in optional]
        return [name for name in names if not (name.startswith("__") and name.endswith("__"))]

    def _config(self, slot: Slot, how: str) -> list[Option]:
        made = self._modules
        like = [made.call_of(each, "use", slot) for each in [*made.tested(slot), *made.like(slot)]]
        return [*like, *self._settings(slot, how)]

    def _settings(self, slot: Slot, how: str) -> list[Option]:
        if annotated.is_attribute_dict(slot.annotation):
            return self._namespace(slot, how)[::-1]
        if slot.view.has("key", "get", "mapping", "contains", "star"):
            return [*self._mapping(slot, how), *self._namespace(slot, how)]
        return self._namespace(slot, how)

    def _namespace(self, slot: Slot, how: str) -> list[Option]:
        parts = {
            key: self.slot(key, slot.view.part("attribute", key), (*slot.path, key)) for key in self.attributes(slot)
        }
        from types import SimpleNamespace

        return [
            Option("config", how, head=spelled(SimpleNamespace, self.names), parts=parts),
            Option("config", how, head=spelled(AttrDict, self.names), parts=dict(parts)),
        ]


def _configuration(node: ast.expr, attributes: str) -> tuple[str, ast.expr]:
    """``AttrDict({…})`` and ``argparse.Namespace(…)`` as their class and a dict; others unchanged."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and called in (attributes, AttrDict.__name__) and len(node.args) == 1:
        return called, node.args[0]
    if isinstance(node, ast.Call) and called.rpartition(".")[2] == "Namespace" and not node.args:
        return called, ast.Dict([ast.Constant(each.arg) for each in node.keywords], [k.value for k in node.keywords])
    return "", node


def _functions(names: Mapping[str, Any], module: str) -> Iterator[FunctionType]:
    """The functions of a module, and the methods of its classes."""
    for each in list(names.values()):
        if getattr(each, "__module__", None) == module:
            inner = vars(each).values() if isinstance(each, type) else [each]
            yield from (one for one in inner if isinstance(one, FunctionType))


def _part_of(name: str) -> str:
    """The word of a name that `_MEMBERS` knows."""
    return next((each for each in words(name) if each in _MEMBERS), "")


def _is_name(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key)


def literal(value: Any) -> str | None:
    """A value as text, if it consists of numbers, strings and containers of them."""
    if value is None or type(value) in (int, bool, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if value == value and abs(value) != float("inf") else None
    if type(value) in (list, tuple, dict):
        parts = [*value] if type(value) is not dict else [*value.keys(), *value.values()]
        return repr(value) if all(literal(each) is not None for each in parts) else None
    return None
