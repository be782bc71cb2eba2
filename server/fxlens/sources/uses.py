"""Calls ``Net(…)`` and ``net(x)`` in a text: how its author constructs and calls the models.

Standard library only: the worker reads the same file.
"""

from __future__ import annotations

import ast
import bisect
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Candidate", "Source", "Uses", "bound", "called", "is_main_guard", "module_level", "trusted_imports"]

# Methods whose result has the same construction or shape as the object.
_TRANSPARENT = {"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_"}
_TRUSTED_ROOTS = {"torch", "torchvision", "torchaudio", "numpy", "math", "timm", "transformers", "functools", "einops"}
_SAFE_BUILTINS = {
    "int", "float", "bool", "str", "list", "tuple", "dict", "set", "range", "len", "min", "max", "sum", "abs",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """An expression that makes a module or its inputs, and its source.

    ``source`` is one of ``targets.ORDER``; ``file`` is the other file that contains it; ``made`` the construction of
    the module that is called with these inputs.
    """

    text: str
    source: str
    line: int | None = None
    file: str | None = None
    made: str | None = None


@dataclass(frozen=True)
class Candidate:
    """An expression for a class from a text: ``kind`` is ``construct`` or ``inputs``."""

    target: str
    kind: str
    source: Source


@dataclass(frozen=True)
class _Instance:
    target: str
    made: str | None


Known = dict[str, ast.expr]
"""Names, and ``self.name``, with their assigned values."""


_EXPECTS = re.compile(r"(\w+\.)*(raises|assertRaises\w*)\(")


def called(spellings: Iterable[str]) -> re.Pattern[str]:
    """Finds calls of these names."""
    return re.compile(rf"\b({'|'.join(map(re.escape, spellings)) or '(?!)'})\s*\(")


class Uses:
    """Calls ``Net(…)`` and ``net(x)`` in module code, under the main guard and in functions.

    An expression counts if its names can be resolved: to module-level names, or to earlier plain assignments in the
    same scope, which are inlined.

    Args:
        classes: the text's spelling of each class (``Net``, ``models.Net``) -> its name.
        names: the names that expressions may use; by default those of the text's own module level.
        trusted: those of them whose calls may make examples; by default from the text's imports.
        file: the file of the text, if that is a test and not the classes' own file. Its module level is then resolved
            like any other scope, and pytest's fixtures and parameters get their first value.
    """

    def __init__(
        self,
        tree: ast.Module,
        classes: Mapping[str, str],
        lines: list[str],
        *,
        names: set[str] | None = None,
        trusted: set[str] | None = None,
        file: str | None = None,
    ) -> None:
        self.classes = classes
        self.file = file
        calls = called(classes)
        self.mentions = [number for number, line in enumerate(lines, 1) if calls.search(line)]
        self.found: list[Candidate] = []
        self.globals = set(dir(builtins))
        self.globals |= names if names is not None else {n for node in module_level(tree.body) for n in bound(node)}
        self.trusted = trusted
        if trusted is None:
            self.trusted = {name for node in module_level(tree.body) for name in trusted_imports(node)}
        self.local: set[str] = set()
        """Names of the functions around, which hide those of the module."""
        self.fixtures: dict[str, ast.expr] = dict(_fixtures(tree)) if file else {}
        self._scope(tree.body, {}, {}, module=file is None)

    def _scope(self, body: list[ast.stmt], known: Known, instances: dict[str, _Instance], module: bool) -> None:
        for node in body:
            self._statement(node, known, instances, module)

    def _statement(self, node: ast.stmt, known: Known, instances: dict[str, _Instance], module: bool) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if self._mentioned(node):
                self._function(node, known, instances if self.file else {})
            return
        if isinstance(node, ast.ClassDef):
            inside, own = dict(known) if self.file else {}, dict(instances) if self.file else {}
            methods = [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
            for statement in _of_self(methods) if self.file else ():
                self._assign(statement, inside, own, module=False)
            for part in methods:
                if self._mentioned(part):
                    self._function(part, inside, own)
            return
        if isinstance(node, ast.With) and any(_EXPECTS.match(ast.unparse(each.context_expr)) for each in node.items):
            return  # meant to fail
        inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(node, "handlers", [])]
        if any(inner):
            guard = is_main_guard(node)
            for statements in inner:
                for statement in statements:
                    self._statement(statement, known, instances, module and not guard)
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
                # The number of iterations is unknown, and so are the variables that the loop accumulates.
                for each in ast.walk(node):
                    if isinstance(each, ast.AugAssign):
                        known.pop(_spelled(each.target) or "", None)
            return
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                self._call(call, known, instances)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node, known, instances, module)
        elif isinstance(node, ast.AugAssign) and (value := known.get(_spelled(node.target) or "")) is not None:
            known[_spelled(node.target) or ""] = ast.BinOp(value, node.op, node.value)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, known: Known, instances: dict[str, _Instance]
    ) -> None:
        parameters = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        inside = {name: value for name, value in known.items() if name not in parameters}
        own = {name: made for name, made in instances.items() if name not in parameters}
        if self.file:
            given = {name: value for name, value in self.fixtures.items() if name in parameters}
            for name, value in {**given, **_parametrized(node)}.items():
                self._bind(name, value, inside, own, module=False)
        before = self.local
        self.local = (
            before
            | parameters
            | {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        )
        self._scope(node.body, inside, own, module=False)
        self.local = before

    def _mentioned(self, node: ast.stmt) -> bool:
        """Whether one of the classes is called on a line of this function; most functions do not and are skipped."""
        if self.file:
            return True
        at = bisect.bisect_left(self.mentions, node.lineno)
        return at < len(self.mentions) and self.mentions[at] <= (node.end_lineno or node.lineno)

    def _assign(
        self, node: ast.Assign | ast.AnnAssign, known: Known, instances: dict[str, _Instance], module: bool
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        name = _spelled(targets[0]) if len(targets) == 1 else None
        if node.value is None or name is None or not (name.isidentifier() or name.startswith("self.")):
            for name in bound(node):
                known.pop(name, None)
            return
        self._bind(name, node.value, known, instances, module)

    def _bind(self, name: str, value: ast.expr, known: Known, instances: dict[str, _Instance], module: bool) -> None:
        made = self._constructed(value)
        if made:
            # One of this module is a construction by its name.
            text = self._resolved(_unwrapped(value), known) if self.file or not module else None
            instances[name] = _Instance(made, text)
            if module:
                self._add(made, "construct", name, "instance", value.lineno)
        if module:
            known.pop(name, None)  # it is in the module's own namespace
        else:
            known[name] = value

    def _constructed(self, value: ast.expr) -> str | None:
        """The class that this expression instantiates, also within ``.eval()`` and the like."""
        value = _unwrapped(value)
        return self.classes.get(_spelled(value.func) or "") if isinstance(value, ast.Call) else None

    def _call(self, call: ast.Call, known: Known, instances: dict[str, _Instance]) -> None:
        own = self.classes.get(_spelled(call.func) or "")
        if own is not None:
            if (text := self._resolved(call, known)) is not None:
                self._add(own, "construct", text, "call", call.lineno)
            return
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == "forward":
            function = function.value
        instance = instances.get(_spelled(function) or "")
        if instance is None and (made := self._constructed(function)):
            instance = _Instance(made, self._resolved(_unwrapped(function), known))
        if instance is not None and (call.args or call.keywords):
            arguments = ast.Call(ast.Name("f", ast.Load()), call.args, call.keywords)
            if (text := self._resolved(arguments, known, extra={"f"})) is not None:
                self._add(instance.target, "inputs", text[2:-1], "call", call.lineno, instance.made)

    def _add(self, target: str, kind: str, text: str, source: str, line: int, made: str | None = None) -> None:
        if self.file is not None:
            if kind == "inputs" and made is None:
                return  # the module's construction is unknown
            source = "test"
        self.found.append(Candidate(target, kind, Source(text, source, line, self.file, made)))

    def _resolved(
        self, expression: ast.expr, known: Known, extra: frozenset[str] | set[str] = frozenset()
    ) -> str | None:
        """The expression's text with local names replaced by their assigned values; None if that is impossible."""
        spelled = self.classes if self.file else {}
        inlined = _Inline(known, spelled).visit(ast.parse(ast.unparse(expression), mode="eval").body)
        own = {name.id for name in ast.walk(inlined) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        for node in ast.walk(inlined):
            if isinstance(node, ast.Name) and node.id not in (self.globals - self.local) | own | extra:
                return None
            if isinstance(node, ast.Call) and not self._safe(node.func, extra):
                return None
            if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
                return None
        return ast.unparse(inlined)

    def _safe(self, function: ast.expr, extra: frozenset[str] | set[str]) -> bool:
        """Whether this may be called to make an example: yes for classes and well-known libraries, no for the file's
        own functions."""
        while isinstance(function, ast.Attribute):
            function = function.value
        if isinstance(function, ast.Call):
            return self._safe(function.func, extra)
        if not isinstance(function, ast.Name):
            return not isinstance(function, ast.Lambda)
        name = function.id
        return (
            name in extra
            or name in (self.trusted or ())
            or name in self.classes.values()
            or name in _SAFE_BUILTINS
            or name[:1].isupper()
        )


class _Inline(ast.NodeTransformer):
    """Replaces names by values, and spellings of classes by their names."""

    def __init__(self, known: Known, classes: Mapping[str, str], depth: int = 8) -> None:
        self.known, self.classes, self.depth = known, classes, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.classes:
            return ast.Name(self.classes[node.id], ast.Load())
        return self._value(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        spelled = _spelled(node) or ""
        if spelled in self.classes:
            return ast.Name(self.classes[spelled], ast.Load())
        if spelled in self.known:
            return self._value(node, spelled)
        return self.generic_visit(node)

    def _value(self, node: ast.Name | ast.Attribute, name: str) -> ast.expr:
        value = self.known.get(name)
        if value is None or self.depth == 0 or not isinstance(node.ctx, ast.Load):
            return node
        rest = {other: expr for other, expr in self.known.items() if other != name}
        inner = _Inline(rest, self.classes, self.depth - 1)
        return inner.visit(ast.parse(ast.unparse(value), mode="eval").body)


def _spelled(node: ast.expr) -> str | None:
    """``Net`` or ``models.Net``; None for anything but a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _of_self(methods: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Assignments to attributes of ``self``, as in a ``setUp``."""
    for method in methods:
        for node in ast.walk(method):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if (_spelled(target) or "").startswith("self."):
                    yield node


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (_spelled(function) or "").rpartition(".")[2] == name:
            yield decorator


def _fixtures(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """pytest's fixtures by name, with the expression that they return."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not any(_decorated(node, "fixture")):
            continue
        local: Known = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                local[statement.targets[0].id] = statement.value
            given = statement.value if isinstance(statement, ast.Return) else None
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
                given = statement.value.value
            if given is not None:
                yield node.name, _Inline(local, {}).visit(ast.parse(ast.unparse(given), mode="eval").body)


def _parametrized(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The first values of ``pytest.mark.parametrize``."""
    found: dict[str, ast.expr] = {}
    for decorator in _decorated(node, "parametrize"):
        if not isinstance(decorator, ast.Call) or len(decorator.args) < 2:
            continue
        try:
            names = ast.literal_eval(decorator.args[0])
        except ValueError:
            continue
        values = decorator.args[1]
        first = values.elts[0] if isinstance(values, (ast.List, ast.Tuple)) and values.elts else None
        if isinstance(first, ast.Call) and (_spelled(first.func) or "").endswith("param"):
            first = ast.Tuple(first.args, ast.Load()) if len(first.args) > 1 else first.args[0] if first.args else None
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        if len(names) == 1 and first is not None:
            found[names[0]] = first
        elif isinstance(first, (ast.Tuple, ast.List)) and len(first.elts) == len(names):
            found.update(zip(names, first.elts, strict=True))
    return found


def _unwrapped(value: ast.expr) -> ast.expr:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _TRANSPARENT:
        value = value.func.value
    return value


def bound(node: ast.AST) -> Iterator[str]:
    """Names that this statement binds in its scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
        return
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif not isinstance(part, ast.stmt):
            yield from bound(part)


def trusted_imports(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] in _TRUSTED_ROOTS:
                yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _TRUSTED_ROOTS:
        for alias in node.names:
            yield alias.asname or alias.name


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if not is_main_guard(node):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                    yield from module_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from module_level(handler.body)


def is_main_guard(node: ast.stmt) -> bool:
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = (node.test.left, *node.test.comparators)
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
