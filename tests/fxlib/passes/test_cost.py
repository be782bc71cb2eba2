"""The cost model against torch's counters, hand counts and measurements."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import fxlib
from fxlib.passes.cost import estimate
from fxlib.passes.devices import DEVICES, Device, calibrated_cpu


def counted(build, shape):
    with torch.device("meta"):
        module, x = build().eval(), torch.empty(shape)
    with FlopCounterMode(display=False) as counter:
        module(x)
    return module, x, counter.get_total_flops()


@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet_v2", "vit_b_16", "densenet121", "shufflenet_v2_x0_5", "convnext_tiny"]
)
def test_flops_equal_torchs_counter(name):
    import torchvision

    module, x, expected = counted(lambda: torchvision.models.get_model(name, weights=None), (1, 3, 224, 224))
    found = estimate(fxlib.symbolic_trace(module), x)
    assert found.flops == expected > 0
    assert found.parameters == sum(p.numel() for p in module.parameters())
    if name == "resnet50":
        assert round(found.flops / 1e9, 4) == 8.1784


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.one = nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), nn.Conv1d(6, 8, 3)
        self.rnn, self.attention = nn.LSTM(8, 8, batch_first=True), nn.MultiheadAttention(8, 2, batch_first=True)
        self.across = nn.MultiheadAttention(8, 2)  # it prints as the other one does
        self.weight = nn.Parameter(torch.randn(8, 5))

    def forward(self, x):
        y = self.one(self.up(x).flatten(2)).transpose(1, 2)
        y = self.across(y, y, y)[0] + self.attention(y, y, y)[0]
        y = F.scaled_dot_product_attention(y, y, y)
        z = torch.einsum("bij,jk->bik", y, self.weight)
        z = torch.matmul(z, z.transpose(1, 2)) + z @ z.mT
        by_vector = z @ z[0, 0] + torch.matmul(z, z[0, 0]) + F.linear(z, z[0, 0]) + z[0, 0] @ z[0, 0]
        return torch.baddbmm(z, y, y.transpose(1, 2)).sum() + by_vector.sum()


def test_flops_of_every_kind_of_product():
    module, x, expected = counted(Products, (2, 4, 5, 5))
    assert estimate(fxlib.symbolic_trace(module), x).flops == expected > 0


def test_bytes_parameters_and_time_by_hand():
    module = nn.Sequential(nn.Linear(100, 200), nn.ReLU(), nn.Flatten())
    found = estimate(fxlib.symbolic_trace(module), torch.empty(10, 100), device="A100")
    linear, relu, flat = found.nodes
    assert linear.flops == 2 * 10 * 100 * 200 and linear.parameters == 100 * 200 + 200
    assert linear.read == 4 * (10 * 100 + 100 * 200 + 200) and linear.written == 4 * 10 * 200
    assert relu.read == relu.written == 4 * 2000 and (flat.read, flat.written, flat.seconds) == (0, 0, 0.0)
    a100 = DEVICES["A100"]
    assert linear.seconds == pytest.approx(a100.overhead + (linear.read + linear.written) / a100.bandwidth)
    assert found.seconds == pytest.approx(sum(n.seconds for n in found.nodes))


def test_peak_memory_by_hand():
    class Net(nn.Module):
        def forward(self, x):  # x is held by the caller: 1 unit
            a = x + 1  # 2
            b = a.view(-1)  # a view of a
            c = b * 2  # 3, then a's memory goes
            d = c + 1  # 3
            return torch.cat([d, c, d])  # + 3 units: 6

    found = estimate(fxlib.symbolic_trace(Net()), torch.empty(1000))
    assert found.peak_bytes == 6 * 4000 and found.peak_node == "cat"


def test_in_place_operators_take_no_memory():
    plain = estimate(fxlib.symbolic_trace(nn.Sequential(nn.Linear(8, 1000), nn.ReLU(), nn.ReLU())), torch.empty(4, 8))
    saving = estimate(
        fxlib.symbolic_trace(nn.Sequential(nn.Linear(8, 1000), nn.ReLU(True), nn.ReLU(True))), torch.empty(4, 8)
    )
    assert plain.peak_bytes - saving.peak_bytes == 4 * 4 * 1000


def test_faster_devices_are_faster_and_unknown_ones_are_named():
    with torch.device("meta"):
        import torchvision

        graph_module = fxlib.symbolic_trace(torchvision.models.resnet18())
    times = [
        estimate(graph_module, torch.empty(64, 3, 224, 224), device=d).seconds for d in ("T4", "V100", "A100", "H200")
    ]
    assert times == sorted(times, reverse=True)
    with pytest.raises(KeyError, match="known: V100"):
        estimate(graph_module, torch.empty(1, 3, 224, 224), device="Z80")
    assert all(d.source and d.bandwidth > 0 and d.rates["float32"] > 0 for d in DEVICES.values())


def test_calibration_measures_this_machine():
    cpu = calibrated_cpu(0.01)
    assert 1e9 < cpu.rates["float32"] < 1e14 and 1e8 < cpu.bandwidth < 1e13 and cpu.overhead < 1e-3


def test_report_prints_totals():
    text = str(estimate(fxlib.symbolic_trace(nn.Sequential(nn.Linear(3, 4))), torch.empty(2, 3), device="T4"))
    assert "total: 0.0000 GFLOPs" in text and "on T4" in text and "16 parameters" in text


def test_a_measured_device_adds_what_a_roofline_overlaps():
    sheet = Device("sheet", {"float32": 100.0}, 10.0, 0.0, 1.0, "")
    assert sheet.seconds(200.0, 100.0, 30.0, 40.0) == pytest.approx(7.0 + 1.0)
    measured = Device(
        "measured", {"float32": 100.0}, 10.0, 0.0, 1.0, "", cache=30.0, cached_bandwidth=60.0, overlaps=False
    )
    assert measured.seconds(200.0, 100.0, 30.0, 40.0) == pytest.approx(2.0 + 0.5 + 4.0 + 1.0)
    assert measured.seconds(200.0, 100.0, 31.0, 40.0) == pytest.approx(2.0 + 3.1 + 4.0 + 1.0)


def test_convolutions_and_pools_are_timed_by_their_kind():
    rates = {"conv": 1e9, "pointwise": 2e9, "strided": 3e9, "stem": 4e9, "depthwise": 5e9, "max_pool": 1e6}
    cpu = Device("cpu", {"float32": 1e9}, 1e30, 0.0, 0.0, "", rates, overlaps=False)
    layers = {
        "stem": nn.Conv2d(3, 8, 3),
        "depthwise": nn.Conv2d(8, 8, 3, groups=8),
        "conv": nn.Conv2d(8, 8, 3),
        "pointwise": nn.Conv2d(8, 8, 1),
        "strided": nn.Conv2d(8, 8, 1, stride=2),
    }
    module = nn.Sequential(*layers.values(), nn.MaxPool2d(2))
    nodes = estimate(fxlib.symbolic_trace(module), torch.empty(1, 3, 32, 32), device=cpu).nodes
    for name, node in zip(layers, nodes, strict=False):
        assert node.seconds == pytest.approx(node.flops / rates[name]), name
    assert nodes[-1].flops == 0 and nodes[-1].seconds == pytest.approx(nodes[-1].written / 4 * 4 / 1e6)
