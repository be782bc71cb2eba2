"""The verdicts are those of torch, run as its users run it: `reference.py`, a process for each model."""

import importlib

import pytest
import torch

import fxlib
from fxlib.captures import judge
from fxlib.ir.span import source_text
from tests.fxlib.captures.agreement import answer, differences
from tests.fxlib.captures.recorded import COLLECTION, GROUPS, collection, outdated, run

# Of the architectures, those that were judged wrongly once; `benchmarks/parity.py file` compares all.
ONCE_WRONG = ("ExpertsHit", "CacheByTensor", "NoNan", "ByNumber", "NumpyOfSizes")


def cases():
    for group in GROUPS:
        module = importlib.import_module(f"tests.fxlib.captures.collection.{group}")
        for name, case in vars(module).items():
            if group == "architectures" and name not in ONCE_WRONG:
                continue
            if isinstance(case, type) and hasattr(case, "inputs"):
                yield pytest.param(group, case, id=f"{group}-{name}")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("group", "case"), cases())
def test_verdicts_are_those_of_torch(group, case):
    real = collection(group)[case.__name__]
    assert "error" not in real, real
    # It takes a third of the time and agrees for most models, so it runs only where the result differs, and for one
    # group.
    strict = group == "control" or (real["strict"] is None) != (real["export"] is None)
    judgement = judge(case(), case.inputs(), captures=("export", "compile", *(["strict"] if strict else [])))
    assert differences(real, answer(judgement)) == []


def test_answers_are_recorded():
    """Otherwise each run computes them again: see `recorded`."""
    assert outdated() == []


def test_recorded_answers_are_those_of_torch():
    names = ["Branch", "Walrus"]
    assert run("control", names) == {name: collection("control")[name] for name in names}


def test_what_an_expression_binds_is_no_failure_once_it_is_replaced():
    control = importlib.import_module("tests.fxlib.captures.collection.control")
    export = judge(control.Walrus(), control.Walrus.inputs(), captures=["export"]).verdicts["export"]
    assert [each.code for each in export.findings] == ["FX501"]


def test_strict_export_says_where_and_why_it_stops():
    effects = importlib.import_module("tests.fxlib.captures.collection.effects")
    found = judge(effects.Clock(), effects.Clock.inputs(), captures=["export", "strict"]).verdicts
    line = 1 + next(i for i, each in enumerate((COLLECTION / "effects.py").read_text().splitlines()) if "perf_" in each)
    assert found["export"].outcome == "captured" and found["strict"].outcome == "fails"
    assert found["strict"].reason.startswith(f"line {line}: ")


def test_what_is_compiled_first_does_not_change_what_is_exported():
    reports = importlib.import_module("tests.fxlib.captures.collection.reports")
    checked = torch.distributions.Distribution._validate_args
    found = judge(reports.Policy(), reports.Policy.inputs(), captures=["compile", "export"]).verdicts
    assert checked and torch.distributions.Distribution._validate_args
    assert (found["compile"].outcome, found["export"].outcome) == ("captured", "fails")


def test_an_answer_is_one_finding_for_all_captures_that_ask_for_it():
    reports = importlib.import_module("tests.fxlib.captures.collection.reports")
    judgement = judge(reports.Running(), reports.Running.inputs(), captures=["export", "compile"])
    (found,) = [each for each in judgement.findings if each.code in ("FX501", "FX601")]
    assert source_text(found.span) == "self.ready" and set(found.data["captures"]) == {"export", "compile"}


def test_data_that_is_read_is_found_where_it_is_read():
    reports = importlib.import_module("tests.fxlib.captures.collection.reports")
    (found,) = judge(reports.DataRead(), reports.DataRead.inputs(), captures=["export"]).findings
    assert (found.code, source_text(found.span)) == ("FX508", "x.data")


def test_a_gradient_is_found_where_it_is_asked_for():
    reports = importlib.import_module("tests.fxlib.captures.collection.reports")
    (found,) = judge(reports.GradPenalty(), reports.GradPenalty.inputs(), captures=["export"]).findings
    assert found.code == "FX509"
    assert source_text(found.span) == "torch.autograd.grad(y, x, create_graph=True)"


def test_later_calls_are_told_without_names_of_dynamos():
    reports = importlib.import_module("tests.fxlib.captures.collection.reports")
    judgement = judge(reports.ScheduledDropout(), reports.ScheduledDropout.inputs(), captures=["compile"])
    assert "___stack" not in " ".join(each.message for each in judgement.findings)


def test_what_stops_fullgraph_alone_is_found_where_it_is():
    architectures = importlib.import_module("tests.fxlib.captures.collection.architectures")
    found = judge(architectures.ByNumber(), architectures.ByNumber.inputs(), captures=["compile"]).findings
    assert [(each.code, source_text(each.span)) for each in found] == [
        ("FX614", "str(task.item())"),
        ("FX602", "task.item()"),
    ]


@pytest.mark.parametrize(("name", "codes"), [("CounterUsed", ["FX551"]), ("Training", [])])
def test_state_that_an_export_drops_is_found_without_data(name, codes):
    case = getattr(importlib.import_module("tests.fxlib.captures.collection.effects"), name)
    inputs = tuple(each.to("meta") for each in case.inputs())
    export = judge(case().to("meta"), inputs, captures=["export"]).verdicts["export"]
    assert [each.code for each in export.findings] == codes


CALLS = [0]


class Kept(torch.nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.state = {"n": {"m": 0}}
        self.seen = 0

    def forward(self, x):
        self.state["n"]["m"] += 1
        CALLS[0] += 1
        type(self).calls += 1
        return x * self.state["n"]["m"] + CALLS[0] + self.calls


class ByGradMode(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.is_grad_enabled() else x + torch.rand(())


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Kept, [("FX551", 'self.state["n"]["m"]'), ("FX551", "CALLS[0]"), ("FX551", "type(self).calls")]),
        (ByGradMode, [("FX552", "torch.is_grad_enabled()")]),
    ],
)
def test_what_a_trace_keeps_an_export_keeps_too(kind, found):
    """Also outside of the module: found once, for both captures."""
    inputs = (torch.ones(2),)
    judgement = judge(kind(), inputs, captures=["export"], report=fxlib.diagnose(kind(), inputs))
    given = [(each.data["captures"].get("export"), source_text(each.span)) for each in judgement.findings]
    assert given == found
    assert {each.data["severities"]["export"] for each in judgement.findings} == {"warning"}
    assert {*judgement.findings[0].data["captures"]} == {"fx", "export"}


class Written(torch.nn.Module):
    def forward(self, x, y):
        made = torch.empty_like(x)
        torch.mul(x, 2, out=made)
        return y.add_(made)


def test_what_an_export_writes_into_is_what_its_operator_writes_into():
    """Not the first argument of a call with `out`."""
    export = judge(Written(), (torch.ones(2), torch.ones(2)), captures=["export"]).verdicts["export"]
    (found,) = export.findings
    assert found.code == "FX554" and "writes into the input `y`" in found.message
