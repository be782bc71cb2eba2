"""Verification: what proves itself is preferred, what moves a problem says so, what changes eager is not offered."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.fx

import fxlib.diagnosis.fixes.sides
from fxlib.captures.proof import CaptureChecker
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.fixes import Edit, Fix, apply_fix, propose
from fxlib.diagnosis.fixes.example import Example
from fxlib.diagnosis.fixes.fix_all import Target, fix_all
from fxlib.diagnosis.fixes.loaded import Loaded
from fxlib.diagnosis.fixes.reload import forget, load_file, registrations_dropped
from fxlib.diagnosis.fixes.verify import Checker, verify

from .marked import HEAD, net

BROKEN = Path(__file__).resolve().parents[3] / "examples" / "broken"
INPUTS = "torch.linspace(-2, 3, 12).reshape(3, 4)"


def checker_for(
    tmp_path: Path, text: str, inputs: str | None = INPUTS, construct: str = "Net()", **more: str
) -> Checker:
    for name, content in {"net": text, **more}.items():
        (tmp_path / f"{name}.py").write_text(content)
    return Checker(str(tmp_path / "net.py"), construct, inputs)


def settled(checker: Checker, code: str) -> dict[str, object]:
    """The fixes offered for the first finding of a code, by recipe."""
    finding = next(f for f in checker.before.report.findings if f.code == code)
    offered: dict[str, object] = {}
    for fix in checker.settle(finding):
        offered.setdefault(fix.id, fix)
    return offered


def traced_equals_eager(path: Path, texts: dict[str, str], construct: str, inputs: str) -> bool:
    """torch.fx itself traces the edited file, and the trace agrees with eager."""
    known = Loaded()
    try:
        with registrations_dropped():
            module = load_file(str(path), texts)
            torch.manual_seed(0)
            model = eval(construct, {"torch": torch, **vars(module)}).eval()
            args = eval(f"({inputs},)", {"torch": torch, **vars(module)})
            traced = torch.fx.symbolic_trace(model)
        with torch.no_grad():
            torch.testing.assert_close(traced(*(a.clone() for a in args)), model(*(a.clone() for a in args)))
    finally:
        forget(known)
    return True


HELPER = (
    HEAD + "\n\ndef clip(x, limit):\n    if x.norm() > limit:\n        x = x * (limit / x.norm())\n    return x\n\n\n"
    "class Net(nn.Module):\n    def forward(self, x):\n        return clip(x * 2, 1.0)\n"
)


def test_wrap_is_proven_and_torch_fx_agrees(tmp_path):
    checker = checker_for(tmp_path, HELPER)
    finding = checker.before.report.findings[0]
    fix = next(f for f in propose(finding) if f.id == "wrap")
    verdict = checker.verify(fix, finding)
    assert verdict.gone and verdict.traces and verdict.same_eager and verdict.equal_to_eager
    assert verdict.moved_to == [] and verdict.side_effects == [] and verdict.max_error < 1e-6
    assert fix.settled(verdict).preferred
    texts = apply_fix(fix)
    assert 'torch.fx.wrap("clip")' in texts[checker.path]
    assert traced_equals_eager(tmp_path / "net.py", texts, "Net()", INPUTS)
    assert (tmp_path / "net.py").read_text() == HELPER


def test_wrap_of_an_imported_helper_goes_into_the_calling_file(tmp_path):
    helpers = "def clip(x, limit):\n    if x.norm() > limit:\n        return x / x.norm()\n    return x\n"
    text = "import torch\nfrom torch import nn\nfrom helpers_of_net import clip as cut\n\n\nclass Net(nn.Module):\n"
    text += "    def forward(self, x):\n        return cut(x * 2, 1.0)\n"
    checker = checker_for(tmp_path, text, helpers_of_net=helpers)
    fix = settled(checker, "FX101")["wrap"]
    assert fix.checked
    assert {Path(e.file).name for e in fix.edits} == {"net.py"}
    assert (
        'import torch.fx\nfrom torch import nn\nfrom helpers_of_net import clip as cut\n\ntorch.fx.wrap("cut")\n'
        in (apply_fix(fix)[checker.path])
    )


def test_helper_called_through_its_module_is_lifted_and_not_wrapped(tmp_path):
    helpers = "def clip(x, limit):\n    if x.norm() > limit:\n        return x / x.norm()\n    return x\n"
    text = "import torch\nfrom torch import nn\nimport helpers_by_name\n\n\nclass Net(nn.Module):\n"
    text += "    def forward(self, x):\n        return helpers_by_name.clip(x * 2, 1.0)\n"
    offered = settled(checker_for(tmp_path, text, helpers_by_name=helpers), "FX101")
    assert "wrap" not in offered and offered


def test_a_fix_that_moves_the_problem_says_where(tmp_path):
    body = "total = x[0] * 0\nfor i in range(len(x)):\n    total = total + x[i]\nreturn total\n"
    offered = settled(checker_for(tmp_path, net(body)), "FX120")
    wrapped = offered["wrap"]
    assert not wrapped.preferred
    line = apply_fix(wrapped)[wrapped.edits[0].file].split("\n").index("        for i in range(len(x)):") + 1
    assert wrapped.title.endswith(f"(after this fix, tracing still fails, at new line {line})")


def test_what_changes_eager_is_dropped(tmp_path):
    # A list is changed afterwards; the tuple that chunk gives cannot be.
    body = "parts = list(x.chunk(2, 1))\nparts[0] = x\nreturn torch.cat(parts, 1)\n"
    assert "drop-list" not in settled(checker_for(tmp_path, net(body)), "FX110")
    # int() of a negative number rounds towards zero, // downwards.
    body = "return x * int(x.sum() / 2)\n"
    assert "floor-div" not in settled(checker_for(tmp_path, net(body), "torch.full((3,), -1.0)"), "FX130")
    # torch.where computes both sides, and the other one may fail.
    body = "if x.sum() > 0:\n    y = x.sum(0)\nelse:\n    y = x.reshape(7, -1)\nreturn y\n"
    assert "if-to-where" not in settled(checker_for(tmp_path, net(body)), "FX101")


def test_a_division_that_rounds_another_way_below_zero_is_not_preferred(tmp_path):
    # The sizes that a proof tries may all be multiples of three.
    body = "k = int((3 - x.shape[1]) / 3)\nreturn nn.functional.pad(x, (k, 0))\n"
    offered = settled(checker_for(tmp_path, net(body), "torch.ones(3, 3)"), "FX130")
    assert "rounds toward 0" in offered["floor-div"].hazard
    assert offered["wrap-conversion"].preferred


def test_a_float_in_place_of_an_int_is_no_fix(tmp_path):
    offered = settled(checker_for(tmp_path, net("return x * 2, int(x.shape[0] / 2.5)\n")), "FX130")
    assert "floor-div" not in offered and offered["wrap-conversion"].preferred


def test_a_change_that_callers_notice_is_not_preferred(tmp_path):
    offered = settled(checker_for(tmp_path, net("x[:, 0] = 1.0\nreturn x * 2\n")), "FX150")
    assert offered["setitem-wrapped"].preferred
    functional = offered["setitem-functional"]
    assert not functional.preferred and "no longer changed" in functional.note


def test_sparse_state_and_results_are_compared(tmp_path):
    """As Whisper keeps a mask."""
    text = (
        HEAD
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.eye(4).to_sparse())

    def forward(self, x):
        return x / len(x), torch.sparse.sum(self.mask, dim=0)
"""
    )
    assert settled(checker_for(tmp_path, text), "FX120")["len-to-shape"].preferred


def test_without_inputs_nothing_is_preferred(tmp_path):
    offered = settled(checker_for(tmp_path, net("return x / len(x)\n"), inputs=None), "FX120")
    assert not offered["len-to-shape"].preferred and not offered["len-to-shape"].checked
    assert "no example inputs" in offered["len-to-shape"].note


def test_inputs_on_which_eager_fails_prove_nothing(tmp_path):
    offered = settled(checker_for(tmp_path, net("return x.view(7, -1) / len(x)\n")), "FX120")
    assert not any(fix.preferred for fix in offered.values())


def test_an_edit_that_does_not_run_is_dropped(tmp_path):
    checker = checker_for(tmp_path, HELPER)
    finding = checker.before.report.findings[0]
    fix = propose(finding)[0]
    wrong = replace(
        fix, edits=(*fix.edits, replace(fix.edits[0], line=1, column=0, end_line=1, end_column=0, text="1/0\n"))
    )
    verdict = checker.verify(wrong, finding)
    assert verdict.failed and "ZeroDivisionError" in verdict.failed and wrong.settled(verdict) is None


def test_a_concrete_argument_is_proven_with_the_argument_fixed(tmp_path):
    text = (
        HEAD + "\n\n# fxlens: Net() <- torch.ones(3)\nclass Net(nn.Module):\n"
        "    def forward(self, x, double: bool = True):\n"
    )
    text += "        if double:\n            x = x * 2\n        return x\n"
    checker = checker_for(tmp_path, text, "torch.ones(3)")
    finding = next(f for f in checker.before.report.findings if f.code == "FX103")
    fix = next(f for f in propose(finding) if f.id == "concrete-argument")
    fix = fix.settled(checker.verify(fix, finding))
    assert fix.preferred and fix.settings == {"concrete_args": {"double": True}}
    assert '# fxlens: Net() <- torch.ones(3), concrete_args={"double": True}\n' in apply_fix(fix)[checker.path]
    assert "keyword" in fix.note


def test_a_bool_without_a_default_can_be_fixed_to_either_value(tmp_path):
    text = (
        HEAD + "\n\nclass Net(nn.Module):\n    def forward(self, x, double: bool):\n"
        "        if double:\n            x = x * 2\n        return x\n"
    )
    checker = checker_for(tmp_path, text, None)
    finding = next(f for f in checker.before.report.findings if f.code == "FX103")
    fixes = [f for f in propose(finding) if f.id == "concrete-argument"]
    assert [f.settings["concrete_args"] for f in fixes] == [{"double": True}, {"double": False}]
    for fix in fixes:
        verdict = checker.verify(fix, finding)
        assert verdict.gone and verdict.traces and not fix.settled(verdict).preferred


def test_an_example_may_give_a_concrete_argument_itself(tmp_path):
    text = (
        HEAD + "\n\n# fxlens: Net() <- torch.ones(3), True\nclass Net(nn.Module):\n"
        "    def forward(self, x, double: bool):\n        if double:\n            x = x * 2\n        return x\n"
    )
    checker = checker_for(tmp_path, text, "torch.ones(3), True")
    finding = next(f for f in checker.before.report.findings if f.code == "FX103")
    first, second = (f for f in propose(finding) if f.id == "concrete-argument")
    assert first.settled(checker.verify(first, finding)).preferred
    other = second.settled(checker.verify(second, finding))
    assert other is None or not other.preferred


def test_a_leaf_module_is_written_to_pyproject(tmp_path):
    text = (
        HEAD + "\n\nclass Gate(nn.Module):\n    def forward(self, x):\n        for row in x:\n            self.f(row)\n"
        "        return x\n\n"
    )
    text = text.replace("            self.f(row)\n", "            if row.sum() > 9:\n                return x * 2\n")
    text += (
        "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.gate = Gate()\n\n"
    )
    text += "    def forward(self, x):\n        return self.gate(x) + 1\n"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "n"\n\n[tool.fxlens]\nselect = ["FX"]\n')
    checker = checker_for(tmp_path, text)
    finding = next(f for f in checker.before.report.findings if f.code in ("FX101", "FX110"))
    fix = next(f for f in propose(finding, recipes=["leaf-module"]))
    verdict = checker.verify(fix, finding)
    assert verdict.gone and verdict.traces and verdict.equal_to_eager
    _, with_tracer = propose(finding, recipes=["leaf-module"])
    assert checker.verify(with_tracer, finding).traces
    assert "class LeafTracer(torch.fx.Tracer):" in apply_fix(with_tracer)[checker.path]
    written = apply_fix(fix)[str(tmp_path / "pyproject.toml")]
    assert written == '[project]\nname = "n"\n\n[tool.fxlens]\nleaf-modules = ["Gate"]\nselect = ["FX"]\n'


def test_verify_in_one_call(tmp_path):
    checker = checker_for(tmp_path, net("return x / len(x)\n"))
    finding = checker.before.report.findings[0]
    fix = propose(finding)[0]
    verdict = verify(fix, finding, path=checker.path, construct="Net()", inputs=INPUTS)
    assert verdict.gone and verdict.equal_to_eager


TARGETS = [
    pytest.param(path, construct, inputs, id=f"{path.stem}-{construct}")
    for path in sorted(BROKEN.glob("*.py"))
    for construct, inputs in re.findall(r"^# fxlens: (.+?) <- (.+)$", path.read_text(), re.MULTILINE)
]
# Targets of examples/broken that fixes alone make traceable.
FIXED = {
    "Classifier()", "Projector()", "Head()", "Attention()", "Pyramid()", "MaskedPool()", "ShiftRight()", "Spectrum()",
    "PositionEncoding()", "Stack()",
}  # fmt: skip


@pytest.mark.parametrize(("path", "construct", "inputs"), [t for t in TARGETS if t.values[1] in FIXED])
def test_fix_all_fixes_the_broken_examples(path, construct, inputs):
    before = {p: p.read_text() for p in BROKEN.glob("*.py")}
    fixed = fix_all(str(path), [Target(construct, inputs)], unsafe=True)
    assert [f.code for f in fixed.remaining if f.severity == "error"] == []
    assert fixed.applied and traced_equals_eager(path, fixed.texts, construct, inputs)
    assert {p: p.read_text() for p in BROKEN.glob("*.py")} == before


def test_fix_all_leaves_settings_to_people_and_stops(tmp_path):
    text = net("if mask is not None:\n    x = x * mask\nreturn x.flatten() / len(x)\n", signature="self, x, mask=None")
    (tmp_path / "net.py").write_text(text)
    fixed = fix_all(str(tmp_path / "net.py"), [Target("Net()", INPUTS)])
    assert [fix.id for fix in fixed.applied] == ["len-to-shape"]
    assert [f.code for f in fixed.remaining] == ["FX201"]


def test_a_wrap_in_another_module_is_repeated_where_it_acts(tmp_path):
    helpers = "import torch.fx\n\n\ndef halve(x):\n    return x / 2\n\n\ntorch.fx.wrap('halve')\n"
    text = "import torch\nfrom torch import nn\nfrom wrapped_elsewhere import halve\n\n\nclass Net(nn.Module):\n"
    text += "    def forward(self, x):\n        return halve(x)\n"
    checker = checker_for(tmp_path, text, wrapped_elsewhere=helpers)
    assert [f.code for f in checker.before.report.findings] == ["FX229"]
    assert settled(checker, "FX229")["wrap"].preferred


def test_when_the_time_is_up_fixes_are_offered_unverified(tmp_path):
    checker = checker_for(tmp_path, net("return x / len(x)\n"))
    checker.left = -1.0
    offered = settled(checker, "FX120")
    assert offered and not any(fix.checked or fix.preferred for fix in offered.values())
    assert all("out of time" in fix.note for fix in offered.values())


def test_an_argument_that_defaults_to_none_is_set_for_the_trace(tmp_path: Path):
    """Among several arguments of a condition: the one that is None, whatever stands first."""
    text = net(
        "if kv_cache is not None and key not in kv_cache:\n    x = x + 1\nreturn x * 2\n",
        signature='self, x, kv_cache=None, key="a"',
    )
    checker = checker_for(tmp_path, text)
    fix = settled(checker, "FX105")["concrete-argument"]
    assert fix.title == "Set kv_cache=None for the trace (concrete_args)"


def test_an_error_that_eager_raises_too_is_not_wrapped_away(tmp_path: Path):
    text = HELPER.replace("if x.norm() > limit:", "if limit > 0:").replace("(limit / x.norm())", '{}["scale"]')
    checker = checker_for(tmp_path, text)
    finding = next(f for f in checker.before.report.findings if f.code == "FX199")
    assert {fix.kind for fix in propose(finding)} & {"wrap", "lift"}
    assert not checker.settle(finding)


def test_a_text_is_read_as_it_is_after_another_fix_has_moved_its_lines(tmp_path: Path):
    helpers = "import torch\n\n\ndef shift(x):\n    if isinstance(x, torch.Tensor):\n        x = x + 1\n    return x\n"
    text = "import torch\nfrom torch import nn\nfrom moved_helpers import shift\n\n\nclass Net(nn.Module):\n"
    checker = checker_for(
        tmp_path, text + "    def forward(self, x):\n        return shift(x)\n", moved_helpers=helpers
    )
    finding = next(f for f in checker.before.report.findings if f.code == "FX202")
    for file in (finding.span.file, checker.path):
        useless = Fix("none", "None", "rewrite", (Edit(file, 1, 0, 1, 0, "# nothing\n# nothing\n"),))
        assert not checker.verify(useless, finding).gone


def test_a_text_is_read_as_it_is_after_a_fix_that_another_checker_has_tried(tmp_path: Path):
    helpers = "import torch\n\n\ndef shift(x):\n    if isinstance(x, torch.Tensor):\n        x = x + 1\n    return x\n"
    text = "import torch\nfrom torch import nn\nfrom shared_helpers import shift\n\n\nclass Net(nn.Module):\n"
    first = checker_for(tmp_path, text + "    def forward(self, x):\n        return shift(x)\n", shared_helpers=helpers)
    (finding,) = first.before.report.findings
    edit = Edit(finding.span.file, 1, 0, 1, 0, "# nothing\n# nothing\n")
    assert not first.verify(Fix("none", "None", "rewrite", (edit,)), finding).gone
    second = Checker(first.path, "Net()", INPUTS)
    assert [(each.code, each.span) for each in second.before.report.findings] == [(finding.code, finding.span)]


def test_what_changes_only_the_trace_runs_eager_no_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs: list[int] = []
    once = Example.runs
    monkeypatch.setattr(Example, "runs", lambda self, *given: runs.append(1) or once(self, *given))
    outer = (
        "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n"
    )
    outer += "\n    def forward(self, x):\n        return self.net(x)\n"
    sized = net("if x.shape[0] > 2:\n    x = x * 2\nreturn x\n")
    for text, name, number in ((HELPER, "wrap", 1), (HELPER, "if-to-where", 2), (sized, "leaf-module", 1)):
        checker = checker_for(tmp_path, text + outer, construct="Outer()")
        (finding,) = checker.before.report.findings
        proposed = next(each for each in propose(finding) if each.id == name)
        runs[:] = [1]
        fix = proposed.settled(checker.verify(proposed, finding))
        assert fix is not None and fix.proven and len(runs) == number


def test_a_comparison_begins_with_the_weights_of_the_model(tmp_path: Path):
    init = "super().__init__()\n        self.weight = nn.Parameter(torch.ones(4))"
    forward = "with torch.no_grad():\n            self.weight.add_(1)\n        return x * self.weight"
    first, *_ = checker_for(
        tmp_path,
        f"{HEAD}\nclass Net(nn.Module):\n    def __init__(self):\n        {init}\n\n"
        f"    def forward(self, x):\n        {forward}\n",
    ).before.outcomes
    assert first.name == "the example, eval" and torch.equal(first.value, 2 * first.args[0])


def test_once_one_is_proven_the_others_can_be_left_unchecked(tmp_path: Path):
    text = net("x[:, 0] = 1.0\nreturn x * 2\n")
    every, one = checker_for(tmp_path, text), checker_for(tmp_path, text)
    finding = every.before.report.findings[0]
    tried: list[str] = []
    verify_one = one.verify
    one.verify = lambda fix, finding: tried.append(fix.title) or verify_one(fix, finding)  # type: ignore[method-assign]
    first, *others = one.settle(finding, every=False)
    assert first == every.settle(finding)[0] and first.preferred and others
    unchecked = [fix for fix in others if fix.title not in tried]
    assert tried[-1] == first.title and unchecked
    assert all(fix.note.endswith("not checked: another fix is proven") for fix in unchecked)


def test_no_more_fixes_are_tried_than_are_offered_where_none_can_be_proven(tmp_path: Path):
    text = net("total = x[0] * 0\nfor i in range(len(x)):\n    total = total + x[i]\nreturn total\n")
    finding = next(f for f in checker_for(tmp_path, text).before.report.findings if f.code == "FX120")
    assert len(propose(finding)) > 3
    checker = checker_for(tmp_path, text, inputs=None)
    tried: list[str] = []
    verify_one = checker.verify
    checker.verify = lambda fix, finding: tried.append(fix.id) or verify_one(fix, finding)  # type: ignore[method-assign]
    assert len(checker.settle(finding)) == len(tried) == 3


def on_meta(model: torch.nn.Module) -> bool:
    return any(each.is_meta for each in model.parameters())


@pytest.mark.parametrize("inputs", [None, INPUTS])
def test_what_is_not_compared_is_made_without_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs):
    monkeypatch.setattr(fxlib.diagnosis.fixes.sides, "_LARGEST", 10)
    init = "self.fc = nn.Linear(4, 4)\n"
    checker = checker_for(tmp_path, net("return self.fc(x) / len(x)\n", init=init), inputs)
    offered = settled(checker, "FX120")
    assert on_meta(checker.before.model)
    why = "no example inputs" if inputs is None else "the model is too large"
    assert why in offered["len-to-shape"].note and not offered["len-to-shape"].checked
    reads = checker_for(
        tmp_path, net("return self.fc(x) / len(x)\n", init=init + "self.w = self.fc.weight.sum().item()\n"), inputs
    )
    assert settled(reads, "FX120").keys() == offered.keys()
    assert not on_meta(reads.before.model)


HERE = "self.scale = nn.Parameter(torch.ones(()))\nself.here = self.scale.device.type == 'cpu'\n"


@pytest.mark.parametrize("largest", [0, 1])
def test_what_asks_for_numbers_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int):
    """The finding was made with numbers; on meta it is not there, and every fix would seem to help."""
    text = net("if self.here and x.sum() > 0:\n    x = -x\nreturn x * self.scale\n", init=HERE)
    finding = next(f for f in checker_for(tmp_path, text).before.report.findings if f.code == "FX101")
    monkeypatch.setattr(fxlib.diagnosis.fixes.sides, "_LARGEST", largest)
    checker = checker_for(tmp_path, text, inputs=None)
    assert on_meta(checker.before.model) == (largest == 0)
    assert ("FX101" in checker.before.report.codes()) == (largest == 1)
    checker.settle(finding)
    assert not on_meta(checker.before.model)


def test_a_small_model_has_numbers_whatever_becomes_of_a_finding(tmp_path: Path):
    """The finding is there on meta, too; what remains after the fix is not."""
    body = "if isinstance(x, torch.Tensor):\n    if self.here:\n        x = x * len(x)\nreturn x * self.scale\n"
    fix = settled(checker_for(tmp_path, net(body, init=HERE), inputs=None), "FX202")["drop-type-test"]
    assert "(after this fix, tracing still fails, at new line " in fix.title


def test_both_texts_have_numbers_where_the_edited_one_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fxlib.diagnosis.fixes.sides, "_LARGEST", 0)
    body = "x = x / len(x)\nif self.here and x.sum() > 0:\n    x = -x\nreturn x * self.scale\n"
    checker = checker_for(tmp_path, net(body, init=HERE), inputs=None)
    finding = next(f for f in checker.before.report.findings if f.code == "FX120")
    assert on_meta(checker.before.model)
    fix = next(f for f in propose(finding) if f.id == "len-to-shape")
    needs = Edit(checker.path, 10, 0, 10, 0, "        self.number = self.scale.item()\n")
    verdict = checker.verify(replace(fix, edits=(*fix.edits, needs)), finding)
    assert verdict.gone and verdict.moved_to == [] and not on_meta(checker.before.model)


def test_an_edit_that_fails_with_numbers_too_leaves_the_others_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fxlib.diagnosis.fixes.sides, "_LARGEST", 0)
    checker = checker_for(tmp_path, net("return self.scale * x / len(x)\n", init=HERE), inputs=None)
    (finding,) = checker.before.report.findings
    wrong = Edit(checker.path, 10, 0, 10, 0, "        self.number = 1 / 0\n")
    assert "ZeroDivisionError" in (checker.verify(Fix("none", "None", "rewrite", (wrong,)), finding).failed or "")
    assert on_meta(checker.before.model)


def test_a_large_model_that_a_capture_wants_with_numbers_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A second one would take its memory once more."""
    monkeypatch.setattr(fxlib.diagnosis.fixes.sides, "_LARGEST", 0)
    monkeypatch.setattr(CaptureChecker, "_report", lambda *_: SimpleNamespace(findings=[]))
    (tmp_path / "net.py").write_text(net("return self.scale * x\n", init=HERE))
    checker = CaptureChecker("export", str(tmp_path / "net.py"), "Net()", INPUTS)
    made: list[torch.nn.Module] = []
    make = checker.example.made
    checker.example.made = lambda names: (made.append((found := make(names))[0]), found)[1]  # type: ignore[method-assign]
    assert made == [checker.before.model] and not on_meta(made[0])


def test_what_a_trace_ends_with_holds_no_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They hold the model, in a cycle that Python 3.11 may never collect: with each text the memory grows by it."""
    runs: list[Run] = []
    make = Run.__init__
    monkeypatch.setattr(Run, "__init__", lambda run, *args, **kwargs: (runs.append(run), make(run, *args, **kwargs))[1])
    report = checker_for(tmp_path, net("return x + torch.arange(9.0)[: x.size(1)]\n"), None).before.report
    assert report.findings and any(run.error is not None for run in runs)
    assert not any(run.error is not None and run.error.__traceback__ for run in runs)
