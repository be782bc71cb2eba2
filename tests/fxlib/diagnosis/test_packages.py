"""Failures inside an installed package are reported at the user's call, and fixed there."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

import fxlib
from fxlib.diagnosis.engine.packages import is_installed, package_of, short_path
from fxlib.diagnosis.fixes.verify import Checker

PACKAGE = '''\
import itertools

import torch
from torch import nn


def halves(x, dim):
    """Fails under torch.fx, two calls deep."""
    return _halves(x, dim)


def _halves(x, dim):
    parts = []
    for part in x.chunk(2, dim):
        parts.append(part)
    return parts[0] * parts[1]


def doubled(x):
    """Traces, into something else."""
    if isinstance(x, torch.Tensor):
        return x * 2
    return x


def odd(x):
    """Misled by a type test, and fails for it."""
    if not isinstance(x, torch.Tensor):
        raise RuntimeError(f"a strange type: {type(x)}")
    return x + 1


calls = itertools.count()


def strict(x, width):
    """Refuses a type that it does not know, and says which."""
    if type(x) not in (torch.Tensor,) and "Fake" not in type(x).__name__:
        raise RuntimeError(f"a type unknown to halving: {type(x)}")
    next(calls)
    return x[:, :width]


def with_fallback(x):
    """The handler that a normal run comes to is never traced."""
    try:
        x = x.tensors()
    except AttributeError:
        x = x * 2
    return x


def masked(x, mask=None):
    """Silent where the mask is taken for given; after that, control flow on data."""
    if mask is None:
        if x.sum() > 0:
            return x
        return -x
    return x * 2


class Halves(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Twice(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        if x.max() > 1:
            x = x + 1
        for row in x:
            x = x + row
        return x


class Tools:
    def sign(self, x):
        if x.sum() > 0:
            return x
        return -x
'''

USER = """\
import torch
from torch import nn
{imports}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, x):
        {body}
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a package into a folder of installed packages, and a module of the user's beside it; gives its path."""
    installed = tmp_path / "lib" / "site-packages"
    (installed / "halving").mkdir(parents=True)
    (installed / "halving" / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body, imports="from halving import doubled, halves, odd", layer="nn.Identity()"):
        text = USER.format(body=body.replace("\n", "\n        "), imports=imports, layer=layer)
        (tmp_path / "halving_user.py").write_text(text)
        importlib.invalidate_caches()
        return tmp_path / "halving_user.py"

    yield write
    for name in ("halving", "halving_user"):
        sys.modules.pop(name, None)


def checker(path) -> Checker:
    return Checker(str(path), "Net()", "torch.randn(2, 4)")


def texts(path, findings) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines()
    assert all(found.span.file == str(path) for found in findings)
    return [(found.code, lines[found.span.line - 1][found.span.column : found.span.end_column]) for found in findings]


def test_each_call_of_a_function_that_does_not_trace_is_one_finding(written):
    path = written("a = halves(x, 1)\nb = halves(x * 2, 1)\nreturn (a + b).relu()")
    found = checker(path).before.report.findings
    assert texts(path, found) == [("FX198", "halves(x, 1)"), ("FX198", "halves(x * 2, 1)")]
    says, why = found[0].message.split(". ", 1)
    assert says == "`halves(x, 1)` calls a function of `halving` that cannot be traced"
    assert why.startswith("`x.chunk(2, dim)` in halving cannot be iterated")
    said = next(each for each in found[0].related if each.kind == "torch")
    assert package_of(said.span.file) == "halving" and "cannot be iterated" in said.message


def test_the_graph_goes_on_after_the_call_with_its_value(written):
    path = written("y = halves(x, 1)\nif y.shape[1] == 2:\n    y = y.relu()\nreturn y")
    report = checker(path).before.report
    assert [found.code for found in report.findings] == ["FX198", "FX102"]
    assert any(node.target == "relu" for node in report.graph.nodes)


def test_the_first_fix_wraps_the_name_that_the_user_calls(written):
    path = written("return halves(x, 1).relu()")
    check = checker(path)
    (finding,) = check.before.report.findings
    fixes = check.settle(finding)
    assert fixes[0].preferred and "torch.fx.wrap" in fixes[0].title and "halves" in fixes[0].title
    assert {edit.file for fix in fixes for edit in fix.edits if not edit.file.endswith(".toml")} == {str(path)}


def test_a_call_by_attribute_is_moved_into_a_wrapped_function(written):
    path = written("return halving.halves(x, 1).relu()", "import halving")
    check = checker(path)
    (finding,) = check.before.report.findings
    assert finding.code == "FX198"
    first = check.settle(finding)[0]
    assert first.preferred and "Move the expression" in first.title


def test_a_silent_answer_inside_a_package_is_reported_at_the_call(written):
    path = written("return doubled(x) + 1")
    (finding,) = checker(path).before.report.findings
    assert texts(path, [finding]) == [("FX202", "doubled(x)")]
    assert "`isinstance(x, torch.Tensor)` (in halving, called by `doubled(x)`) sees a Proxy" in finding.message


def test_after_a_misleading_call_of_a_package_its_value_is_used(written):
    path = written(
        "y = with_fallback(x)\nif y.sum() > 0:\n    y = y + 1\nreturn y", "from halving import with_fallback"
    )
    found = checker(path).before.report.findings
    assert texts(path, found) == [("FX216", "with_fallback(x)"), ("FX101", "y.sum() > 0")]
    assert all(each.hidden_by is None for each in found)


def test_a_silent_answer_stays_where_the_call_fails_only_on_the_eager_path(written):
    path = written("return masked(x, mask)", "from halving import masked")
    path.write_text(path.read_text().replace("forward(self, x)", "forward(self, x, mask=None)"))
    found = Checker(str(path), "Net()", "torch.randn(2, 4)").before.report.findings
    assert {each.code: each.hidden_by is None for each in found} == {"FX201": True, "FX198": False}


def test_what_a_call_that_fails_was_misled_by_is_not_reported_besides(written):
    path = written("return odd(x) + 1")
    assert texts(path, checker(path).before.report.findings) == [("FX198", "odd(x)")]


def test_a_type_is_refused_whatever_was_answered_before(written):
    path = written("if x.sum() > 0:\n    x = x + 1\nreturn strict(x, 2)", "from halving import strict")
    found = checker(path).before.report.findings
    assert texts(path, found) == [("FX101", "x.sum() > 0"), ("FX198", "strict(x, 2)")]


def test_what_a_call_gives_on_examples_is_found_out_once(written):
    body = "for width in (3, 2):\n    for _ in range(9):\n        x = strict(x, width)\nreturn x"
    written(body, "from halving import strict")
    report = fxlib.diagnose(importlib.import_module("halving_user").Net(), torch.randn(2, 4))
    assert {node.meta["val"].shape[1] for node in report.graph.nodes if node.op == "call_function"} == {3, 2}
    # Of four columns three, of three two; and each once more of as many as it gives.
    assert next(sys.modules["halving"].calls) == 4


def test_a_module_of_a_package_is_left_out_as_a_leaf(written):
    path = written("return self.layer(x) + 1", "from halving import Halves", "Halves()")
    check = checker(path)
    (finding,) = check.before.report.findings
    assert finding.code == "FX101" and is_installed(finding.span.file) and " in halving" in finding.message
    fixes = check.settle(finding)
    assert fixes and {fix.id for fix in fixes} == {"leaf-module"}
    assert not any(is_installed(edit.file) for fix in fixes for edit in fix.edits)


def test_a_method_of_a_package_is_found_where_it_is(written):
    path = written("return Tools().sign(x) + 1", "from halving import Tools")
    check = checker(path)
    (finding,) = check.before.report.findings
    assert finding.code == "FX101" and is_installed(finding.span.file)
    assert not any(is_installed(edit.file) for fix in check.settle(finding) for edit in fix.edits)


def test_a_model_of_a_package_has_findings_in_its_own_lines(written):
    written("return x")
    halving = importlib.import_module("halving")
    (finding,) = fxlib.diagnose(halving.Halves(), (torch.randn(2, 4),)).findings
    assert finding.code == "FX101" and finding.inside is None and is_installed(finding.span.file)


def test_paths_of_packages():
    inside = "/home/me/.venv/lib/python3.11/site-packages/einops/_backends.py"
    assert is_installed(inside) and short_path(inside) == "einops/_backends.py" and package_of(inside) == "einops"
    assert package_of("/usr/lib/python3/dist-packages/six.py") == "six"
    assert is_installed("C:\\venv\\Lib\\site-packages\\einops\\_backends.py")
    assert not is_installed("/home/me/site-packages-of-mine/net.py")


def test_a_module_of_a_package_that_fails_often_is_one_finding_at_each_call(written):
    path = written("return self.layer(x) + self.layer(x * 2)", "from halving import Twice", "nn.Sequential(Twice())")
    found = checker(path).before.report.findings
    assert [each.code for each in found] == ["FX101"]
    lines = {step.line for each in found for step in each.call_path if step.file == str(path)}
    assert len(lines) == 1
