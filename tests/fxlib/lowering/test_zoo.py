"""Families of torchvision and timm, lowered whole to ONNX Runtime and compared with eager.

Random weights; small inputs where a family allows them. A family that has no whole conversion is not in this list, and
`docs/lowering.md` names it.
"""

from __future__ import annotations

import warnings

import pytest
import torch

import fxlib
from tests.fxlib.zoo.models import WHOLE, timm_models, torchvision_models

TORCHVISION = {
    "resnet18": 64, "densenet121": 64, "googlenet": 96, "mobilenet_v3_small": 64, "shufflenet_v2_x0_5": 64,
    "efficientnet_b0": 64, "swin_v2_t": 64, "deeplabv3_mobilenet_v3_large": 96,
}  # fmt: skip
TIMM = {
    "convnext_atto": 64, "mobilenetv4_conv_small": 64, "vit_tiny_patch16_224": 224, "gmlp_ti16_224": 224,
    "poolformer_s12": 64, "edgenext_xx_small": 96, "xcit_nano_12_p8_224": 224, "hgnetv2_b0": 64,
}  # fmt: skip
if WHOLE:
    TORCHVISION |= {
        "alexnet": 96, "vgg11_bn": 64, "resnext50_32x4d": 64, "squeezenet1_1": 64, "mobilenet_v2": 64, "mnasnet0_5": 64,
        "regnet_y_400mf": 64, "convnext_tiny": 64, "swin_t": 64, "vit_b_16": 224, "fcn_resnet50": 64,
        "lraspp_mobilenet_v3_large": 64,
    }  # fmt: skip
    TIMM |= {
        "mixer_s32_224": 224, "resmlp_12_224": 224, "ghostnet_100": 64, "dla34": 64, "res2net50_26w_4s": 64,
        "rexnet_100": 64, "repvgg_a0": 64, "mobileone_s0": 64, "eca_resnet33ts": 64, "starnet_s1": 64, "nfnet_f0": 64,
    }  # fmt: skip


BUILDERS = {f"{e.family}:{e.name}": e.build for e in (*torchvision_models(), *timm_models(every=True))}


def agrees(model: torch.nn.Module, size: int) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = fxlib.lower(model.eval(), (torch.randn(1, 3, size, size),))
    assert lowered.report.complete, lowered.report.reasons
    assert lowered.report.max_rel_error < 1e-3


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    agrees(BUILDERS[f"torchvision:{name}"](), TORCHVISION[name])


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    agrees(BUILDERS[f"timm:{name}"](), TIMM[name])
