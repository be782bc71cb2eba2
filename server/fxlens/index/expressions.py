"""Reading of expressions: what is known is computed, what is not stays an expression or becomes a hole."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from . import argparsers, configs
from .machine import Machine
from .values import (
    NONE,
    Apply,
    Attribute,
    Choice,
    Class,
    Const,
    External,
    Function,
    Hole,
    Item,
    Mapping,
    Method,
    Module,
    Object,
    Operation,
    Partial,
    Sequence,
    Tool,
    Unknown,
    Value,
    lift,
    literal,
    truth,
)  # fmt: skip

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
_METHODS = {kind: f"of_{kind.__name__}" for kind in ast.expr.__subclasses__()}
_MOST_ITEMS = 512
_LARGE = 1 << 64
_SYMBOLIC = (Apply, Attribute, Item, Operation)
_PLAIN_ERRORS = (TypeError, ValueError, ArithmeticError, KeyError, IndexError, AttributeError, RecursionError)


class Expressions(Machine):
    """``value(node)`` and what it needs."""

    def value(self, node: ast.expr) -> Value:
        self.step(node)
        method = getattr(self, _METHODS.get(node.__class__, ""), None)
        return Hole(_name_of(node)) if method is None else method(node)

    # ---- leaves

    def of_Constant(self, node: ast.Constant) -> Value:
        return Const(node.value)

    def of_Name(self, node: ast.Name) -> Value:
        found = self.read_name(node.id)
        if found is not None:
            return found
        if node.id == "__file__":
            return Const(self.frame.file)
        if node.id == "__name__":
            return Const("__main__")
        return External(f"builtins.{node.id}") if node.id in _BUILTINS else Hole(node.id)

    def of_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr)

    def of_Subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.value(node.value), self.value(node.slice))

    def of_Slice(self, node: ast.Slice) -> Value:
        found = [NONE if part is None else self.value(part) for part in (node.lower, node.upper, node.step)]
        try:
            return Const(slice(*map(literal, found)))
        except Unknown:
            return Hole("slice")

    def of_JoinedStr(self, node: ast.JoinedStr) -> Value:
        text = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text.append(str(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            try:
                text.append(format(literal(self.value(part.value)), _format_of(part)))
            except (Unknown, *_PLAIN_ERRORS):
                return Hole("text")
        return Const("".join(text))

    def of_Lambda(self, node: ast.Lambda) -> Value:
        return Function(self.frame.file, f"{self.frame.name}.<lambda>", node, self.frame.names)

    def of_Starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def of_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def of_Await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def of_Yield(self, node: ast.Yield) -> Value:
        self.frame.returned.append(self.value(node.value) if node.value else NONE)
        return Hole("sent")

    def of_YieldFrom(self, node: ast.YieldFrom) -> Value:
        found = self.items_of(self.value(node.value))
        self.frame.returned.extend(found or ())
        return NONE

    # ---- displays

    def of_List(self, node: ast.List) -> Value:
        return self._display(node.elts, "list")

    def of_Tuple(self, node: ast.Tuple) -> Value:
        return self._display(node.elts, "tuple")

    def of_Set(self, node: ast.Set) -> Value:
        return self._display(node.elts, "set")

    def _display(self, elements: list[ast.expr], kind: str) -> Value:
        items: list[Value] = []
        whole = True
        for element in elements:
            if isinstance(element, ast.Starred):
                inner = self.items_of(self.value(element.value))
                whole = whole and inner is not None
                items += inner or ()
            else:
                items.append(self.value(element))
        return self.new_list(items, kind, whole)

    def of_Dict(self, node: ast.Dict) -> Value:
        items: dict[Any, Value] = {}
        whole = True
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if isinstance(value, Mapping):
                    items.update(value.items)
                    whole = whole and value.whole
                else:
                    whole = False
                continue
            try:
                items[literal(self.value(key))] = value
            except (Unknown, TypeError):
                whole = False
        return self.new_dict(items, whole=whole)

    # ---- comprehensions

    def of_ListComp(self, node: ast.ListComp) -> Value:
        found: list[Value] = []
        whole = self._generate(node.generators, lambda: found.append(self.value(node.elt)))
        return self.new_list(found, whole=whole)

    def of_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return self.of_ListComp(ast.ListComp(node.elt, node.generators))

    def of_SetComp(self, node: ast.SetComp) -> Value:
        made = self.of_ListComp(ast.ListComp(node.elt, node.generators))
        assert isinstance(made, Sequence)
        made.kind = "set"
        return made

    def of_DictComp(self, node: ast.DictComp) -> Value:
        found: dict[Any, Value] = {}
        missed: list[bool] = []

        def turn() -> None:
            key, value = self.value(node.key), self.value(node.value)
            try:
                found[literal(key)] = value
            except (Unknown, TypeError):
                missed.append(True)

        whole = self._generate(node.generators, turn)
        return self.new_dict(found, whole=whole and not missed)

    def _generate(self, generators: list[ast.comprehension], turn: Callable[[], None]) -> bool:
        """Runs ``turn`` for every combination; once, with holes, where the items are not known.  Whether all ran."""
        if not generators:
            turn()
            return True
        first, rest = generators[0], generators[1:]
        items = self.items_of(self.value(first.iter))
        whole = items is not None and len(items) <= _MOST_ITEMS
        kept = dict(self.frame.names)
        for item in (items or [])[:_MOST_ITEMS] if items is not None else [Hole(_name_of(first.target))]:
            self.assign(first.target, item)
            answers = [truth(self.value(test)) for test in first.ifs]
            if all(answer is not False for answer in answers):
                whole = self._generate(rest, turn) and whole and None not in answers
        for name in set(self.frame.names) - set(kept):
            del self.frame.names[name]
        self.frame.names.update(kept)
        return whole

    # ---- operators

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(self, node: ast.expr, op: ast.operator, left: Value, right: Value) -> Value:
        """An operator on two values; ``node`` is the form that is kept where they are not known."""
        if isinstance(left, Sequence) and isinstance(right, Sequence) and isinstance(op, ast.Add):
            return self.new_list([*left.items, *right.items], left.kind, left.whole and right.whole)
        if isinstance(op, ast.BitOr) and isinstance(left, Mapping) and isinstance(right, Mapping):
            return self.new_dict({**left.items, **right.items}, left.kind, left.whole and right.whole)
        if isinstance(op, ast.Mult):
            for many, times in ((left, right), (right, left)):
                if isinstance(many, Sequence) and isinstance(times, Const) and isinstance(times.value, int):
                    return self.new_list(many.items * min(times.value, _MOST_ITEMS), many.kind, many.whole)
        try:
            a, b = literal(left), literal(right)
            if not _too_large(op, a, b):
                return lift(_BINARY[type(op)](a, b), self.clock)
        except (Unknown, KeyError):
            pass
        except _PLAIN_ERRORS:
            return Hole(_name_of(node))
        return self._symbolic(node, [left, right])

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            known = truth(operand)
            return self._symbolic(node, [operand]) if known is None else Const(not known)
        try:
            return lift(_UNARY[type(node.op)](literal(operand)))
        except (Unknown, KeyError, *_PLAIN_ERRORS):
            return self._symbolic(node, [operand])

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        """The first operand that decides; of one that is not known, the first that is."""
        wanted = isinstance(node.op, ast.Or)
        unknown = False
        value: Value = NONE
        for operand in node.values:
            value = self.value(operand)
            known = truth(value)
            if known is None:
                unknown = True
            elif known is wanted:
                # `x or default`: with x unknown the default is a good value; `x and False` is False in any case.
                return value
        if unknown:
            return Hole(_name_of(node.values[0]))
        return value

    def of_IfExp(self, node: ast.IfExp) -> Value:
        known = truth(self.value(node.test))
        if known is not None:
            return self.value(node.body if known else node.orelse)
        with self.perhaps():
            return self.either(self.value(node.body), self.value(node.orelse))

    def either(self, first: Value, second: Value) -> Value:
        """One of two values; both where they are callables or models."""
        options = [*_options(first), *_options(second)]
        if all(isinstance(each, (Class, Function, Partial, Object, External)) for each in options):
            return Choice(options[:12])
        for each in (first, second):
            if not isinstance(each, Hole) and not (isinstance(each, Const) and each.value is None):
                return each
        return second if isinstance(first, Hole) else first

    def of_Compare(self, node: ast.Compare) -> Value:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        answer = True
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            known = self._compared(op, left, right)
            if known is None:
                return self._symbolic(node, values)
            answer = answer and known
        return Const(answer)

    def _compared(self, op: ast.cmpop, left: Value, right: Value) -> bool | None:
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = _same(left, right)
            return None if same is None else same is isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._contains(op, left, right)
        if isinstance(op, (ast.Eq, ast.NotEq)):
            same = _same(left, right) if not isinstance(left, Const) or not isinstance(right, Const) else None
            if same is not None:
                return same is isinstance(op, ast.Eq)
        try:
            return bool(_COMPARED[type(op)](literal(left), literal(right)))
        except (Unknown, *_PLAIN_ERRORS):
            return None

    def _contains(self, op: ast.cmpop, item: Value, owner: Value) -> bool | None:
        found: bool | None = None
        try:
            if isinstance(owner, Mapping):
                key = literal(item)
                found = key in owner.items or (None if not owner.whole else False)
            elif isinstance(owner, Sequence):
                answers = [_same(item, each) for each in owner.items]
                found = True if True in answers else None if None in answers or not owner.whole else False
            else:
                found = literal(item) in literal(owner)
        except (Unknown, *_PLAIN_ERRORS):
            return None
        return None if found is None else found is isinstance(op, ast.In)

    def _symbolic(self, node: ast.expr, operands: list[Value]) -> Value:
        if all(isinstance(each, (Hole, *_SYMBOLIC, Const, Sequence)) for each in operands):
            return Operation(node, operands)
        return Hole(_name_of(node))

    # ---- iteration and items

    def items_of(self, value: Value) -> list[Value] | None:
        if isinstance(value, Sequence):
            return list(value.items) if value.whole else None
        if isinstance(value, Mapping) and value.kind != "namespace":
            return [Const(key) for key in value.items] if value.whole else None
        if isinstance(value, Const) and isinstance(value.value, str):
            return [Const(each) for each in value.value]
        if isinstance(value, Apply) and isinstance(value.function, External):
            return _numbers(value.function.name, value.args)
        return None

    def item(self, base: Value, index: Value) -> Value:
        key = _key(index)
        if isinstance(base, Choice):
            return self.item(base.options[0], index)
        if isinstance(base, Sequence) and key is not _NO_KEY and (isinstance(key, (int, slice))):
            try:
                found = base.items[key]
            except (IndexError, TypeError, ValueError):
                return Hole("item")
            if isinstance(found, list):
                return self.new_list(found, base.kind, base.whole)
            return found
        if isinstance(base, Sequence) and base.items:
            return base.items[0] if len(base.items) == 1 else Hole("item")
        if isinstance(base, Mapping):
            return self.key_of(base, key)
        if isinstance(base, Class):
            return base  # Base[T]
        if isinstance(base, Object):
            if (method := self.symbols.method(base.kind.symbol, "__getitem__")) is not None:
                bound = self.value_of(method)
                if isinstance(bound, Function):
                    bound = Function(bound.file, bound.name, bound.node, bound.env, method, base)
                    return self.call(bound, [index], {}, ast.Constant(None))
            return Hole(key if isinstance(key, str) else "item")
        if isinstance(base, Tool):
            return base.state.item(self, key) if hasattr(base.state, "item") else Hole("item")
        try:
            return lift(literal(base)[literal(index)])
        except (Unknown, *_PLAIN_ERRORS):
            pass
        if isinstance(base, _SYMBOLIC):
            return Item(base, index)
        return Hole(key if isinstance(key, str) else _text_name(base))

    def key_of(self, base: Mapping, key: Any) -> Value:
        """The item of a mapping.  Of a table of classes or functions all are given, the asked one first: any of them
        may be asked for another day."""
        callables = [each for each in base.items.values() if isinstance(each, (Class, Function, Partial, Choice))]
        known: Value | None = None
        if key is not _NO_KEY:
            try:
                known = base.items.get(key)
            except TypeError:
                return Hole("item")
        if len(callables) >= 2 and len(callables) >= len(base.items) - 1 and base.kind == "dict":
            first = [known] if known is not None else []
            return Choice([*first, *(each for each in callables if each is not known)][:40])
        if known is not None:
            return known
        if base.sources and configs.narrow(self, base, key):
            return self.key_of(base, key)
        return Hole(key if isinstance(key, str) else "item")

    # ---- attributes

    def attribute(self, base: Value, name: str) -> Value:
        if isinstance(base, Hole):
            return Hole(name)
        if isinstance(base, External):
            return argparsers.flag(self, name) if base.name.endswith("FLAGS") else External(f"{base.name}.{name}")
        if isinstance(base, Module):
            found = self.module_name(base.file, name)
            return Hole(name) if found is None else found
        if isinstance(base, Mapping):
            return self._of_mapping(base, name)
        if isinstance(base, Choice):
            options = [self.attribute(each, name) for each in base.options]
            known = [each for each in options if not isinstance(each, Hole)]
            return Choice(known) if len(known) > 1 else known[0] if known else Hole(name)
        if isinstance(base, Const) and isinstance(base.value, PurePath):
            part = getattr(base.value, name, None)
            if isinstance(part, (str, PurePath)):
                return Const(part)
        if isinstance(base, (Const, Sequence)):
            return Method(base, name)
        if isinstance(base, Tool):
            found = base.state.attribute(self, name) if hasattr(base.state, "attribute") else None
            return Method(base, name) if found is None else found
        if isinstance(base, _SYMBOLIC):
            return Attribute(base, name)
        if isinstance(base, Partial):
            return {"func": base.function}.get(name, Hole(name))
        return self.attribute_of_code(base, name)

    def _of_mapping(self, base: Mapping, name: str) -> Value:
        if base.kind != "dict" and name in base.items:
            return base.items[name]
        if name == "__dict__":
            return Mapping(base.items, "dict", base.whole, base.born, base.origin)
        if base.kind != "dict" and base.sources and configs.narrow(self, base, name):
            return base.items[name]
        if base.kind == "namespace" or (not hasattr(dict, name) and name not in _CONFIG_METHODS):
            base.missing[name] = None
            return Hole(name)
        return Method(base, name)


_NO_KEY = object()
_SAME_NAME = {
    "to", "cuda", "cpu", "float", "half", "double", "long", "int", "bool", "detach", "clone", "contiguous", "numpy",
    "squeeze", "unsqueeze", "view", "reshape", "permute", "transpose", "type", "item", "flatten", "requires_grad_",
    "get",
    "astype", "copy", "bfloat16", "repeat", "expand", "mean", "sum", "pop", "split", "strip", "tolist", "resolve",
}  # fmt: skip
_CONFIG_METHODS = {
    "clone", "freeze", "defrost", "merge_from_file", "merge_from_list", "merge_from_other_cfg", "to_dict", "merge",
    "set_new_allowed", "register_deprecated_key", "is_frozen", "to_container", "as_dict", "merge_from_dict", "lock",
    "unlock", "copy_and_resolve_references",
}  # fmt: skip
_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def _numbers(name: str, args: list[Value]) -> list[Value] | None:
    """What iterating over ``torch.linspace(0, 0.1, 12)`` gives."""
    try:
        given = [literal(each) for each in args]
        if name.endswith(".linspace") and len(given) == 3 and 0 < given[2] <= _MOST_ITEMS:
            start, end, count = given
            return [Const(round(start + (end - start) * at / max(count - 1, 1), 7)) for at in range(count)]
        if name.endswith(".arange") and len(range(*given)) <= _MOST_ITEMS:
            return [Const(each) for each in range(*given)]
    except (Unknown, *_PLAIN_ERRORS):
        pass
    return None


def _key(index: Value) -> Any:
    try:
        found = literal(index)
        hash(found if not isinstance(found, slice) else None)
    except (Unknown, TypeError):
        return _NO_KEY
    return found


def _same(left: Value, right: Value) -> bool | None:
    """Whether two values are one; None where that is not known.  What is not known is taken to be given: not None."""
    if isinstance(left, Const) and isinstance(right, Const):
        return left.value is right.value or left.value == right.value
    kinds = (Const, Class, External, Function, Sequence, Mapping)
    if isinstance(left, kinds) and isinstance(right, kinds) and type(left) is not type(right):
        return False
    if isinstance(left, Function) and isinstance(right, Function):
        return left.node is right.node
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        try:
            return bool(literal(left) == literal(right))
        except Unknown:
            return None
    if isinstance(left, Class) and isinstance(right, Class):
        return left.symbol == right.symbol
    if isinstance(left, External) and isinstance(right, External):
        return left.name == right.name
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const) and one.value is None and not isinstance(other, (Hole, *_SYMBOLIC)):
            return False
    return None


def _options(value: Value) -> list[Value]:
    return value.options if isinstance(value, Choice) else [value]


def _too_large(op: ast.operator, left: Any, right: Any) -> bool:
    """Whether carrying an operator out could take long or much memory."""
    if isinstance(op, (ast.Pow, ast.LShift)):
        return not isinstance(right, (int, float)) or abs(right) > 64 or (isinstance(left, int) and abs(left) > _LARGE)
    if isinstance(op, ast.Mult) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        many, times = (right, left) if isinstance(left, int) else (left, right)
        return not isinstance(times, int) or times * len(many) > 4096
    return isinstance(op, ast.Mod) and isinstance(left, str) and len(left) > 4096


def _format_of(part: ast.FormattedValue) -> str:
    spec = part.format_spec
    texts = (
        [each.value for each in spec.values if isinstance(each, ast.Constant)]
        if isinstance(spec, ast.JoinedStr)
        else []
    )
    text = "".join(map(str, texts))
    return text if len(text) < 10 and not any(len(run) > 3 for run in text.split(".")) else ""


def _text_name(base: Value) -> str:
    return base.name if isinstance(base, (Hole, Attribute)) else "item"


def _name_of(node: ast.AST) -> str:
    """What the text calls an expression: the last name in it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return index.value
        return _name_of(node.value)
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and (function.attr in _SAME_NAME or not node.args):
            return _name_of(function.value) if function.attr in _SAME_NAME else function.attr
        if isinstance(function, ast.Name) and function.id in ("int", "float", "str", "len", "list", "tuple", "Tensor"):
            return _name_of(node.args[0]) if node.args else function.id
        return _name_of(function)
    if isinstance(node, ast.BinOp):
        return _name_of(node.left)
    if isinstance(node, ast.Tuple) and node.elts:
        return _name_of(node.elts[0])
    return "value"


name_of = _name_of
no_key = _NO_KEY
