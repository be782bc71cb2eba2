"""Inputs of a lowered model that differ from the example in more than their values."""

import pytest
import torch
from torch import nn

import fxlib

ENGINES = ["onnxruntime", "openvino", "reference"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)
        # Torch negates it as late as something reads it.
        self.register_buffer("late", torch.randn(4, 8, dtype=torch.cfloat).conj().imag)

    def forward(self, x):
        return self.last((self.first(x) + x @ self.late).relu())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dtype_and_a_late_negation(engine):
    pytest.importorskip({"reference": "onnx"}.get(engine, engine))
    net, x = Net().eval(), torch.fft.rfft(torch.randn(3, 6)).conj().imag
    assert x.is_neg() and net.late.is_neg()
    lowered = fxlib.lower(net, (torch.randn(3, 4),), engine=engine)
    assert torch.allclose(lowered(x), net(x), atol=1e-5)
    assert [each.engine for each in lowered.report.parts] == [engine]
    with pytest.raises(TypeError, match=r"'x' of torch.float64, but the model was lowered for torch.float32"):
        lowered(x.double())
