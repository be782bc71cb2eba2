"""``fxlens record``: a program runs normally, and a file then has the constructions and calls of its modules."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import weakref

import pytest
import torch
from fxlens.recording.agent.describe import Description
from fxlens.sources import recorded as examples
from warm_python import warm_fxlens

PACKAGE = """
    import dataclasses, enum, functools
    import torch
    from torch import nn

    @dataclasses.dataclass
    class Config:
        dim: int = 8
        drop: float = 0.1

    class Kind(enum.Enum):
        PRE = 1

    class Layer(nn.Module):
        def __init__(self, config, norm=nn.LayerNorm, act=None, kind=Kind.PRE):
            super().__init__()
            self.linear = nn.Linear(config.dim, config.dim)
            self.norm, self.act = norm(config.dim), act or nn.ReLU()

        def forward(self, x, mask=None):
            return self.act(self.norm(self.linear(x)))

    class Net(nn.Module):
        def __init__(self, depth, **sizes):
            super().__init__()
            norm = functools.partial(nn.LayerNorm, eps=1e-6)
            act = nn.Sequential(nn.Linear(sizes["dim"], 4), nn.GELU())
            self.layers = nn.ModuleList([Layer(Config(**sizes), norm, act) for _ in range(depth)])

        def forward(self, x, *, scale=1.0):
            for layer in self.layers[:1]:
                x = layer(x)
            return x * scale
"""
PROGRAM = """
    import copy, os, sys, time, torch
    from pkg.net import Net

    class Local(torch.nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, ids):
            return self.f(ids)

    net = Net(2, dim=16)
    for batch in (4, 8):
        net(torch.randn(batch, 3, 16))
    net.eval()
    net(torch.randn(1, 5, 16), scale=2.0)
    copy.deepcopy(net)(torch.randn(2, 3, 16))
    Local(lambda ids: ids + 1)(torch.zeros(3, dtype=torch.long))
    print("answer", sum(p.numel() for p in net.parameters()), sys.argv[1:])
"""


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "net.py").write_text(textwrap.dedent(PACKAGE))
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM))
    return tmp_path


def record(workspace, *arguments, program=None, **options):
    program = program or [sys.executable, "train.py"]
    command = warm_fxlens("record", *arguments, "--", *program)
    return subprocess.run(command, cwd=workspace, capture_output=True, text=True, timeout=240, **options)


def recorded(workspace):
    return examples.parse((workspace / examples.NAME).read_text())


def test_constructions_and_calls_of_runs(workspace, monkeypatch):
    done = record(workspace, program=[sys.executable, "train.py", "--epochs", "1"])
    assert done.returncode == 0 and done.stdout == "answer 676 ['--epochs', '1']\n", done.stderr
    assert done.stderr == f"fxlens: 3 classes recorded in {examples.NAME}\n"
    found = recorded(workspace)
    assert set(found) == {"pkg/net.py::Layer", "pkg/net.py::Net", "train.py::Local"}
    (net,) = found["pkg/net.py::Net"]
    assert net.construct == "Net(2, dim=16)"
    assert net.train == ["torch.randn(4, 3, 16)", "torch.randn(8, 3, 16)"]
    assert net.evaluation == ["torch.randn(1, 5, 16), scale=2.0", "torch.randn(2, 3, 16)"]
    assert examples.varying(net.inputs) == {0: {0, 1}}
    (layer,) = found["pkg/net.py::Layer"]
    assert layer.construct == (
        "Layer(pkg.net.Config(dim=16, drop=0.1), functools.partial(torch.nn.LayerNorm, eps=1e-06), "
        "torch.nn.Sequential(torch.nn.Linear(in_features=16, out_features=4, bias=True), "
        "torch.nn.GELU(approximate='none')))"
    )
    assert layer.imports == ["functools", "pkg.net", "torch.nn"] and layer.complete
    (local,) = found["train.py::Local"]
    assert local.construct == "Local(...)" and local.missing == ["argument 1 is a function"] and not local.complete
    # What is written makes a module again where nothing is known of the run.
    monkeypatch.syspath_prepend(workspace)
    scope = {name: importlib.import_module(name) for name in layer.imports if name in ("functools", "pkg.net")}
    scope = {"functools": scope["functools"], "pkg": sys.modules["pkg"], "torch": torch, **vars(scope["pkg.net"])}
    for name in ("pkg", "pkg.net"):
        monkeypatch.delitem(sys.modules, name)
    assert type(eval(layer.construct, scope)).__name__ == "Layer"

    # A second run adds to the file, and what no longer fits goes.
    first = (workspace / examples.NAME).read_text()
    record(workspace)
    assert (workspace / examples.NAME).read_text() == first
    (workspace / examples.NAME).write_text(f"{first}# see issue 3\n")
    net = workspace / "pkg" / "net.py"
    net.write_text(net.read_text().replace("depth", "layers"))
    train = (workspace / "train.py").read_text().replace("Net(2, dim=16)", "Net(layers=1, dim=4)")
    (workspace / "train.py").write_text(train.replace("Local", "Other").replace("16)", "4)"))
    done = record(workspace)
    constructions = [entry.construct for entry in recorded(workspace)["pkg/net.py::Net"]]
    assert constructions == ["Net(2, dim=16)", "Net(layers=1, dim=4)"]
    assert "train.py::Local: Local(...) dropped: the class no longer exists" in done.stderr
    assert set(recorded(workspace)) == {"pkg/net.py::Layer", "pkg/net.py::Net", "train.py::Other"}
    assert (workspace / examples.NAME).read_text().startswith(f"{examples.HEADER}# see issue 3\n\n[[")


@pytest.mark.parametrize("end", ["os.abort()", "os._exit(3)", "raise SystemExit(4)", "1 / 0"])
def test_nothing_is_lost_however_the_program_ends(workspace, end):
    """Nor of what the environment's own sitecustomize does."""
    (workspace / "site").mkdir()
    (workspace / "site" / "sitecustomize.py").write_text("print('customized', flush=True)\n")
    path = os.pathsep.join([str(workspace / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    program = (workspace / "train.py").read_text().replace("sys.argv[1:])", "sys.argv[1:], flush=True)")
    (workspace / "train.py").write_text(f"{program}\n{end}\n")
    done = record(workspace, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == {"os.abort()": 134, "os._exit(3)": 3, "raise SystemExit(4)": 4}.get(end, 1)
    assert done.stdout.splitlines()[-2:] == ["customized", "answer 676 []"], done.stderr
    assert len(recorded(workspace)) == 3


def test_interrupted_and_ended_after_some_calls(workspace):
    train = workspace / "train.py"
    train.write_text(train.read_text() + "\nwhile True: net(torch.randn(1, 5, 16))\n")
    done = record(workspace, "--calls", "40")
    assert "40 calls recorded; stopping the program" in done.stderr and len(recorded(workspace)) == 3
    (workspace / examples.NAME).unlink()
    command = [sys.executable, "-m", "fxlens", "record", "--", sys.executable, "-u", "train.py"]
    running = subprocess.Popen(
        command,
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has had it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert running.stdout.readline().startswith("answer")
    time.sleep(0.3)
    os.killpg(running.pid, signal.SIGINT)
    try:
        running.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert len(recorded(workspace)) == 3


def test_what_the_program_leaves_is_not_adopted(workspace):
    """Nobody would wait for its end, so that the program saw it for ever."""
    (workspace / "train.py").write_text(
        "import os, time\ncommand = os.getppid()\nif not os.fork():\n    own = os.getpid()\n    if not os.fork():\n"
        "        while os.getppid() == own:\n            time.sleep(0.01)\n"
        "        open('adopted', 'w').write(str(os.getppid() == command))\n    os._exit(0)\nos.wait()\n"
        "while not os.path.exists('adopted') or not open('adopted').read():\n    time.sleep(0.01)\n"
    )
    record(workspace)
    assert (workspace / "adopted").read_text() == "False"


def test_what_cannot_be_written_is_left_out_of_a_construction():
    """Else its calls would be those of a construction that can."""
    gone = weakref.proxy(type("Gone", (), {})())
    for value in (10**5000, {"deep": [10**5000]}, gone):
        described = Description(weakref.WeakKeyDictionary())
        assert described.call("Net", (4,), {"extra": value}) == "Net(4, extra=...)" and described.missing, value


def test_compiled_and_traced_models_stay_as_they_are(workspace):
    (workspace / "train.py").write_text(
        textwrap.dedent(
            """
            import torch, torch.fx
            from pkg.net import Net
            net = Net(1, dim=8)
            x = torch.randn(2, 3, 8)
            compiled = torch.compile(net, backend="eager", fullgraph=True)
            print(torch.equal(compiled(x), net(x)), len(torch.fx.symbolic_trace(net.layers[0]).graph.nodes))
            torch.jit.script(net.layers[0].linear)
            torch.jit.trace(net, x)
            """
        )
    )
    done = record(workspace)
    assert done.stdout == "True 7\n" and "TracerWarning" not in done.stderr, done.stderr
    assert recorded(workspace)["pkg/net.py::Net"][0].train == ["torch.randn(2, 3, 8)"]


def test_what_cannot_be_recorded_is_said(workspace):
    assert "no Python process of this command imported torch" in record(workspace, program=["true"]).stderr
    isolated = record(workspace, program=[sys.executable, "-I", "-c", ""])
    assert isolated.returncode == 0 and "as with -I or -E" in isolated.stderr
    empty = record(workspace, program=[sys.executable, "-c", "import torch; torch.nn.Linear(1, 1)"])
    assert "no module of a class in" in empty.stderr
    gone = record(workspace, program=["no-such-program"])
    assert gone.returncode == 2 and "no-such-program" in gone.stderr
    (workspace / examples.NAME).write_text("x = 1\n")
    broken = record(workspace)
    assert broken.returncode == 2 and 'must be a list of tables named "file.py::Class"' in broken.stderr
    assert (workspace / examples.NAME).read_text() == "x = 1\n" and broken.stdout == ""


def test_pytest_records_what_its_tests_do(workspace):
    (workspace / "test_net.py").write_text(
        "import torch\nfrom pkg.net import Net\n\ndef test_net():\n    Net(1, dim=8)(torch.randn(2, 3, 8))\n"
    )
    plugin = ["-p", "no:cacheprovider", "-p", "fxlens.recording.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "--fxlens-record"]
    done = subprocess.run([*command, "test_net.py"], cwd=workspace, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "2 classes recorded in" in done.stdout, done.stdout + done.stderr
    assert recorded(workspace)["pkg/net.py::Net"][0].construct == "Net(1, dim=8)"
    # Without its summary.
    (workspace / examples.NAME).unlink()
    (workspace / "conftest.py").write_text("def pytest_runtest_logfinish():\n    raise OSError('mine')\n")
    done = subprocess.run([*command, "test_net.py"], cwd=workspace, capture_output=True, text=True, timeout=240)
    assert "INTERNALERROR" in done.stdout + done.stderr and "2 classes recorded in" in done.stderr
    assert recorded(workspace)["pkg/net.py::Net"][0].construct == "Net(1, dim=8)"


def test_a_program_that_closes_all_descriptors_gets_nothing_of_the_recording_in_its_files(workspace):
    (workspace / "train.py").write_text(
        "import os, torch\nfrom pkg.net import Net\nNet(1, dim=8)(torch.randn(1, 3, 8))\nos.closerange(3, 256)\n"
        "with open('data.bin', 'w') as file:\n    file.write('mine')\n    file.flush()\n"
        "    Net(2, dim=16)(torch.randn(1, 3, 16))\n"
    )
    assert record(workspace).returncode == 0
    assert (workspace / "data.bin").read_text() == "mine"
    assert "Net(1, dim=8)" in (said := (workspace / examples.NAME).read_text()) and "Net(2, dim=16)" in said


def test_modules_are_made_as_without_a_recording(workspace):
    (workspace / "train.py").write_text(
        textwrap.dedent("""
            import torch
            from torch import nn

            class Once:
                made = None

                def __new__(cls, *args, **kwargs):
                    cls.made = cls.made or super().__new__(cls)
                    return cls.made

            class Single(nn.Module, Once):
                def forward(self, x):
                    return x

            class Table(nn.Module, dict):
                def __init__(self, **items):
                    nn.Module.__init__(self)
                    dict.__init__(self, items)

                def forward(self, x):
                    return x

            class Own(nn.Module):
                def __new__(cls, size):
                    return super().__new__(cls)

                def __init__(self, size):
                    super().__init__()

                def forward(self, x):
                    return x

            class Leaves(nn.Module):
                def __init__(self, value):
                    super().__init__()

                def forward(self, x):
                    return x

            class Exits:
                def __getattr__(self, name):
                    raise SystemExit(9)

            print(Single() is Single(), dict(Table(a=1)), Own(3)(torch.ones(1)), Leaves(Exits())(1))
        """)
    )
    done = record(workspace)
    assert (done.returncode, done.stdout) == (0, "True {'a': 1} tensor([1.]) 1\n"), done.stderr
    assert "Own()" not in (workspace / examples.NAME).read_text()


NOTEBOOK = [
    "%matplotlib inline\nimport torch\nfrom pkg.net import Net\n!false",
    "from __future__ import annotations\nclass Act(torch.nn.Module):\n    def forward(self, x: Later):\n"
    "        return x.relu()",
    "    class Cell(torch.nn.Module):\n        def __init__(self, kind, width):\n            super().__init__()\n"
    "            self.act = kind()\n\n        def forward(self, x):\n            return self.act(x)",
    "def broken(:",
    "import asyncio\nawait asyncio.sleep(0)\nget_ipython()\nwidth = len('abcd')\nfor n in (2, 3):\n"
    "    Cell(Act, width).eval()(torch.randn(n, width))\nNet(1, dim=width)",
    "from multiprocessing import get_context\nchild = get_context('spawn').Process(target=str)\n"
    "child.start(), child.join()\ndisplay(width - child.exitcode)\nraise ValueError('the end')",
    "open('ran', 'w')",
]


def test_the_cells_of_a_notebook_are_run_in_their_order(workspace):
    (workspace / "deep").mkdir()
    path = workspace / "deep" / "study.ipynb"
    cells = [{"cell_type": "code", "source": text} for text in NOTEBOOK]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# Prose"}, *cells]}))
    environment = {**os.environ, "PYTHONPATH": str(workspace)}
    for program in (["deep/study.ipynb"], [sys.executable, "deep/study.ipynb"]):
        done = record(workspace, program=program, env=environment)
        assert done.returncode == 1 and done.stdout == "4\n", done.stderr
        at = f'File "{path}, cell 7", line 5, in <module>\n    raise ValueError'
        assert at in done.stderr and "ValueError: the end" in done.stderr and not (workspace / "deep" / "ran").exists()
        assert "fxlens: cell 5 was not run: Python cannot parse it\n" in done.stderr
        assert f"fxlens: 4 classes recorded in {examples.NAME}\n" in done.stderr and "dropped" not in done.stderr
        assert set(recorded(workspace)) == {
            "deep/study.ipynb::Act", "deep/study.ipynb::Cell", "pkg/net.py::Layer", "pkg/net.py::Net",
        }  # fmt: skip
    checked = warm_fxlens("check", "deep/study.ipynb", "--format", "json")
    said = subprocess.run(checked, cwd=workspace, capture_output=True, text=True, timeout=240).stdout
    cell = next(each for each in json.loads(said)["files"][0]["targets"] if each["name"] == "Cell")
    assert (cell["status"], cell["construct"]["text"], cell["construct"]["source"]) == (
        "traced",
        "Cell(Act, 4)",
        "recorded",
    )
    assert (cell["inputs"]["text"], cell["inputs"]["source"]) == ("torch.randn(2, 4)", "recorded")
    path.write_text("{")
    assert "study.ipynb cannot be read: " in record(workspace, program=["deep/study.ipynb"]).stderr
