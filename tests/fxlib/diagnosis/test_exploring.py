"""The paths that a diagnosis follows through forward: branches, guards, handlers, modes, and what decides between
them."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch import nn

import fxlib
from fxlib.diagnosis.diagnose import graph_of
from fxlib.diagnosis.fixes.verify import Checker
from fxlib.ir import span as spans

from .snippets import diagnose


def both_ways(x):
    if x.sum() > 0:
        y = len(x)
    else:
        y = int(x.shape[0])
    while x.max() > y:
        y = y + x.size(0) * round(x.shape[1])
    return x * y


@pytest.mark.parametrize("inputs", [None, (torch.randn(2, 3),)])
def test_both_branches_are_explored(inputs):
    report = fxlib.diagnose(both_ways, inputs)
    assert [f.code for f in report.findings] == ["FX101", "FX120", "FX130", "FX101", "FX131"]
    assert report.untaken == []


class Branching(nn.Module):
    def forward(self, x):
        return both_ways(x) if x.sum() > 0 else both_ways(x * len(x))


def test_the_graph_alone_is_that_of_the_report():
    model = Branching()
    assert str(graph_of(model)) == str(fxlib.diagnose(model).graph)


def guarded(x):
    if x.sum() > 0:
        raise ValueError("negative numbers only")
    if not torch.isfinite(x).all():
        raise ValueError("finite numbers only")
    return x * len(x)


def test_a_branch_that_raises_is_not_a_finding():
    assert fxlib.diagnose(guarded, torch.randn(2)).codes() == ["FX101", "FX101", "FX120"]


def leaving(x):
    if not math.isfinite(x.sum()):
        sys.exit("finite numbers only")
    return x * len(x)


def test_nor_is_one_that_ends_the_process():
    assert fxlib.diagnose(leaving, torch.randn(2)).codes() == ["FX101", "FX120"]
    with pytest.raises(SystemExit):
        fxlib.diagnose(lambda x: sys.exit("always"), torch.randn(2))


def shapes_decide(x, mode="fast"):
    if x.dim() == 3:
        x = x.unsqueeze(0)
    if mode == "slow":
        return x - 1
    return x + 1


def test_shapes_and_defaults_are_answered_truly_and_the_rest_is_untaken():
    report = fxlib.diagnose(shapes_decide, torch.randn(2, 3))
    first, second = report.findings
    assert first.code == "FX102" and first.data["value"] is False and "2" in first.message + str(first.related)
    assert second.code == "FX103" and second.data == {
        "form": "if", "cause": "argument", "argument": "mode", "value": False,
    }  # fmt: skip
    line = shapes_decide.__code__.co_firstlineno
    assert [item.span.line - line for item in report.untaken] == [2, 4]
    report = fxlib.diagnose(shapes_decide, torch.randn(2, 3, 4))
    assert report.findings[0].data["value"] is True
    report = fxlib.diagnose(shapes_decide, torch.randn(2, 3), concrete_args={"mode": "fast"})
    assert "FX103" not in report.codes()


@pytest.mark.parametrize(
    ("annotation", "code"),
    [("bool", "FX103"), ("Optional[bool]", "FX103"), ("'int | None'", "FX103"), ("Literal['a', 'b c']", "FX103"),
     ("typing.List[int]", "FX103"), ("torch.Tensor", "FX101"), ("Optional[torch.Tensor]", "FX101"), ("Any", "FX101")],
)  # fmt: skip
def test_without_example_inputs_the_annotation_says_what_an_argument_is(annotation, code, tmp_path):
    text = f"""
import typing
import torch
from torch import nn
from typing import Any, Literal, Optional

class Net(nn.Module):
    def forward(self, x, many: {annotation}):
        return x if many else x[:1]
"""
    assert diagnose(text, tmp_path, inputs=None).codes() == [code]


class Configured(nn.Module):
    def __init__(self, fast):
        super().__init__()
        self.fast = fast

    def forward(self, x):
        if self.fast:
            return x
        y = x + 1
        return y * 2


def test_untaken_lines_name_the_value_that_decided():
    first = Configured.forward.__code__.co_firstlineno
    (untaken,) = fxlib.diagnose(Configured(True)).untaken
    assert (untaken.span.line - first, untaken.span.end_line - first) == (3, 4)
    assert "self.fast" in untaken.reason and "True" in untaken.reason
    (untaken,) = fxlib.diagnose(Configured(False)).untaken
    assert untaken.span.line - first == 2 and untaken.reason == "`self.fast` is False in this trace"
    assert fxlib.diagnose(Configured(True)).taken == [untaken.span]


class TwoModes(nn.Module):
    def forward(self, x):
        if self.training:
            return x + 1
        else:
            return x * 2


def test_what_only_the_other_mode_reaches_is_not_in_the_graph():
    """FX207 traces in the other mode too; the graph is that of this one."""
    first = TwoModes.forward.__code__.co_firstlineno
    for mode, line in ((True, 4), (False, 2)):
        report = fxlib.diagnose(TwoModes().train(mode), torch.randn(2))
        assert report.codes() == ["FX207"]
        assert [untaken.span.line - first for untaken in report.untaken] == [line]


def swallowed_then_loud(x):
    try:
        n = len(x)
    except RuntimeError:
        n = 1
    if x.sum() > n:
        return x
    return -x


def test_a_swallowed_failure_does_not_hide_the_next():
    report = fxlib.diagnose(swallowed_then_loud, torch.randn(3))
    assert report.codes() == ["FX215", "FX101"]
    assert not report.traces


def only_swallowed(x):
    try:
        if x.sum() > 0:
            x = x * 2
    except Exception:
        x = x * 3
    return x


def test_a_swallowed_question_follows_the_handler_as_torch_fx_does():
    report = fxlib.diagnose(only_swallowed, torch.randn(3))
    assert report.codes() == ["FX215"] and report.traces
    assert report.graph_module.code == torch.fx.symbolic_trace(only_swallowed).code.replace("torch.fx", "fxlib")


class Misled(nn.Module):
    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        return x


def test_none_tests_compare_with_the_example():
    (finding,) = fxlib.diagnose(Misled(), torch.randn(3)).findings
    assert (finding.code, finding.severity, finding.data["argument"]) == ("FX201", "warning", "mask")
    (finding,) = fxlib.diagnose(Misled(), (torch.randn(3), torch.ones(3))).findings
    assert (finding.code, finding.severity) == ("FX201", "info")
    assert fxlib.diagnose(Misled(), torch.randn(3), concrete_args={"mask": None}).codes() == []


def guarded_by_type(x, mask=None, bias=None):
    if not isinstance(x, torch.Tensor):
        raise TypeError("a tensor, please")
    if mask is not None and bias is not None:
        raise ValueError("one of them")
    elif mask is None:
        x = x * 2
    return x * len(x)


def test_after_a_guard_the_trace_continues_as_a_normal_run():
    report = fxlib.diagnose(guarded_by_type, torch.randn(3))
    assert report.codes() == ["FX202", "FX195", "FX201", "FX201", "FX195", "FX201", "FX120"]


def nested_sum(x):
    if isinstance(x, list):
        return sum(nested_sum(each) for each in x)
    assert isinstance(x, torch.Tensor), f"a tensor, but not {type(x)}"
    return x.sum()


class NamesItself(nn.Sequential):
    def forward(self, x):
        if isinstance(x, torch.Tensor):
            x = x * 2
        return super().forward(x)


def test_functions_that_name_themselves_are_listened_to():
    findings = fxlib.diagnose(nested_sum, torch.randn(3)).findings
    assert [each.code for each in findings] == ["FX195", "FX202"]
    assert fxlib.diagnose(NamesItself(nn.ReLU()), torch.randn(3)).codes() == ["FX202"]


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, condition=None):
        if condition is not None:
            x = x + self.condition_layer(condition)
        return self.layer(x)


def test_a_failure_that_a_call_without_the_argument_never_has_is_a_warning():
    x = torch.randn(2, 3)
    absent = fxlib.diagnose(Conditioned(), x)
    assert [(each.code, each.severity) for each in absent.findings] == [("FX201", "warning"), ("FX199", "warning")]
    assert "branch that `condition is not None` selects: AttributeError" in absent.findings[1].message
    given = fxlib.diagnose(Conditioned(), (x, x))
    assert ("FX199", "error") in [(each.code, each.severity) for each in given.findings]


def test_a_random_draw_in_unseen_code():
    hidden = eval("lambda x: x + torch.rand(3)", {"torch": torch})
    (finding,) = fxlib.diagnose(lambda x: hidden(x) * 2, torch.ones(3)).findings
    assert (finding.code, finding.span) == ("FX206", None)


class SameEitherWay(nn.Module):
    def forward(self, q, mask=None):
        if mask is not None:
            return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=None)


def test_a_none_test_that_changes_nothing_is_no_warning():
    module = SameEitherWay()
    (finding,) = fxlib.diagnose(module, torch.randn(1, 2, 3, 4)).findings
    assert (finding.code, finding.severity) == ("FX201", "info")
    assert "same either way" in finding.message


class ReadsMode(nn.Module):
    """Reads its mode twice, and only the second read changes the graph."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        unused = self.training and self.scale is None  # noqa: F841
        x = x * torch.tensor([2.0, 1.0, 1.0, 1.0])
        if self.training:
            x = x * self.scale
        return x


def test_only_the_reads_of_training_that_change_the_graph_are_reported():
    report = fxlib.diagnose(ReadsMode().eval(), torch.randn(2, 4))
    assert report.codes() == ["FX207"]
    first = ReadsMode.forward.__code__.co_firstlineno
    assert report.findings[0].span.line == first + 3
    assert len(report.baked) == 2
    assert all("val" in node.meta for node in report.graph.nodes), "constants have values too"


class SameInEitherMode(nn.Module):
    """A rate of 0.0 in training and of 0 otherwise."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return nn.functional.dropout(x, self.rate if self.training else 0)


def test_equal_numbers_of_either_mode_are_no_difference():
    assert fxlib.diagnose(SameInEitherMode(0.0), torch.randn(2)).codes() == []
    assert fxlib.diagnose(SameInEitherMode(0.1), torch.randn(2)).codes() == ["FX207"]


def of_a_pair(x):
    b, t = x.shape
    assert t <= 8 and b > 0
    return x + t


def test_the_value_that_decides_is_named_as_the_source_names_it():
    report = fxlib.diagnose(of_a_pair, torch.randn(2, 3))
    said = [note for finding in report.findings for note in finding.related if note.kind == "value"]
    assert [note.message for note in said] == ["`t` is 3 on the example inputs", "`b` is 2 on the example inputs"]
    assert [spans.source_text(note.span) for note in said] == ["t", "b"]


class Kinds(nn.Module):
    def forward(self, x, y):
        kinds = [x.dtype, y.dtype]
        if len(set(kinds)) > 1:
            raise RuntimeError(f"not the same: {kinds}")
        return x + y


def asserted(x):
    assert isinstance(x, torch.Tensor)
    return x + 1


class Two(nn.Module):
    def forward(self, x):
        if x.shape[-1] == 2:
            return x * 2
        raise ValueError(f"must be 2, but is {x.shape[-1]}")


def test_a_check_that_compares_proxies_is_a_check_of_ones_own():
    (found,) = fxlib.diagnose(Kinds(), (torch.ones(2), torch.ones(2))).findings
    assert found.code == "FX195"
    assert found.message.endswith("RuntimeError: not the same: [Proxy(getattr_1), Proxy(getattr_2)]")


def test_an_exception_without_a_text_is_named():
    (found,) = [each for each in fxlib.diagnose(asserted).findings if each.code == "FX195"]
    assert found.message.endswith(" while tracing: AssertionError")


def test_a_raise_where_a_guess_has_led_says_nothing():
    assert [each.code for each in fxlib.diagnose(Two()).findings] == ["FX102"]


class Guessed(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"bad {type(x)}")
        return x


def test_a_check_that_misleads_is_reported_after_a_guess_too():
    assert fxlib.diagnose(Guessed(), (torch.ones(2),)).codes() == ["FX101", "FX202", "FX195"]


class Wrapped(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        try:
            return x + torch.zeros(int(x.shape[0]))
        except TypeError as error:
            raise RuntimeError(f"cannot {error}") from error


def test_an_error_that_a_handler_raises_anew_is_the_one_that_it_handles():
    report = fxlib.diagnose(Wrapped())
    assert report.codes() == ["FX101", "FX130"]
    assert report.findings[1].message.startswith("`int()` cannot convert a traced value: `int(x.shape[0])`")


class Unfinished(nn.Module):
    mode = "a"

    def forward(self, x):
        if self.mode == "b":
            return x + 1
        raise NotImplementedError(f"mode {self.mode} for {x}")


class Stages(nn.Module):
    n = 3

    def forward(self, x):
        if self.n != 4:
            raise ValueError(f"expected 4, got {self.n} for {x}")
        return x


class Looked(nn.Module):
    def forward(self, x):
        kinds = [x.dtype]
        if len(kinds) == 1:
            try:
                return x + {}["k"]
            except KeyError:
                raise RuntimeError(f"no k for {x}") from None


@pytest.mark.parametrize("kind", [Unfinished, Stages, Looked])
def test_an_error_that_only_mentions_a_proxy_is_no_check_that_fails_because_of_it(kind):
    found = fxlib.diagnose(kind(), (torch.ones(2),)).findings[-1]
    assert found.code == "FX199" and found.data["raises"] in found.message


def test_no_fix_keeps_a_check_unseen_that_fails_without_a_trace(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        kinds = [x.dtype]\n        if len(kinds) != 2:\n"
        '            raise RuntimeError(f"needs two inputs: {kinds}")\n        return x\n'
    )
    checker = Checker(str(path), "Net()", "torch.ones(2)")
    (found,) = checker.before.report.findings
    assert found.code == "FX195" and checker.settle(found) == []


def test_a_long_chain_of_operations_is_followed_to_its_begin():
    """There is no recursion along the nodes of a graph."""

    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1500):
            x = x + 1
        if x.sum() > 0:
            x = x * 2
        return x

    assert fxlib.diagnose(long).codes() == ["FX101"]
