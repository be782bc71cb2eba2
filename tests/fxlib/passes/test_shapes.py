"""Fast shapes against fake tensors: the same shape, dtype, strides, device and requires_grad."""

import operator

import pytest
import torch
import torch.fx as oracle
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils._pytree import tree_leaves
from torchvision.models.swin_transformer import shifted_window_attention
from torchvision.ops import stochastic_depth

import fxlib.shapes.kernel as kernel
from fxlib.shapes import DataDependentError, ShapeError, TensorMeta, clear, infer, map_values, propagate

t = torch.empty


def described(value):
    return map_values(value, lambda v: TensorMeta.of(v) if isinstance(v, torch.Tensor) else v)


def truth(call, *args, **kwargs):
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = {}

    def convert(v):
        if isinstance(v, torch.Tensor):
            return fake.setdefault(id(v), mode.from_tensor(v))
        return v

    with mode:
        return described(call(*map_values(args, convert), **map_values(kwargs, convert)))


def leaves(value):
    return [
        repr((type(v).__name__, v, getattr(v, "device", None), getattr(v, "requires_grad", None)))
        for v in tree_leaves(value)
    ]


CASES = [
    # made from sizes and numbers alone
    (torch.arange, (7,), {}),
    (torch.arange, (2, 11, 3), {"dtype": torch.int32}),
    (torch.arange, (5, 0, -2), {"device": torch.device("cpu")}),
    (torch.arange, (0.0, 1.0, 0.25), {}),
    (torch.zeros, (2, 3), {}),
    (torch.ones, ((2, 3),), {"dtype": torch.bool}),
    (torch.empty, ((),), {"device": "cpu"}),
    (torch.rand, (0, 4), {}),
    (torch.full, ((2, 2), 1), {}),
    (torch.full, ((3,), True), {"dtype": torch.float64}),
    # elementwise: broadcasting, promotion, memory order
    (torch.add, (t(3, 1), t(4)), {}),
    (operator.add, (t(2, 3), 1), {}),
    (operator.add, (2.5, t(3, dtype=torch.int32)), {}),
    (operator.mul, (t(3, dtype=torch.int8), t((), dtype=torch.float64)), {}),
    (operator.truediv, (t(3, dtype=torch.int64), 2), {}),
    (
        operator.add,
        (t(2, 3, 4, 5).to(memory_format=torch.channels_last), t(2, 3, 4, 5).to(memory_format=torch.channels_last)),
        {},
    ),
    (operator.add, (t(4, 3).t(), t(3, 4)), {}),
    (operator.mul, (t(4, 3).t(), 2), {}),
    (operator.add, (t(3, 4)[:, ::2], 1), {}),
    (operator.add, (t(3, dtype=torch.bool), True), {}),
    (torch.relu, (t(3, 4),), {}),
    (torch.sigmoid, (t(3, dtype=torch.int64),), {}),
    (operator.add, (t(3, dtype=torch.float16), t(3, dtype=torch.bfloat16)), {}),
    (operator.eq, (t(3, 1), t(4)), {}),
    (torch.where, (t(3, dtype=torch.bool), t(3), 0.0), {}),
    (torch.where, (t(3, dtype=torch.bool), t((), dtype=torch.float64), t(3)), {}),
    (torch.clamp, (t(3, dtype=torch.int64), 0.5), {}),
    (torch.clamp, (t(3),), {"min": 0}),
    (torch.pow, (t(3, dtype=torch.int64), 0.5), {}),
    (torch.div, (t(5, dtype=torch.int64), 2), {"rounding_mode": "floor"}),
    (operator.iadd, (t(3, 4), t(4)), {}),
    (torch.masked_fill, (t(2, 3), t(3, dtype=torch.bool), 0.0), {}),
    (torch.exp, (t(0, 3),), {}),
    (operator.neg, (t(3, 4).t(),), {}),
    (F.gelu, (t(2, 3),), {"approximate": "tanh"}),
    (F.dropout, (t(2, 3), 0.5, True, False), {}),
    (torch.addcmul, (t(3), t(3), t(3)), {}),
    # views and indexing
    (torch.flatten, (t(2, 3, 4), 1), {}),
    (torch.flatten, (t(2, 3, 1, 1).to(memory_format=torch.channels_last), 1), {}),
    (torch.reshape, (t(2, 6), (-1, 3)), {}),
    (torch.reshape, (t(6, 2).t(), (3, 4)), {}),
    (torch.squeeze, (t(1, 3, 1),), {}),
    (torch.squeeze, (t(1, 3, 1), 0), {}),
    (torch.unsqueeze, (t(2, 3), -1), {}),
    (torch.unsqueeze, (t(3, 2).t(), 1), {}),
    (torch.transpose, (t(2, 3, 4), 1, -1), {}),
    (torch.permute, (t(2, 3, 4), (2, 0, 1)), {}),
    (torch.chunk, (t(7, 2), 3), {}),
    (torch.split, (t(7, 2), 3), {}),
    (torch.split, (t(7, 2), [3, 4], 0), {}),
    (torch.unbind, (t(3, 4), 1), {}),
    (operator.getitem, (t(4, 5, 6), (slice(None), 2, None, slice(1, None, 2))), {}),
    (operator.getitem, (t(4, 5), (Ellipsis, -1)), {}),
    (operator.getitem, (t(4, 5), slice(3, 1)), {}),
    (operator.getitem, (t(4, 5), t(7, dtype=torch.int64)), {}),
    (operator.getitem, (t(4, 5), None), {}),
    (torch.cat, ([t(2, 3), t(2, 4)], 1), {}),
    (torch.stack, ([t(2, 3), t(2, 3)], 1), {}),
    (torch.cat, ([t(2, 3, 4, 4).to(memory_format=torch.channels_last)] * 2, 1), {}),
    (F.pad, (t(2, 3, 4), (1, 2)), {}),
    (F.pad, (t(2, 3, 4), (1, 1), "reflect"), {}),
    (torch.movedim, (t(2, 3, 4), 0, 2), {}),
    (torch.tril, (t(4, 4),), {}),
    (torch.narrow, (t(5, 4), 0, 1, 3), {}),
    (torch.select, (t(5, 4), 1, 2), {}),
    (torch.gather, (t(3, 4), 1, t(3, 2, dtype=torch.int64)), {}),
    (torch.index_select, (t(3, 4), 1, t(5, dtype=torch.int64)), {}),
    (torch.zeros_like, (t(3, 4).t(),), {}),
    (torch.roll, (t(3, 4), 1), {}),
    (torch.arange, (5,), {}),
    (torch.zeros, (2, 3), {"dtype": torch.int32}),
    (torch.full, ((2, 3), 1.0), {}),
    # layers
    (F.conv2d, (t(2, 3, 9, 9), t(8, 3, 3, 3), None, 2, 1), {}),
    (F.conv1d, (t(2, 4, 9), t(8, 2, 3)), {"groups": 2, "padding": "same"}),
    (F.conv2d, (t(2, 3, 9, 9).to(memory_format=torch.channels_last), t(8, 3, 3, 3)), {}),
    (F.linear, (t(2, 5, 3), t(4, 3), t(4)), {}),
    (F.conv_transpose2d, (t(2, 3, 9, 9), t(3, 8, 3, 3)), {"stride": 2}),
    (F.max_pool2d, (t(2, 3, 9, 9), 3, 2, 1), {"ceil_mode": True}),
    (F.max_pool2d, (t(2, 3, 9, 9), 2), {"return_indices": True}),
    (F.avg_pool2d, (t(2, 3, 9, 9), 2), {}),
    (F.max_pool2d, (t(1, 3, 6, 6), 3, 3, 0, 1, True), {}),
    (F.adaptive_avg_pool2d, (t(2, 3, 9, 9), (1, None)), {}),
    (F.adaptive_avg_pool2d, (t(2, 3, 9, 9).to(memory_format=torch.channels_last), 1), {}),
    (F.layer_norm, (t(2, 5, 8), (8,)), {}),
    (F.group_norm, (t(2, 8, 4), 2), {}),
    (F.embedding, (t(2, 5, dtype=torch.int64), t(10, 4)), {}),
    (F.interpolate, (t(2, 3, 4, 4),), {"scale_factor": 2.0}),
    (F.scaled_dot_product_attention, (t(2, 4, 8, 16),) * 3, {}),
    (torch.matmul, (t(2, 3, 4), t(4, 5)), {}),
    (torch.matmul, (t(4), t(2, 4, 5)), {}),
    (torch.matmul, (t(2, 1, 3, 4), t(1, 6, 4, 5)), {}),
    (torch.bmm, (t(2, 3, 4), t(2, 4, 5)), {}),
    (torch.baddbmm, (t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), {}),
    (torch.mm, (t(4, 3).t(), t(4, 5)), {}),
    (torch.einsum, ("bij,bjk->bik", t(2, 3, 4), t(2, 4, 5)), {}),
    (F.softmax, (t(2, 3), -1), {}),
    (F.softmax, (t(2, 3), 1), {"dtype": torch.float64}),
    # reductions
    (torch.mean, (t(2, 3, 4), [1, 2]), {"keepdim": True}),
    (torch.sum, (t(2, 3, dtype=torch.int32),), {}),
    (torch.max, (t(2, 3), 1), {}),
    (torch.max, (t(2, 3),), {}),
    (torch.max, (t(2, 3), t(2, 3)), {}),
    (torch.argmax, (t(2, 3), -1), {}),
    (torch.var, (t(2, 3), 1), {}),
    (torch.amax, (t(2, 3), (0, 1)), {}),
    (torch.cumsum, (t(2, 3, dtype=torch.int32), 1), {}),
    (torch.sum, (t(4, 3, 2).permute(2, 0, 1), 1), {}),
    (torch.topk, (t(2, 9), 3), {}),
    (torch.sort, (t(2, 9),), {}),
    (torch.std, (t(2, 3, 4), (1, 2), True), {}),
    (torch.all, (t(3, 4), 1), {}),
    # functions that traces of torchvision's models leave whole
    (stochastic_depth, (t(2, 3), 0.2, "row", False), {}),
    *(
        (
            shifted_window_attention,
            (t(*image, 6), t(18, 6), t(6, 6), t(1, 3, 8, 8), [4, 2], 3, shift),
            {"qkv_bias": t(18), "proj_bias": t(6), "logit_scale": scale, "training": False},
        )
        for image, shift, scale in (
            ((1, 8, 4), [0, 0], None),
            ((2, 8, 4), [2, 1], None),
            ((2, 7, 3), [2, 1], t(3, 1, 1)),
            ((1, 7, 4), [0, 0], None),  # padded, with a dimension of size 1: by torch's kernels
            ((1, 1, 3), [2, 1], None),
        )
    ),
    # aten overloads, as in exported graphs
    (torch.ops.aten.add.Tensor, (t(3, 1), t(4)), {}),
    (torch.ops.aten.native_layer_norm.default, (t(2, 3), [3], None, None, 1e-5), {}),
    (
        torch.ops.aten.convolution.default,
        (t(2, 3, 9, 9), t(8, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        {},
    ),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_function_equals_fake_tensor(function, args, kwargs):
    clear()
    assert leaves(infer("call_function", function, args, kwargs)) == leaves(truth(function, *args, **kwargs))


METHOD_CASES = [
    ("view", (t(2, 6), 3, -1), {}),
    ("reshape", (t(6, 2).t(), -1), {}),
    ("expand", (t(3, 1), 2, -1, 4), {}),
    ("expand", (t(1), 1, 3), {}),
    ("repeat", (t(3, 1), 2, 1, 4), {}),
    ("permute", (t(2, 3, 4), 0, 2, 1), {}),
    ("contiguous", (t(3, 2).t(),), {}),
    ("size", (t(2, 3),), {}),
    ("size", (t(2, 3), -1), {}),
    ("dim", (t(2, 3),), {}),
    ("float", (t(3, 2, dtype=torch.int64).t(),), {}),
    ("to", (t(2, 3), torch.float16), {}),
    ("to", (t(2, 3), "cpu", torch.int32), {}),
    ("type_as", (t(2), t(3, dtype=torch.int64)), {}),
    ("masked_fill", (t(2, 3), t(3, dtype=torch.bool), 0), {}),
    ("add_", (t(2, 3), t(3)), {}),
    ("softmax", (t(2, 3),), {"dim": 1}),
    ("mean", (t(2, 3), 1), {}),
    ("max", (t(2, 3), 1), {}),
    ("chunk", (t(6, 2), 3), {}),
    ("split", (t(6, 2), 4), {}),
    ("new_zeros", (t(2), 3, 4), {}),
    ("flatten", (t(2, 3, 4),), {}),
    ("t", (t(2, 3),), {}),
    ("unflatten", (t(2, 6), 1, (2, -1)), {}),
    ("to", (t(2, 3, 4, 5),), {"memory_format": torch.channels_last}),
    ("unsqueeze", (t(2), 0), {}),
    ("squeeze", (t(2, 1), -1), {}),
    ("unfold", (t(8), 0, 3, 2), {}),
    ("numel", (t(2, 3),), {}),
    ("element_size", (t(2),), {}),
    ("is_floating_point", (t(2),), {}),
    ("abs", (t(3, dtype=torch.complex64),), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), METHOD_CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_method_equals_fake_tensor(name, args, kwargs):
    clear()
    expected = truth(lambda x, *rest, **named: getattr(x, name)(*rest, **named), *args, **kwargs)
    assert leaves(infer("call_method", name, args, kwargs)) == leaves(expected)


@pytest.mark.parametrize(
    "name", ["shape", "dtype", "device", "ndim", "T", "mT", "is_cuda", "requires_grad", "layout", "data", "itemsize"]
)
def test_attribute_equals_fake_tensor(name):
    expected = truth(lambda x: getattr(x, name), t(2, 3))
    assert leaves(infer("call_function", getattr, (t(2, 3), name))) == leaves(expected)


MODULES = [
    (nn.Conv2d(3, 8, 3, padding=1, bias=False), (t(2, 3, 9, 9),)),
    (nn.Conv2d(3, 8, 3, padding_mode="reflect", padding=1), (t(2, 3, 9, 9),)),
    (nn.Conv1d(3, 8, 3, padding_mode="circular", padding=2, dilation=2), (t(2, 3, 5),)),
    (nn.Conv2d(3, 8, 3, 2, padding_mode="replicate", padding=(2, 0)), (t(2, 3, 3, 9),)),
    (nn.Conv2d(3, 8, 3, padding_mode="circular", padding="same"), (t(2, 3, 9, 9),)),
    (nn.Conv2d(3, 8, 3, padding_mode="circular", padding=1), (t(2, 3, 9, 9).to(memory_format=torch.channels_last),)),
    (nn.Conv2d(3, 8, 1).to(memory_format=torch.channels_last), (t(2, 3, 9, 9),)),
    (nn.Conv2d(1, 8, 3, padding_mode="reflect", padding=1).to(memory_format=torch.channels_last), (t(2, 1, 9, 9),)),
    (nn.ConvTranspose2d(3, 8, 1).to(memory_format=torch.channels_last), (t(2, 3, 9, 9),)),
    (nn.Conv1d(4, 8, 3, dilation=2, groups=4), (t(2, 4, 9),)),
    (nn.Conv3d(2, 4, 3), (t(2, 2, 5, 5, 5),)),
    (nn.Conv2d(3, 8, 3), (t(3, 9, 9),)),
    (nn.ConvTranspose2d(3, 8, 3, 2, output_padding=1), (t(2, 3, 9, 9),)),
    (nn.BatchNorm2d(3), (t(2, 3, 4, 4),)),
    (nn.BatchNorm2d(3).eval(), (t(2, 3, 4, 4).to(memory_format=torch.channels_last),)),
    (nn.BatchNorm1d(3), (t(2, 3),)),
    (nn.LayerNorm(4), (t(2, 3, 4),)),
    (nn.LayerNorm(4), (t(4, 3).t(),)),
    (nn.GroupNorm(2, 4), (t(2, 4, 3),)),
    (nn.InstanceNorm2d(3), (t(2, 3, 4, 4),)),
    (nn.Linear(3, 4), (t(2, 3),)),
    (nn.Linear(3, 4), (t(3, 2).t(),)),
    (nn.Linear(3, 4, bias=False), (t(2, 5, 3)[:, 0],)),
    (nn.Embedding(10, 4), (t(2, 3, dtype=torch.int64),)),
    (nn.Identity(), (t(2),)),
    (nn.LSTM(4, 5, batch_first=True, bidirectional=True), (t(2, 3, 4),)),
    (nn.GRU(4, 5), (t(2, 3, 4),)),
    (nn.Softmax(dim=1), (t(2, 3),)),
    (nn.MultiheadAttention(8, 2, batch_first=True), (t(2, 3, 8),) * 3),
    (nn.TransformerEncoderLayer(8, 2), (t(2, 3, 8),)),
    (nn.PReLU(), (t(2, 3),)),
    (nn.MaxPool2d(3, 2, ceil_mode=True), (t(2, 3, 8, 8),)),
    (nn.AdaptiveAvgPool2d(1), (t(2, 3, 8, 8),)),
    (nn.Flatten(), (t(2, 3, 4),)),
    (nn.Upsample(scale_factor=2), (t(2, 3, 4, 4),)),
    (nn.PixelShuffle(2), (t(2, 8, 3, 3),)),
    (nn.Dropout(), (t(2, 3),)),
    (nn.ReLU(), (t(2, 3),)),
    (nn.CrossEntropyLoss(), (t(2, 3), t(2, dtype=torch.int64))),
    (nn.Unflatten(1, (2, 2)), (t(2, 4),)),
    (nn.AvgPool2d(2), (t(2, 3, 5, 5),)),
]


@pytest.mark.parametrize(
    ("module", "args"), MODULES, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else None
)
def test_module_equals_fake_tensor(module, args):
    clear()
    root = nn.ModuleDict({"leaf": module})
    before = {name: v.clone() for name, v in module.state_dict().items()}
    assert leaves(infer("call_module", "leaf", args, {}, root)) == leaves(truth(module, *args))
    assert all(torch.equal(v, before[name]) for name, v in module.state_dict().items() if v.dtype.is_floating_point)
    assert isinstance(module._modules, dict) and not any(isinstance(p, TensorMeta) for p in module.parameters())


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.add, (t(3), t(4))),
        (torch.matmul, (t(2, 3), t(4, 5))),
        (F.conv2d, (t(1, 3, 2, 2), t(8, 3, 3, 3))),
        (torch.cat, ([t(2), t(2, 3)],)),
        (torch.flatten, (t(2, 3), 3)),
        (torch.reshape, (t(5), (2, 3))),
        (operator.getitem, (t(3), 5)),
        (F.linear, (t(2, 3), t(4, 5))),
        (torch.squeeze, (t(3), 2)),
        (torch.stack, ([t(2), t(3)],)),
        (operator.getitem, ((1, 2), 7)),
    ],
)
def test_refused_calls_raise_with_torchs_text(function, args):
    with pytest.raises(ShapeError):
        infer("call_function", function, args)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.nonzero, (t(3),)),
        (torch.unique, (t(3),)),
        (torch.masked_select, (t(3), t(3, dtype=torch.bool))),
        (operator.getitem, (t(3), t(3, dtype=torch.bool))),
        (float, (t(()),)),
        (bool, (t(()),)),
    ],
)
def test_answers_that_lie_in_the_data_are_told_apart(function, args):
    with pytest.raises(DataDependentError):
        infer("call_function", function, args)


def test_item_is_data_dependent():
    with pytest.raises(DataDependentError, match="item"):
        infer("call_method", "item", (t(()),))


sizes = st.lists(st.integers(1, 4), max_size=4)
dtypes = st.sampled_from(
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
)


@st.composite
def broadcastable(draw):
    shape = draw(sizes)
    tensors = []
    for _ in range(2):
        own = [draw(st.sampled_from([s, 1])) for s in shape][draw(st.integers(0, len(shape))) :]
        x = torch.empty(own, dtype=draw(dtypes))
        if draw(st.booleans()) and x.dim() >= 2:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        tensors.append(x)
    return tensors


@settings(max_examples=150, deadline=None)
@given(
    broadcastable(),
    st.sampled_from([operator.add, operator.mul, operator.truediv, operator.lt, torch.where, torch.maximum]),
)
def test_binary_operators_on_any_layout(pair, function):
    a, b = pair
    args = (torch.empty((), dtype=torch.bool), a, b) if function is torch.where else (a, b)
    assert leaves(infer("call_function", function, args)) == leaves(truth(function, *args))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_indexing_of_any_form(shape, data):
    x = torch.empty(shape)
    if data.draw(st.booleans()):
        x = x.permute(*reversed(range(x.dim())))
    index = tuple(
        data.draw(st.sampled_from([slice(None), slice(1, None), slice(None, -1), slice(None, None, 2), 0, -1, None]))
        for _ in range(data.draw(st.integers(1, x.dim())))
    )
    assert leaves(infer("call_function", operator.getitem, (x, index))) == leaves(truth(operator.getitem, x, index))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.scale = nn.Parameter(torch.ones(16))
        self.head = nn.Linear(16, 10)

    def forward(self, x, mask=None):
        x = self.stem(x)
        n, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x)[0]
        x = self.norm(x) * self.scale
        pooled = x.reshape(n, h, w, c).mean((1, 2))
        best = pooled.max(dim=1)
        return {"logits": self.head(pooled), "best": (best.values, best[1])}


@pytest.mark.parametrize("training", [True, False])
def test_whole_graph_equals_fake_tensor_prop(training):
    model = Mixed().train(training)
    graph_module = oracle.symbolic_trace(model)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    seen, expected = {}, {}

    class Recording(FakeTensorProp):
        def run_node(self, n):
            result = super().run_node(n)
            seen[n] = described(result)
            expected[n] = map_values(
                result, lambda v: _extract_tensor_metadata(v) if isinstance(v, torch.Tensor) else None
            )
            return result

    x = torch.randn(2, 3, 32, 32)
    Recording(graph_module, mode).propagate(x)
    out = propagate(graph_module, x)
    assert leaves(out) == leaves(seen[next(iter(reversed(graph_module.graph.nodes)))])
    for node, was in expected.items():
        mine = map_values(node.meta.get("tensor_meta"), lambda v: v)
        if any(leaf is not None for leaf in tree_leaves(was)):
            assert repr(mine) == repr(was), node
        else:
            assert mine is None, node


def test_error_names_the_node():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            return self.head(x.flatten(1))

    with pytest.raises(
        ShapeError, match=r"(?s)mat1 and mat2.*'head'|size mismatch.*'head'|a and b must have same.*'head'"
    ):
        propagate(oracle.symbolic_trace(Wrong()), torch.empty(2, 2, 2))
    with pytest.raises(ShapeError, match=r"^Linear: "):
        propagate(oracle.symbolic_trace(nn.Sequential(nn.Linear(3, 4))), torch.empty(2, 2))


def test_meta_parameters_do_with_cpu_inputs():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LSTM(4, 4))
    out = propagate(oracle.symbolic_trace(model), torch.empty(2, 5, 3))
    assert out[0].shape == (2, 5, 4) and out[0].device.type == "cpu"


def test_a_part_that_runs_in_parallel_gives_what_its_module_gives():
    out = propagate(oracle.symbolic_trace(nn.Sequential(nn.DataParallel(nn.Linear(4, 3)))), torch.empty(2, 4))
    assert out.shape == (2, 3)


def test_results_are_remembered(monkeypatch):
    clear()
    calls = []
    real = kernel._by_fake
    monkeypatch.setattr(kernel, "_by_fake", lambda *a, **k: calls.append(a) or real(*a, **k))
    stack = nn.Sequential(*[nn.TransformerEncoderLayer(8, 2, batch_first=True) for _ in range(6)])
    propagate(oracle.symbolic_trace(stack), torch.empty(2, 3, 8))
    assert len(calls) == 2  # the first layer's input needs no grad, the others' does


@pytest.mark.parametrize(
    ("kind", "one", "other", "args"),
    [
        (nn.MSELoss, {}, {"reduction": "none"}, (t(4, 5), t(4, 5))),
        (nn.CosineSimilarity, {"dim": 0}, {"dim": 1}, (t(4, 5), t(4, 5))),
        (nn.FractionalMaxPool2d, {"output_size": 3}, {"output_size": 4}, (t(1, 2, 8, 8),)),
        (nn.AdaptiveMaxPool2d, {}, {"return_indices": True}, (t(2, 8, 8),)),
        (nn.MultiheadAttention, {}, {"batch_first": True}, (t(3, 5, 8),) * 3),
    ],
    ids=lambda v: v.__name__ if isinstance(v, type) else "",
)
def test_modules_that_print_alike_have_their_own_results(kind, one, other, args):
    clear()
    first = {nn.MultiheadAttention: (8, 2), nn.CosineSimilarity: (), nn.MSELoss: ()}.get(kind, (2,))
    modules = [kind(*first, **options) for options in (one, other)]
    assert repr(modules[0]) == repr(modules[1])
    for module in modules:
        root = nn.ModuleDict({"leaf": module})
        assert leaves(infer("call_module", "leaf", args, {}, root)) == leaves(truth(module, *args))


def test_user_function_that_changes_a_list_leaves_the_graph_alone():
    def takes(x, window):
        window[0] = 1
        return x.view(-1, window[0])

    graph = oracle.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(takes, (x, [2, 2]))
    graph.output(node)
    out = propagate(oracle.GraphModule(nn.Module(), graph), torch.empty(4, 2))
    assert out.shape == (8, 1) and list(node.args[1]) == [2, 2]
