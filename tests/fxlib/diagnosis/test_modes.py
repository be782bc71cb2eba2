"""Properties that a graph loses: modes that the model sets itself, backward hooks, gradients, dtypes.

torch.fx traces each of these models without an error, and the traced module differs from it after `train()`, `eval()`,
`half()` or `backward()`.
"""

from __future__ import annotations

import pytest
import torch
import torch.fx

import fxlib

from .snippets import load

HEAD = """\
import functools
import uuid

import torch
from torch import nn


def disabled_train(self, mode=True):
    return self


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.bn(x)


class Kept(Block):
    ⟦def train⟧(self, mode=True):
        super().train(mode)
        self.bn.eval()
        return self


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.none = nn.Dropout(0.0)
        self.block = Block()
        self.kept = Kept()
        self.l = nn.Linear(3, 3)
        self.twice = Twice()
        INIT

    TRAIN

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def forward(self, x):
        BODY
"""
TRAIN = "def train(self, mode=True):\n        super().train(mode)\n        {}\n        return self"
# The source, and the findings at the marked place: in the constructor, in `train`, in forward.
FOUND = {
    "train of the class": ("", TRAIN.replace("def train", "⟦def train⟧").format("self.bn.eval()"), "return self.bn(x)"),
    "for all layers": (
        "",
        TRAIN.replace("def train", "⟦def train⟧").format(
            "for m in self.modules():\n            m.training = isinstance(m, nn.Linear)"
        ),
        "return self.block(self.bn(x))",
    ),
    "train of a part": ("", "", "return self.kept(x)"),
    "a train that does nothing": (
        "self.block.eval()\n        self.block.train = disabled_train.__get__(self.block)",
        "",
        "return self.block(x)",
    ),
    "eval in forward": ("", "", "⟦self.bn.eval()⟧\n        return self.bn(x)"),
    "eval of a part in forward": ("", "", "⟦self.block.eval()⟧\n        return self.block(x)"),
    "for one call": ("", "", "⟦self.bn.eval()⟧\n        y = self.bn(x)\n        self.bn.train()\n        return y"),
    "train in forward": ("", "", "⟦self.drop.train()⟧\n        return self.drop(x)"),
    "by assignment": ("", "", "⟦self.bn.training⟧ = False\n        return self.bn(x)"),
}
RIGHT = {
    "eval in the constructor": ("self.bn.eval()", "", "return self.bn(x)"),
    "a train that adds nothing": ("", TRAIN.format("self.epoch = 0"), "return self.bn(x)"),
    "a layer without modes": ("", TRAIN.format("self.l.eval()"), "return self.l(x)"),
    "a rate of zero": ("", TRAIN.format("self.none.eval()"), "return self.none(x)"),
    "a layer that is not called": ("", TRAIN.format("self.bn.eval()"), "return self.l(x)"),
    "to the mode it has": ("", "", "self.bn.train(self.training)\n        return self.bn(x)"),
    "a train that raises": ("", TRAIN.format("raise RuntimeError('no')"), "return self.bn(x)"),
    "weights merged": (
        "",
        TRAIN.format("self.l.weight.data += float(self.l.weight.sum())"),
        "return self.l(self.bn(x))",
    ),
}


def made(parts, tmp_path, kept=False):
    init, train, body = parts
    text = HEAD.replace("INIT", init or "pass").replace("TRAIN", train or "pass").replace("BODY", body)
    if not kept:
        text = text.replace(
            "⟦def train⟧(self, mode=True):\n        super", "def train(self, mode=True):\n        super", 1
        )
    marked = text.partition("⟦")[2].partition("⟧")[0]
    line = text.partition("⟦")[0].count("\n") + 1
    return load(text.replace("⟦", "").replace("⟧", ""), tmp_path), text, marked, line


def parts_after_a_change_of_mode(module):
    """Whether torch.fx's graph gives something else than the model, after `train()` or after `eval()`."""
    x = torch.randn(8, 3) * 5 + 3
    for mode in (True, False):
        model, graph = (make(module.Net()) for make in (lambda each: each, torch.fx.symbolic_trace))
        graph.load_state_dict({k: v for k, v in model.state_dict().items() if k in graph.state_dict()})
        results = []
        for each in (model, graph):
            torch.manual_seed(0)
            results.append(each.train(mode)(x))
        if not torch.allclose(*results):
            return True
    return False


@pytest.mark.parametrize("name", FOUND)
def test_a_mode_that_the_model_sets(name, tmp_path):
    module, text, marked, line = made(FOUND[name], tmp_path, kept=name == "train of a part")
    assert parts_after_a_change_of_mode(module)
    model = module.Net()
    before = [each.training for each in model.modules()]
    (found,) = fxlib.diagnose(model, torch.randn(2, 3)).findings
    assert found.code == "FX237" and found.severity == "warning"
    if marked:
        assert (found.span.line, found.span.end_column - found.span.column) == (line, len(marked)), found
    else:
        assert (
            "self.block" in text.splitlines()[found.span.line - 1]
            or "disabled" in text.splitlines()[found.span.line - 1]
        )
    assert before == [each.training for each in model.modules()]


@pytest.mark.parametrize("name", RIGHT)
def test_a_mode_that_the_graph_has_too(name, tmp_path):
    module, *_ = made(RIGHT[name], tmp_path)
    model = module.Net()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert [each.message for each in fxlib.diagnose(model, torch.randn(2, 3)).findings] == []
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in before.items())


# What `train` sets, forward, and the findings: code, the marked text.
OWN = {
    "a flag": ("self.fast = not mode", "return self.l(x) if ⟦self.fast⟧ else self.l(x).sin()", ["FX207"]),
    "a flag beside training": (
        "self.fast = not mode",
        "return self.l(x) if ⟦self.fast⟧ and not self.training else self.l(x).sin()",
        ["FX207"],
    ),
    "of two flags, the one that matters": (
        "self.fast = self.slow = not mode",
        "y = self.l(x) if self.slow else self.l(x)\n        return y if ⟦self.fast⟧ else y.sin()",
        ["FX207"],
    ),
    "weights that are merged": (
        "if self.fast == mode:\n            self.l.weight.data += 1\n            self.fast = not mode",
        "return self.l(x) if ⟦self.fast⟧ else self.l(x) + x.sum(-1, keepdim=True)",
        ["FX207"],
    ),
    "a flag that changes no graph": (
        "self.fast = not mode",
        "y = self.l(x) if self.fast else self.l(x)\n        return y",
        [],
    ),
    "a layer that is removed": ("del self.block\n        self.fast = not mode", "return self.l(x)", []),
    "a flag that is not read": ("self.fast = not mode", "return self.l(x)", []),
    "a number that stays": ("self.scale = 2", "return self.l(x) * self.scale", []),
    "another graph at each trace": (
        "self.fast = not mode",
        "y = self.l(x) if self.fast else self.l(x)\n        return y * uuid.uuid4().int",
        ["FX206"],
    ),
    "gradients": ("self.l.requires_grad_(not mode)", "return self.l(x)", ["FX237"]),
    "gradients of what is not called": ("self.l.requires_grad_(not mode)", "return self.twice(x)", []),
    "gradients as they were": ("self.l.requires_grad_(True)", "return self.l(x)", []),
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_train_of_its_own_sets(name, tmp_path):
    train, body, expected = OWN[name]
    init = "self.fast = self.slow = False\n        self.scale = 2"
    train = TRAIN.replace("def train", "⟦def train⟧" if "FX237" in expected else "def train").format(train)
    module, text, marked, line = made((init, train, body), tmp_path)
    merges = name == "weights that are merged"
    if "⟦self.fast⟧" in text and not merges:
        assert parts_after_a_change_of_mode(module)
    model = module.Net()
    before = [vars(each).copy() for each in model.modules()], [each.requires_grad for each in model.parameters()]
    found = fxlib.diagnose(model, torch.randn(2, 3)).findings
    assert [each.code for each in found] == expected
    assert all(each.severity == ("info" if merges else "warning") for each in found)
    if marked:
        assert (found[0].span.line, found[0].span.end_column - found[0].span.column) == (line, len(marked)), found
    assert before == ([vars(each) for each in model.modules()], [each.requires_grad for each in model.parameters()])


@pytest.mark.parametrize(
    ("register", "into"),
    [("register_full_backward_hook", "m, given, taken"), ("register_full_backward_pre_hook", "m, taken")],
)
def test_a_backward_hook_of_what_is_traced_into(register, into, tmp_path):
    result = "(given[0] * 3,)" if "given" in into else "(taken[0] * 3,)"
    call = f"self.twice.{register}(lambda {into}: {result})"
    for owner, expected in (("twice", ["FX233"]), ("l", [])):
        parts = (f"⟦{call.replace('double', owner)}⟧", "", f"return self.{owner}(x)")
        module, _, marked, line = made(parts, tmp_path)
        gradients = []
        for make in (lambda each: each, torch.fx.symbolic_trace):
            torch.manual_seed(0)
            x = torch.ones(2, 3, requires_grad=True)
            make(module.Net())(x).sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients) == (not expected)
        found = fxlib.diagnose(module.Net(), torch.randn(2, 3)).findings
        assert [each.code for each in found] == expected
        assert all((each.span.line, each.span.end_column - each.span.column) == (line, len(marked)) for each in found)


def test_parameters_that_need_gradients_in_one_mode(tmp_path):
    for parts, expected in (
        (("", "", "self.l.requires_grad_(⟦self.training⟧)\n        return self.l(x)"), ["FX207"]),
        (("", "", "self.l.requires_grad_(False)\n        return self.l(x)"), []),
    ):
        module, _, marked, line = made(parts, tmp_path)
        model = module.Net()
        found = fxlib.diagnose(model, torch.randn(2, 3)).findings
        assert [each.code for each in found] == expected
        assert all((each.span.line, each.span.end_column - each.span.column) == (line, len(marked)) for each in found)
        assert all(each.requires_grad for each in model.parameters())


def test_the_dtype_of_the_models_own_parameters(tmp_path):
    cases = {
        "return ⟦self.l(x).float().softmax(-1).to(self.dtype)⟧": True,
        "dtype = self.l.weight.dtype\n        return self.twice(⟦torch.zeros(2, 3, dtype=dtype)⟧) + self.l(x)": False,
        "return ⟦self.l(x).clamp(min=torch.finfo(self.dtype).min)⟧": True,
        "y = self.l(x)\n        return y.float().softmax(-1).to(y.dtype)": None,
        "return self.l(x).to(torch.float32)": None,
    }
    for body, differs in cases.items():
        module, _, marked, line = made(("", "", body), tmp_path)
        found = [each for each in fxlib.diagnose(module.Net(), torch.randn(2, 3)).findings if each.code == "FX238"]
        assert bool(found) == bool(differs), body
        for each in found:
            assert each.severity == "info"
            assert (each.span.line, each.span.end_column - each.span.column) == (line, len(marked))


def test_a_question_for_overrides(tmp_path):
    for call in (
        "torch.overrides.has_torch_function((x,))",
        "torch.overrides.has_torch_function_unary(x)",
        "torch.typename(x) == 'torch.fx.proxy.Proxy'",
    ):
        module, *_ = made(("", "", f"return x * 2 if {call} else x"), tmp_path)
        (found,) = fxlib.diagnose(module.Net(), torch.randn(2, 3)).findings
        assert found.code == "FX202"
        assert call.startswith(
            module.__loader__.get_source(module.__name__).splitlines()[found.span.line - 1][
                found.span.column : found.span.end_column
            ]
        )


def test_autocast_that_is_turned_off_only_ends_that_of_a_caller():
    class Careful(torch.nn.Module):
        def __init__(self, mixed):
            super().__init__()
            self.mixed = mixed

        def forward(self, x):
            with torch.autocast("cuda", enabled=self.mixed):
                return x @ x.t()

    found = [fxlib.diagnose(Careful(mixed), torch.ones(2, 3)).findings for mixed in (False, True)]
    assert [(each.code, each.severity) for (each,) in found] == [("FX213", "info"), ("FX213", "warning")]


FROZEN = """\
        return self.head(self.back(x))

    def train(self, mode=True):
        super().train(mode)
        self.back.KEPT
        return self


class Back(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.1, self.training)
"""


@pytest.mark.parametrize(("kept", "mode"), [("eval()", ""), ("train(True)", ""), ("requires_grad_(False)", "training")])
def test_a_part_that_the_model_keeps_in_one_mode_is_the_same_in_both(kept, mode, tmp_path):
    body = FROZEN.replace("KEPT", kept)
    init = "self.head, self.back = self.l, Back()\n        self.train()"
    text = HEAD.partition("        self.bn = nn.BatchNorm1d(3)\n        self.drop")[0]
    text += f"        self.l = nn.Linear(3, 3)\n        {init}\n\n    def forward(self, x):\n{body}"
    found = fxlib.diagnose(load(text.replace("⟦", "").replace("⟧", ""), tmp_path).Net(), torch.randn(2, 3)).findings
    assert [each.code for each in found] == (["FX207"] if mode else [])
    assert all(f"behaves as in {mode} mode" in each.message for each in found)


def test_the_mode_is_that_of_the_part_that_was_read():
    class Back(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.training else x

    model = torch.nn.Sequential(Back(), torch.nn.Linear(3, 3))
    model[0].eval()
    (found,) = fxlib.diagnose(model, torch.randn(2, 3)).findings
    assert "behaves as in eval mode" in found.message
