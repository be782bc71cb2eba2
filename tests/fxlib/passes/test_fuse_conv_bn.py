"""Conv-BN fusion: equal results, and a reason wherever folding would be wrong."""

import copy
from random import Random

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.passes.fuse_conv_bn import find_conv_bn, fuse_conv_bn
from fxlib.passes.optimize_for_inference import optimize_for_inference, pack_layers
from fxlib.passes.packed_layers import PackedConv2d
from fxlib.shapes import propagate


def settled(module):
    """Evaluation mode with statistics that are not the neutral ones, in float64 so that differences are mistakes."""
    torch.manual_seed(0)
    for each in module.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            if each.running_mean is not None:
                each.running_mean.normal_()
                each.running_var.uniform_(0.5, 2)
            if each.affine:
                nn.init.normal_(each.weight)
                nn.init.normal_(each.bias)
    return module.double().eval()


def fused(module, *inputs):
    """The fused graph module after checking that it computes what the module does."""
    inputs = [x.double() for x in inputs]
    graph_module = fxlib.symbolic_trace(module)
    propagate(graph_module, *inputs)
    before = module(*inputs)
    result = fuse_conv_bn(graph_module)
    torch.testing.assert_close(result(*inputs), before, rtol=1e-10, atol=1e-10)
    return result, result.meta["fuse_conv_bn"]


def norms(graph_module):
    return sum(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in graph_module.modules())


PAIRS = [
    (nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6), (2, 4, 9)),
    (nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), (2, 4, 9, 9)),
    (nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8, eps=0.1), (2, 4, 9, 9)),
    (nn.Conv2d(4, 4, 3, groups=4, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4), (2, 4, 9, 9)),
    (nn.Conv2d(4, 6, 3, dilation=2), nn.BatchNorm2d(6, affine=False), (2, 4, 9, 9)),
    (nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), (2, 2, 5, 5, 5)),
    (nn.ConvTranspose1d(4, 6, 3), nn.BatchNorm1d(6), (2, 4, 9)),
    (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    (nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    (nn.ConvTranspose3d(2, 4, 3, groups=2), nn.BatchNorm3d(4), (2, 2, 4, 4, 4)),
    (nn.Linear(5, 7), nn.BatchNorm1d(7), (3, 5)),
    (nn.Linear(5, 7, bias=False), nn.BatchNorm1d(7), (3, 5)),
]


@pytest.mark.parametrize(
    ("layer", "norm", "shape"), PAIRS, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else None
)
def test_pairs_are_folded(layer, norm, shape):
    result, report = fused(settled(nn.Sequential(layer, norm, nn.ReLU())), torch.randn(shape))
    assert len(report.fused) == 1 and not report.refused and norms(result) == 0
    assert [n.op for n in result.graph.nodes].count("call_module") == 2


class ReusedConv(nn.Module):
    def __init__(self, same_norm):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.a, self.b = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.same_norm = same_norm

    def forward(self, x):
        x = self.a(self.conv(x))
        return (self.a if self.same_norm else self.b)(self.conv(x))


@pytest.mark.parametrize("same_norm", [True, False])
def test_convolution_used_twice(same_norm):
    result, report = fused(settled(ReusedConv(same_norm)), torch.randn(1, 3, 8, 8))
    assert len(report.fused) == 2 and norms(result) == 0
    assert sum(isinstance(m, nn.Conv2d) for m in result.modules()) == (1 if same_norm else 2)


def test_convolution_used_once_more_without_a_norm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

        def forward(self, x):
            return self.conv(self.bn(self.conv(x))) + self.conv.weight.sum()

    result, report = fused(settled(Net()), torch.randn(1, 3, 8, 8))
    assert len(report.fused) == 1 and norms(result) == 0


def test_norm_used_after_two_convolutions_and_alone():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.bn = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)

        def forward(self, x):
            return self.bn(self.b(self.bn(self.a(self.bn(x)))))

    result, report = fused(settled(Net()), torch.randn(1, 3, 8, 8))
    assert len(report.fused) == 2 and len(report.refused) == 1 and norms(result) == 1


def test_shared_weight_keeps_its_value_elsewhere():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.bn = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.b(self.bn(self.a(x)))

    module = settled(Net())
    weight = module.a.weight.detach().clone()
    _, report = fused(module, torch.randn(3, 4))
    assert len(report.fused) == 1 and torch.equal(module.a.weight, weight)


class TwoReaders(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        y = self.conv(x)
        return self.bn(y) + y


class FunctionalTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x):
        return F.batch_norm(self.conv(x), self.bn.running_mean, self.bn.running_var, training=True)


class LinearOverSequence(nn.Module):
    """The norm runs over positions, of which there are as many as channels: folding would be wrong and fit."""

    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(5, 7), nn.BatchNorm1d(7)

    def forward(self, x):
        return self.bn(self.fc(x))


def hooked():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    net[0].register_forward_hook(lambda m, a, out: out * 2)
    return net


def parametrized():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    nn.utils.parametrizations.weight_norm(net[0])
    return net


def patched():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    plain = net[0].forward
    net[0].forward = lambda x: plain(x) * 2
    return net


@pytest.mark.parametrize(
    ("make", "shape", "reason"),
    [
        (TwoReaders, (1, 3, 4, 4), "also used by add"),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3, track_running_stats=False)),
            (2, 3, 4, 4),
            "no running statistics",
        ),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.BatchNorm2d(3)),
            (2, 3, 4, 4),
            "before it is ReLU '1'",
        ),
        (FunctionalTraining, (2, 3, 4, 4), "`training` argument"),
        (LinearOverSequence, (2, 7, 5), "3-D result"),
        (hooked, (2, 3, 4, 4), "has hooks"),
        (patched, (2, 3, 4, 4), "functions of its own"),
        (parametrized, (2, 3, 4, 4), "ParametrizedConv2d"),
    ],
)
def test_left_alone_with_the_reason(make, shape, reason):
    _result, report = fused(settled(make()), torch.randn(shape))
    assert not report.fused and reason in report.refused[0].reason
    assert reason in str(report)


def test_training_mode_is_left_alone():
    module = settled(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)))
    module[1].train()
    report = find_conv_bn(fxlib.symbolic_trace(module))
    assert not report.fused and "training mode" in report.refused[0].reason


def test_linear_of_unknown_rank_is_left_alone():
    report = find_conv_bn(fxlib.symbolic_trace(settled(LinearOverSequence())))
    assert "propagate shapes first" in report.refused[0].reason


class Unbatched(nn.Module):
    """As many positions as channels: without a batch, folding would be wrong and fit."""

    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm, self.functional = nn.Conv1d(3, 7, 3), nn.BatchNorm1d(7), norm == "functional"

    def forward(self, x):
        x = self.conv(x)
        if self.functional:
            return F.batch_norm(x, self.norm.running_mean, self.norm.running_var)
        return self.norm(x)


@pytest.mark.parametrize("norm", ["module", "functional"])
def test_a_convolution_of_unknown_rank_is_left_alone(norm):
    model = settled(Unbatched(norm))
    unknown = fuse_conv_bn(fxlib.symbolic_trace(model))
    assert "propagate shapes first" in unknown.meta["fuse_conv_bn"].refused[0].reason
    alone, batch = torch.randn(3, 9).double(), torch.randn(2, 3, 9).double()
    torch.testing.assert_close(unknown(alone), model(alone))
    assert not fused(model, alone)[1].fused and len(fused(model, batch)[1].fused) == 1


def test_an_assertion_on_the_rank_stands_for_shapes():
    """timm's norms are functional, and assert four dimensions."""
    model = settled(timm.create_model("lcnet_050"))
    assert len(find_conv_bn(fxlib.symbolic_trace(model)).fused) == 27


class Functional(nn.Module):
    def __init__(self, order="functional"):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 3, 3, 3)), nn.Parameter(torch.randn(4))
        self.bn, self.order = nn.BatchNorm2d(4), order

    def forward(self, x):
        bn = self.bn
        y = F.conv2d(x, self.weight, bias=self.bias, padding=1)
        if self.order == "module":
            return bn(y)
        if self.order == "torch":
            return torch.batch_norm(y, bn.weight, bn.bias, bn.running_mean, bn.running_var, False, 0.1, 1e-3, False)
        return F.batch_norm(y, bn.running_mean, bn.running_var, bn.weight, bn.bias, False, 0.1, bn.eps)


class FunctionalTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.bn = nn.BatchNorm2d(6)

    def forward(self, x):
        return self.bn(F.conv_transpose2d(x, self.weight, None, 2, 0, 1, 2))


@pytest.mark.parametrize("order", ["functional", "module", "torch"])
def test_functional_forms(order):
    _, report = fused(settled(Functional(order)), torch.randn(2, 3, 6, 6))
    assert len(report.fused) == 1


def test_functional_transposed_with_groups():
    _, report = fused(settled(FunctionalTransposed()), torch.randn(2, 4, 5, 5))
    assert report.fused[0].kind == "conv_transpose2d-bn"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dtype_device_format_and_grad_are_kept(dtype):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(dtype).to(memory_format=torch.channels_last).eval()
    net[0].weight.requires_grad_(False)
    result = fuse_conv_bn(fxlib.symbolic_trace(net))
    weight = result.get_submodule("0").weight
    assert weight.dtype is dtype and result.get_submodule("0").bias.dtype is dtype
    assert weight.is_contiguous(memory_format=torch.channels_last) and not weight.requires_grad


def test_the_model_itself_is_not_changed():
    module = settled(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)))
    before = copy.deepcopy(module.state_dict())
    fuse_conv_bn(fxlib.symbolic_trace(module))
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert isinstance(module[1], nn.BatchNorm2d)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "densenet121", "googlenet"])
def test_models(name):
    import torchvision

    options = {"init_weights": False} if name == "googlenet" else {}
    model = settled(torchvision.models.get_model(name, weights=None, **options))
    result, report = fused(model, torch.randn(1, 3, 64, 64))
    left = {r.norm for r in report.refused}
    assert len(report.fused) > 15 and norms(result) == len(left)
    if name in ("resnet18", "mobilenet_v3_small", "googlenet"):
        assert not left


def test_fuse_is_the_mirror_of_torch_fx():
    from fxlib.experimental.optimization import fuse

    module = settled(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)))
    x = torch.randn(1, 3, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(fuse(module)(x), module(x))
    assert isinstance(module[1], nn.BatchNorm2d)


@pytest.mark.parametrize(
    ("name", "size", "folded"),
    [("lcnet_050", 64, 27), ("mobilenetv2_050", 64, 52), ("levit_128s", 224, 50), ("lambda_resnet26t", 256, 28)],
)
def test_models_of_timm(name, size, folded):
    """timm's norms assert the rank of what they are given, and carry an activation; levit's are over flattened rows."""
    model = settled(timm.create_model(name))
    result, report = fused(model, torch.randn(1, 3, size, size))
    assert len(report.fused) == folded
    # What is left follows no layer: a mean, a part of a split, a pooling.
    assert all("before it is" in each.reason for each in report.refused)
    assert not [n for n in result.graph.nodes if n.target is torch._assert and name != "levit_128s"]


def test_an_activation_after_a_folded_norm_is_fused_too():
    model = settled(timm.create_model("mobilenetv2_050")).float()
    x = torch.randn(1, 3, 64, 64)
    packed = optimize_for_inference(fxlib.symbolic_trace(model), x)
    called = [type(packed.get_submodule(n.target)) for n in packed.graph.nodes if n.op == "call_module"]
    assert nn.ReLU6 not in called and sum(issubclass(kind, PackedConv2d) for kind in called) == 52
    with torch.no_grad():
        torch.testing.assert_close(packed(x), model(x), rtol=1e-3, atol=1e-3)


class OfBuffers(fxlib.Tracer):
    """Records what forward does to buffers; the default tracer, as torch.fx's, runs it once and forgets it (FX210)."""

    proxy_buffer_attributes = True


class Written(nn.Module):
    """Layers and norms in turn; before each, what `writes` says happens to what they hold."""

    def __init__(self, writes, tied):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in writes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in writes)
        self.writes = writes
        if tied:
            self.layers[-1].weight = self.layers[0].weight

    def forward(self, x):
        for layer, norm, write in zip(self.layers, self.norms, self.writes, strict=True):
            if write is not None:
                WRITES[write](layer, norm)
            x = norm(layer(x)).relu()
        return x


WRITES = {
    "data": lambda layer, norm: layer.weight.data.add_(0.1),
    "detach": lambda layer, norm: layer.bias.detach().mul_(0.9),
    "view": lambda layer, norm: layer.weight.data[0].zero_(),
    "copy": lambda layer, norm: layer.weight.data.copy_(layer.weight.data * 1.1),
    "out": lambda layer, norm: torch.mul(layer.weight.data, 1.1, out=layer.weight.data),
    "foreach": lambda layer, norm: torch._foreach_add_([layer.weight.data], 0.1),
    "mean": lambda layer, norm: norm.running_mean.add_(1.0),
    "gamma": lambda layer, norm: norm.weight.data.mul_(1.1),
    "init": lambda layer, norm: nn.init.constant_(layer.weight, 0.2),
    "setitem": lambda layer, norm: layer.bias.data.__setitem__(0, 0.5),
}
EXACT = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-3, "atol": 1e-3}}
ATTACHED = {
    "weight_norm": nn.utils.parametrizations.weight_norm,
    "spectral_norm": nn.utils.parametrizations.spectral_norm,
    "weight_norm by hooks": nn.utils.weight_norm,
    "spectral_norm by hooks": nn.utils.spectral_norm,
    "hook": lambda layer: layer.register_forward_hook(lambda m, args, out: out * 2) and layer,
    "hook before": lambda layer: layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,)) and layer,
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("seed", range(30))
def test_writes_hooks_and_parametrizations_on_random_modules(seed):
    """Eager and fused agree in the first call and in the next ones, which see what was written."""
    random = Random(seed)
    writes = [random.choice([None, *WRITES]) for _ in range(random.randint(2, 4))]
    module = settled(Written(writes, tied=random.random() < 0.5))
    plain = [index for index, write in enumerate(writes) if write is None and index not in (0, len(writes) - 1)]
    for index in plain:
        module.layers[index] = ATTACHED[random.choice(list(ATTACHED))](module.layers[index])
    module.eval()
    eager = copy.deepcopy(module)
    for change, dtype in ((fuse_conv_bn, torch.float64), (lambda gm: pack_layers(fuse_conv_bn(gm)), torch.float32)):
        twin, reference = copy.deepcopy(module).to(dtype), copy.deepcopy(eager).to(dtype)
        graph_module = fxlib.GraphModule(twin, OfBuffers().trace(twin))
        x = torch.randn(1, 3, 6, 6, dtype=dtype)
        propagate(graph_module, x)
        result = change(graph_module)
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(result(x), reference(x), **EXACT[dtype])


@pytest.mark.parametrize("write", WRITES)
def test_a_layer_that_forward_writes_to_is_left_alone(write):
    module = settled(Written([write], tied=False))
    _, report = fused_twice(module, torch.randn(1, 3, 6, 6).double())
    assert not report.fused and "writes to a parameter or buffer" in report.refused[0].reason


def fused_twice(module, x):
    """The fused graph module after checking two calls, and the report."""
    reference = copy.deepcopy(module)
    result = fuse_conv_bn(fxlib.GraphModule(module, OfBuffers().trace(module)))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(result(x), reference(x), rtol=1e-10, atol=1e-10)
    return result, result.meta["fuse_conv_bn"]
