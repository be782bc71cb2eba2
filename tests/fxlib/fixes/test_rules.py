"""The examples of the rules: pages are those of the table, what they show is so, and the fixes prove themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fxlib.diagnosis.fixes import RECIPES, apply_fix, verify
from fxlib.diagnosis.fixes.verify import Checker
from fxlib.diagnosis.rules import RULES
from fxlib.diagnosis.rules.pages import index, page, table

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "rules"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# The recipes that prove themselves on the rule's example, the one that is offered first in front.
PROVEN = {
    "FX101": ["lift-block", "if-to-where"], "FX102": ["lift-block"], "FX103": ["lift-block", "concrete-argument"],
    "FX104": ["lift-block", "torch-assert"], "FX105": ["lift-block"], "FX106": ["wrap"],
    "FX107": ["lift-block", "split-comparison"],
    "FX110": ["lift-block"], "FX111": ["lift-block", "unpack-index"], "FX112": ["view-concat"],
    "FX113": ["index-mapping"],
    "FX114": ["wrap"],
    "FX120": ["len-to-shape", "wrap"], "FX121": ["lift-block"], "FX122": ["lift-block", "lift-expression"],
    "FX130": ["floor-div", "wrap-conversion"], "FX131": ["wrap-conversion", "wrap"],
    "FX132": ["divmod-ops", "lift-block"],
    "FX133": ["lift-block"], "FX134": ["wrap-index"], "FX135": ["wrap-index"], "FX140": ["np-to-torch"],
    "FX141": ["lift-block", "to-python-number"], "FX150": ["setitem-wrapped", "setitem-functional"],
    "FX151": ["lift-block"],
    "FX160": ["size-tuple", "new-zeros"], "FX170": ["module-list"], "FX171": ["parameter-list"],
    "FX180": ["lift-block", "lift-expression"], "FX181": ["lift-block"], "FX182": ["lift-block", "torch-assert"],
    "FX184": ["lift-block"], "FX186": ["lift-block", "drop-variable"], "FX187": ["instance-forward"],
    "FX188": ["wrap-distribution"], "FX195": ["lift-block", "drop-type-test"],
    "FX198": ["wrap", "lift-expression", "lift-block"],
    "FX201": ["concrete-argument"], "FX202": ["lift-block", "drop-type-test"], "FX203": ["lift-block"],
    "FX204": ["lift-block"], "FX206": ["lift-random"], "FX207": ["dropout-module"], "FX211": ["copy-in-place"],
    "FX212": ["lift-block", "detach"], "FX213": ["lift-block"], "FX214": ["lift-expression"],
    "FX215": ["wrap", "lift-block"],
    "FX221": ["lift-expression"], "FX222": ["new-zeros"], "FX224": ["use-result"], "FX225": ["device-of-input"],
    "FX230": ["in-place-method"], "FX231": ["lift-block", "concrete-argument"],
    "FX232": ["seed-wrapped"], "FX239": ["plain-number"],
}  # fmt: skip

ASSUMING = {"FX113", "FX140", "FX222", "FX224", "FX230", "FX170", "FX171", "FX187", "FX207", "FX211", "FX225", "FX239"}
"""Those of which all fixes assume something, so that a person has to choose one."""


def checker_of(code: str, folder: Path, text: str) -> Checker:
    rule = RULES[code]
    path = folder / f"rule_{code.lower()}.py"
    path.write_text(text)
    inputs = rule.inputs.strip()
    inputs = inputs[1:-1] if inputs.startswith("(") else inputs
    return Checker(str(path), "Net()", inputs, concrete_args=eval(rule.options).get("concrete_args"))


def test_pages_are_those_of_the_table():
    """Written by ``python -m fxlib.diagnosis.rules.pages``."""
    texts = {f"{code}.md": page(rule) for code, rule in RULES.items()} | {"index.md": index()}
    assert {p.name: p.read_text(encoding="utf-8") for p in PAGES.glob("*.md")} == texts


def test_the_table_of_the_server_is_that_of_the_rules():
    """Written by ``python -m fxlib.diagnosis.rules.pages``."""
    assert (ROOT / "server" / "fxlens" / "rules.json").read_text(encoding="utf-8") == table()


def test_rules_name_recipes_that_exist():
    assert {name for rule in RULES.values() for name in rule.fixes} <= set(RECIPES)


def test_a_page_shows_the_examples_of_its_rule():
    """What these give is asserted in tests/fxlib/diagnosis/test_rules.py."""
    for code, rule in RULES.items():
        if rule.bad and code < "FX5":
            blocks = BLOCK.findall((PAGES / f"{code}.md").read_text(encoding="utf-8"))
            assert blocks == [rule.bad, rule.good], code


@pytest.mark.parametrize("code", PROVEN)
def test_fixes_prove_themselves(code, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "_SLOW", 60.0)  # all are checked, also on a busy machine
    checker = checker_of(code, tmp_path, RULES[code].bad)
    finding = next(f for f in checker.before.report.findings if f.code == code)
    offered = checker.settle(finding)
    ids = [fix.id for fix in offered if fix.checked and "after this fix" not in fix.title]
    assert set(PROVEN[code]) <= set(ids) and ids[0] == PROVEN[code][0]
    assert [fix.preferred for fix in offered] == [code not in ASSUMING] + [False] * (len(offered) - 1)
    texts = apply_fix(offered[0])
    again = Checker(checker.path, "Net()", checker.example.inputs, read=lambda path: texts.get(path))
    again.concrete_args = offered[0].settings.get("concrete_args", checker.concrete_args)
    assert code not in [f.code for f in again.before.report.findings]
