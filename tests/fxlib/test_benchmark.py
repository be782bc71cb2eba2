"""What a benchmark times: the inputs as given or resized, each variant from the same state, and nothing of the caller's
changed. Small models, few samples: the figures do not matter."""

from __future__ import annotations

import math
import os

import pytest
import torch
from torch import nn

from fxlib.benchmark import benchmark


def timed(model, inputs, variants=("generated", "onnxruntime"), **kwargs):
    return benchmark(model.eval(), inputs, list(variants), rounds=3, seconds=0.1, **kwargs)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.seen: list = []

    def forward(self, x, mask):
        scores = self.layer(x) @ x.transpose(1, 2)
        return (scores + mask).softmax(-1) @ x


def test_inputs_are_timed_as_given_and_only_the_batch_is_resized() -> None:
    report = timed(Masked(), (torch.randn(4, 6, 8), torch.zeros(6, 6)))
    assert report.inputs == "float32[4, 6, 8], float32[6, 6]" and not [
        row.problem for row in report.rows if row.problem
    ]
    sizes = []

    class Sized(nn.Module):
        def forward(self, given, mask):
            sizes.append((len(given["x"][0]), len(mask)))
            return given["x"][0] * 2

    report = timed(Sized(), ({"x": [torch.randn(4, 8)]}, torch.zeros(6, 6)), ["eager"], batches=[4, 9])
    assert set(sizes) == {(4, 6), (9, 6)} and [row.batch for row in report.rows] == [4, 9]
    assert report.inputs == "{'x': [float32[4, 8]]}, float32[6, 6]"


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = 0
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x):
        self.n += 1
        self.calls += 1
        return self.layer(x) + self.n


def test_each_variant_starts_from_the_state_of_the_model_which_is_kept() -> None:
    model = Counts()
    report = timed(model, (torch.randn(4, 8),), ["generated", "onnxruntime"])
    assert [row.max_rel_error < 1e-5 for row in report.rows] == [True, False, True], "a trace loses the write"
    assert model.n == 0 and model.calls == 0


def test_a_model_that_writes_to_its_input_is_timed_on_copies() -> None:
    class Doubles(nn.Module):
        def forward(self, x):
            return x.mul_(2) + 1

    x = torch.ones(4, 8)
    report = timed(Doubles(), (x,), ["generated"])
    assert (x == 1).all() and report.writes and "times include copying" in report.table()


def test_a_result_of_another_kind_is_told() -> None:
    class Pair(nn.Module):
        def forward(self, x):
            return x.relu() if isinstance(x, torch.Tensor) else (x.relu(), x[0])

    report = timed(Pair(), (torch.randn(4, 8),), ["generated"])
    assert report.rows[1].mismatch == "2 tensors instead of 1 tensor" and report.rows[1].max_rel_error == math.inf
    assert "generated forward gives 2 tensors instead of 1 tensor" in report.table()


def test_random_numbers_are_those_of_one_seed_and_the_report_says_so() -> None:
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    report = timed(Noisy(), (torch.randn(4, 8),), ["generated"])
    assert report.random and [row.max_rel_error for row in report.rows] == [0.0, 0.0]
    assert "draws random numbers" in report.table()


def test_what_changes_nothing_is_told_in_any_order() -> None:
    class Scales(nn.Module):
        def forward(self, x):
            return x * 2

    rows = timed(Scales(), (torch.randn(4, 8),), ["quantized", "generated"]).rows
    assert [(row.variant, row.problem) for row in rows] == [
        ("eager", None), ("quantized", "changes nothing in this model"), ("generated", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "options", "reason"),
    [
        ((torch.randn(4, 8),), {"threads": [100_000]}, f"threads must be at most {os.cpu_count()}"),
        ((torch.randn(0, 8),), {"batches": [4]}, "an example with at least one row"),
        ((torch.randn(4, 7),), {}, "Linear itself fails on its inputs: mat1 and mat2"),
    ],
)
def test_what_cannot_be_timed_is_one_sentence(inputs, options, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        timed(nn.Linear(8, 8), inputs, ["eager"], **options)
