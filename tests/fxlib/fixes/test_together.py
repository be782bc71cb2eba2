"""Fixes of several findings are verified in one text, and each comes out as if it had been verified alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fxlib.diagnosis.fixes import Fix
from fxlib.diagnosis.fixes.example import Example
from fxlib.diagnosis.fixes.together import prove_together

from .marked import net
from .test_verify import checker_for

GOOD = "x = x / len(x)\nif x.sum() > 1:\n    x = x * 2\nif x.norm() > 1:\n    x = x / x.norm()\n"
NOT_THE_FIRST = "for row in range(len(x)):\n    x = x + row\n"


def settled(text: str, tmp_path: Path, together: bool) -> tuple[list[list[Fix]], int]:
    """What is offered for each finding, and how many edited texts were tried."""
    checker, begun = checker_for(tmp_path, text), []
    found: list[Any] = [each for each in checker.before.report.findings if each.severity in ("error", "warning")]
    if together:
        prove_together(checker, [(each, None) for each in found], lambda: begun.append(1))
        assert begun
    return [checker.settle(each, every=False) for each in found], len(checker.before.tried)


STAR = "x = joined(*x.split(2, dim=1))\n"  # indexes in its place are right for four columns only
JOINED = "def joined(*parts):\n    return torch.hstack(parts)\n\n\nclass Net"


@pytest.mark.parametrize(("first", "fewer", "compared"), [("", 2, 1), (NOT_THE_FIRST, 1, 2), (STAR, -1, 2)])
def test_each_comes_out_as_if_verified_alone(tmp_path: Path, monkeypatch, first: str, fewer: int, compared: int):
    """And what a text with several fixes computes is not computed again for each, where only its trace speaks against
    some of them."""
    text = net(f"{first}{GOOD}return x\n").replace("class Net", JOINED)
    alone, texts = settled(text, tmp_path, together=False)
    sides: list[bool] = []
    runs = Example.runs
    monkeypatch.setattr(Example, "runs", lambda *args: sides.append(args[4] is not None) or runs(*args))
    joint, number = settled(text, tmp_path, together=True)
    assert joint == alone and len(joint) > 2
    assert texts - number >= fewer
    assert sum(sides) == compared


def test_where_time_is_up_those_that_hold_without_the_others_are_tried_all_the_same(tmp_path: Path):
    checker = checker_for(tmp_path, net(f"{NOT_THE_FIRST}{GOOD}return x\n"))
    found = [each for each in checker.before.report.findings if each.severity in ("error", "warning")]
    checker.left = 0.0
    prove_together(checker, [(each, None) for each in found], lambda: None)
    assert len(checker.before.tried) == 2 and 1 < len(checker.proven) < len(found)
