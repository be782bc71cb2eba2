"""Edits keep what they do not touch: tabs, line ends, comments, non-ASCII text, missing last line ends."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxlib.diagnosis import fixes
from fxlib.diagnosis.fixes import Edit, Source, apply_edits
from fxlib.diagnosis.fixes.imports import wrap_call
from fxlib.diagnosis.fixes.lift import define_wrapped
from fxlib.diagnosis.fixes.recipes.settings import leaf_edit

from .marked import Marked, applied, fixes_of, net, unmark

BODY = "def f(x):\n    if «x.sum() > 0»:\n        return x\n    return -x\n\n\nclass N(nn.Module):\n"
BODY += "    def forward(self, x):\n"
BODY += "        return «f(x)»\n"


def wrapped(head: str, body: str = BODY) -> str:
    fixes, files = fixes_of("wrap", head + body)
    return applied(fixes[0], files)["net.py"]


HEADS = {
    "plain": ("import torch\nfrom torch import nn\n\n\n", "import torch\nimport torch.fx\nfrom torch import nn\n\n"
    "torch.fx.wrap(\"f\")\n\n\n"),
    "imported": ("import torch\nimport torch.fx\nfrom torch import nn\n\n", "import torch\nimport torch.fx\n"
    "from torch import nn\n\ntorch.fx.wrap(\"f\")\n\n"),
    "from torch": ("from torch import fx, nn\n\n", "from torch import fx, nn\n\nfx.wrap(\"f\")\n\n"),
    "renamed": ("import torch.fx as tfx\nfrom torch import nn\n\n", "import torch.fx as tfx\nfrom torch import nn\n"
    "\ntfx.wrap(\"f\")\n\n"),
    "bare wrap": ("from torch.fx import wrap\nfrom torch import nn\n\n", "from torch.fx import wrap\n"
    "from torch import nn\n\nwrap(\"f\")\n\n"),
    "fxlib": ("import fxlib\nfrom torch import nn\n\n", "import fxlib\nfrom torch import nn\n\nfxlib.wrap(\"f\")\n\n"),
    "single quotes": ("import torch.fx\nfrom torch import nn\nA = 'a'\n\n", "import torch.fx\n"
    "from torch import nn\n\ntorch.fx.wrap('f')\n\nA = 'a'\n\n"),
    "docstring and future": (
        '"""Doc."""\nfrom __future__ import annotations\n\nfrom torch import nn\n\n',
        '"""Doc."""\nfrom __future__ import annotations\n\nimport torch.fx\nfrom torch import nn\n\n'
        'torch.fx.wrap("f")\n\n',
    ),
    "several wraps": (
        'import torch.fx\nfrom torch import nn\n\ntorch.fx.wrap("len")\n\n',
        'import torch.fx\nfrom torch import nn\n\ntorch.fx.wrap("len")\ntorch.fx.wrap("f")\n\n',
    ),
    "no gap": ("import torch.fx\nfrom torch import nn\n",
               "import torch.fx\nfrom torch import nn\n\ntorch.fx.wrap(\"f\")\n\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_wrap_goes_below_the_imports(name):
    head, expected = HEADS[name]
    result = wrapped(head)
    assert result == expected + BODY.replace("«", "").replace("»", "")


def test_windows_line_ends_stay():
    head = "import torch\r\nfrom torch import nn\r\n\r\n"
    result = wrapped(head, BODY.replace("\n", "\r\n"))
    assert result.count("\n") == result.count("\r\n") and 'torch.fx.wrap("f")\r\n' in result
    text = "import torch\r\nclass N(torch.nn.Module):\r\n\tdef forward(self, x):\r\n"
    text += "\t\tif «x.sum() > 0»:  # é\r\n\t\t\tx = x + 1\r\n\t\treturn x\r\n"
    fixes, files = fixes_of("lift-block", text)
    lifted = applied(fixes[0], files)["net.py"]
    assert lifted.count("\n") == lifted.count("\r\n")
    assert "def _n_x(x):\r\n\tif x.sum() > 0:  # é\r\n\t\tx = x + 1\r\n\treturn x\r\n" in lifted
    assert "\tdef forward(self, x):\r\n\t\tx = _n_x(x)\r\n\t\treturn x\r\n" in lifted


def test_text_before_the_place_may_be_of_any_script():
    text = "class N:\n    def forward(self, x):\n        é, 名 = '🙂', «len(x)»; return 名  # ende\n"
    fixes, files = fixes_of("len-to-shape", text)
    assert applied(fixes[0], files)["net.py"] == text.replace("«len(x)»", "x.shape[0]")


def test_the_length_of_a_shape_is_a_number_of_dimensions():
    for written in ("x.shape", "x.size()"):
        text = f"class N:\n    def forward(self, x):\n        return «len({written})»\n"
        fixes, files = fixes_of("len-to-shape", text)
        assert "return x.ndim\n" in applied(fixes[0], files)["net.py"]


def test_a_comment_on_the_class_stays_on_it():
    text = "import torch.fx\n\n\n# fxlens: N() <- torch.ones(3)\n@decorated\nclass N(torch.nn.Module):\n"
    text += "    def forward(self, x):\n        return «float(x)»\n"
    fixes, files = fixes_of("wrap-conversion", text)
    result = applied(fixes[0], files)["net.py"]
    assert "\n# fxlens: N() <- torch.ones(3)\n@decorated\nclass N" in result
    assert 'return float(value)\n\n\ntorch.fx.wrap("_to_float")\n\n\n# fxlens' in result


def test_a_new_name_differs_from_every_other():
    text = "import torch.fx\n_to_float = _to_float_2 = None\n\nclass N:\n"
    text += "    def forward(self, x):\n        return «float(x)»\n"
    fixes, files = fixes_of("wrap-conversion", text)
    assert "def _to_float_3(value):" in applied(fixes[0], files)["net.py"]


def test_overlapping_and_misplaced_edits_are_refused():
    first, second = Edit("a", 1, 0, 1, 3, "x"), Edit("a", 1, 2, 1, 4, "y")
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("abcdef\n", [first, second])
    with pytest.raises(ValueError, match="outside"):
        apply_edits("abc\n", [Edit("a", 5, 0, 5, 0, "x")])
    assert apply_edits("abcdef\n", [first, first]) == "xdef\n"
    assert apply_edits("", [Edit("a", 1, 0, 1, 0, "new\n")]) == "new\n"


def test_form_feeds_end_no_line():
    text = "a = 1\n\x0cb = 2 \u2028\nc = 3\n".replace(" \u2028", "  # \u2028")
    source = Source("a.py", text)
    place = source.tree.body[2]
    assert apply_edits(text, [source.replace(place, "d = 4")]) == text.replace("c = 3", "d = 4")


TOML = {
    "": '[tool.fxlens]\nleaf-modules = ["A"]\n',
    '[project]\nname = "x"\n': '[project]\nname = "x"\n\n[tool.fxlens]\nleaf-modules = ["A"]\n',
    "[project]": '[project]\n\n[tool.fxlens]\nleaf-modules = ["A"]\n',
    '[tool.fxlens]\nselect = ["FX"]\n': '[tool.fxlens]\nleaf-modules = ["A"]\nselect = ["FX"]\n',
    '[tool.fxlens]\nleaf-modules = ["B"]\n': '[tool.fxlens]\nleaf-modules = ["B", "A"]\n',
    "[tool.fxlens]\nleaf-modules = []  # none\n": '[tool.fxlens]\nleaf-modules = ["A"]  # none\n',
    '[tool.fxlens]\nleaf-modules = [\n    "B",\n]\n': '[tool.fxlens]\nleaf-modules = [\n    "B",\n    "A",\n]\n',
    '[tool.fxlens]\nleaf-modules = ["A"]\n': None,
    '[tool.fxlens]\nleaf-modules = [\n    "B"\n]\n': '[tool.fxlens]\nleaf-modules = [\n    "B",\n    "A",\n]\n',
}


@pytest.mark.parametrize("text", TOML)
def test_leaf_modules_in_pyproject(text):
    edit = leaf_edit("pyproject.toml", text, "A")
    assert (edit and apply_edits(text, [edit])) == TOML[text]


NAMES = st.sampled_from(["x", "y", "self.w", "é", "f(x)", "(x + y)", "x[0]", "-x", "'名'"])


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(0, 5), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_replacing_an_expression_changes_nothing_else(parts, index, newline, ends):
    index %= len(parts)
    line = "r = [" + ", ".join(parts) + "]  # c"
    text = f"# é{newline}def g(self, x, y, é):{newline}\t{line}" + (newline if ends else "")
    source = Source("a.py", text)
    node = source.tree.body[0].body[0].value.elts[index]
    assert source.segment(node).strip("()") == parts[index].strip("()") or parts[index] == "f(x)"
    result = apply_edits(text, [source.replace(node, "REPLACED")])
    tree = ast.parse(result).body[0].body[0].value
    assert [ast.unparse(e) for i, e in enumerate(tree.elts) if i != index] == [
        ast.unparse(e) for i, e in enumerate(source.tree.body[0].body[0].value.elts) if i != index
    ]
    assert ast.unparse(tree.elts[index]) == "REPLACED"
    assert result.endswith("# c" + (newline if ends else ""))


def test_wrap_call_in_a_file_without_imports():
    source = Source("a.py", "x = 1\n")
    assert apply_edits(source.text, wrap_call(source, "f")) == 'import torch.fx\n\ntorch.fx.wrap("f")\n\nx = 1\n'
    source = Source("a.py", '"""Doc."""\n')
    result = apply_edits(source.text, wrap_call(source, "f"))
    assert result.startswith('"""Doc."""\n') and result.index("import torch.fx") < result.index("torch.fx.wrap")


@pytest.mark.parametrize("gap", ["\n\n\n", "\n\n", "\n"])
def test_a_lifted_function_has_two_blank_lines_around_it(gap):
    text = f"import torch{gap}def forward(x):\n    n = int(x.shape[0])\n    return x * n\n"
    source = Source("net.py", text)
    edits = define_wrapped(source, source.tree.body[1], "_helper", "def _helper(x):\n    return int(x)")
    lines = apply_edits(text, edits).splitlines()
    for start in ("def _helper", "torch.fx.wrap", "def forward"):
        at = next(i for i, line in enumerate(lines) if line.startswith(start))
        assert lines[at - 2 : at] == ["", ""] and lines[at - 3].strip(), start


def test_no_comment_is_lost():
    """What is written anew has no place for those between its parentheses: other fixes leave the expression."""
    written = "return x * «len(  # rows\n    x  # of all\n)»  # end\n"
    texts = {}
    for body in (written, written.replace("  # rows", "").replace("  # of all", "")):
        text, (place,) = unmark(net(body), "net.py")
        found = fixes.propose(Marked(place, code="FX120"), {"net.py": text}.get)
        texts[body] = [fixes.apply_fix(each, {"net.py": text}.get)["net.py"] for each in found]
    with_comments, without = texts.values()
    assert with_comments and all(
        comment in each for each in with_comments for comment in ("# rows", "# of all", "# end")
    )
    assert any("x.shape[0]  # end" in each for each in without)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_comments_of_a_statement_stand_above_what_replaces_it(end):
    """Those after a line that goes back to the first one's indentation, too; those of lines that go, go with them."""
    test = "        if «isinstance(x, torch.Tensor)»:  # usual\n            x = x * 2  # twice\n"
    other = "        else:  # a list\n            x = x[0]  # the first\n"
    context = "        «with torch.no_grad():  # fixed\n            y = x * 2»  # twice\n"
    alone = "        assert «isinstance(x, torch.Tensor)»  # no list\n"
    for code, body, kept in (
        ("FX202", test + other, ["# usual", "# a list", "# the first", "x = x * 2  # twice"]),
        ("FX212", context, ["# fixed", "y = (x * 2).detach()  # twice"]),
        ("FX202", alone, []),
    ):
        head = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        text, (place,) = unmark((head + body + "        return x\n").replace("\n", end), "net.py")
        recipe = "detach" if code == "FX212" else "drop-type-test"
        (fix,) = fixes.propose(Marked(place, code=code), {"net.py": text}.get, [recipe])
        fixed = fixes.apply_fix(fix, {"net.py": text}.get)["net.py"]
        assert fixed == (head + "".join(f"        {line}\n" for line in [*kept, "return x"])).replace("\n", end)


def test_a_recipe_that_fails_costs_its_own_fixes_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    text, (place,) = unmark(net("return x * «len(x)»\n"), "net.py")
    finding = Marked(place, code="FX120")
    every = fixes.propose(finding, {"net.py": text}.get)
    failing = every[0].id

    def fail(site: object) -> None:
        raise ValueError("in the midst of it")

    monkeypatch.setitem(fixes.RECIPES, failing, replace(fixes.RECIPES[failing], draft=fail))
    with pytest.raises(ValueError):
        fixes.propose(finding, {"net.py": text}.get)
    monkeypatch.setattr(fixes, "STRICT", False)
    left = fixes.propose(finding, {"net.py": text}.get)
    assert left == [each for each in every if each.id != failing] and failing in caplog.text
