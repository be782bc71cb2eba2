"""Models of the zoos give the same verdict, graph and code with torch.fx and with fxlib. ``run_full`` compares
all."""

import copy

import pytest
import torch

import fxlib

from .compare import compare
from .models import WHOLE, on_meta, timm_models, torchvision_models, transformers_models, transformers_parts

# One of each family; the rest are deeper or wider versions.
TORCHVISION = [
    "convnext_tiny", "deeplabv3_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_fpn", "googlenet", "inception_v3",
    "maxvit_t", "mobilenet_v3_small", "mvit_v1_b", "quantized_resnet18", "r3d_18", "raft_small", "regnet_x_400mf",
    "resnet18", "s3d", "shufflenet_v2_x0_5", "swin3d_t", "swin_v2_t", "vit_b_32",
]  # fmt: skip
TIMM = [
    "beit", "byobnet", "cait", "coat", "convit", "cspnet", "eva", "fastvit", "ghostnet", "hrnet", "levit", "maxxvit",
    "nfnet", "pvt_v2", "resnest", "swin_transformer", "tiny_vit", "xcit",
]  # fmt: skip
if WHOLE:
    TORCHVISION += [
        "alexnet", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "fcn_resnet50", "fcos_resnet50_fpn",
        "keypointrcnn_resnet50_fpn", "lraspp_mobilenet_v3_large", "maskrcnn_resnet50_fpn", "mc3_18", "mnasnet0_5",
        "mobilenet_v2", "r2plus1d_18", "resnext50_32x4d", "retinanet_resnet50_fpn", "squeezenet1_0",
        "ssdlite320_mobilenet_v3_large", "swin_t", "vgg11_bn",
    ]  # fmt: skip
    TIMM += [
        "convmixer", "davit", "densenet", "dpn", "edgenext", "efficientnet", "focalnet", "metaformer", "mlp_mixer",
        "mobilevit", "pit", "regnet", "repvit", "resnet", "rexnet", "twins", "vgg", "vision_transformer", "volo",
        "xception",
    ]  # fmt: skip


def of_timm():
    for entry in timm_models():
        if _module_of(entry.name) in TIMM:
            yield entry


def _module_of(name):
    import timm

    return timm.model_entrypoint(name).__module__.rsplit(".", 1)[-1]


def assert_no_difference(entry):
    result = compare(entry)
    assert not result.differences, "\n".join(result.differences[:5])
    return result


def test_torchvision():
    entries = {entry.name: entry for entry in torchvision_models()}
    verdicts = {name: assert_no_difference(entries[name]).verdict for name in TORCHVISION}
    assert sum(verdict == "traced" for verdict in verdicts.values()) >= (28 if WHOLE else 12), verdicts


def test_timm():
    pytest.importorskip("timm")
    verdicts = {entry.name: assert_no_difference(entry).verdict for entry in of_timm()}
    assert sum(verdict == "traced" for verdict in verdicts.values()) >= (25 if WHOLE else 10), verdicts


def test_transformers():
    pytest.importorskip("transformers")
    for entry in transformers_models():
        assert_no_difference(entry)


def test_parts_of_transformers():
    pytest.importorskip("transformers")
    verdicts = [assert_no_difference(entry).verdict for entry in transformers_parts()]
    assert verdicts.count("traced") >= 60


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet18", (2, 3, 64, 64)),
        ("mobilenet_v3_small", (2, 3, 64, 64)),
        ("densenet121", (1, 3, 64, 64)),
        ("swin_t", (1, 3, 64, 64)),
        ("r3d_18", (1, 3, 4, 32, 32)),
        ("lraspp_mobilenet_v3_large", (1, 3, 64, 64)),
    ],
)
def test_numbers_are_those_of_eager(name, shape):
    entry = next(entry for entry in torchvision_models() if entry.name == name)
    torch.manual_seed(0)
    model = entry.build().eval()
    x = torch.randn(shape)
    traced = fxlib.symbolic_trace(copy.deepcopy(model))
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(traced(x), expected, rtol=0, atol=0)
        torch.testing.assert_close(fxlib.Interpreter(traced).run(x), expected, rtol=0, atol=0)
        torch.testing.assert_close(fxlib.Transformer(traced).transform()(x), expected, rtol=0, atol=0)


def test_models_are_built_without_memory():
    entry = next(entry for entry in torchvision_models() if entry.name == "vgg11_bn")
    assert {parameter.device.type for parameter in on_meta(entry.build).parameters()} == {"meta"}
