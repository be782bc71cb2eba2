"""Every node knows the exact source range of the expression that made it."""

import ast
import pathlib
import re
import sys

import pytest
import spanned
import torch
import torch.nn as nn
import torch.nn.functional as F

import fxlib
from fxlib.ir import span
from fxlib.ir import span_by_line as _span_by_line

FILE = spanned.__file__
LINES = pathlib.Path(FILE).read_text(encoding="utf-8").splitlines()
EXPECTED = {
    number: [part.strip() for part in line.split("#:")[1].split(" | ")]
    for number, line in enumerate(LINES, 1)
    if "#:" in line
}


@pytest.fixture(scope="module")
def graph():
    return fxlib.Tracer().trace(spanned.Net())


def texts(graph, line):
    operations = [n for n in graph.nodes if n.op not in ("placeholder", "output")]
    return [span.source_text(n.span) for n in operations if n.span.line == line]


@pytest.mark.parametrize("line", EXPECTED, ids=[LINES[n - 1].strip()[:30] for n in EXPECTED])
def test_columns(graph, line):
    assert texts(graph, line) == EXPECTED[line]


def test_every_operation_has_a_span(graph):
    for node in graph.nodes:
        if node.op != "output":
            assert node.span.file == FILE
            assert node.span.line <= node.span.end_line


def test_spans_over_several_lines(graph):
    # CPython places a method call that goes over several lines at the method's name.
    node = next(n for n in graph.nodes if n.target == "neg")
    assert span.source_text(node.span) == "neg()"
    node = next(n for n in graph.nodes if n.target is F.gelu)
    assert " ".join(span.source_text(node.span).split()) == "F.gelu( p, approximate=mode )"
    assert node.span.end_line - node.span.line == 3


def test_parameters_and_result(graph):
    found = {n.target: span.source_text(n.span) for n in graph.nodes if n.op == "placeholder"}
    assert found == {
        "x": "x: torch.Tensor", "scale": "scale", "key": "key", "*rest": "rest", "**options": "options"
    }  # fmt: skip
    output = next(n for n in graph.nodes if n.op == "output")
    assert span.source_text(output.span) == "torch.add(p, r, alpha=scale)"


def test_call_path(graph):
    node = next(n for n in graph.nodes if n.target == "block.linear")
    assert [" ".join(span.source_text(s).split()) for s in node.call_path] == [
        "self.block( s + w[0] #: s + w[0] )",
        "self.linear(x)",
    ]
    inside = next(n for n in graph.nodes if n.target == "block.layers.0")
    assert [s.line for s in inside.call_path][-1] == inside.span.line
    assert span.source_text(inside.span) == "self.layers(y)"
    tenfold = next(n for n in graph.nodes if n.args[1:] == (10,))
    assert [span.source_text(s) for s in tenfold.call_path] == ["helper(u)", "v * 10"]


def test_call_path_through_generators(graph):
    first, second = [n for n in graph.nodes if n.span and span.source_text(n.span) == "v + i"]
    for node in (first, second):
        assert [span.source_text(s) for s in node.call_path] == ["generate(t)", "sum(each(v))", "v + i"]


def test_a_comprehension_is_no_step_of_its_own():
    def whole(x):
        return sum([part(each) for each in (x, x)])

    def part(x):
        return x + 1

    last = [node for node in fxlib.Tracer().trace(whole).nodes if node.args[1:] == (1,)][-1]
    assert [span.source_text(step) for step in last.call_path] == ["part(each)", "x + 1"]


def test_overrides_do_not_get_into_spans():
    class Override(fxlib.Tracer):
        def create_node(self, *args, **kwargs):
            return super().create_node(*args, **kwargs)

        def call_module(self, m, forward, args, kwargs):
            return super().call_module(m, forward, args, kwargs)

    plain, overridden = fxlib.Tracer().trace(spanned.Net()), Override().trace(spanned.Net())
    assert [n.call_path for n in plain.nodes] == [n.call_path for n in overridden.nodes]


def test_current_site_of_a_question():
    asked = []

    class Asks(fxlib.Tracer):
        def to_bool(self, obj):
            site = self.current_site()
            asked.append(span.source_text(span.resolve(site)))
            return True

    def forward(x, y):
        if x.sum() > 0 and not y:
            return x
        return x if x < y < 3 else y

    Asks().trace(forward)
    assert asked == ["x.sum() > 0", "y", "x < y < 3", "x < y < 3"]


def test_error_names_the_expression():
    def forward(x):
        y = x + 1
        return 3 if y.sum() > 0 else len(y)

    with pytest.raises(fxlib.proxy.TraceError, match=r"test_spans.py:\d+:\d+: y.sum\(\) > 0"):
        fxlib.symbolic_trace(forward)


def test_attribute_is_where_it_was_read():
    def forward(x):
        s = x.shape
        y = x + 1
        return y.view(s)

    graph = fxlib.Tracer().trace(forward)
    node = next(n for n in graph.nodes if n.target is getattr)
    assert span.source_text(node.span) == "x.shape"


def test_torch_root_has_no_spans_of_torch():
    graph = fxlib.Tracer().trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert [n.span for n in graph.nodes if n.op == "call_module"] == [None, None]


def test_nodes_made_by_hand_have_none():
    graph = fxlib.Graph()
    x = fxlib.Proxy(graph.placeholder("x"))
    assert (x + 1).node.span is None
    assert (x + 1).node.call_path == ()


def test_spans_survive_copies(graph):
    import copy

    copied = copy.deepcopy(graph)
    assert [n.span for n in copied.nodes] == [n.span for n in graph.nodes]


def test_a_trace_keeps_no_frames_alive():
    import gc
    import weakref

    class Value:
        pass

    seen = []

    def forward(x):
        value = Value()
        seen.append(weakref.ref(value))
        return x + 1

    tracer = fxlib.Tracer()
    graph = tracer.trace(forward)
    gc.collect()
    assert len(graph.nodes) == 3 and seen[0]() is None


def test_hidden_files():
    assert span.is_hidden(torch.nn.functional.__file__)
    assert span.is_hidden(span.__file__)
    assert span.is_hidden(ast.__file__)
    assert span.is_hidden("<frozen importlib._bootstrap>")
    assert not span.is_hidden(__file__)
    assert not span.is_hidden(pytest.__file__)


def test_matching_by_line_agrees_with_columns(graph):
    """The method for Python 3.10 finds the same call expressions, in order, as the columns of newer versions."""
    agreed = total = 0
    for node in graph.nodes:
        site = node._site
        if node.op in ("placeholder", "output"):
            continue
        found = _span_by_line.locate(site[0], site[1])
        total += 1
        agreed += span.Span(FILE, *found) == node.span
        assert found[0] <= node.span.end_line and found[2] >= node.span.line
    assert agreed / total > 0.9, (agreed, total)


def test_matching_by_line_falls_back_to_the_line():
    code = compile("x = 1", "no such file.py", "exec")
    assert _span_by_line.locate(code, 2) == (1, 0, 1, 0)


def test_expression():
    tree = ast.parse("f(a + b,\n  c)").body[0].value
    name = str(pathlib.Path(FILE))
    line = next(i for i, text in enumerate(LINES, 1) if "torch.cat([z, z]" in text)
    column = LINES[line - 1].index("torch.cat")
    found = span.expression(span.Span(name, line, column, line, column + len("torch.cat([z, z], dim=1)")))
    assert isinstance(tree, ast.Call) and isinstance(found, ast.Call)
    assert re.fullmatch(r"torch\.cat\(\[z, z\], dim=1\)", ast.unparse(found))
    assert sys.version_info >= (3, 10)
