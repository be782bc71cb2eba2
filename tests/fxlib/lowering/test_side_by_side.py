"""The stages of a model: what each node comes from, and how far its value is from eager's."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn

from fxlib.lowering import Stage, stages


def by_name(found) -> dict[str, Stage]:
    return {stage.name: stage for stage in found.stages}


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    return stages(torchvision.models.resnet50().eval(), (torch.randn(1, 3, 64, 64),), compare=True)


def test_every_node_of_a_resnet_is_known_and_agrees(resnet):
    found = by_name(resnet)
    assert list(found) == ["torch.fx", "torch.export", "fused", "ONNX", "ONNX Runtime"]
    assert all(stage.problem is None and stage.diverges is None for stage in found.values())
    for stage in [*found.values()][:-1]:
        assert stage.mapped == len(stage.steps) > 120
    # A wrong origin would be compared with another value, or one of another shape.
    exported = [step for step in found["torch.export"].steps if step.max_rel is not None]
    assert len(exported) == len(found["torch.fx"].steps) and all(step.max_rel < 1e-6 for step in exported)
    assert sum(step.max_rel is not None for step in found["ONNX"].steps) > 170
    assert all(step.max_rel < 1e-4 for step in found["ONNX"].steps if step.max_rel is not None)


def test_a_fused_convolution_comes_from_two_nodes_and_has_the_value_of_the_second(resnet):
    fused = {step.name: step for step in by_name(resnet)["fused"].steps}
    assert fused["conv1"].origins == ["conv1", "bn1"] and fused["relu"].origins == ["relu"]
    assert 0 < fused["conv1"].max_rel < 1e-4 and "bn1" not in fused
    assert resnet.places["layer1_0_conv1"][0].file.endswith("resnet.py")


class Loop(nn.Module):
    """Two calls of one module, and functions on one line."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(2):
            x = torch.relu(self.linear(x)) + x * 2
        return self.ending(x)

    def ending(self, x):
        return (x.view(-1) + 1).view(2, 4)


def test_repeated_calls_and_functions_of_one_line_are_told_apart():
    found = by_name(stages(Loop().eval(), (torch.randn(2, 4),), compare=True))
    origins = [step.origins for step in found["torch.export"].steps]
    names = ["x", "linear", "relu", "mul", "add", "linear_1", "relu_1", "mul_1", "add_1", "view", "add_2", "view_1"]
    assert origins == [[name] for name in [*names, "output"]]
    assert all(step.max_abs == 0 for step in found["torch.export"].steps)


class Opened(nn.Module):
    """Functions that the export has under other names, takes apart, or leaves out."""

    def forward(self, x):
        y = (x @ x.mT).softmax(-1)
        y = nn.functional.pixel_shuffle(y.view(1, 4, 2, 2), 2) + y.dim()
        return nn.functional.hardsigmoid(y).flatten(1).float() / 2


def test_values_are_compared_with_those_that_they_are_made_of():
    found = by_name(stages(Opened().eval(), (torch.randn(4, 4),), compare=True))
    exported = found["torch.export"]
    assert exported.mapped == len(exported.steps) and exported.diverges is None
    origins = {step.origins[0] for step in exported.steps}
    assert origins >= {"getattr_1", "matmul", "softmax", "view", "pixel_shuffle", "hardsigmoid", "flatten", "truediv"}
    compared = {step.origins[0]: step.max_abs for step in exported.steps if step.max_abs is not None}
    assert {"getattr_1", "matmul", "softmax", "hardsigmoid", "truediv"} <= compared.keys()
    assert max(compared.values()) < 1e-6 and found["ONNX"].diverges is None


def test_what_a_library_function_is_opened_into_is_not_compared_with_it():
    torch.manual_seed(0)
    model = torchvision.models.SwinTransformer([4, 4], 12, [2, 2], [2, 2], [4, 4], num_classes=4).eval()
    onnx = by_name(stages(model, (torch.randn(1, 3, 32, 32),), compare=True))["ONNX"]
    opened = [step for step in onnx.steps if step.origins[0].startswith("shifted_window_attention")]
    assert onnx.mapped == len(onnx.steps) and len(opened) > 40 and onnx.diverges is None
    assert not [step for step in opened if step.max_rel is not None]


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.after(self.before(x) + torch.rand_like(x))


def test_the_first_that_diverges_is_named():
    torch.manual_seed(1)
    found = by_name(stages(Noisy().eval(), (torch.randn(2, 4),), compare=True))
    assert found["torch.fx"].diverges == "after", "the noise itself is no module, so eager does not show it"
    assert found["torch.export"].diverges == "rand_like"
    # Noise has no converter: it runs in PyTorch, and what follows has its values.
    assert {step.target for step in found["ONNX"].steps if step.name == "rand_like"} == {"PyTorch"}
    assert found["ONNX"].diverges == "rand_like"


class Branching(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + x if x.shape[0] > 1 else x


def test_a_model_that_torch_fx_does_not_trace_begins_with_its_export():
    found = stages(Branching().eval(), (torch.randn(2, 4),), compare=True)
    traced, exported, onnx, engine = found.stages
    assert (traced.name, exported.name, onnx.name) == ("torch.fx", "torch.export", "ONNX")
    assert "symbolically traced" in traced.problem and not traced.steps
    assert [step.origins for step in exported.steps] == [[step.name] for step in exported.steps]
    assert exported.steps[-1].max_abs == 0 and exported.diverges is onnx.diverges is None
    assert onnx.mapped == len(onnx.steps) == len(exported.steps) and engine.steps[-1].max_abs == 0
    assert "torch.fx: " in str(found) and "Relu" in str(found)


def test_nothing_is_run_unless_it_is_compared():
    class Counting(nn.ReLU):
        calls = 0

        def forward(self, x):
            Counting.calls += isinstance(x, torch.Tensor) and type(x) is torch.Tensor and not x.is_meta
            return super().forward(x)

    model = nn.Sequential(Counting(), nn.ReLU()).eval()
    found = stages(model, (torch.randn(2, 4),))
    assert Counting.calls == 0 and not found.compared
    assert all(step.max_rel is None for stage in found.stages for step in stage.steps)


def test_transformers_maps_whole():
    pytest.importorskip("transformers")  # which is for Python 3.11 and newer
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50)
    torch.manual_seed(0)
    model, ids = BertModel(config).eval(), torch.randint(0, 50, (2, 12))
    found = by_name(stages(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, compare=True))
    assert found["torch.fx"].problem
    for name in ("torch.export", "ONNX"):
        steps = found[name].steps
        assert found[name].mapped >= 0.99 * len(steps) > 60 and found[name].diverges is None
    compared = [step.max_rel for step in found["ONNX"].steps if step.max_rel is not None]
    assert len(compared) > 50 and max(compared) < 1e-4
