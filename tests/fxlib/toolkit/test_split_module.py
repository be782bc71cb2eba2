"""split_module, against torch.fx."""

import pytest
import torch

from .both import assert_same


class Model(torch.nn.Module):
    """A shared layer, a layer inside another, a parameter as an operand and the weight of a layer read by itself."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.ones(3, 4))
        self.embed = torch.nn.Linear(4, 6)
        self.head = torch.nn.Sequential(torch.nn.Linear(6, 6))

    def forward(self, left, right, times: int = 3):
        first = torch.tanh(self.embed(left - self.bias)).square()
        second = self.head(self.embed(right)).sigmoid()
        return {"mixed": first * times - second, "read": right @ self.head[0].weight[:4]}


@pytest.mark.parametrize("settings", [{}, {"partition_affix": "q"}, {"tuple_return": True}], ids=str)
@pytest.mark.parametrize("keep_input_name", [False, True])
@pytest.mark.parametrize("keep_node_name", [False, True])
@pytest.mark.parametrize("keep_order", [False, True])
def test_options(keep_order, keep_node_name, keep_input_name, settings):
    def scenario(side):
        split = side("passes.split_module").split_module
        for parts in (1, 2, 3):
            gm = side().symbolic_trace(Model())
            order = {node: index for index, node in enumerate(gm.graph.nodes)}

            def split_now(gm=gm, order=order, parts=parts):
                names = {}
                result = split(
                    gm,
                    gm,
                    lambda node: order[node] * parts // len(order) if parts < 3 else order[node] % 2,
                    names,
                    keep_order,
                    keep_node_name,
                    keep_input_name,
                    **settings,
                )
                result.graph.lint()
                inputs = torch.ones(3, 4), torch.ones(3, 4)
                if parts < 3:
                    torch.testing.assert_close(result(*inputs), gm(*inputs))
                described = [result.code, names, list(result.state_dict())]
                described += [(node, node.meta) for node in result.graph.nodes]
                for name, part in result.named_children():
                    described += [name, getattr(part, "code", "")]
                    described += [(n.name, n.meta, n.type) for n in part.graph.nodes] if hasattr(part, "graph") else []
                return described

            side.attempt(split_now)

    assert_same(scenario, at_least=3)


def test_output_that_reads_a_parameter():
    # torch.fx raises KeyError for it when the order is kept.
    import fxlib
    from fxlib.passes.split_module import split_module

    class Reads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return torch.relu(x), self.w

    gm = fxlib.symbolic_trace(Reads())
    parts = split_module(gm, gm, lambda node: 0, keep_original_order=True)
    assert [value.tolist() for value in parts(-torch.ones(1))] == [[0.0], [1.0, 1.0]]


def test_nothing_to_split_and_a_description():
    def scenario(side):
        module = side("passes.split_module")
        for keep in (False, True):
            gm = side().symbolic_trace(lambda x: x)
            side.report(module.split_module(gm, gm, lambda node: 0, keep_original_order=keep).code)
        side.report(module.Partition("a"))

    assert_same(scenario, at_least=3)


def test_symbolic_sizes():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x, y, n):
        a = x.relu() * n
        b = a.view(x.shape[0] * 2, -1) + 1
        return b.sum(0) + y.shape[1]

    captured = make_fx(function, tracing_mode="symbolic")(torch.ones(4, 2), torch.ones(5, 6), 7)
    torch._dynamo.reset()
    graphs = [captured]
    torch.compile(function, backend=lambda gm, _: graphs.append(gm) or gm, dynamic=True)(
        torch.ones(4, 2), torch.ones(5, 6), 7
    )

    def scenario(side):
        for graph in graphs:
            gm = side.adopt(graph)
            calls = [node for node in gm.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
            for first in range(1, len(calls)):
                result = side("passes.split_module").split_module(
                    gm, gm, lambda node, calls=calls, first=first: 0 if calls.index(node) < first else 1
                )
                side.report(result.code, *[part.code for part in result.children()])

    assert_same(scenario, at_least=8)


@pytest.mark.parametrize("cut", range(1, 8))
def test_regions_of_autocast(cut):
    def function(x):
        with torch.autocast("cpu"):
            x = x @ x
            x = x.relu()
            x = x * 2
        return x.neg() + 1

    graphs = []
    torch._dynamo.reset()
    torch.compile(function, backend=lambda gm, _: graphs.append(gm) or gm)(torch.ones(2, 2))

    def scenario(side):
        gm = side.adopt(graphs[0])
        calls = [node for node in gm.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
        result = side("passes.split_module").split_module(gm, gm, lambda node: 0 if calls.index(node) < cut else 1)
        side.report(result.code, *[part.code for part in result.children()])

    assert_same(scenario)


@pytest.mark.parametrize("cut", range(1, 8))
def test_regions_of_a_grad_mode(cut):
    def scenario(side):
        graph = side().Graph()
        value = graph.placeholder("x")
        for enabled in (False, True, False, True):
            graph.call_function(torch._C._set_grad_enabled, (enabled,))
            value = graph.call_function(torch.mul, (value, 2))
        graph.output(value)
        gm = side().GraphModule({}, graph)
        calls = [node for node in gm.graph.nodes if node.op == "call_function"]
        result = side("passes.split_module").split_module(gm, gm, lambda node: 0 if calls.index(node) < cut else 1)
        side.report(result.code, *[part.code for part in result.children()])

    assert_same(scenario)
