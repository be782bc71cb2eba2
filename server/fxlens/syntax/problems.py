"""The findings of the syntax-level analysis: what each code says, and the text that torch.fx would print."""

from __future__ import annotations

import ast
import re

from fxlens import record
from fxlens.record import Finding, Severity

__all__ = ["Problems", "Silent"]

_LONGEST = 60

_CONTROL = "symbolically traced variables cannot be used as inputs to control flow"
_ITER = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
    "function argument."
)
_LEN = (
    "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
    "torch.fx.wrap('len') at module scope"
)
_INT = "int() argument must be a string, a bytes-like object or a real number, not 'Proxy'"

# code -> (message, torch's own text); `{}` is the source of the expression.
_TEXTS = {
    "FX101": ("`{}` is traced, and Python needs its truth here: control flow on data", _CONTROL),
    "FX102": ("`{}` is a traced shape or type, and Python needs its truth here", _CONTROL),
    "FX103": ("`{}` is an argument and therefore traced, and Python needs its truth here", _CONTROL),
    "FX104": ("assert needs the truth of `{}`, which is traced", _CONTROL),
    "FX105": ("The membership test of `{}` needs the truth of traced comparisons", _CONTROL),
    "FX106": ("`{}` compares traced values and needs the truth of the comparison", _CONTROL),
    "FX107": ("The chained comparison `{}` needs the truth of its first part, which is traced", _CONTROL),
    "FX110": ("`{}` is a traced value and cannot be iterated", _ITER),
    "FX111": ("`{}` is a traced value and cannot be unpacked with a star", _ITER),
    "FX112": ("`{}` is a traced value and cannot be spread into arguments", _ITER),
    "FX113": ("`{}` is a traced value and cannot be used as a mapping", _ITER),
    "FX114": ("`{}` iterates over a traced value", _ITER),
    "FX120": ("`{}` asks a traced value for its length", _LEN),
    "FX121": ("`{}` asks a traced value for its length", _LEN),
    "FX130": ("`{}` turns a traced value into a Python number", _INT),
    "FX131": ("`{}` rounds a traced value", "type Proxy doesn't define __round__ method"),
    "FX132": ("`{}` takes a traced value", "unsupported operand type(s) for divmod(): 'Proxy' and 'int'"),
    "FX133": ("`{}` takes a traced value", "'Proxy' object cannot be interpreted as an integer"),
    "FX134": ("`{}` indexes a Python sequence by a traced value", "list indices must be integers or slices, not Proxy"),
    "FX136": ("`{}` formats a traced value as a number", "unsupported format string passed to Proxy.__format__"),
    "FX140": ("NumPy cannot compute with a traced value: `{}`", "invalid __array_struct__"),
    "FX150": ("`{}` is traced: item assignment is not recorded", "'Proxy' object does not support item assignment"),
    "FX151": ("`{}` is traced: item deletion is not recorded", "'Proxy' object does not support item deletion"),
    "FX160": ("`{}` has a traced size: pass the size as a tuple", "argument 'size' must be tuple of ints, not Proxy"),
    "FX201": ("`{}` is decided while tracing: an argument is never None then", ""),
    "FX202": ("`{}` is False while tracing: a traced value is a Proxy", ""),
    "FX203": ("`{}` is always true while tracing", ""),
    "FX204": ("`{}` looks a traced value up by identity: always False while tracing", ""),
    "FX205": ("`{}` makes a text of a traced value once, while tracing", ""),
    "FX206": ("`{}` is drawn once, while tracing, and becomes a constant of the graph", ""),
    "FX207": ("`{}` is fixed while tracing: train() and eval() do not change it afterwards", ""),
    "FX208": ("`{}` is changed once, while tracing: the change is not part of the graph", ""),
    "FX209": ("`{}` keeps a traced value on the module", ""),
    "FX211": ("`{}` is assigned on the Proxy: nothing is recorded", ""),
    "FX212": ("`{}` is entered while tracing and is not part of the graph", ""),
    "FX231": ("`{}` is decided while tracing: a traced value is a Proxy, never this object", ""),
}  # fmt: skip


class Problems:
    """Collects findings of one file, each place and code once for each target."""

    def __init__(self, path: str, text: str, dropped: set[int]):
        self._path = path
        self._lines = [line.encode() for line in re.split(r"\r\n|\n|\r", text)]
        self._dropped = dropped
        self._found: dict[tuple[str, int, int, int], Finding] = {}

    def report(self, code: str, node: ast.AST, target: str, certain: bool) -> None:
        """Note a problem.

        ``certain`` is False where it depends on a condition that the text does not decide: then it is information only.
        """
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        if self._dropped & set(range(line, end_line + 1)):
            return
        key = (code, line, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
        severity: Severity = "info" if not certain else "error" if code < "FX2" else "warning"
        known = self._found.get(key)
        if known is not None:
            if known["severity"] == "info":
                self._found[key] = {**known, "severity": severity}
            return
        message, torch_text = _TEXTS[code]
        span = record.span(self._path, line, node.col_offset, end_line, node.end_col_offset)  # type: ignore[attr-defined]
        related = [record.related(f"torch.fx: {torch_text}", span, "torch")] if torch_text else []
        text = message.format(self._shown(node)) + ("" if certain else " (if this line is reached)")
        self._found[key] = record.finding(
            code, severity, text, span, target=target, call_path=[span], related=related, source="syntax"
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
    """For looking at an expression a second time."""

    def __init__(self) -> None:
        super().__init__("", "", set())

    def report(self, code: str, node: ast.AST, target: str, certain: bool) -> None:
        return None
