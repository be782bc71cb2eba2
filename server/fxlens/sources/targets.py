"""The classes that a file defines, and how its text constructs and calls them.

Standard library only: the worker reads the same file. Everything here works on text; the worker (``worker.construct``)
checks whether a class is an ``nn.Module``, and whether a candidate can be evaluated.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .bound_names import module_level
from .files import ERRORS, LONG
from .uses import Source, Uses, called

__all__ = [
    "ASKED",
    "FOUND",
    "FREE",
    "ORDER",
    "OTHER_FRAMEWORKS",
    "Comment",
    "Source",
    "Target",
    "arrange",
    "calls_of",
    "classes",
    "comments",
    "comments_on",
    "configure",
    "find",
    "has_forward",
    "ignored",
    "split_comment",
    "without_comment",
    "written",
]

COMMENT = re.compile(r"#\s*fxlens:\s*(?P<body>\S.*)")
_BEHIND = re.compile(r"\s#\s*fxlens:\s*(?P<body>ignore\b.*|skip\s*$)")
"""What may stand behind another comment; there, anything else may be text about FX Lens."""
_BEHIND_A_TOOLS = re.compile(
    r"#\s*(?:(?:noqa|nosec)\b|(?:fmt|isort|mypy|pylint|pyright|ruff|type|yapf|pragma):).*?\s#\s*fxlens:\s*(?P<body>\S.*)"
)

LINE_END = re.compile(r"\r\n|\r|\n")
_PIECE = re.compile(r"""'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|[()\[\]{}#]|<-""")
_MOST_ARROWS = 2
"""The most arrows outside of brackets that are tried as the one before the inputs, since each needs a parse."""
_CLASS = re.compile(r"^[ \t]*class\b", re.MULTILINE)
_IGNORE = re.compile(r"ignore(\[(?P<codes>[A-Za-z0-9,\s]*)\])?(\s|$)")


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
    partial: list[Source] = field(default_factory=list)
    """Constructions with unknown parts, written as ``__hole__("dim")``."""
    skip: bool = False
    leaf: bool = False


@dataclass(frozen=True)
class Comment:
    """One ``# fxlens: …`` comment: its position and what follows the colon."""

    line: int
    column: int
    end_column: int
    body: str


OTHER_FRAMEWORKS = (
    "flax", "haiku", "jax", "keras", "megengine", "mindspore", "mlx", "oneflow", "paddle", "tensorflow", "tinygrad",
)  # fmt: skip
"""Packages whose modules are not modules of torch."""
_LIKE_MODELS = r"nn\.|(Module|Model|Net|Network|Layer|Block|Encoder|Decoder|Head|Backbone)(\[|$)"
_NO_MODELS = (
    "object", "ABC", "Protocol", "Generic", "Enum", "IntEnum", "Tuple", "tuple", "TypedDict", "dict", "list", "str",
    "Exception", "Error", "Warning", "Dataset", "DataModule", "Sampler", "Loader", "Transform", "Config",
    "Namespace", "Command", "build_ext", "install", "Action", "Thread", "Process", "Callback", "Optimizer",
    "Scheduler", "TestCase", "Formatter", "Handler", "Env",
)  # fmt: skip
"""Suffixes of bases of classes that are not models, unless they have a forward."""


def find(tree: ast.Module, text: str) -> list[Target]:
    """The `classes` of a file, with their candidates in the order they should be tried.

    `configure`, ``from_tests.add`` and ``known.add`` add candidates from other files.
    """
    lines = LINE_END.split(text)
    targets = [_target(name, node, lines) for name, node in classes(tree)]
    by_name = {target.name: target for target in targets}
    for comment in comments(text):
        _apply(comment, by_name, targets)
    for candidate in Uses(tree, _spellings(by_name), lines).found:
        target = by_name[candidate.target]
        into = target.construct if candidate.kind == "construct" else target.inputs
        if candidate.source not in into:
            into.append(candidate.source)
    for target in targets:
        arrange(target)
    return targets


def classes(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes at module level (also under ``if`` and ``try``), and those with a forward inside of them, which are
    called as in ``Net.Block``; outer ones come before inner ones."""
    todo = [("", node) for node in module_level(tree.body)]
    while todo:
        prefix, node = todo.pop(0)
        if not isinstance(node, ast.ClassDef) or (prefix and not has_forward(node)):
            continue
        yield prefix + node.name, node
        todo[:0] = [(f"{prefix}{node.name}.", each) for each in node.body]


def class_count(text: str) -> int:
    """The number of classes in a text, by its look."""
    return len(_CLASS.findall(text))


def has_forward(node: ast.ClassDef) -> bool:
    """Whether the class statement itself has one."""
    return any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)


def calls_of(names: Iterable[str]) -> re.Pattern[str]:
    """Finds the lines that may call one of these classes of a file."""
    return called(_spellings(names))


def _spellings(names: Iterable[str]) -> dict[str, str]:
    """The names of classes in their file; nested ones by the outer class, or by ``self`` in its methods."""
    found: dict[str, str] = {}
    for name in names:
        found[name] = name
        if "." in name:
            found.setdefault(f"self.{name.rpartition('.')[2]}", name)
    return found


def may_have_models(tree: ast.Module, text: str) -> bool:
    """Whether a file may define a model and so must be executed. Scripts that only use models do not."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return any(map(may_be_model, classes)) or bool(written(text))


def looks_like_models(tree: ast.Module) -> bool:
    """Whether one of the classes of the file looks like a model."""
    return any(looks_like_model(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def looks_like_model(node: ast.ClassDef) -> bool:
    """Whether a class has its own forward, or a base with the name of a model."""
    return has_forward(node) or any(re.search(_LIKE_MODELS, ast.unparse(base)) for base in node.bases)


def may_be_model(node: ast.ClassDef) -> bool:
    """Whether a class has its own forward, or a base whose name does not show that it is something else."""
    if has_forward(node):
        return True
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in bases]
    return any(not name.endswith(_NO_MODELS) for name in names)


@functools.lru_cache(maxsize=16)
def written(text: str) -> frozenset[str]:
    """The classes with a comment on how to construct or call them."""
    if "fxlens:" not in text:
        return frozenset()
    try:
        tree = ast.parse(text)
    except ERRORS:
        return frozenset()
    lines = LINE_END.split(text)
    targets = [_target(name, node, lines) for name, node in classes(tree)]
    by_name = {target.name: target for target in targets}
    for comment in comments(text):
        _apply(comment, by_name, targets)
    return frozenset(target.name for target in targets if target.construct or target.inputs)


def comments_on(text: str, name: str) -> list[Comment]:
    """The comments on how to construct or call this class, in the order of the text."""
    try:
        tree = ast.parse(text)
    except ERRORS:
        return []
    lines = LINE_END.split(text)
    targets = [_target(each, node, lines) for each, node in classes(tree)]
    by_name = {target.name: target for target in targets}
    found = []
    for comment in comments(text):
        target = by_name.get(name)
        before = target and (len(target.construct), len(target.inputs))
        _apply(comment, by_name, targets)
        if target is not None and (len(target.construct), len(target.inputs)) != before:
            found.append(comment)
    return found


ORDER = (
    "comment", "config", "recorded", "instance", "call", "test", "workspace", "default", "parent", "inferred",
    "assumed",
)  # fmt: skip
"""The sources of constructions and calls, the best first."""
ASKED = ("comment", "config")
"""Those that the user wrote for this purpose."""
FOUND = ("recorded", "workspace", "parent", "assumed")
"""Those that FX Lens found by itself: they are tried, and failures are not reported."""
FREE = (*ASKED, "instance")
"""Those that may change files: the user wrote them for this purpose, or they have run with the module."""


def arrange(target: Target) -> None:
    """Puts the best sources first, within one kind the constructions of modules that are called."""
    called = {each.made for each in target.inputs if each.source == "call"}
    target.construct.sort(key=lambda each: (ORDER.index(each.source), each.text not in called))
    target.inputs.sort(key=lambda each: ORDER.index(each.source))


def comments(text: str) -> list[Comment]:
    """All ``# fxlens:`` comments. Text that cannot be tokenised, or is too long, is searched line by line."""
    last = text.rfind("fxlens:")
    if last < 0:
        return []
    end = text.find("\n", last)
    found = None if end < 0 or len(text) > LONG else _tokenised(text[:end])
    if found is None:
        found = _tokenised(text) if len(text) <= LONG else None
    return list(_line_by_line(text) if found is None else found)


@functools.lru_cache(maxsize=16)  # of the text up to the last comment, which edits below it do not change
def _tokenised(text: str) -> tuple[Comment, ...] | None:
    """The comments of a text; None if it cannot be tokenised."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type != tokenize.COMMENT:
                continue
            said = token.string
            if match := COMMENT.match(said) or _BEHIND_A_TOOLS.match(said) or _BEHIND.search(said):
                start = token.start[1] + said.rindex("#", 0, match.start("body"))
                column = len(token.line[:start].encode())
                end = len(token.line[: token.end[1]].encode())
                found.append(Comment(token.start[0], column, end, match["body"].rstrip()))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return None
    return tuple(found)


def _line_by_line(text: str) -> Iterator[Comment]:
    for number, line in enumerate(LINE_END.split(text), 1):
        if match := COMMENT.search(line):
            column = len(line[: match.start()].encode())
            yield Comment(number, column, len(line.encode()), match["body"].rstrip())


@functools.lru_cache(maxsize=16)
def ignored(text: str) -> Mapping[int, frozenset[str]]:
    """Lines with ``# fxlens: ignore`` and the codes, or beginnings of codes, named there; an empty set means all."""
    found = {}
    for comment in comments(text):
        if match := _IGNORE.match(comment.body):
            codes = (match["codes"] or "").upper()
            found[comment.line] = frozenset(code.strip() for code in codes.split(",") if code.strip())
    return found


def split_comment(body: str) -> tuple[str, str | None]:
    """``"Net(10) <- torch.randn(1, 3)"`` as construction and inputs; a comment behind them is left out. Raises
    ValueError if neither half is Python."""
    body = without_comment(body)
    for at in itertools.islice(_arrows(body), _MOST_ARROWS):
        left, right = body[:at].strip(), body[at + 2 :].strip()
        if (not left or _is_expression(left)) and _is_expression(f"f({right})"):
            return left, right
    if not _is_expression(body):
        raise ValueError(f"not a Python expression: {body}")
    return body, None


def without_comment(line: str) -> str:
    """One line without the comment at its end. Linear in its length, which Python's tokenizer is not."""
    at = next((piece.start() for piece in _PIECE.finditer(line) if piece[0] == "#"), len(line))
    return line[:at].rstrip()


def _arrows(body: str) -> Iterator[int]:
    """The positions of ``<-`` outside of brackets and quotes."""
    depth = 0
    for piece in _PIECE.finditer(body):
        if piece[0] == "<-" and not depth:
            yield piece.start()
        depth += (piece[0] in "([{") - (piece[0] in ")]}")


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except ERRORS:
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
    construct, inputs = _as_written(comment.body)
    named = re.match(r"[A-Za-z_][\w.]*", construct)
    # A part of another class is written beside its own: `Net(3).get_submodule("head")`.
    name = named[0] if named and ".get_submodule(" not in construct else ""
    while name and name not in by_name:
        name = name.rpartition(".")[0]  # `Net.Block(3)` is a class, `Net.small()` makes a Net
    target = by_name.get(name) or beside
    if target is None:
        return
    if construct:
        target.construct.append(Source(construct, "comment", comment.line))
    if inputs is not None:
        target.inputs.append(Source(inputs, "comment", comment.line))


def _as_written(text: str) -> tuple[str, str | None]:
    try:
        return split_comment(text)
    except ValueError:
        return text, None  # reported on evaluation, with Python's error


def _beside(comment: Comment, targets: list[Target]) -> Target | None:
    """The class on the line of the comment, or the one that begins below it or just above it."""
    for target in reversed(targets):  # the inner one first
        if target.first_line - 2 <= comment.line <= target.line + 1 or comment.line == target.end_line:
            return target
    return None


def _target(name: str, node: ast.ClassDef, lines: list[str]) -> Target:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    match = re.compile(rf"class\s+({re.escape(node.name)})").search(
        line, len(line.encode()[: node.col_offset].decode(errors="replace"))
    )
    column = len(line[: match.start(1)].encode()) if match else node.col_offset
    end = column + len(node.name.encode()) if match else node.col_offset + 5
    return Target(name, node.lineno, column, node.lineno, end, first, node.end_lineno or node.lineno)


def configure(found: list[Target], configured: dict[str, str]) -> None:
    """Puts the project's configuration of a class before the file's candidates, except for comments."""
    for target in found:
        text = configured.get(target.name)
        if text is None:
            continue
        made, inputs = _as_written(text)
        for into, part in ((target.construct, made), (target.inputs, inputs)):
            if part:
                at = sum(source.source == "comment" for source in into)
                into.insert(at, Source(part, "config"))
