"""An engine is one file: everything else knows it from the table."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from fxlib.benchmark import VARIANTS
from fxlib.lowering import BuildOptions, EngineError, get, table
from fxlib.lowering.prepare import PRECISIONS

ROOT = Path(__file__).resolve().parents[3]
# One API under two module names: what the two engines share.
SHARED = ROOT / "fxlib" / "lowering" / "nvidia"


def test_no_product_file_but_an_engines_own_names_it() -> None:
    engines = ROOT / "fxlib" / "lowering" / "engines"
    words = "|".join(re.escape(word) for engine in table().values() for word in (engine.name, engine.label))
    named = re.compile(rf"""["'`]({words})["'`]""")
    sources = [*(ROOT / "fxlib").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
    sources += [*(ROOT / "vscode-extension" / "src").rglob("*.ts"), ROOT / "vscode-extension" / "package.json"]
    found = [path for path in sources if engines not in path.parents and SHARED not in path.parents]
    # What a workspace imports to convert its models is known by the names of these packages.
    found = [path for path in found if path != ROOT / "server" / "fxlens" / "index" / "captures.py"]
    assert len(found) > 300
    assert [str(path) for path in found if named.search(path.read_text())] == []
    for engine in table().values():
        assert f'"{engine.name}"' in (engines / f"{engine.name}.py").read_text()


@pytest.mark.parametrize("engine", table().values(), ids=lambda engine: engine.name)
def test_an_entry_is_whole(engine) -> None:
    assert engine is import_module(f"fxlib.lowering.engines.{engine.name}").ENGINE is get(engine.name)
    assert set(engine.precisions) <= set(PRECISIONS) and engine.computes <= set(PRECISIONS)
    assert set(engine.options) <= {field.name for field in fields(BuildOptions)}
    assert engine.about.endswith(".") and (not engine.limits or engine.limits.endswith("."))
    assert json.loads(json.dumps(engine.as_dict()))["missing"] == engine.missing()
    for precision in engine.precisions:
        variant = VARIANTS[engine.variant(precision)]
        assert variant.title.startswith(engine.label) and variant.default == engine.benchmarked
        assert variant.missing("cuda" if engine.device == "cpu" else "cpu") is not None


def test_an_unknown_engine_is_refused_with_those_there_are() -> None:
    with pytest.raises(EngineError, match=f"the engines are {', '.join(table())}"):
        get("abacus")


def test_without_onnx_ir_no_engine_can_be_used(monkeypatch) -> None:
    monkeypatch.setattr("fxlib.lowering.engine.find_spec", lambda name: None)
    assert {engine.missing() for engine in table().values()} == {
        "the package onnx_ir is not installed; `pip install 'fxlens[lower]'` adds it"
    }
