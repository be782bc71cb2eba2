"""The settings of the user, made from the client's values."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fxlens import rules
from fxlens.sources.roles import SCOPES

SEVERITIES = ("error", "warning", "info", "hint", "off")


def _default_memory() -> int:
    """MiB: half of the machine's memory, 8 GiB at most."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError, AttributeError):
        return 8192
    return max(1024, min(8192, total // 2))


@dataclass(frozen=True)
class Settings:
    """The ``fxlens`` section of a client's configuration."""

    enable: bool = True
    python: str = ""
    """Interpreter for user code; empty: found by ``host.launch.find_python``."""
    pythonFrom: str = ""
    """How the client found it, in a few words; empty if the user has set it."""
    run: str = "onType"
    """onType, onSave or manual."""
    deadline: float = 10.0
    """Seconds for each step: importing the file, and tracing each class."""
    debounce: float = 150.0
    """Milliseconds without an edit before a trace begins."""
    memory: int = field(default_factory=_default_memory)
    """MiB of memory for one job."""
    jobs: int = 2
    worker: str = "auto"
    """auto, fork or spawn."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    scope: str = "meant"
    """meant or all: which classes have findings of full severity."""
    watch: tuple[str, ...] = ()
    """Classes that the user means to be captured, as ``models/net.py::Net``."""
    shapes: bool = True
    """Whether the value of each traced line is shown at its end."""
    shapesLength: int = 43
    """The most characters of it; longer ones are cut."""
    batch: str = ""
    """The name of the batch dimension in shapes, such as N; empty: its size."""
    device: str = ""
    """The device that hover predicts times for; empty: none."""
    lowering: str = "hints"
    """off, or hints: operators that an engine cannot run are marked at their lines."""
    captures: tuple[str, ...] = ()
    """The captures that count, of `CAPTURES`; empty: those of the project, or torch.fx, and the others are shown as
    information."""
    verify: bool = True
    """Whether fixes are traced and compared with eager before they are offered as preferred."""


USUAL_CAPTURES = ("fx", "export", "compile")
CAPTURES = (*USUAL_CAPTURES, "strict")
_CHOICES = {
    "scope": SCOPES,
    "run": ("onType", "onSave", "manual"), "lowering": ("off", "hints"), "worker": ("auto", "fork", "spawn"),
    "device": ("", "V100", "A100", "H100", "H200", "L4", "T4"),
}  # fmt: skip
_RANGES = {
    "deadline": (0.1, 3600.0), "debounce": (0.0, 10_000.0), "memory": (64, 1 << 20), "jobs": (1, 64),
    "shapesLength": (8, 500),
}  # fmt: skip


_LONGEST_NAME = 12


def from_client(value: Any, base: Settings | None = None) -> tuple[Settings, list[str]]:
    """Settings with the client's values over ``base``, and a sentence for each rejected value. Unknown codes in
    selections are dropped: with a misspelt one alone, nothing would ever be found."""
    base = base or Settings()
    if value is None:
        return base, []
    if not isinstance(value, dict):
        return base, [f"fxlens settings must be an object, not {type(value).__name__}"]
    good: dict[str, Any] = {}
    refused = []
    for each in fields(Settings):
        if each.name not in value or value[each.name] is None:
            continue
        try:
            good[each.name] = _checked(each.name, value[each.name], getattr(base, each.name))
        except ValueError as error:
            refused.append(f"fxlens.{each.name}: {error}; {getattr(base, each.name)!r} is used")
    for name in ("select", "ignore", "severity"):
        if misspelt := rules.unknown(good.get(name, ())):
            refused.append(f"fxlens.{name}: {rules.said_unknown(misspelt)}")
            values = good[name]
            left = rules.known(values)
            good[name] = {code: values[code] for code in left} if isinstance(values, dict) else tuple(left)
    return replace(base, **good), refused


def _checked(name: str, value: Any, like: Any) -> Any:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ValueError(f"must be one of {', '.join(filter(None, _CHOICES[name]))}, not {value!r}")
        return value
    if isinstance(like, bool):
        if not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {value!r}")
        return value
    if name in _RANGES:
        low, high = _RANGES[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {value!r}")
        return type(like)(value)
    if isinstance(like, str):
        if not isinstance(value, str):
            raise ValueError(f"must be text, not {value!r}")
        if name == "batch" and value and not (value.isidentifier() and len(value) <= _LONGEST_NAME):
            raise ValueError(f"must be a name of at most {_LONGEST_NAME} letters, not {value!r}")
        return value
    if isinstance(like, tuple):
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"must be a list of {'captures' if name == 'captures' else 'rule codes'}, not {value!r}")
        if name == "captures" and (unknown := [each for each in value if each not in CAPTURES]):
            raise ValueError(f"takes {', '.join(CAPTURES)}, not {', '.join(unknown)}")
        return tuple(value)
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and grade in SEVERITIES for key, grade in value.items()
    ):
        raise ValueError(f"must map rule codes to one of {', '.join(SEVERITIES)}, not {value!r}")
    return dict(value)
