"""From a graph break of Dynamo's to a finding: its rule and its sentence."""

from __future__ import annotations

import re

from fxlib.captures.break_log import Break
from fxlib.captures.places import Frame, frames_of, users_path
from fxlib.captures.verdict import holds_for, sentence
from fxlib.diagnosis.engine.packages import is_installed, package_of, short_path
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span, source_text

__all__ = ["failure_of", "finding_of", "first_line", "rule_of", "stopped_at"]

# Dynamo's codes by rule.
_CODES = {
    "FX601": ("GB0170", "GB0034", "GB0035", "GB0002"),
    "FX602": ("GB0124", "GB0109", "GB0033"),
    "FX603": ("GB0036", "GB0037", "GB0038", "GB0246"),
    "FX604": ("GB0291", "GB0296"),
    "FX605": ("GB0007", "GB0008", "GB0009", "GB0059", "GB0147"),
    "FX606": ("GB0025", "GB0098", "GB0099", "GB4297", "GB4636"),
    "FX607": ("GB0014",),
    "FX608": ("GB0142", "GB0066", "GB0221", "GB0262", "GB0263"),
    "FX609": ("GB0123", "GB0125", "GB7324", "GB8985", "GB9186", "GB0371", "GB0372", "GB0442", "GB1042", "GB7054"),
    "FX611": ("GB0088", "GB0089", "GB0057", "GB0111"),
    "FX612": ("GB0015", "GB0277", "GB0374", "GB5976", "GB0126", "GB0127", "GB0128", "GB0129", "GB0130"),
    "FX613": ("GB4695", "GB0266", "GB0267", "GB0357"),
    "FX610": (
        "GB8977", "GB0075", "GB0264", "GB0244", "GB4198", "GB0003", "GB0082", "GB0086", "GB0119", "GB0354", "GB8335",
    ),
}  # fmt: skip
_RULE_OF_CODE = {code: rule for rule, codes in _CODES.items() for code in codes}
_NO_HELP = re.compile(r"report an issue|it is unlikely that Dynamo will ever")
_PRINTS = ("print", "warn", "logging", "Logger")


def rule_of(one: Break) -> str:
    """The code of the rule for a break."""
    if one.inside is not None and is_installed(one.inside.file) and not _of_torch(one.inside):
        return "FX690"
    found = _RULE_OF_CODE.get(one.code, "FX699")
    where = one.inside.file if one.inside is not None else ""
    if "logging/" in where.replace("\\", "/") or where.endswith("warnings.py"):
        return "FX604"
    if found == "FX605" and any(name in one.context for name in _PRINTS):
        return "FX604"
    if one.code == "GB0033" and "random" in (source_text(one.span) or "" if one.span else ""):
        return "FX605"
    return "FX610" if where.endswith("copy.py") and found == "FX699" else found


def _of_torch(frame: Frame) -> bool:
    return package_of(frame.file) in ("torch", "functorch")


def finding_of(breaks: list[Break], hidden: bool = False) -> Finding:
    """The finding for the breaks at one expression. ``hidden``: it appears only once others are fixed."""
    first = breaks[0]
    code = rule_of(first)
    skipped = any(each.skipped for each in breaks)
    inside = f"{short_path(first.inside.file)}:{first.inside.line}" if first.inside is not None else ""
    message = sentence(code, first.span, package=inside)
    related = [Related(f"{each.code} {each.title}: {each.explanation}".strip(": "), None, "torch") for each in breaks]
    related += [Related(hint) for each in breaks for hint in each.hints if not _NO_HELP.search(hint)]
    if hidden:
        related.append(Related("torch.compile reaches this only after the earlier graph breaks are fixed."))
    if skipped:
        related.append(
            Related("Dynamo skips the whole function: it cannot break the graph inside a loop, a handler or a `with`.")
        )
    return Finding(
        code,
        "info" if hidden else RULES[code].severity,
        message,
        first.span,
        tuple(dict.fromkeys(related)),
        first.path,
        data={
            "captures": holds_for("compile", code),
            "dynamo": list(dict.fromkeys(each.code for each in breaks if each.code)),
            "hidden": hidden,
            "skipped": skipped,
        },
    )


def failure_of(error: BaseException, fullgraph: bool = False) -> Finding:
    """The finding for an error that torch.compile raises where eager does not; with ``fullgraph``, one that only occurs
    with it."""
    path = stopped_at(error)
    span = path[-1] if path else None
    code = "FX614" if fullgraph else "FX698"
    message = sentence(code, span, error=first_line(error)[:200])
    related = (Related(str(error).strip().partition("\nfrom user code:")[0], None, "torch"),)
    data = {"captures": holds_for("compile", code), "fullgraph": fullgraph}
    return Finding(code, RULES[code].severity, message, span, related, path, data=data)


def stopped_at(error: BaseException) -> tuple[Span, ...]:
    """The user's expressions that Dynamo was analysing when it raised, outermost first."""
    stack = getattr(error, "real_stack", None)
    return users_path(frames_of(stack) or frames_of(str(error).partition("from user code:")[2]))


def first_line(error: BaseException) -> str:
    """The class and first line of an error."""
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
