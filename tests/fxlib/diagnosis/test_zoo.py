"""Third-party models: the verdict of torch.fx, and no false warnings."""

from __future__ import annotations

import importlib
import pathlib
import sys
import warnings

import pytest
import torch

import fxlib
from tests.fxlib.zoo import models

ROOT = pathlib.Path(__file__).parents[3]
TORCHVISION = {
    "convnext_tiny", "googlenet", "inception_v3", "lraspp_mobilenet_v3_large", "maxvit_t", "r3d_18", "raft_small",
    "regnet_y_400mf", "resnet18", "retinanet_resnet50_fpn", "shufflenet_v2_x0_5", "swin_t", "vit_b_16",
}  # fmt: skip
TIMM = {
    "beit_base_patch16_224", "crossvit_9_240", "efficientnet_b0", "levit_128s", "mvitv2_tiny", "tiny_vit_5m_224",
    "xcit_nano_12_p16_224",
}  # fmt: skip
if models.WHOLE:
    TORCHVISION |= {
        "alexnet", "deeplabv3_resnet50", "densenet121", "efficientnet_b0", "fcn_resnet50", "mnasnet0_5", "mobilenet_v2",
        "mobilenet_v3_small", "resnet50", "resnext50_32x4d", "squeezenet1_0", "swin_v2_t", "vgg11_bn",
    }  # fmt: skip
    TIMM |= {
        "convmixer_768_32", "deit_tiny_patch16_224", "mixer_s32_224", "mobilevit_s", "resmlp_12_224", "resnet18",
        "vit_tiny_patch16_224",
    }  # fmt: skip


def _entries():
    wanted = [entry for entry in models.torchvision_models() if entry.name in TORCHVISION]
    wanted += [entry for entry in models.timm_models(every=True) if entry.name in TIMM]
    return wanted


ENTRIES = _entries()


def both(entry, model, inputs):
    """The result of torch.fx for a model (a separate one, since proxies stay on it), and our report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = torch.fx.symbolic_trace(models.on_meta(entry.build)).code
        except Exception:
            code = None
        return code, fxlib.diagnose(model, inputs)


def check_warnings(entry, code, report):
    """Every warning about a model that torch.fx traces is one of those that can be proven here."""
    warned = [finding for finding in report.findings if finding.severity in ("error", "warning")]
    found = {finding.code for finding in warned if not finding.hidden_by}
    assert found <= {"FX201", "FX205", "FX207", "FX209"}, [f.message for f in report.findings]
    if "FX207" in found:
        assert torch.fx.symbolic_trace(models.on_meta(entry.build).train()).code != code
    model = models.on_meta(entry.build)
    graph = torch.fx.symbolic_trace(model).graph
    proxies = [
        value
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, torch.fx.Proxy)
        or (isinstance(value, dict) and any(isinstance(v, torch.fx.Proxy) for v in value.values()))
    ]
    assert bool(proxies) == ("FX209" in found)
    for finding in report.findings:
        if finding.code == "FX201" and finding.severity == "warning":
            names = [n.target for n in graph.nodes if n.op == "placeholder" and n.args == (None,)]
            assert finding.data["argument"] in names
        if finding.code == "FX205" and finding.severity == "warning":
            assert "str(" in finding.message or "f'" in finding.message
    check_hidden(entry, report)


def check_hidden(entry, report):
    """Findings that are announced for an argument's default do appear with it."""
    defaults = {f.span: f.data["argument"] for f in report.findings if f.code == "FX201" and f.data.get("argument")}
    for finding in report.findings:
        if finding.hidden_by in defaults and finding.code.startswith("FX1"):
            with pytest.raises((torch.fx.proxy.TraceError, TypeError)):
                torch.fx.symbolic_trace(models.on_meta(entry.build), concrete_args={defaults[finding.hidden_by]: None})


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_zoo(entry):
    model = models.on_meta(entry.build)
    size = 224
    if hasattr(model, "default_cfg") and model.default_cfg.get("input_size"):
        size = model.default_cfg["input_size"][-1]
    shape = (1, 3, 16, size, size) if entry.name == "r3d_18" else (1, 3, size, size)
    inputs = (torch.empty(shape, device="meta"),) * (2 if entry.name.startswith("raft") else 1)
    if entry.name.startswith("retinanet"):
        inputs = ([torch.empty(3, size, size, device="meta")],)
    code, report = both(entry, model, inputs)
    assert report.traces == (code is not None)
    assert any(finding.loud for finding in report.findings) == (code is None)
    if code is not None:
        check_warnings(entry, code, report)


def test_the_zoo_is_there():
    assert len(ENTRIES) == len(TORCHVISION) + len(TIMM)


@pytest.mark.parametrize(
    "name", ["resnet50", "deep_recommender", "learning_to_paint", "transformer", "mlp_mixer", "mlp"]
)
def test_examples_are_clean(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    comment = next(line for line in (ROOT / "examples" / f"{name}.py").read_text().splitlines() if "# fxlens:" in line)
    construct, _, inputs = comment.split("# fxlens:")[1].partition("<-")
    scope = {**vars(module), "torch": torch}
    with torch.device("meta"):
        model, example = eval(construct.strip(), scope), eval(f"({inputs},)", scope)
    report = fxlib.diagnose(model, example)
    assert report.traces and [f.message for f in report.findings if f.severity in ("error", "warning")] == []
    assert all("val" in node.meta for node in report.graph.nodes)
