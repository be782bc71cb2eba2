"""The examples of docs/fxlib.md run, and print what it says."""

import contextlib
import inspect
import io
import re
import textwrap
from pathlib import Path

import torch

import fxlib

DOCUMENT = Path(__file__).parents[3] / "docs" / "fxlib.md"


def blocks():
    """The fenced blocks in order, as (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program(tmp_path, monkeypatch):
    scope = {"__name__": "document"}
    printed = ""
    shown = 0
    for number, (language, text) in enumerate(blocks()):
        if language == "python":
            # On disk, since spans and tracing read the source.
            path = tmp_path / f"block_{number}.py"
            path.write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(path), "exec"), scope)
            printed = out.getvalue()
        else:
            lines = [line.rstrip() for line in printed.strip().splitlines()]
            assert lines == [line.rstrip() for line in text.strip().splitlines()]
            shown += 1
    assert shown == 4


def example(doc):
    """The indented block after ``Example::`` in a docstring."""
    return inspect.cleandoc(doc).split("Example::\n")[1].split("\n\nArgs:")[0].split("\n\nRaises:")[0]


def test_the_example_of_the_package(tmp_path, capsys):
    text = textwrap.dedent(example(fxlib.__doc__).split("\nThe names,")[0])
    path = tmp_path / "example.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), {"__name__": "example"})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert printed == [line.removeprefix("# ").rstrip() for line in text.splitlines() if line.startswith("# ")]
    assert len(printed) == 17


def run_example(doc, **names):
    scope = {"fxlib": fxlib, "torch": torch, **names}
    exec(textwrap.dedent(example(doc)), scope)
    return scope


def test_the_examples_of_what_runs_graphs(capsys):
    gm = fxlib.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
    run_example(fxlib.Interpreter.__doc__, gm=gm)
    assert re.fullmatch(r"\d\S* in (_0|_1|input_1|output)\n", capsys.readouterr().out)
    halved = run_example(fxlib.Transformer.__doc__, gm=gm)["halved"]
    assert halved(torch.randn(3, 4)).dtype is torch.float32
    assert halved.code.count("torch.bfloat16") == 2


def test_the_example_of_replace_pattern(capsys):
    class Polar(torch.nn.Module):
        def forward(self, x, y):
            return torch.sqrt(torch.square(x) + torch.square(y)), torch.atan2(y, x)

    gm = run_example(fxlib.replace_pattern.__doc__, Polar=Polar)["gm"]
    assert capsys.readouterr().out == "1 replaced, the last of them at sqrt\n"
    assert gm(torch.tensor(3.0), torch.tensor(4.0))[0] == 5
