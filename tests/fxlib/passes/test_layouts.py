"""Code that depends on memory layout, or that visibly changes values in place, stays correct when convolutions are
packed or quantized.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.passes.layouts import keep_layouts
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_static
from fxlib.passes.quantize.report import relative_error


class Layers(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1)
        self.third, self.fc = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8 * 3 * 3, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return FORMS[self.form](self, x)


def lenet(m, x):
    y = F.max_pool2d(F.relu(m.first(x)), 2)
    return m.fc(y.view(y.size(0), -1))


def flat(m, x):
    y = m.first(x)
    return y.stride(0) * y.view(-1)


def shuffle(m, x):
    y = m.first(x)
    n, c, h, w = y.size()
    y = m.second(y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)).relu()
    return m.fc(F.max_pool2d(m.third(y), 2).reshape(n, -1))


def write_through_view(m, x):
    y = m.second(m.first(x))
    y.flatten(1).mul_(-1)
    return m.third(y)


def sum_in_place_ignored(m, x):
    y = m.first(x)
    y.add_(m.second(y))
    return m.third(y) * 2


def relu_in_place_ignored(m, x):
    y = m.first(x)
    m.relu(y)
    return m.second(y)


def pooled_before_relu_in_place(m, x):
    y = m.first(x)
    z = F.max_pool2d(y, 2)
    m.relu(y)
    return m.third(z), y


def halves_turned(m, x):
    return m.second(torch.cat(m.first(x).chunk(2, 1)[::-1], 1))


def halves_viewed(m, x):
    one, other = m.first(x).chunk(2, dim=1)
    return one.view(one.size(0), -1), other.view(other.size(0), -1)


def views_of_views(m, x):
    y = m.first(x)
    return y[:, :4].narrow(1, 1, 2).view(2, -1), y.transpose(2, 3).view(2, 8, 6, 2, 3)


FORMS = {
    f.__name__: f
    for f in (
        lenet, flat, shuffle, write_through_view, sum_in_place_ignored, relu_in_place_ignored,
        pooled_before_relu_in_place, halves_turned, halves_viewed, views_of_views,
    )
}  # fmt: skip


def first_of(value):
    return torch.cat([v.flatten() for v in value]) if isinstance(value, tuple) else value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["packed", "packed without shapes", "kernels", "qdq"])
def test_results_stay(form, how):
    torch.manual_seed(0)
    model = Layers(form).eval()
    graph_module, x = fxlib.symbolic_trace(model), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = first_of(model(x.clone()))
        if how in ("kernels", "qdq"):
            result = quantize_static(graph_module, [x.clone(), torch.randn(2, 3, 8, 8)], form=how)
        else:
            result = optimize_for_inference(graph_module, *([x] if how == "packed" else []))
        for _ in range(2):  # the second run has the packed weights
            error = relative_error(first_of(result(x.clone())), expected)
            assert error < (0.04 if how in ("kernels", "qdq") else 1e-5)


def test_layouts_are_kept_only_where_they_are_read():
    graph_module = fxlib.symbolic_trace(Layers("lenet"))
    fxlib.shapes.propagate(graph_module, torch.empty(2, 3, 8, 8))
    code = keep_layouts(graph_module).code
    assert code.count("contiguous()") == 1 and code.index("contiguous()") > code.index("max_pool2d(")
    assert keep_layouts(fxlib.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))).code.count("contiguous") == 0
    strided = fxlib.symbolic_trace(Layers("lenet"))
    fxlib.shapes.propagate(strided, torch.empty(2, 3, 8, 8))
    for node in strided.graph.nodes:
        if node.name == "max_pool2d":
            node.meta["tensor_meta"] = node.meta["tensor_meta"]._replace(stride=(72, 1, 24, 8))
    assert keep_layouts(strided).code.count("contiguous") == 0
