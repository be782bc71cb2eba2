"""One Python source as text and tree: finding the expression at a span, naming the scope, making exact edits.

Uses only the standard library, and knows no rules. Columns are UTF-8 bytes, as in ``ast``, so nodes and spans compare
directly.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import tokenize
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from fxlib.diagnosis.fixes.edits import Edit, offsets, split_lines

__all__ = ["Source", "source_of"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """A file's text with its tree.

    Raises:
        SyntaxError: the text does not parse.
    """

    def __init__(self, file: str, text: str):
        self.file = file
        self.text = text
        self.tree = ast.parse(text)
        self.lines = split_lines(text)
        self._raw = text.encode()
        self._starts = offsets(self.lines)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of the tree, in the order of ``ast.walk``."""
        return list(ast.walk(self.tree))

    @cached_property
    def attributes(self) -> dict[str, list[ast.Attribute]]:
        """The attribute expressions of the tree by the names that they end with."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                found.setdefault(node.attr, []).append(node)
        return found

    @cached_property
    def defined(self) -> set[str]:
        """The names of all functions and methods."""
        return {each.name for each in self.nodes if isinstance(each, FunctionNode)}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def newline(self) -> str:
        """The line end of the file: that of its first line."""
        first = self.lines[0] if self.lines else ""
        return "\r\n" if first.endswith("\r\n") else "\r" if first.endswith("\r") else "\n"

    @cached_property
    def quote(self) -> str:
        """The quote that the file prefers."""
        return "'" if self.text.count("'") > self.text.count('"') else '"'

    @cached_property
    def indent_unit(self) -> str:
        """One step of indentation, taken from the first indented block."""
        for node in self.nodes:
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(node, FunctionNode | ast.ClassDef):
                inner, outer = self.indent_of(body[0]), self.indent_of(node)
                if inner.startswith(outer) and inner != outer and body[0].lineno != node.lineno:
                    return inner[len(outer) :]
        return "    "

    # ---- text of nodes

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def segment(self, node: ast.AST) -> str:
        """The text of a node exactly as written."""
        start, end = self.range_of(node)
        return self._raw[self.offset(*start) : self.offset(*end)].decode()

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """The text between two positions, without a character that is cut by the end."""
        return self._raw[self.offset(*start) : self.offset(*end)].decode(errors="ignore")

    def with_comments(self, edits: Iterable[Edit]) -> tuple[Edit, ...] | None:
        """These edits, with the comments of replaced code moved above it; comments of removed lines are removed. None
        if a comment inside a line would be lost."""
        edits, kept = tuple(edits), []
        for edit in edits:
            goes = edit.file != self.file or not (edit.text or edit.end_column)
            lost = [] if goes else [each for each in self._comments(edit) if all(each not in e.text for e in edits)]
            if lost:
                indent = self.blank_prefix(edit.line)
                if edit.column > len(indent) or self.lines[edit.line - 2].rstrip().endswith("\\"):
                    return None
                above = indent[edit.column :] + (self.newline + indent).join(lost) + self.newline
                edit = replace(edit, text=above + indent[: edit.column] + edit.text)
            kept.append(edit)
        return tuple(kept)

    def _comments(self, edit: Edit) -> list[str]:
        """The comments in what an edit replaces, which need not be whole statements."""
        text, found = self.between(edit.start, edit.end), []
        if "#" in text:
            with contextlib.suppress(tokenize.TokenError, SyntaxError):  # at the end, or at an unmatched bracket
                # The indentation of the first line stays, so that a dedent to it is no error.
                text = self.blank_prefix(edit.line)[: edit.column] + text
                for token in tokenize.generate_tokens(io.StringIO(text).readline):
                    if token.type == tokenize.COMMENT:
                        found.append(token.string.rstrip())
        return found

    @staticmethod
    def range_of(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
        return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)

    @staticmethod
    def line_below(node: Any) -> int:
        """The line after the last one of a node."""
        return node.end_lineno + 1

    def indent_of(self, node: Any) -> str:
        """The indentation of a statement."""
        return self.blank_prefix(node.lineno)

    def blank_prefix(self, line: int) -> str:
        text = self.lines[line - 1]
        return text[: len(text) - len(text.lstrip(" \t\f"))]

    def starts_line(self, node: Any) -> bool:
        """Whether only blanks stand before the node on its line."""
        return self.between((node.lineno, 0), (node.lineno, node.col_offset)).strip() == ""

    def ends_line(self, node: Any) -> bool:
        """Whether only blanks or a comment follow the node on its line."""
        rest = (
            self._raw[self.offset(node.end_lineno, node.end_col_offset) : self._starts[node.end_lineno]]
            .decode()
            .strip()
        )
        return rest == "" or rest.startswith("#")

    def line_end(self, node: Any) -> tuple[int, int]:
        """The end of a node with the comment after it."""
        line, column = node.end_lineno, node.end_col_offset
        return (line, len(self.lines[line - 1].rstrip("\r\n").encode()) if self.ends_line(node) else column)

    def in_parentheses(self, node: Any) -> bool:
        """Whether the node stands directly between parentheses, so that it needs none of its own."""
        before = self.between((node.lineno, 0), (node.lineno, node.col_offset)).rstrip()
        after = self._raw[self.offset(node.end_lineno, node.end_col_offset) : self._starts[node.end_lineno]].decode()
        return before.endswith("(") and after.lstrip().startswith(")")

    # ---- edits

    def replace(self, node: ast.AST, text: str) -> Edit:
        (line, column), (end_line, end_column) = self.range_of(node)
        return Edit(self.file, line, column, end_line, end_column, self.with_newlines(text))

    def replace_range(self, start: tuple[int, int], end: tuple[int, int], text: str) -> Edit:
        return Edit(self.file, *start, *end, self.with_newlines(text))

    def insert_line(self, line: int, text: str) -> Edit:
        """Insert whole lines before ``line`` (which may be one past the last)."""
        text = self.with_newlines(text + "\n")
        if line > len(self.lines):
            line = len(self.lines) + 1
            if self.lines and not self.lines[-1].endswith(("\n", "\r")):
                end = len(self.lines[-1].encode())
                return Edit(self.file, line - 1, end, line - 1, end, self.newline + text)
        return Edit(self.file, line, 0, line, 0, text)

    def with_newlines(self, text: str) -> str:
        if self.newline == "\n":
            return text
        return text.replace("\r\n", "\n").replace("\n", self.newline)

    # ---- places

    def enclosing(self, span: Any) -> list[ast.AST]:
        """The nodes that contain a span, innermost first; those that match it exactly come before larger ones."""
        start, end = (span.line, span.column), (span.end_line, span.end_column)
        found: list[ast.AST] = []
        level: list[ast.AST] = [self.tree]
        while level:
            level = [c for node in level for c in self._located_children(node)]
            level = [c for c in level if self.range_of(c)[0] <= start and end <= self.range_of(c)[1]]
            found += level
        return found[::-1]

    def _located_children(self, node: ast.AST) -> list[ast.AST]:
        children = []
        for child in ast.iter_child_nodes(node):
            if hasattr(child, "lineno"):
                children.append(child)
            else:
                children += self._located_children(child)
        return children

    def ancestors(self, node: ast.AST) -> list[ast.AST]:
        chain = []
        while (node := self.parents.get(node)) is not None:  # type: ignore[assignment]
            chain.append(node)
        return chain

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        for candidate in [node, *self.ancestors(node)]:
            if isinstance(candidate, ast.stmt):
                return candidate
        return None

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        for candidate in self.ancestors(node):
            if isinstance(candidate, FunctionNode):
                return candidate
            if isinstance(candidate, ast.Lambda | ast.ClassDef):
                return None
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose method holds the node."""
        for candidate in self.ancestors(node):
            if isinstance(candidate, ast.ClassDef):
                return candidate
        return None

    def top_level_of(self, node: ast.AST) -> ast.stmt:
        """The statement of the module that holds the node."""
        chain = [node, *self.ancestors(node)]
        return chain[-2]  # type: ignore[return-value]

    def line_above(self, statement: ast.stmt) -> int:
        """The line of a top-level statement including its decorators and the comments directly above."""
        line = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        while line > 1 and self.lines[line - 2].lstrip().startswith("#"):
            line -= 1
        return line

    def block_of(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The list of statements that holds a statement, and its place there."""
        parent = self.parents[statement]
        for field in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and statement in block:
                return block, block.index(statement)
        raise ValueError(f"statement of line {statement.lineno} is in no block")

    # ---- names of the module

    @cached_property
    def module_names(self) -> set[str]:
        """Every name that the module binds or mentions anywhere: a new name must differ from them."""
        names = {n.id for n in self.nodes if isinstance(n, ast.Name)}
        names |= {n.name for n in self.nodes if isinstance(n, FunctionNode | ast.ClassDef)}
        names |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {a.asname or a.name.split(".")[0] for a in node.names}
        return names

    @cached_property
    def _beside(self) -> set[str]:
        """The submodules of a package, which are attributes of it as soon as they are imported."""
        folder, name = os.path.split(self.file)
        try:
            found = os.listdir(folder or ".") if name == "__init__.py" else []
        except OSError:
            found = []
        return {each.partition(".")[0] for each in found}

    def fresh_name(self, wanted: str) -> str:
        name, count = wanted, 2
        while name in self.module_names or name in self._beside:
            name, count = f"{wanted}_{count}", count + 1
        return name


@lru_cache(maxsize=8)
def source_of(file: str, text: str) -> Source:
    """The source of a file, read once for all findings in it.

    Raises:
        SyntaxError: the text does not parse.
    """
    return Source(file, text)
