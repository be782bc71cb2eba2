"""Traces a small model on meta before the first fork, so that every job starts with warm caches.

Only meta tensors are used: no operator computes and no thread starts, so forking stays safe.
"""

from __future__ import annotations

import traceback


def run() -> None:
    """Fills the caches of torch, fxlib and the standard library that the first trace of a process would fill.  In a
    fork it also copies the pages that a trace writes to."""
    try:
        _trace()
    except Exception:
        traceback.print_exc()


def _trace() -> None:
    import ast

    import torch
    from torch import nn

    from fxlib.diagnosis.diagnose import diagnose
    from fxlib.diagnosis.engine import cuts

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(8, 8)
            self.conv = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.BatchNorm2d(1), nn.ReLU(), nn.MaxPool2d(2))
            self.linear = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)
            self.dropout = nn.Dropout(0.1)

        def forward(self, ids, mask):  # type: ignore[no-untyped-def]
            x = self.conv(self.embed(ids).unsqueeze(1)).squeeze(1)
            batch, length, width = x.shape
            heads = self.linear(x).view(batch, length, 2, width // 2).transpose(1, 2)
            scores = torch.softmax(heads @ heads.transpose(-1, -2) * 0.5 + mask, dim=-1)
            x = (self.dropout(scores) @ heads).transpose(1, 2).reshape(batch, length, width)
            return self.norm(torch.cat([x, x + 1], 1)).mean(1)

    ast.parse("x = 1")
    cuts.prepare()
    with torch.device("meta"):
        module = Small()
        inputs = (torch.zeros(2, 8, dtype=torch.long), torch.zeros(1, 1, 1, 1))
        torch.randn(1)
    from . import render

    for example in (inputs, None):
        report = diagnose(module, example)
        render.nodes(report.graph, module)
        render.code(report.graph_module, report.graph)
