"""docs/operators.md says what the registry and the cases say."""

from pathlib import Path

from scripts.operators_doc import render

ROOT = Path(__file__).resolve().parents[3]


def test_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert page == render(), "run `python scripts/operators_doc.py`"
