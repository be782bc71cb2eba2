"""Models that torch.fx traces without an error into graphs that compute something else: each has its finding."""

from __future__ import annotations

import linecache
import sys
import types

import pytest
import torch

import fxlib

HEAD = """
import array, collections, contextlib, enum, functools, math, queue, random, types
import numpy as np
import torch
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Meter:
    def __init__(self):
        self.count = 0
        self.inner = {"counts": [0]}

    def tick(self):
        self.count += 1
        return self.count

    def deep(self):
        self.inner["counts"][0] += 1
        return self.inner["counts"][0]


class Slots:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


class Frozen:
    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *error):
        torch._C._set_grad_enabled(self.before)


@contextlib.contextmanager
def frozen():
    with torch.no_grad():
        yield


@contextlib.contextmanager
def mixed():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield


def scale(x, memo):
    memo[0] += 1
    return x * memo[0]


@torch.no_grad()
def clip(module):
    for parameter in module.parameters():
        parameter.clamp_(-0.01, 0.01)


class Opt(enum.IntFlag):
    P = 1
    Q = 2


class Mode(str, enum.Enum):
    A = "a"


class Count(int):
    def __repr__(self):
        return f"Count({int(self)})"


class Tag(str):
    def __repr__(self):
        return f"<{self}>"


class Half(float):
    def __repr__(self):
        return "1"


Pair = collections.namedtuple("Pair", "a b")

class Part(nn.Module):
    def forward(self, x):
        return x + 1


def tripled(module, given, result):
    return result * 3


def need(module, needed):
    module.requires_grad_(needed)


straight = Round.apply
METER = Meter()


"""

# What the constructor does, the lines of forward, and the codes of the findings.
MODELS = {
    "a context of the user's": ("", "with frozen():\n    y = self.layer(x)\nreturn y", {"FX212"}),
    "a class as a context": ("", "with Frozen():\n    return self.layer(x)", {"FX212"}),
    "a stack of contexts": (
        "",
        "with contextlib.ExitStack() as s:\n    s.enter_context(torch.no_grad())\n    y = self.layer(x)\nreturn y",
        {"FX212"},
    ),
    "a grad mode that is set": (
        "",
        "y = x * 2\ntorch.set_grad_enabled(False)\nz = y * 3\ntorch.set_grad_enabled(True)\nreturn self.layer(z)",
        {"FX212"},
    ),
    "a context that is entered by hand": (
        "",
        "mode = torch.no_grad()\nmode.__enter__()\ny = self.layer(x)\nmode.__exit__(None, None, None)\nreturn y",
        {"FX212"},
    ),
    "a context as a decorator": ("", "return torch.no_grad()(self.layer)(x)", {"FX212"}),
    "autocast of the user's": ("", "with mixed():\n    return self.layer(x)", {"FX213"}),
    "a function under another name": ("", "return straight(x)", {"FX221"}),
    "a function as an attribute": ("self.round = Round.apply", "return self.round(x)", {"FX221"}),
    "a function that map calls": ("", "return sum(map(Round.apply, (x, x)))", {"FX221"}),
    "weights in a sum": ("", "return self.layer(x) + sum(p.square().sum() for p in self.parameters())", {"FX235"}),
    "weights in a closure": (
        "weight = self.layer.weight\nself.f = lambda x: x @ weight.exp()",
        "return self.f(x)",
        {"FX235"},
    ),
    "weights that are clipped": ("", "clip(self)\nreturn self.layer(x)", {"FX210"}),
    "weights that are clipped as data": (
        "",
        "for p in self.parameters():\n    p.data.clamp_(-0.01, 0.01)\nreturn self.layer(x)",
        {"FX210"},
    ),
    "weights that are clipped to where they are": (
        "",
        "for p in self.parameters():\n    p.data.clamp_(-9, 9)\nreturn self.layer(x)",
        {"FX210"},
    ),
    "weights that follow others": (
        "self.mean = nn.Linear(4, 4)\nself.mean.load_state_dict(self.layer.state_dict())",
        "for a, b in zip(self.mean.parameters(), self.layer.parameters()):\n    a.data = a.data * 0.5 + b.data * 0.5\n"
        "return self.mean(x)",
        {"FX210"},
    ),
    "a buffer's data": (
        'self.register_buffer("count", torch.zeros(1))',
        "self.count.data.add_(1)\nreturn x * self.count",
        {"FX210"},
    ),
    "a buffer as an array": (
        'self.register_buffer("count", torch.zeros(1))',
        "self.count.numpy()[0] += 1\nreturn x * self.count",
        {"FX210"},
    ),
    "a plain tensor": ("self.count = torch.zeros(1)", "self.count += 1\nreturn x * self.count", {"FX210"}),
    "a list of tensors": (
        "self.counts = [torch.zeros(1)]",
        "self.counts[0] += 1\nreturn x * self.counts[0]",
        {"FX210"},
    ),
    "a namespace": ("self.n = types.SimpleNamespace(count=0)", "self.n.count += 1\nreturn x * self.n.count", {"FX208"}),
    "an object": ("self.meter = Meter()", "return x * self.meter.tick()", {"FX208"}),
    "an object with slots": ("self.meter = Slots()", "self.meter.count += 1\nreturn x * self.meter.count", {"FX208"}),
    "a global object, deep inside": ("", "return x * METER.deep()", {"FX208"}),
    "a deque": (
        "self.turns = collections.deque([1.0, 2.0])",
        "self.turns.rotate(1)\nreturn x * self.turns[0]",
        {"FX208"},
    ),
    "a dictionary in another": (
        'self.state = {"a": {"n": 0}}',
        'self.state["a"]["n"] += 1\nreturn x * self.state["a"]["n"]',
        {"FX208"},
    ),
    "a NumPy array": ("self.counts = np.zeros(1)", "self.counts[0] += 1\nreturn x * float(self.counts[0])", {"FX208"}),
    "an array": ('self.counts = array.array("d", [0.0])', "self.counts[0] += 1\nreturn x * self.counts[0]", {"FX208"}),
    "a generator": ("self.items = (float(i) for i in range(99))", "return x * self.items.send(None)", {"FX208"}),
    "a queue": (
        "self.queue = queue.Queue()\nself.queue.put(1)",
        "n = self.queue.get()\nself.queue.put(n + 1)\nreturn x * n",
        {"FX208"},
    ),
    "an argument of a partial": ("self.f = functools.partial(scale, memo=[0])", "return self.f(x)", {"FX208"}),
    "a generator of random numbers": (
        "self.random = random.Random(1)",
        "draw = self.random.triangular\nreturn x * draw()",
        {"FX208"},
    ),
    "parameters that are frozen": (
        "",
        "for p in self.layer.parameters():\n    p.requires_grad = False\ny = self.layer(x)\n"
        "for p in self.layer.parameters():\n    p.requires_grad = True\nreturn y",
        {"FX240"},
    ),
    "a layer that is frozen by a helper": (
        "",
        "need(self.layer, False)\ny = self.layer(x)\nneed(self.layer, True)\nreturn y",
        {"FX240"},
    ),
    "what was frozen before": (
        "self.layer.requires_grad_(False)",
        "for p in self.parameters():\n    p.requires_grad = False\nreturn self.layer(x)",
        set(),
    ),
    "a hook that takes itself away": (
        "def once(m, a, o):\n    self.hook.remove()\n    return o * 0\nself.part = Part()\n"
        "self.hook = self.part.register_forward_hook(once)",
        "return self.part(x)",
        {"FX208"},
    ),
    "a hook of a layer that takes itself away": (
        "def once(m, a, o):\n    self.hook.remove()\n    return o * 0\n"
        "self.hook = self.layer.register_forward_hook(once)",
        "return self.layer(x)",
        set(),
    ),
    "a hook that is added": (
        "self.part = Part()",
        "y = self.part(x)\nself.part.register_forward_hook(tripled)\nreturn y",
        {"FX208"},
    ),
    "a hook for one call": (
        "self.part = Part()",
        "hook = self.part.register_forward_hook(tripled)\ny = self.part(x)\nhook.remove()\nreturn y",
        set(),
    ),
    "a buffer as a number": (
        'self.register_buffer("scale", torch.tensor(2.0))',
        "return self.layer(x) * self.scale.item()",
        {"FX241"},
    ),
    "a buffer as a condition": (
        'self.register_buffer("on", torch.tensor(True))',
        "y = self.layer(x)\nif not self.on:\n    y = y + 1\nreturn y",
        {"FX241"},
    ),
    "a buffer as a list": (
        'self.register_buffer("order", torch.tensor([1, 0, 2]))',
        "return self.layer(x)[self.order.tolist()] + float(self.order[0])",
        {"FX241"},
    ),
    "a sum of a buffer": (
        'self.register_buffer("scale", torch.ones(4))',
        "y = self.layer(x) * float(self.scale.cpu().numpy().sum())\nreturn y if self.scale[0] > 0 else x",
        {"FX241"},
    ),
    "a buffer that is only looked at": (
        'self.register_buffer("scale", torch.tensor(2.0))',
        "if self.scale < 0 or self.scale.item() < 0 or int(self.scale) > 9:\n    raise ValueError\n"
        "return self.layer(x) * self.scale",
        set(),
    ),
    "gradients of a view": (
        "",
        "x = x.detach().requires_grad_(True)\nreturn torch.autograd.grad(self.layer(x).sum(), x, create_graph=True)[0]",
        set(),
    ),
    "a gradient after backward": (
        "",
        "y = self.layer(x).sum()\ny.backward()\nif x.grad is not None:\n    return x - x.grad\nreturn x",
        {"FX201"},
    ),
    "an enum as a key": ("", "return {Mode.A: self.layer(x)}", {"FX239"}),
    "an enum within a key": ("", "return [{(0, Opt.P): self.layer(x)}]", {"FX239"}),
    "a number of NumPy's in a key": ("", "return {(0, np.float64(1.0)): self.layer(x)}", {"FX239"}),
    "a union of flags": ("", "return self.layer(x) * (Opt.P | Opt.Q)", {"FX239"}),
    "no flags": ("", "return self.layer(x) * Opt(0)", {"FX239"}),
    "an int that shows itself": ("self.n = Count(3)", "return self.layer(x) * self.n", {"FX239"}),
    "a text that shows itself": ("", 'return nn.functional.pad(self.layer(x), (1, 1), mode=Tag("reflect"))', {"FX239"}),
    "a float that shows another": ("self.n = Half(0.5)", "return self.layer(x) * self.n", {"FX239"}),
    "an infinite part": ("", "return self.layer(x) + complex(1.0, math.inf)", {"FX239"}),
    "a negative number to a power": ("", "return (-2.0) ** self.layer(x).round()", {"FX239"}),
    "what can be written": (
        "self.pair = Pair(1, Opt.P)",
        "y = {torch.float32: x, (0, 'a'): x, None: Pair(x, Pair(1, Mode.A)), 2.5: True}\n"
        "return y, self.pair, Opt.P, Mode.A, self.layer(x) * complex(math.nan, 1.0)",
        set(),
    ),
    "training by its name": ("", 'return x * 2 if getattr(self, "training") else x', {"FX207"}),
    "training among the attributes": ("", 'return x * 2 if self.__dict__["training"] else x', {"FX207"}),
}


def _indented(lines: str) -> str:
    return "".join(f"        {line}\n" for line in lines.splitlines())


def _traces(model: torch.nn.Module) -> bool:
    try:
        torch.fx.symbolic_trace(model)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("name", MODELS)
def test_no_other_graph_without_a_word(name: str, report):
    init, forward, codes = MODELS[name]
    text = f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += f"        self.layer = nn.Linear(4, 4)\n{_indented(init)}\n    def forward(self, x):\n{_indented(forward)}"
    file = f"/nowhere/{name.replace(' ', '_')}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(f"attacked_{len(sys.modules)}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, file, "exec"), vars(module))
        model = module.Net()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        hooks = [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()]
        report_of = fxlib.diagnose(model, torch.randn(3, 4))
        found = report_of.findings
        assert {each.code for each in found} == codes, found
        assert all(torch.equal(before[key], value) for key, value in model.state_dict().items()), "left as it was"
        assert hooks == [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()]
        assert report_of.traces == _traces(module.Net()), "as torch.fx"
    finally:
        del sys.modules[module.__name__]
    report(outcome=", ".join(sorted(codes)))
