"""What the index says that scripts construct, beside what they construct when Python runs them. What depends on what is
not known is a hole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fxlens.host.index_client import IndexClient
from script_values import KNOWN, SAID, TEXTS, UNKNOWN

NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, x):
        return x
"""
FILES = {
    name: files if isinstance(files, dict) else {"train.py": files}
    for name, files in {**KNOWN, **UNKNOWN, **TEXTS}.items()
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scripts")
    for case, files in FILES.items():
        for name, text in {"net.py": NET, **files}.items():
            path = root / case / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"import sys\nfrom net import Net\n{text}" if name == "train.py" else text)
    return root


@pytest.fixture(scope="module")
def said(root: Path) -> dict[str, dict[str, Any]]:
    """The first construction in each folder."""

    async def ask() -> dict[str, dict[str, Any]]:
        client = IndexClient(str(root))
        await client.start()
        try:
            found = {case: await client.answers(str(root / case / "net.py")) for case in FILES}
            return {case: answer["answers"]["Net"]["constructions"][0] for case, answer in found.items() if answer}
        finally:
            await client.close()

    return asyncio.run(ask())


class Made:
    """In place of the model: its arguments."""

    every: list[Made] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = (args, kwargs)
        self.every.append(self)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """As if a script of that folder ran in a process of its own."""
    net, before, argv, place = ModuleType("net"), dict(sys.modules), sys.argv, os.getcwd()
    net.Net = Made  # type: ignore[attr-defined]
    sys.modules["net"] = net
    sys.path.insert(0, str(folder))
    sys.argv = ["train.py"]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        sys.argv = argv
        sys.path.remove(str(folder))
        for name in sys.modules.keys() - before.keys():
            del sys.modules[name]


@pytest.mark.parametrize("case", KNOWN)
def test_arguments_are_those_of_the_script(root: Path, said: dict[str, dict[str, Any]], case: str):
    Made.every.clear()
    with alone(root / case):
        names = runpy.run_path("train.py", run_name="__main__")
    real = Made.every[0].given

    def with_attributes(made: Any, **attributes: Any) -> Any:
        vars(made).update(attributes)
        return made

    text = said[case]["text"]
    assert said[case]["holes"] == [], text
    scope = {"argparse": names.get("argparse"), **names, "with_attributes": with_attributes, "AttrDict": dict}
    made = eval(text, scope)
    assert made.given == real, text


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_a_hole(said: dict[str, dict[str, Any]], case: str):
    assert said[case]["holes"], said[case]["text"]


@pytest.mark.parametrize("case", TEXTS)
def test_configurations_are_read_as_their_packages_do(said: dict[str, dict[str, Any]], case: str):
    assert said[case]["text"] == SAID[case]
