"""Shape rules on calls of any kind: each answers or leaves the call to torch, none raises."""

import inspect
import random

import pytest
import torch
from torch import nn

from fxlib.shapes import ShapeError, TensorMeta, infer, table

SHAPES = [(), (3,), (2, 3), (2, 3, 4), (1, 2, 6, 6), (0, 2)]
TENSORS = [TensorMeta.of(torch.empty(s, dtype=d)) for s in SHAPES for d in (torch.float32, torch.int64, torch.bool)]
OTHERS = [
    *(None, True, False, 0, 1, 2, -1, -3, 7, 2**40, 2.5, -0.5, float("nan"), "x", "mean", "same", ...),
    *([1, 2], (1, 1), [2, -1], (0,), [0, 0], [], (), slice(0, 2), slice(None), [TENSORS[1], TENSORS[4]], [None, 2]),
    *(torch.float32, torch.int8, torch.device("cpu"), torch.contiguous_format),
]
MODULES = [
    *(nn.Conv1d(3, 4, 2), nn.Conv2d(2, 4, 3, padding="same"), nn.Conv2d(2, 4, 3, stride=2), nn.Conv3d(2, 2, 1)),
    *(nn.ConvTranspose1d(3, 3, 2), nn.ConvTranspose2d(2, 3, 2), nn.MaxPool1d(2), nn.MaxPool2d(2, 0)),
    *(nn.MaxPool2d((2, 2), ceil_mode=True), nn.AvgPool2d(2), nn.AvgPool3d(1), nn.AdaptiveAvgPool1d(2)),
    *(nn.AdaptiveAvgPool2d((1, None)), nn.AdaptiveMaxPool2d(1), nn.BatchNorm1d(3), nn.BatchNorm2d(2, affine=False)),
    *(nn.BatchNorm3d(2), nn.LayerNorm(3), nn.LayerNorm([2, 3]), nn.GroupNorm(1, 3), nn.GroupNorm(2, 2, affine=False)),
    *(nn.Linear(3, 4), nn.Embedding(4, 4), nn.ReLU(), nn.PReLU(), nn.Softmax(), nn.Softmax(-1), nn.Flatten()),
    *(nn.Flatten(3, 1), nn.Unflatten(1, (1, 3)), nn.Unflatten(1, (-1, 0)), nn.PixelShuffle(2), nn.ZeroPad2d(1)),
    *(nn.ConstantPad1d((1, -5), 0), nn.Identity()),
]
RULES = {f"{rule.__module__}.{name}": rule for name, rule in table.METHODS.items()}
RULES |= {f"{getattr(target, '__name__', target)}": rule for target, rule in table.FUNCTIONS.items()}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_answers_or_has_no_answer(name):
    rule = RULES[name]
    choose = random.Random(name)
    kinds = [parameter.kind for parameter in inspect.signature(rule).parameters.values()]
    named = sum(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
    most = named + 2 * (inspect.Parameter.VAR_POSITIONAL in kinds)
    for _ in range(200):
        count = choose.randint(min(1, most), most)
        args = tuple(choose.choice(TENSORS if choose.random() < (0.3 if i else 0.9) else OTHERS) for i in range(count))
        table.answer(rule, args, {})


@pytest.mark.parametrize("module", MODULES, ids=repr)
def test_a_rule_of_a_module_answers_or_has_no_answer(module):
    for value in [*TENSORS, *OTHERS]:
        table.answer(table.MODULES[type(module)], (module, value), {})


def broken(input: TensorMeta, dim: int = 0) -> TensorMeta:
    raise KeyError(dim)


def test_an_exception_in_a_rule_surfaces_in_tests_and_nowhere_else(monkeypatch):
    x = TENSORS[6]
    monkeypatch.setitem(table.FUNCTIONS, torch.relu, broken)
    with pytest.raises(KeyError):
        infer("call_function", torch.relu, (x,))
    # The rule is not written for such a call, so torch is asked, and refuses it.
    with pytest.raises(ShapeError, match="relu"):
        infer("call_function", torch.relu, ("text", x))
    monkeypatch.setattr(table, "STRICT", False)
    assert infer("call_function", torch.relu, (x,)) == x


@pytest.mark.parametrize("method", ["size", "stride"])
def test_questions_out_of_range_are_refused_in_torchs_words(method):
    with pytest.raises(ShapeError, match="out of range"):
        infer("call_method", method, (TENSORS[6], 7))
    assert infer("call_method", method, (TENSORS[6], -1)) == (3 if method == "size" else 1)
