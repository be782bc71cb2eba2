"""Writes the tools of agents into vscode-extension/package.json, from the table in server/fxlens/mcp/questions.py.

    python scripts/agent_tools.py [--check]

With ``--check`` nothing is written, and the exit status says whether the file is up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "vscode-extension" / "package.json"
sys.path.insert(0, str(ROOT / "server"))

from fxlens.mcp.questions import QUESTIONS, Question  # noqa: E402

FILE = {
    "type": "string",
    "description": "Path of a Python file: absolute, or relative to a workspace folder. Its unsaved text is checked; "
    "of a notebook, the saved file.",
}
SHOWN = {  # name, icon and description for users
    "diagnose": ("Diagnose Models", "bug", "Problems that keep the models of a file from being captured as graphs"),
    "fix": ("Proven Fixes", "lightbulb", "Changes that remove these problems, traced again and compared with eager"),
    "capture": ("Three Captures", "checklist", "What torch.fx, torch.export and torch.compile each do with a model"),
    "graph": ("Graph", "type-hierarchy", "The torch.fx graph of a model"),
    "shapes": ("Shapes", "symbol-ruler", "Shapes and dtypes of a model's values, by line"),
    "cost": ("Cost", "dashboard", "Operations, bytes, parameters and peak memory of a model"),
    "lower": ("Lower", "rocket", "What an inference engine takes of a model, and how far its results are from eager"),
}


def contribution(question: Question) -> dict[str, Any]:
    title, icon, description = SHOWN[question.name]
    return {
        "name": f"fxlens_{question.name}",
        "displayName": f"FX Lens: {title}",
        "userDescription": description,
        "modelDescription": f"{question.description} Lines count from 0.",
        "toolReferenceName": f"fxlens{title.replace(' ', '')}",
        "canBeReferencedInPrompt": True,
        "icon": f"$({icon})",
        "tags": ["pytorch", "fxlens"],
        "inputSchema": question.schema(file=FILE, text=None),
    }


def text() -> str:
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    manifest["contributes"]["languageModelTools"] = [contribution(each) for each in QUESTIONS.values()]
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    wanted = text()
    if "--check" in sys.argv[1:]:
        return int(MANIFEST.read_text(encoding="utf-8") != wanted)
    MANIFEST.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
