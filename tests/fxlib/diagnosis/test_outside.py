"""What a trace reads from outside of forward: state that outlives a call, the time, ids, hooks, other graphs.

torch.fx traces each of these models without an error, and the traced module computes something else, or fails.
"""

from __future__ import annotations

import datetime
import itertools
import os

import pytest
import torch
import torch.fx

import fxlib
from fxlib.diagnosis.detectors.moments import _Another

from .snippets import diagnose, load

HEAD = """\
import collections, copy, datetime, functools, inspect, itertools, os, sys, threading, time, types, uuid
import torch
from torch import nn
from torch.fx._symbolic_trace import is_fx_tracing

G = {"n": 0, "deep": {"n": 0}}
L = []
QUEUE = collections.deque()
COUNT = itertools.count()
TOTAL = 0
CACHE = {}
SPACE = types.SimpleNamespace(n=0)
LOCAL = threading.local()
LOCAL.n = 0


class Store:
    total = 0

    def __init__(self):
        self.n = 0


STORE = Store()


def helper(x, seen=[]):
    seen.append(1)
    return x * len(seen)


def counting():
    n = 0

    def scale(x):
        nonlocal n
        n += 1
        return x * n

    return scale


scale = counting()


class Net(nn.Module):
    m = 0

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.items = itertools.count()
        self.l.count = 0
        self.scale = counting()

    def forward(self, x):
"""

# What is written, and the expression that the finding stands at.
STATE = {
    "a global dict": ("G['n'] += 1\nreturn x * G['n']", "G['n']"),
    "a dict in a global dict": ("G['deep']['n'] += 1\nreturn x * G['deep']['n']", "G['deep']['n']"),
    "a global list": ("L.append(1)\nreturn x * len(L)", "L"),
    "a deque": ("QUEUE.append(1)\nreturn x * len(QUEUE)", "QUEUE"),
    "a global": ("global TOTAL\nTOTAL += 1\nreturn x * TOTAL", "TOTAL"),
    "a new global": ("global NEW\nNEW = globals().get('NEW', 0) + 1\nreturn x * NEW", "NEW"),
    "the class": ("type(self).m += 1\nreturn x * self.m", "type(self).m"),
    "another class": ("Store.total += 1\nreturn x * Store.total", "Store.total"),
    "an object": ("STORE.n += 1\nreturn x * STORE.n", "STORE.n"),
    "a function's default": ("return helper(x)", "seen"),
    "a closure": ("return scale(x)", "n"),
    "a closure that is an attribute": ("return self.scale(x)", "n"),
    "an attribute of a leaf": ("self.l.count += 1\nreturn x * self.l.count", "self.l.count"),
    "a namespace": ("SPACE.n += 1\nreturn x * SPACE.n", "SPACE.n"),
    "what a thread has": ("LOCAL.n += 1\nreturn x * LOCAL.n", "LOCAL.n"),
    "the environment": (
        "os.environ['N'] = str(int(os.environ.get('N', 0)) + 1)\nreturn x * int(os.environ['N'])",
        "os.environ['N']",
    ),
}
MOMENTS = {
    "the time": ("return x * (⟦time.time()⟧ % 100)",),
    "the time as a tensor": ("return x * torch.tensor(⟦time.time()⟧ % 100)",),
    "the date": ("return x * ⟦datetime.datetime.now()⟧.second",),
    "a uuid": ("return x * (⟦uuid.uuid4()⟧.int % 97)",),
    "an id": ("return x * (⟦id(x)⟧ % 7)",),
    "an order by id": ("return torch.stack(sorted([x[0], x[1]], key=⟦id⟧))",),
    "an order by id in a lambda": ("return torch.stack(sorted([x[0], x[1]], key=lambda t: ⟦id(t)⟧))",),
    "a global iterator": ("return x * ⟦next(COUNT)⟧",),
    "the module's iterator": ("return x * ⟦next(self.items)⟧",),
    "the stack": ("return x * len(⟦inspect.stack()⟧)",),
    "a frame": ("return x * 2 if ⟦sys._getframe(1)⟧.f_code.co_name == '_call_impl' else x",),
    "whether gradients are wanted": ("return x * 2 if ⟦torch.is_grad_enabled()⟧ else x",),
    "whether it is traced": ("return x * 2 if ⟦is_fx_tracing()⟧ else x",),
    "beside a random number": ("x = x + ⟦torch.rand(3)⟧\nreturn x * (⟦time.time()⟧ % 100)",),
}
HARMLESS = {
    "a printed time": "start = time.time()\ny = x * 2\nprint(time.time() - start)\nreturn y",
    "a cache filled once": "if 3 not in CACHE:\n    CACHE[3] = torch.ones(3)\nreturn x * CACHE[3]",
    "a count that nobody reads": "G['n'] += 1\nreturn x * 2",
    "a warning given once": "global TOTAL\nif not TOTAL:\n    TOTAL = 1\n    print('once')\nreturn x * 2",
    "gradients that make no difference": "return x * 2 if torch.is_grad_enabled() else x * 2",
    "an environment that is read": "return x * int(os.environ.get('NONE', 2))",
    "memory by id": "seen = {id(x): 2}\nreturn x * seen[id(x)]",
    "a local iterator": "it = iter([2, 3])\nreturn x * next(it)",
    "the first parameter": "return x * next(self.parameters()).ndim",
    "an order of numbers": "return x * sorted([2, 1])[0]",
    "a real class": "return x * len(self.__class__.__name__)",
    "a match of plain values": "match True, 2:\n    case (bool(), int() as n):\n        return x * n\nreturn x",
    "a copy of a number": "return x * copy.deepcopy([2])[0]",
    "a shallow copy": "return copy.copy(x) * 2",
    "a hook of a layer that is traced into": (
        "layer = self.l\nhandle = layer.register_forward_hook(print)\nhandle.remove()\nreturn x * 2"
    ),
}


def _net(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines())


def _at(text: str, finding) -> str:
    span = finding.span
    assert span is not None and span.line == span.end_line
    return text.splitlines()[span.line - 1].encode()[span.column : span.end_column].decode()


@pytest.mark.parametrize(("body", "where"), STATE.values(), ids=STATE)
def test_state_outside_of_modules(body, where, tmp_path):
    text = _net(body)
    report = diagnose(text, tmp_path)
    assert [(each.code, _at(text, each)) for each in report.findings] == [("FX208", where)]


def test_another_moment_differs_in_each_part_from_two_that_are_near():
    start = datetime.datetime(2027, 2, 28, 23, 59, 59)
    for late in range(0, 3600, 7):
        now = start + datetime.timedelta(seconds=late)
        near = [start, _Another(1.0, 8)(now), _Another(1.0, -8)(now + datetime.timedelta(seconds=1))]
        for part in ("year", "month", "hour", "minute", "second"):
            assert len({getattr(each, part) for each in near}) > 1, (part, near)


@pytest.mark.parametrize(("body",), MOMENTS.values(), ids=MOMENTS)
def test_moments(body, tmp_path):
    text = _net(body.replace("⟦", "").replace("⟧", ""))
    marked = [part.partition("⟧")[0] for part in body.split("⟦")[1:]]
    for _ in range(3):
        report = diagnose(text, tmp_path)
        assert [each.code for each in report.findings] == ["FX206"] * len(marked)
        assert [_at(text, each) for each in report.findings] == marked


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_no_finding_where_the_graph_is_right(body, tmp_path):
    report = diagnose(_net(body), tmp_path)
    assert [f"{each.code} {each.message}" for each in report.findings] == []


def test_a_proxy_that_stays_in_a_global(tmp_path):
    text = _net("CACHE['x'] = x * 2\nreturn CACHE['x']")
    report = diagnose(text, tmp_path)
    assert [(each.code, _at(text, each)) for each in report.findings] == [("FX209", "CACHE['x']")]


def test_a_diagnosis_puts_everything_back(tmp_path):
    body = "\n".join(body.rpartition("\n")[0] for body, _ in STATE.values() if "\n" in body)
    module = load(
        _net(
            f"global TOTAL, NEW\n{body.replace('global TOTAL', '').replace('global NEW', '')}\nreturn scale(helper(x))"
        ),
        tmp_path,
    )
    fxlib.diagnose(module.Net(), torch.randn(2, 3))
    assert module.G == {"n": 0, "deep": {"n": 0}} and module.L == [] and not module.QUEUE and module.TOTAL == 0
    assert not hasattr(module, "NEW") and module.Net.m == module.Store.total == module.STORE.n == 0
    assert module.SPACE.n == module.LOCAL.n == 0 and "N" not in os.environ
    assert module.helper.__defaults__ == ([],) and module.scale.__closure__[0].cell_contents == 0


@pytest.mark.parametrize("register", ["forward_hook", "forward_pre_hook"])
def test_a_hook_that_forward_puts_on_a_leaf(register, tmp_path):
    call = f"self.l.register_{register}(lambda module, *values: None)"
    text = _net(f"handle = {call}\ny = self.l(x)\nhandle.remove()\nreturn y")
    report = diagnose(text, tmp_path)
    assert [(each.code, _at(text, each)) for each in report.findings] == [("FX233", call)]


@pytest.mark.parametrize(
    "call",
    [
        "self.register_forward_pre_hook(lambda m, args: (args[0] * 3,))",
        "self.register_forward_hook(lambda m, args, out: out * 3)",
        "nn.utils.spectral_norm(self, 'weight')",
    ],
)
def test_hooks_of_the_root(call, tmp_path):
    text = _net("return x @ self.weight").replace(
        "        self.items",
        f"        self.weight = nn.Parameter(torch.randn(3, 3))\n        {call}\n        self.items",
    )
    report = diagnose(text, tmp_path)
    assert [(each.code, _at(text, each)) for each in report.findings] == [("FX233", call)]


def test_a_call_of_the_root_that_is_its_own(tmp_path):
    own = "    def __call__(self, x):\n        return super().__call__(x) * 3\n\n"
    text = _net("return self.l(x)").replace("    def forward", f"{own}    def forward")
    report = diagnose(text, tmp_path)
    assert [(each.code, _at(text, each)) for each in report.findings] == [("FX233", "def __call__")]
    inside = f"{text}\n\nclass Outer(nn.Sequential):\n    pass\n"
    module = load(inside, tmp_path)
    assert fxlib.diagnose(module.Outer(module.Net()), torch.randn(2, 3)).findings == []


@pytest.mark.parametrize("call", ["copy.deepcopy(x)", "copy.deepcopy([x])[0]"])
def test_a_deep_copy_is_of_another_graph(call, tmp_path):
    text = _net(f"y = {call}\nreturn y * 2")
    module = load(text, tmp_path)
    with pytest.raises(NameError):
        torch.fx.symbolic_trace(module.Net())(torch.randn(2, 3))
    report = fxlib.diagnose(module.Net(), torch.randn(2, 3))
    assert [(each.code, each.severity) for each in report.findings] == [("FX234", "error")]
    assert _at(text, report.findings[0]) == call.removesuffix("[0]")


def test_a_value_of_an_earlier_trace_is_of_another_graph(tmp_path):
    module = load(_net("CACHE.setdefault('x', x * 2)\nreturn CACHE['x'] + x"), tmp_path)
    fxlib.symbolic_trace(module.Net())
    report = fxlib.diagnose(module.Net(), torch.randn(2, 3))
    assert report.codes() == ["FX234"]


def test_a_sequence_pattern_on_a_shape(tmp_path):
    text = _net("match x.shape:\n    case (a, b):\n        return x\nreturn x + 1")
    assert [(each.code, _at(text, each)) for each in diagnose(text, tmp_path).findings] == [("FX202", "(a, b)")]


def test_a_scripted_layer_changes_nothing(tmp_path):
    text = _net("return self.l(x)").replace("nn.Linear(3, 3)", "torch.jit.script(nn.Linear(3, 3))")
    assert diagnose(text, tmp_path).codes() == []


SCRIPTED = """

class Scaled(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    @torch.jit.script_method
    def forward(self, x):
        return self.inner(x) * 2

"""


def test_a_layer_that_scripts_itself_is_one_node(tmp_path):
    text = _net("return self.l(x)").replace("nn.Linear(3, 3)", "nn.Sequential(Scaled(), nn.ReLU())")
    text = text.replace("\nclass Net", f"{SCRIPTED}\nclass Net", 1)
    model = load(text, tmp_path).Net()
    theirs, ours = torch.fx.symbolic_trace(model), fxlib.symbolic_trace(model)
    assert [(each.op, str(each.target)) for each in ours.graph.nodes] == [
        (each.op, str(each.target)) for each in theirs.graph.nodes
    ]
    assert diagnose(text, tmp_path).codes() == []


def test_torch_fx_is_wrong_about_each(tmp_path):
    """The findings are true: the traced module differs from the model in the first or a later call."""
    cases = [body for body, _ in STATE.values()] + [
        body.replace("⟦", "").replace("⟧", "") for (body,) in MOMENTS.values()
    ]
    for body in cases:
        if "id" in body.replace("uuid", "") or "grad" in body or ".second" in body or "stack" in body:
            continue  # the same by chance
        module = load(_net(body), tmp_path)
        model = module.Net()
        traced = torch.fx.symbolic_trace(model)
        x = torch.randn(2, 3)
        same = [torch.equal(model(x), traced(x)) for _ in itertools.repeat(None, 3)]
        assert not all(same), body
