"""Quick fixes as an editor applies them: the real server, the example of each rule, edit applied, problem gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, edited

from fxlib.diagnosis.rules import RULES

ROOT = Path(__file__).resolve().parents[2]

# One for each kind of edit: an expression, statements, a new function, an import and a statement after it, __init__,
# two methods, a comment, a helper. tests/fxlib/fixes/test_rules.py proves the fixes of all rules.
CODES = ["FX101", "FX102", "FX106", "FX120", "FX170", "FX201", "FX207", "FX224"]


def example(code: str) -> str:
    """The failing example of a rule, with the comment that says how to call it."""
    rule = RULES[code]
    inputs = rule.inputs.strip()
    inputs = inputs[1:-1].rstrip(",") if inputs.startswith("(") else inputs
    return rule.bad.replace("\nclass Net(", f"\n# fxlens: Net() <- {inputs}\nclass Net(")


def preferred(client: Client, uri: str, diagnostic: dict[str, Any]) -> dict[str, Any]:
    """The fix that proved itself: the preferred one, or the first of those that a person has to choose."""
    actions = client.actions(uri, diagnostic)
    titles = [action["title"] for action in actions]
    found = [action for action in actions if action.get("isPreferred")]
    assert len(found) <= 1, titles
    chosen = [each for each in actions if "right only if" in each["title"] and "after this fix" not in each["title"]]
    return (found or chosen or pytest.fail(str(titles)))[0]


@pytest.mark.parametrize("code", CODES)
def test_the_preferred_fix_mends_the_example(client, workspace, code):
    path = workspace / f"{code.lower()}.py"
    text = example(code)
    path.write_text(text)
    uri = client.open(path)
    found = [each for each in client.diagnostics(uri) if each.get("code") == code]
    assert found
    action = preferred(client, uri, found[0])
    assert list(action["edit"]["changes"]) == [uri]
    mended = edited(text, action["edit"]["changes"][uri])
    after = client.edit(uri, mended)
    assert code not in [each.get("code") for each in after], mended
    client.close(uri)


def test_wrap_goes_into_the_file_that_calls(client, workspace):
    for name in ("wrap_imported.py", "wrap_helpers.py"):
        (workspace / name).write_text((ROOT / "examples" / "broken" / name).read_text())
    path = workspace / "wrap_imported.py"
    uri = client.open(path)
    found = client.diagnostics(uri)
    assert [each.get("code") for each in found] == ["FX101"]
    action = preferred(client, uri, found[0])
    assert action["title"] == 'Record `clip_by_norm` as one call: torch.fx.wrap("clip_by_norm")'
    mended = edited(path.read_text(), action["edit"]["changes"][uri])
    assert 'torch.fx.wrap("clip_by_norm")' in mended
    assert client.edit(uri, mended) == []


def test_a_file_that_is_gone_is_not_written_anew_with_a_part_of_its_text(client, workspace):
    helper, path = workspace / "gone_helper.py", workspace / "uses_gone.py"
    helper.write_text("import torch\n\n\ndef halved(x):\n    if x.sum() > 0:\n        x = x / 2\n    return x\n")
    path.write_text(
        "import torch\nfrom torch import nn\n\nfrom gone_helper import halved\n\n\n"
        "# fxlens: Net() <- torch.ones(3, 2)\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        return halved(x) + 1\n"
    )
    uri = client.open(path)
    (found,) = client.diagnostics(uri)

    def edits_helper() -> list[str]:
        actions = client.actions(uri, found)
        return [each["title"] for each in actions if helper.as_uri() in each.get("edit", {}).get("changes", {})]

    assert len(edits_helper()) == 2
    helper.unlink()
    assert edits_helper() == []


def test_a_fix_that_moves_the_problem_says_so_and_is_not_preferred(client, workspace):
    text = "import torch\nfrom torch import nn\n\n\n# fxlens: Net() <- torch.ones(3, 2)\nclass Net(nn.Module):\n"
    text += "    def forward(self, x):\n        y = x[0]\n        for i in range(len(x)):\n            y = y + x[i]\n"
    text += "        return y\n"
    path = workspace / "moving.py"
    path.write_text(text)
    uri = client.open(path)
    found = next(each for each in client.diagnostics(uri) if each.get("code") == "FX120")
    moving = [a for a in client.actions(uri, found) if "after this fix, tracing still fails, at new line" in a["title"]]
    assert moving and not any(a.get("isPreferred") for a in moving)


def test_unsaved_text_is_what_gets_fixed(client, workspace):
    path = workspace / "unsaved.py"
    path.write_text("x = 1\n")
    uri = client.open(path)
    client.diagnostics(uri)
    text = "# é 🙂\n" + example("FX120")
    found = client.edit(uri, text)
    action = preferred(client, uri, found[0])
    mended = edited(text, action["edit"]["changes"][uri])
    assert "return x / x.shape[0]" in mended and client.edit(uri, mended) == []
    assert path.read_text() == "x = 1\n"


def test_a_model_that_only_a_trace_can_make_keeps_no_other_from_its_proof(client, workspace):
    """It is constructed at once, and not in the background, where fixes are checked."""
    text = (
        "import os\nimport torch\nfrom torch import nn\n\n\nclass Small(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        '        if os.nice(0) > 9:\n            raise ValueError("in the background")\n\n'
        "    def forward(self, x):\n        return x / len(x)\n\n\n"
        "# fxlens: Net() <- torch.ones(3, 2)\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        x = torch.relu(torch.relu(torch.relu(x)))\n        return x / len(x)\n"
    )
    path = workspace / "unmade.py"
    path.write_text(text)
    uri = client.open(path)
    small, large = (each for each in client.diagnostics(uri) if each.get("code") == "FX120")
    titles = [each["title"] for each in client.actions(uri, small)]
    assert any("not checked: checking Small raises ValueError: in the background" in each for each in titles), titles
    preferred(client, uri, large)
