"""Other dtypes than the example's, and numbers that are no ints: a fix that is applied computes there, too, what the
code did, or its note says what differs."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from fxlib.diagnosis.fixes.fix_all import Target, fix_all
from fxlib.diagnosis.fixes.reload import registrations_dropped
from fxlib.diagnosis.fixes.verify import Checker

from .marked import applied, fixes_of, net

X = torch.linspace(-2, 3, 12).reshape(3, 4)
HALF, DOUBLE, LONG, BYTE = X.half(), X.double(), (X * 4).long(), (X.abs() * 70).byte()
LARGE = torch.full((3, 4), 30000.0).half()
NUMPY = "import math\n\nimport numpy as np\nimport torch\nfrom torch import nn\n"
ALL = [HALF, DOUBLE, LONG, BYTE]


def outcome(text: str, inputs: tuple[Any, ...], construct: str = "Net()") -> Any:
    """What a model gives, or the class of what it raises."""
    module = sys.modules["net_of_dtypes"] = types.ModuleType("net_of_dtypes")
    exec(compile(text, "net.py", "exec"), vars(module))
    torch.manual_seed(0)
    try:
        model = eval(construct, vars(module))
        return model(*(each.clone() if torch.is_tensor(each) else each for each in inputs))
    except Exception as error:
        return type(error)


def same(before: Any, after: Any) -> None:
    """Of eager that raises, a fix may make anything."""
    if not isinstance(before, type):
        assert type(after) is type(before), (before, after)
        torch.testing.assert_close(after, before, rtol=1e-3 if before.dtype == torch.float16 else 1e-12, atol=0)


# recipe, source, inputs of other dtypes, or other arguments, what the text holds; the dtype and the values are kept
KEPT = {
    "zeros": (
        "new-zeros",
        net("total = torch.zeros(4)\n«total += x[0]»\ntotal += x[1]\nreturn total / 3\n"),
        [*ALL, LARGE],
        "total = x.new_zeros(4, dtype=torch.get_default_dtype())\n",
    ),
    "zeros of its dtype": (
        "new-zeros",
        net("total = torch.zeros(4, dtype=x.dtype, device=x.device)\n«total += x[0]»\nreturn total\n"),
        ALL,
        "total = x.new_zeros(4)\n",
    ),
    "full of a float": (
        "new-zeros",
        net("total = torch.full((4,), 0.5)\n«total += x[0]»\nreturn total\n"),
        ALL,
        "x.new_full((4,), 0.5, dtype=torch.get_default_dtype())",
    ),
    "full of an int": (
        "new-zeros",
        net("n = torch.full((4,), -1)\n«n += 2»\nreturn x[0] * n\n"),
        ALL,
        "x.new_full((4,), -1, dtype=torch.int64)",
    ),
    "noise": (
        "randn-like",
        net("return x + «torch.randn(x.shape)»\n"),
        ALL,
        "torch.randn_like(x, dtype=torch.get_default_dtype())",
    ),
    "noise of its dtype": (
        "randn-like",
        net("return x + «torch.rand(x.shape, dtype=x.dtype)»\n"),
        [DOUBLE],
        "torch.rand_like(x)",
    ),
    "mask": (
        "setitem-functional",
        net("y = x * 1\n«y[y > 1]» = 0.5\nreturn y\n"),
        ALL,
        "y = y.masked_fill(y > 1, 0.5)",
    ),
    "added at a mask": ("setitem-functional", net("y = x * 1\n«y[y > 1]» += 3\nreturn y\n"), ALL, "y = torch.where("),
    "column": ("setitem-functional", net("y = x * 1\n«y[:, 0]» = 0.5\nreturn y\n"), ALL, "index_fill"),
    "columns": ("setitem-functional", net("y = x * 1\n«y[:, :2]» = 0.1\nreturn y\n"), ALL, "slice_scatter"),
    "scalar that is none": (
        "to-python-number",
        net("return torch.mul(x, «np.float32(0.1)»)\n", NUMPY),
        [HALF, DOUBLE, LONG],
        "np.float32(0.1).item()",
    ),
    "integer as a float": (
        "to-python-number",
        net("return torch.mul(x, «np.float64(2)»)\n", NUMPY),
        [HALF, DOUBLE, LONG],
        "torch.mul(x, 2.0)",
    ),
    "truncated": (
        "to-python-number",
        net("return torch.mul(x, «np.int64(2.7)»)\n", NUMPY),
        ALL,
        "np.int64(2.7).item()",
    ),
    "product": (
        "to-python-number",
        net("return torch.mul(x, «np.prod([2, 3])»)\n", NUMPY),
        ALL,
        "np.prod([2, 3]).item()",
    ),
    "bits as a condition": (
        "if-to-where",
        net("a, b = x.max(), x.min()\nif «a & b»:\n    x = x * 2\nreturn x\n"),
        [LONG, LONG * 0],
        "torch.where((a & b) != 0, x * 2, x)",
    ),
    "mean under a mask": (
        "mask-to-where",
        net("return «x[x > 0].mean()»\n"),
        [HALF, DOUBLE, LARGE],
        "(torch.where(x > 0, x, 0) / (x > 0).sum()).sum()",
    ),
    "quotient of quotients": (
        "floor-div",
        net("return x * «int(60 / (x.shape[1] * 5 / 3 / 2))»\n"),
        [HALF, DOUBLE],
        "60 * 3 * 2 // (x.shape[1] * 5)",
    ),
    "loop up to a float": (
        "to-while-loop",
        net("for «i in range(int(n))»:\n    x = x * 2\nreturn x\n", signature="self, x, n"),
        [],
        "n.long()",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_text_keeps_dtype_and_values(name):
    recipe, text, inputs, part = KEPT[name]
    fixes, files = fixes_of(recipe, text)
    after = applied(fixes[0], files)["net.py"]
    assert part in after
    for x in inputs:
        same(outcome(files["net.py"], (x,)), outcome(after, (x,)))


# recipe, source, whether it may be applied, what its note or hazard says
SAID = {
    "a division": ("floor-div", net("return x[:, : «int(x.shape[1] / self.ratio)»]\n"), False, "the numbers are ints"),
    "several divisions": (
        "floor-div",
        net("return x[:, : «int(x.shape[1] / self.a / self.b)»]\n"),
        False,
        "several divisions",
    ),
    "a limit": ("slice-without-asking", net("if «len(x) > 3»:\n    x = x[:3]\nreturn x\n"), False, None),
    "a counter of ints": (
        "state-to-buffer",
        net("«self.n += 1»\nreturn x\n", init="self.n = 0\n"),
        False,
        "becomes a tensor",
    ),
    "a counter of anything": (
        "state-to-buffer",
        net("«self.n += self.step»\nreturn x\n", init="self.n = 0\nself.step = step\n"),
        False,
        "of ints only",
    ),
    "a sum": ("state-to-buffer", net("«self.n += 1.5»\nreturn x\n", init="self.n = 0.0\n"), False, "less exact"),
    "what int() rounds": (
        "item-of-tensor",
        net("return x[: «int(n)»]\n", signature="self, x, n: torch.Tensor"),
        False,
        "`n.item()` is a float",
    ),
    "what is no float": (
        "keep-tensor",
        net("return x * «float(n)»\n", signature="self, x, n: torch.Tensor"),
        False,
        "`n` is no float",
    ),
    "what is filled": ("new-zeros", net("t = torch.full((4,), self.k)\n«t += 1»\nreturn x * t\n"), None, None),
    "gradients of zero": (
        "if-to-where",
        net("if «x.sum() > 0»:\n    x = self.l(x)\nreturn x\n", init="self.l = nn.Linear(4, 4)\n"),
        False,
        "gradients of zero",
    ),
    "gradients of all": ("all-of-list", net("return «self.layers[x.argmax()](x)»\n"), False, "gradients of zero"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_the_text_cannot_keep_is_said(name):
    recipe, text, may_be_applied, says = SAID[name]
    fixes, _ = fixes_of(recipe, text)
    if may_be_applied is None:
        assert fixes == []
        return
    assert (fixes[0].hazard is None) == may_be_applied
    assert (says or "") in "; ".join(filter(None, [fixes[0].note, fixes[0].hazard]))


# body of forward, recipe that is applied first, other constructions and inputs; `k` is a number of the constructor
APPLIED = {
    "Masked": ("y = x * 1\ny[y > 1] = 0.5\nreturn y\n", "setitem-wrapped"),
    "Scaled": ("scale = 1\nif x.sum() > 0:\n    scale = 0.1\nreturn x * scale\n", "lift-block"),
    "Halved": ("return x[:, : int(x.shape[1] / self.k)]\n", "wrap-conversion"),
}


def test_what_is_applied_computes_the_same_in_other_dtypes_and_for_other_numbers(tmp_path):
    text = "import torch\nimport torch.fx\nfrom torch import nn\n"
    for name, (body, _) in APPLIED.items():
        made = net(body, head="", init="self.k = k\n").replace("__init__(self)", "__init__(self, k=2)")
        text += made.replace("class Net", f"class {name}")
    path = tmp_path / "net.py"
    path.write_text(text)
    with registrations_dropped():
        fixed = fix_all(str(path), [Target(f"{name}()", "torch.randn(3, 4)") for name in APPLIED])
    assert [fix.id for fix in fixed.applied] == [recipe for _, recipe in APPLIED.values()]
    after = fixed.texts[str(path)]
    for name in APPLIED:
        for x in (X, *ALL, LARGE):
            for k in (2, 2.5, 0.5, -2):
                construct = f"{name}({k})"
                same(outcome(text, (x,), construct), outcome(after, (x,), construct))


def test_the_proof_tries_other_dtypes(tmp_path):
    def settled(body: str, recipe: str, head: str = NUMPY) -> Any:
        (tmp_path / "net.py").write_text(net(body, head))
        checker = Checker(str(tmp_path / "net.py"), "Net()", "torch.randn(3, 4)")
        (finding,) = checker.before.report.findings
        return next(fix for fix in checker.settle(finding, [recipe]) if fix.id == recipe)

    # A float of Python's is a double, and torch.where makes a tensor of the default dtype of it.
    fix = settled("k = 0.1\nif x.sum() < 1e9:\n    k = 0.3\nreturn x * k\n", "if-to-where")
    assert fix.checked and not fix.preferred and "different results in double" in fix.note
    # Integers are what few models are called with: it is said.
    fix = settled("return x + np.exp(x)\n", "np-to-torch")
    assert fix.proven and "different results in integers: torch.float32 instead of torch.float64" in fix.note
