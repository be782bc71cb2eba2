"""Drawing a target: what becomes a box, what a cluster, and that Graphviz takes the text as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET

import pytest
from fxlens.views import operators
from fxlens.views.drawing import LIMIT, draw, value_text


def node(name, op="call_function", target="torch.relu", inputs=(), path="", kind="", shape=None):
    return {
        "name": name, "op": op, "target": target, "inputs": list(inputs), "module_path": path, "module_type": kind,
        "settings": "", "shape": shape, "symbolic": None, "dtype": "float32", "structure": "",
    }  # fmt: skip


def blocks(count: int, inner: int = 3) -> dict:
    """x -> layers.0 … layers.count-1, each of ``inner`` linear layers and an addition -> output."""
    nodes, types, last = [node("x", "placeholder", "x", shape=[2, 8])], {"": "Net", "layers": "Sequential"}, "x"
    for index in range(count):
        types[f"layers.{index}"] = "Block"
        before = last
        for place in range(inner):
            path = f"layers.{index}.fc{place}"
            nodes.append(node(path.replace(".", "_"), "call_module", path, [last], path, "Linear", [2, 8]))
            last = nodes[-1]["name"]
        path = f"layers.{index}"
        nodes.append(node(f"add_{index}", target="operator.add", inputs=[before, last], path=path, kind="Block"))
        last = nodes[-1]["name"]
    nodes.append(node("output", "output", "output", [last]))
    return {"name": "Net", "nodes": nodes, "modules": types, "findings": [], "lowering": []}


def svg(dot: str) -> ET.Element:
    program = shutil.which("dot")
    assert program, "the tests need Graphviz: apt-get install graphviz"
    image = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
    return ET.fromstring(image)


def ids(image: ET.Element, kind: str) -> set[str]:
    groups = image.iter("{http://www.w3.org/2000/svg}g")
    return {group.get("id") for group in groups if kind in group.get("class", "").split()}


def texts(image: ET.Element) -> list[str]:
    return [text.text for text in image.iter("{http://www.w3.org/2000/svg}text")]


def test_small_graph_is_open_and_every_node_is_a_box():
    target = blocks(2)
    drawing = draw(target)
    image = svg(drawing.dot)
    assert ids(image, "node") == {f"n:{each['name']}" for each in target["nodes"]}
    assert ids(image, "cluster") == {"m:layers", "m:layers.0", "m:layers.1"}
    assert {"layers.0.fc0", "Linear", "f32[2, 8]", "layers: Sequential", "0: Block"} <= set(texts(image))
    assert drawing.dot.count("->") == sum(len(each["inputs"]) for each in target["nodes"])


def test_modules_that_take_turns_are_drawn_in_the_order_of_their_values():
    """Two lists of modules, of which each has a part in every step, as downsampling layers and stages."""
    nodes, last = [node("x", "placeholder", "x")], "x"
    for step in range(4):
        for part in ("down", "stages"):
            name = f"{part}.{step}"
            nodes.append(node(name.replace(".", "_"), "call_module", name, [last], name, "Linear"))
            last = nodes[-1]["name"]
    types = {"": "Net", "down": "ModuleList", "stages": "ModuleList"}
    image = svg(draw({"name": "Net", "nodes": nodes, "modules": types, "findings": [], "lowering": []}).dot)
    text = "{http://www.w3.org/2000/svg}text"
    groups = [
        group for group in image.iter("{http://www.w3.org/2000/svg}g") if group.get("class", "").startswith("node")
    ]
    heights = {group.get("id"): float(next(group.iter(text)).get("y", "")) for group in groups}
    assert sorted(heights, key=heights.__getitem__) == [f"n:{each['name']}" for each in nodes]


def test_equal_siblings_become_one_box_that_opens():
    target = blocks(12, inner=4)
    drawing = draw(target, expanded=["m:layers"])
    assert drawing.elements["r:layers.0…11"] == [each["name"] for each in target["nodes"][1:-1]]
    assert {"0 … 11", "Block ×12", "60 nodes"} <= set(texts(svg(drawing.dot)))
    opened = draw(target, expanded=["m:layers", "r:layers.0…11"])
    assert ids(svg(opened.dot), "node") == {"n:x", "n:output", *(f"m:layers.{index}" for index in range(12))}
    assert opened.groups["r:layers.0…11"]["open"] and not opened.groups["m:layers.3"]["open"]


def test_edges_between_closed_groups_are_drawn_once():
    drawing = draw(blocks(4), expanded=["m:layers", "r:layers.0…3"])
    edges = re.findall(r'"(.*?)" -> "(.*?)"', drawing.dot)
    assert edges == [
        ("n:x", "m:layers.0"), ("m:layers.0", "m:layers.1"), ("m:layers.1", "m:layers.2"),
        ("m:layers.2", "m:layers.3"), ("m:layers.3", "n:output"),
    ]  # fmt: skip


def test_unequal_siblings_stay_apart():
    target = blocks(5)
    target["modules"]["layers.2"] = "OtherBlock"
    assert not [group for group in draw(target, expanded=["m:layers"]).groups if group.startswith("r:")]


def test_siblings_that_a_value_skips_stay_apart():
    """One box for them would hide the skip: of a U-Net only a line would be left."""
    target = blocks(5)
    add = next(each for each in target["nodes"] if each["name"] == "add_4")
    add["inputs"] = [*add["inputs"], "layers_1_fc0"]
    assert not [group for group in draw(target, expanded=["m:layers"]).groups if group.startswith("r:")]
    everywhere = blocks(5)
    for each in everywhere["nodes"]:
        if each["name"].startswith("add_"):
            each["inputs"] = [*each["inputs"], "x"]  # as a mask is
    assert "r:layers.0…4" in draw(everywhere, expanded=["m:layers"]).groups


def test_the_arithmetic_with_sizes_is_one_small_box_that_opens():
    target = blocks(1)
    more = [
        node("size", "call_method", "size", ["layers_0_fc0"], "layers.0"),
        node("getitem", target="operator.getitem", inputs=["size"], path="layers.0"),
        node("floordiv", target="operator.floordiv", inputs=["getitem"], path="layers.0"),
    ]
    target["nodes"][2:2] = more
    add = next(each for each in target["nodes"] if each["name"] == "add_0")
    add["inputs"] = [*add["inputs"], "floordiv"]
    everything = ["m:layers", "m:layers.0"]
    drawing = draw(target, expanded=everything)
    assert drawing.elements["s:layers.0"] == ["size", "getitem", "floordiv"]
    assert len(re.findall(r"edge sizes", drawing.dot)) == 2
    opened = draw(target, expanded=[*everything, "s:layers.0"])
    assert {"n:size", "n:getitem", "n:floordiv"} <= opened.elements.keys()


def test_a_box_says_what_it_is_with_its_settings_and_its_kind():
    known = {
        ("Conv2d", "3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False"):
            ("convolution", "3 → 64, 7×7, stride 2"),
        ("Conv2d", "64, 64, kernel_size=(3, 1), stride=(1, 1), groups=64"): ("convolution", "64 → 64, 3×1, groups 64"),
        ("Linear", "in_features=2048, out_features=1000, bias=True"): ("product", "2048 → 1000"),
        ("BatchNorm2d", "64, eps=1e-05, momentum=0.1"): ("norm", "64"),
        ("MaxPool2d", "kernel_size=3, stride=2, padding=1"): ("pooling", "3, stride 2"),
        ("ReLU", "inplace=True"): ("activation", ""),
        ("Dropout", "p=0.1, inplace=False"): ("", "p 0.1"),
    }  # fmt: skip
    for (type_, given), (kind, text) in known.items():
        layer = {**node("layer", "call_module", "block.layer", kind=type_), "settings": given}
        assert (operators.kind(layer), operators.settings(layer)) == (kind, text), type_
    calls = {
        "torch.nn.functional.relu_": "activation", "torch.functional.einsum": "product", "operator.iadd": "arithmetic",
        "torch.cat": "shape", "torch.nn.functional.layer_norm": "norm", "torch.nn.functional.max_pool2d": "pooling",
        "torch.nn.functional.scaled_dot_product_attention": "product", "torch.fft.fft": "",
    }  # fmt: skip
    assert {name: operators.kind(node("call", target=name)) for name in calls} == calls


def test_large_graph_starts_readable_and_is_quick():
    for count in (250, 2500):
        target = blocks(count)
        start = time.process_time()
        drawing = draw(target)
        assert time.process_time() - start < 3  # a tenth of a second where this was written
        assert len(drawing.elements) <= LIMIT
        assert sorted(name for names in drawing.elements.values() for name in names) == sorted(
            each["name"] for each in target["nodes"]
        )


def test_parameters_can_be_left_out():
    target = blocks(1)
    target["nodes"].insert(1, node("weight", "get_attr", "weight"))
    target["nodes"][2]["inputs"].append("weight")
    assert "n:weight" in draw(target).elements
    hidden = draw(target, parameters=False)
    assert "n:weight" not in hidden.elements and "weight" not in hidden.dot


def test_problem_marks_the_node_and_the_group_around_it():
    target = blocks(2)
    target["findings"] = [{"code": "FX101", "node": "add_1"}, {"code": "FX302", "node": None}]
    assert ids(svg(draw(target).dot), "problem") == {"n:add_1"}
    assert ids(svg(draw(target, expanded=[]).dot), "problem") == {"m:layers"}


@pytest.mark.parametrize("name", ['a"b', "a\\N", "</text><script>alert(1)</script>", "a\\", "]; x [label=", "émoji 🚀"])
def test_names_are_text(name):
    nodes = [node("x", "placeholder", "x"), node("y", "get_attr", name, ["x"])]
    target = {"nodes": nodes, "modules": {}, "findings": [], "lowering": []}
    image = svg(draw(target).dot)
    assert name in texts(image)
    assert not list(image.iter("{http://www.w3.org/2000/svg}script")) and len(ids(image, "node")) == 2


def test_values():
    assert value_text(node("x", shape=["N", 3])) == "f32[N, 3]"
    assert value_text({**node("x", shape=[2, 3]), "symbolic": ["N", 3]}) == "f32[N, 3]"
    assert value_text({**node("x", shape=[]), "dtype": "bfloat16"}) == "bf16[]"
    assert value_text({**node("x", shape=[1]), "dtype": "bool"}) == "bool[1]"
    assert value_text({**node("x"), "dtype": None}) == ""


def test_what_stays_in_pytorch_is_marked_on_its_box_and_on_closed_modules():
    target = {**blocks(2), "lowering": [{"node": "add_0"}, {"node": None}]}
    marks = {
        mark
        for mark in re.findall(r'id="([^"]*)", class="[^"]*pytorch[^"]*"', draw(target, ["m:layers", "m:layers.0"]).dot)
    }
    assert marks == {"n:add_0"}
    closed = re.findall(r'class="([^"]*)"', draw(target, []).dot)
    assert "group pytorch" in closed and "problem" not in " ".join(closed)


def test_a_wide_graph_is_in_parts_that_open_and_never_drawn_as_a_whole():
    nodes = [node("x", "placeholder", "x")]
    nodes += [node(f"relu_{number}", inputs=[nodes[-1]["name"]]) for number in range(4000)]
    target = {"name": "Net", "nodes": nodes, "modules": {"": "Net"}, "findings": [], "lowering": []}
    closed = draw(target)
    assert len(closed.elements) == len(closed.groups) == 9 and not closed.collapsed
    assert sum(map(len, closed.elements.values())) == len(nodes)
    second = list(closed.groups)[1]
    assert closed.groups[second]["title"] == "relu_499 … relu_998"
    opened = draw(target, [second])
    assert len(opened.elements) == 508 and opened.expanded == [second]
    everything = draw(target, list(closed.groups))
    assert everything.collapsed and len(everything.elements) == 9


def test_many_sizes_are_folded_at_once():
    nodes = [node("x", "placeholder", "x", shape=[2])]
    nodes += [node(f"size_{number}", "call_method", "size", ["x"]) for number in range(20_000)]
    began = time.process_time()
    assert len(draw({"name": "Net", "nodes": nodes, "modules": {}, "findings": [], "lowering": []}).elements) == 2
    assert time.process_time() - began < 10
