"""Models that were not written for these tests: verdicts equal torch's own, and there are no findings if torch has no
complaint."""

import copy
import inspect

import pytest
import torch

from fxlib.captures import judge
from tests.fxlib.captures.recorded import model_of_a_library
from tests.fxlib.zoo.models import WHOLE, torchvision_models, transformers_models

TORCHVISION: tuple[str, ...] = ("resnet18",)
TRANSFORMERS: tuple[str, ...] = ("bert", "bloom", "gpt2", "llama", "poolformer", "wav2vec2")
if WHOLE:
    TORCHVISION += ("alexnet", "googlenet", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf",
                    "shufflenet_v2_x0_5", "squeezenet1_1", "vgg11")  # fmt: skip
    TRANSFORMERS += ("albert", "deit", "distilbert", "electra", "gpt_neo", "megatron_bert", "mobilebert",
                     "mobilenet_v2", "mpnet", "regnet", "resnet", "roberta", "segformer", "vit", "xglm")  # fmt: skip
VISION = ("vit", "segformer", "resnet", "regnet", "mobilenet_v2", "poolformer", "deit")
ENTRIES = [
    *(each for each in torchvision_models() if each.name in TORCHVISION),
    *(each for each in transformers_models() if each.name in TRANSFORMERS),
]


def inputs(entry):
    if entry.family == "torchvision":
        return {"x": torch.randn(2, 3, 64, 64)}
    if entry.name in VISION:
        return {"pixel_values": torch.randn(2, 3, 32, 32)}
    if "wav2vec2" in entry.name:
        return {"input_values": torch.randn(2, 400)}
    return {"input_ids": torch.randint(0, 99, (2, 8))}


def raised(call):
    try:
        call()
    except Exception as error:
        return error
    return None


def answers(model, given):
    """Whether torch exports the model, and compiles it whole."""
    exported = raised(lambda: torch.export.export(model, (), copy.deepcopy(given), strict=False))
    torch.compiler.reset()
    whole = raised(lambda: torch.compile(model, fullgraph=True, backend="eager")(**copy.deepcopy(given)))
    torch.compiler.reset()
    return {"export": exported is None, "fullgraph": whole is None}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_verdicts_are_those_of_torch(entry):
    model = entry.build().eval()
    given = inputs(entry)
    if "x" in given:
        given = {next(iter(inspect.signature(model.forward).parameters)): given["x"]}
    eager = raised(lambda: model(**copy.deepcopy(given)))
    assert eager is None, f"the inputs of this test do not fit: {eager}"
    real = model_of_a_library(str(entry), lambda: answers(model, given))
    judgement = judge(model, given)
    export, compiled = judgement.verdicts["export"], judgement.verdicts["compile"]
    assert export.outcome == ("captured" if real["export"] else "fails")
    assert compiled.fullgraph == real["fullgraph"]
    if all(real.values()):
        assert [each.code for each in judgement.findings if each.severity in ("error", "warning")] == []
