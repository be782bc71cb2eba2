"""Nodes by source line: values at line ends, nodes at a position, totals."""

from __future__ import annotations

import pytest
from fxlens.features.code_lens import lenses, summary
from fxlens.features.inlay_hints import _cut
from fxlens.record import span as as_span
from fxlens.record import target as empty_target
from fxlens.views import source_nodes as lines
from fxlens.views.descriptions import code, describe, describe_target
from fxlens.views.texts import forward, table

PATH = "/models/net.py"


def span(line, column, end_column, file=PATH, end_line=None):
    return {"file": file, "line": line, "column": column, "end_line": end_line or line, "end_column": end_column}


def node(name, place, shape=(2, 8), op="call_function", target="torch.relu", path=(), **more):
    return {
        "name": name, "op": op, "target": target, "args": "x", "inputs": ["x"], "span": place, "call_path": list(path),
        "module_path": "", "module_type": "", "settings": "", "shape": shape and list(shape), "symbolic": None,
        "dtype": "float32", "value": "", "params": 0, "flops": None, "predicted": None, "returned": {},
        "structure": "", **more,
    }  # fmt: skip


def record(*nodes, **more):
    target = empty_target("Net", as_span(PATH, 3, 6, 3, 9), "traced")
    return {"targets": [{**target, "nodes": [node("x", None, op="placeholder", target="x"), *nodes], **more}]}


def texts(found):
    return [(value.line, value.text()) for value in lines.line_values(found, PATH)]


def test_line_shows_the_value_of_its_outermost_expression():
    found = record(node("linear", span(7, 17, 26), (2, 4)), node("relu", span(7, 12, 30), (2, 8)))
    assert texts(found) == [(7, "f32[2, 8]")]


def test_expression_over_several_lines_shows_at_the_last():
    assert texts(record(node("cat", span(7, 12, 9, end_line=10)))) == [(10, "f32[2, 8]")]


def test_line_reached_again_counts_or_shows_the_range():
    same = [node(f"relu_{n}", span(7, 12, 30)) for n in range(16)]
    assert texts(record(*same)) == [(7, "f32[2, 8] ×16")]
    growing = [node(f"up_{n}", span(7, 12, 30), (2, 2**n)) for n in range(3)]
    assert texts(record(*growing)) == [(7, "f32[2, 1] … f32[2, 4]")]


@pytest.mark.parametrize(("kind", "shown"), [("Sequential", "f32[2, 4]"), ("ModuleList", "f32[2, 16] … f32[2, 4]")])
def test_parts_of_a_container_are_one_visit_and_those_of_a_list_are_several(kind, shown):
    parts = [
        node(f"body_{n}", span(7, 12, 24), (2, 16 // 2**n), "call_module", f"body.{n}", module_path=f"body.{n}")
        for n in range(3)
    ]
    assert texts(record(*parts, modules={"": "Net", "body": kind})) == [(7, shown)]


@pytest.mark.parametrize(
    ("batch", "shown"), [(4, "f32[4, 8] ×3"), (1, "f32[1, 8]")], ids=["with the same sizes", "with other sizes"]
)
def test_line_of_a_part_shows_what_the_largest_model_makes_of_it_that_uses_it_as_its_lens_says(batch, shown):
    part = record(node("relu", span(7, 12, 30), (batch, 8)), name="Part")["targets"]
    whole = record(*[node(f"relu_{n}", span(7, 12, 30), (4, 8)) for n in range(3)])["targets"]
    assert texts({"targets": part + whole}) == [(7, shown)]


def test_call_into_another_file_shows_what_it_gives():
    inside = span(90, 8, 20, file="/lib/blocks.py")
    call = span(7, 12, 26)
    path = [call, inside]
    found = record(node("conv", inside, (2, 4), path=path), node("relu", inside, (2, 16), path=path))
    assert texts(found) == [(7, "f32[2, 16]")]


def test_values_that_are_no_tensors_show_nothing_and_long_ones_are_cut():
    assert texts(record(node("size", span(7, 12, 20), None))) == []
    assert _cut("f32[1, 2, 3, 4, 5, 6]", 10) == "f32[1…, 6]"


def test_position_finds_the_narrowest_expression():
    inner, outer = node("linear", span(7, 17, 26)), node("relu", span(7, 12, 30))
    found = record(inner, outer)
    assert [place.node["name"] for place in lines.at(found, PATH, 7, 20)] == ["linear"]
    assert [place.node["name"] for place in lines.at(found, PATH, 7, 13)] == ["relu"]
    assert lines.at(found, PATH, 8, 13) == []
    assert lines.at(found, "/models/other.py", 7, 13) == []


def test_hover_names_operator_values_and_costs():
    conv = node("conv1", span(7, 12, 26), (1, 64, 112, 112), "call_module", "conv1", module_path="conv1",
                module_type="Conv2d", settings="3, 64, kernel_size=(7, 7)", params=9408, flops=236027904)  # fmt: skip
    nodes = [
        node("x", None, (1, 3, 224, 224), op="placeholder", target="x", inputs=[]),
        node("relu", None, inputs=["conv1"]),
    ]
    model = {**record()["targets"][0], "nodes": nodes}
    text = describe(lines.at(record(conv), PATH, 7, 13), model)
    assert (
        "`conv1`" in text
        and "`Conv2d(3, 64, kernel_size=(7, 7))`" in text
        and "f32[1, 3, 224, 224] → f32[1, 64, 112, 112]" in text
    )
    assert "9,408 parameters" in text and "236 MFLOPs" in text and "3.851 MB read and written" in text
    assert "used by `relu`" in text
    again = describe(lines.at(record(conv, {**conv, "name": "conv1_1"}), PATH, 7, 13), model)
    assert "executed 2 times" in again


def test_hover_on_a_call_sums_up_what_it_leads_to():
    inside, call = span(90, 8, 20, file="/lib/blocks.py"), span(7, 12, 26)
    some = [
        node(f"conv{n}", inside, op="call_module", target=f"blocks.conv{n}", path=[call, inside], params=10, flops=500,
             module_type="Conv2d")
        for n in range(8)
    ]  # fmt: skip
    found = record(*some, modules={"blocks": "Blocks"})
    text = describe(lines.at(found, PATH, 7, 13), found["targets"][0])
    assert text.startswith("**`Blocks`** · `blocks` · 8 nodes") and "Conv2d ×8" in text
    assert "80 parameters" in text and "4 kFLOPs" in text


def test_hover_on_the_class_gives_totals():
    twice = [node(f"fc_{n}", span(7, 12, 26), op="call_module", target="fc", params=72, flops=128) for n in range(2)]
    found = record(*twice)
    assert lines.class_at(found, 3, 7) is found["targets"][0] and lines.class_at(found, 4, 7) is None
    text = describe_target(found["targets"][0])
    assert "3 nodes" in text and "72 parameters" in text and "256 FLOPs" in text and "x: f32[2, 8]" in text


@pytest.mark.parametrize("name", ["a`b", "``", "`", "a\nb", "<img src=x>", "[x](command:evil)"])
def test_names_are_code_in_markdown(name):
    shown = code(name)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    assert shown.endswith(fence) and fence not in shown[len(fence) : -len(fence)].strip().replace(fence + "`", "")
    assert "\n" not in shown


def test_lenses_say_the_state_and_offer_what_the_client_can():
    target = record()["targets"][0]
    assert summary(target) == "✓ 1 node"
    target["inputs"] = {"text": "torch.randn(2, 8)", "source": "comment", "line": 1, "file": None}
    known = {"fxlens.showProblems", "fxlens.showGraph", "fxlens.showCode", "fxlens.showTable", "fxlens.editInputs"}
    every = lenses(target, "file:///models/net.py", known)
    assert [each.title for each in every] == ["✓ 1 node", "Graph", "Code", "Table", "x: f32[2, 8] · comment"]
    assert every[1].arguments == ["file:///models/net.py", "Net"]
    plain = lenses(target, "file:///models/net.py", set())
    view = "fxlens.openView"
    assert [(each.title, each.command) for each in plain] == [
        ("✓ 1 node", ""), ("Code", view), ("Table", view), ("x: f32[2, 8] · comment", ""),
    ]  # fmt: skip
    assert plain[1].arguments == ["file:///models/net.py", "Net", "code"]
    origins = [
        ("call", 30, None, "line 30"), ("test", 12, "/a/tests/test_net.py", "test_net.py:12"),
        ("inferred", None, None, "inferred"), ("config", None, None, "configuration"),
    ]  # fmt: skip
    for source, line, file, shown in origins:
        target["inputs"] = {"text": "torch.randn(2, 8)", "source": source, "line": line, "file": file}
        assert lenses(target, "", known)[-1].title == f"x: f32[2, 8] · {shown}"
    target["findings"] = [{"severity": "error"}, {"severity": "warning"}, {"severity": "hint"}]
    assert summary(target) == "2 problems"
    target.update(status="skipped", findings=[], nodes=[], inputs=None)
    assert [each.title for each in lenses(target, "", known)][1:] == ["Set example inputs"]
    target.update(status="traced", nodes=[node("x", span(6, 22, 23), op="placeholder", target="x")])
    assert [each.title for each in lenses(target, "", known)][-1] == "Set example inputs"
    target["nodes"] = [node("output", span(7, 8, 16), op="output")]
    assert "Set example inputs" not in [each.title for each in lenses(target, "", known)]


def test_views_map_nodes_to_their_lines():
    text = "def forward(self, x):\n    relu = torch.relu(x)\n"
    target = record(node("relu", span(7, 12, 26)), code=text)["targets"][0]
    target["code_lines"] = {"x": [1, 1], "relu": [2, 2]}
    assert forward(target) == (target["code"], {"x": [0, 0], "relu": [1, 1]})
    text, rows = table(target)
    assert text.splitlines()[rows["relu"][0]].split() == ["call_function", "relu", "torch.relu", "x", "f32[2,", "8]"]
    assert table({"nodes": []}) == ("", {})
