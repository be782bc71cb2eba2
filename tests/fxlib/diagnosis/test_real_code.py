"""Models as they are written in public repositories: findings that were false, doubled or vague there."""

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
        "`'key' not in cache` looks into `cache`, which defaults to None, but tracing passes a Proxy. "
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
    """The layer asks for the rank of its input and raises; without example inputs the answer is a guess."""
    text = net("return super().forward(x)", base="nn.BatchNorm2d", init="super().__init__(3)")
    assert "FX199" not in diagnose(text, tmp_path, None).codes()
    assert "FX102" in diagnose(text, tmp_path, None).codes()
