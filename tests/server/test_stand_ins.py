"""Stand-ins for devices, tokenizers, registries and folders that a constructor expects."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from fxlens.worker import alone, obstacles, placeholders, stand_in_helpers, stand_ins, tokenizers, user_file


@pytest.mark.parametrize(
    "asks",
    [
        lambda: torch.ones(2).to(0),
        lambda: torch.ones(2).to(device=0),
        lambda: torch.zeros(2, device=0),
        lambda: torch.ones(2).to("cuda", torch.float32, True),
        lambda: torch.nn.Linear(2, 2).to(0).weight,
    ],
)
def test_a_device_by_its_number_is_this_one(asks: Callable[[], torch.Tensor]):
    with alone.alone():
        assert asks().device.type == "cpu"


def test_a_checkpoint_may_be_given_by_its_name(tmp_path: Path):
    torch.save({"a": 1}, tmp_path / "w.pth")
    with alone.alone():
        assert torch.load(f=tmp_path / "w.pth") == {"a": 1}


def test_an_attribute_of_the_users_own_is_not_a_device():
    assert not alone.is_about(AttributeError("'Net' object has no attribute '_cuda_kernel'"))
    assert alone.is_about(AttributeError("module 'torch._C' has no attribute '_cuda_setDevice'"))


class Slotted:
    __slots__ = ("size",)

    def __init__(self, path: str) -> None:
        raise OSError(f"{path} is not there")


class SlottedTokenizer(Slotted):
    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class FrozenTokenizer:
    path: str

    def __post_init__(self) -> None:
        assert Path(self.path).is_file(), self.path


@dataclasses.dataclass
class Vocab:
    size: int
    kind: str = "small"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("size must be positive")


def raised(make: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        make()
    return caught.value


@pytest.mark.parametrize("kind", [SlottedTokenizer, FrozenTokenizer])
def test_a_tokenizer_of_any_kind_is_made_without_its_file(kind: Any):
    own = "__init__" in vars(kind)
    assert tokenizers.behind(raised(lambda: kind("vocab.model"))) is kind
    with tokenizers.without(kind):
        assert isinstance(kind("vocab.model"), kind)
    assert ("__init__" in vars(kind)) is own


def test_a_tokenizer_with_wrong_arguments_is_not_made_at_all():
    assert tokenizers.behind(raised(lambda: Vocab(0))) is None


@pytest.mark.parametrize("name", ["load_checkpoint", "load_pretrained", "load_weights"])
def test_weights_are_none_for_a_module(name: str):
    assert stand_ins.called(f"package.{name}", (torch.nn.Linear(2, 2),), {}) == {}


@pytest.mark.parametrize("name", ["load_pretrained", "load_weights"])
def test_what_may_load_a_model_is_not_known(name: str):
    load: Any = stand_in_helpers.function(f"package.{name}")
    with pytest.raises(TypeError):
        load("vit")


def test_constants_of_a_package_are_no_registries():
    for name, is_one in {"CLASSES": False, "METAINFOS": False, "BACKBONES": True, "UPSAMPLE_LAYERS": True}.items():
        assert (type(placeholders.placeholder(f"mmdet.{name}")).__name__ == "_Registry") is is_one


def test_an_import_that_no_file_of_the_workspace_asks_for_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What raised has no frame of the workspace, and the current folder lies in it."""
    module = ModuleType("fxlens_hiding")
    module.__file__ = str(tmp_path / "fxlens_hiding.py")
    monkeypatch.setitem(sys.modules, "fxlens_hiding", module)
    monkeypatch.chdir(tmp_path)
    finder = user_file.OverlayFinder({})
    finder.roots = [str(tmp_path)]
    error = ModuleNotFoundError("No module named 'fxlens_hiding.inner'", name="fxlens_hiding.inner")
    assert obstacles._elsewhere(error, finder, obstacles.Replaced()) is False


ASKING = "import inspect\nASKS = [inspect.getmodule(inspect.stack()[0][0]).__name__ for _ in range(10)]\n"


def test_who_asks_is_found_without_a_look_at_all_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Once for each file on the stack, and never for Python's own import system."""

    class Counting(ModuleType):
        looked = 0

        def __getattr__(self, name: str) -> Any:
            Counting.looked += name == "__file__"
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "fxlens_counting", Counting("fxlens_counting"))
    (tmp_path / "registry.py").write_text(ASKING)
    (tmp_path / "between.py").write_text("import registry\n")
    text = "import between, registry\nASKS = registry.ASKS\n"
    module = user_file.load(str(tmp_path / "asking.py"), text, str(tmp_path), {})
    assert module.ASKS == ["registry"] * 10
    assert Counting.looked < 2 * len(inspect.stack()), Counting.looked


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "layer"),
    [
        ("gone.Linear", (4, 8), {"bias": False}, "Linear(in_features=4, out_features=8, bias=False)"),
        ("fairscale.nn.ColumnParallelLinear", (4,), {"out_features": 8, "gather_output": False}, "Linear("),
        ("apex.normalization.FusedLayerNorm", (8, 1e-6), {}, "LayerNorm((8,), eps=1e-06"),
        ("megatron.core.ColumnParallelLinear", (4, 8), {}, ""),
        ("megablocks.layers.HeteroLinear", (32, 128, 3), {}, ""),
        ("diffusers.models.embeddings.TimestepEmbedding", (32, 128), {}, ""),
        ("rotary_embedding_torch.RotaryEmbedding", (64, 2048), {}, ""),
        ("gone.Linear", (4, 8, True, 3), {}, ""),
        ("gone.Linear", (4, 8, 3), {}, ""),
    ],
)
def test_only_what_computes_the_same_is_a_layer_of_torch(name: str, args: Any, kwargs: Any, layer: str):
    made = stand_ins.called(name, args, kwargs)
    if layer:
        assert repr(made).startswith(layer)
    else:
        with pytest.raises(stand_ins.NotInstalled, match=name.rpartition(".")[2]):
            made(torch.ones(2, 4))
