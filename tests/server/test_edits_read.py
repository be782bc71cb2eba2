"""Incremental reading after an edit in one place gives the same as reading the whole text: its parts, classes and
examples, and the code of its functions, each on its current line. ``FXLENS_EDITS`` is how many random edits are made of
each text, ``FXLENS_SEED`` which ones."""

from __future__ import annotations

import ast
import os
import random
from dataclasses import replace
from pathlib import Path
from types import CodeType

import pytest
from fxlens.ipc.request import Request
from fxlens.sources import targets
from fxlens.worker import codes, main_block, reading
from fxlens.worker.job import Job
from random_edits import NOTHING_SAID, SPREAD, TEXT, edited

EDITS = int(os.environ.get("FXLENS_EDITS", "60"))
SEED = int(os.environ.get("FXLENS_SEED", "1"))
EXAMPLE = Path(__file__).parents[2] / "examples" / "transformer.py"
ODD = '''from __future__ import annotations
import torch
from torch import nn

if torch.cuda.is_available():
    def chosen(x):
        return x
else:
    def chosen(x): return -x


class Outer(nn.Module):
    table = {"a": 1,
             "b": 2}; other = 3

    @staticmethod
    def made(x: int,
             y=(1,
                2)):
        """Text
    # that is no comment
"""
        return [each for each in y if each > x]  # at its end

    class Block(nn.Module):
\t# with a tab
        @property
        @torch.no_grad()
        def width(self): return self.__hidden

        def forward(self, x):
            def inner(a, *, b=lambda c: c):
                nonlocal x
                x = a + super(Outer.Block, self).__len__()
                return b(x)
            text = f"""{inner(x)}
            two"""; number = 0.0
            return inner(x) \\
                + len(text) + number  # last

    def forward(self, x):
        x = x.to(self.weight.device)
        return Outer()(x)
    # after it

    async def later(self, x: Outer = None) -> torch.Tensor:
        async for each in x:
            yield each
        del x

    forward.mark = 1


def last(x):
    global torch
    return x * -0.0


if __name__ == "__main__":
    options = 3
    Outer()(torch.ones(3))
    # the end
'''
STATEMENTS = (
    '"""', "# said", "    # deeper", "# fxlens: skip", "x = 1 \\", "return x", "@property", "def more(self): pass",
    "class More: pass", "x = '''", "(", ")", "x = x.to(self.weight.device)", "Outer(3)", "super()", "__class__",
    "self.__hidden = 1", "x: int = 3", "yield x", "await x", "nonlocal x", "global x", "print(options)", "x is 1",
    "lambda: (yield)", "import torch", "from os import *", "\f", "\t", "x = '\\d'", "pass;", "if x:",
    "return (\n    x)", "x = '''\n# one\n'''", "with x as y:\n    pass", "else:", "\x00", "\ud800",
    "é = 'ü'", "for x in y: break",
)  # fmt: skip


def changed(text: str, dice: random.Random) -> str:
    """The text after an edit that parsers are sensitive to, or one of a person's."""
    if dice.random() < 0.4:
        return edited(text, dice)
    lines = text.split("\n")
    at = dice.randrange(len(lines) + 1)
    line = lines[at - 1]
    indent = line[: len(line) - len(line.lstrip())]
    kind = dice.random()
    if kind < 0.55:
        depth = dice.choice((indent, indent, indent, indent + "    ", indent[:-4], ""))
        lines[at:at] = [depth + each for each in dice.choice(STATEMENTS).split("\n")]
    elif kind < 0.65:
        del lines[at : at + dice.randint(1, 3)]
    elif kind < 0.72 and at:
        lines[at - 1] = dice.choice(("    ", "\t", "")) + line.lstrip()
    elif kind < 0.8 and at:
        lines[at - 1] += dice.choice(("  # fxlens: ignore", ";", " \\", "  # type: int", ")", " x"))
    elif kind < 0.9 and at:
        cut = dice.randint(0, len(line))
        lines[at - 1 : at] = [line[:cut], line[cut:]]
    else:
        lines[:0] = ["# above"] * dice.randint(1, 2)
    return "\n".join(lines)


def job_of(text: str, path: Path) -> Job:
    return Job(dict(Request(str(path), text, str(path.parent)).message("trace")), None)  # type: ignore[arg-type]


def whole(text: str, path: Path) -> reading.Reading:
    found = reading.whole(job_of(text, path), ast.parse(text))
    return found


def compiled(read: reading.Reading) -> CodeType:
    return compile(ast.parse(read.text), read.path, "exec", dont_inherit=True)


def described(code: CodeType | None) -> object:
    """All of a code but its identity."""
    if code is None:
        return None
    consts = [described(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    names = [
        getattr(code, name) for name in dir(code) if name.startswith("co_") and name not in ("co_consts", "co_lnotab")
    ]
    return [each if not callable(each) else list(each()) for each in names], consts


def compare(before: reading.Reading, text: str, path: Path) -> bool:
    """Whether the text was read by its edit alone; then that is what all of it gives."""
    graft = reading.grafted(before, job_of(text, path), main_block.missing((), before.tree) or frozenset())
    if graft is None:
        return False
    now, code = graft.reading, None
    if graft.function is not None:
        classes = before.parts[graft.number].classes
        if (code := codes.compiled(graft.function, classes, now.imports, now.path, compiled(before))) is None:
            return False
    again = whole(text, path)
    assert targets.may_have_models(again.tree, text)
    assert [replace(each, nodes=[], moved=0) for each in now.parts] == [
        replace(each, nodes=[], moved=0) for each in again.parts
    ]
    assert [each.inside() for each in now.parts] == [each.inside() for each in again.parts]
    assert (now.found.targets, now.own_device, now.lines) == (again.found.targets, again.own_device, again.lines)
    assert now.found.asked == again.found.asked
    old, new = codes.of_functions(before.parts, compiled(before)), codes.of_functions(again.parts, compiled(again))
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        if graft.function is not None and graft.number == number:
            one = code
        elif one is not None and one.co_firstlineno >= graft.begins:
            one = codes.moved(one, graft.moved, {})
        assert one is None or described(one) == described(other)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "text",
    [TEXT, NOTHING_SAID, SPREAD, ODD, ODD.replace("\n", "\r\n"), EXAMPLE.read_text()],
    ids=["said", "nothing said", "spread", "odd", "odd, CRLF", "example"],
)
def test_an_edit_in_one_place_is_read_as_the_whole_text(text, tmp_path):
    path = tmp_path / "net.py"
    dice = random.Random(SEED)
    before, count = whole(text, path), 0
    assert reading.prepared(before)
    for number in range(EDITS):
        new = changed(before.text, dice)
        try:
            grafted = compare(before, new, path)
        except Exception as error:
            raise AssertionError(f"edit {number}:\n{new}") from error
        count += grafted
        if grafted and dice.random() < 0.9:
            before = whole(new, path)
            if len(before.lines) < 400 and reading.prepared(before):
                continue
        before = whole(text, path)
    assert count > EDITS / 5
