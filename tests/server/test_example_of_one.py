"""An example of size 1, which torch.export takes for a constant: found where the user wrote it, and what fixes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lsp_client import Client

WARM = "captures"
HEAD = "import torch\nfrom torch import nn\n\n\n"
NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x.softmax(-1)\n"
CONV = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.conv = nn.Conv2d(3, 4, 3)\n\n    def forward(self, x):\n        return self.conv(x)\n"
)
COMMENT = "# fxlens: Net() <- torch.randn({}, 3, 1)\n"
CALL = "def main():\n    net = Net()\n    image = torch.rand((1, 3))\n    return net(image)\n"
TWO = "class Net(nn.Module):\n    def forward(self, é, y):\n        return é + y\n"
FILES = {
    "comment.py": f"{HEAD}{COMMENT.format(1)}{NET}",
    "larger.py": f"{HEAD}{COMMENT.format(2)}{NET}",
    "two.py": f"{HEAD}# fxlens: Net() <- torch.randn(1, 3), torch.randn(1, 3)\n{TWO}",
    "configured.py": f"{HEAD}{NET}",
    "number.py": f"{HEAD}N = 1\n\n\n# fxlens: Net() <- torch.randn(N, 3)\n{NET}",
    "called.py": f"{HEAD}{NET}\n\n{CALL}",
    "tested.py": f"{HEAD}{NET}",
    "test_tested.py": "import torch\nfrom tested import Net\n\n\ndef test_net():\n    Net()(torch.randn(1, 3))\n",
    "inferred.py": f"{HEAD}{CONV}",
    "broadcast.py": f"{HEAD}# fxlens: Net() <- torch.randn(4, 3), torch.randn(1, 3)\n{TWO}",
    "fxlens.toml": '[targets]\n"configured.py::Net" = "Net() <- torch.randn(1, 3)"\n',
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("ones")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Client(folder, settings={"captures": ["export"], "deadline": 60}) as client:
        yield client


def asked(client: Client, name: str) -> dict[str, Any]:
    """What is known of a file's model once torch.export was asked with sizes that vary."""
    uri = client.open(client.root / name, FILES[name])
    client.diagnostics(uri)
    client.save(uri)
    until = time.monotonic() + 240
    while time.monotonic() < until:
        (target,) = client.request("fxlens/record", {"uri": uri})["record"]["targets"]
        if "shapes" in [each["capture"] for each in target["captures"]]:
            return target
        time.sleep(0.2)
    raise AssertionError(target["captures"])


def one(client: Client, name: str) -> tuple[dict[str, Any], str]:
    """The finding of a file, and the text where it stands."""
    (found,) = asked(client, name)["captured"]
    assert (found["code"], found["severity"], Path(found["span"]["file"]).name) == ("FX702", "info", name)
    span = found["span"]
    line = FILES[name].splitlines()[span["line"] - 1].encode()
    return found, line[: span["column"]].decode() + "|" + line[span["column"] : span["end_column"]].decode() + "|"


def applied(fix: dict[str, Any]) -> dict[str, str]:
    """The texts of the files after a fix."""
    texts: dict[str, str] = {}
    for edit in sorted(fix["edits"], key=lambda each: (each["line"], each["column"]), reverse=True):
        name = Path(edit["file"]).name
        lines = texts.get(name, FILES[name]).encode().splitlines(keepends=True)
        line = lines[edit["line"] - 1]
        lines[edit["line"] - 1] = line[: edit["column"]] + edit["text"].encode() + line[edit["end_column"] :]
        texts[name] = b"".join(lines).decode()
    return texts


@pytest.mark.parametrize(
    ("name", "place", "changed"),
    [
        ("comment.py", "# fxlens: Net() <- torch.randn(|1|", {"comment.py": FILES["larger.py"]}),
        ("two.py", "# fxlens: Net() <- torch.randn(|1|", {"two.py": FILES["two.py"].replace("randn(1", "randn(2")}),
        ("called.py", "    image = torch.rand((|1|", {"called.py": FILES["called.py"].replace("((1, 3))", "((2, 3))")}),
        ("configured.py", "    def forward(self, |x|", {"fxlens.toml": FILES["fxlens.toml"].replace("n(1", "n(2")}),
        ("tested.py", "    def forward(self, |x|", {"tested.py": f"{HEAD}# fxlens: Net() <- torch.randn(2, 3)\n{NET}"}),
    ],
)
def test_it_is_found_where_it_is_decided_and_fixed_there(server, name, place, changed):
    found, at = one(server, name)
    assert at == place
    whose = "The call in test_tested.py" if name == "tested.py" else "The example"
    assert found["message"].startswith(f"{whose} has a batch of 1 (dimension 0 of ")
    (fix,) = found["fixes"]
    assert fix["checked"] and fix["preferred"] and fix["title"] == "Use a batch of 2 in the example"
    assert applied(fix) == changed


def test_a_number_that_comes_from_elsewhere_has_no_fix(server):
    found, at = one(server, "number.py")
    assert at == "    def forward(self, |x|" and found["fixes"] == []


@pytest.mark.parametrize("name", ["larger.py", "broadcast.py"])
def test_nothing_is_said_where_nobody_wrote_a_batch_of_one(server, name):
    assert asked(server, name)["captured"] == []


def test_an_image_that_was_inferred_has_a_batch_of_one_and_may_vary(server):
    target = asked(server, "inferred.py")
    assert target["inputs"]["source"] == "inferred" and target["inputs"]["text"].startswith("torch.randn(1, 3, ")
    assert {each["capture"]: each["outcome"] for each in target["captures"]}["shapes"] == "captured"
    assert target["captured"] == []


def test_what_the_texts_say_of_torch_is_so():
    net = torch.nn.Softmax(-1)

    def exported(batch: int, dimension: object) -> torch.nn.Module:
        shapes = {"input": {0: dimension}}
        return torch.export.export(net, (torch.randn(batch, 3),), dynamic_shapes=shapes).module()

    with pytest.raises(Exception, match=r"specialized it to be a constant \(1\)"):
        exported(1, torch.export.Dim("batch"))
    with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[0\] == 1"):
        exported(1, torch.export.Dim.AUTO)(torch.randn(5, 3))
    assert exported(2, torch.export.Dim("batch"))(torch.randn(5, 3)).shape == (5, 3)
