"""Problems hidden by a misleading answer: the path of a normal run is explored, and findings say what must be fixed
first."""

from __future__ import annotations

import textwrap

import pytest
import torch

import fxlib
from fxlib.diagnosis import RULES

from .snippets import load

EXAMPLE = (torch.ones(2, 3),)
NET = """\
import contextlib

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.kinds = {2: "two"}
        self.seen = None

    def forward(self, x, mask=None, exact=True):
"""
HIDING = {code for code, rule in RULES.items() if rule.misleads}
# Name: the body of forward, then what is found and, for what is hidden, by which rule and in which line of forward.
CASES = {
    "default of None": (
        """
        if mask is None:
            mask = torch.zeros(x.shape[0], 3)
            if x.sum() > 0:
                x = x * int(x.mean())
        return x * mask
        """,
        "FX201 FX160<FX201:1 FX101<FX201:1 FX130<FX201:1",
    ),
    "one line": ("return mask + x if mask is not None else x * len(x)", "FX201 FX120<FX201:1"),
    "isinstance": (
        """
        if isinstance(x, torch.Tensor):
            return x * len(x)
        return x
        """,
        "FX202 FX120<FX202:1",
    ),
    "type": ("return x * len(x) if type(x) is torch.Tensor else x", "FX120<FX202:1 FX202"),
    "hasattr": ("return x.boxes if hasattr(x, 'boxes') else x * len(x)", "FX217 FX203 FX120<FX203:1"),
    "key of a dictionary": (
        """
        if x.shape[0] in self.kinds:
            x = x * len(x)
        kind = self.kinds.get(x.shape[0])
        if kind is not None:
            x = x * float(x.sum())
        return x
        """,
        "FX204 FX120<FX204:1 FX204 FX130<FX204:3",
    ),
    "text": ("return x * len(x) if str(x.dtype) == 'torch.float32' else x", "FX120<FX205:1 FX205"),
    "identity": ("return x * len(x) if exact is True else x", "FX120<FX231:1 FX231"),
    "exception that does not come": (
        """
        try:
            x = x.boxes
        except AttributeError:
            x = x * len(x)
        return x
        """,
        "FX216 FX120<FX216:2",
    ),
    "swallowed question": (
        """
        try:
            if x.sum() > 0:
                x = x * 2
            y = int(x.mean())
        except Exception:
            y = 1
        return x * y
        """,
        "FX215 FX215<FX215:2",
    ),
    "swallowed exception": (
        """
        with contextlib.suppress(TypeError):
            n = int(x.sum())
            if n > 3:
                x = x + 1
            x = x * torch.zeros(x.shape[0], 3)
        return x
        """,
        "FX215 FX215<FX215:2",
    ),
    "one after the other": (
        """
        if mask is None:
            if isinstance(x, torch.Tensor):
                if x.shape[0] in {2, 3}:
                    x = x * len(x)
        return x
        """,
        "FX201 FX202<FX201:1 FX204<FX202:2 FX120<FX204:3",
    ),
    "silent ones": (
        """
        if mask is None:
            with torch.no_grad():
                y = self.fc(x)
            self.seen = y
            return y + torch.rand(1).item() + y.boxes
        return x
        """,
        "FX201 FX212<FX201:1 FX209<FX201:1 FX206<FX201:1 FX217<FX201:1",
    ),
    "nothing there": ("return x if mask is None else x + mask", "FX201"),
}


def report(body: str, folder, inputs=EXAMPLE):
    text = NET + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n"
    return fxlib.diagnose(load(text, folder).Net(), inputs)


def described(found) -> str:
    first = NET.count("\n")
    places = {finding.span: finding.code for finding in found.findings if finding.code in HIDING}
    return " ".join(
        f"{f.code}<{places[f.hidden_by]}:{f.hidden_by.line - first}" if f.hidden_by else f.code for f in found.findings
    )


@pytest.mark.parametrize("name", CASES)
def test_what_a_misleading_answer_hides_is_found(name, tmp_path):
    body, wanted = CASES[name]
    found = report(body, tmp_path)
    assert described(found) == wanted, [finding.message for finding in found.findings]
    # As it stands, the code is traced by torch.fx, and the report says so.
    assert found.traces and not any(finding.loud for finding in found.findings)
    assert not any(finding.severity == "error" for finding in found.findings)


def test_the_message_says_what_has_to_be_fixed_first(tmp_path):
    body, _ = CASES["default of None"]
    found = report(body, tmp_path)
    hiding, hidden = found.findings[:2]
    assert hidden.message.startswith(
        "After `mask is None` (line 15) is fixed, tracing fails here: `torch.zeros` cannot take"
    )
    assert [note.span for note in hidden.related if note.message.startswith("FX201 hides this")] == [hiding.span]


def test_the_trace_itself_stays_as_it_is(tmp_path):
    body, _ = CASES["default of None"]
    found = report(body, tmp_path)
    assert [str(node.target) for node in found.graph.nodes if node.op == "call_function"] == ["<built-in function mul>"]
    assert [piece.span.line for piece in found.untaken] == [16]


def test_it_comes_up_when_the_first_is_fixed(tmp_path):
    body, _ = CASES["default of None"]
    text = NET + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n"
    net = load(text, tmp_path).Net()
    hidden = {(f.code, f.span) for f in fxlib.diagnose(net, torch.ones(2, 3)).findings if f.hidden_by}
    fixed = fxlib.diagnose(net, torch.ones(2, 3), concrete_args={"mask": None})
    assert {(f.code, f.span) for f in fixed.findings if f.loud} == hidden


def test_without_example_inputs(tmp_path):
    body, _ = CASES["isinstance"]
    assert described(report(body, tmp_path, None)) == "FX202 FX120<FX202:1"
