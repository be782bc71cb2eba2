"""Repositories of third parties, judged by one run of the command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from warm_python import warm_fxlens

HEAD = "import torch\nfrom torch import nn\n"


def judged(
    tmp_path_factory: pytest.TempPathFactory,
    files: Mapping[str, str],
    prepare: Callable[[Path], object] = lambda folder: None,
    arguments: Sequence[str] = ("--quick",),
) -> dict[str, Any]:
    """By path and name of the class, what one run of the command says of it; and the findings of each file by its
    path. ``begun`` names the files that programs have made, ``coverage`` is that of the run."""
    folder = tmp_path_factory.mktemp("strangers")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    prepare(folder)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    command = warm_fxlens("check", ".", "--all", "--format", "json", "--jobs", "2", *arguments)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    said = json.loads(done.stdout)
    found: dict[str, Any] = {"coverage": said["coverage"]}
    for file in said["files"]:
        path = file["path"].removeprefix("./")
        found[path] = file["findings"]
        found.update({f"{path}::{each['name']}": each for each in file["targets"]})
    found["begun"] = sorted(each.name for each in folder.glob("begun*"))
    return found
