"""Graph.materialize_symints: symbolic sizes as nodes, next to torch.fx's and as numbers when the graph runs."""

import operator

import pytest
import torch
import torch.fx
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, DivideByKey, InnerTensorKey
from torch.utils._pytree import MappingKey, SequenceKey

import fxlib


class Reshaped(torch.nn.Module):
    def forward(self, x, y):
        return x.reshape(-1), y + 1, x.nonzero()


def exported():
    program = torch.export.export(
        Reshaped(),
        (torch.ones(4, 6), torch.ones(4, 3)),
        dynamic_shapes=({0: Dim("b", min=2), 1: Dim("c", min=2)}, {0: Dim("b", min=2)}),
        strict=False,
    )
    return program.graph_module, fxlib.interop.from_torch_fx(program.graph_module)


def node(graph, name):
    return next(n for n in graph.nodes if n.name == name)


def return_sizes(gm, values):
    """Let the graph return ``values``, written as nodes."""
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        made = gm.graph.materialize_symints(values)
    output.args = (tuple(made),)
    gm.graph.set_codegen(type(gm.graph._codegen).__mro__[-2]())
    gm.graph.lint()
    gm.recompile()
    return made


def expressions(x, unbacked):
    b, c = x.shape
    return [
        b,
        c,
        b * c + 2,
        (b * c + 3) // 4,
        b - c,
        (b + 1) % 3,
        b**3,
        torch.sym_max(b, c),
        torch.sym_min(b, 3),
        torch.sym_ite(b > 3, b, c + 1),
        b & 3,
        unbacked * 2 + b,
        x.stride(0),
        11,
    ]


def expected(rows, columns, nonzero):
    return (
        rows, columns, rows * columns + 2, (rows * columns + 3) // 4, rows - columns, (rows + 1) % 3, rows**3,
        max(rows, columns), min(rows, 3), rows if rows > 3 else columns + 1, rows & 3, nonzero * 2 + rows, columns, 11,
    )  # fmt: skip


def test_as_torch_fx_writes_them_and_right():
    written = []
    for gm in exported():
        x, found = node(gm.graph, "x").meta["val"], node(gm.graph, "nonzero").meta["val"].shape[0]
        before = set(gm.graph.nodes)
        values = expressions(x, found)
        made = return_sizes(gm, values)
        new = [n for n in gm.graph.nodes if n not in before]
        written.append(sorted((str(n.target), str(n.meta["val"])) for n in new))
        for value, result in zip(values, made, strict=True):
            assert result.meta["val"] is not None and str(result.meta["val"]) == str(value) if result != 11 else True
        for rows, columns in ((4, 6), (2, 9), (5, 3)):
            result = gm(torch.eye(rows, columns), torch.ones(rows, 3))
            assert result == expected(rows, columns, min(rows, columns))
    assert written[0] == written[1]


@pytest.mark.parametrize("value", [2.5, "a", None], ids=["float", "str", "none"])
def test_only_integers(value):
    messages = []
    for gm in exported():
        with pytest.raises(TypeError) as refused:
            gm.graph.materialize_symints([1, value])
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_a_symbol_of_another_graph_is_named_and_nothing_is_left():
    _, gm = exported()
    shapes = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    strange = [shapes.create_unbacked_symint() for _ in range(9)][-1]  # u8; the graph has u0
    known = node(gm.graph, "x").meta["val"].shape[0]
    before = str(gm.graph)
    with pytest.raises(AssertionError, match=f"materialize_symints: no producer for {strange}"):
        gm.graph.materialize_symints([known, strange])
    assert str(gm.graph) == before


def test_symbols_of_strides_and_of_sizes_to_solve_for():
    """torch.fx has no producer for these."""
    strided = torch.ones(60).as_strided((3, 4), (20, 2), 1)
    gm = fxlib.interop.from_torch_fx(make_fx(lambda a: a.sin(), tracing_mode="symbolic")(strided))
    value = next(iter(gm.graph.nodes)).meta["val"]
    return_sizes(gm, [value.stride(0), value.stride(1) * 10, value.storage_offset()])
    assert gm(strided) == (20, 20, 1)

    doubled = make_fx(lambda a: torch.cat([a, a, a.new_ones(1)]), tracing_mode="symbolic")
    gm = fxlib.interop.from_torch_fx(doubled(torch.ones(5)))
    size = next(iter(gm.graph.nodes)).meta.pop("val").shape[0]
    return_sizes(gm, [size])
    assert [n.target for n in gm.graph.nodes][-3:-1] == [operator.sub, operator.floordiv]
    assert gm(torch.ones(9)) == (9,)


PATHS = [
    (),
    (CallMethodKey("size"), SequenceKey(1)),
    (CallMethodKey("stride"), SequenceKey(0)),
    (CallMethodKey("storage_offset"),),
    (CallMethodKey("item"),),
    (SequenceKey(0), ConvertIntKey()),
    (SequenceKey(2), CallMethodKey("size"), SequenceKey(0), DivideByKey(4)),
    (InnerTensorKey("inner"),),
]


def test_paths_to_what_an_operator_binds():
    ours, theirs = fxlib.Graph(), torch.fx.Graph()
    for graph in (ours, theirs):
        producer = graph.placeholder("p")
        for path in PATHS:
            graph._resolve_unbacked_binding(producer, path, lambda value: value)
        with pytest.raises(AssertionError, match="unrecognized keypath component"):
            graph._resolve_unbacked_binding(producer, (MappingKey("k"),), lambda value: value)
    assert str(ours) == str(theirs)
