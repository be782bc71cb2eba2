"""Small repositories in the styles of real ones, checked by the real command without configuration."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from assumed_styles import UNSAID
from construction_styles import IMPORTS, SAID
from fxlens.features.code_lens import shortened
from fxlens.sources import targets
from fxlens.worker.assume import assumer
from fxlens.workspace.document import Document
from lsp_client import Client
from warm_python import warm_fxlens

FILES = {**SAID, **UNSAID}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("repositories")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return run(root)


def run(root: Path, *arguments: str, form: str = "json", path: str = ".") -> Any:
    command = warm_fxlens("check", path, "--quick", "--format", form, *arguments)
    environment = {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout) if form == "json" else done.stdout


def target(checked: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for file in checked["files"] for each in file["targets"] if each["name"] == name)


def findings(checked: dict[str, Any], path: str) -> list[dict[str, Any]]:
    return next(file["findings"] for file in checked["files"] if file["path"].endswith(path))


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("ByArgparse", "workspace", "48"),
        ("ByYaml", "workspace", "40"),
        ("ByDataclass", "assumed", "Config()"),
        ("ByPath", "workspace", "ByPath(28)"),
        ("ByName", "workspace", "ByName.from_name('small')"),
        ("ByRegistry", "workspace", "ByRegistry(20)"),
        ("Saved", "workspace", "width=24, depth=2"),
        ("ByArch", "workspace", "backbone=AttrDict({'kind': 'plain', 'width': 28})"),
        ("ByFields", "assumed", "layers='20-12', activation='Hardswish'"),
        ("Sharded", "assumed", "option_69="),
        ("ByTable", "assumed", "option_69="),
        ("ByChoice", "assumed", "option_69="),
        ("ByRaising", "assumed", "loss='1.5*L1'"),
        ("ByFunction", "workspace", "'width': 18"),
        ("ByOwnDict", "assumed", "AttrDict(width=22, late="),
        ("ByGroups", "default", "ByGroups()"),
        ("ByPrefix", "assumed", "norm_E='spectral'"),
        ("Twice", "default", "Twice()"),
        ("Part", "workspace", "Part(12)"),
        ("Whole", "default", "Whole()"),
        ("Deep", "workspace", "Deep()"),
        ("Model", "default", "Model()"),
        ("Here", "parent", "Model().get_submodule('here.0')"),
        ("Elsewhere", "parent", ".Model().get_submodule('elsewhere')"),
        ("Recorded", "recorded", "Recorded(36)"),
        ("Plain", "assumed", "Plain("),
        ("Guarded", "assumed", "Guarded("),
        ("Measured", "default", "Measured()"),
        ("Inside", "assumed", "Inside("),
        ("Assumed", "assumed", "Assumed(in_features="),
        ("Around", "assumed", "noisy=True"),
        ("Stages", "assumed", "Layers(attn_layers=["),
        ("Asking", "assumed", "depth=2"),
        ("Filled", "assumed", "kind='affine'"),
        ("Patches", "default", "Patches()"),
        ("Drops", "default", "Drops()"),
        ("ByHeads", "assumed", "width=48"),
        ("Flat", "assumed", "Flat(space=spaces.Box(-1.0, 1.0, (64,)))"),
        ("Frames", "assumed", "Frames(space=spaces.Box(0, 255, (4, 84, 84), 'uint8'))"),
        ("Combined", "assumed", "Combined(space=spaces.Dict({'image': spaces.Box(0, 255, "),
        ("Actor", "assumed", "action_space=spaces.Discrete(4), extractor=Flat(space="),
    ],
)
def test_each_style_is_traced_and_says_how_its_construction_is_known(checked, name, source, text):
    found = target(checked, name)
    assert found["status"] == "traced", found
    assert found["construct"]["source"] == source and text in found["construct"]["text"], found["construct"]
    assert found["inputs"] is not None


def test_recorded_inputs_come_with_the_recorded_construction(checked):
    assert target(checked, "Recorded")["inputs"]["text"] == "torch.randn(5, 36)"


def test_parts_are_called_as_the_forward_of_their_model_calls_them(checked):
    assert target(checked, "Here")["inputs"]["text"] == "torch.randn(2, 12), torch.randn(2, 1)"
    assert target(checked, "Elsewhere")["inputs"]["text"] == "torch.randn(2, 12), scale=torch.randn(2, 12)"


def test_the_lens_of_a_part_says_which_one_it_is():
    assert shortened(f"Model({', '.join(['depth=12'] * 9)}).get_submodule('blocks.0.attn')") == (
        "Model(depth=12, depth=12, de….get_submodule('blocks.0.attn')"
    )
    assert len(shortened("Model()" * 20)) == 60 and shortened("Model()") == "Model()"


def test_a_part_that_is_kept_is_written_beside_its_own_class():
    text = FILES["by_model/whole.py"].replace("class Here", "# fxlens: Model().get_submodule('here.0')\nclass Here")
    found = {each.name: [source.source for source in each.construct] for each in targets.find(ast.parse(text), text)}
    assert (found["Here"], found["Model"]) == (["comment"], [])


def test_a_module_beside_the_file_that_imports_it_is_found(checked):
    assert findings(checked, "by_path/core/net.py") == []


def test_a_file_without_models_has_no_finding_about_what_was_replaced(checked):
    assert findings(checked, "by_model/tools.py") == []


def test_a_missing_package_is_one_finding_of_grade_info_and_fails_only_where_it_is_used(checked):
    first = findings(checked, "missing/net.py")[0]
    assert (first["code"], first["severity"]) == ("FX311", "info")
    used = [
        (each["code"], each["severity"]) for each in findings(checked, "missing/net.py") if each["target"] == "Uses"
    ]
    assert (target(checked, "Uses")["status"], used) == ("partial", [("FX199", "info")])
    missing = next(each for each in findings(checked, "missing/net.py") if each["target"] == "Uses")
    assert "at `self.layer(x)`: NotInstalled: a_package_that_nobody_has cannot be imported" in missing["message"]
    assert target(checked, "Needs")["status"] == "skipped"
    assert "a_package_that_nobody_has" in target(checked, "Needs")["reason"]
    assert findings(checked, "guarded/net.py") == [], "the code itself provides for that"


def test_what_an_import_in_try_did_not_give_is_no_error_of_the_code(checked):
    (found,) = findings(checked, "optional/net.py")
    assert (found["code"], found["severity"]) == ("FX199", "info") and "'kernels' is not defined" in found["message"]


def test_a_parameter_is_not_taken_for_the_function_of_its_name(checked):
    assert target(checked, "Scaled")["construct"]["text"] != "Scaled(rate)"
    assert target(checked, "Scaled")["status"] == "traced"


def test_an_extension_is_not_compiled(checked):
    (found,) = findings(checked, "compiled/net.py")
    assert found["code"] == "FX311" and "replace kernel" in found["message"] and found["range"]["start"]["line"] == 2


@pytest.mark.parametrize("name", ["Columns", "Lit", "Before", "After", "Compiled"])
def test_layers_and_bases_of_missing_packages_devices_and_process_groups_are_stood_in_for(checked, name):
    assert target(checked, name)["status"] == "traced", target(checked, name)


def test_classes_inside_of_a_class_are_judged_by_its_name(checked):
    file = next(each for each in checked["files"] if each["path"].endswith("inside/net.py"))
    assert [(each["name"], each["status"], each["construct"]["text"]) for each in file["targets"]] == [
        ("Outer", "partial", "Outer()"),
        ("Outer.Held", "partial", "Outer().get_submodule('held')"),
        ("Outer.Alone", "traced", "Outer.Alone(width=64)"),
    ]
    assert {(each["code"], each["range"]["start"]["line"]) for each in file["findings"]} == {("FX101", 14)}


class TakesLong(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        until = time.process_time() + 0.25
        while time.process_time() < until:
            pass
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


def test_a_constructor_that_only_takes_long_gets_the_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assumer, "CONSTRUCT_SECONDS", 0.1)
    found = assumer.Assumer(sys.modules[__name__]).assume(TakesLong)
    assert (found.status, found.ran) == ("constructed", True), found.reason


def test_what_only_the_assumed_arguments_make_fail_is_no_warning(checked):
    assert target(checked, "Heads")["construct"]["source"] == "assumed"
    assert {(each["code"], each["severity"]) for each in findings(checked, "heads.py")} == {("FX199", "info")}


def test_inputs_are_assumed_of_a_forward_that_asks_for_values(checked):
    # torch.distributions looks at its arguments, which tensors on meta do not allow.
    policy = target(checked, "Policy")
    assert policy["inputs"]["source"] == "assumed" and policy["inputs"]["text"] == "torch.randn(2, 16, 6)"
    (found,) = findings(checked, "agent.py")
    assert found["code"] == "FX188" and [each["title"] for each in found["fixes"]] == [
        "Call it in a function wrapped with torch.fx.wrap: _normal"
    ]


def test_a_module_without_a_hash_is_told_why_and_traced_with_one(tmp_path):
    data = "(nn.Module):\n    n: int = 4\n\n    def __post_init__(self):\n        super().__init__()\n"
    forward = "\n    def forward(self, x):\n        return x * 2\n\n\n"
    equal = "class Equal(nn.Module):\n    def __eq__(self, other):\n        return self is other\n"
    given = "# fxlens: Data(4) <- torch.randn(3)\n@dataclass\nclass Data" + data + forward
    hashed = "@dataclass(eq=False)\nclass Hashed" + data + forward
    (tmp_path / "hashes.py").write_text(f"from dataclasses import dataclass\n{IMPORTS}{given}{equal}{forward}{hashed}")
    checked = run(tmp_path)
    without = {each["target"]: (each["code"], each["message"]) for each in findings(checked, "hashes.py")}
    assert set(without) == {"Data", "Equal"} and {code for code, _ in without.values()} == {"FX302"}
    assert all("was not traced" in text and "@dataclass(eq=False)" in text for _, text in without.values())
    assert target(checked, "Hashed")["status"] == "traced"


def test_a_script_that_raises_gives_its_classes(checked):
    (found,) = findings(checked, "script/train.py")
    assert (found["code"], found["severity"]) == ("FX301", "info"), "it lies in the machine"
    assert "not compiled with CUDA" in found["message"] and "traced without it" in found["message"]


def test_a_statement_that_was_skipped_is_marked_itself_and_not_what_it_calls(tmp_path):
    text = "class Net(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x\n\n\n"
    (tmp_path / "net.py").write_text(f"{IMPORTS}{text}graph = torch.fx.symbolic_trace(Net())\n")
    (found,) = [each for each in findings(run(tmp_path), "net.py") if each["code"] == "FX301"]
    lines = (tmp_path / "net.py").read_text().splitlines()
    marked = [lines[each["range"]["start"]["line"]].strip() for each in (found, found["related"][0])]
    assert marked == ["graph = torch.fx.symbolic_trace(Net())", "return x if x.sum() > 0 else -x"]
    assert found["related"][0]["message"] == "Raised here"


def test_an_import_that_fails_names_the_line_of_the_workspace_and_not_of_python(checked):
    (found,) = findings(checked, "settings/net.py")
    assert (found["code"], found["severity"]) == ("FX311", "warning") and "mutable default" in found["message"]
    assert ["line 4 of options.py" in each["message"] for each in found["related"]] == [True], found["related"]


def test_a_package_whose_init_raises_goes_without_it(checked):
    (found,) = findings(checked, "package/net.py")
    assert found["code"] == "FX311" and "made by setup.py" in found["message"]


def test_what_is_assumed_is_never_an_error_and_says_what_was_assumed(checked):
    (found,) = findings(checked, "assumed/faulty.py")
    assert (found["code"], found["severity"]) == ("FX101", "warning")
    assert any("assumed arguments of Faulty: Faulty(width=" in each["message"] for each in found["related"])


def test_the_coverage_counts_what_was_judged_and_what_was_not(checked):
    counts = checked["coverage"]
    for name in ("Base", "Template", "Block", "Stage"):
        assert target(checked, name)["reason"] == "its forward is left to its subclasses"
    assert (counts["judged"], counts["classes"]) == (66, 67), "Base is left to its subclasses"
    assert counts["notJudged"] == {"cannot be constructed": 1}
    assert counts["assumed"] == 36


def test_the_text_ends_with_the_coverage(tmp_path):
    (tmp_path / "net.py").write_text(FILES["assumed/faulty.py"], encoding="utf-8")
    assert run(tmp_path, form="text").splitlines()[-1] == "1 of 1 class judged, 1 of them on assumed constructions"


VARYING = (
    IMPORTS
    + """class Varying(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x, scale):
        return torch.flatten(self.conv(x), 1) + scale
"""
)
CALLS = """[["net.py::Varying"]]
construct = "Varying()"
eval = ["torch.randn(2, 3, 32, 48), torch.randn(2, 1)", "torch.randn(5, 3, 64, 48), torch.randn(5, 1)"]
"""


@contextlib.contextmanager
def opened(folder: Path, text: str) -> Iterator[tuple[Client, str, Callable[[], dict[str, Any]]]]:
    """A client with the file ``net.py`` open, its address, and what gives the symbolic shapes of its nodes."""
    (folder / "net.py").write_text(text, encoding="utf-8")
    with Client(folder, environment={"XDG_CACHE_HOME": str(folder.parent / "cache")}) as client:
        uri = client.open(folder / "net.py")

        def shapes() -> dict[str, Any]:
            record = client.request("fxlens/record", {"uri": uri})["record"]
            return {node["name"]: node["symbolic"] for each in record["targets"] for node in each["nodes"]}

        yield client, uri, shapes


def test_dimensions_that_vary_between_recorded_calls_have_names(tmp_path):
    (tmp_path / "fxlens.examples.toml").write_text(CALLS, encoding="utf-8")
    with opened(tmp_path, VARYING) as (_, _, shapes):
        named = until(shapes)
    assert named["x"] == ["B", 3, "H", 48] and named["scale"] == ["B", 1]
    assert named["conv"] == ["B", 8, "H/2", 24]
    assert named["flatten"] == ["B", "96*H"]


SPECIFIED = """import torch
from torch import nn
from torch.export import Dim


# fxlens: Sized() <- torch.randn(2, 3, 32, 48), torch.randn(2, 1)
class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x, scale):
        return torch.relu(self.conv(x)) * scale[:, :, None, None]


SIZED_SHAPES = {
    "x": {0: Dim("batch"), 2: 2 * Dim("half"), 3: None},
    "scale": {0: Dim("batch")},
}
"""


def test_the_files_dynamic_shapes_name_dimensions(tmp_path):
    with opened(tmp_path, SPECIFIED) as (client, uri, shapes):
        named = until(shapes)
        assert named["x"] == ["batch", 3, "2*half", 48] and named["scale"] == ["batch", 1]
        assert named["conv"] == ["batch", 8, "half", 24]
        client.edit(uri, SPECIFIED.replace("2 * Dim", "3 * Dim"))  # 32 is no multiple of it
        assert until(lambda: shapes().get("conv") == ["batch", 8, 16, 24]), shapes()


def until(question: Any, seconds: float = 100.0) -> Any:
    """The first answer that is not empty."""
    end = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


def test_the_editor_learns_from_other_files_and_keeps_a_construction(tmp_path):
    for name in ("by_parent/part.py", "by_parent/whole.py", "assumed/net.py"):
        (tmp_path / Path(name).name).write_text(FILES[name], encoding="utf-8")
    with Client(tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path.parent / "cache")}) as client:

        def titles(uri: str) -> list[str]:
            lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
            return [each["command"]["title"] for each in lenses]

        part = client.open(tmp_path / "part.py")
        assert until(lambda: "Part(12) · whole.py:9" in titles(part)), titles(part)

        net = client.open(tmp_path / "net.py")
        assert until(lambda: "Keep this construction" in titles(net)), titles(net)
        at = {"line": 4, "character": 0}
        hover = client.request("textDocument/hover", {"textDocument": {"uri": net}, "position": {**at, "character": 7}})
        assert "Constructed as `Assumed(in_features=" in hover["contents"]["value"]
        assert "(assumed)" in hover["contents"]["value"]
        asked = {"textDocument": {"uri": net}, "range": {"start": at, "end": at}, "context": {"diagnostics": []}}
        actions = client.request("textDocument/codeAction", asked)
        (keep,) = [each for each in actions if each["title"] == "Keep this construction of Assumed (assumed)"]
        (edit,) = keep["edit"]["changes"][net]
        assert edit["newText"].startswith("# fxlens: Assumed(in_features=") and edit["range"]["start"]["line"] == 4
        kept = FILES["assumed/net.py"].replace("class Assumed", f"{edit['newText']}class Assumed")
        client.edit(net, kept)
        assert until(lambda: any("comment" in each for each in titles(net))), titles(net)
        assert "Keep this construction" not in titles(net)


def test_the_cursor_is_in_the_innermost_class_that_has_a_forward():
    text = FILES["inside/net.py"]
    document = Document("file:///net.py", "/net.py", None, text, 1)
    at = {line: document.class_at(number) for number, line in enumerate(text.splitlines())}
    assert (
        at["class Outer(nn.Module):"]
        == at["        name = 'outer'"]
        == at["        self.held = self.Held(14)"]
        == "Outer"
    )
    assert (
        at["    class Held(nn.Module):"]
        == at["            return self.linear(x) if x.sum() > 0 else x"]
        == "Outer.Held"
    )
    assert at["            return self.linear(x)"] == "Outer.Alone" and at["import torch"] is None
    other = "class Net(nn.Module):\n    def make(self):\n        class Here(nn.Module):\n"
    other += "            def forward(self):\n                return 0\n\n\n"
    document = Document("file:///net.py", "/net.py", None, other + "net = Net()\n", 1)
    assert {document.class_at(line) for line in range(8)} == {"Net"}, "what a function defines has no name of its own"


HOLDING = """
from blocks import Block
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), Block(4)

    def forward(self, x):
        x = self.first(x)
        {body}
"""


def test_of_several_models_that_hold_a_class_no_more_are_called_than_it_takes(tmp_path: Path):
    root = tmp_path / "repository"
    root.mkdir()
    block = "class Block(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n\n"
    (root / "blocks.py").write_text(f"from torch import nn\n\n\n{block}    def forward(self, x):\n        return x\n")
    (root / "first.py").write_text(HOLDING.format(name="First", body="return self.block(x)"))
    (root / "later.py").write_text(HOLDING.format(name="Later", body="while True:\n            self.block(x)"))
    found = target(run(root, path="blocks.py"), "Block")
    assert (found["status"], found["inputs"]["source"]) == ("traced", "inferred")
