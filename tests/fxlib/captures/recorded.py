"""Recorded results of torch, so that they are not computed in each run: its compiler takes minutes.

A result is valid for the same library versions and the same code of the models at the same lines; others are computed
again, which takes twenty seconds for each group.

    FXLENS_RECORD=1 python -m pytest tests/fxlib/captures    asks for all, and writes recorded.json
"""

import ast
import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

COLLECTION = Path(__file__).parent / "collection"
GROUPS = ("control", "numbers", "effects", "python", "operators", "threads", "reports", "architectures")
_FILE = Path(__file__).with_suffix(".json")
_RECORD = "FXLENS_RECORD" in os.environ


def run(group: str, names: list[str] | None = None) -> dict[str, Any]:
    """Torch's results for these models of the collection, or for all in the group, by name."""
    command = [sys.executable, COLLECTION.with_name("reference.py"), COLLECTION / f"{group}.py", *(names or ())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {answer["name"]: answer for answer in map(json.loads, done.stdout.splitlines())}


@functools.cache
def collection(group: str) -> dict[str, Any]:
    """Torch's results for each model of this group."""
    return _recorded(f"collection.{group}", _asked(group), lambda: run(group))


def outdated() -> list[str]:
    """Groups whose recorded results are for this version of torch, but other models."""
    kept = json.loads(_FILE.read_text())
    recorded = {group: kept.get(f"collection.{group}", {}).get("asked", "") for group in GROUPS}
    ours = f"torch {version('torch')}, "
    return [group for group, asked in recorded.items() if asked.startswith(ours) and asked != _asked(group)]


def _asked(group: str) -> str:
    code = _code(COLLECTION / f"{group}.py", True) + _code(COLLECTION.with_name("reference.py"), False)
    return f"torch {version('torch')}, {hashlib.sha256(code.encode()).hexdigest()[:16]}"


def _code(path: Path, places: bool) -> str:
    """What a file says, and where if ``places``; its words do not count."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree, include_attributes=places)


def model_of_a_library(name: str, ask: Callable[[], Any]) -> Any:
    """Torch's result for a model of torchvision or transformers, as returned by ``ask``."""
    asked = ", ".join(f"{library} {version(library)}" for library in ("torch", "torchvision", "transformers"))
    return _recorded(f"zoo.{name}", asked, ask)


def _recorded(what: str, asked: str, ask: Callable[[], Any]) -> Any:
    kept = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    if not _RECORD and kept.get(what, {}).get("asked") == asked:
        return kept[what]["answer"]
    answer = ask()
    if _RECORD:
        kept[what] = {"asked": asked, "answer": answer}
        _FILE.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    return answer
