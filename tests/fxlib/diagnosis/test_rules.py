"""Every rule's own examples: the bad one has its finding at the marked line, the good one none; torch.fx agrees."""

from __future__ import annotations

import pytest

from fxlib.diagnosis import RULES

from .snippets import diagnose, load, torch_error
from .words import RIDDLES, assert_plain

# A branch that was taken wrongly shows the next problem too.
COMPANIONS = {"FX195": {"FX202"}, "FX203": {"FX217"}}
# Those of torch.export and torch.compile are held by tests/fxlib/captures.
WITH_EXAMPLES = [rule for rule in RULES.values() if rule.bad and rule.code < "FX5"]


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_bad_example(rule, tmp_path):
    report = diagnose(rule.bad, tmp_path, rule.inputs, rule.options, rule.seen)
    marked = [i for i, line in enumerate(rule.bad.splitlines(), 1) if "# <- here" in line]
    found = [finding for finding in report.findings if finding.code == rule.code]
    assert found, f"{rule.code} not found, but {report.codes()}"
    assert [finding.span.line for finding in found] == marked
    assert {finding.code for finding in report.findings if finding.severity in ("error", "warning")} <= {
        rule.code,
        *COMPANIONS.get(rule.code, ()),
    }
    assert found[0].severity == rule.severity
    assert report.graph is not None
    assert (report.graph_module is None) == any(finding.loud for finding in report.findings)
    assert_plain(report.findings)


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_good_example(rule, tmp_path):
    report = diagnose(rule.good, tmp_path, rule.inputs, seen=rule.seen)
    assert [f"{f.code} {f.message}" for f in report.findings if f.severity in ("error", "warning")] == []
    assert rule.code not in report.codes()
    assert report.traces


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_verdict_is_that_of_torch_fx(rule, tmp_path):
    module = load(rule.bad, tmp_path)
    assert (torch_error(module, rule.options) is not None) == rule.loud
    module = load(rule.good, tmp_path)
    assert torch_error(module) is None


def test_titles_and_messages_are_plain():
    texts = [text for rule in RULES.values() for text in (rule.title, rule.message, rule.advice)]
    assert [text for text in texts if RIDDLES.search(text)] == []


def test_every_code_has_its_place():
    groups = {"FX1": "error", "FX3": None, "FX2": None, "FX4": "hint", "FX5": None, "FX6": None, "FX7": None}
    for code, rule in RULES.items():
        assert code == rule.code and code[:3] in groups
        assert rule.severity in ("error", "warning", "info", "hint")
        assert bool(rule.torch_text) == rule.loud or code > "FX5"
        assert rule.explanation and rule.title and rule.slug
    assert len({rule.slug for rule in RULES.values()}) == len(RULES)
