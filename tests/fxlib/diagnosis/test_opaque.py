"""What a call that the graph shows as one node does beside giving a tensor: FX242, and FX222 within it."""

from __future__ import annotations

import re

import pytest
import torch

from fxlib.diagnosis.engine.writes import writes_of
from fxlib.diagnosis.fixes.verdict import Target
from fxlib.diagnosis.fixes.verify import Checker
from tests.fxlib.diagnosis.snippets import diagnose, load

HEAD = "import contextlib\n\nimport torch\nimport torch.fx\nfrom torch import nn\n\n"
NET = "\n\nclass Net(nn.Module):\n    def forward(self, x):\n{body}\n"
WRAPPED = {
    "a list": (
        "def f(x, seen):\n    seen.append(x)\n",
        "seen = [x]\nf(x, seen)\nreturn seen[-1]",
        "a new list in each call",
    ),
    "a dictionary of a call within": (
        "def g(seen):\n    seen['y'] = 1\n\n\ndef f(x, seen):\n    g(seen=seen)\n    return x\n",
        "return f(x, {'a': x})",
        "a new dictionary in each call",
    ),
    "a copy": ("def f(x, seen):\n    seen = seen.copy()\n    seen.append(x)\n    return x\n", "return f(x, [x])", None),
    "a list of its own": ("def f(x, seen):\n    out = []\n    out.append(x)\n    return x\n", "return f(x, [x])", None),
    "a list that is returned": ("def f(x, seen):\n    seen += [x]\n    return seen\n", "return f(x, [x])", "extends"),
    "a constant": (
        "def f(x, c):\n    c[0] = x[0]\n    return c\n",
        "return f(x, torch.zeros(2, 3))",
        "into a constant",
    ),
    "a view of a constant": (
        "def f(x, c):\n    row = c.view(-1)\n    row.add_(1)\n    return c\n",
        "return f(x, torch.zeros(2, 3))",
        "into a constant",
    ),
    "a copy of a constant": (
        "def f(x, c):\n    c = c.clone()\n    c[0] = x[0]\n    return c\n",
        "return f(x, torch.zeros(2, 3))",
        None,
    ),
    "an input": ("def f(x, c):\n    c[0] = x[0]\n    return c\n", "return f(x, x * 2)", None),
    "a global": ("N = 1\n\n\ndef f(x):\n    global N\n    N += 1\n    return x\n", "return f(x) * N", "changes `N`"),
    "None": (
        "def f(x):\n    if x.sum() > 99:\n        return None\n    return x\n",
        "y = f(x)\nreturn x if y is None else y",
        "is None",
    ),
    "None in a tuple": (
        "def f(x):\n    aux = None\n    if x.sum() < 99:\n        aux = x * 2\n    return x, aux\n",
        "y, aux = f(x)\nreturn y if aux is None else aux",
        "aux is None",
    ),
    "a key that is not there": (
        "def f(x):\n    return {'y': x}\n",
        "y = f(x).get('y')\nreturn x if y is None else y",
        "y is None",
    ),
    "functions that call each other": (
        "def g(x):\n    return f(x)\n\n\ndef f(x):\n    if x.sum() > 99:\n        return g(x - 1)\n    return x\n",
        "y = f(x)\nreturn x if y is None else y",
        "y is None",
    ),
    "never None": ("def f(x):\n    y = x * 2\n    return y\n", "y = f(x)\nreturn x if y is None else y", None),
    "a kind": (
        "def f(x):\n    return x * 2\n",
        "y = f(x)\nif isinstance(y, list):\n    y = y[0]\nreturn y",
        "isinstance",
    ),
    "the same": ("def f(x):\n    return x\n", "z = x * 2\ny = f(z)\nreturn y if y is z else y * 2", "y is z"),
    "a handler": (
        "def f(x):\n    return x * 2\n",
        "try:\n    y = f(x)\nexcept IndexError:\n    y = x\nreturn y",
        "no handler",
    ),
    "a handler that raises": (
        "def f(x):\n    return x * 2\n",
        "try:\n    y = f(x)\nexcept IndexError as error:\n    raise error\nreturn y",
        None,
    ),
    "no gradients": ("def f(x):\n    return x * 2\n", "with torch.no_grad():\n    y = f(x)\nreturn y", None),
    "a context": (
        "class Quiet(contextlib.ExitStack):\n    def __exit__(self, *a):\n        return True\n\n\n"
        "def f(x):\n    return x * 2\n",
        "y = x\nwith Quiet():\n    y = f(x)\nreturn y",
        "no handler",
    ),
    "another kind of dictionary": (
        "class Config(dict):\n    pass\n\n\ndef f(x, c):\n    return x * c['a']\n",
        "return f(x, Config(a=2))",
        "a `Config`",
    ),
}


def text_of(before: str, body: str, wrapped: bool) -> str:
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    return HEAD + ('torch.fx.wrap("f")\n\n\n' if wrapped else "\n") + before + NET.format(body=indented)


@pytest.mark.parametrize("name", WRAPPED)
def test_what_a_wrapped_function_does_beside_its_result(name, tmp_path):
    before, body, said = WRAPPED[name]
    report = diagnose(text_of(before, body, True), tmp_path)
    found = [each.message for each in report.findings if each.code in ("FX222", "FX242")]
    assert not [each for each in found if "no handler" in each or "is decided" in each if "Return the new" in each]
    assert len(found) == (said is not None) and report.traces
    if said is not None:
        assert re.search(re.escape(said), found[0]), found


METER = "class Meter:\n    n = 0\n\n    def add(self, by):\n        self.n += by\n\n\nMETER = Meter()\n\n\n"
DECIDES = METER + "def f(x, *more):\n    if x.sum() > 99:\n        {rare}\n    return x * 2\n"
RARE = {
    "nothing else": ("x = x + 1", "return f(x)", True),
    "a list that is read": ("x = x + sum(more[0]) + len(more[0])", "return f(x, [1.0, 2.0])", True),
    "a list in other words": ("list.append(more[0], x)", "seen = [x]\ny = f(x, seen)\nreturn y + sum(seen)", False),
    "a constant that is read": ("x = x * more[0].clamp(max=1)", "c = torch.ones(3)\nreturn f(x, c) * c", True),
    "a constant in other words": ("nn.init.zeros_(more[0])", "c = torch.ones(3)\nreturn f(x, c) * c", False),
    "a comprehension": (
        "[each.zero_() for each in more]",
        "c = torch.ones(3)\nreturn f(x, c) * c",
        False,
    ),
    "an object's state": ("METER.add(1)", "return f(x) + METER.n", False),
    "None that a handler sees": (
        "return None",
        "y = f(x)\ntry:\n    return y.relu()\nexcept AttributeError:\n    return x",
        False,
    ),
    "a list": ("more[0].append(x)", "seen = [x]\ny = f(x, seen)\nreturn y + sum(seen)", False),
    "a constant": ("more[0][0] = 0", "c = torch.ones(3)\nreturn f(x, c) * c", False),
    "None": ("return None", "y = f(x)\nreturn x if y is None else y", False),
    "a kind": ("return [x]", "y = f(x)\nreturn y[0] if isinstance(y, list) else y", False),
}


@pytest.mark.parametrize("name", RARE)
def test_a_fix_that_makes_one_call_of_code_is_applied_where_the_graph_does_all_of_it(name, tmp_path):
    rare, body, applied = RARE[name]
    module = load(text_of(DECIDES.format(rare=rare), body, False), tmp_path)
    checker = Checker(module.__file__, "Net()", "torch.ones(2, 3)")
    (finding,) = [each for each in checker.before.report.findings if each.code == "FX101"]
    fixes = checker.settle(finding, ["wrap"])
    assert any(each.preferred for each in fixes) == applied, fixes


@pytest.mark.parametrize(
    ("rare", "body"),
    [
        ("return None", "y = self.part(x)\n        return x * 3 if y is None else y"),
        ("raise ValueError", "try:\n            return self.part(x)\n        except ValueError:\n            return x"),
    ],
)
def test_a_part_whose_caller_asks(rare, body, tmp_path):
    """The model that has it is another one of the file."""
    part = "class Part(nn.Module):\n    def forward(self, x):\n        if x.sum() > 99:\n            "
    part += f"{rare}\n        return x\n"
    head = (
        "\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()\n\n"
    )
    text = f"{HEAD}{part}{head}    def forward(self, x):\n        {body}\n"
    module = load(text, tmp_path)
    for others, applied in (((), "raise" in rare), ((Target("Net()", "torch.ones(2, 3)"),), False)):
        checker = Checker(module.__file__, "Part()", "torch.ones(2, 3)", others=others)
        (finding,) = [each for each in checker.before.report.findings if each.code == "FX101"]
        assert any(each.preferred for each in checker.settle(finding)) == applied


def _handed(rows, seen, table, out):
    for row in zip(rows, seen, strict=True):
        row[0].mul_(2)
    first, _ = table
    torch.abs(first, out=out)
    del seen[0]


def test_writes_are_read_from_the_text():
    writes = writes_of(_handed)
    assert writes.tensors == {"rows", "seen", "out"} and writes.containers == {"seen"} and not writes.state
