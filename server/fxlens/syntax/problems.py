"""The findings of the syntax-level analysis, with the texts of the rules."""

from __future__ import annotations

import ast
import re

from fxlens import record, rules
from fxlens.record import Finding, Severity

__all__ = ["Problems", "Silent"]

_LONGEST = 60


class Problems:
    """Collects findings of one file, once for each place, code and target."""

    def __init__(self, path: str, text: str, dropped: set[int]):
        self._path = path
        self._lines = [line.encode() for line in re.split(r"\r\n|\n|\r", text)]
        self._dropped = dropped
        self._found: dict[tuple[str, int, int, int], Finding] = {}

    def report(self, code: str, node: ast.AST, target: str, certain: bool, form: str = "call") -> None:
        """Record a problem.

        ``certain`` is False if it depends on a condition that the text does not decide: it is then information only.
        ``form`` is the construct that needs ``node`` as a bool, as in ``fxlens.rules``.
        """
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        if self._dropped & set(range(line, end_line + 1)):
            return
        key = (code, line, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
        rule = rules.find(code)
        severity: Severity = rule.severity if certain else "info"
        known = self._found.get(key)
        if known is not None:
            if known["severity"] == "info":
                self._found[key] = record.graded(known, severity)
            return
        span = record.span(self._path, line, node.col_offset, end_line, node.end_col_offset)  # type: ignore[attr-defined]
        related = [record.related(f"torch.fx says: {rule.torch_text}", span, "torch")] if rule.loud else []
        call = self._shown(node.func) if isinstance(node, ast.Call) else ""
        message = rule.says(f"`{self._shown(node)}`", form, call) + ("" if certain else " (if this line is reached)")
        self._found[key] = record.finding(
            code,
            severity,
            f"{message}. {rule.advice}" if rule.advice else message,
            span,
            target=target,
            call_path=[span],
            related=related,
            source="syntax",
        )

    def _shown(self, node: ast.AST) -> str:
        """The text of a node on one line, shortened."""
        first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
        lines = self._lines[first : last + 1]
        lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
        text = " ".join(b" ".join(lines).decode().split())
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

    def all(self) -> list[Finding]:
        """The findings in the order of the text."""
        return [self._found[key] for key in sorted(self._found, key=lambda key: (key[1], key[2], key[0]))]


class Silent(Problems):
    """Discards findings, for evaluating an expression again."""

    def __init__(self) -> None:
        super().__init__("", "", set())

    def report(self, code: str, node: ast.AST, target: str, certain: bool, form: str = "call") -> None:
        return None
