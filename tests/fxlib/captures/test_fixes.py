"""Fixes for torch.export and torch.compile: proven by the checker, and torch takes what they make of the model."""

import pytest
import torch

from fxlib.captures.proof import CaptureChecker
from fxlib.diagnosis.fixes import apply_fix
from fxlib.diagnosis.rules.nets import net
from tests.fxlib.diagnosis.snippets import load

INPUTS = "torch.linspace(-2, 3, 6).reshape(2, 3)"
MATH = "import math\n\nimport torch\nfrom torch import nn\n"
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
}
WAYS = [(name, capture) for name in MODELS for capture in ("export", "compile")]
WAYS.remove(("unchecked-distribution", "compile"))  # torch.compile turns these checks off
WAYS.remove(("keep-tensor", "export"))  # torch.export takes it as it is


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
    best = next(fix for fix in checker.settle(first) if fix.preferred)
    assert best.id == name.partition(" ")[0]
    after = load(apply_fix(best, checker.read)[before.__file__], tmp_path)
    assert refused(capture, after.Net(), eval(INPUTS)) is None


def test_a_check_still_refuses_what_it_refused(tmp_path):
    before = load(MODELS["raise-to-assert"], tmp_path)
    checker = CaptureChecker("export", before.__file__, "Net()", "torch.ones(2, 3)")
    best = next(fix for fix in checker.settle(checker.before.report.findings[0]) if fix.preferred)
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
