"""The sources of example inputs as shown in an editor, and the action that writes them into a comment."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lsp_client import Client

TEXT = """\
from __future__ import annotations

from torch import nn


def plain(kind):
    return kind


class Annotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Float[Tensor, "b 3 224 224"], times: int):
        return self.conv(x) * times


@plain
class Inferred(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, ids, scale):
        return self.head(self.embed(ids)) * scale


# fxlens: Given() <- torch.randn(2, 8)
class Given(nn.Module):
    def forward(self, x):
        return x + 1
"""


def test_the_choice_and_its_source_are_shown_and_written_down(shared: Client, folder: Path):
    path = folder / "net.py"
    path.write_text(TEXT)
    with shared.lent(deadline=60) as client:
        uri = client.open(path)
        assert client.diagnostics(uri) == []
        wait_for(lambda: len(lenses(client, uri)) == 3)
        assert lenses(client, uri) == [
            "x: f32[2, 3, 224, 224], times · inferred",
            "ids: i64[2, 16], scale: f32[1] · inferred",
            "x: f32[2, 8] · comment",
        ]
        text = TEXT
        for name in ("Annotated", "Inferred"):
            (action,) = wait_for(partial(actions, client, uri, text, name))
            assert action["title"] == f"Write the example inputs of {name} into a comment (inferred)"
            assert actions(client, uri, text, "Given") == []
            (edit,) = action["edit"]["changes"][uri]
            lines = text.splitlines(keepends=True)
            lines.insert(edit["range"]["start"]["line"], edit["newText"])
            text = "".join(lines)
            assert client.edit(uri, text) == []
        wait_for(lambda: all(shown.endswith(" · comment") for shown in lenses(client, uri)))
    assert "# fxlens: Annotated() <- torch.randn(2, 3, 224, 224), 4\nclass Annotated" in text
    assert "# fxlens: Inferred() <- torch.randint(0, 100, (2, 16)), torch.ones(1)\n@plain\nclass Inferred" in text


def wait_for(look: Callable[[], Any]) -> Any:
    """What is seen once there is something to see: graphs come after the findings."""
    until = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < until, "nothing came in two minutes"
        time.sleep(0.1)
    return found


def lenses(client: Client, uri: str) -> list[str]:
    """What the lenses say of inputs."""
    found = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return [each["command"]["title"] for each in found if " · " in each["command"]["title"]]


def actions(client: Client, uri: str, text: str, name: str) -> list[dict[str, Any]]:
    line = next(number for number, line in enumerate(text.splitlines()) if line.startswith(f"class {name}"))
    place = {"line": line, "character": 8}
    context = {"diagnostics": [], "only": ["refactor"]}
    parameters = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": context}
    found = client.request("textDocument/codeAction", parameters)
    return [each for each in found if "dynamic_shapes" not in each["title"]]


HARD = """\
import torch
from torch import nn


class Hard(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(*config.sizes.of("linear"))

    def forward(self, x):
        return self.linear(x)


def sizes():
    from types import SimpleNamespace

    return SimpleNamespace(sizes=SimpleNamespace(of=lambda name: (4, 4)))
"""


def test_a_comment_is_proposed_tried_and_written_in_place(shared: Client, folder: Path):
    """Also one that does not work: a second one would leave it in force."""
    path = folder / "hard.py"
    text = HARD
    path.write_text(text)
    with shared.lent(deadline=60) as client:
        uri = client.open(path)
        client.diagnostics(uri)
        asked = {"uri": uri, "target": "Hard"}
        known = client.request("fxlens/inputs", asked)
        assert known["text"].startswith("Hard(") and " <- " in known["text"]
        start, end = known["select"]
        assert known["text"][start:end], "the argument that nobody knows is selected"
        assert known["text"][start - 1] == "(" and known["text"][end] == ")"

        def tried(comment: str) -> tuple[bool, str]:
            answer = client.request("fxlens/tryInputs", {**asked, "text": comment})
            return answer["works"], answer["verdict"]

        wrong = tried("Hard() <- torch.randn(1, 4)")
        assert not wrong[0] and "missing 1 required positional argument: 'config'" in wrong[1]
        assert not tried("exit() <- torch.randn(1, 4)")[0]
        assert tried("Hard(sizes()) <- torch.randn(1, 4)") == (True, "Works: the model is traced, 3 nodes.")

        def written(comment: str) -> list[dict[str, Any]]:
            client.asked_for.clear()
            client.request(
                "workspace/executeCommand", {"command": "fxlens.writeInputs", "arguments": [uri, "Hard", comment]}
            )
            (message,) = (each for each in client.asked_for if each["method"] == "workspace/applyEdit")
            return message["params"]["edit"]["changes"][uri]

        version = client.change(uri, text + "(")
        client.request(
            "workspace/executeCommand", {"command": "fxlens.writeInputs", "arguments": [uri, "Hard", "Hard()"]}
        )
        said = client.wait(lambda each: each.get("method") == "window/showMessage")["params"]["message"]
        assert said.startswith("Nothing was written: the text has no trace of Hard")
        client.diagnostics(uri, version)
        client.edit(uri, text)
        (edit,) = written("Hard() <- torch.randn(1, 4)")
        lines = text.splitlines(keepends=True)
        lines.insert(edit["range"]["start"]["line"], edit["newText"])
        assert "# fxlens: Hard() <- torch.randn(1, 4)\nclass Hard" in "".join(lines)
        second = "# fxlens: Hard(1) <- torch.randn(1, 4)\n"
        lines.insert(edit["range"]["start"]["line"], second)
        client.edit(uri, "".join(lines))
        known = client.request("fxlens/inputs", asked)
        assert known["text"] == "Hard(1) <- torch.randn(1, 4)" and known["select"] == [5, 6]
        in_place, removed = written("Hard(sizes()) <- torch.randn(1, 4)")
        assert in_place["newText"] == "# fxlens: Hard(sizes()) <- torch.randn(1, 4)"
        assert in_place["range"]["start"]["line"] + 1 == removed["range"]["start"]["line"]
        assert removed["newText"] == ""


KERNEL = """\
from a_package_that_nobody_has import scan
from torch import nn


class Layer(nn.Module):
    def __init__(self, wide=False):
        super().__init__()
        self.wide = wide
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        if self.wide:
            x = x * 2
        return self.conv(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.layers = nn.Sequential(Layer(), Layer(True))

    def forward(self, x):
        x = self.layers(self.stem(x))
        return scan(x)
"""


def test_inputs_that_run_as_far_as_a_package_that_is_not_installed_are_taken(shared: Client, folder: Path):
    path = folder / "kernel.py"
    path.write_text(KERNEL)
    with shared.lent(deadline=60) as client:
        uri = client.open(path)
        found = client.diagnostics(uri)
        layer, model = client.request("fxlens/record", {"uri": uri})["record"]["targets"]
        assert (model["inputs"]["text"], model["inputs"]["source"]) == ("torch.randn(1, 3, 64, 64)", "inferred")
        assert [each["reason"] for each in layer["untaken"]] == ["`self.wide` is False in this trace"]
        assert not [each for each in found if each.get("tags")], "the model goes there"
        assert [(each["code"], each["severity"]) for each in found] == [("FX311", 3), ("FX199", 3)]
