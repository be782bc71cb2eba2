"""Expressions replaced by their eager values, for the captures of one model."""

from __future__ import annotations

import gc

import torch

from fxlib.captures import judge
from fxlib.diagnosis.fixes.reload import load_file

# torch.export fails at the condition, and torch.compile gives up the function that contains it.
STOPS = """
from torch import nn


class Stops(nn.Module):
    def forward(self, x):
        for row in x:
            if row.sum() > 0:
                x = x + 1
        return x
"""


def test_the_functions_of_the_process_are_searched_once_for_all_captures(tmp_path, monkeypatch):
    file = tmp_path / "stops.py"
    file.write_text(STOPS)
    model = load_file(str(file), {}).Stops()
    searches = []
    objects = gc.get_objects
    monkeypatch.setattr(gc, "get_objects", lambda *args: searches.append(args) or objects(*args))
    found = judge(model, (torch.ones(2, 3),), captures=["export", "compile", "shapes"])
    assert found.verdicts["export"].replaced.values
    assert found.verdicts["compile"].complete and found.verdicts["compile"].breaks
    assert len(searches) == 1
