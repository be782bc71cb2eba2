"""`fxlib.lower` as a user calls it: whole models, models in parts, dynamic sizes, precision, saving, errors."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn as nn
import torch.utils._pytree as pytree

import fxlib
from examples.deep_recommender import DeepRecommender
from examples.learning_to_paint import Actor
from examples.mlp import Mlp
from examples.mlp_mixer import MlpMixer
from examples.resnet50 import ResNet50
from fxlib.lowering import EngineError, UntrustedModel, load
from fxlib.lowering.onnx import registry


@fxlib.wrap
def halve_odd_rows(x):
    """A function that only Python can run: it looks at the data."""
    return x / 2 if float(x.sum()) > 1e9 else x * 0.5


class Middle(nn.Module):
    """An unsupported operator between two convertible parts."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.after = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))

    def forward(self, x):
        y = self.before(x)
        y = halve_odd_rows(y)
        return self.after(y)


class Diamond(nn.Module):
    """Parts that would depend on each other in a circle if they were joined carelessly."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = torch.tanh(self.a(x)) * 2 + 1
        z = halve_odd_rows(y)
        w = torch.tanh(self.b(y)) - 3 * y
        u = torch.tanh(self.c(z)) + w * 2
        return u + z, w


class Named(nn.Module):
    """Tuples whose items are read by name and place: of an engine, of PyTorch, and as a whole."""

    def forward(self, x):
        y = x.relu() + x
        y.__setitem__((slice(None), 0), 1.0)
        largest, middle = y.max(dim=1), y.median(dim=1)
        places = torch.stack(torch.nonzero(y > 0, as_tuple=True)) + 1
        return largest.values * 2 + middle.values, middle[0] * 2, places * 2, largest, middle, x.shape


def test_results_keep_their_names(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    x = torch.randn(3, 8)
    lowered = fxlib.lower(Named().eval(), (x,), min_nodes=1)
    assert set(lowered.report.reasons) >= {"median", "nonzero", "stack"} and lowered.report.max_rel_error < 1e-5
    lowered.save(tmp_path / "named")
    expected = Named()(x)
    for got in (lowered(x), load(tmp_path / "named")(x)):
        assert [type(each) for each in got] == [type(each) for each in expected]
        assert got[3].values is got[3][0] and got[4].indices is got[4][1]
        torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(expected))


@pytest.mark.parametrize(
    "make, shape",
    [
        (ResNet50, (1, 3, 96, 96)),
        (Mlp, None),
        (MlpMixer, (1, 3, 224, 224)),
        (Actor, (1, 9, 128, 128)),
        (lambda: DeepRecommender(2000), (4, 2000)),
    ],
    ids=["resnet50", "mlp", "mixer", "actor", "recommender"],
)
def test_example_models_run_whole(make, shape) -> None:
    torch.manual_seed(0)
    model = make().eval()
    if shape is None:
        first = next(m for m in model.modules() if isinstance(m, nn.Linear))
        shape = (2, first.in_features)
    x = torch.randn(*shape)
    lowered = fxlib.lower(model, (x,))
    assert lowered.report.complete
    assert [p.engine for p in lowered.report.parts] == ["onnxruntime"]
    assert lowered.report.max_rel_error < 1e-4
    fresh = torch.randn(*shape)
    torch.testing.assert_close(lowered(fresh), model(fresh), rtol=1e-3, atol=1e-4)


def test_unsupported_operator_in_the_middle_stays_in_pytorch() -> None:
    model = Middle().eval()
    x = torch.randn(2, 3, 8, 8)
    lowered = fxlib.lower(model, (x,))
    report = lowered.report
    assert not report.complete
    assert [part.engine for part in report.parts] == ["onnxruntime", None, "onnxruntime"]
    assert list(report.reasons) == ["halve_odd_rows"]
    assert "halve_odd_rows" in str(report) and "stays in PyTorch" in str(report)
    torch.testing.assert_close(lowered(x), model(x), rtol=1e-4, atol=1e-5)


def test_reason_carries_the_source_line() -> None:
    report = fxlib.lower(Middle().eval(), (torch.randn(2, 3, 8, 8),)).report
    file, line, *_ = report.spans["halve_odd_rows"]
    with open(file) as source:
        assert "halve_odd_rows(y)" in source.read().splitlines()[line - 1]


def test_parts_do_not_depend_on_each_other_in_a_circle() -> None:
    model = Diamond().eval()
    x = torch.randn(3, 4)
    lowered = fxlib.lower(model, (x,), min_nodes=1)
    for want, have in zip(model(x), lowered(x), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)


def test_small_parts_stay_in_pytorch_with_the_reason() -> None:
    report = fxlib.lower(Diamond().eval(), (torch.randn(3, 4),), min_nodes=50).report
    assert all(part.engine is None for part in report.parts)
    assert any("fewer than 50" in reason for reason in report.reasons.values())


def test_dynamic_batch() -> None:
    model = ResNet50().eval()
    lowered = fxlib.lower(model, (torch.randn(2, 3, 64, 64),), dynamic=True)
    for batch in (1, 5):
        x = torch.randn(batch, 3, 64, 64)
        torch.testing.assert_close(lowered(x), model(x), rtol=1e-3, atol=1e-4)


class InPlace(nn.Module):
    def forward(self, x):
        y = x + 1
        z = y.mul_(2)
        return y + z  # both names mean the same tensor


class WritesInput(nn.Module):
    def forward(self, x):
        x.add_(1)
        return torch.tanh(x) * 2 - x


def test_in_place_results_are_read_under_both_names() -> None:
    x = torch.randn(2, 3)
    torch.testing.assert_close(fxlib.lower(InPlace().eval(), (x,), min_nodes=1)(x), InPlace()(x))


def test_writing_to_the_input_stays_in_pytorch_and_still_writes() -> None:
    model = WritesInput().eval()
    lowered = fxlib.lower(model, (torch.randn(2, 3),), min_nodes=1)
    assert "in place" in next(iter(lowered.report.reasons.values()))
    a, b = torch.ones(2, 3), torch.ones(2, 3)
    torch.testing.assert_close(lowered(a), model(b))
    torch.testing.assert_close(a, b)


@fxlib.wrap
def cleared(x):
    x.zero_()


class Cleared(nn.Module):
    def forward(self, x):
        h = x * 1.5
        flat = h.view(-1)
        before = h.sum() * 2 + 1, flat.sin().sum() * 2
        cleared(h)
        return before, h.sum() * 2 + 1, flat.cos().sum() * 2


def test_what_a_helper_writes_is_read_after_it_and_not_before() -> None:
    x = torch.randn(3, 4)
    lowered = fxlib.lower(Cleared().eval(), (x,), min_nodes=0)
    torch.testing.assert_close(lowered(x), Cleared()(x))
    assert any(part.engine for part in lowered.report.parts)


def test_keyword_arguments_and_default() -> None:
    class Scaled(nn.Module):
        def forward(self, x, y=None):
            return (x * 2).relu() + 1

    model = Scaled().eval()
    gm = fxlib.symbolic_trace(model, concrete_args={"y": None})
    x = torch.randn(2, 3)
    torch.testing.assert_close(fxlib.lower(gm.eval(), (x, None), min_nodes=1)(x, None), model(x))


def test_half_precision_keeps_the_outside_dtypes() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    x = torch.randn(3, 16)
    lowered = fxlib.lower(model, (x,), precision="fp16", min_nodes=1)
    assert lowered(x).dtype == torch.float32
    assert 1e-7 < lowered.report.max_rel_error < 5e-3


def test_the_arithmetic_of_the_calling_thread_stays_as_it_was() -> None:
    tiny, x = torch.tensor([1e-40]), torch.randn(2, 4)
    fxlib.lower(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval(), (x,))(x)
    flushed = not (tiny * 1).item()
    torch.set_flush_denormal(False)
    assert not flushed


class Rounded(nn.Module):
    def forward(self, x):
        return torch.log2(x).floor(), torch.log10(x).floor(), (x > 1e9).any(0), (x > 0).all(0)


@pytest.mark.parametrize("x", [torch.cat([2.0 ** torch.arange(1, 33), 10.0 ** torch.arange(10)]), torch.randn(0, 4)])
def test_powers_have_whole_logarithms_and_nothing_has_no_bits(x) -> None:
    lowered = fxlib.lower(Rounded().eval(), (x,), min_nodes=0)
    assert all(map(torch.equal, lowered(x), Rounded()(x)))
    assert any(part.engine for part in lowered.report.parts)


def test_weights_are_shared_not_copied() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()).eval()
    lowered = fxlib.lower(model, (torch.randn(1, 512),))
    held = {t.data_ptr() for _, part in lowered.engine_parts() for t in part.exported.parameters.values()}
    assert {p.data_ptr() for p in model.parameters() if p.dim() == 2} <= held


def test_every_onnx_node_names_its_fx_node_and_source() -> None:
    lowered = fxlib.lower(Middle().eval(), (torch.randn(2, 3, 8, 8),))
    for _, part in lowered.engine_parts():
        for node in part.exported.model.graph:
            assert node.metadata_props["fx.node"]
            assert node.name.startswith(node.metadata_props["fx.node"] + "/")
    spans = [
        n.metadata_props.get("fx.span", "") for _, part in lowered.engine_parts() for n in part.exported.model.graph
    ]
    assert all(__file__ in span for span in spans)


def test_save_and_load(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = Middle().eval()
    x = torch.randn(2, 3, 8, 8)
    lowered = fxlib.lower(model, (x,))
    lowered.save(tmp_path / "out")
    again = load(tmp_path / "out")
    torch.testing.assert_close(again(x), lowered(x))
    assert again.report.reasons == lowered.report.reasons
    torch.testing.assert_close(lowered(x), model(x), rtol=1e-4, atol=1e-5)  # saving changed nothing


class Found(NamedTuple):
    scores: torch.Tensor
    parts: Any


class Naming(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        y = self.inner(x)
        return Found(y.relu() * 2, [Found(y, {"last": y + 1})])


def test_named_tuples_are_returned(tmp_path) -> None:
    model, x = Naming().eval(), torch.randn(2, 4)
    lowered = fxlib.lower(model, (x,))
    assert lowered.engine_parts() and lowered.report.mismatch is None
    lowered.save(tmp_path / "out")
    for run in (lowered, load(tmp_path / "out")):
        found = run(x)
        assert type(found) is Found and type(found.parts[0]) is Found
        torch.testing.assert_close(found, model(x))


class Noisy(nn.Module):
    """Noise that takes no tensor, on the device of a value."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        mean, spread = self.mean(x).tanh() + 1, self.spread(x).exp() * 2
        noise = torch.randn(mean.shape, device=mean.device)
        return mean + spread * noise, x.device, x.device.type, x.is_meta


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_each_call_draws_its_own_noise_on_the_device_of_the_model(capture, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, x = Noisy().eval(), torch.randn(3, 8)
    lowered = fxlib.lower(model, (x,), capture=capture)
    assert lowered.engine_parts() and lowered.report.codes["randn"] == "FX406" and lowered.report.max_rel_error < 1e-5
    lowered.save(tmp_path / "noisy")
    for call in (lowered, load(tmp_path / "noisy")):
        for seed in (0, 1):
            torch.manual_seed(seed)
            (expected, *kinds), _ = model(x), torch.manual_seed(seed)
            got, *others = call(x)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
            assert others == kinds == [torch.device("cpu"), "cpu", False]


def test_a_changed_model_is_not_loaded(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fxlib.lower(Middle().eval(), (torch.randn(2, 3, 8, 8),)).save(tmp_path / "out")
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "engine": "other"}))
    with pytest.raises(UntrustedModel, match="changed since"):
        load(tmp_path / "out")


def test_a_model_of_somebody_else_is_not_loaded(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    fxlib.lower(Middle().eval(), (torch.randn(2, 3, 8, 8),)).save(tmp_path / "out")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
    with pytest.raises(UntrustedModel):
        load(tmp_path / "out")


def test_errors_say_what_to_do() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"call \.eval\(\)"):
        fxlib.lower(model, (torch.randn(1, 2),))
    with pytest.raises(EngineError, match="the engines are"):
        fxlib.lower(model.eval(), (torch.randn(1, 2),), engine="abacus")
    with pytest.raises(ValueError, match="fp16"):
        fxlib.lower(model.eval(), (torch.randn(1, 2),), precision="int4")


def test_progress_is_reported() -> None:
    seen: list[tuple[str, float]] = []
    fxlib.lower(Middle().eval(), (torch.randn(2, 3, 8, 8),), progress=lambda stage, done: seen.append((stage, done)))
    assert seen[0][0] == "trace" and seen[-1] == ("done", 1.0)
    assert [d for _, d in seen] == sorted(d for _, d in seen)


class Framed(nn.Module):
    """A frame around what is transposed before and back after, as images with their channels last are."""

    def __init__(self, amounts: tuple[int, ...], order: tuple[int, ...]) -> None:
        super().__init__()
        self.amounts, self.order = amounts, order
        self.back = tuple(map(order.index, range(len(order))))

    def forward(self, x):
        y = nn.functional.pad(torch.relu(x.permute(self.order)), self.amounts)
        return torch.relu(y.permute(self.back)) + 1


@pytest.mark.parametrize(
    ("amounts", "order"), [((0, 0, 1, 2, 3, 4), (0, 2, 3, 1)), ((4, 4), (0, 2, 1)), ((1, 2, 3, 4, 5, 6), (2, 0, 1))]
)
def test_a_pad_between_transposes(amounts, order) -> None:
    x = torch.randn((3, 4, 5, 6)[: len(order)])
    model = Framed(amounts, order).eval()
    lowered = fxlib.lower(model, (x,), min_nodes=1)
    assert lowered.report.complete
    torch.testing.assert_close(lowered(x), model(x))


class Sinc(nn.Module):
    def forward(self, x):
        return torch.sinc(x * 2 + 1).relu() * 3


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda ctx, x: ctx.op("Unsqueeze", x, ctx.constant([0])),
        lambda ctx, x: ctx.op("Slice", x, ctx.constant([0]), ctx.constant([1]), ctx.constant([1])),
        lambda ctx, x: ctx.op("Conv", x, x),
    ],
    ids=["another rank", "another size", "no such form"],
)
def test_what_an_engine_cannot_run_stays_in_pytorch(engine, wrong, monkeypatch) -> None:
    """A converter that is wrong stands for whatever an engine computes otherwise."""
    monkeypatch.setitem(registry.FUNCTIONS, torch.sinc, wrong)
    lowered = fxlib.lower(Sinc().eval(), (torch.randn(2, 3),), engine=engine, min_nodes=1)
    assert re.search("node 'sinc'|sinc/Conv", lowered.report.reasons["sinc"])
    x = torch.randn(2, 3)
    torch.testing.assert_close(lowered(x), Sinc()(x))


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_an_example_that_gives_one_tensor_twice_makes_two_inputs(capture) -> None:
    x, y, z = torch.randn(3, 2, 4).unbind()
    lowered = fxlib.lower(Both().eval(), (x, x), capture=capture, min_nodes=1)
    torch.testing.assert_close(lowered(y, z), Both()(y, z))


class Both(nn.Module):
    def forward(self, x, y):
        return x * 2 + y.relu()


def test_a_size_that_may_be_one_is_not_squeezed_away() -> None:
    class Squeezed(nn.Module):
        def forward(self, x):
            return (x * 2 + 1).squeeze()

    for rows in (1, 3):
        lowered = fxlib.lower(Squeezed().eval(), (torch.randn(rows, 8),), dynamic=True, min_nodes=1)
        for x in (torch.randn(1, 8), torch.randn(5, 8)):
            torch.testing.assert_close(lowered(x), Squeezed()(x))


def test_the_size_of_an_identity_matrix_may_change() -> None:
    class Sized(nn.Module):
        def forward(self, x):
            return torch.eye(x.shape[0]) * 2 + 1

    lowered = fxlib.lower(Sized().eval(), (torch.randn(4, 8),), dynamic=True, min_nodes=1)
    torch.testing.assert_close(lowered(x := torch.randn(7, 8)), Sized()(x))


class OnDevice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x).relu() * 2 + 1
        return y + torch.zeros(y.shape, device=x.device).bernoulli_(0.0), x.device.type, y.is_meta, y.max(dim=1)


def test_devices_are_those_of_the_run_and_results_keep_their_names() -> None:
    model = OnDevice().eval()
    lowered = fxlib.lower(model, (torch.randn(3, 8),), capture="fx")
    result, device, meta, top = lowered(x := torch.randn(3, 8))
    torch.testing.assert_close(result, model(x)[0])
    assert (device, meta) == ("cpu", False)
    torch.testing.assert_close(top.values, model(x)[3].values)


def test_a_saved_model_draws_and_makes_tensors_anew_in_each_call(tmp_path) -> None:
    class Made(nn.Module):
        def forward(self, x):
            total = torch.zeros(x.shape[0], 4).index_add(0, x.argmax(1) % 2, x.sin() * 2)
            return total + torch.randn(x.shape[0], 4)

    lowered = fxlib.lower(Made().eval(), (x := torch.ones(2, 4),), min_nodes=1)
    lowered.save(tmp_path / "saved")
    loaded, seen = load(tmp_path / "saved"), []
    for seed in (0, 1, 1):
        for each in (Made(), lowered, loaded):
            torch.manual_seed(seed)
            seen.append(each(x))
    torch.testing.assert_close(seen[1:3] + seen[4:6] + seen[7:9], [seen[0]] * 2 + [seen[3]] * 4)
    assert not torch.equal(seen[0], seen[3])
