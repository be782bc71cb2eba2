"""``fxlens check notebook.ipynb``: the command on notebooks as editors write them."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest
from check_command import fxlens
from fxlens.sources.files import LONG
from fxlens.sources.notebook import Notebook

CELLS = [
    ("markdown", "# Title\nclass Net: prose"),
    ("code", "%matplotlib inline\nimport torch\nfrom torch import nn\n!pip install nothing\nWIDTH = 4"),
    ("code", "%%bash\nif [ 1 ]; then rm -rf x; fi"),
    ("code", "data = open('/nowhere/at/all').read()\nSIZE = len(data)\nif data:\n    !ls"),
    (
        "code",
        "%%time\nclass Net(nn.Module):\n    def __init__(self, width=WIDTH):\n        super().__init__()\n"
        "        self.linear = nn.Linear(width, width)\n\n    def forward(self, x):\n"
        '        label = "🙂"; n = x.sum() > 0\n'
        "        if n:\n            x = x + 1\n        return self.linear(x)",
    ),
    ("code", "def broken(:"),
    ("code", "model = Net(8)\nmodel(torch.randn(3, 8))\nprint?\nfiles = !ls\nopen('ran.txt', 'w').write('ran')"),
]


def notebook(path: Path, cells: list[tuple[str, str]] = CELLS, language: str = "python") -> None:
    made = [
        {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), "id": str(number)}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for number, (kind, text) in enumerate(cells)
    ]
    metadata = {"kernelspec": {"language": language, "name": "k", "display_name": "k"}}
    path.write_text(json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks")
    notebook(folder / "study.ipynb")
    fxlens("check", "study.ipynb", "--format", "json", cwd=folder)  # for the cache
    return folder


def test_findings_are_in_their_cell_and_no_other_cell_is_run(folder: Path):
    done = fxlens("check", "study.ipynb", "--format", "json", cwd=folder)
    (file,) = json.loads(done.stdout)["files"]
    (net,) = file["targets"]
    assert (net["name"], net["cell"], net["line"], net["status"]) == ("Net", 5, 1, "partial")
    # The call in a later cell says how the model is made, and is not run.
    assert net["construct"]["text"] == "Net(8)" and net["inputs"]["text"] == "torch.randn(3, 8)"
    assert not (folder / "ran.txt").exists()
    found = {each["code"]: each for each in file["findings"]}
    assert set(found) == {"FX101", "FX308"} and done.returncode == 1
    assert found["FX101"]["cell"] == 5 and found["FX101"]["range"]["start"] == {"line": 8, "character": 11}
    (best,) = (fix["title"] for fix in found["FX101"]["fixes"] if fix["preferred"])
    assert best == "Move the `if` into a function wrapped with torch.fx.wrap: _net_x"
    assert found["FX308"]["cell"] == 6 and found["FX308"]["range"]["start"]["line"] == 0


def test_text_github_and_sarif_name_the_cell(folder: Path):
    text = fxlens("check", "study.ipynb", cwd=folder).stdout
    assert "study.ipynb:cell 5:9:12: warning FX101 " in text
    assert "\n    9 |         if n:\n      |            ^\n" in text and "    1 | def broken(:\n" in text
    lines = fxlens("check", "study.ipynb", "--format", "github", cwd=folder).stdout.splitlines()
    assert lines[0].startswith("::warning file=study.ipynb,title=FX101::Cell 5, line 9: This `if`")
    sarif = json.loads(fxlens("check", "study.ipynb", "--format", "sarif", cwd=folder).stdout)
    first = sarif["runs"][0]["results"][0]
    assert first["message"]["text"].startswith("Cell 5, line 9: ")
    assert first["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "study.ipynb"}}}]
    before = (folder / "study.ipynb").read_bytes()
    refused = fxlens("check", "study.ipynb", "--fix", cwd=folder)
    assert "fixes for a notebook are shown but not applied" in refused.stderr
    assert (folder / "study.ipynb").read_bytes() == before


def test_notebooks_with_large_outputs_old_ones_and_new_ones_are_read(tmp_path: Path):
    model = "# fxlens: Net() <- torch.randn(2)\nimport torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
    code = {"cell_type": "code", "metadata": {}, "source": model + "        return x / len(x)"}
    shown = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * (12 << 20)}}
    plotted = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**code, "outputs": [shown]}]}
    (tmp_path / "plotted.ipynb").write_text(json.dumps(plotted))
    old = {"cell_type": "code", "language": "python", "input": code["source"].splitlines(keepends=True), "outputs": []}
    (tmp_path / "old.ipynb").write_text(json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": [old]}]}))
    (tmp_path / "Untitled.ipynb").touch()
    files = json.loads(fxlens("check", ".", "--quick", "--format", "json", cwd=tmp_path).stdout)["files"]
    found = {each["path"]: [finding["code"] for finding in each["findings"]] for each in files}
    assert found == {"./Untitled.ipynb": [], "./old.ipynb": ["FX120"], "./plotted.ipynb": ["FX120"]}


MARKED = [
    ("code", "from torch import fx, nn\nSIZE = len('abc')\ndef seldom(x):\n    return x + x.sum().item()"),
    ("code", "fx.wrap('seldom')"),
    ("code", "class Sized(nn.Module):\n    def __init__(self, size=SIZE):\n        super().__init__()"),
    ("code", "# fxlens: Net() <- torch.randn(2)\nimport torch\nclass Net(nn.Module):\n    def forward(self, x):\n"
             "        return seldom(x)"),
]  # fmt: skip


def test_wrapped_functions_count_and_a_name_that_is_computed_stops_its_class_alone(tmp_path: Path):
    notebook(tmp_path / "marked.ipynb", MARKED)
    (file,) = json.loads(fxlens("check", "marked.ipynb", "--format", "json", cwd=tmp_path).stdout)["files"]
    assert [(each["name"], each["status"]) for each in file["targets"]] == [("Net", "traced")]
    (problem,) = [each for each in file["findings"] if each["severity"] == "warning"]
    assert (problem["code"], problem["cell"]) == ("FX301", 3) and "name 'SIZE' is not defined" in problem["message"]


def test_what_calls_anything_is_not_run(tmp_path: Path):
    """Neither inside of ``try`` nor because a method is called like a constructor of plain values."""
    ran = "open('ran', 'w').write('ran')"
    cells = [
        ("code", "import torch\nfrom torch import nn"),
        ("code", f"try:\n    size = {ran}\nexcept Exception:\n    size = 0"),
        ("code", f"class jobs:\n    @staticmethod\n    def list():\n        {ran}\n\nall_jobs = [jobs.list(), 3]"),
        ("code", f"from torch.fx import wrap\n\ndef wrap(x):\n    {ran}\n\nwrap('echo')"),
        ("code", "try:\n    import nothing_here\n    THERE = True\nexcept ImportError:\n    THERE = False"),
        ("code", "class Net(nn.Module):\n    def forward(self, x):\n        return x + int(THERE)"),
    ]
    notebook(tmp_path / "study.ipynb", cells)
    (file,) = json.loads(fxlens("check", "study.ipynb", "--quick", "--format", "json", cwd=tmp_path).stdout)["files"]
    assert [each["status"] for each in file["targets"]] == ["traced"]
    assert not (tmp_path / "ran").exists()


def test_the_notebooks_of_a_folder_are_checked(tmp_path: Path):
    for name in ("one", ".ipynb_checkpoints/one-checkpoint", "deep/two"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        notebook(tmp_path / f"{name}.ipynb")
    done = fxlens("check", ".", "--quick", cwd=tmp_path)
    assert "2 files, 2 models: 2 partial" in done.stdout and "checkpoint" not in done.stdout
    assert "one.ipynb:cell 5:9:12: warning FX101" in done.stdout and "two.ipynb:cell 5:9:12: " in done.stdout
    # Of a folder, only notebooks with a fix are said not to be fixed.
    notebook(tmp_path / "good.ipynb", [("code", CELLS[4][1].replace("if n", "if True")), *CELLS[1:2]])
    done = fxlens("check", ".", "--diff", cwd=tmp_path)
    assert done.stderr.count("fixes for a notebook are shown but not applied") == 2 and "good" not in done.stderr


def test_what_is_no_notebook_is_a_finding(tmp_path: Path):
    (tmp_path / "broken.ipynb").write_text("{")
    (file,) = json.loads(fxlens("check", "broken.ipynb", "--format", "json", cwd=tmp_path).stdout)["files"]
    assert [each["code"] for each in file["findings"]] == ["FX308"]


def test_cells_of_other_types_are_passed_over():
    shell = {"cell_type": "code", "source": "pip install torch", "metadata": {"vscode": {"languageId": "shellscript"}}}
    assert Notebook.read(json.dumps({"cells": [shell, {**shell, "source": "x = 1", "metadata": {"vscode": 3}}]})).text
    assert not Notebook.read(json.dumps({"cells": [shell]})).problems("a.ipynb")
    odd: list[object] = [None, [], 3, {"cell_type": "code", "source": [None, 3]}, {"cell_type": "code", "source": 3}]
    for metadata in (None, [1], 3, {"language_info": {"name": {"a": 1}}}, {"kernelspec": [1]}):
        Notebook.read(json.dumps({"metadata": metadata, "cells": odd}))


def test_cells_become_lines_of_the_same_columns(tmp_path: Path):
    notebook(
        tmp_path / "a.ipynb", [("code", "x = 1\n    %time y\nz = %sql q"), ("raw", "r"), ("code", ""), ("code", "w\n")]
    )
    made = Notebook.read((tmp_path / "a.ipynb").read_text())
    assert made.text.splitlines()[:3] == ["# x = 1", "#     pass  # %time y", "# z = None  # %sql q"]
    assert [made.place(line) for line in (1, 3, 5, 7)] == [(1, 1), (1, 3), (3, 1), (4, 1)]
    (problem,) = made.problems("a.ipynb")
    assert problem["message"] == "Python cannot parse this: unexpected indent"
    assert problem["span"] and (problem["span"]["line"], problem["span"]["column"]) == (2, 3)
    # Of the cell that is typed in the lines stay.
    typed = Notebook.joined([(1, "x = 1"), (2, "y = (")], typed=2)
    assert typed.text.splitlines() == ["x = 1", "pass", "y = (", "pass"]
    notebook(tmp_path / "r.ipynb", language="R")
    assert Notebook.read((tmp_path / "r.ipynb").read_text()).text == ""


def test_an_edit_parses_its_cell_alone_and_no_cell_of_a_long_notebook(monkeypatch: pytest.MonkeyPatch):
    cells = [
        (number, f"x = {number}\n!ls\ny = [") if number == 7 else (number, f"x = {number}") for number in range(50)
    ]
    before = Notebook.joined(cells, before={})
    whole = Notebook.joined(cells)
    assert before.text == whole.text and [line for line, _, _ in before.broken] == [15]
    parsed: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text: parsed.append(text) or parse(text))
    cells[3] = (3, "x = 4  # edited")
    after = Notebook.joined(cells, before=before.known)
    assert parsed == ["x = 4  # edited"] and len(after.broken) == 1 and len(after.known) == 50
    long = Notebook.joined([*cells[:7], (8, "%pwd\n" + "z = 1\n" * LONG)], before=before.known)
    assert parsed == ["x = 4  # edited"] and not long.broken and "\n# %pwd\nz = 1\n" in long.text
    Notebook.joined([(1, "w = 1"), (2, "z = 1\n" * LONG)], before={})
    assert parsed == ["x = 4  # edited"]


BREAKS = """\
class Net(nn.Module):
    def forward(self, x):
        y = (
            x.sum()
            % 3
        )
        return (
            y
            != 4
        )"""


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (BREAKS, BREAKS),
        # Beside a magic, in a text, and after a backslash.
        (f"%matplotlib inline\n{BREAKS}", f"# %matplotlib inline\n{BREAKS}"),
        ('!ls\ns = """it\'s\n%d\n"""\n!ls', '# !ls\ns = """it\'s\n%d\n"""\n# !ls'),
        ("y = 4 \\\n  % 3\n!ls", "y = 4 \\\n  % 3\n# !ls"),
        ("s = 'a (' # (\n%time s\nt = 1", "s = 'a (' # (\n# %time s\nt = 1"),
        # A command over several lines.
        ("!pip install \\\n    torch \\\n    timm\nx = 1", "# !pip install \\\n#     torch \\\n#     timm\nx = 1"),
        ("a.files = !ls \\\n  -l\nx = 1", "a.files = None  # !ls \\\n#   -l\nx = 1"),
        ('d["k"] = %sql q\nx = 1', 'd["k"] = None  # %sql q\nx = 1'),
    ],
)
def test_only_what_begins_a_statement_is_a_magic(cell: str, text: str):
    made = Notebook.joined([(1, cell)])
    assert made.broken == () and made.text == f"{text}\npass"


SAID = [
    ("code", "import torch\nfrom torch import nn"),
    ("markdown", "# Prose"),
    ("code", "class Bad(nn.Module):\n    def __init__(self, n):\n        raise ValueError('no')\n\n\n"
             "    def forward(self, x):\n        return x\n\n\nBad(3)"),
    ("code", "class Two(nn.Module):\n    def forward(self, x):\n        for i in range(x.max()):\n"
             "            x = x + i\n        return x + int(x[0])"),
    ("code", "\ntwo = Two()\ntwo(torch.randn(2, 3))\ntorch.export.export(two, (torch.randn(2, 3),))"),
]  # fmt: skip


def test_lines_in_sentences_are_those_of_cells_in_all_formats(tmp_path: Path):
    """In the text of all cells, `Bad(3)` is line 13 and the call of torch.export line 23."""
    notebook(tmp_path / "said.ipynb", SAID)
    (tmp_path / "lib.py").write_text(
        "from torch import nn\nclass Lib(nn.Module):\n    def forward(self, x):\n        return x"
    )
    notebook(tmp_path / "use.ipynb", [("code", "import torch\nfrom lib import Lib"), ("code", "Lib()(torch.randn(7))")])
    (file,) = json.loads(fxlens("check", "said.ipynb", "--format", "json", cwd=tmp_path).stdout)["files"]
    bad, two = file["targets"]
    assert "`Bad(3)` (line 10) raises" in bad["reason"] and two["why"] == "torch.export at said.ipynb:cell 5:4"
    assert (two["construct"]["source"], two["construct"]["cell"], two["construct"]["line"]) == ("call", 5, 2)
    fixes = [fix["title"] for each in file["findings"] for fix in each["fixes"]]
    assert len(fixes) > 2 and not [each for each in fixes if "new line" in each]
    for form in ("text", "github", "sarif", "html"):
        said = fxlens("check", "said.ipynb", "--format", form, cwd=tmp_path).stdout
        assert "`Bad(3)` (line 10) raises" in said and "still fails, at" not in said and "ipynb.py" not in said, form
    said = fxlens("check", "said.ipynb", "--captures", "fx,export", "--quick", cwd=tmp_path).stdout
    assert "\nsaid.ipynb:cell 4:1 Two " in said
    # Of a notebook that is not the one that is checked, nobody knows in which cell a line is.
    (file,) = json.loads(fxlens("check", "lib.py", "--format", "json", cwd=tmp_path).stdout)["files"]
    made = file["targets"][0]["inputs"]
    assert (made["text"], os.path.basename(made["file"]), made["line"]) == ("torch.randn(7)", "use.ipynb", None)


def test_commands_for_one_model_take_a_notebook_and_name_its_cells(tmp_path: Path):
    cells = [
        *CELLS[:2],
        ("code", "class Net(nn.Module):\n    def forward(self, x):\n        y = torch.sigmoid(torch.relu(x) + 1)\n"
                 "        return torch.bucketize(y, x[0])"),
        ("code", "open('ran.txt', 'w')\nNet()(torch.randn(3, 3))\ndata = None"),
    ]  # fmt: skip
    notebook(tmp_path / "study.ipynb", cells)
    assert re.search(
        r"^call_function  bucketize .* cell 3:4$", fxlens("graph", "study.ipynb", cwd=tmp_path).stdout, re.M
    )
    nodes = json.loads(fxlens("graph", "study.ipynb::Net", "--format", "json", cwd=tmp_path).stdout)["nodes"]
    assert {(each["span"]["cell"], each["span"]["line"]) for each in nodes} == {(3, 2), (3, 3), (3, 4)}
    rows = json.loads(fxlens("estimate", "study.ipynb", "--format", "json", cwd=tmp_path).stdout)["nodes"]
    (relu,) = [each for each in rows if each["name"] == "relu"]
    assert (relu["cell"], relu["line"], relu["span"][1]) == (3, 3, 3) and relu["span"][0].endswith("study.ipynb:cell 3")
    assert (
        "study.ipynb:cell 3:4: FX401 bucketize stays in PyTorch" in fxlens("lower", "study.ipynb", cwd=tmp_path).stdout
    )
    (tmp_path / "none.ipynb").write_text("{")
    assert "none.ipynb cannot be read: " in fxlens("stages", "none.ipynb", cwd=tmp_path).stderr
    assert not (tmp_path / "ran.txt").exists()


def test_a_cell_may_be_indented_as_a_whole_and_import_from_the_future(tmp_path: Path):
    cells = [
        ("code", "import torch\nfrom torch import nn"),
        ("code", "    # A block of a script\n    class Net(nn.Module):\n        def forward(self, x: Later):\n"
                 "            if x.sum() > 0:\n                x = x + 1\n            return x\n    %time y = 1"),
        ("code", "from __future__ import annotations\nNet()(torch.randn(3, 8))"),
        ("code", "class Last(nn.Module):\n    def forward(self, x):\n        return x\n  y = 1"),
    ]  # fmt: skip
    notebook(tmp_path / "study.ipynb", cells)
    (file,) = json.loads(fxlens("check", "study.ipynb", "--format", "json", cwd=tmp_path).stdout)["files"]
    (net,) = file["targets"]
    assert (net["name"], net["cell"], net["line"], net["inputs"]["text"]) == ("Net", 2, 1, "torch.randn(3, 8)")
    found = {each["code"]: (each["cell"], each["range"]["start"]) for each in file["findings"]}
    assert found == {"FX101": (2, {"line": 3, "character": 15}), "FX308": (4, {"line": 3, "character": 2})}


def test_the_first_cell_may_be_indented_too(tmp_path: Path):
    text = f"    import torch\n    {CELLS[4][1][7:].replace(chr(10), chr(10) + '    ')}".replace("WIDTH", "4")
    cells = [("code", f"%%time\n{text.replace('nn.', 'torch.nn.')}\n    Net()(torch.randn(3, 4))"), ("code", "x = 1")]
    notebook(tmp_path / "study.ipynb", cells)
    (file,) = json.loads(fxlens("check", "study.ipynb", "--format", "json", cwd=tmp_path).stdout)["files"]
    (net,), (problem,) = file["targets"], file["findings"]
    assert (net["cell"], net["line"], net["inputs"]["cell"], net["inputs"]["line"]) == (1, 2, 1, 13)
    assert (problem["code"], problem["cell"]) == ("FX101", 1)
    assert problem["range"]["start"] == {"line": 9, "character": 15}
    made = Notebook.joined([(3, "  x = 1\n  y = ("), (4, "z")])
    assert made.broken and made.starts == (1, 4)
    # Only where its first line is indented, as IPython has it.
    assert Notebook.joined([(1, "# Prose\n  x = 1")]).broken
