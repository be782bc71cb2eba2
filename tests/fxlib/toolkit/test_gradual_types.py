"""Gradual tensor types: checking, refining and unifying, against torch.fx, and against eager where that is wrong."""

import operator

import pytest
import torch

from fxlib import symbolic_trace
from fxlib.experimental.graph_gradual_typechecker import (
    GraphTypeChecker,
    Refine,
    calculate_out_dimension,
    get_parameter,
    register_inference_rule,
)
from fxlib.experimental.unification import Var, isvar, reify, unify, var, variables, vars
from fxlib.experimental.unify_refinements import check_for_type_equality, infer_symbolic_types, unify_eq
from fxlib.tensor_type import Dyn, TensorType, is_consistent

from .both import assert_same


class Owner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2, 3))
        self.bn = torch.nn.BatchNorm2d(2)
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.linear = torch.nn.Linear(3, 5)
        self.relu = torch.nn.ReLU()
        self.pool = torch.nn.MaxPool2d(2)
        self.average = torch.nn.AdaptiveAvgPool2d((6, 7))
        self.unknown = torch.nn.Sigmoid()


# (opcode, target, arguments): ("x", i) is the graph's i-th node.
def x(index=0):
    return ("x", index)


CALLS = {
    "add": [("call_function", torch.add, (x(0), x(1)))],
    "iadd": [("call_function", operator.add, (x(0), x(1)))],
    "transpose": [("call_function", torch.transpose, (x(0), 1, 2))],
    "reshape": [("call_function", torch.reshape, (x(0), [2, -1]))],
    "flatten": [("call_function", torch.flatten, (x(0), 1))],
    "shape": [("call_function", getattr, (x(0), "shape"))],
    "attribute": [("get_attr", "w", ()), ("call_function", torch.add, (x(0), x(2)))],
    "method": [("call_method", "relu", (x(0),))],
    "sigmoid": [("call_function", torch.sigmoid, (x(0),))],
    **{
        name: [("call_module", name, (x(0),))]
        for name in ("bn", "conv", "linear", "relu", "pool", "average", "unknown")
    },
    "network": [
        ("call_module", "conv", (x(0),)),
        ("call_module", "relu", (x(2),)),
        ("call_module", "pool", (x(3),)),
        ("call_module", "average", (x(4),)),
        ("call_function", torch.flatten, (x(5), 1)),
    ],
    "residual": [
        ("call_module", "bn", (x(0),)),
        ("call_module", "relu", (x(2),)),
        ("call_function", torch.add, (x(3), x(0))),
        ("call_module", "bn", (x(4),)),
    ],
}
SIZES = [None, (2, 3), ("?", 3), (3,), (1, 2, 5, 6), (2, 2, "?", 6), ("?", "?", "?", "?"), (2, 3, "?"), ()]


def typed(side, sizes):
    types = side("tensor_type")
    if sizes is None or sizes is int:
        return sizes
    return types.TensorType(tuple(types.Dyn if size == "?" else size for size in sizes))


def build(side, calls, inputs, annotation=None):
    graph = side().Graph()
    nodes = [graph.placeholder(f"x{i}", type_expr=typed(side, sizes)) for i, sizes in enumerate(inputs)]
    for op, target, args in calls:
        given = tuple(nodes[arg[1]] if isinstance(arg, tuple) and arg[:1] == ("x",) else arg for arg in args)
        nodes.append(graph.create_node(op, target, given))
    if annotation is not None:
        nodes[-1].type = typed(side, annotation)
    graph.output(nodes[-1])
    return side().GraphModule(Owner(), graph)


def shown(node):
    """A node's type, however its sizes are kept."""
    return f"Tensor{tuple(node.type.__args__)}" if hasattr(node.type, "__args__") else str(node.type)


def annotations(name):
    # torch.fx takes what a flattened value is annotated with for its input's rank.
    if len(CALLS[name]) > 1 or name == "flatten":
        return (None,)
    return None, (2, 2, "?", 4), ("?", "?", "?", "?")


@pytest.mark.parametrize("name", CALLS)
def test_same_types_as_torch_fx(name):
    def scenario(side):
        checker = side("experimental.graph_gradual_typechecker")
        unify_ = side("experimental.unify_refinements")
        for first in SIZES[: -1 if name == "reshape" else None]:  # where torch.fx fails on numbers
            for second in [*SIZES, int] if name in ("add", "iadd") else [None]:
                for annotation in annotations(name):
                    gm = build(side, CALLS[name], [first, second], annotation)
                    try:
                        checker.GraphTypeChecker({}, gm).type_check()
                    except Exception as error:
                        # Which of two inconsistent types is named first is no part of it.
                        side.report(type(error).__name__, sorted(str(error)))
                    report = [(node.name, shown(node), node.meta.get("broadcast")) for node in gm.graph.nodes]
                    side.report(report)
                    if report[-1][1] == "None":
                        continue
                    refined = checker.Refine(gm)
                    refined.refine()
                    side.report(refined.constraints, [shown(node) for node in gm.graph.nodes])
                    gm = build(side, CALLS[name], [first, second], annotation)
                    checker.GraphTypeChecker({}, gm).type_check()
                    try:
                        unify_.infer_symbolic_types(gm)
                    except (TypeError, NotImplementedError):  # contradictions have a message here only
                        side.report("contradiction")
                    else:
                        side.report([shown(node) for node in gm.graph.nodes])

    assert_same(scenario, at_least=2 * len(SIZES))


def test_functions_on_types():
    def scenario(side):
        checker = side("experimental.graph_gradual_typechecker")
        types = side("tensor_type")
        all_types = [types.Dyn, *(typed(side, sizes) for sizes in [*SIZES[1:], (1, 2), (5,), (1, 1, 4)]), int, 3]
        for first in all_types:
            for rank in range(4):
                side.attempt(lambda first=first, rank=rank: checker.expand_to_tensor_dim(first, rank))
            for second in all_types:
                side.attempt(lambda first=first, second=second: checker.broadcast_types(first, second))
                side.attempt(lambda first=first, second=second: checker.get_greatest_upper_bound(first, second))

    assert_same(scenario, at_least=300)


class Everything(torch.nn.Module):
    """Where sizes differ by direction, counted from the end, given by keyword or left to the default."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 3))
        self.same = torch.nn.Conv2d(6, 6, 3, padding="same")
        self.pool = torch.nn.MaxPool2d((2, 1), stride=(1, 2), padding=(1, 0), dilation=(1, 2))
        self.average = torch.nn.AdaptiveAvgPool2d((None, 7))

    def forward(self, x):
        x = self.average(self.pool(self.same(self.conv(x))) + 1)
        turned = torch.transpose(2.5 + x, 1, -1)
        both = torch.reshape(torch.flatten(turned, -2, -1), (2, -1))
        return torch.flatten(both, start_dim=0, end_dim=1), torch.flatten(turned), torch.reshape(x, (4, -1))


def test_types_say_what_eager_computes():
    gm = symbolic_trace(Everything())
    inputs = torch.rand(2, 3, 9, 8)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            node.type = TensorType(inputs.shape)
    assert GraphTypeChecker({}, gm).type_check()
    from fxlib.passes.shape_prop import ShapeProp

    ShapeProp(gm).propagate(inputs)
    for node in gm.graph.nodes:
        if node.op not in ("output",):
            found = node.type.__args__
            assert is_consistent(node.type, TensorType(node.meta["tensor_meta"].shape)), (node.name, found)
            assert Dyn not in found or node.target is torch.reshape or "flatten" in node.name, (node.name, found)


def test_names_for_unknown_sizes():
    """One name for the batch through a whole network, and image sizes as expressions of the input's."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    gm = symbolic_trace(model)
    GraphTypeChecker({}, gm).type_check()
    infer_symbolic_types(gm)
    sizes = [node.type.__args__ for node in gm.graph.nodes]
    assert len({str(of[0]) for of in sizes}) == 1
    height = str(sizes[0][2])
    assert str(sizes[1][2]) == f"floor({height}/2 - 1/2) + 1"
    again = symbolic_trace(model)
    GraphTypeChecker({}, again).type_check()
    assert not check_for_type_equality(gm.graph, again.graph)
    infer_symbolic_types(again)
    assert check_for_type_equality(gm.graph, again.graph)


def test_errors_and_own_rules():
    gm = symbolic_trace(torch.nn.Sequential(torch.nn.Tanh()))
    with pytest.raises(RuntimeError, match=r"No inference rule registered for class .*Tanh"):
        GraphTypeChecker({}, gm).type_check()

    from fxlib.experimental import graph_gradual_typechecker

    try:

        @register_inference_rule(torch.nn.Tanh)
        def rule(node, module):
            node.type = node.args[0].type
            return node.type

        assert GraphTypeChecker({}, gm).type_check()
        with pytest.raises(RuntimeError, match="already registered"):
            register_inference_rule(torch.nn.Tanh)(rule)
    finally:
        del graph_gradual_typechecker._INFERENCE_RULES[torch.nn.Tanh]
    with pytest.raises(TypeError, match="must be a number or Dyn"):
        calculate_out_dimension("9", torch.nn.Conv2d(1, 1, 1), 0)
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        get_parameter(gm, "0.nothing")
    refined = Refine(gm)
    assert refined.refine() and refined.constraints == []


def test_unification():
    a, b, c = var("a"), var("b"), var("c")
    assert unify((1, a, (3, b)), (1, 2, (3, a))) == {a: 2, b: 2}
    assert unify((a, b, c), (b, c, 4)) == {a: b, b: c, c: 4}
    assert reify((a, [b], {"k": c}), {a: b, b: c, c: 4}) == (4, [4], {"k": 4})
    assert list(reify(iter([a, 1]), {a: 2})) == [2, 1]
    assert unify((a, a), (1, 2)) is False
    assert unify([1], (1,)) is False and unify((1,), (1, 2)) is False and unify({1: a}, {2: 1}) is False
    assert unify({"k": a, "l": 1}, {"l": 1, "k": 5}, {b: 0}) == {a: 5, b: 0}
    assert unify(a, 1, {a: 2}) is False
    with variables("word"):
        assert isvar("word") and unify(("word", 1), (2, 1)) == {"word": 2}
    assert not isvar("word") and not isvar([])
    assert var("a") == a != b and len({*vars(3), Var(), Var()}) == 5
    assert unify_eq([]) == {}
