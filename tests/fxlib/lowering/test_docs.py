"""The pages on lowering say what the registry, the cases and the table of engines say."""

import pytest

from scripts.lowering_docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `python scripts/lowering_docs.py`"
