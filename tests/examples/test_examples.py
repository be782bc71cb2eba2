"""The models of examples/ have the documented size, trace as with torch.fx, and equal eager."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.fx

import fxlib

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGET = re.compile(r"^# fxlens: (.+?) <- (.+)$", re.MULTILINE)


def load(path: Path):
    """The module of an example file, importable under a unique name."""
    name = f"example_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path.parent))
    return sys.modules[name]


def targets(folder: Path):
    for path in sorted(folder.glob("*.py")):
        for construct, inputs in TARGET.findall(path.read_text()):
            yield pytest.param(path, construct, inputs, id=f"{path.stem}-{construct}")


def build(path: Path, construct: str, device: str = "cpu"):
    module = load(path)
    with torch.device(device):
        return eval(construct, vars(module))


# The file's documentation: nodes of torch.fx's graph and parameters of the published model.
SIZES = {
    "ResNet50": ("resnet50", 177, 25_557_032),
    "DeepRecommender": ("deep_recommender", 15, 204_475_711),
    "Actor": ("learning_to_paint", 74, 11_209_857),
    "TransformerEncoder": ("transformer", 464, 109_482_240),
    "MlpMixer": ("mlp_mixer", 152, 59_880_472),
    "Mlp": ("mlp", 15, 2_388_490),
}

# Small forms whose numbers are compared: constructor, inputs.
SMALL = {
    "ResNet50": ("ResNet50(10)", "torch.randn(2, 3, 32, 32)"),
    "DeepRecommender": ("DeepRecommender(50)", "torch.randn(3, 50)"),
    "Actor": ("Actor()", "torch.rand(1, 9, 128, 128)"),
    "TransformerEncoder": (
        "TransformerEncoder(100, 16, 32, 4, 64, 2)",
        "torch.randint(0, 100, (2, 7)), torch.tensor([[1.0] * 7, [1.0] * 4 + [0.0] * 3])",
    ),
    "MlpMixer": ("MlpMixer(32, 8, 24, 2, 5)", "torch.randn(2, 3, 32, 32)"),
    "Mlp": ("Mlp(12, (16, 8), 3)", "torch.randn(4, 12)"),
}


def described(graph) -> list[tuple]:
    """Every node as comparable text, so that graphs of two libraries can be compared."""
    return [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in graph.nodes]


@pytest.mark.parametrize("name", SIZES)
def test_size_and_graph_are_those_of_torch_fx(name):
    stem, nodes, parameters = SIZES[name]
    model = build(EXAMPLES / f"{stem}.py", f"{name}()", "meta")
    assert sum(p.numel() for p in model.parameters()) == parameters
    theirs = torch.fx.symbolic_trace(model)
    ours = fxlib.symbolic_trace(model)
    assert len(theirs.graph.nodes) == nodes
    assert described(ours.graph) == described(theirs.graph)
    assert ours.code == theirs.code


@pytest.mark.parametrize("name", SMALL)
def test_generated_code_computes_what_eager_computes(name):
    construct, inputs = SMALL[name]
    path = EXAMPLES / f"{SIZES[name][0]}.py"
    torch.manual_seed(0)
    model = build(path, construct).eval()
    args = eval(f"({inputs},)", vars(load(path)) | {"torch": torch})
    with torch.no_grad():
        torch.testing.assert_close(fxlib.symbolic_trace(model)(*args), model(*args))


@pytest.mark.parametrize(("path", "construct", "inputs"), list(targets(EXAMPLES)))
def test_named_inputs_fit(path, construct, inputs):
    model = build(path, construct, "meta")
    with torch.device("meta"):
        args = eval(f"({inputs},)", vars(load(path)) | {"torch": torch})
        model(*args)


@pytest.mark.parametrize(("path", "construct", "inputs"), list(targets(EXAMPLES / "broken")))
def test_broken_examples_run_eagerly(path, construct, inputs):
    model = build(path, construct)
    model(*eval(f"({inputs},)", vars(load(path)) | {"torch": torch}))


SILENT = {"silent"}


@pytest.mark.parametrize(("path", "construct", "inputs"), list(targets(EXAMPLES / "broken")))
def test_broken_examples_are_broken(path, construct, inputs):
    model = build(path, construct)
    if path.stem in SILENT:
        torch.fx.symbolic_trace(model)
    else:
        with pytest.raises(Exception, match=r"control flow|iterated|assignment|array|argument|submodule|unsupported"):
            torch.fx.symbolic_trace(model)
