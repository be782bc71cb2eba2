"""A call for which an engine was not built runs in PyTorch, part by part."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.lowering import BuildOptions
from tests.fxlib.lowering.test_dynamic import agree


class Changing(nn.Module):
    """Results that have other shapes at small sizes than at those of the example, within parts and between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x).relu() * 2
        return y[-3:-1] * 2, y.squeeze() + 1, y.unsqueeze(1).squeeze(0) + 1, y.chunk(3)[-1] * 2 + 1


@pytest.mark.filterwarnings("ignore:the engine fails")
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_small_sizes(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = Changing().eval()
    lowered = fxlib.lower(model, (torch.randn(6, 4),), dynamic=True, engine=engine, min_nodes=1)
    lowered.save(tmp_path / "saved")
    for call in (lowered, fxlib.lowering.load(tmp_path / "saved")):
        assert call.engine_parts()
        for rows in (6, 5, 2, 1):
            agree(call, model, torch.randn(rows, 4))


class Empty(nn.Module):
    """Operators of which ONNX Runtime gives another rank, or ends the process, if they get nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        y = self.layer(x)
        few = y[:, 3:]
        return (
            torch.einsum("bij,bkj->bik", y, y), torch.cdist(y, y), y.softmax(-1).sum(0),
            torch.einsum("bij,bkj->bik", few, few), torch.cdist(few, few),
        )  # fmt: skip


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_empty_inputs(engine):
    model = Empty().eval()
    lowered = fxlib.lower(model, (torch.randn(2, 4, 6),), dynamic={"x": (0, 1)}, engine=engine)
    assert set(lowered.report.reasons) == {"einsum_1", "cdist_1"}
    for batch, rows in ((0, 4), (2, 4), (3, 0), (3, 2)):
        agree(lowered, model, torch.randn(batch, rows, 6))
    assert lowered.profile(torch.randn(0, 4, 6), runs=1)


class Pooled(nn.Module):
    """OpenVINO cannot pool a row of one, nor anything after it tried."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 1)

    def forward(self, x, y):
        return F.avg_pool1d(self.layer(x).relu(), 2, ceil_mode=True) * 2, x.sum(0) + y


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_of_openvino_is_seen(threads):
    model, options = Pooled().eval(), BuildOptions(threads=threads)
    dynamic = {"x": (2,), "y": (1,)}
    example = torch.randn(2, 4, 7), torch.randn(4, 7)
    lowered = fxlib.lower(model, example, dynamic=dynamic, engine="openvino", options=options, min_nodes=1)
    agree(lowered, model, *example)
    with pytest.warns(UserWarning, match=r"fails when it runs AveragePool of .* runs in PyTorch instead"):
        agree(lowered, model, torch.randn(2, 4, 1), torch.randn(4, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(lowered, model, *example)
    with pytest.warns(UserWarning, match="fails when it runs Add of "), pytest.raises(RuntimeError, match=r"tensor a"):
        lowered(torch.randn(2, 4, 9), torch.randn(4, 5))


def test_a_failure_names_the_node_and_its_line():
    class Row(nn.Module):
        def forward(self, x, i):
            return (x * 2)[i] + 1

    lowered = fxlib.lower(Row().eval(), (torch.randn(3, 4), torch.tensor([0])), min_nodes=1)
    line = inspect.getsourcelines(Row.forward)[1] + 1
    told = rf"fails when it runs Gather of node 'getitem' \({__file__}:{line}\): .*out of"
    with pytest.warns(UserWarning, match=told), pytest.raises(IndexError, match="out of bounds"):
        lowered(torch.randn(3, 4), torch.tensor([7]))


class Backwards(nn.Module):
    """ONNX Runtime would make slices of these, of which -1 is the last element."""

    def forward(self, x):
        n = x.shape[0]
        return x[torch.arange(n - 1, -1, -1)] + 1, x.index_select(0, torch.arange(n - 2, -1, -2)), x[:: 1 + n // 4]


def test_rows_backwards():
    model = Backwards().eval()
    lowered = fxlib.lower(model, (torch.randn(6, 4),), dynamic=True, min_nodes=1)
    assert "getitem" not in lowered.report.reasons and "index_select" not in lowered.report.reasons
    for rows in (6, 9, 3):
        agree(lowered, model, torch.randn(rows, 4))
