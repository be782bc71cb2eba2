"""Fixes for torch.export and torch.compile: proven by the checker, and torch captures the fixed model."""

import pytest
import torch

from fxlib.captures.proof import CaptureChecker
from fxlib.diagnosis.fixes import apply_fix
from fxlib.diagnosis.fixes.reload import registrations_dropped
from fxlib.diagnosis.rules.nets import net
from tests.fxlib.diagnosis.snippets import load

INPUTS = "torch.linspace(-2, 3, 6).reshape(2, 3)"
MATH = "import math\n\nimport torch\nfrom torch import nn\n"
NUMPY = "import numpy as np\nimport torch\nfrom torch import nn\n"
LAYERS = "self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))"
READY = 'self.register_buffer("mean", torch.zeros(3)); self.register_buffer("ready", torch.tensor(False))'
MODELS = {
    "raise-to-assert": net('if torch.isnan(x).any():\n    raise ValueError("nan")\nreturn x * 2'),
    "fill-where": net(
        "if not self.ready:\n    self.mean.copy_(x.mean(0))\n    self.ready.fill_(True)\nreturn x - self.mean",
        init=READY,
    ),
    "continue-to-where": net(
        "for layer in self.layers:\n    if x.mean() > 5:\n        continue\n    x = layer(x)\nreturn x",
        init="self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))",
    ),
    "unchecked-distribution": net("return torch.distributions.Normal(x, x.exp()).log_prob(x)"),
    "raise-to-assert numel": net('if x.sum() != x.numel() - 3:\n    raise ValueError("other")\nreturn x * 2'),
    "keep-tensor": net("values = x.mean(1).tolist()\nreturn x * values[0]"),
    "torch-math": net("return x / math.sqrt((x * x).sum())", head=MATH),
    "if-to-where item": net("if x.max().item() > 3:\n    x = x / 2\nreturn x"),
    "if-to-where allclose": net("return x if torch.allclose(x, x.round()) else x - 1"),
    "if-to-where equal": net("if torch.equal(x, x.round()):\n    return x * 2\nreturn x + 1"),
    "if-to-where element": net("return x * 2 if 3 in x else x + 1", signature="self, x: torch.Tensor"),
    "leave-to-mask": net(
        "for layer in self.layers:\n    new = torch.tanh(layer(x))\n    if (new - x).norm() < 1.5:\n        break\n"
        "    x = new\nreturn x * 2",
        init=LAYERS,
    ),
    "leave-to-mask return": net(
        "h, steps = x, 0 * x\nfor layer in self.layers:\n    h, steps = layer(h), steps + 1\n"
        "    if h.mean() > 0.2:\n        return h + steps\nreturn h - 1",
        init=LAYERS,
        signature="self, x: torch.Tensor",
    ),
    "rows-by-mask": net(
        "rows = []\nfor row in x:\n    if row.sum() > 0:\n        rows.append(row)\nreturn torch.stack(rows) * 2",
        signature="self, x: torch.Tensor",
    ),
    "without-empty-case": net(
        "out = torch.zeros_like(x)\nfor i in range(3):\n    rows, columns = torch.where(x.round() == i)\n"
        "    if rows.numel() == 0:\n        continue\n    out[rows, columns] = x[rows, columns] * i\nreturn out"
    ),
    "slice-without-asking": net("kept = x[x > 0]\nif len(kept) > 2:\n    kept = kept[:2]\nreturn kept * 2"),
    "say-and-choose": net('y = x * 2\nif y.max() > 3:\n    print("large")\n    y = y / 2\nreturn y'),
    "only-in-python": net('if torch.isfinite(x).all():\n    print("finite")\nreturn x * 2'),
    "without-numpy": net("return x + torch.from_numpy(np.cumsum(x.detach().numpy(), axis=1))", head=NUMPY),
    "func-grad": net(
        "x = x.detach().requires_grad_(True)\ny = (x * self.weight).tanh().sum()\n"
        "(grad,) = torch.autograd.grad(y, x, create_graph=True)\nreturn grad.norm() + y",
        init="self.weight = nn.Parameter(torch.rand(3))",
    ),
}
SETTINGS = (
    "rows-by-mask",
    "without-empty-case",
    "slice-without-asking",
)  # torch.compile takes them with one of its own
WAYS = [(name, capture) for name in MODELS for capture in ("export", "compile")]
WAYS.remove(("unchecked-distribution", "compile"))  # torch.compile turns these checks off
WAYS.remove(("keep-tensor", "export"))  # torch.export takes it as it is
WAYS.remove(("func-grad", "export"))  # it keeps the parameters as constants
WAYS.remove(("without-numpy", "compile"))  # and torch.compile this one
WAYS = [way for way in WAYS if way not in {(name, "compile") for name in SETTINGS}]


def refused(capture, model, x):
    """The exception of torch, run as its users run it."""
    torch.compiler.reset()
    try:
        if capture == "export":
            torch.export.export(model, (x,), strict=False)
        else:
            torch.compile(model, fullgraph=True, backend="eager")(x)
    except Exception as error:
        return error
    finally:
        torch.compiler.reset()
        torch.distributions.Distribution.set_default_validate_args(True)
    return None


@pytest.mark.parametrize(("name", "capture"), WAYS)
def test_a_fix_is_proven_and_torch_takes_it(name, capture, tmp_path):
    before = load(MODELS[name], tmp_path)
    assert refused(capture, before.Net(), eval(INPUTS)) is not None
    checker = CaptureChecker(capture, before.__file__, "Net()", INPUTS)
    first = checker.before.report.findings[0]
    best = next(fix for fix in checker.settle(first) if fix.proven and fix.id == name.partition(" ")[0])
    after = load(apply_fix(best, checker.read)[before.__file__], tmp_path)
    assert refused(capture, after.Net(), eval(INPUTS)) is None


@pytest.mark.parametrize("name", SETTINGS)
def test_what_a_fix_brings_up_is_fixed_with_it(name, tmp_path):
    module = load(MODELS[name], tmp_path)
    checker = CaptureChecker("compile", module.__file__, "Net()", INPUTS)
    best = next(fix for fix in checker.settle(checker.before.report.findings[0]) if fix.proven)
    assert set(best.id.split("+")) == {name, "dynamo-setting"}
    assert "capture_dynamic_output_shape_ops = True" in apply_fix(best, checker.read)[module.__file__]


OBJECT = """import types

import torch
from torch import nn


class Sample:
    def __init__(self, image, scale=2.0):
        self.image, self.scale = image, scale


class Net(nn.Module):
    def forward(self, sample):
        return sample.image * sample.scale
"""


@pytest.mark.parametrize("made", ["Sample(x)", "types.SimpleNamespace(image=x, scale=3.0)"])
def test_a_class_among_the_inputs_is_registered(made, tmp_path):
    before = load(OBJECT, tmp_path)
    inputs = made.replace("x", INPUTS)
    checker = CaptureChecker("export", before.__file__, "Net()", inputs)
    (best,) = checker.settle(checker.before.report.findings[0])
    assert (best.id, best.proven) == ("register-class", True)
    with registrations_dropped():
        after = load(apply_fix(best, checker.read)[before.__file__], tmp_path)
        assert refused("export", after.Net(), eval(inputs, vars(after))) is None
    assert refused("export", before.Net(), eval(inputs, vars(before))) is not None


def test_a_loop_that_is_left_computes_the_same(tmp_path):
    """Also if it is never left, left at once, or never ends."""
    for name in ("leave-to-mask", "leave-to-mask return"):
        before = load(MODELS[name], tmp_path)
        checker = CaptureChecker("export", before.__file__, "Net()", INPUTS)
        best = next(fix for fix in checker.settle(checker.before.report.findings[0]) if fix.proven)
        after = load(apply_fix(best, checker.read)[before.__file__], tmp_path)
        old, new = before.Net(), after.Net()
        new.load_state_dict(old.state_dict())
        x = eval(INPUTS)
        for other in (x * 0 + 1, x[:0], -x):
            torch.testing.assert_close(new(other), old(other))


def test_a_case_that_is_not_empty_by_nature_stays(tmp_path):
    body = "kept = x[x > 0]\nif kept.numel() > 0:\n    x = x - kept.mean()\nreturn x"
    module = load(net(body), tmp_path)
    checker = CaptureChecker("export", module.__file__, "Net()", INPUTS)
    fixes = checker.settle(checker.before.report.findings[0])
    assert "without-empty-case" not in [fix.id for fix in fixes if fix.proven]


def test_a_failure_without_a_place_is_no_fix(tmp_path):
    """torch.export rejects nn.Linear under torch.func.grad without naming an expression."""
    text = MODELS["func-grad"].replace("(x * self.weight)", "self.weight(x)")
    module = load(text.replace("nn.Parameter(torch.rand(3))", "nn.Linear(3, 1)"), tmp_path)
    proven = {}
    for capture in ("export", "compile"):
        checker = CaptureChecker(capture, module.__file__, "Net()", INPUTS)
        fixes = checker.settle(checker.before.report.findings[0], ["func-grad"])
        proven[capture] = [fix.id for fix in fixes if fix.proven]
    assert proven == {"export": [], "compile": ["func-grad"]}


def test_a_check_still_refuses_what_it_refused(tmp_path):
    before = load(MODELS["raise-to-assert"], tmp_path)
    checker = CaptureChecker("export", before.__file__, "Net()", "torch.ones(2, 3)")
    best = next(fix for fix in checker.settle(checker.before.report.findings[0]) if fix.proven)
    after = load(apply_fix(best, checker.read)[before.__file__], tmp_path)
    program = torch.export.export(after.Net(), (torch.ones(2, 3),)).module()
    for model in (after.Net(), program):
        with pytest.raises(RuntimeError, match="nan"):
            model(torch.full((2, 3), torch.nan))


def test_a_model_that_leaves_python_for_other_inputs_is_checked(tmp_path):
    body = 'if x.sum() < 0:\n    sys.exit("negative")\nif x.max() > 2:\n    x = x / 2\nreturn x'
    module = load(net(body, head=f"import sys\n{MATH}"), tmp_path)
    checker = CaptureChecker("compile", module.__file__, "Net()", INPUTS)
    assert "SystemExit" in [each.error for each in checker.before.outcomes]
    last = checker.before.report.findings[-1]
    assert next(fix.id for fix in checker.settle(last)) in ("if-to-where", "if-to-cond")
