"""Stages: equal results, balanced cost, and a pipeline over real processes."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import fxlib
from fxlib.interop import from_torch_fx
from fxlib.passes.cost import estimate
from fxlib.passes.stages import balanced_cuts, run_stages, split_into_stages
from tests.fxlib.zoo.calls import timm_calls, transformers_calls

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_models_in_stages(name, count):
    import torchvision

    model = torchvision.models.get_model(name, weights=None).eval()
    graph_module, x = fxlib.symbolic_trace(model), torch.randn(1, 3, 64, 64)
    stages = split_into_stages(graph_module, count, x)
    with torch.no_grad():
        torch.testing.assert_close(run_stages(stages, x), model(x), rtol=0, atol=0)
        whole = estimate(graph_module, x).flops
        values, parts = (x,), []
        for stage in stages:
            parts.append(estimate(stage, *values).flops)
            values = stage(*values)
            values = values if isinstance(values, tuple) else (values,)
    assert sum(parts) == whole and max(parts) < 1.5 * whole / count
    owned = [name for stage in stages for name, _ in stage.named_parameters()]
    assert sorted(owned) == sorted(n for n, _ in model.named_parameters())


class Sizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x, scale=2.0):
        n = x.size(0)
        y = (x @ self.weight).relu()
        y = y.view(n, 2, 3) * scale
        z = (y.flatten(1) @ self.weight).relu()
        return {"out": z @ self.weight, "skip": x}


def test_cuts_avoid_what_is_no_tensor_and_share_parameters():
    model, x = Sizes(), torch.randn(4, 6)
    stages = split_into_stages(fxlib.symbolic_trace(model), 2, x)
    torch.testing.assert_close(run_stages(stages, x), model(x))
    assert all("weight" in dict(s.named_parameters()) for s in stages)


class Attention(nn.Module):
    """Takes a mask that is left out, a flag, a size and the parts of a tuple through all layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 24) for _ in range(4))

    def forward(self, x, mask=None, causal=False):
        batch, length, width = x.shape
        for layer in self.layers:
            q, k, v = layer(x).chunk(3, -1)
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
            x = x.reshape(batch, length, width)
        return x, batch


def test_what_is_no_tensor_crosses_no_cut():
    model, x = Attention().eval(), torch.randn(2, 5, 8)
    stages = split_into_stages(fxlib.symbolic_trace(model), 4, x)
    for given in (x, torch.randn(3, 7, 8)):
        found, batch = run_stages(stages, given)
        torch.testing.assert_close(found, model(given)[0])
        assert batch == len(given)
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [8 * 24 + 24] * 4
    with pytest.raises(AssertionError, match="made for mask=None"):
        run_stages(stages, x, torch.ones(5, 5))
    with pytest.raises(AssertionError, match="made for causal=False"):
        run_stages(stages, x, None, True)


class Parts(nn.Module):
    """Uses the parts of its inputs, which are no tensors by themselves, from the first layer to the last."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x, pair, named):
        for layer in self.layers:
            x = layer(x * pair[1] + named["shift"][0]) + pair[0]
        return x


def test_parts_of_inputs_cross_like_other_tensors():
    model, tensor = Parts().eval(), lambda: torch.randn(2, 8)
    pair, named = (tensor(), 3), {"shift": [tensor()]}
    stages = split_into_stages(fxlib.symbolic_trace(model), 4, tensor(), pair, named)
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [8 * 8 + 8] * 4
    for given in ((tensor(), pair, named), (tensor(), (tensor(), 3), {"shift": [tensor()]})):
        assert torch.equal(run_stages(stages, *given), model(*given))
    with pytest.raises(AssertionError, match=r"made for pair\[1\]=3"):
        run_stages(stages, tensor(), (tensor(), 4), named)


CALLS = {str(call): call for family in (timm_calls, transformers_calls) for call in family()}
MODELS = ["timm:mobilenetv2_050", "timm:deit_tiny_patch16_224", "timm:levit_128s", "transformers:bert"]


@pytest.mark.parametrize("name", MODELS)
def test_models_of_libraries_are_balanced(name):
    """As cheap as the best cuts there are: no place is barred."""
    call = CALLS[name]
    model = call.build().eval()
    inputs = call.inputs(model)
    graph_module = fxlib.symbolic_trace(model) if call.family == "timm" else exported(model, inputs)
    values = tuple(inputs.values())
    with torch.no_grad():
        expected = graph_module(*values)
        whole = estimate(graph_module, *values)
        stages = split_into_stages(graph_module, 4, *values)
        for a, b in zip(tree_leaves(run_stages(stages, *values)), tree_leaves(expected), strict=True):
            torch.testing.assert_close(a, b)
        parts = []
        for stage in stages:
            parts.append(estimate(stage, *values).flops)
            values = stage(*values)
            values = values if isinstance(values, tuple) else (values,)
    costs = [node.flops for node in whole.nodes]
    bounds = [0, *balanced_cuts(costs, list(range(1, len(costs))), 4), len(costs)]
    assert max(parts) <= 1.1 * max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))


def exported(model, inputs):
    """torch.export takes the models of transformers, a symbolic trace does not."""

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return self.model(**dict(zip(inputs, values, strict=True)))[0]

    with torch.no_grad():
        program = torch.export.export(First(), tuple(inputs.values()), strict=False)
        return from_torch_fx(program.module(check_guards=False))


def test_too_many_stages_are_refused_with_the_number():
    with pytest.raises(ValueError, match="1 places where only tensors cross; 5 stages need 4"):
        split_into_stages(fxlib.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), 5, torch.randn(1, 2))


def test_what_makes_no_stages_is_refused():
    graph_module = fxlib.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"must be 1 or more, not {count}"):
            split_into_stages(graph_module, count, torch.randn(1, 2))
    with pytest.raises(KeyError, match=r"'flop'.*'flops', 'parameters'"):
        split_into_stages(graph_module, 2, torch.randn(1, 2), weigh="flop")


@pytest.mark.parametrize("seed", range(20))
def test_cuts_are_the_best_there_are(seed):
    generator = torch.Generator().manual_seed(seed)
    costs = torch.randint(0, 20, (9,), generator=generator).tolist()
    allowed = [i for i in range(1, 9) if torch.rand(1, generator=generator) < 0.8]
    for count in range(1, min(4, len(allowed) + 1) + 1):

        def worst(cuts, costs=costs):
            bounds = [0, *cuts, len(costs)]
            return max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))

        found = balanced_cuts([float(c) for c in costs], allowed, count)
        assert worst(found) == min(worst(c) for c in itertools.combinations(allowed, count - 1))


def test_pipelines_over_processes(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen(
        [sys.executable, str(HERE / "pipeline_worker.py"), str(tmp_path), "2", "4"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the processes of the pipeline too
        raise
    assert process.returncode == 0, errors[-4000:]
    assert out.split("\n")[:2] == ["equal 2", "equal 4"]
