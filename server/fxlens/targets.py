"""Which classes a file defines, and what its text says about how to construct them and which inputs to use.

Standard library only: the worker reads the same file.  Everything here is about text; whether a class really is an
``nn.Module``, and whether a candidate can be evaluated, is seen in the worker (``worker.construct``).
"""

from __future__ import annotations

import ast
import bisect
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMENT = re.compile(r"#\s*fxlens:\s*(?P<body>.*\S)")
_IGNORE = re.compile(r"ignore(\[(?P<codes>[A-Z0-9,\s]*)\])?(\s|$)")

# Methods that give the same module or tensor back, as far as construction and shapes go.
_TRANSPARENT = {"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_"}
_TRUSTED_ROOTS = {"torch", "torchvision", "torchaudio", "numpy", "math", "timm", "transformers", "functools", "einops"}
_SAFE_BUILTINS = {
    "int",
    "float",
    "bool",
    "str",
    "list",
    "tuple",
    "dict",
    "set",
    "range",
    "len",
    "min",
    "max",
    "sum",
    "abs",
}


@dataclass(frozen=True)
class Source:
    """An expression that the file (or a configuration) offers, and where it came from."""

    text: str
    source: str  # comment, config, instance, call, default, parent
    line: int | None = None


@dataclass
class Target:
    """One class statement.  ``line`` and the columns mark the name (1-based lines, UTF-8 columns)."""

    name: str
    line: int
    column: int
    end_line: int
    end_column: int
    first_line: int  # with decorators
    last_line: int
    construct: list[Source] = field(default_factory=list)
    inputs: list[Source] = field(default_factory=list)
    skip: bool = False
    leaf: bool = False


@dataclass(frozen=True)
class Comment:
    """One ``# fxlens: …`` comment: where it stands and what follows the colon."""

    line: int
    column: int
    end_column: int
    body: str


def find(tree: ast.Module, text: str) -> list[Target]:
    """Every class at module level (also under ``if`` and ``try``), with its candidates in the order they should be
    tried.

    Order: comment, module-level instance, calls in the file.  The file's configuration and the call without
    arguments are added by ``worker.construct``.
    """
    lines = text.splitlines()
    targets = [_target(node, lines) for node in _module_level(tree.body) if isinstance(node, ast.ClassDef)]
    by_name = {target.name: target for target in targets}
    for comment in comments(text):
        _apply(comment, by_name, targets)
    for candidate in _Uses(tree, set(by_name), lines).found:
        target = by_name[candidate.target]
        into = target.construct if candidate.kind == "construct" else target.inputs
        if candidate.source not in into:
            into.append(candidate.source)
    for target in targets:
        target.construct.sort(key=lambda source: _ORDER[source.source])
        target.inputs.sort(key=lambda source: _ORDER[source.source])
    return targets


_ORDER = {"comment": 0, "config": 1, "instance": 2, "call": 3, "default": 4}


def comments(text: str) -> list[Comment]:
    """All ``# fxlens:`` comments.  Text that cannot be tokenised is searched line by line instead."""
    if "fxlens:" not in text:
        return []
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := COMMENT.match(token.string)):
                column = len(token.line[: token.start[1]].encode())
                found.append(Comment(token.start[0], column, column + len(token.string.encode()), match["body"]))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if match := COMMENT.search(line):
                column = len(line[: match.start()].encode())
                found.append(Comment(number, column, len(line.encode()), match["body"]))
    return found


def ignored(text: str) -> dict[int, frozenset[str]]:
    """Lines with ``# fxlens: ignore`` and the codes named there; an empty set means all codes."""
    found = {}
    for comment in comments(text):
        if match := _IGNORE.match(comment.body):
            codes = match["codes"] or ""
            found[comment.line] = frozenset(code.strip() for code in codes.split(",") if code.strip())
    return found


def split_comment(body: str) -> tuple[str, str | None]:
    """``"Net(10) <- torch.randn(1, 3)"`` as construction and inputs.  Raises ValueError where neither half is
    Python."""
    start = 0
    while (at := body.find("<-", start)) >= 0:
        left, right = body[:at].strip(), body[at + 2 :].strip()
        if (not left or _is_expression(left)) and _is_expression(f"f({right})"):
            return left, right
        start = at + 2
    if not _is_expression(body):
        raise ValueError(f"not a Python expression: {body}")
    return body, None


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _apply(comment: Comment, by_name: dict[str, Target], targets: list[Target]) -> None:
    if _IGNORE.match(comment.body):
        return
    beside = _beside(comment, targets)
    if comment.body.split()[0] == "skip":
        if beside:
            beside.skip = True
        return
    try:
        construct, inputs = split_comment(comment.body)
    except ValueError:
        # Reported when it is evaluated, with Python's own words.
        construct, inputs = comment.body, None
    named = re.match(r"[A-Za-z_]\w*", construct)
    target = by_name.get(named[0]) if named else None
    target = target or beside
    if target is None:
        return
    if construct:
        target.construct.append(Source(construct, "comment", comment.line))
    if inputs is not None:
        target.inputs.append(Source(inputs, "comment", comment.line))


def _beside(comment: Comment, targets: list[Target]) -> Target | None:
    """The class on whose line the comment stands, or the one that begins under it or just above it."""
    for target in targets:
        if target.first_line - 2 <= comment.line <= target.line + 1 or comment.line == target.end_line:
            return target
    return None


def _target(node: ast.ClassDef, lines: list[str]) -> Target:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    match = re.compile(rf"class\s+({re.escape(node.name)})").search(
        line, len(line.encode()[: node.col_offset].decode(errors="replace"))
    )
    column = len(line[: match.start(1)].encode()) if match else node.col_offset
    end = column + len(node.name.encode()) if match else node.col_offset + 5
    return Target(node.name, node.lineno, column, node.lineno, end, first, node.end_lineno or node.lineno)


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if not _is_main_guard(node):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                    yield from _module_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _module_level(handler.body)


def _is_main_guard(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


@dataclass(frozen=True)
class _Candidate:
    target: str
    kind: str  # construct or inputs
    source: Source


class _Uses:
    """Calls ``Net(…)`` and ``net(x)`` in module code, under the main guard and in functions.

    An expression counts when its names can be resolved: to module-level names, or to plain assignments before it in
    the same scope, which are put in its place.
    """

    def __init__(self, tree: ast.Module, classes: set[str], lines: list[str]) -> None:
        self.classes = classes
        called = re.compile(rf"\b({'|'.join(map(re.escape, classes))})\s*\(") if classes else None
        self.mentions = [number for number, line in enumerate(lines, 1) if called and called.search(line)]
        self.found: list[_Candidate] = []
        self.globals = set(dir(builtins)) | {name for node in _module_level(tree.body) for name in _bound(node)}
        self.trusted = {name for node in _module_level(tree.body) for name in _trusted_imports(node)}
        self._scope(tree.body, {}, module=True)

    def _scope(self, body: list[ast.stmt], known: dict[str, ast.expr], module: bool) -> None:
        instances: dict[str, str] = {}
        for node in body:
            self._statement(node, known, instances, module)

    def _statement(self, node: ast.stmt, known: dict[str, ast.expr], instances: dict[str, str], module: bool) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not self._mentioned(node):
                return
            parameters = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            self._scope(node.body, {name: expr for name, expr in known.items() if name not in parameters}, module=False)
            return
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and self._mentioned(part):
                    self._scope(part.body, {}, module=False)
            return
        inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(node, "handlers", [])]
        if any(inner):
            guard = _is_main_guard(node)
            for statements in inner:
                for statement in statements:
                    self._statement(statement, known, instances, module and not guard)
            return
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                self._call(call, known, instances)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node, known, instances, module)

    def _mentioned(self, node: ast.stmt) -> bool:
        """Whether one of the classes is called on a line of this function; most functions need no closer look."""
        at = bisect.bisect_left(self.mentions, node.lineno)
        return at < len(self.mentions) and self.mentions[at] <= (node.end_lineno or node.lineno)

    def _assign(self, node: ast.Assign | ast.AnnAssign, known: dict, instances: dict[str, str], module: bool) -> None:
        names = [target for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        if node.value is None or len(names) != 1 or not isinstance(names[0], ast.Name):
            for name in _bound(node):
                known.pop(name, None)
            return
        name = names[0].id
        made = self._constructed(node.value)
        if made:
            instances[name] = made
            if module:
                self._add(made, "construct", name, "instance", node.lineno)
        if module:
            known.pop(name, None)  # the module's own namespace has it
        else:
            known[name] = node.value

    def _constructed(self, value: ast.expr) -> str | None:
        """The class that this expression makes an instance of, seen through ``.eval()`` and the like."""
        value = _unwrapped(value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self.classes:
            return value.func.id
        return None

    def _call(self, call: ast.Call, known: dict, instances: dict[str, str]) -> None:
        if isinstance(call.func, ast.Name) and call.func.id in self.classes:
            if (text := self._resolved(call, known)) is not None:
                self._add(call.func.id, "construct", text, "call", call.lineno)
            return
        made = instances.get(call.func.id) if isinstance(call.func, ast.Name) else self._constructed(call.func)
        if made and (call.args or call.keywords):
            arguments = ast.Call(ast.Name("f", ast.Load()), call.args, call.keywords)
            if (text := self._resolved(arguments, known, extra={"f"})) is not None:
                self._add(made, "inputs", text[2:-1], "call", call.lineno)

    def _add(self, target: str, kind: str, text: str, source: str, line: int) -> None:
        self.found.append(_Candidate(target, kind, Source(text, source, line)))

    def _resolved(
        self, expression: ast.expr, known: dict, extra: frozenset[str] | set[str] = frozenset()
    ) -> str | None:
        """The expression's text with local names replaced by what they were assigned; None where that cannot be
        done."""
        inlined = _Inline(known).visit(ast.parse(ast.unparse(expression), mode="eval").body)
        own = {name.id for name in ast.walk(inlined) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        for node in ast.walk(inlined):
            if isinstance(node, ast.Name) and node.id not in self.globals | own | extra:
                return None
            if isinstance(node, ast.Call) and not self._safe(node.func, extra):
                return None
            if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
                return None
        return ast.unparse(inlined)

    def _safe(self, function: ast.expr, extra: frozenset[str] | set[str]) -> bool:
        """May this be called to make an example?  Classes and well-known libraries may; the file's own functions may
        do anything."""
        while isinstance(function, ast.Attribute):
            function = function.value
        if isinstance(function, ast.Call):
            return self._safe(function.func, extra)
        if not isinstance(function, ast.Name):
            return not isinstance(function, ast.Lambda)
        name = function.id
        return (
            name in extra
            or name in self.trusted
            or name in self.classes
            or name in _SAFE_BUILTINS
            or name[:1].isupper()
        )


class _Inline(ast.NodeTransformer):
    def __init__(self, known: dict[str, ast.expr], depth: int = 8) -> None:
        self.known, self.depth = known, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.known.get(node.id)
        if value is None or self.depth == 0 or not isinstance(node.ctx, ast.Load):
            return node
        rest = {name: expr for name, expr in self.known.items() if name != node.id}
        return _Inline(rest, self.depth - 1).visit(ast.parse(ast.unparse(value), mode="eval").body)


def _unwrapped(value: ast.expr) -> ast.expr:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _TRANSPARENT:
        value = value.func.value
    return value


def _bound(node: ast.AST) -> Iterator[str]:
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
            yield from _bound(part)


def _trusted_imports(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] in _TRUSTED_ROOTS:
                yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _TRUSTED_ROOTS:
        for alias in node.names:
            yield alias.asname or alias.name


def configure(found: list[Target], configured: dict[str, str]) -> None:
    """Puts what the project's configuration says about a class before what the file says, comments excepted."""
    for target in found:
        text = configured.get(target.name)
        if text is None:
            continue
        made, inputs = split_comment(text)
        for into, part in ((target.construct, made), (target.inputs, inputs)):
            if part:
                at = sum(source.source == "comment" for source in into)
                into.insert(at, Source(part, "config"))
