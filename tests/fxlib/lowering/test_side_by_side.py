"""The stages of a model: what each node comes from, and how far its value is from eager's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torchvision.models import SwinTransformer
from torchvision.models.resnet import Bottleneck, ResNet

from examples.transformer import TransformerEncoder
from fxlib.lowering import EngineError, Stage, forms, stages, table
from fxlib.passes.quantize import quantize_static


def covered(stage: Stage) -> set[str]:
    """The nodes of the trace that a stage has."""
    return {origin for step in stage.steps for origin in step.origins}


def by_name(found) -> dict[str, Stage]:
    return {stage.name: stage for stage in found.stages}


def residual() -> nn.Module:
    """ResNet-50 with one block in each stage, and two in the last: each kind of block that it has."""
    return ResNet(Bottleneck, [1, 1, 1, 2])


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    return stages(residual().eval(), (torch.randn(1, 3, 64, 64),), compare=True)


def test_every_node_of_a_resnet_is_known_and_agrees(resnet):
    found = by_name(resnet)
    assert list(found) == ["torch.fx", "torch.export", "fused", "ONNX", "ONNX Runtime"]
    assert all(stage.problem is None and stage.diverges is None for stage in found.values())
    for stage in [*found.values()][:-1]:
        assert stage.mapped == len(stage.steps) > 45
    # A wrong origin would be compared with another value, or one of another shape.
    exported = [step for step in found["torch.export"].steps if step.max_rel is not None]
    assert len(exported) == len(found["torch.fx"].steps) and all(step.max_rel < 1e-6 for step in exported)
    assert all(step.max_rel is not None and step.max_rel < 1e-4 for step in found["ONNX"].steps)


def test_each_kernel_of_an_engine_has_the_nodes_that_were_joined_in_it(resnet):
    traced, engine = by_name(resnet)["torch.fx"], by_name(resnet)["ONNX Runtime"]
    steps = {step.name: step for step in engine.steps}
    assert covered(engine) == covered(traced) and len(engine.steps) < 30
    assert {step.target for step in engine.steps if not step.origins} <= {"ReorderInput", "ReorderOutput"}
    # The last sum and its ReLU are in the convolution before them; the pooling that follows takes in nothing.
    last = next(step for step in engine.steps if "layer4_1_relu_2" in step.origins)
    assert last.origins == ["layer4_1_conv3", "layer4_1_bn3", "add_4", "layer4_1_relu_2"]
    assert last.at == "layer4_1_conv3" and last.target == "Conv"
    compared = [step.max_rel for step in steps.values() if step.max_rel is not None]
    assert len(compared) >= len(engine.steps) - 2 and max(compared) < 1e-4


def test_every_node_of_a_quantized_resnet_is_known():
    torch.manual_seed(0)
    found = by_name(stages(residual().eval(), (torch.randn(1, 3, 32, 32),), quantize=True))
    assert "fused" not in found
    for name in ("quantized", "ONNX"):
        assert found[name].mapped == len(found[name].steps) > 110 and covered(found[name]) == covered(found["torch.fx"])
    assert covered(found["ONNX Runtime"]) == covered(found["torch.fx"])
    first = {step.name: step for step in found["quantized"].steps}
    assert first["conv1"].origins == ["conv1", "bn1"] and first["conv1"].target == "torch.conv2d"
    assert first["quantize_1"].origins == first["dequantize_1"].origins == ["relu"]


@pytest.fixture(scope="module")
def bert():
    """As BERT, but such that torch.fx traces it, which the one of transformers is not."""
    torch.manual_seed(0)
    model = TransformerEncoder(vocabulary=100, positions=32, width=32, heads=4, inner=64, layers=2).eval()
    return model, (torch.randint(0, 100, (1, 12)), torch.ones(1, 12))


@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_every_node_of_a_traced_transformer_is_known_and_agrees(bert, engine):
    found = by_name(stages(*bert, compare=True, engine=engine))
    for stage in found.values():
        assert stage.problem is None and stage.diverges is None and stage.mapped == len(stage.steps) > 55
    *_, onnx, last = found.values()
    assert covered(last) == covered(onnx)
    compared = {step.at: step.max_rel for step in last.steps if step.max_rel is not None}
    assert {"embeddings_norm", "layers_0_attention_norm", "getitem_1", "output"} <= compared.keys() and len(
        compared
    ) > 40
    assert max(compared.values()) < 1e-5


def test_a_quantized_transformer_is_compared_by_what_its_integers_stand_for(bert):
    found = by_name(stages(*bert, compare=True, quantize=True))
    assert all(stage.problem is None and stage.diverges is None for stage in found.values())
    *_, onnx, engine = found.values()
    for stage in (found["quantized"], onnx):
        assert stage.mapped == len(stage.steps) > 110
        rounded = {step.name: step.max_rel for step in stage.steps if step.name.startswith("quantize")}
        assert len(rounded) >= 6 and all(0 < apart < 0.05 for apart in rounded.values())
    assert covered(engine) == covered(onnx) and 1e-3 < engine.steps[-1].max_rel < 0.05


def test_openvino_gives_its_results_only_and_says_so(bert):
    found = by_name(stages(*bert, compare=True, engine="openvino"))
    engine, onnx = found["OpenVINO"], found["ONNX"]
    assert engine.note == "OpenVINO gives no values between its kernels: only its results are compared"
    assert engine.note in str(stages(*bert, compare=True, engine="openvino"))
    assert covered(engine) == covered(onnx)
    # What it computes of constants, or joins without a name, is in the kernel that reads it; that is called as before.
    origins = {step.at: set(step.origins) for step in engine.steps}
    constant = {"embeddings_position", "zeros_like", "embeddings_segment", "add"}
    assert origins["add_1"] == {"add_1"} | constant and origins["mul"] == {"sub", "mul"}
    assert "transpose_3" in next(each for each in origins.values() if "softmax" in each)
    # A kernel of its own has no node.
    assert 0 < len(engine.steps) - engine.mapped <= 3
    compared = {step.at for step in engine.steps if step.max_rel is not None}
    assert "output" in compared and "softmax" not in compared and engine.diverges is None


def test_every_node_of_a_resnet_is_in_a_kernel_of_openvino():
    found = by_name(stages(residual().eval(), (torch.randn(1, 3, 64, 64),), engine="openvino"))
    assert covered(found["OpenVINO"]) == covered(found["ONNX"])
    assert {step.target for step in found["OpenVINO"].steps if not step.origins} == {"Reorder"}


class Rectified(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return torch.tanh(self.after(torch.relu(self.before(x))))


def test_the_first_kernel_that_diverges_is_named(monkeypatch):
    right = table()["onnxruntime"]

    def build(exported, options):
        next(node for node in exported.model.graph if node.op_type == "Relu").op_type = "Abs"
        return right.build(exported, options)

    monkeypatch.setitem(table(), "wrong", replace(right, name="wrong", label="Wrong", build=build))
    torch.manual_seed(0)
    found = by_name(stages(Rectified().eval(), (torch.randn(1, 3, 8, 8),), compare=True, engine="wrong"))
    wrong = next(step for step in found["Wrong"].steps if step.name == found["Wrong"].diverges)
    assert wrong.origins == ["relu"] and found["ONNX"].diverges is None


def test_the_first_quantized_node_that_diverges_is_named(monkeypatch):
    def wrong(*args, **kwargs):
        made = quantize_static(*args, **kwargs)
        made.after_weight_scales.neg_()
        return made

    monkeypatch.setattr(forms, "quantize_static", wrong)
    torch.manual_seed(0)
    found = by_name(stages(Rectified().eval(), (torch.randn(1, 3, 8, 8),), compare=True, quantize=True))
    assert found["quantized"].diverges == "after"
    for name in ("ONNX", "ONNX Runtime"):
        at = {step.name: step.at for step in found[name].steps}
        assert at[found[name].diverges] == "after", "both have the quantized model"


def test_the_quantized_stage_is_in_the_form_that_the_engine_takes():
    torch.manual_seed(0)
    given = Rectified().eval(), (torch.randn(1, 3, 8, 8),)
    targets = {}
    for engine in ("onnxruntime", "tensorrt_rtx"):
        found = by_name(stages(*given, compare=True, quantize=True, engine=engine))
        assert all(stage.problem is None and stage.diverges is None for stage in found.values())
        targets[engine] = {step.target for step in found["quantized"].steps if step.target.startswith("quantize")}
    assert targets == {"onnxruntime": {"quantize"}, "tensorrt_rtx": {"quantize_symmetric"}}


def test_an_engine_that_is_not_here_is_refused():
    with pytest.raises(EngineError, match="there is no engine 'none'"):
        stages(nn.ReLU().eval(), (torch.ones(2),), engine="none")


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
    model = SwinTransformer([4, 4], 12, [2, 2], [2, 2], [4, 4], num_classes=4).eval()
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


class InTurns(nn.Module):
    """Parts that stay in PyTorch between parts that convert. One function is in both of the first, and a value that
    the last one takes has been written to by then."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        row = x[0]
        x.add_(1)
        y = torch.relu(self.first(torch.logcumsumexp(x, 1))) * 2
        y = torch.relu(self.second(torch.logcumsumexp(y, 1))) * 2
        return torch.relu(torch.nextafter(y, row)) * 2 + 1


@pytest.mark.parametrize("quantize", [False, True])
def test_values_of_parts_in_pytorch_are_those_of_their_own_nodes(quantize):
    torch.manual_seed(0)
    found = by_name(stages(InTurns().eval(), (torch.randn(4, 8),), compare=True, quantize=quantize))
    for name in ("ONNX", "ONNX Runtime"):
        apart = {step.name: step.max_rel for step in found[name].steps}
        assert None not in [apart[each] for each in ("getitem", "logcumsumexp", "logcumsumexp_1", "nextafter")]
        assert found[name].diverges is None, (apart, name)


class Positions(nn.Module):
    """A parameter that is rounded to 8 bits by itself."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)
        self.positions = nn.Parameter(torch.randn(1, 4, 6, 6))

    def forward(self, x):
        return self.after(self.before(x) + self.positions)


def test_what_rounds_a_parameter_comes_from_what_takes_it_and_is_compared_with_nothing():
    torch.manual_seed(0)
    found = by_name(stages(Positions().eval(), (torch.randn(1, 3, 8, 8),), compare=True, quantize=True))
    assert all(stage.problem is None and stage.diverges is None for stage in found.values())
    for stage in [*found.values()][2:]:
        assert stage.mapped == len(stage.steps) >= 12, "ONNX and the engine have the quantized model"
    rounds = [step for step in found["quantized"].steps if step.target in ("quantize", "dequantize")]
    assert [step.origins for step in rounds if step.max_rel is None] == [["add"], ["add"]]


class Branching(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + x if x.shape[0] > 1 else x


def test_a_model_that_torch_fx_does_not_trace_begins_with_its_export(monkeypatch):
    calls, export = [], torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **more: calls.append(1) or export(*args, **more))
    found = stages(Branching().eval(), (torch.randn(2, 4),), compare=True)
    traced, exported, onnx, engine = found.stages
    assert (traced.name, exported.name, onnx.name) == ("torch.fx", "torch.export", "ONNX")
    assert "symbolically traced" in traced.problem and not traced.steps
    assert [step.origins for step in exported.steps] == [[step.name] for step in exported.steps]
    assert exported.steps[-1].max_abs == 0 and exported.diverges is onnx.diverges is None
    assert onnx.mapped == len(onnx.steps) == len(exported.steps) and engine.steps[-1].max_abs == 0
    assert "torch.fx: " in str(found) and "Relu" in str(found) and len(calls) == 1
    quantized = by_name(stages(Branching().eval(), (torch.randn(2, 4),), quantize=True))["quantized"]
    assert quantized.problem == "only what torch.fx traces is quantized here"


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


def test_bert_of_transformers_begins_with_its_export():
    pytest.importorskip("transformers")  # which is for Python 3.11 and newer
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50)
    torch.manual_seed(0)
    model, ids = BertModel(config).eval(), torch.randint(0, 50, (2, 12))
    found = by_name(stages(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, compare=True))
    assert found["torch.fx"].problem
    onnx, engine = found["ONNX"], found["ONNX Runtime"]
    assert onnx.mapped >= 0.99 * len(onnx.steps) > 60 and onnx.diverges is engine.diverges is None
    assert len(covered(engine)) >= 0.99 * len(covered(onnx)) and engine.mapped > 0.9 * len(engine.steps)
    compared = [step.max_rel for step in found["ONNX"].steps if step.max_rel is not None]
    assert len(compared) > 50 and max(compared) < 1e-4
