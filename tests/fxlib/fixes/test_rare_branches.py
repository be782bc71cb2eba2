"""Branches that no usual input takes: a fix that is applied computes there, too, what the code did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fxlib.diagnosis.fixes import propose
from fxlib.diagnosis.fixes.fix_all import FixedFiles, Target, fix_all
from fxlib.diagnosis.fixes.reload import load_file, registrations_dropped
from fxlib.diagnosis.fixes.verify import Checker

from .marked import fixes_of, net

HUGE = torch.full((2, 4), 1e7)
WITH_NAN = torch.tensor([[float("nan"), 1, 2, 3], [1, 2, 3, 4.0]])
LINEAR = "self.l = nn.Linear(4, 4)\n"

# body of forward, constructor, example, an input that takes the branch, the recipes that are applied
RARE = {
    "shape": ("if x.abs().max() > 1e6:\n    return x.sum()\nreturn x\n", "", "torch.randn(2, 4)", HUGE, ["lift-block"]),
    "dtype": (
        "if x.abs().max() > 1e6:\n    return x.double()\nreturn x\n", "", "torch.randn(2, 4)", HUGE, ["lift-block"],
    ),
    "ternary": (
        "y = x.long() if x.abs().max() > 1e6 else x\nreturn y\n", "", "torch.randn(2, 4)", HUGE, ["lift-block"],
    ),
    "elif": (
        "if x.sum() > 1e5:\n    x = x.sum(0, keepdim=True)\nelif x.sum() < -1e5:\n    x = x * 0\nreturn x\n",
        "", "torch.randn(2, 4)", HUGE, ["lift-block"],
    ),
    "behind a norm": (
        "x = x.softmax(1)\nif x.max() > 0.99:\n    return x.sum(0)\nreturn x\n",
        "", "torch.full((2, 4), 1.0)", torch.tensor([[900.0, 0, 0, 0], [1, 2, 3, 4]]), ["lift-block"],
    ),
    "view": (
        "x = x * 1\ny = x.view(-1)\ny[y > 1e6] = 0\nreturn x + 0\n",
        "", "torch.randn(2, 4)", HUGE, ["lift-block"],
    ),
    "view of NaN": (
        "x = x * 1\ny = x[:, 0]\ny[torch.isnan(y)] = 0.0\nreturn x + 0\n",
        "", "torch.randn(2, 4)", WITH_NAN, ["lift-block"],
    ),
    "view behind a norm": (
        "x = x.softmax(1) * 1\ny = x[:, 0]\ny[y > 0.99] += 1\nreturn x + 0\n",
        "", "torch.full((2, 4), 1.0)", torch.tensor([[900.0, 0, 0, 0], [1, 2, 3, 4]]), ["lift-block"],
    ),
    "the caller's": (
        "x[torch.isnan(x)] = 0.0\nreturn x + 0\n", "", "torch.randn(2, 4)", WITH_NAN, ["setitem-wrapped"],
    ),
    "alias": (
        "y = x * 1\nz = y\nif x.sum() > 1e5:\n    y += 1\nreturn y + z\n",
        "", "torch.randn(2, 4)", HUGE, ["lift-block"],
    ),
    "logarithm": (
        "s = x.sum()\nif s > 0:\n    y = torch.log(s)\nelse:\n    y = s * 0\nreturn y\n",
        "", "torch.rand(2, 4)", torch.zeros(2, 4), ["lift-block"],
    ),
    "division": (
        "x = torch.relu(self.l(x))\nn = x.norm()\nif n > 0:\n    x = x / n\nreturn x\n",
        LINEAR, "torch.rand(2, 4)", torch.full((2, 4), -1e3), ["lift-block"],
    ),
    "root in another branch": (
        "x = self.l(x)\nif x.max() < 1e3:\n    y = x * 2\nelse:\n    y = (x.max() - 1e3).sqrt() * x\nreturn y\n",
        LINEAR, "torch.rand(2, 4)", torch.full((2, 4), 1e3), ["lift-block"],
    ),
    "a guard that cannot be written": (
        "x = self.l(x)\nif x.std() > 0:\n    x = x - x.std()\nreturn x\n",
        LINEAR, "torch.rand(2, 4)", torch.zeros(2, 4), ["lift-block"],
    ),
    "a helper's division": (
        "x = self.l(x)\nif x.norm() > 0:\n    x = scaled(x)\nreturn x\n",
        LINEAR, "torch.rand(2, 4)", torch.zeros(2, 4), ["lift-block"],
    ),
}  # fmt: skip


def text_of(body: str, init: str) -> str:
    return net(body, init=init).replace("\n\nclass Net", "\n\ndef scaled(x):\n    return x / x.norm()\n\n\nclass Net")


def outcome(path: Path, texts: dict[str, str], x: torch.Tensor) -> list:
    """The result, what became of the caller's tensor, and the gradients, of a model whose constants are all zero."""
    torch.manual_seed(0)
    model = load_file(str(path), texts).Net()
    for name, parameter in model.named_parameters():
        torch.nn.init.constant_(parameter, 0.0 if name.endswith("bias") else 0.5)
    leaf = x.clone().requires_grad_()
    given = leaf.clone()
    result = model(given)
    wanted = [leaf, *model.parameters()]
    total = result.double().sum()
    grads = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None] * len(wanted)
    zeros = (torch.zeros_like(each) if grad is None else grad for grad, each in zip(grads, wanted, strict=True))
    return [result.detach(), given.detach(), *zeros]


@pytest.mark.parametrize("case", RARE)
def test_what_is_applied_computes_the_same_where_the_branch_is_taken(case, tmp_path):
    body, init, example, rare, recipes = RARE[case]
    path = tmp_path / "net.py"
    path.write_text(text_of(body, init))
    fixed: FixedFiles = fix_all(str(path), [Target("Net()", example)])
    assert [fix.id for fix in fixed.applied] == recipes
    assert [finding.code for finding in fixed.remaining if finding.severity != "info"] == []
    with registrations_dropped():
        before, after = outcome(path, {}, rare), outcome(path, fixed.texts, rare)
    torch.testing.assert_close(after, before, equal_nan=True)


def proposed(tmp_path: Path, body: str, recipe: str, example: str = "torch.rand(2, 4)", init: str = "") -> dict:
    """The fixes of a recipe for the first finding with any, proven or not, by their last edit."""
    (tmp_path / "net.py").write_text(text_of(body, init))
    checker = Checker(str(tmp_path / "net.py"), "Net()", example)
    for finding in checker.before.report.findings:
        if found := propose(finding, recipes=[recipe]):
            return {fix.edits[-1].text: fix.settled(checker.verify(fix, finding)) for fix in found}
    raise AssertionError("no finding has that recipe")


def test_an_operand_that_the_branch_guards_is_one_on_the_other_side(tmp_path):
    body = "s = x.sum()\nreturn s / x.mean() if s > 0 else (1 + s).rsqrt()\n"
    ((text, fix),) = proposed(tmp_path, body, "if-to-where").items()
    assert text == (
        "torch.where(s > 0, s / torch.where(s > 0, x.mean(), 1), (torch.where(s > 0, 1, 1 + s)).rsqrt())"
    )  # fmt: skip
    assert fix.unsafe
    nested = "s = x.sum()\nif s > 0:\n    s /= (x * s).log()\nreturn s\n"
    ((text, _),) = fixes_text("if-to-where", nested.replace("s > 0", "«s > 0»"))
    assert text.endswith(
        "s = torch.where(condition, s / torch.where(condition, (torch.where(condition, x * s, 1)).log(), 1), s)"
    )


def fixes_text(recipe: str, body: str) -> list[tuple[str, object]]:
    return [(fix.edits[-1].text, fix) for fix in fixes_of(recipe, net(body, init=f"{LINEAR}self.k = 2\n"))[0]]


@pytest.mark.parametrize(
    "side", ["x / 2", "x / x.shape[0]", "x / self.k", "x ** 2", "x / x.norm().clamp(min=1e-6)", "self.l(x)"]
)
def test_what_no_branch_guards_stays_as_it_is(side):
    ((text, fix),) = fixes_text("if-to-where", f"if «x.sum() > 0»:\n    x = {side}\nreturn x\n")
    assert text == f"x = torch.where(x.sum() > 0, {side}, x)" and "gradients may be NaN" not in fix.hazard


def test_a_guard_that_cannot_be_written_leaves_the_fix_unproven(tmp_path):
    body = "x = self.l(x)\nif x.std() > 0:\n    x = x - x.std()\nreturn x\n"
    (fix,) = proposed(tmp_path, body, "if-to-where", init=LINEAR).values()
    assert fix.checked and not fix.preferred and "gradients may be NaN" in fix.note


def test_a_branch_that_no_input_comes_to_is_not_proven(tmp_path):
    body = "if x.sum() > 1e30:\n    y = x * 2\n    x = y + 1 if y.mean() > 0 else y\nreturn x\n"
    (fix,) = proposed(tmp_path, body, "if-to-where").values()
    assert not fix.checked and not fix.preferred and "not compared with eager on all branches" in fix.note


def test_out_of_place_is_proven_where_the_model_itself_has_the_tensor_by_no_other_name(tmp_path):
    fixes = proposed(tmp_path, "y = x * 2\ny[y > 100] = 0\nreturn y\n", "setitem-functional")
    assert {text: fix.unsafe for text, fix in fixes.items() if fix} == {
        "y = y.masked_fill(y > 100, 0)": True,
        "y = y.masked_fill_(y > 100, 0)": True,
    }
    fixes = proposed(tmp_path, "y = x * 2\nz = y[0]\ny[y > 100] = 0\nreturn z\n", "setitem-functional")
    assert [text for text, fix in fixes.items() if fix and fix.unsafe] == ["y = y.masked_fill_(y > 100, 0)"]


def test_rows_in_place(tmp_path):
    body = "x = x * 2\ny = x[1:]\ny[y.sum(1) > 1e6] += 1\nreturn x\n"
    fixes = proposed(tmp_path, body, "setitem-functional")
    (text,) = [text for text, fix in fixes.items() if fix and fix.unsafe]
    assert text == "y = y.copy_(torch.where((y.sum(1) > 1e6).unsqueeze(-1), y + 1, y))"


def test_a_tensor_of_the_callers_that_an_out_of_place_form_leaves_is_never_proven(tmp_path):
    (fix,) = proposed(tmp_path, "x.clamp_(max=1e30)\nreturn x * 2\n", "out-of-place").values()
    assert fix.checked and not fix.preferred and "no longer changed" in fix.note


def test_a_loop_that_infinity_never_ends_is_ended(tmp_path):
    body = "while x.max() > 1:\n    x = x / 2\nreturn x / len(x)\n"
    (fix,) = proposed(tmp_path, body, "len-to-shape").values()
    assert fix.checked


def test_gradients_of_the_inputs_are_compared(tmp_path):
    (tmp_path / "net.py").write_text(text_of("n = len(x)\ny = x\nreturn y * n\n", ""))
    checker = Checker(str(tmp_path / "net.py"), "Net()", "torch.rand(2, 4)")
    (finding,) = checker.before.report.findings
    (fix,) = propose(finding, recipes=["len-to-shape"])
    assert checker.verify(fix, finding).same_eager
    (edit,) = fix.edits
    below = replace(
        edit, line=edit.line + 1, end_line=edit.line + 1, column=8, end_column=13, text="y = 2 * x.detach() - x"
    )
    verdict = checker.verify(replace(fix, edits=(edit, below)), finding)
    assert verdict.same_eager is False and "the gradient of input 0" in verdict.note
