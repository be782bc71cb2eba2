"""Silent errors of torch.fx: fxlib traces to the same graph, and a diagnosis reports them.

Each way of being wrong has a rule; the rule's own example is traced by both libraries.
"""

from __future__ import annotations

import inspect
import re
import threading

import pytest
import timm
import torch.fx

import fxlib
import fxlib.diagnosis.comparison.compare as comparison
from fxlib.diagnosis import RULES

from .snippets import diagnose, load

SILENT = {
    "is None on an argument": "FX201",
    "isinstance, is_tensor, type(x) is": "FX202",
    "hasattr, callable": "FX203",
    "a size looked up in a set": "FX204",
    "text of a proxy": "FX205",
    "random numbers drawn once": "FX206",
    "self.training fixed": "FX207",
    "self.counter += 1": "FX208",
    "a proxy left on the module": "FX209",
    "a buffer's update lost": "FX210",
    ".data =": "FX211",
    "no_grad gone": "FX212",
    "autocast gone": "FX213",
    "checkpointing gone": "FX214",
    "try/except around a branch": "FX215",
    "except AttributeError that never fires": "FX216",
    "a misspelt method": "FX217",
    "hash(x)": "FX218",
    "an unknown name in concrete_args": "FX219",
    "a concrete argument renames its placeholder": "FX220",
    "a custom backward lost": "FX221",
    "a constant changed in forward": "FX222",
    "OrderedDict turned into dict": "FX223",
    "a wrapped helper whose result is unused": "FX224",
    "the device of the trace": "FX225",
    "a convolution used twice and fused once": "FX226",
    "an identity test": "FX231",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT.keys())
def test_strict_copies_the_verdict_and_diagnose_tells(code, tmp_path):
    rule = RULES[code]
    assert not rule.loud

    def graph(library):
        module = load(rule.bad, tmp_path)
        concrete = eval(rule.options, {"torch": torch, **vars(module)}).get("concrete_args")
        text = str(library.Tracer().trace(module.Net(), concrete))
        return re.sub(r"0x[0-9a-f]+", "", text.replace(module.__name__, ""))

    assert graph(fxlib) == graph(torch.fx)
    assert code in diagnose(rule.bad, tmp_path, rule.inputs, rule.options).codes()


class Drifting(timm.models.resnet.ResNet):
    """A published model whose subclass writes to a buffer of a norm and of a block of its own."""

    def __init__(self) -> None:
        super().__init__(timm.models.resnet.BasicBlock, [1, 1, 1, 1], channels=[8, 8, 8, 8], num_classes=3)
        self.meter = Meter()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.bn1.running_mean.add_(1)
        self.meter.seen.mul_(0.9)
        return self.meter(super().forward(x))


class Meter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.seen


def test_an_update_of_a_submodules_buffer_is_found_where_it_is_written():
    model = Drifting().eval()
    report = fxlib.diagnose(model, (torch.randn(1, 3, 32, 32),))
    lines, first = inspect.getsourcelines(Drifting)
    found = {(each.code, each.span and lines[each.span.line - first].strip()) for each in report.findings}
    assert found == {("FX210", "self.bn1.running_mean.add_(1)"), ("FX210", "self.meter.seen.mul_(0.9)")}
    assert model.bn1.running_mean.sum() == 0 and model.meter.seen.sum() == 3, "put back after the trace"


BY_OTHER_WAYS = [
    "self.meter.seen.data.mul_(0.5)",  # neither this nor the next two change the version of the buffer
    "self.meter.seen.data = torch.zeros(3)",
    "self.meter.seen.numpy()[0] = 9",
    "torch.add(self.meter.seen, 1, out=self.meter.seen)",
    "torch._foreach_add_([self.meter.seen], 1.0)",
    "torch.nn.init.zeros_(self.meter.seen)",
    "self.meter.seen.view(1, 3).add_(1)",
    "seen = self.meter.seen; seen.add_(1)",
    "self.norm.running_mean = self.norm.running_mean + 1",
    "self.norm.running_mean.data.add_(1)",
    # By torch's own functions: no text names the buffer.
    "self.norm.load_state_dict({**self.norm.state_dict(), 'running_mean': torch.ones(3)})",
    "[each.add_(1) for each in self.meter.buffers()][:0]",
    "self.meter.state_dict()['seen'].zero_()",
]


@pytest.mark.parametrize("line", BY_OTHER_WAYS)
def test_an_update_of_a_submodules_buffer_in_another_way(line, tmp_path):
    """Found on its line, and restored; an unwritten buffer with NaN is not reported."""
    source = f"""
        import torch
        from torch import nn

        class Meter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.ones(3))
                self.register_buffer("unknown", torch.tensor([float("nan"), 1]))

            def forward(self, x):
                return x * self.seen

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.meter, self.norm = Meter(), nn.BatchNorm1d(3)

            def forward(self, x):
                {line}
                return self.norm(self.meter(x))
    """
    module = load(inspect.cleandoc(source), tmp_path)
    model = module.Net().eval()
    report = fxlib.diagnose(model, (torch.randn(2, 3),))
    lines = inspect.getsource(module).split("\n")
    assert [(each.code, lines[each.span.line - 1].strip()) for each in report.findings] == [("FX210", line)]
    assert model.meter.seen.sum() == 3 and model.norm.running_mean.sum() == 0


FIRST = """\
import time

import torch
from torch import nn

LOADED = []


class Net(nn.Module):
    def forward(self, x):
        if not LOADED:
            LOADED.append(time.process_time())
            while time.process_time() < LOADED[0] + 0.1:
                pass
        return x + len(LOADED) if type(x) is torch.Tensor else x
"""


def test_a_first_call_that_loads_something_does_not_make_a_model_slow(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "_SLOW", 0.05)
    found = fxlib.compare(load(FIRST, tmp_path).Net(), (torch.randn(2),))
    assert found is not None and found.code == "FX236"


def test_a_model_that_cannot_be_copied_is_named():
    class Locked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(TypeError, match=r"Locked cannot be compared .* cannot be copied: cannot pickle '_thread.lock'"):
        fxlib.compare(Locked(), (torch.randn(2),))
