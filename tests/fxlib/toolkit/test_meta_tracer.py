"""Tracing with values that have shapes and no data, and merging matrix multiplications."""

import copy
import pickle
import warnings

import pytest
import torch

from fxlib.experimental import merge_matmul, meta_tracer

from .both import assert_same


class Embedded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(42, 16)
        self.layernorm = torch.nn.LayerNorm(16)

    def forward(self, x):
        emb = self.emb(x)
        emb = emb + torch.arange(emb.shape[-1], dtype=torch.float, device=emb.device)
        lol = self.layernorm(emb)
        return torch.relu(lol) if lol.shape[0] < 30 else torch.sigmoid(lol)


class Layers(torch.nn.Module):
    """What only a value can decide, behind layers that need their parameters' shapes."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2)
        self.linear = torch.nn.Linear(8, 4)
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        x = torch.nn.SiLU()(self.conv(x)).flatten(2).mean(-1)
        first, second = x.chunk(2, dim=1)
        x = torch.nn.Identity()(self.linear(torch.cat([second, first], 1)) * self.scale)
        rows = torch.zeros(x.size(0), 4, device=x.device, dtype=x.dtype)
        for row in range(x.size(0)):
            rows = rows + x[row]
        return rows if x.dim() == 2 else -rows


@pytest.mark.parametrize("rows", [15, 35])
def test_shapes_decide(rows):
    model, x = Embedded(), torch.randint(42, (rows,))
    gm = meta_tracer.symbolic_trace(model, meta_args={"x": x.to(device="meta")})
    torch.testing.assert_close(gm(x), model(x))
    assert ("relu" in gm.code) == (rows < 30)
    for again in (pickle.loads(pickle.dumps(gm)), copy.deepcopy(gm)):
        torch.testing.assert_close(again(x), model(x))


def test_same_graph_as_torch_fx():
    torch.manual_seed(0)
    model = Embedded()

    def scenario(side):
        tracer = side("experimental.meta_tracer")
        gm = tracer.symbolic_trace(model, meta_args={"x": torch.zeros(5, dtype=torch.long, device="meta")})
        side.report(gm.graph, gm.code)
        tracer = tracer.MetaTracer()
        graph = tracer.trace(
            lambda x, y: x.relu().view(-1, x.size(-1)) + y.shape[0], {"x": torch.ones(2, 3).to("meta")}
        )
        side.report(graph)

    assert_same(scenario, at_least=2)


def test_layers_know_their_shapes():
    """Parameters are moved to the device without data for the while: no warning, and every shape is known."""
    model, x = Layers().eval(), torch.rand(2, 3, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm = meta_tracer.symbolic_trace(model, {"x": torch.empty_like(x, device="meta")})
    assert sum(node.op == "call_module" for node in gm.graph.nodes) == 4
    torch.testing.assert_close(gm(x), model(x))
    assert model.conv.weight.device.type == "cpu"


def test_what_is_not_known_is_recorded_with_a_warning():
    def f(x):
        return x.no_such_method().shape[0] + x.size(0)

    with pytest.warns(UserWarning, match="Could not compute metadata for call_method target no_such_method"):
        gm = meta_tracer.symbolic_trace(f, {"x": torch.empty(3, 2, device="meta")})
    assert "no_such_method" in gm.code and "+ 3" in gm.code
    before = torch.arange
    with pytest.raises(AssertionError, match="Expected dict"):
        meta_tracer.MetaTracer().trace(f, torch.ones(1))
    assert torch.arange is before


class Makes(torch.nn.Module):
    """Makes layers and tensors on its way; asks of tensors moved, reshaped in place and joined from several kinds."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, x, other):
        x = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())(x).clone()
        x.unsqueeze_(0)
        half = torch.where(x > 0, x.half(), x.cpu())
        self.sizes = [x.shape, half.dtype, x.mT.shape, x.device, torch.ones(x.size(-1), device=x.device).shape]
        return half, other + torch.zeros(other.shape[0], 1)


def test_what_is_asked_on_the_way():
    model, x = Makes(), torch.rand(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of ``other`` nothing is known, which is no failure
        gm = meta_tracer.symbolic_trace(model, {"x": torch.empty_like(x, device="meta")})
    assert [*model.sizes[:3], *model.sizes[4:]] == [(1, 3, 2), torch.float32, (1, 2, 3), (2,)]
    assert isinstance(model.sizes[3], meta_tracer.MetaDeviceAttribute)
    assert not list(model.children()) and len(list(gm.modules())) == 4
    other = torch.rand(5, 1)
    for expected, found in zip(model(x, other), gm(x, other), strict=True):
        torch.testing.assert_close(found, expected)
    with pytest.warns(UserWarning, match="meta_args are for inputs; y is none of other, x"):
        meta_tracer.MetaTracer().trace(model, {"y": x})


def test_an_override_goes_before_the_rules(monkeypatch):
    def f(x):
        return x if torch.sort(x).shape[0] == 7 else -x

    monkeypatch.setitem(meta_tracer.manual_meta_overrides, torch.sort, lambda x: torch.empty(7, device="meta"))
    gm = meta_tracer.symbolic_trace(f, {"x": torch.empty(2, device="meta")})
    assert torch.equal(gm(torch.ones(2)), torch.ones(2))
    for function, override in meta_tracer.manual_meta_overrides.items():
        if function in (torch.relu, torch.abs, torch.nn.functional.relu):
            given = torch.empty(3, 2, dtype=torch.half, device="meta")
            assert (override(given).shape, override(given).dtype) == (given.shape, given.dtype)


class Products(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left = torch.nn.Parameter(torch.rand(5, 4))
        self.right = torch.rand(4, 5)

    def forward(self, a, b, c):
        first = torch.matmul(a, self.left)
        early = first.sum() + 1
        second = torch.matmul(b * early, self.left)  # depends on the first
        third, fourth = torch.matmul(c, self.right), torch.matmul(torch.relu(c), self.right)
        fifth = torch.matmul(b, third.t() @ third)
        return first, second, third.abs(), fourth, torch.matmul(third, self.left), fifth


def test_merge_matmul():
    torch.manual_seed(0)
    model = Products()
    inputs = torch.rand(3, 5), torch.rand(2, 5), torch.rand(5, 4)
    merged = merge_matmul.merge_matmul(model)
    for expected, found in zip(model(*inputs), merged(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
    count = len(list(merged.graph.find_nodes(op="call_function", target=torch.matmul)))
    # of self.left's three: the second depends on the first, so all stay; self.right's two are one
    assert count == 5
    other = merge_matmul.merge_matmul(torch.nn.Sequential())
    assert torch.equal(other(inputs[0]), inputs[0])

    class Even(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.rand(5, 4)

        def forward(self, a, b):
            return torch.matmul(a, self.w).sum(), torch.matmul(b, self.w), torch.matmul(a + 1, self.w)

    even = Even()
    merged = merge_matmul.merge_matmul(merge_matmul.merge_matmul(even))  # traced once more, sizes are read as they come
    assert merged.code.count("torch.matmul") == 1
    for expected, found in zip(even(*inputs[:2]), merged(*inputs[:2]), strict=True):
        torch.testing.assert_close(found, expected)


def test_merge_matmul_deep_inside_and_beside_writes():
    """The way back may be long; what is changed in place keeps its own product."""

    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.rand(4, 5)

        def forward(self, a, b):
            for _ in range(9):
                a, b = torch.relu(a), torch.sin(b)
            kept = torch.matmul(a, self.w)
            later = torch.matmul(input=torch.cos(b), other=self.w)
            a.mul_(2)
            return kept, later, torch.matmul(a, self.w), torch.matmul(b, self.w)

    deep = Deep()
    inputs = torch.rand(3, 4), torch.rand(2, 4)
    merged = merge_matmul.merge_matmul(deep)
    assert merged.code.count("torch.matmul") == 3 and merged.code.count("self.w") == 3
    for expected, found in zip(deep(*inputs), merged(*inputs), strict=True):
        torch.testing.assert_close(found, expected)

    class Crossed(torch.nn.Module):
        """Either family could be one, but not both."""

        def forward(self, a, b, v, w):
            first, second = torch.matmul(a, v), torch.matmul(b, w)
            return torch.matmul(second, v), torch.matmul(first, w)

    inputs = [torch.rand(4, 4) for _ in range(4)]
    merged = merge_matmul.merge_matmul(Crossed())
    assert merged.code.count("torch.matmul") == 3
    for expected, found in zip(Crossed()(*inputs), merged(*inputs), strict=True):
        torch.testing.assert_close(found, expected)


def test_dependence():
    def scenario(side):
        merge = side("experimental.merge_matmul")
        graph = side().Graph()
        nodes = [graph.placeholder("x"), graph.placeholder("y")]
        for _ in range(8):
            nodes.append(graph.call_function(torch.relu, (nodes[-1],)))
        for a in nodes:
            side.report([merge.may_depend_on(a, b) for b in nodes], [merge.may_depend_on(a, nodes[0], 2)])
        side.report(merge.are_nodes_independent(nodes[:2]), merge.are_nodes_independent(nodes[1:3]))

    assert_same(scenario, at_least=11)
