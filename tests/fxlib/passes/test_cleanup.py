"""Clean-up passes: equal results, fewer nodes, and nothing removed that has an effect."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.passes.cse import eliminate_common_subexpressions
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.decompose import decompose
from fxlib.passes.fold_constants import fold_constants
from fxlib.passes.no_ops import remove_no_ops
from fxlib.passes.replace_activations import replace_activations


def traced(function):
    return fxlib.symbolic_trace(function)


def calls(graph_module):
    return [n for n in graph_module.graph.nodes if n.op.startswith("call_")]


def test_dead_code_keeps_effects():
    def f(x):
        unused = x + 1
        y = x.clone()
        y.mul_(2)
        torch.relu_(y)
        del unused
        return y

    graph_module = eliminate_dead_code(traced(f))
    x = torch.randn(4)
    assert torch.equal(graph_module(x), f(x)) and [n.name for n in calls(graph_module)] == ["clone", "mul_", "relu_"]


def test_dead_code_removes_unused_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            self.b(x)
            return self.a(x)

    graph_module = eliminate_dead_code(traced(Net()))
    assert not hasattr(graph_module, "b") and len(calls(graph_module)) == 1


def test_cse_merges_equal_and_only_equal():
    def f(x):
        a = x.view(2, -1).sum(dim=[1])
        b = x.view(2, -1).sum(dim=[1])
        return (a + 1) * (b + 1) + (a + 1.0) + (b + True)

    graph_module = eliminate_common_subexpressions(traced(f))
    x = torch.randn(2, 3)
    assert torch.equal(graph_module(x), f(x))
    assert graph_module.meta["cse"] == 3


def mutated_result(x):
    a, b = x * 2, x * 2
    a.add_(1)
    return a + b


def mutated_through_a_view(x):
    a, b = x * 2, x * 2
    a[0].zero_()
    return a, b


def mutated_input(x):
    x = x.clone()
    a = torch.relu(x)
    x.neg_()
    return a + torch.relu(x)


def drawn_twice(x):
    return torch.rand_like(x), torch.rand_like(x)


def dropped_by_torchs_names(x):
    dropped = [torch.alpha_dropout, torch.feature_dropout, torch.ops.aten.dropout, torch.ops.aten.dropout.default]
    return [drop(x, 0.5, True) for drop in dropped * 2]


@fxlib.wrap
def bump(pair, more=None):
    """Like a helper of a project: it returns nothing."""
    for each in (*pair, more):
        each.add_(1)


def changed_by_a_helper(x):
    y, z = x * 2, x * 3
    before = torch.relu(y), torch.relu(z)
    bump([y], more=z)
    return before, torch.relu(y), torch.relu(z)


@pytest.mark.parametrize(
    "f",
    [mutated_result, mutated_through_a_view, mutated_input, drawn_twice, dropped_by_torchs_names, changed_by_a_helper],
    ids=lambda f: f.__name__,
)
def test_cse_leaves_changing_and_random_values(f):
    graph_module = traced(f)
    before = len(calls(graph_module))
    eliminate_common_subexpressions(graph_module)
    assert len(calls(graph_module)) == before
    x = torch.randn(3, 3)
    torch.manual_seed(1)
    expected = f(x)
    torch.manual_seed(1)
    torch.testing.assert_close(graph_module(x), expected)


def test_cse_of_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn, self.drop = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout()

        def forward(self, x):
            return self.fc(x) + self.fc(x), self.bn(x) + self.bn(x), self.drop(x) + self.drop(x)

    assert eliminate_common_subexpressions(traced(Net().train())).meta["cse"] == 1
    assert eliminate_common_subexpressions(traced(Net().eval())).meta["cse"] == 3


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 1))
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        weight = (self.weight * self.scale).t().contiguous()
        return F.linear(self.fc(x), weight.t()) + torch.rand_like(self.scale).mean() * 0


def test_constants_are_folded_once():
    module = Weighted()
    x = torch.randn(2, 4)
    graph_module = fold_constants(traced(module))
    assert graph_module.meta["fold_constants"] == 1
    assert [n.target for n in calls(graph_module)].count("t") == 0
    assert torch.rand_like in [n.target for n in calls(graph_module)]
    torch.testing.assert_close(graph_module(x), module(x))


def test_a_buffer_that_the_graph_changes_is_no_constant():
    owner = nn.Module()
    owner.register_buffer("steps", torch.zeros(()))
    graph = fxlib.Graph()
    x = graph.placeholder("x")
    steps = graph.get_attr("steps")
    graph.call_method("add_", (steps, 1))
    graph.output(graph.call_function(operator.add, (x, graph.call_function(operator.mul, (steps, 2)))))
    graph_module = fold_constants(fxlib.GraphModule(owner, graph))
    assert graph_module.meta["fold_constants"] == 0
    assert [graph_module(torch.zeros(())).item() for _ in range(3)] == [2, 4, 6]


def test_large_results_are_not_kept():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.small = nn.Parameter(torch.randn(1, 1))

        def forward(self, x):
            return x + self.small.repeat(2000, 2000)

    graph_module = fold_constants(traced(Net()))
    assert graph_module.meta["fold_constants"] == 0 and len(calls(graph_module)) == 2


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(F.relu(x) + torch.relu(x).relu())


@pytest.mark.parametrize("new", [nn.GELU(), F.gelu], ids=["module", "function"])
def test_activations_are_exchanged_in_every_spelling(new):
    graph_module = replace_activations(traced(Activations()), "relu", new)
    x = torch.randn(5)
    torch.testing.assert_close(graph_module(x), F.gelu(F.gelu(x) + F.gelu(F.gelu(x))))
    assert graph_module.meta["replace_activations"] == 4


class ActivationsInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y, z, seen = x + 1, x - 1, x * 2
        view = seen.view(-1)
        self.act(y)
        z.relu_()
        F.relu(seen, inplace=True)
        return y, z * 2, view, self.act(x * 3)


@pytest.mark.parametrize("new", [nn.SiLU(inplace=True), F.silu], ids=["module", "function"])
def test_activations_in_place_are_exchanged_where_others_see_them(new):
    graph_module = replace_activations(traced(ActivationsInPlace()), "relu", new)
    x = torch.randn(2, 3)
    expected = (F.silu(x + 1), F.silu(x - 1) * 2, F.silu(x * 2).view(-1), F.silu(x * 3))
    torch.testing.assert_close(graph_module(x), expected)
    assert [n.target for n in calls(graph_module)].count("copy_") == 3  # the last one is seen by nobody


def test_an_exchange_leaves_what_is_read_again():
    graph_module = replace_activations(traced(Activations()), "relu", nn.ReLU6(inplace=True))
    x = torch.randn(5) * 9
    before = x.clone()
    torch.testing.assert_close(graph_module(x), F.relu6(F.relu6(x) + F.relu6(F.relu6(x))))
    assert torch.equal(x, before)
    with pytest.raises(TypeError, match=r"a module or a function of one tensor, not 'relu6'"):
        replace_activations(graph_module, "relu", "relu6")


def test_decomposition_by_retracing():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x):
            return F.relu(self.fc(x)).sigmoid()

    module = Net()
    rules = {
        F.relu: lambda x, inplace=False: (x > 0) * x,
        nn.Linear: lambda m, x: x @ m.weight.t() + m.bias,
        "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    }
    result = decompose(traced(module), rules)
    x = torch.randn(2, 3)
    torch.testing.assert_close(result(x), module(x))
    targets = [n.target for n in calls(result)]
    assert operator.matmul in targets and operator.gt in targets and torch.exp in targets and "sigmoid" not in targets
    result(x).sum().backward()
    assert module.fc.weight.grad is not None


def test_operators_that_give_back_their_input_are_erased():
    def f(x):
        y = torch.flatten(x.view(x.shape).reshape(2, 4), 1) * 1
        y = ((1 * y) / 1 - 0).to(torch.float32).float().contiguous()
        y = y.transpose(0, 1).transpose(0, 1).expand(2, 4).squeeze(1) ** 1
        return torch.mul(y, 1.0) + 0

    x = torch.randn(2, 4)
    graph_module = remove_no_ops(traced(f), x)
    assert torch.equal(graph_module(x), f(x)) and [n.name for n in calls(graph_module)] == ["add"]
    assert graph_module.meta["remove_no_ops"] == 15


@fxlib.wrap
def double(x):
    """It is called like a method of torch."""
    return x * 2


def test_what_a_function_of_the_project_is_called_says_nothing():
    x = torch.randn(2, 4)
    assert torch.equal(remove_no_ops(traced(lambda x: double(x) + 1), x)(x), double(x) + 1)


def test_operators_that_change_something_stay():
    def f(x):
        copied = x * 1
        copied.add_(1)
        turned = x.t().reshape(2, 4)
        return copied, x.view(4, 2), x.half().float(), x * 1, turned, x.long() * 1.0

    x = torch.randn(2, 4)
    graph_module = traced(f)
    before = [n.name for n in calls(graph_module)]
    assert [n.name for n in calls(remove_no_ops(graph_module, x))] == before
    for one, two in zip(graph_module(x), f(x), strict=True):
        assert torch.equal(one, two) and one.dtype == two.dtype
    unknown = traced(lambda x: x.view(2, 4))
    assert calls(remove_no_ops(unknown)), "no shapes are known"
