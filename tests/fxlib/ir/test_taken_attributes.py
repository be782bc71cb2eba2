"""What a GraphModule takes from its root: the same objects as torch.fx takes, at the same places, whatever the root's
classes do with attributes."""

import pytest
import torch
import torch.fx
from torch import nn
from torch.nn.modules import module as torch_module

import fxlib


class Shadowed(nn.Module):
    """A class attribute hides the module of the same name."""

    inner = None

    def __init__(self):
        super().__init__()
        self._modules["inner"] = nn.ReLU()
        self.seen = nn.ReLU()


class Computed(nn.Module):
    """Modules that are in no dictionary."""

    def __init__(self):
        super().__init__()
        self.kept = nn.ReLU()

    @property
    def made(self):
        return self.kept

    def __getattr__(self, name):
        return super().__getattr__("kept" if name == "alias" else name)


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.BatchNorm1d(2)))
        self.shadowed = Shadowed()
        self.computed = Computed()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.ones(2))
        self.plain = torch.ones(2)
        self.shared = self.block[1]
        self.number = 3


TARGETS = [
    ["block.0", "block.1.0", "block.1.1"],
    ["block.1.0", "block.1", "block.1.1"],
    ["block.1.1", "block", "block.0.weight"],
    ["block", "block.1.0"],
    ["shared.0", "block.1.0", "shared"],
    ["shadowed.seen"],
    ["shadowed.inner", "shadowed.seen"],
    ["computed.made", "computed.alias", "computed.kept"],
    ["weight", "scale", "plain", "block.0.bias", "block.1.1.running_mean"],
    ["number", "block.1.1.eps"],
    ["block.7"],
    ["nothing.at.all"],
]


def taken(library, root, targets):
    """Where each module, tensor and other attribute of the new module is, and which object of the root it is."""
    graph = library.Graph()
    x = graph.placeholder("x")
    for target in targets:
        found = root
        for name in target.split("."):
            found = getattr(found, name, None)
        if isinstance(found, nn.Module):
            x = graph.call_module(target, (x,))
        else:
            graph.get_attr(target)
    graph.output(x)
    try:
        made = library.GraphModule(root, graph)
    except Exception as error:
        return type(error), str(error)
    ours = {name: module if type(module) is not nn.Module else "empty" for name, module in made.named_modules() if name}
    tensors = [list(made.named_parameters()), list(made.named_buffers()), sorted(made.state_dict())]
    others = {target: getattr(made, target) for target in targets if target == "number"}
    return ours, [(name, id(tensor)) for found in tensors[:2] for name, tensor in found], tensors[2], others


@pytest.mark.parametrize("targets", TARGETS, ids=",".join)
def test_the_same_as_torch_fx(targets):
    root = Root()
    ours, theirs = taken(fxlib, root, targets), taken(torch.fx, root, targets)
    assert ours == theirs


def test_registration_hooks_see_every_module():
    seen = []
    hook = torch_module.register_module_module_registration_hook(lambda parent, name, module: seen.append(name))
    try:
        root = Root()
        calls = []
        for library in (fxlib, torch.fx):
            seen.clear()
            taken(library, root, TARGETS[0])
            calls.append(list(seen))
    finally:
        hook.remove()
    assert calls[0] == calls[1] == ["block", "0", "1", "0", "1"]


@pytest.mark.parametrize("name", ["graph", "code", "meta", "recompile", "_graph"])
@pytest.mark.parametrize("kind", [nn.Linear, nn.Parameter, nn.Sequential])
def test_names_that_a_graph_module_needs_for_itself(name, kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            value = {nn.Linear: nn.Linear(3, 3), nn.Parameter: nn.Parameter(torch.ones(3)), nn.Sequential: None}[kind]
            setattr(self, name, nn.Sequential(nn.ReLU()) if value is None else value)

        def forward(self, x):
            held = getattr(self, name)
            return held * x if kind is nn.Parameter else held(x)

    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match=f"{name}'.*rename it"):
        fxlib.symbolic_trace(Net())
    with pytest.raises(Exception):  # noqa: B017  # some names fail when the module runs
        torch.fx.symbolic_trace(Net())(x)
    report = fxlib.diagnose(Net(), x)
    assert report.codes() == ["FX191"] and not report.traces and report.graph_module is None
    outer = nn.Sequential(Net())
    assert fxlib.diagnose(outer, x).traces and torch.equal(fxlib.symbolic_trace(outer)(x), outer(x))
