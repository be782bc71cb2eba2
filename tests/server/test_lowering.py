"""Lowering through the real server: hints on lines, and the requests with progress and cancel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from fxlens import answers
from fxlens.jobs.values import _range
from lsp_client import Client
from processes import jobs_left, jobs_of
from test_record import wrong

from fxlib.lowering import table

MODEL = """import torch
from torch import nn
import torch.nn.functional as F


# fxlens: Net() <- torch.randn(4, 8)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = F.dropout(torch.relu(self.linear(x)) + 1, training=self.training)
        x = torch.logcumsumexp(x, 1)
        return torch.relu(x).sum(1) * 2
"""
LINE = MODEL.split("\n").index("        x = torch.logcumsumexp(x, 1)")


def has_hint(message: dict) -> bool:
    return message.get("method") == "textDocument/publishDiagnostics" and any(
        str(each.get("code", "")).startswith("FX4") for each in message["params"]["diagnostics"]
    )


def hints(client: Client, uri: str, version: int | None = None) -> list[dict]:
    """Lowering adds its hints last: after the trace, the proofs of fixes and the comparison have told theirs."""
    told = client.wait(
        lambda each: has_hint(each) and each["params"]["uri"] == uri and version in (None, each["params"]["version"])
    )
    return [each for each in told["params"]["diagnostics"] if str(each.get("code", "")).startswith("FX4")]


def test_what_stays_in_pytorch_is_marked_before_anyone_lowers(shared: Client, folder: Path) -> None:
    path = folder / "net.py"
    path.write_text(MODEL)
    with shared.lent(deadline=30, lowering="hints") as client:
        uri = client.open(path)
        (hint,) = hints(client, uri)
        assert hint["code"] == "FX401" and hint["severity"] == 4 and hint["source"] == "fxlens"
        start, end = hint["range"]["start"], hint["range"]["end"]
        assert (start["line"], end["line"]) == (LINE, LINE)
        assert MODEL.split("\n")[LINE][start["character"] : end["character"]] == "torch.logcumsumexp(x, 1)"
        assert "stays in PyTorch when Net is lowered: there is no converter for" in hint["message"]
        drawn = client.request("fxlens/graph", {"uri": uri})["view"]
        assert {each["name"]: each["lowering"] for each in drawn["nodes"] if each["lowering"]} == {
            "logcumsumexp": hint["message"]
        }
        assert [line for line in drawn["dot"].splitlines() if "pytorch" in line and '"n:logcumsumexp"' in line]
        version = client.change(uri, MODEL.replace("torch.logcumsumexp(x, 1)", "x[x > 0].view(1, -1)"))
        (hint,) = hints(client, uri, version)
        assert hint["code"] == "FX402"


def test_off_is_off_and_comments_silence(shared: Client, folder: Path) -> None:
    path = folder / "net.py"
    path.write_text(MODEL)
    with shared.lent(deadline=30) as client:
        uri = client.open(path)
        client.request("fxlens/record", {"uri": uri})
        with pytest.raises(TimeoutError):
            client.wait(has_hint, 4)
        client.configure(deadline=30, lowering="hints")
        assert [each["code"] for each in hints(client, uri)] == ["FX401"]
        version = client.change(uri, MODEL.replace("logcumsumexp(x, 1)", "logcumsumexp(x, 1)  # fxlens: ignore[FX401]"))
        client.diagnostics(uri, version)
        with pytest.raises(TimeoutError):
            client.wait(has_hint, 3)


def opened(client: Client, path: Path, text: str = MODEL) -> str:
    path.write_text(text)
    uri = client.open(path)
    client.request("fxlens/record", {"uri": uri})
    return uri


def test_lower_answers_with_layers_and_places(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        text = MODEL.replace("logcumsumexp(x, 1)", "logcumsumexp(x + 0, 1)")
        client.edit(uri, text)  # not saved: what is lowered is what is on the screen
        answer = client.request(
            "fxlens/lower", {"uri": uri, "target": "Net", "options": {}, "workDoneToken": "t1"}, timeout=120
        )
        report = answer["result"]["report"]
        layers = {layer["node"]: layer for layer in report["layers"]}
        assert layers["linear"]["engine"] and layers["linear"]["operators"] == ["Gemm"]
        assert layers["linear"]["value"] == "f32[4, 8]" and layers["linear"]["weights_bytes"] == 4 * (64 + 8)
        (outside,) = [layer for layer in report["layers"] if not layer["engine"]]
        assert outside["code"] == "FX401" and "no converter" in outside["reason"]
        assert {part["name"] for part in report["parts"]} == {layer["part"] for layer in report["layers"]}
        assert report["max_rel_error"] < 1e-5
        assert not any(part["kernels"] for part in report["parts"]), "for those, ONNX Runtime builds the model again"
        (place, *_) = answer["places"][outside["node"]]
        start, end = place["range"]["start"], place["range"]["end"]
        assert text.split("\n")[start["line"]][start["character"] : end["character"]] == "torch.logcumsumexp(x + 0, 1)"
        told = [each["params"]["value"] for each in client.received if each.get("method") == "$/progress"]
        assert told[0]["kind"] == "begin" and told[0]["cancellable"] and told[-1]["kind"] == "end"
        assert {"trace", "split", "compare"} <= {each.get("message") for each in told}


def preview(client: Client, uri: str, target: str = "Net", **options: object) -> dict:
    asked = {"uri": uri, "target": target, "options": {"preview": True, **options}}
    return client.request("fxlens/lower", asked, timeout=120)


def test_a_preview_tells_parts_and_layers_and_builds_nothing(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        text = MODEL.replace("logcumsumexp(x, 1)", "logcumsumexp(x + 0, 1)")
        client.edit(uri, text)  # not saved
        answer = preview(client, uri)
        built = client.request("fxlens/lower", {"uri": uri, "target": "Net"}, timeout=120)
        changing = preview(client, uri, engine="tensorrt", dynamic=True)["result"]["report"]
    report, lowered = answer["result"]["report"], built["result"]["report"]
    assert report["built"] is False and lowered["built"] is True and report["max_rel_error"] is None
    shown = ("name", "engine", "nodes", "operators", "weights_bytes")
    told = lambda each: [{name: part[name] for name in shown} for part in each["parts"]]  # noqa: E731
    assert told(report) == told(lowered) and len(report["parts"]) == 3
    assert report["layers"] == lowered["layers"] and answer["places"] == built["places"]
    flops = {layer["node"]: layer["flops"] for layer in report["layers"] if layer["flops"]}
    assert flops == {"linear": 2 * 4 * 8 * 8}
    assert "100.0% of the FLOPs" in answer["result"]["text"] and "nothing is built" in answer["result"]["text"]
    (outside,) = [layer for layer in report["layers"] if not layer["engine"]]
    (place, *_) = answer["places"][outside["node"]]
    assert place["range"]["start"]["line"] == LINE and "no converter" in outside["reason"]
    # The engine need not be there, and sizes that may change have names.
    assert changing["label"] == "TensorRT" and changing["dynamic"] == {"x": [0]}
    values = {layer["node"]: layer["value"] for layer in changing["layers"]}
    assert values["linear"].endswith(", 8]") and not values["linear"].startswith("f32[4")


def test_a_preview_waits_for_no_other_model_and_takes_what_only_export_captures(shared: Client, folder: Path) -> None:
    text = MODEL.replace("torch.logcumsumexp(x, 1)", "x if x.shape[0] > 3 else x + 1")
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        client.edit(uri, text)
        client.request("fxlens/record", {"uri": uri})
        options = {"variants": ["generated"], "rounds": 10_000, "seconds": 500, "threads": [1]}
        number = client.start("fxlens/bench", {"uri": uri, "target": "Net", "options": options})
        report = preview(client, uri)["result"]["report"]
        refused = preview(client, uri, "Gone")["reason"]
        unknown = preview(client, uri, engine="abacus")["reason"]
        client.notify("$/cancelRequest", {"id": number})
        client.wait(lambda each: each.get("id") == number and "method" not in each)
        assert jobs_left(client, 0) == 0
    assert report["captured_by"] == "torch.export" and "control flow" in report["not_traced"] and report["complete"]
    assert "has no model Gone" in refused and "abacus" in unknown


def test_a_preview_tells_how_far_it_is_and_can_be_cancelled(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        asked = {"uri": uri, "target": "Net", "options": {"preview": True}}
        assert "result" in client.request("fxlens/lower", {**asked, "workDoneToken": "v1"}, timeout=120)
        told = told_of(client, "v1")
        assert told[0]["kind"] == "begin" and told[0]["title"] == "Preview of Net" and told[0]["cancellable"]
        assert [each.get("message") for each in told[1:-1]] == ["trace", "shapes", "split"]
        fractions = [each["percentage"] for each in told[1:-1]]
        assert fractions == sorted(fractions) and told[-1]["kind"] == "end"
        path = folder / "slow.py"
        path.write_text(SLOW)
        uri = client.open(path)
        number = client.start("fxlens/lower", {**asked, "uri": uri, "target": "Slow", "workDoneToken": "v2"})
        client.wait(lambda each: each.get("method") == "$/progress" and each["params"]["token"] == "v2", 60)
        client.notify("window/workDoneProgress/cancel", {"token": "v2"})
        message = client.wait(lambda each: each.get("id") == number and "method" not in each)
        assert message["result"] == {"reason": "cancelled"}
        assert told_of(client, "v2")[-1]["kind"] == "end"


def told_of(client: Client, token: str) -> list[dict]:
    """The values of a progress so far."""
    sent = [each["params"] for each in client.received if each.get("method") == "$/progress"]
    return [each["value"] for each in sent if each["token"] == token]


SLOW = """import time
from torch import nn


# fxlens: Slow() <- torch.randn(4, 8)
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(20)
        return x + 1
"""


def test_stages_answer_with_origins_and_places(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        asked = {"uri": uri, "target": "Net", "options": {"compare": True}}
        answer = client.request("fxlens/stages", asked, timeout=120)
    report = answer["result"]["report"]
    assert wrong(report, answers.StagesReport, "report") == [] and report["compared"] is True
    first, *between, onnx, engine = report["stages"]
    assert [each["name"] for each in between] == ["torch.export", "fused"] and engine["name"] == "ONNX Runtime"
    assert all(each["problem"] is each["diverges"] is None for each in report["stages"])
    assert all(each["mapped"] == len(each["steps"]) for each in report["stages"])
    assert set(answer["places"]) == {step["name"] for step in first["steps"]}
    (inside,) = [step for step in onnx["steps"] if step["origins"] == ["logcumsumexp"]]
    assert inside["target"] == "PyTorch" and inside["max_rel"] < 1e-5
    (place, *_) = answer["places"]["logcumsumexp"]
    assert place["range"]["start"]["line"] == LINE
    result = answer["result"]
    assert result["engine"] == "onnxruntime" and result["quantize"] is False
    assert [each["name"] for each in result["engines"]] == [
        name for name, each in table().items() if not each.missing()
    ]


def test_values_say_where_they_stop_being_finite(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        fine = client.request("fxlens/values", {"uri": uri, "target": "Net"}, timeout=120)["result"]
        client.edit(uri, MODEL.replace("torch.logcumsumexp(x, 1)", "torch.log(x - x) * 0"))
        answer = client.request("fxlens/values", {"uri": uri, "target": "Net"}, timeout=120)
        record = client.request("fxlens/record", {"uri": uri})["record"]
    assert wrong(fine["ranges"], Mapping[str, answers.ValueRange], "ranges") == []
    assert fine["first"] is None and fine["ranges"]["linear"]["low"] < fine["ranges"]["linear"]["high"]
    (target,) = [each for each in record["targets"] if each["name"] == "Net"]
    ranges = answer["result"]["ranges"]
    assert set(ranges) == {node["name"] for node in target["nodes"]} - {"output"}, "the names are those of the graph"
    assert answer["result"]["first"] == "log" and answer["places"]["log"][0]["range"]["start"]["line"] == LINE
    assert ranges["log"]["low"] is None and ranges["log"]["infinities"] == ranges["log"]["count"]
    assert ranges["mul"]["nans"] == ranges["mul"]["count"]


def test_values_belong_to_one_trace_of_a_text(shared: Client, folder: Path) -> None:
    block, other = folder / "block.py", "class Scale(nn.Module):\n    def forward(self, x):\n        return x * 9.0\n"
    block.write_text("from torch import nn\n\n\n" + other)
    main = MODEL.replace("from torch import nn", "from torch import nn\nfrom block import Scale")
    main = main.replace("nn.Linear(8, 8)", "Scale()")

    with shared.lent(deadline=30) as client:
        uri, imported = opened(client, folder / "net.py", main), opened(client, block, block.read_text())
        before = after = client.request("fxlens/graph", {"uri": uri, "target": "Net"})
        ran = client.request("fxlens/values", {"uri": uri, "target": "Net"}, timeout=120)
        client.change(imported, block.read_text().replace("9.0", "0.5"))
        while after["trace"] == before["trace"]:  # the same text, but what it imports is another
            client.wait(lambda each: each.get("method") == "fxlens/recordChanged" and each["params"]["uri"] == uri)
            after = client.request("fxlens/graph", {"uri": uri, "target": "Net", "now": True})
    assert ran["trace"] == before["trace"] and before["version"] == after["version"]


@pytest.mark.parametrize(("value", "wanted"), [
    (torch.arange(3_000_000).reshape(3, 1_000_000) - 1, (-1.0, 2999998.0, 1499998.5, 0, 0)),
    (torch.tensor([1.0]).expand(40_000, 100), (1.0, 1.0, 1.0, 0, 0)),
    (torch.tensor([[1.7e308, 1.7e308]], dtype=torch.float64), (1.7e308, 1.7e308, None, 0, 0)),
    (torch.tensor([3e38 + 3e38j], dtype=torch.complex64), (4.2426e38, 4.2426e38, 4.2426e38, 0, 0)),
    (torch.tensor([float("nan"), float("-inf"), True]), (1.0, 1.0, 1.0, 1, 1)),
    (torch.empty(0, 3), (None, None, None, 0, 0)),
])  # fmt: skip
def test_ranges_of_any_tensor(value: torch.Tensor, wanted: tuple[float | None, ...]) -> None:
    found = _range(value)
    given = (found["low"], found["high"], found["mean"], found["nans"], found["infinities"])
    assert given == tuple(each if each is None else pytest.approx(each, rel=1e-4) for each in wanted)
    assert found["count"] == value.numel() and json.dumps(found, allow_nan=False)


def test_the_engines_to_choose_from_are_those_of_the_table(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        answer = client.request("fxlens/engines", {"uri": opened(client, folder / "net.py")}, timeout=60)
    assert answer == {"engines": [engine.as_dict() for engine in table().values()]}
    first, *_ = answer["engines"]
    assert first["name"] == "onnxruntime" and first["precisions"] == ["fp32"] and first["missing"] is None


def test_a_benchmark_tells_its_time_on_the_lines_until_they_are_edited(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=60, shapes=False) as client:
        uri = opened(client, folder / "net.py")
        options = {"variants": ["onnxruntime"], "rounds": 3, "threads": [1]}
        answer = client.request("fxlens/bench", {"uri": uri, "target": "Net", "options": options}, timeout=300)
        (row,) = [each for each in answer["result"]["report"]["rows"] if each["layers"]]
        assert row["variant"] == "onnxruntime" and set(answer["places"]) == {each["node"] for each in row["layers"]}
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        ask = lambda: client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})  # noqa: E731
        hints = {hint["position"]["line"]: hint for hint in ask()}
        assert LINE in hints and " % · " in hints[LINE]["label"] and hints[LINE]["label"][-2:] in ("ms", "µs")
        assert "logcumsumexp (in PyTorch)" in hints[LINE]["tooltip"]
        assert "time of one run with ONNX Runtime, measured by the benchmark" in hints[LINE]["tooltip"]
        client.change(uri, MODEL + "# another\n")
        assert not ask()
        client.change(uri, MODEL)
        assert len(ask()) == len(hints)


def test_estimate_and_refusals(shared: Client, folder: Path) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        ask = lambda **more: client.request("fxlens/estimate", {"uri": uri, "target": "Net", **more}, timeout=120)  # noqa: E731
        answer = ask(options={"device": "a100"})
        assert answer["result"]["device"] == "A100" and answer["result"]["totals"]["flops"] >= 2 * 4 * 8 * 8
        assert "linear" in answer["places"]
        assert "no device 'abacus'" in ask(options={"device": "abacus"})["reason"]
        gone = client.request("fxlens/lower", {"uri": uri, "target": "Gone"}, timeout=120)
        assert "has no model Gone" in gone["reason"]
        assert "not seen this file" in client.request("fxlens/lower", {"uri": "file:///nowhere.py"})["reason"]


@pytest.mark.parametrize("way", ["request", "progress"])
def test_cancel_ends_the_process_and_frees_the_place(shared: Client, folder: Path, way: str) -> None:
    with shared.lent(deadline=30) as client:
        uri = opened(client, folder / "net.py")
        assert jobs_of(client) == 0
        options = {"variants": ["generated"], "rounds": 10_000, "seconds": 500, "threads": [1]}
        bench = {"uri": uri, "target": "Net", "options": options, "workDoneToken": "t2"}
        number = client.start("fxlens/bench", bench)
        client.wait(
            lambda each: (
                each.get("method") == "$/progress" and "round" in str(each["params"]["value"].get("message", ""))
            ),
            120,
        )
        assert jobs_of(client) > 0
        second = client.request("fxlens/lower", {"uri": uri, "target": "Net"})
        assert second["reason"].startswith("Benchmarking Net is still running")
        if way == "request":
            client.notify("$/cancelRequest", {"id": number})
        else:
            client.notify("window/workDoneProgress/cancel", {"token": "t2"})
        message = client.wait(lambda each: each.get("id") == number and "method" not in each)
        assert message.get("error", {}).get("code") == -32800 or message["result"] == {"reason": "cancelled"}
        assert jobs_left(client, 0) == 0
        answer = client.request("fxlens/estimate", {"uri": uri, "target": "Net"}, timeout=120)
        assert answer["result"]["totals"]["flops"] > 0


def test_hover_tells_what_a_hint_marks(shared: Client, folder: Path) -> None:
    path = folder / "net.py"
    path.write_text(MODEL)
    with shared.lent(deadline=30, lowering="hints") as client:
        uri = client.open(path)
        hints(client, uri)
        at = {"line": LINE, "character": MODEL.split("\n")[LINE].index("logcumsumexp")}
        told = client.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": at})["contents"]["value"]
        assert "stays in PyTorch when Net is lowered" in told and "FX401" in told
        at = {"line": LINE + 1, "character": MODEL.split("\n")[LINE + 1].index("relu")}
        told = client.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": at})["contents"]["value"]
        assert "FX4" not in told
