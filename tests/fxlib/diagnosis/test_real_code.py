"""Models from public repositories, with findings that used to be false, doubled or vague."""

from __future__ import annotations

import pytest

from .snippets import diagnose

HEAD = "import torch\nfrom torch import nn\n\n\n"
TENSORS = '({"a": torch.randn(2), "b": torch.randn(2)},)'


def net(body: str, signature: str = "self, x", base: str = "nn.Module", init: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    start = f"    def __init__(self):\n        {init}\n\n" if init else ""
    return f"{HEAD}class Net({base}):\n{start}    def forward({signature}):\n{lines}"


@pytest.mark.parametrize(
    ("body", "base", "init"),
    [
        ("dtype = torch.float16\nreturn x.type(dtype) + 1", "nn.Module", ""),
        ("return super().forward(x.type(torch.float32)).type(x.dtype)", "nn.LayerNorm", "super().__init__(3)"),
        ("kept = x.dtype\ny = super().forward(x.float())\nreturn y.type(kept)", "nn.LayerNorm", "super().__init__(3)"),
    ],
)
def test_a_cast_is_no_question_about_the_type(body, base, init, tmp_path):
    """The method is recorded; only the function `type` sees a Proxy."""
    report = diagnose(net(body, base=base, init=init), tmp_path)
    assert report.graph_module is not None and report.codes() == []
    assert diagnose(net("return x if type(x) is int else x + 1"), tmp_path).codes() == ["FX202"]


def test_a_lookup_in_an_argument_that_defaults_to_none_says_so(tmp_path):
    text = net("if cache is None or 'key' not in cache:\n    x = x + 1\nreturn x", "self, x, cache=None")
    report = diagnose(text, tmp_path)
    (finding,) = [each for each in report.findings if each.code == "FX105"]
    assert finding.message == (
        "`'key' not in cache` reads `cache`, which defaults to None, but tracing passes a Proxy. "
        "Set `cache=None` for the trace with concrete_args"
    )
    assert diagnose(text, tmp_path, options='{"concrete_args": {"cache": None}}').codes() == []


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("out = {}\nfor k, v in x.items():\n    out[k] = v * 2\nreturn out", ["FX113"]),
        ("out = {}\nfor k in x.keys():\n    out[k] = x[k]\nreturn out", ["FX113"]),
        ("out = {'c': 1}\nout.update(x)\nreturn out", ["FX113"]),
    ],
)
def test_keys_of_a_traced_mapping_are_reported_once(body, codes, tmp_path):
    """Traced keys of the dictionary that is returned are a consequence, no finding on the class."""
    report = diagnose(net(body), tmp_path, TENSORS)
    assert report.codes() == codes and report.findings[0].data["count"] in (2, None)
    assert report.findings[0].span.line > 7


def test_what_torch_checks_after_a_guessed_answer_is_no_finding(tmp_path):
    """The layer checks the rank of its input and raises; without example inputs the answer is a guess."""
    text = net("return super().forward(x)", base="nn.BatchNorm2d", init="super().__init__(3)")
    assert "FX199" not in diagnose(text, tmp_path, None).codes()
    assert "FX102" in diagnose(text, tmp_path, None).codes()


def messages(report, code: str) -> list[str]:
    return [each.message for each in report.findings if each.code == code]


def test_a_parameter_that_is_set_to_a_traced_value_is_named(tmp_path):
    body = "for weight in self.layer.parameters():\n    weight.data = weight.data * x.mean()\nreturn self.layer(x)"
    report = diagnose(net(body, init="super().__init__(); self.layer = nn.Linear(3, 3)"), tmp_path)
    assert messages(report, "FX186") == [
        "`weight.data` can be set to a real tensor only, and is set to a traced value. Set it outside of forward"
    ]


def test_what_fails_for_another_reason_is_no_traced_value_for_what_follows(tmp_path):
    """Without a process group there is no number of processes; with one, `range` gets a real number."""
    body = "parts = [x for _ in range(torch.distributed.get_world_size())]\nreturn torch.cat(parts)"
    report = diagnose(net(body), tmp_path)
    assert report.codes() == ["FX199"]
    assert "get_world_size" in report.findings[0].message
    # It still is a traced value that torch.fx does not accept.
    assert diagnose(net("for _ in range(len(x)):\n    x = x + 1\nreturn x"), tmp_path).codes() == ["FX120"]
    assert diagnose(net("for _ in range(x.shape[0]):\n    x = x + 1\nreturn x"), tmp_path).codes() == ["FX133"]


def test_an_assert_that_asks_a_traced_value_is_one_finding(tmp_path):
    body = "if kept is not None:\n    assert x.shape[1] == 1\n    x = x + kept\nreturn x"
    report = diagnose(net(body, "self, x, kept=None"), tmp_path)
    assert [each.code for each in report.findings if each.span.line == 8] == ["FX104"]


@pytest.mark.parametrize(
    ("body", "signature", "code", "says"),
    [
        (
            "return [a for a, b in zip(self.layers, x.shape)]",
            "self, x",
            "FX110",
            "`zip(self.layers, x.shape)` needs the items of `x.shape`, a traced value of no known length. "
            "On the example inputs it is torch.Size([2, 3])",
        ),
        (
            "parts = x.chunk(3, 1)\na, b, c = map(lambda t: t * 2, parts)\nreturn a + b + c",
            "self, x",
            "FX110",
            "`map(lambda t: t * 2, parts)` needs the items of `parts`, a traced value of no known length. "
            "On the example inputs it is (f32[2, 1], f32[2, 1], f32[2, 1])",
        ),
        (
            "if kept is None:\n    kept = [x, x]\nfor a, b in zip(kept, kept):\n    x = a + b\nreturn x",
            "self, x, kept=None",
            "FX110",
            "The items of `kept` are needed, which defaults to None, but tracing passes a Proxy. "
            "Set `kept=None` for the trace with concrete_args",
        ),
        (
            "def double(*inputs, **options):\n    return inputs[0] * 2\nreturn double(*args, **kwargs)",
            "self, *args, **kwargs",
            "FX112",
            "",
        ),
    ],
)
def test_what_is_iterated_is_named(body, signature, code, says, tmp_path):
    report = diagnose(net(body, signature, init="super().__init__(); self.layers = [1, 2]"), tmp_path)
    found = messages(report, code)
    assert found and (says in found or not says), [each.message for each in report.findings]
    assert not any(each.code == "FX110" for each in report.findings) or code == "FX110"


def test_a_name_is_no_suggestion_for_itself(tmp_path):
    body = "if not isinstance(x, list):\n    x = [x]\nreturn torch.zeros(2).to(x[0].device) + x[0]"
    report = diagnose(net(body), tmp_path, "([torch.randn(2), torch.randn(2)],)")
    (says,) = messages(report, "FX217")
    assert "has no `device`, so the graph fails" in says and "did you mean" not in says
    assert "(did you mean `squeeze`?)" in messages(diagnose(net("return x.squeze(0)"), tmp_path), "FX217")[0]


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("n = np.ceil(x.shape[1] / 2) * 2 - x.shape[1]\nreturn x + n", ["FX140"]),
        ("return np.float64(2.0) * x.mean()", ["FX141"]),
        ("return x + np.sqrt(x)", ["FX140"]),
    ],
)
def test_numbers_of_numpy_are_reported_where_they_come_from(body, codes, tmp_path):
    text = net(body).replace("import torch\n", "import numpy as np\nimport torch\n", 1)
    report = diagnose(text, tmp_path)
    assert [each.code for each in report.findings if each.loud] == codes, [each.message for each in report.findings]


DEVICE = """    def __init__(self):
        super().__init__()
        self.device = torch.device("cpu")
        self.layer = nn.Linear(3, 3)
"""
PROPERTY = """    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    @property
    def device(self):
        return self.scale.device
"""
MOVED = f"""{DEVICE}
    def to(self, device):
        self.device = device
        return super().to(device)
"""


@pytest.mark.parametrize(("init", "codes"), [(DEVICE, []), (PROPERTY, ["FX225"]), (MOVED, ["FX225"])])
def test_a_device_that_is_a_plain_attribute_is_that_of_the_module_too(init, codes, tmp_path):
    forward = "\n    def forward(self, x):\n        return self.layer(x.to(self.device))\n"
    text = f"{HEAD}class Net(nn.Module):\n{init}{forward}"
    assert diagnose(text, tmp_path).codes() == codes
    base = text.replace("class Net(", "class Base(")
    below = "\n\nclass Net(Base):\n    def forward(self, x):\n        return super().forward(x) + 1\n"
    assert diagnose(base + below, tmp_path).codes() == codes


def test_random_numbers_of_a_scripted_layer_are_its_own(tmp_path):
    """It is one node: the trace draws nothing, only its shape is worked out by running it."""
    text = f"""{HEAD}class Layer(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x):
        return x * torch.bernoulli(torch.tensor(0.5))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Layer(), Layer())

    def forward(self, x):
        return self.layers(x)
"""
    report = diagnose(text, tmp_path)
    assert report.codes() == [] and report.graph_module is not None


def test_a_mode_that_is_compared_with_a_text_is_an_argument(tmp_path):
    report = diagnose(net('if mode == "train":\n    x = x + 1\nreturn x', "self, x, mode"), tmp_path, None)
    assert report.codes() == ["FX103"]
    assert "Fix `mode` with concrete_args" in report.findings[0].message
