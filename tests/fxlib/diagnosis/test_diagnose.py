"""diagnose as a whole: going on past problems, partial graphs, exploring, the user's module left as it was."""

from __future__ import annotations

import builtins
import random
import sys
import time

import pytest
import torch
from torch import nn

import fxlib
from fxlib.diagnosis.engine.search import Limits
from fxlib.ir import span as spans
from fxlib.shapes import TensorMeta

from .snippets import diagnose, load

FIVE = """\
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.outer = nn.Linear(4, 2)

    def forward(self, x):
        h = self.inner(x)
        if h.mean() > 0:
            h = h.relu()
        n = len(h)
        pad = torch.zeros(h.shape[0], 4)
        h[:, 0] = 1.0
        scale = np.sqrt(h.shape[1])
        return self.outer(h + pad) / scale / n
"""


def test_five_faults_give_five_findings_and_a_partial_graph(tmp_path):
    report = diagnose(FIVE, tmp_path, "(torch.randn(2, 4),)")
    places = [(finding.code, *finding.span[1:]) for finding in report.findings]
    assert places == [
        ("FX101", 14, 11, 14, 23),
        ("FX120", 16, 12, 16, 18),
        ("FX160", 17, 14, 17, 40),
        ("FX150", 18, 8, 18, 15),
        ("FX140", 19, 16, 19, 35),
    ]
    assert not report.traces and report.graph_module is None
    assert report.error == ("TraceError", "symbolically traced variables cannot be used as inputs to control flow")
    targets = [node.target for node in report.graph.nodes]
    assert "inner" in targets and "outer" in targets and targets[-1] == "output"
    for finding in report.findings:
        assert finding.related[0].kind == "torch" and finding.related[0].message.startswith("torch.fx says: ")
        assert finding.call_path[-1] == finding.span


def test_faults_in_helpers_of_other_files_have_the_call_path(tmp_path):
    helper = load("def scale(x):\n    return x * int(x.shape[0])\n", tmp_path)
    text = f"""\
import {helper.__name__} as helpers
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return helpers.scale(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x) + 1
"""
    report = diagnose(text, tmp_path)
    (finding,) = report.findings
    assert finding.code == "FX130"
    assert finding.span.file == helper.__file__ and finding.span[1:] == (2, 15, 2, 30)
    assert [step.line for step in finding.call_path] == [16, 7, 2]
    assert [note.span.line for note in finding.related if note.kind == "call"] == [16, 7]


def test_twenty_faults_in_a_long_file_in_one_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["fxlib.diagnosis.diagnose"], "_LIMITS", Limits(patience=300.0))
    kinds = [
        ("FX101", "if x.sum() > {i}:\n            x = x + 1"),
        ("FX102", "if x.dim() > {i} + 5:\n            x = x + 1"),
        ("FX120", "x = x + len(x)"),
        ("FX130", "x = x * int(x.shape[1] / 2)"),
        ("FX110", "x = x + sum(row.mean() for row in x.unbind(1)[:2]) * 0"),
        ("FX160", "x = x + torch.zeros(x.shape[0], 4)"),
        ("FX150", "x[:, 0] = {i}"),
        ("FX133", "for i in range(x.shape[0]):\n            x = x + i"),
        ("FX132", "q, r = divmod(x.shape[1], 2)\n        x = x * q"),
        ("FX122", "x = x + torch.tensor(x.shape)[0]"),
    ]
    text = "import torch\nfrom torch import nn\n\n\n"
    blocks = []
    for i in range(20):
        code, body = kinds[i % len(kinds)]
        filler = "".join(f"        x = x + {k}\n" for k in range(12))
        text += (
            f"class Block{i}(nn.Module):\n    def forward(self, x):\n{filler}"
            f"        {body.format(i=i)}\n        return x\n\n\n"
        )
        blocks.append(code)
    names = ", ".join(f"Block{i}()" for i in range(20))
    text += (
        f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.blocks = nn.Sequential({names})\n\n    def forward(self, x):\n        return self.blocks(x)\n"
    )
    assert len(text.splitlines()) > 340
    diagnose(FIVE, tmp_path, "(torch.randn(2, 4),)")  # what torch imports at first use is not the point
    start = time.process_time()
    report = diagnose(text, tmp_path, "(torch.randn(2, 4),)")
    seconds = time.process_time() - start
    loud = [finding for finding in report.findings if finding.loud]
    assert [f.code for f in loud] == blocks, [f.message for f in loud]
    # Time of the processor, 0.2 s where this was written, so that other programs on the machine do not count.
    assert seconds < 3.0


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen, self.cache = 0, [], {}
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.seen.append(x)
        self.cache["x"] = x
        self.last = x
        self.steps.add_(1)
        self.mean = self.mean * 0.9 + x.mean(0)
        random.random()
        torch.manual_seed(3)
        torch.set_grad_enabled(False)
        return x * torch.ones(3)


def test_the_module_is_left_as_it_was():
    module = Stateful()
    module.eval()
    attributes, mean = dict(module.__dict__), module.mean
    x = torch.randn(2, 3)
    state = random.getstate(), torch.get_rng_state()
    code = Stateful.forward.__code__
    report = fxlib.diagnose(module, x)
    assert module.__dict__ == attributes and list(module.__dict__) == list(attributes)
    assert module.mean is mean and mean.equal(torch.zeros(3)) and module.steps.item() == 0
    assert module.calls == 0 and module.seen == [] and module.cache == {}
    assert random.getstate() == state[0] and torch.get_rng_state().equal(state[1])
    assert torch.is_grad_enabled() and not module.training
    assert Stateful.forward.__code__ is code
    assert report.traces
    assert {"FX206", "FX208", "FX209", "FX210"} <= set(report.codes())


def test_nothing_of_the_process_is_replaced_while_forward_runs():
    seen = []

    def state():
        return set(vars(builtins)), fxlib.Proxy.__len__, fxlib.Proxy.__bool__

    def positive(x):
        seen.append(state())
        return x / len(x) if x.sum() > 0 else -x

    before = state()
    assert fxlib.diagnose(positive, torch.ones(3)).codes() == ["FX120", "FX101"]
    assert len(seen) > 1 and all(each == before for each in seen)


def test_a_function_that_outlives_the_run_behaves_as_written():
    kept = []

    def keeps(x):
        kept.append(lambda y: y if y.sum() > 0 else -y)
        return kept[-1](x)

    fxlib.diagnose(keeps, torch.ones(3))
    assert kept[-1](torch.tensor([-1.0, -2.0])).tolist() == [1.0, 2.0]


def test_the_same_answer_twice(tmp_path):
    module = load(FIVE, tmp_path).Net()
    first, second = (fxlib.diagnose(module, (torch.randn(2, 4),)) for _ in range(2))
    assert [(f.code, f.span, f.message) for f in first] == [(f.code, f.span, f.message) for f in second]


class Clean(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x, scale=2.0):
        n = x.shape[0]
        return self.linear(x) * scale + n


def test_a_clean_module_has_a_complete_graph_with_values():
    module = Clean()
    report = fxlib.diagnose(module, (torch.randn(7, 3),))
    assert report.findings == [] and report.traces and report.error is None
    assert str(report.graph) == str(fxlib.Tracer().trace(module))
    values = {node.name: node.meta["val"] for node in report.graph.nodes if "val" in node.meta}
    assert isinstance(values["linear"], TensorMeta) and values["linear"].shape == (7, 5)
    assert values["getitem"] == 7 and values["scale"] == 2.0
    x = torch.randn(2, 3)
    assert report.graph_module(x).equal(module(x))


@pytest.mark.parametrize(
    "inputs", [torch.randn(7, 3), (torch.randn(7, 3),), [torch.randn(7, 3)], {"x": torch.randn(7, 3)}]
)
def test_forms_of_example_inputs(inputs):
    report = fxlib.diagnose(Clean(), inputs)
    shapes = [node.meta["val"].shape for node in report.graph.nodes if node.name == "linear"]
    assert shapes == [(7, 5)]


def test_inputs_that_do_not_fit():
    report = fxlib.diagnose(Clean(), (torch.randn(7, 4),))
    (finding,) = report.findings
    assert finding.code == "FX303" and "reduction dim" in finding.message
    assert report.traces
    (finding,) = fxlib.diagnose(Clean(), ()).findings
    assert finding.code == "FX303" and "missing x" in finding.message
    (finding,) = fxlib.diagnose(Clean(), (1, 2, 3)).findings
    assert finding.code == "FX303" and "too many positional arguments" in finding.message


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


def guarded(x):
    if x.sum() > 0:
        raise ValueError("negative numbers only")
    if not torch.isfinite(x).all():
        raise ValueError("finite numbers only")
    return x * len(x)


def test_a_branch_that_raises_is_not_a_finding():
    assert fxlib.diagnose(guarded, torch.randn(2)).codes() == ["FX101", "FX101", "FX120"]


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


class Leaf(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_leaf_modules():
    root = nn.Sequential(Leaf(), nn.ReLU())
    assert fxlib.diagnose(root).codes() == ["FX101"]
    for name in ("0", "Leaf", "test_diagnose.Leaf", f"{Leaf.__module__}.Leaf"):
        report = fxlib.diagnose(root, leaf_modules=[name])
        assert report.codes() == [] and report.traces, name


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


def test_endless_recursion_is_said():
    def forward(x):
        return forward(x) + 1

    report = fxlib.diagnose(forward, torch.randn(3))
    assert report.codes() == ["FX310"] and not report.traces


def test_a_lambda_and_a_closure():
    bias = torch.ones(3)
    report = fxlib.diagnose(lambda x: x + bias if x.sum() > 0 else x, torch.randn(3))
    assert report.codes() == ["FX101"]

    def closure(x):
        if x.shape[0] > 2:
            return x + bias
        return x

    report = fxlib.diagnose(closure, torch.randn(3))
    assert report.codes() == ["FX102"] and report.findings[0].data["value"] is True


def test_positions_after_characters_of_several_bytes(tmp_path):
    text = FIVE.replace("n = len(h)", 'größe = "日本語"; n = len(h)')
    report = diagnose(text, tmp_path, "(torch.randn(2, 4),)")
    (finding,) = [f for f in report.findings if f.code == "FX120"]
    line = text.splitlines()[finding.span.line - 1].encode()
    assert line[finding.span.column : finding.span.end_column].decode() == "len(h)"


def test_modules_on_meta():
    with torch.device("meta"):
        module = Clean()
    report = fxlib.diagnose(module, (torch.empty(7, 3, device="meta"),))
    assert report.findings == [] and report.traces


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


def test_a_wrap_in_another_module_has_no_effect(tmp_path):
    helper = load(
        "import torch.fx\n\n\n@torch.fx.wrap\ndef double(x):\n    return x * 2\n\n\n"
        "def twice(x):\n    return double(x)\n",
        tmp_path,
    )
    text = f"""\
from torch import nn
from {helper.__name__} import double, twice


class Net(nn.Module):
    def forward(self, x):
        return double(x) + twice(x)
"""
    report = diagnose(text, tmp_path)
    (finding,) = report.findings
    assert finding.code == "FX229" and finding.span[1:] == (7, 15, 7, 24)
    assert report.traces


@pytest.mark.parametrize(
    "root",
    [
        nn.LSTM(3, 3),
        nn.MultiheadAttention(4, 2),
        nn.TransformerEncoderLayer(4, 2),
        nn.ModuleList([nn.ReLU()]),
        torch.compile(nn.ReLU()),
        nn.Module(),
    ],
    ids=lambda root: type(root).__name__,
)
def test_roots_that_cannot_be_traced(root):
    report = fxlib.diagnose(root)
    assert not report.traces and any(finding.loud for finding in report.findings)
    with pytest.raises(Exception):  # noqa: B017 - each has its own
        torch.fx.symbolic_trace(root)


def decorate(function):
    import functools

    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        if args[0].shape[0] > 1:
            pass
        return function(self, *args, **kwargs)

    return wrapper


class Decorated(nn.Module):
    @decorate
    def forward(self, x, scale=1):
        return x * scale * len(x)


def test_decorators_of_the_user_are_gone_through():
    report = fxlib.diagnose(Decorated(), (torch.randn(2, 3),))
    assert {"FX102", "FX120"} <= set(report.codes())


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
    assert "because of `condition is not None`: AttributeError" in absent.findings[1].message
    given = fxlib.diagnose(Conditioned(), (x, x))
    assert ("FX199", "error") in [(each.code, each.severity) for each in given.findings]


CALLS = 0
CACHE = {}


def with_globals(x):
    global CALLS
    CALLS += 1
    key = str(x.device)
    if key not in CACHE:
        CACHE[key] = x * 2
    return CACHE[key] + len(x)


def test_globals_are_left_as_they_were():
    report = fxlib.diagnose(with_globals, torch.randn(3))
    assert report.codes() == ["FX205", "FX120"]
    assert CALLS == 0 and CACHE == {}


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


def of_an_object(pair):
    if pair.left.shape[0] > 2:
        return pair.left
    return pair.right * len(pair.right)


def test_example_inputs_of_classes_of_their_own():
    report = fxlib.diagnose(of_an_object, (Pair(torch.ones(2), torch.ones(3)),))
    assert report.codes() == ["FX102", "FX120"]
    assert [f.data.get("value") for f in report.findings] == [False, None]
    deciding = [note for note in report.findings[0].related if note.kind == "value"]
    assert [note.message for note in deciding] == ["`pair.left.shape[0]` is 2 on the example inputs"]


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


class WritesData(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.weight.data.add_(1)
        return x * self.weight


def test_a_write_through_data_changes_the_parameter():
    assert fxlib.diagnose(WritesData(), torch.randn(2, 4)).codes() == ["FX227"]


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


def test_the_advice_on_an_item_with_a_text_as_its_key_is_about_a_container():
    class Net(nn.Module):
        def forward(self, batch):
            batch["scaled"] = batch["x"] * 2
            return batch["x"]

    (found,) = fxlib.diagnose(Net(), ({"x": torch.randn(2)},)).findings
    assert found.code == "FX150" and found.message.endswith("Build a new container with the item")
