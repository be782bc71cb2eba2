"""What a diagnosis finds in everyday programs, with example inputs and without, and torch.fx's verdict on them."""

import warnings

import pytest
import torch

import fxlib

from .everyday import CASES


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", CASES)
def test_findings(name):
    function, codes, inputs = CASES[name]
    report = fxlib.diagnose(function, inputs)
    assert report.codes() == codes, [finding.message for finding in report.findings]


@pytest.mark.parametrize("given", [True, False], ids=["inputs", "none"])
@pytest.mark.parametrize("name", CASES)
def test_verdict(name, given):
    function, _, inputs = CASES[name]
    try:
        torch.fx.symbolic_trace(function)
        traced = True
    except Exception:
        traced = False
    report = fxlib.diagnose(function, inputs if given else None)
    assert report.traces == traced
    assert any(finding.loud for finding in report.findings) != traced
