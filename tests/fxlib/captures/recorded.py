"""Recorded results of torch, so that they are not computed in each run: its compiler takes minutes.

A result is valid for the same library versions and the same text of the models; others are computed again.

    FXLENS_RECORD=1 python -m pytest tests/fxlib/captures    asks for all, and writes recorded.json
"""

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
    text = (COLLECTION / f"{group}.py").read_bytes() + COLLECTION.with_name("reference.py").read_bytes()
    asked = f"torch {version('torch')}, {hashlib.sha256(text).hexdigest()[:16]}"
    return _recorded(f"collection.{group}", asked, lambda: run(group))


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
