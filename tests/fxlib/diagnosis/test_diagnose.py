"""diagnose as a whole: continuing past problems, partial graphs, inputs, and restoring the user's module."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import os
import random
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

import fxlib
from fxlib.diagnosis.engine.search import Limits, unhindered
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how long a thread has waited")
def test_waiting_for_a_processor_costs_no_patience_and_sleeping_does():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        start, clock, own = time.thread_time(), time.monotonic(), unhindered()
        while time.thread_time() - start < 0.3:
            pass
        took, counted = time.monotonic() - clock, unhindered() - own
        assert took > 0.6 and counted < took - 0.25
        own = unhindered()
        time.sleep(0.2)
        assert unhindered() - own > 0.15
    finally:
        os.sched_setaffinity(0, before)
        for each in others:
            each.kill()
            each.wait()


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
    diagnose(FIVE, tmp_path, "(torch.randn(2, 4),)")  # without torch's imports on first use
    start = time.process_time()
    report = diagnose(text, tmp_path, "(torch.randn(2, 4),)")
    seconds = time.process_time() - start
    loud = [finding for finding in report.findings if finding.loud]
    assert [f.code for f in loud] == blocks, [f.message for f in loud]
    # Processor time, so that other programs do not count; 0.2 s when this was written.
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
    note = seen.append  # the diagnosis empties a list that forward itself names

    def state():
        return set(vars(builtins)), fxlib.Proxy.__len__, fxlib.Proxy.__bool__

    def positive(x):
        note(state())
        return x / len(x) if x.sum() > 0 else -x

    before = state()
    assert fxlib.diagnose(positive, torch.ones(3)).codes() == ["FX120", "FX101"]
    assert len(seen) > 1 and all(each == before for each in seen)


def test_a_function_that_outlives_the_run_behaves_as_written():
    kept = []
    keep, last = kept.append, kept.__getitem__

    def keeps(x):
        keep(lambda y: y if y.sum() > 0 else -y)
        return last(-1)(x)

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


class Caught(Clean):
    def forward(self, x):
        try:
            y = x.view(5, -1)
        except RuntimeError:
            y = x
        return super().forward(y)


@dataclasses.dataclass
class Made:
    x: torch.Tensor
    n: int = dataclasses.field(init=False, default=3)


class Makes(Clean):
    def forward(self, x):
        return Made(super().forward(x))


class ByKeyword(Clean):
    def forward(self, x, *, scale):
        return super().forward(x) * scale


@torch.library.custom_op("fxlib_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class OwnOperator(Clean):
    def forward(self, x):
        return super().forward(twice(x))


@pytest.mark.parametrize("kind", [Caught, Makes, ByKeyword, OwnOperator])
def test_inputs_fit_where_the_model_itself_runs_with_them(kind):
    inputs = {"x": torch.randn(7, 3), **({"scale": torch.ones(5)} if kind is ByKeyword else {})}
    kind()(**inputs)
    assert fxlib.diagnose(kind(), inputs).findings == []


class Gradient(nn.Module):
    def forward(self, x):
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad((x * 2).sum(), x)[0]


def test_inputs_fit_what_differentiates_inside():
    assert fxlib.diagnose(Gradient(), (torch.randn(3),)).codes() == []


class Leaf(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_leaf_modules():
    root = nn.Sequential(Leaf(), nn.ReLU())
    assert fxlib.diagnose(root).codes() == ["FX101"]
    for name in ("0", "Leaf", "test_diagnose.Leaf", f"{Leaf.__module__}.Leaf"):
        report = fxlib.diagnose(root, leaf_modules=[name])
        assert report.codes() == [] and report.traces, name


def test_endless_recursion_is_said():
    def forward(x):
        return forward(x) + 1

    report = fxlib.diagnose(forward, torch.randn(3))
    assert report.codes() == ["FX310"] and not report.traces


class Rounds(nn.Module):
    def forward(self, x):
        return self.twice(x)

    def twice(self, x):
        x = torch.relu(x)
        return self.forward(x + x)


def _below(depth, function):
    return _below(depth - 1, function) if depth else function()


def test_an_endless_recursion_is_said_as_one_however_deep_the_stack_was_before():
    found = {
        (each.code, each.message, each.span.line, each.span.column, *[note.message for note in each.related])
        for depth in range(3)
        for each in _below(depth, lambda: fxlib.diagnose(Rounds())).findings
    }
    line = inspect.getsourcelines(Rounds.twice)[1] + 2
    (code, _, at, column, *notes) = found.pop()
    assert (code, at, column) == ("FX310", line, 15) and not found
    assert any(note.endswith("RecursionError: maximum recursion depth exceeded") for note in notes)


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
    assert report.codes() == ["FX205", "FX209", "FX120"]
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


class WritesData(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.weight.data.add_(1)
        return x * self.weight


def test_a_write_through_data_changes_the_parameter():
    assert fxlib.diagnose(WritesData(), torch.randn(2, 4)).codes() == ["FX227"]


def test_the_advice_on_an_item_with_a_text_as_its_key_is_about_a_container():
    class Net(nn.Module):
        def forward(self, batch):
            batch["scaled"] = batch["x"] * 2
            return batch["x"]

    (found,) = fxlib.diagnose(Net(), ({"x": torch.randn(2)},)).findings
    assert found.code == "FX150" and found.message.endswith("Build a new container with the item")


def test_an_exception_that_holds_itself_is_no_recursion():
    class Net(nn.Module):
        def forward(self, x):
            error = ValueError()
            error.args = (error,)
            raise error

    (found,) = fxlib.diagnose(Net(), torch.randn(2)).findings
    assert found.code == "FX199" and "ValueError: its message cannot be read" in found.message


def test_a_hook_of_the_old_kind_is_named_once_and_what_the_layer_sets_is_not_the_traces(tmp_path):
    text = """
import torch
from torch import nn


class Conv(nn.Conv1d):
    def __init__(self):
        super().__init__(3, 6, 3, padding=1)
        self.register_backward_hook(lambda module, inputs, outputs: None)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(Conv())

    def forward(self, x):
        a, b = self.conv(x).split(x.size(1), dim=1)
        return a * torch.sigmoid(b)
"""
    report = diagnose(text, tmp_path, "(torch.randn(2, 3, 8),)")
    assert report.codes() == ["FX172"]
    assert report.findings[0].related[0].message == "torch.fx says nothing and does not end"
