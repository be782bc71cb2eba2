"""The verdict: a loud finding exactly where torch.fx fails, on every small program of the capture tests."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import warnings

import pytest

import fxlib

_CAPTURE = pathlib.Path(__file__).parents[1] / "capture"


def _programs():
    if "programs" not in sys.modules:
        spec = importlib.util.spec_from_file_location("programs", _CAPTURE / "programs.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["programs"] = module
        spec.loader.exec_module(module)
    return sys.modules["programs"]


programs = _programs()
NAMES = [(table, name) for table in programs.TABLES for name in programs.load(table, "fxlib")]


def _is_root(table, name):
    case = programs.load(table, "fxlib")[name]
    root = case.root if isinstance(case, programs.Case) else case
    return callable(root)


@pytest.mark.parametrize(("table", "name"), [pair for pair in NAMES if _is_root(*pair)], ids=lambda part: part)
def test_loud_findings_where_torch_fx_fails(table, name):
    theirs = programs.load(table, "torch.fx")[name]
    ours = programs.load(table, "fxlib")[name]
    root, concrete_args = (theirs.root, theirs.concrete_args) if isinstance(theirs, programs.Case) else (theirs, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            programs.LIBRARIES["torch.fx"].symbolic_trace(root, concrete_args)
            traced, theirs_error = True, None
        except Exception as error:
            traced, theirs_error = False, error
        root, concrete_args = (ours.root, ours.concrete_args) if isinstance(ours, programs.Case) else (ours, None)
        report = fxlib.diagnose(root, concrete_args=concrete_args)
    loud = [finding for finding in report.findings if finding.loud]
    assert bool(loud) != traced, (theirs_error, report.findings)
    assert report.traces == traced
    if not traced:
        assert report.error is not None and report.error[0] == type(theirs_error).__name__


def test_the_corpus_is_large_enough():
    assert len(NAMES) >= 200


@pytest.mark.parametrize("value", [3, object(), "forward"])
def test_no_root(value):
    with pytest.raises(TypeError, match=r"the root must be a torch\.nn\.Module or a function"):
        fxlib.diagnose(value)
