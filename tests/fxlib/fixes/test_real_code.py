"""Models as they are written in public repositories: their fixes prove themselves, and read as a person would write."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from warm_python import warm_fxlens

from fxlib.diagnosis.fixes import apply_fix, compare, example, propose
from fxlib.diagnosis.fixes.fix_all import Target, fix_all
from fxlib.diagnosis.fixes.resize import another_size, small_enough
from fxlib.diagnosis.fixes.tidy import without_unused_imports
from fxlib.diagnosis.fixes.verify import Checker

from .test_verify import checker_for, settled, traced_equals_eager

ROOT = Path(__file__).resolve().parents[3]
HEAD = "import torch\nfrom torch import nn\n\n\n"

# The source, its inputs, the recipes that make it traceable, and texts that the fixed file holds.
MODELS = {
    "positions of another size": (
        HEAD
        + '''class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.stride = 4
        self.proj = nn.Conv2d(3, 8, 4, 4)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = Patches()
        self.table = nn.Parameter(torch.randn(1, 16, 8))

    def positions(self, tokens, height, width):
        """The table, or one of the size of the image."""
        rows, known = tokens.shape[1], self.table.shape[1]
        if rows == known and height == width:
            return self.table
        side = int(known**0.5)
        size = (height // self.patches.stride, width // self.patches.stride)
        # as an image
        image = self.table.reshape(1, side, side, -1).permute(0, 3, 1, 2)
        image = nn.functional.interpolate(image, size=size, mode="bilinear")
        return image.flatten(2).transpose(1, 2)

    def forward(self, x):
        height, width = x.shape[-2:]
        tokens = self.patches(x)
        return tokens + self.positions(tokens, height, width)
''',
        "torch.randn(2, 3, 16, 16)",
        ["lift-block"],
        [
            "def _positions(tokens, height, width, table, stride):\n    rows, known = tokens.shape[1], ",
            "    size = (height // stride, width // stride)\n    # as an image\n",
            "        return _positions(tokens, height, width, self.table, self.patches.stride)\n",
        ],
    ),
    "parts into arguments": (
        HEAD
        + """class Net(nn.Module):
    def gated(self, value, gate):
        return value * torch.sigmoid(gate)

    def forward(self, x):
        return self.gated(*torch.split(x, 2, dim=1))
""",
        "torch.randn(3, 4)",
        ["index-star"],
        ["        parts = torch.split(x, 2, dim=1)\n        return self.gated(parts[0], parts[1])\n"],
    ),
    "keywords handed on": (
        HEAD
        + """class Inner(nn.Module):
    def forward(self, x, scale=2.0, shift=0):
        return x * scale + shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, **kwargs):
        return self.inner(x, **kwargs)
""",
        "torch.randn(3, 4)",
        ["name-arguments"],
        ["def forward(self, x, scale=2.0, shift=0):\n        return self.inner(x, scale=scale, shift=shift)\n"],
    ),
    "positions handed on": (
        HEAD
        + """class Inner(nn.Module):
    def forward(self, left, right):
        return left @ right


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, *args):
        return self.inner(*args).tanh()
""",
        "torch.randn(3, 4), torch.randn(4, 2)",
        ["name-arguments"],
        ["def forward(self, left, right):\n        return self.inner(left, right).tanh()\n"],
    ),
    "losses of parts": (
        HEAD
        + """class Net(nn.Module):
    def forward(self, outputs):
        losses = {"count": outputs["boxes"].shape[0]}
        losses.update(outputs)
        return losses["boxes"] * losses["count"]
""",
        '{"boxes": torch.randn(3, 4)}',
        ["dict-union"],
        ["        losses = losses | outputs\n"],
    ),
    "a star in a shape": (
        HEAD
        + """class Net(nn.Module):
    def forward(self, x):
        leading = x.shape[:-1]
        shape = (*leading, -1, 2)
        return x.view(shape).transpose(1, 2)
""",
        "torch.randn(2, 3, 4)",
        ["star-concat"],
        ["        shape = leading + (-1, 2)\n"],
    ),
    "a star in a shape, in a helper": (
        HEAD
        + """def heads(x, width):
    return x.view((*x.shape[:-1], -1, width)) * float(1.0 / width)


class Net(nn.Module):
    def forward(self, x):
        return heads(x, x.shape[-1] // 2)
""",
        "torch.randn(2, 3, 4)",
        ["star-concat", "drop-float"],
        ["return x.view(x.shape[:-1] + (-1, width)) * (1.0 / width)\n"],
    ),
    "a quotient of quotients": (
        HEAD
        + """class Net(nn.Module):
    def forward(self, windows):
        batch = int(windows.shape[0] / (4 * 4 / 2 / 2))
        return windows.view(batch, -1)
""",
        "torch.randn(8, 3)",
        ["floor-div"],
        ["        batch = windows.shape[0] * 2 * 2 // (4 * 4)\n"],
    ),
    "a list that a loop fills": (
        HEAD
        + """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 4)

    def forward(self, frames):
        scores = []
        embedded = self.embed(frames)
        for i in range(frames.shape[1]):
            score = embedded[:, i] * embedded[:, 0]
            scores.append(score)
        score = torch.stack(scores, 1)
        return score.softmax(1) * frames
""",
        "torch.randn(2, 3, 4)",
        ["lift-block"],
        [
            "def _scores(frames, embedded):\n    scores = []\n    for i in range(frames.shape[1]):\n",
            "        embedded = self.embed(frames)\n        scores = _scores(frames, embedded)\n",
        ],
    ),
    "a weight that is computed": (
        HEAD
        + """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))

    def forward(self, x):
        if x.shape[-1] % 2:
            x = nn.functional.pad(x, (0, 1))
        return self.conv(x)
""",
        "torch.randn(2, 4, 7)",
        ["lift-block"],
        ["def _pad_x(x):\n", "        x = _pad_x(x)\n"],
    ),
    "a layer of NumPy": (
        "import math\n\nimport numpy as np\nimport torch\nfrom torch import nn\n\n\n"
        + """class Net(nn.Module):
    def forward(self, x):
        return x / np.sqrt(x.shape[-1]) * math.pi
""",
        "torch.randn(2, 3)",
        ["np-to-torch"],
        ["import math\n\nimport torch\nfrom torch import nn\n", "x / math.sqrt(x.shape[-1])"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_fixes_make_it_traceable(name, tmp_path):
    text, inputs, recipes, parts = MODELS[name]
    path = tmp_path / "net.py"
    path.write_text(text)
    fixed = fix_all(str(path), [Target("Net()", inputs)], unsafe=True)
    assert [fix.id for fix in fixed.applied] == recipes
    assert [finding.code for finding in fixed.remaining if finding.severity == "error"] == []
    for part in parts:
        assert part in fixed.texts[str(path)]
    if not inputs.startswith("{"):
        assert traced_equals_eager(path, fixed.texts, "Net()", inputs)


def test_a_batch_norm_with_a_branch_is_kept_as_one_node(tmp_path):
    """Only as a leaf does it follow train() and eval(), as its base does."""
    checker = checker_for(
        tmp_path,
        HEAD
        + """class Norm(nn.BatchNorm2d):
    def forward(self, x):
        if x.numel() > 0:
            return super().forward(x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(3)

    def forward(self, x):
        return self.norm(x).relu()
""",
        "torch.randn(2, 3, 4, 4)",
    )
    leaf = settled(checker, "FX102")["leaf-module"]
    assert leaf.preferred and leaf.checked and leaf.settings == {"leaf_modules": ["Norm"]}


@pytest.mark.parametrize(("dim", "inputs", "slow"), [(1, "3, 4", 60.0), (0, "4, 16", 0.0)])
def test_a_fix_for_one_size_only_is_not_offered(tmp_path, monkeypatch, dim, inputs, slow):
    """Two parts by index are what the star gives for four columns or rows, and not for eight; of a slow example the
    columns shrink, and the rows double."""
    monkeypatch.setattr(example, "_SLOW", slow)
    text = HEAD + "def joined(*parts):\n    return torch.hstack(parts)\n\n\n"
    text += f"class Net(nn.Module):\n    def forward(self, x):\n        return joined(*x.split(2, dim={dim}))\n"
    checker = checker_for(tmp_path, text, f"torch.randn({inputs})")
    assert "another size, eval" in {outcome.name for outcome in checker.before.outcomes}
    (finding,) = checker.before.report.findings
    proposed = [fix for fix in propose(finding) if fix.id == "index-star"]
    assert "joined(parts_2[0], parts_2[1])" in apply_fix(proposed[0])[str(tmp_path / "net.py")]
    assert checker.verify(proposed[0], finding).same_eager is False
    assert "index-star" not in [fix.id for fix in checker.settle(finding)]


def test_a_fix_for_even_sizes_only_is_not_offered(tmp_path):
    text = (
        HEAD + "class Net(nn.Module):\n    def forward(self, x):\n        return x[: int(x.shape[0] / 2), : len(x)]\n"
    )
    checker = checker_for(tmp_path, text, "torch.randn(4, 6)")
    (finding,) = (each for each in checker.before.report.findings if each.code == "FX130")
    (fix,) = propose(finding, recipes=["floor-div"])
    up = replace(fix, edits=tuple(replace(each, text="(x.shape[0] + 1) // 2") for each in fix.edits))
    assert checker.verify(fix, finding).same_eager is True
    assert checker.verify(up, finding).same_eager is False


def test_a_slow_example_is_run_once_and_all_else_at_a_smaller_size(tmp_path, monkeypatch):
    monkeypatch.setattr(example, "_SLOW", 0.0)
    text = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Conv2d(3, 4, 3)\n\n    def forward(self, x: torch.Tensor):\n"
        "        return self.layer(x) / len(x)\n"
    )
    checker = checker_for(tmp_path, text, "torch.randn(1, 3, 48, 64)")
    outcomes = checker.before.outcomes
    assert [(each.name, list(each.args[0].shape)) for each in outcomes[:7]] == [
        ("the example, eval", [1, 3, 48, 64]),
        ("another size, eval", [2, 3, 6, 4]),
        ("another size, train", [2, 3, 6, 4]),
        ("in double", [2, 3, 6, 4]),
        ("in half", [2, 3, 6, 4]),
        ("in integers", [2, 3, 6, 4]),
        ("negated, eval", [2, 3, 6, 4]),
    ]
    assert outcomes[-1].name == "the example, train"
    assert [bool(each.gradients) for each in outcomes[:3]] == [False, True, False]
    assert settled(checker, "FX120")["len-to-shape"].preferred


def test_of_an_assumed_example_that_never_ends_smaller_sizes_are_run(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "_PATIENCE", {compare.TRIAL: 0.05})
    text = HEAD + (
        "def slow(x):\n    endless = x.shape[1] > 8 and type(x) is torch.Tensor and not x.is_meta\n"
        "    for step in range(10**9 if endless else 1):\n        x = x + step\n    return x\n\n\n"
        "torch.fx.wrap('slow')\n\n\n"
        "class Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return slow(x) / len(x)\n"
    )
    (tmp_path / "net.py").write_text(text)
    checker = Checker(str(tmp_path / "net.py"), "Net()", "torch.randn(2, 64)", assumed=True)
    shapes = [(each.name, list(each.args[0].shape)) for each in checker.before.outcomes[:2]]
    assert shapes == [("the example, eval", [2, 8]), ("another size, eval", [3, 4])]
    fix = settled(checker, "FX120")["len-to-shape"]
    assert fix.checked and fix.note == "compared with eager on assumed inputs of two sizes, [2, 8] and [3, 4]"


@pytest.mark.parametrize(
    ("seconds", "small"),
    [
        (lambda length, width: 0.1, None),
        (lambda length, width: length / 16 if length > 8 else math.inf, [2, 16, 12]),
        (lambda length, width: math.inf if length > 16 else length / 16, [2, 4, 12]),
        (lambda length, width: None if length < 32 else width / 12, [2, 32, 3]),
        (lambda length, width: None if length < 32 else None if width < 12 else 9.0, None),
    ],
)
def test_an_example_shrinks_until_it_is_quick_or_no_further(seconds, small):
    found = small_enough((torch.randn(2, 32, 12),), {}, lambda args, kwargs: seconds(*args[0].shape[1:]), 0.3)
    assert (found and list(found(torch.randn(2, 32, 12)).shape)) == small


@pytest.mark.parametrize(
    ("fast", "tried"),
    [
        (8, [[2, 8, 3], [3, 8, 3]]),
        (4, [[2, 8, 3], [2, 4, 3], [3, 4, 3]]),
        (0, [[2, 8, 3], [2, 4, 3], [3, 4, 3]]),
    ],
)
def test_a_slow_example_shrinks_as_long_as_it_is_slow_and_then_its_batch_grows(fast, tried):
    shapes: list[list[int]] = []

    def runs(args, kwargs):
        shapes.append(list(args[0].shape))
        return True

    found = another_size((torch.randn(2, 16, 3),), {}, runs, smaller=True, slow=lambda: shapes[-1][1] > fast)
    assert shapes == tried and list(found(torch.randn(2, 16, 3)).shape) == tried[-1]


def test_a_parameter_that_tracing_writes_keeps_its_value_for_the_comparison(tmp_path):
    text = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(3))\n\n    def forward(self, x):\n"
        "        self.scale.data.mul_(2)\n        return x * self.scale / len(x)\n"
    )
    checker = checker_for(tmp_path, text, "torch.ones(2, 3)")
    assert checker.before.outcomes[0].value.tolist() == [[1.0] * 3] * 2
    (finding,) = [each for each in checker.before.report.findings if each.code == "FX120"]
    (fix,) = propose(finding, recipes=["len-to-shape"])
    assert checker.verify(fix, finding).same_eager


def test_one_edit_for_several_findings_is_run_once(tmp_path):
    """All calls of a function go with one `wrap`; a call that it does not reach stays a finding."""
    text = (
        "from einops import rearrange\n"
        + HEAD
        + (
            "class Net(nn.Module):\n    def forward(self, x):\n        x = rearrange(x, 'a b -> b a') + len(x)\n"
            "        return rearrange(x, 'b a -> (a b)')\n"
        )
    )
    checker = checker_for(tmp_path, text, "torch.randn(2, 3)")
    executed: list[dict[str, str]] = []
    load = checker.load

    def counted(file, texts):
        if texts:
            executed.append(texts)
        return load(file, texts)

    checker.load = counted
    lines = {each.code: [] for each in checker.before.report.findings}
    for each in checker.before.report.findings:
        lines[each.code].append(each)
    first, second = lines["FX198"]
    (wrap, *_), (same, *_) = propose(first, recipes=["wrap"]), propose(second, recipes=["wrap"])
    assert wrap.edits == same.edits
    executed.clear()
    verdicts = checker.verify(wrap, first), checker.verify(same, second)
    assert len(executed) == 1 and verdicts[0] == verdicts[1] and verdicts[0].same_eager and verdicts[0].gone
    assert not checker.verify(wrap, lines["FX120"][0]).gone
    assert len(executed) == 1


def test_a_fix_that_counts_parts_is_not_offered_for_large_examples(tmp_path):
    text = HEAD + "def joined(*parts):\n    return torch.hstack(parts)\n\n\n"
    text += "class Net(nn.Module):\n    def forward(self, x):\n        return joined(*x.split(64, dim=2))\n"
    checker = checker_for(tmp_path, text, "torch.randn(1, 3, 64, 64)")
    (finding,) = checker.before.report.findings
    assert "index-star" not in [fix.id for fix in checker.settle(finding)]


def test_nothing_is_proven_where_the_example_fails_in_eager(tmp_path):
    text = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.places = nn.Embedding(32, 8)\n\n    def forward(self, x):\n"
        "        return self.places(torch.arange(x.shape[1])) / len(x)\n"
    )
    fix = settled(checker_for(tmp_path, text, "torch.zeros(1, 64)"), "FX120")["len-to-shape"]
    assert not fix.preferred and "eager fails on the example inputs with IndexError" in fix.note


@pytest.mark.parametrize(
    ("inputs", "width", "says"),
    [
        ("torch.randn(2, 3)", 3, "compared with eager on assumed inputs of two sizes, [2, 3] and [3, 3]"),
        ("torch.randn(1, 3), 1", 3, "compared with eager on assumed inputs of two sizes, [1, 3] and [2, 3]"),
    ],
)
def test_a_proof_on_assumed_inputs_says_so(inputs, width, says, tmp_path):
    text = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = nn.Linear({width}, 2)\n\n    def forward(self, x: torch.Tensor, scale=1):\n"
        "        return self.layer(x) / len(x) * scale\n"
    )
    (tmp_path / "net.py").write_text(text)
    for assumed in (True, False):
        checker = Checker(str(tmp_path / "net.py"), "Net()", inputs, assumed=assumed)
        fix = settled(checker, "FX120")["len-to-shape"]
        assert fix.preferred and (fix.note == says) == assumed


def test_a_proof_on_inputs_of_one_size_says_so(tmp_path):
    text = HEAD + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.randn(2, 3))\n        self.layer = nn.Linear(5, 3)\n\n"
        "    def forward(self, x: torch.Tensor):\n        return self.layer(x) * self.weight / len(x)\n"
    )
    (tmp_path / "net.py").write_text(text)
    checker = Checker(str(tmp_path / "net.py"), "Net()", "torch.randn(2, 5)", assumed=True)
    fix = settled(checker, "FX120")["len-to-shape"]
    assert fix.preferred and fix.note == "compared with eager on assumed inputs of one size, [2, 5]"


TIDY = {
    "one name of several": ("from a import b, c\nb, c\n", "from a import b, c\nb\n", "from a import b\nb\n"),
    "a line of its own": (
        "from a import (\n    b,\n    c,\n)\nb, c\n",
        "from a import (\n    b,\n    c,\n)\nc\n",
        "from a import (\n    c,\n)\nc\n",
    ),
    "an alias": ("import numpy as np\nnp.pi\n", "import numpy as np\n3\n", "3\n"),
    "a text that names it": ("import a\na\n", "import a\n__all__ = ['a']\n", "import a\n__all__ = ['a']\n"),
    "a comment that names it": ("import a\na\n", "import a\n# fxlens: Net(a.b)\n", None),
    "unused before": ("import a\n", "import a\n1\n", "import a\n1\n"),
    "the future": ("from __future__ import annotations\nx\n", "from __future__ import annotations\n", None),
}


@pytest.mark.parametrize("name", TIDY)
def test_imports_that_lost_their_use_go(tmp_path, name):
    before, after, wanted = TIDY[name]
    assert without_unused_imports(str(tmp_path / "net.py"), before, after) == (after if wanted is None else wanted)
    assert without_unused_imports("__init__.py", before, after) == after


@pytest.mark.parametrize(
    "line", ["from net import *", "from .net import (\n    Net,\n    a,\n)", "from x.net import b, a"]
)
def test_imports_that_others_take_from_there_stay(tmp_path, line):
    (tmp_path / "other.py").write_text(line + "\n")
    (tmp_path / "third.py").write_text("from net import b\n")
    before, after = "import a\nimport b\nimport c\na, b, c\n", "import a\nimport b\nimport c\n"
    left = "import a\nimport b\n" if "*" not in line else after
    assert without_unused_imports(str(tmp_path / "net.py"), before, after) == left
    (tmp_path / "run").write_text("exec(open('net.py').read())\n")
    assert without_unused_imports(str(tmp_path / "net.py"), before, after) == after


@pytest.mark.usefixtures("warm")
def test_the_command_fixes_all_models_of_a_file(tmp_path):
    """The real command: two models, one of them on inferred inputs; a second run changes nothing."""
    path = tmp_path / "net.py"
    path.write_text(
        HEAD
        + """# fxlens: Shape() <- torch.randn(2, 3, 4)
class Shape(nn.Module):
    def forward(self, x):
        return x.view((*x.shape[:-1], -1, 2)).sum()


class Pad(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        x = self.conv(x)
        if x.shape[-1] % 4:
            x = nn.functional.pad(x, (0, 1))
        return x
"""
    )

    def check(*options: str) -> subprocess.CompletedProcess:
        command = warm_fxlens("check", "net.py", "--no-cache", *options)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = check("--fix", "--unsafe-fixes", "--format", "json")
    (file,) = json.loads(done.stdout)["files"]
    assert {each["name"]: each["status"] for each in file["targets"]} == {"Shape": "traced", "Pad": "traced"}
    assert done.stderr.count(": fixed: ") == 2 and done.returncode == 0
    text = path.read_text()
    assert "x.view(x.shape[:-1] + (-1, 2))" in text and "x = _pad_x(x)" in text
    again = check("--fix", "--unsafe-fixes")
    assert path.read_text() == text and ": fixed: " not in again.stderr
