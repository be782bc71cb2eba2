"""A file whose models take long is shown in parts: what is diagnosed by then, and not as often as there are models."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fxlens import record
from fxlens.host.outcome import Outcome
from fxlens.ipc.request import Request
from fxlens.jobs import trace

MODELS = 1000


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Slow:
    """A pool whose jobs diagnose one model in each second."""

    hello: dict[str, Any] = {}

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    async def run(self, message: Any, limits: Any, on_event: Any) -> Outcome:
        for number in range(MODELS):
            self.clock.now += 1.0
            target = record.target(f"Net{number}", record.span("net.py", 1, 0, 1, 1), "traced")
            on_event({"event": "target", "target": target})
        on_event({"event": "diagnosed"})
        return Outcome("done")


@pytest.mark.parametrize("cursor", ["", "Net500"])
def test_models_are_shown_before_all_are_diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cursor: str):
    clock = Clock()
    monkeypatch.setattr(trace, "time", clock)
    shown: list[int] = []
    request = Request(path=str(tmp_path / "net.py"), text="", cursor=cursor)
    done = trace.run(Slow(clock), request, None, lambda part: shown.append(len(part["targets"])))  # type: ignore[arg-type]
    assert len(asyncio.run(done)["targets"]) == MODELS
    assert shown[0] == 3 and shown == sorted(shown)
    assert 5 < len(shown) < 12, "each time as many again"
    assert not cursor or 501 in shown
