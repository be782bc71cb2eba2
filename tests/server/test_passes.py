"""Passes from the editor: the offered ones, their results, and the files they write."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from fxlens.jobs.apply_passes import _difference
from fxlens.passes.source import construction
from fxlens.passes.table import Choice
from lsp_client import Client, edited
from processes import jobs_left, jobs_of

STEM = """import torch
from torch import nn


# fxlens: Stem(3) <- torch.randn(1, 3, 16, 16)
class Stem(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        unused = x + 1
        x = x.float() * 1
        return self.drop(torch.relu(self.bn(self.conv(x))))


OTHER = 1
"""


@pytest.fixture(scope="module")
def stem(client: Client, workspace: Path) -> str:
    (workspace / "stem.py").write_text(STEM)
    uri = client.open(workspace / "stem.py", STEM)
    client.request("fxlens/record", {"uri": uri})
    return uri


def test_a_model_is_offered_what_would_find_something(client: Client, stem: str):
    offered = client.request("fxlens/passes", {"uri": stem, "target": "Stem"})
    found = {each["name"]: each["places"] for each in offered["passes"]}
    assert found == {"fuse": 1, "dropout": 1, "no-ops": 2, "activation": 1, "dead-code": 1, "common": 0, "quantize": 1}
    assert list(offered["activations"]) == ["relu"] and "GELU" in offered["activations"]["relu"]
    assert "reason" in client.request("fxlens/passes", {"uri": stem, "target": "Nothing"})


def test_several_passes_are_applied_in_their_order_saved_and_written_down(client: Client, stem: str, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    import torch

    asked = {
        "uri": stem, "target": "Stem", "passes": ["quantize", "dead-code", "no-ops", "activation", "dropout", "fuse"],
        "old": "relu", "new": "Hardswish", "out": str(tmp_path / "saved_stem"), "onnx": "",
    }  # fmt: skip
    answer = client.request("fxlens/pass", asked)
    assert "reason" not in answer, answer
    assert answer["passes"] == ["fuse", "dropout", "no-ops", "activation", "dead-code", "quantize"]
    assert "self.bn(" in answer["before"] and "self.drop(" in answer["before"]
    assert "bn(" not in answer["after"] and "drop" not in answer["after"] and "unused" not in answer["after"]
    assert answer["nodes"][0] == 9 and answer["nodes"][1] < 7
    assert any("1 place swapped" in note for note in answer["notes"])
    assert any("1 layer on integers" in note for note in answer["notes"])
    assert "2 operations removed." in answer["notes"]

    sys.path.insert(0, str(tmp_path))
    try:
        from saved_stem.module import Stem as Saved
    finally:
        sys.path.remove(str(tmp_path))
    assert Saved()(torch.randn(1, 3, 16, 16)).shape == (1, 8, 16, 16)

    text = inserted(client, stem, STEM, answer["construction"])
    file = tmp_path / "written.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("written_stem", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["written_stem"] = module
    spec.loader.exec_module(module)
    assert module.quantized_stem()(torch.randn(1, 3, 16, 16)).shape == (1, 8, 16, 16)


def inserted(client: Client, uri: str, text: str, construction: str, name: str = "Stem") -> str:
    """The text after the function was inserted."""
    asked = {"uri": uri, "target": name, "text": construction}
    assert client.request("fxlens/insertPass", asked)["uri"] == uri
    message = client.wait(lambda each: each.get("method") == "workspace/applyEdit")
    (edits,) = message["params"]["edit"]["changes"].values()
    return edited(text, edits)


def test_a_function_is_inserted_below_the_class_as_the_text_is_by_then(client: Client, workspace: Path):
    uri = client.open(workspace / "later.py", STEM)
    function = client.request("fxlens/pass", {"uri": uri, "target": "Stem", "passes": ["fuse"]})["construction"]
    longer = STEM.replace("        self.drop", "        # one\n        # two\n        self.drop")
    inner = "class Outer:\n" + textwrap.indent(STEM[STEM.index("class") : STEM.index("OTHER")].rstrip(), "    ")
    for text, name in (
        (longer, "Stem"), (longer.split("\n\n\nOTHER")[0], "Stem"), (longer.replace("\n\n\nOTHER", "\nOTHER"), "Stem"),
        (f"{inner}\n\n    later = 1\n", "Outer.Stem"),
    ):  # fmt: skip
        client.change(uri, text)
        made = inserted(client, uri, text, function, name)
        before, after = made.split(f"\n\n\n{function}")
        assert text.startswith(before.rstrip("\n")) and ast.dump(ast.parse(before + after)) == ast.dump(ast.parse(text))
        assert "return self.drop" in before and "OTHER" not in before and "later" not in after
        assert not after or after.startswith("\n\n")
    for text, why in (("def broken(:\n", "a syntax error"), ("OTHER = 1\n", "no class Stem")):
        client.change(uri, text)
        refused = client.request("fxlens/insertPass", {"uri": uri, "target": "Stem", "text": function})
        assert why in refused["reason"]
    client.close(uri)


def test_a_result_with_nan_is_not_finite_and_the_same_infinities_are_no_difference(client: Client, tmp_path: Path):
    text = STEM.replace("x = x.float() * 1", "x = x.masked_fill(x > 0, float('-inf'))")
    text = text.replace("self.drop(torch.relu(self.bn(self.conv(x))))", "self.drop(x)")
    (tmp_path / "masked.py").write_text(text)
    uri = client.open(tmp_path / "masked.py", text)
    answer = client.request("fxlens/pass", {"uri": uri, "target": "Stem", "passes": ["dead-code"]})
    assert answer.get("error") == 0, answer
    one, other = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])
    assert _difference(one, other) == "not finite" and _difference(one, one) == 0


@pytest.mark.parametrize("name", ["fuse", "quantize"])
def test_a_changed_model_is_exported(client: Client, stem: str, tmp_path: Path, name: str):
    onnxruntime = pytest.importorskip("onnxruntime")
    import numpy

    file = tmp_path / "stem.onnx"
    asked = {"uri": stem, "target": "Stem", "passes": [name], "out": str(tmp_path / "kept"), "onnx": str(file)}
    answer = client.request("fxlens/pass", asked)
    assert "reason" not in answer, answer
    assert answer["error"] < (1e-5 if name == "fuse" else 0.1)
    # A saved folder needs torch alone, where the model itself does.
    assert ("fxlib" in (tmp_path / "kept" / "module.py").read_text()) == (name == "quantize")
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: numpy.zeros((1, 3, 16, 16), numpy.float32)})
    assert result.shape == (1, 8, 16, 16)


def test_what_was_previewed_is_saved_by_the_process_that_has_it(client: Client, workspace: Path, tmp_path: Path):
    (workspace / "kept.py").write_text(STEM)
    uri = client.open(workspace / "kept.py", STEM)
    answer = client.request("fxlens/pass", {"uri": uri, "target": "Stem", "passes": ["fuse"], "workDoneToken": "p1"})
    said = [each["params"]["value"] for each in client.received if each.get("params", {}).get("token") == "p1"]
    assert said[0]["kind"] == "begin" and said[0]["cancellable"] and said[-1]["kind"] == "end"
    assert "Fuse convolutions and batch norms" in [each.get("message") for each in said]
    assert jobs_of(client) == 1
    # From this text no result could be made: what is saved is what was shown.
    client.change(uri, "def broken(:\n")
    asked = {"kept": answer["kept"], "out": str(tmp_path / "kept_stem"), "workDoneToken": "p2"}
    assert client.request("fxlens/savePass", asked) == {"saved": True}
    forward = (tmp_path / "kept_stem" / "module.py").read_text()
    assert "self.bn(" in answer["before"] and "def forward" in forward and "bn(" not in forward
    unwritable = client.request("fxlens/savePass", {"kept": answer["kept"], "out": "/proc/nowhere"})
    assert "/proc/nowhere cannot be written" in unwritable["reason"]
    for name in (str(tmp_path / "a\0b"), str(tmp_path / ("long" * 100))):
        for where in ("out", "onnx"):
            refused = client.request("fxlens/savePass", {"kept": answer["kept"], where: name})
            assert "cannot be written" in refused["reason"]
    assert "Nothing is saved" in client.request("fxlens/savePass", {"kept": answer["kept"]})["reason"]
    assert client.request("fxlens/savePass", asked) == {"saved": True}, "a refusal ends nothing"
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert client.request("fxlens/savePass", asked) == {"saved": False}
    assert jobs_left(client, 0) == 0


def test_the_answer_of_a_save_that_is_cancelled_is_not_that_of_the_next(client: Client, stem: str, tmp_path: Path):
    kept = client.request("fxlens/pass", {"uri": stem, "target": "Stem", "passes": ["dropout"]})["kept"]
    number = client.start("fxlens/savePass", {"kept": kept, "out": str(tmp_path / "first"), "workDoneToken": "s1"})
    client.notify("window/workDoneProgress/cancel", {"token": "s1"})
    answer = client.wait(lambda each: each.get("id") == number and "method" not in each)["result"]
    assert answer == {"reason": "cancelled"}
    assert client.request("fxlens/savePass", {"kept": kept, "out": str(tmp_path / "second")}) == {"saved": False}
    assert jobs_left(client, 0) == 0


def test_another_job_ends_what_is_kept_and_cancelling_ends_a_job(client: Client, stem: str):
    asked = {"uri": stem, "target": "Stem", "passes": ["dropout"]}
    first, second = (client.request("fxlens/pass", asked)["kept"] for _ in range(2))
    assert client.request("fxlens/savePass", {"kept": first, "out": "/nowhere"}) == {"saved": False}
    assert first != second and jobs_left(client, 1) == 1
    number = client.start("fxlens/pass", {**asked, "workDoneToken": "p3"})
    client.wait(lambda each: each.get("params", {}).get("token") == "p3")
    assert "is still running" in client.request("fxlens/pass", asked)["reason"]
    client.notify("window/workDoneProgress/cancel", {"token": "p3"})
    assert client.wait(lambda each: each.get("id") == number and "method" not in each)["result"] == {
        "reason": "cancelled"
    }
    assert jobs_left(client, 0) == 0


def test_a_token_that_is_none_is_said_and_holds_nothing_up(client: Client, stem: str):
    asked = {"uri": stem, "target": "Stem", "passes": ["dropout"]}
    for token in ({}, [1]):
        for method in ("fxlens/pass", "fxlens/estimate"):
            assert "workDoneToken" in client.request(method, {**asked, "workDoneToken": token})["reason"]
    assert "reason" not in client.request("fxlens/pass", asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"passes": ["polish"]}, "There is no pass 'polish'"),
        ({"passes": []}, "There is no pass"),
        ({"passes": ["activation"], "old": "relu", "new": "Nothing"}, "No activation 'relu' can be swapped"),
    ],
)
def test_what_cannot_be_done_is_said(client: Client, stem: str, asked: dict, told: str):
    assert told in client.request("fxlens/pass", {"uri": stem, "target": "Stem", **asked})["reason"]


def test_the_construction_keeps_constants_and_the_order():
    given = "torch.randn(1, 3), concrete_args={'flag': True}"
    text = construction("MyNet", "MyNet(4)", given, Choice(("fuse",)))
    assert text.startswith(
        'def fused_mynet():\n    """Needs fxlib: pip install fxlens."""\n    from fxlib import symbolic_trace\n'
    )
    assert "    fused = symbolic_trace(MyNet(4).eval(), concrete_args={'flag': True})\n" in text
    assert construction("Net.Block", "Net.Block()", "", Choice(("fuse",))).startswith("def fused_net_block():")
    both = construction("Net", "Net()", "torch.randn(1, 3)", Choice(("quantize", "activation"), "relu", "GELU"))
    assert both.index('replace_activations(quantized, "relu", torch.nn.GELU())') < both.index(
        "quantize_static(quantized"
    )
    assert "    import torch\n" in both
    compile(both, "both", "exec")


def test_what_torch_can_do_alone_is_written_without_fxlib():
    text = construction("ResNet18", "ResNet18()", "torch.randn(1, 3, 8, 8)", Choice(("fuse", "dropout")))
    assert text == (
        "def fused_resnet18():\n"
        "    from torch.fx.experimental.optimization import fuse\n"
        "    from torch.fx.experimental.optimization import remove_dropout\n"
        "\n"
        "    fused = ResNet18().eval()\n"
        "    fused = fuse(fused)\n"
        "    fused = remove_dropout(fused)\n"
        "    return fused\n"
    )
    names: dict = {}
    exec(compile(STEM, "stem.py", "exec"), names)
    exec(compile(construction("Stem", "Stem(3)", "", Choice(("fuse",))), "fused.py", "exec"), names)
    torch.manual_seed(0)
    model = names["Stem"](3).eval()
    torch.manual_seed(0)
    fused = names["fused_stem"]()
    assert not any(isinstance(each, torch.nn.BatchNorm2d) for each in fused.modules())
    x = torch.randn(1, 3, 16, 16)
    torch.testing.assert_close(fused(x), model(x))


def test_what_is_inserted_is_formatted(tmp_path: Path):
    for names in (("fuse",), ("quantize",), ("fuse", "dropout", "no-ops", "quantize")):
        text = construction("Stem", "Stem()", "torch.randn(1, 3, 16, 16)", Choice(names))
        done = subprocess.run(
            [Path(sys.executable).with_name("ruff"), "format", "--diff", "--isolated", "-"],
            input=text,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


LOST = """import torch
from torch import nn


class Scale(nn.Module):
    __module__ = "torch.nn.scale"

    def __reduce__(self):
        return nn.Identity, ()

    def forward(self, x):
        return x * 2


# fxlens: Net() <- torch.randn(1, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.drop = Scale(), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.scale(x))
"""


def test_a_folder_that_would_compute_something_else_is_not_saved(client: Client, workspace: Path, tmp_path: Path):
    (workspace / "lost.py").write_text(LOST)
    uri = client.open(workspace / "lost.py", LOST)
    asked = {"uri": uri, "target": "Net", "passes": ["dropout"], "out": str(tmp_path / "lost")}
    assert "would compute something else" in client.request("fxlens/pass", asked)["reason"]
    assert not (tmp_path / "lost").exists()
