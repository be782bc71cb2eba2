"""What is timed: the inputs as they are given, and the model in the state in which it was given."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fxlib.benchmark import benchmark


class Seen(nn.Module):
    """Records the shapes with which it is called; writes to its state and to its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.number = 0
        self.shapes: set = set()

    def forward(self, x, batch, mask):
        self.calls += 1
        self.number += 1
        SEEN.add((x.shape, batch["y"].shape, batch["z"][0].shape, mask.shape))
        LARGEST.append(x.max())
        x.mul_(1.1)
        return x.sum() * self.calls + self.number


SEEN: set = set()
LARGEST: list = []


@pytest.mark.parametrize(("batches", "rows"), [(None, {4}), ([2, 9], {2, 9})])
def test_inputs_keep_their_shapes_and_their_values(batches, rows) -> None:
    SEEN.clear()
    LARGEST.clear()
    model, x = Seen().eval(), torch.ones(4, 3)
    inputs = x, {"y": torch.ones(4, 2), "z": [torch.ones(1, 2)]}, torch.ones(6, 6)
    report = benchmark(model, inputs, [], batches=batches, rounds=3)
    assert {((n, 3), (n, 2), (1, 2), (6, 6)) for n in rows} == SEEN
    assert [row.batch for row in report.rows] == sorted(rows)
    assert torch.equal(x, torch.ones(4, 3)) and model.calls == 0 and model.number == 0
    # Each sample starts with the same inputs: a call has those of the calls before it in its own sample at most.
    assert LARGEST.count(torch.tensor(1.0)) >= 3 + 2
    assert report.inputs == "float32[4, 3], {'y': float32[4, 2], 'z': [float32[1, 2]]}, float32[6, 6]"


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) + self.calls + torch.zeros_like(x).bernoulli_(0.5)


class Reshaped(nn.Module):
    """Its trace gives another shape, and another dtype."""

    def forward(self, x):
        return x.relu() if isinstance(x, torch.Tensor) else (x.relu().half(), x[0])


def test_each_variant_has_the_state_the_random_numbers_and_the_kind_of_result_of_eager() -> None:
    report = benchmark(Counting().eval(), (torch.randn(4, 8),), ["generated", "onnxruntime"], rounds=3)
    generated, lowered = report.rows[1:]
    assert lowered.max_rel_error < 1e-5 < generated.max_rel_error and not lowered.problem, "a trace loses the write"
    assert "the model draws random numbers" in report.table()
    report = benchmark(Reshaped().eval(), (torch.randn(4, 8),), ["generated"], rounds=3)
    assert report.rows[1].mismatch == "2 tensors instead of 1 tensor"
    assert "generated forward gives 2 tensors instead of 1 tensor" in report.table()


def test_what_cannot_be_timed_is_said() -> None:
    with pytest.raises(ValueError, match=r"Linear itself fails on these inputs \(float32\[4, 7\]\): mat1 and mat2"):
        benchmark(nn.Linear(8, 8).eval(), (torch.randn(4, 7),), [])
    with pytest.raises(ValueError, match="no rows to repeat"):
        benchmark(nn.Linear(8, 8).eval(), (torch.randn(0, 8),), [], batches=[2])
