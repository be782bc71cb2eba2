"""Constructs any module class from what its code says, and finds inputs for it, without a word of configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import sandbox
from .construct import Construction
from .inputs import Inputs
from .reading import MOST_NODES, Reader
from .search import Budget
from .source import Sources


@dataclass
class Result:
    status: str
    construct: str | None = None
    inputs: str | None = None
    ran: bool = False
    reason: str | None = None
    missing: bool = False
    trials: int = 0

    def as_dict(self) -> dict[str, Any]:
        return vars(self)


class Assumer:
    def __init__(self, namespace: ModuleType | None, hints: Mapping[str, list[str]] | None = None) -> None:
        self.namespace = namespace
        self.hints = hints or {}
        self.reader = Reader(Sources())

    def assume(self, kind: type) -> Result:
        if inspect.isabstract(kind):
            return Result("abstract")
        self.reader.left = MOST_NODES
        construction = Construction(kind, self.namespace, self.reader, self.hints)
        found = construction.search(Budget())
        if not found.outcome.ok:
            error = found.outcome.error
            return Result("failed", reason=f"{found.text}: {type(error).__name__}: {error}"[:1000], missing=type(error).__name__ == "NeedsPackage", trials=found.trials)
        result = Result("constructed", found.text, trials=found.trials)
        module, meta = found.outcome.value, found.outcome.detail

        def remake():
            with sandbox.trial(2.0):
                return eval(found.text, construction.names)

        self.reader.left = MOST_NODES
        inputs = Inputs(module, meta, construction.names, self.reader, self.hints, remake)
        fed = inputs.search(Budget(seconds=1.5))
        result.trials += fed.trials
        result.inputs = fed.text if fed.outcome.ok else None
        result.ran = fed.outcome.ok
        if not fed.outcome.ok:
            error = fed.outcome.error
            result.reason = f"({fed.text}) {type(error).__name__}: {error}"[:600] + _where(error)
            result.missing = type(error).__name__ == "NeedsPackage"
        return result


def _where(error):
    import traceback
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and "fxlens" not in f.filename]
    return "".join(f"\n        {f.filename.rpartition('/')[2]}:{f.lineno} {f.line}" for f in own[-2:])
