"""The alias analysis against what torch does: a result reported as new memory never shares any, and writes are found in
every spelling."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.graph import Graph
from fxlib.graph_module import GraphModule
from fxlib.passes.aliases import Aliases, sources_of_memory, storages
from fxlib.passes.calls import mutates, writes_to
from fxlib.passes.cse import eliminate_common_subexpressions
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.fold_constants import fold_constants


def single(op, target, arguments=1, **kwargs):
    graph = Graph()
    inputs = tuple(graph.placeholder(f"x{i}") for i in range(arguments))
    node = graph.create_node(op, target, inputs, kwargs)
    graph.output(node)
    return nn.Module(), node


def spellings():
    for space in (torch, F, torch.special, torch.linalg, torch.fft):
        for name in sorted(dir(space)):
            target = getattr(space, name)
            if callable(target) and not isinstance(target, type) and not name.startswith("_"):
                yield "call_function", target
    for name in sorted(dir(torch.Tensor)):
        if callable(getattr(torch.Tensor, name)) and not name.startswith("_"):
            yield "call_method", name


FORBIDDEN = {
    "manual_seed",
    "set_num_threads",
    "set_num_interop_threads",
    "save",
    "load",
    "seed",
    "compile",
    "share_memory_",
}


@pytest.fixture
def kept_generator():
    with torch.random.fork_rng(devices=[]):
        yield


def test_what_is_called_new_memory_shares_none(kept_generator):
    judged, wrong = 0, set()
    samples = [torch.rand(2, 3, 4, 4) + 0.5, torch.rand(3, 3) + 0.5, torch.rand(3, 3, dtype=torch.complex64)]
    for op, target in spellings():
        name = target if op == "call_method" else getattr(target, "__name__", "")
        if name in FORBIDDEN or name.startswith(("set_", "_", "is_", "use_", "get_", "init")):
            continue
        for sample in samples:
            for count in (1, 2):
                arguments = [sample.clone() for _ in range(count)]
                with warnings.catch_warnings(), torch.no_grad():
                    warnings.simplefilter("ignore")
                    try:
                        call = getattr(arguments[0], target) if op == "call_method" else target
                        result = call(*(arguments[1:] if op == "call_method" else arguments))
                    except Exception:
                        continue
                shared = storages(result) & storages(arguments)
                if shared:
                    root, node = single(op, target, count)
                    judged += 1
                    if not sources_of_memory(root, node) and not writes_to(root, node):
                        wrong.add(f"{op} {name}")
    assert not wrong, f"share memory with an argument: {sorted(wrong)}"
    assert judged > 100


def test_common_operators_are_known_to_make_new_memory():
    for op, target, count in [
        ("call_function", F.relu, 1),
        ("call_function", F.conv2d, 2),
        ("call_function", F.interpolate, 1),
        ("call_function", torch.cat, 1),
        ("call_function", torch.ops.aten.mul.Tensor, 2),
        ("call_method", "softmax", 1),
        ("call_method", "size", 1),
    ]:
        root, node = single(op, target, count)
        assert sources_of_memory(root, node) == (), target


def test_a_function_of_the_user_may_return_any_of_its_inputs_but_does_not_join_them():
    def relu(a, b):
        return a

    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    c = graph.call_function(relu, (a, b))
    graph.output(c)
    found = Aliases(GraphModule(nn.Module(), graph))
    assert found.may_share(a, c) and found.may_share(b, c) and not found.may_share(a, b)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: F.relu(x, True),
        lambda x: F.relu(x, inplace=True),
        lambda x: x.relu_(),
        lambda x: torch.relu_(x),
        lambda x: x.__iadd__(1),
        lambda x: torch.add(x, 1, out=x),
        lambda x: torch.ops.aten.add_.Tensor(x, 1),
    ],
)
def test_writes_in_every_spelling(write):
    class Model(nn.Module):
        def forward(self, x):
            y = x * 2
            view = y.view(-1)
            write(y)
            return view.sum()

    gm = fxlib.symbolic_trace(Model())
    nodes = {n.name: n for n in gm.graph.nodes}
    assert {nodes["mul"], nodes["view"]} <= Aliases(gm).changed()
    assert nodes["x"] not in Aliases(gm).changed()


def test_plain_logic_writes_nothing():
    gm = fxlib.symbolic_trace(lambda a, b: (a & b) | a)
    assert not any(mutates(gm, n) for n in gm.graph.nodes)


def test_a_layer_whose_weight_is_written_is_called_again():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2)

        def forward(self, x):
            before = self.first(x)
            self.first.weight.add_(1.0)
            return before, self.first(x)

    model, x = Model().requires_grad_(False), torch.ones(1, 2)
    gm = eliminate_common_subexpressions(fxlib.symbolic_trace(model))
    before, after = gm(x)
    assert not torch.equal(before, after)


def test_a_view_by_einsum_is_not_taken_for_new_memory():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros(2, 2), requires_grad=False)

        def forward(self, x):
            turned = torch.einsum("ij->ji", self.table)
            before = self.table + 0
            turned.add_(x)
            return before, self.table + 0

    x = torch.ones(2, 2)
    expected = Model()(x)
    for clean in (eliminate_common_subexpressions, fold_constants):
        for found, wanted in zip(clean(fxlib.symbolic_trace(Model()))(x), expected, strict=True):
            assert torch.equal(found, wanted)


def test_statistics_of_an_unused_norm_in_training_are_kept():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            self.norm(x)
            return x + 1

    for training in (True, False):
        gm = eliminate_dead_code(fxlib.symbolic_trace(Model().train(training)))
        assert any(n.op == "call_module" for n in gm.graph.nodes) is training
