"""What a record depends on, as seen in the editor: files that are imported, and files that would be."""

from __future__ import annotations

from pathlib import Path

from fxlens.index.index import Index
from lsp_client import Client

MODEL = """\
from torch import nn

from . import extras


class Net(nn.Module):
    def forward(self, x):
        return extras.act(x)
"""


def test_a_module_that_was_missing_traces_the_open_model_again(shared: Client, folder: Path):
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text(MODEL)
    missing = package / "extras.py"
    with shared.lent(deadline=60) as client:
        uri = client.open(package / "net.py")
        while not any(each["code"] == "FX311" for each in client.diagnostics(uri)):
            continue
        missing.write_text("def act(x):\n    return x * len(x)\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": missing.as_uri(), "type": 1}]})
        wait_for(client, uri, ["FX120"])


GUARDED = """\
from torch import nn

try:
    from kit.extras import act
except ImportError:
    act = abs


class Net(nn.Module):
    def forward(self, x):
        return act(x)
"""


def test_an_open_file_whose_import_fails_and_is_caught_counts(shared: Client, folder: Path):
    """Half-typed, and corrected: nothing of it is left in ``sys.modules``, and nothing was read from the disk."""
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    right = "from math import floor\n\n\ndef act(x):\n    return x * len(x)\n"
    with shared.lent(deadline=60) as client:
        extras = client.open(package / "extras.py", right)
        uri = client.open(folder / "net.py", GUARDED)
        wait_for(client, uri, ["FX120"])
        client.change(extras, right.replace("floor", "floo"))
        wait_for(client, uri, [])
        client.change(extras, right)
        wait_for(client, uri, ["FX120"])


def wait_for(client: Client, uri: str, codes: list[str]) -> None:
    """Until the problems are these; what was on its way before may come first."""
    while [each.get("code") for each in client.diagnostics(uri)] != codes:
        continue


def test_a_folder_that_is_gone_or_comes_back_traces_what_imports_from_it_again(shared: Client, folder: Path):
    """Of what is in it, a client may tell nothing: VS Code does not, of a folder that is deleted or moved."""
    package = folder / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "extras.py").write_text("def act(x):\n    return x * len(x)\n")
    net = folder / "net.py"
    net.write_text(MODEL.replace("from . import", "from kit import"))
    other = folder / "kit.py"
    with shared.lent(deadline=60) as client:
        uri = client.open(net)
        wait_for(client, uri, ["FX120"])
        package.rename(folder / "elsewhere")
        other.write_text("class extras:\n    act = abs\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": package.as_uri(), "type": 3}]})
        wait_for(client, uri, [])
        other.unlink()
        (folder / "elsewhere").rename(package)
        client.notify(
            "workspace/didChangeWatchedFiles",
            {"changes": [{"uri": other.as_uri(), "type": 3}, {"uri": package.as_uri(), "type": 1}]},
        )
        wait_for(client, uri, ["FX120"])


def test_the_index_forgets_a_folder_that_is_gone_and_reads_one_that_comes(tmp_path: Path):
    package, elsewhere = tmp_path / "kit", tmp_path / "elsewhere"
    package.mkdir()
    (package / "net.py").write_text("from torch import nn\nclass Net(nn.Module):\n    pass\n")
    (package / "net.yaml").write_text("width: 3\n")
    index = Index(str(tmp_path))
    index.build()
    assert index.classes(str(package / "net.py")) == ["Net"]
    package.rename(elsewhere)
    for each in (package, elsewhere, tmp_path / "never"):
        index.update(str(each))
    assert index.classes(str(package / "net.py")) == [] and index.classes(str(elsewhere / "net.py")) == ["Net"]
    assert index.workspace.configuration_files == {str(elsewhere / "net.yaml")}
    foreign = tmp_path / "node_modules"
    elsewhere.rename(foreign)
    index.update(str(elsewhere))
    index.update(str(foreign))
    assert not index.workspace.facts and not index.workspace.configuration_files


IMPORTED = """\
import sys

from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        names = [*sys.modules]
        raise RuntimeError(" ".join(names[names.index("fxlib.diagnosis.fixes.loaded") + 1 :]))
"""


def test_a_job_imports_nothing_that_others_import_too(shared: Client, folder: Path):
    """That is done once, in the process that it is a fork of."""
    with shared.lent(deadline=60) as client:
        (found,) = client.diagnostics(client.open(folder / "net_of_a_job.py", IMPORTED))
    assert "RuntimeError: net_of_a_job" in found["message"], found["message"]
    assert "RuntimeError: net_of_a_job " not in found["message"], found["message"]
