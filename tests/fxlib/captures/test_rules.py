"""The examples of the rules of torch.export and torch.compile: the bad one has its finding at the marked line, and
torch says what the rule says; the good one is captured."""

import pytest

from fxlib.captures import judge
from fxlib.diagnosis import RULES
from tests.fxlib.diagnosis.snippets import load
from tests.fxlib.diagnosis.words import assert_plain

CAPTURES = {"FX5": "export", "FX6": "compile", "FX7": "export"}
WITH_EXAMPLES = [rule for rule in RULES.values() if rule.bad and rule.code > "FX5"]


def judged(rule, text, folder):
    module = load(text, folder)
    net = module.Net()
    inputs = eval(rule.inputs, vars(module))
    return judge(net, inputs, **eval(rule.options, vars(module)))


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_bad_example(rule, tmp_path):
    judgement = judged(rule, rule.bad, tmp_path)
    marked = [i for i, line in enumerate(rule.bad.splitlines(), 1) if "# <- here" in line]
    capture = CAPTURES[rule.code[:3]]
    found = [finding for finding in judgement.findings if finding.data["captures"].get(capture) == rule.code]
    assert [finding.span.line for finding in found] == marked
    assert found[0].severity == rule.severity or rule.code not in [each.code for each in found]
    said = " ".join(related.message for finding in found for related in finding.related)
    assert not rule.torch_text or rule.torch_text in said
    assert_plain(judgement.findings)


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_good_example(rule, tmp_path):
    judgement = judged(rule, rule.good, tmp_path)
    capture = CAPTURES[rule.code[:3]]
    assert judgement.verdicts[capture].outcome == "captured"
    assert [f for f in judgement.findings if f.data["captures"].get(capture)] == []
