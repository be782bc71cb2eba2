"""A kept file gives the same results as executing it again: after random edits, and after ones that only look harmless.

Without fork no file is kept, and every edit is judged in a new process; the same edits are tested there.
``FXLENS_EDITS`` is how many random edits are made (default 24; without fork 12, of a few seconds each), ``FXLENS_SEED``
which ones.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fxlens.host import kept
from fxlens.host.launch import Launch, find_python
from fxlens.host.pool import Pool
from fxlens.ipc.request import Limits, Request
from fxlens.jobs import trace
from random_edits import NOTHING_SAID, SPREAD, TEXT, edited

FORKS = Launch(sys.executable).forks
EDITS = int(os.environ.get("FXLENS_EDITS", "24" if FORKS else "12"))
SEED = int(os.environ.get("FXLENS_SEED", "1"))


class Both:
    """Traces texts of one file twice: in a pool that keeps it, and in one that does not."""

    def __init__(self, path: Path) -> None:
        launch = Launch(find_python("", None), str(path.parent))
        self.path, self.warm, self.cold = path, Pool(launch), Pool(launch)
        self.cold.kept.learn = lambda *arguments: None  # type: ignore[method-assign]
        self.used = self.grafted = 0
        self.said: dict[str, dict[str, Any]] = {}
        """What a new process says of a text."""
        self.told: list[str] = []
        """The models of the last text that were not traced again."""
        self.rehearsed = True
        judged = self.warm.kept.run

        async def run(message: Any, limits: Limits, on_event: Any) -> Any:
            steps = []

            def observe(event: Any) -> None:
                steps.append(event.get("step"))
                on_event(event)

            outcome = await judged(message, limits, observe)
            self.grafted += outcome is not None and outcome.end == "done" and "import" not in steps
            return outcome

        self.warm.kept.run = run  # type: ignore[method-assign]

    async def records(self, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both say, without times; the first is of the kept file where it was of use."""
        await asyncio.gather(*self.warm.kept._coming.values(), return_exceptions=True)
        keeper = self.warm.kept._ready.get(str(self.path))
        if keeper is not None and keeper._rehearsing is not None and self.rehearsed:
            await asyncio.gather(keeper._rehearsing, return_exceptions=True)
        request = Request(str(self.path), text, str(self.path.parent), limits=Limits(deadline=60.0))
        found = [await trace.run(self.warm, request)]
        if text not in self.said:
            self.said[text] = await trace.run(self.cold, request)
        found.append(self.said[text])
        if keeper is not None and self.warm.kept._ready.get(str(self.path)) is keeper:
            self.used += 1
            self.told = keeper.same
        else:
            self.told = []
        one, other = ({**each, "timings": {}} for each in found)
        for record in (one, other):
            record["targets"] = [{**target, "timings": {}} for target in record["targets"]]
            # What torch imports of itself when it needs it depends on what the process did before.
            record["third_party"] = [name for name in record["third_party"] if not name.startswith("torch.")]
        return one, other

    async def close(self) -> None:
        await self.warm.close()
        await self.cold.close()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Both], Any]], None]:
    monkeypatch.setattr(kept, "_IDLE_SECONDS", 0.0)
    monkeypatch.setattr(kept, "_UNFIT_SECONDS", 0.0)
    monkeypatch.setattr(kept, "_REHEARSE_SECONDS", 0.0)

    def run(test: Callable[[Both], Any]) -> None:
        async def both() -> None:
            pools = Both(tmp_path / "net.py")
            pools.path.write_text(TEXT)
            try:
                await test(pools)
            finally:
                await pools.close()

        asyncio.run(both())

    return run


@pytest.mark.parametrize("first", [TEXT, NOTHING_SAID, SPREAD], ids=["said", "nothing said", "spread"])
def test_random_edits_are_judged_as_in_a_new_process(run, first):
    async def test(both: Both) -> None:
        dice = random.Random(SEED)
        text, told = first, 0
        for number in range(EDITS // 3):
            both.rehearsed = dice.random() < 0.9
            kept_one, cold = await both.records(text)
            assert kept_one == cold, f"edit {number}, told {both.told}:\n{text}"
            told += len(both.told)
            text = edited(text if dice.random() < 0.6 else first, dice)
        if not FORKS:
            assert both.used == told == 0
            return
        assert both.used > EDITS // 12, f"only {both.used} of {EDITS // 3} edits used the kept file"
        assert told > EDITS // 18, f"only {told} models were not traced again"
        assert both.grafted > EDITS // 18, f"of only {both.grafted} texts no more was read than the edit"

    run(test)


HARMLESS = {
    "a statement of forward": ("        y = super().forward(x)\n", "        y = super().forward(x) * 3\n"),
    "a comprehension": ("[helper(each) for each in (x, x)]", "[helper(each, 5) for each in (x, x, x)]"),
    "a helper": ("    return x * factor", "    y = x\n    return y * factor + 1"),
    "lines above": ("SCALE = 2", "# one\n# more\n\nSCALE = 2"),
    "a static method": ("x + math.pi", "x - math.pi"),
    "main": ("    print(Pair", "    return print(Pair"),
}
OTHERS = {
    "a constant": ("SCALE = 2", "SCALE = 2.0"),
    "a default": ("factor=SCALE", "factor=7"),
    "a constructor": ("super().__init__(4)", "super().__init__(4 + 4)"),
    "a method of the constructor": ("for _ in range(count)", "for _ in range(count + 1)"),
    "a decorated function": ("return x - 1", "return x - 2"),
    "an attribute of a class": ("    width = 4", "    width = 6"),
    "a new class": (
        "class Pair(",
        "class Another(nn.Module):\n    def forward(self, x):\n        return x\n\n\nclass Pair(",
    ),
    "what only parses": ("x = self.layers(x)", "SCALE = x; global SCALE"),
    "the construction": ("# fxlens: Net() <-", "# fxlens: Net( ) <-"),
}


def test_only_functions_that_have_not_run_are_exchanged(run):
    async def test(both: Both) -> None:
        for name, (old, new) in {**HARMLESS, **OTHERS}.items():
            assert old in TEXT
            await both.records(TEXT)
            used = both.used
            one, other = await both.records(TEXT.replace(old, new))
            assert one == other, name
            assert both.used - used == (FORKS and (name in HARMLESS or name == "the construction")), name

    run(test)


STILL = {
    "nothing": ("", "", {"Base", "Net", "Pair"}),
    "a line more at the end": ("    main()\n", "    main()\n# the end\n", {"Base", "Net", "Pair"}),
    "a comment on a line of its own": ("# about Pair", "# about a pair", {"Base", "Net", "Pair"}),
    "what only one model runs": ("len(x) * self.other(x)", "len(x) + self.other(x)", {"Base", "Net"}),
    "what its base does not run": ("x = x * 2", "x = x * 3", {"Base"}),
    "a helper": ("    return x * factor", "    return x / factor", set()),
    "what nobody runs": ("print(Pair", "repr(Pair", {"Base", "Net", "Pair"}),
    "a line more": ("x = x * 2\n", "x = x * 2\n            x = x + 1\n", {"Base"}),
    "a line more of what nobody runs": ("    print(Pair", "    print(1)\n    print(Pair", {"Base", "Net", "Pair"}),
    "lines above it all": ('"""A file', '# one\n\n# more\n"""A file', {"Base", "Net", "Pair"}),
    "a line less": ("    return around\n\n\n", "    return around\n\n", {"Base", "Net", "Pair"}),
    "a blank line where a fix writes": ("class Pair(", "\nclass Pair(", {"Base", "Net"}),
    "a blank line in what a fix replaces": ("        y = super()", "\n        y = super()", {"Base"}),
    "a blank line in a function": ("        x = self.layers", "\n        x = self.layers", {"Base", "Net", "Pair"}),
    "a name that a fix would take": ("    print(Pair", "    _net_y = print(Pair", {"Base", "Pair"}),
    "a comment that is read": ("# fxlens: Net() <- torch.randn(2,", "# fxlens: Net() <- torch.randn(3,", set()),
}


def test_only_models_whose_functions_have_changed_are_traced_again(run, monkeypatch):
    monkeypatch.setattr(kept, "_TRACED", len(STILL))  # all are compared with one rehearsal

    async def test(both: Both) -> None:
        text = TEXT.replace("class Pair(", "# about Pair\nclass Pair(")
        for name, (old, new, still) in STILL.items():
            assert old in text
            for each in (text, text, text.replace(old, new)):
                one, other = await both.records(each)
                assert one == other, name
            assert set(both.told) == (still if FORKS else set()), name

    run(test)


DOUBTFUL = (
    "        if flag:\n",
    '        """Not \\w."""\n        if flag is 3:\n            x = 1[0]\n        if flag:\n',
)
"""An edit after which Python warns of the text where it parses and where it compiles it."""


def test_what_python_warns_of_in_a_text_is_no_output_whatever_filters_the_file_sets(run):
    async def test(both: Both) -> None:
        found = []
        for action in ("default", "error", "always"):
            text = TEXT.replace("import math", f"import math\nimport warnings; warnings.simplefilter({action!r})")
            doubtful = text.replace(*DOUBTFUL)
            for each in (text, doubtful, doubtful.replace("x = x * 2", "x = x * 3")):
                used = both.used
                one, cold = await both.records(each)
                assert one == cold and cold["output"] == "", action
            assert both.used - used == FORKS, action
            found.append([(each["code"], [given["code"] for given in each["findings"]]) for each in cold["targets"]])
        assert found[0] == found[1] == found[2]

    run(test)


ENDLESS = """import torch
from torch import nn


def below(depth, made):
    return below(depth - 1, made) if depth else made()


# fxlens: below(0, Block)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList(type(self)() for _ in range(2))

    def forward(self, x):
        return x
"""


def test_an_endless_recursion_is_said_as_one_however_deep_the_stack_was_before(run):
    async def test(both: Both) -> None:
        deeper = [f"\n\n# fxlens: below({25 * n}, Block{n})\nclass Block{n}(Block):\n    pass\n" for n in range(1, 4)]
        request = Request(
            str(both.path), ENDLESS + "".join(deeper), str(both.path.parent), limits=Limits(deadline=60.0)
        )
        record = await trace.run(both.cold, request)
        found = [(target["name"], *target["findings"]) for target in record["targets"]]
        said = {(each["code"], each["message"].removeprefix(name), str(each["span"])) for name, each in found}
        assert len(found) == 4 and len(said) == 1
        ((code, message, _),) = said
        assert code == "FX310" and message.endswith(": RecursionError: maximum recursion depth exceeded")
        begins = ENDLESS[: ENDLESS.index("type(self)")].split("\n")
        span = found[0][1]["span"]
        assert (span["line"], span["column"]) == (len(begins), len(begins[-1]))

    run(test)


def test_what_is_written_at_the_end_of_a_text_is_where_it_ends_now(run, monkeypatch):
    monkeypatch.setattr(kept, "_TRACED", 9)  # all are compared with one rehearsal

    async def test(both: Both) -> None:
        text = NOTHING_SAID.rstrip()
        for end in ("", "", "\n", "\n\n", "\n# the end", ""):
            one, other = await both.records(text + end)
            assert one == other, end
        assert len(both.told) == 5 * FORKS

    run(test)


def test_what_a_fix_writes_is_in_the_style_that_the_text_has_now(run, monkeypatch):
    monkeypatch.setattr(kept, "_TRACED", 9)  # all are compared with one rehearsal

    async def test(both: Both) -> None:
        text = NOTHING_SAID.replace("class Norm(", "def unused(x):\n    return x + 1\n\n\nclass Norm(")
        step = text.replace("    return x + 1", "  return x + 1")
        for each in (text, text, step, text.replace("\n", "\r\n"), text, text):
            one, other = await both.records(each)
            assert one == other
        assert len(both.told) == 5 * FORKS

    run(test)


KNOWN = {
    "a line that is read": "    def __init__(self):\n        import sys\n        sys._getframe().f_lineno\n",
    "a line that is printed": "    def __init__(self):\n        import warnings\n        warnings.warn('said')\n",
    "a source that is read": "    def __init__(self):\n        import inspect\n        inspect.getsource(wrapped)\n",
}


def test_code_that_knows_its_lines_is_executed_anew_where_these_move(run):
    async def test(both: Both) -> None:
        for name, begun in KNOWN.items():
            text = TEXT.replace("class Net(Base):\n    def __init__(self):\n", f"class Net(Base):\n{begun}")
            assert text != TEXT
            await both.records(text)
            for new, fits in ((text, True), (text.replace("import math", "import math\n\n"), False)):
                used = both.used
                one, other = await both.records(new)
                assert one == other, name
                assert both.used - used == (FORKS and fits), name

    run(test)


def test_a_file_that_was_imported_and_has_changed_is_seen(run):
    async def test(both: Both) -> None:
        text = TEXT.replace("SCALE = 2", "from other import SCALE")
        other = both.path.with_name("other.py")
        other.write_text("SCALE = 2\n")
        await both.records(text)
        other.write_text("SCALE = 300\n")
        both.said.clear()
        one, cold = await both.records(text)
        assert one == cold and "300" in one["targets"][0]["code"]

    run(test)


@pytest.mark.parametrize(
    ("line", "comes"),
    [
        ("from other import SCALE", "other/__init__.py"),
        ("try:\n    from third.leaf import SCALE\nexcept ImportError:\n    SCALE = 2", "third/leaf.py"),
        ("SCALE = 300 if 'new' in __import__('os').listdir(__import__('os').path.dirname(__file__)) else 2", "new"),
    ],
    ids=["package", "folder", "listed"],
)
def test_what_would_be_imported_or_listed_and_comes_later_is_seen(run, line: str, comes: str):
    async def test(both: Both) -> None:
        text = TEXT.replace("SCALE = 2", line)
        both.path.with_name("other.py").write_text("SCALE = 2\n")
        await both.records(text)
        await both.records(text)
        assert both.used == FORKS
        new = both.path.parent / comes
        new.parent.mkdir(exist_ok=True)
        new.write_text("SCALE = 300\n")
        both.said.clear()
        one, cold = await both.records(text)
        assert one == cold and "300" in one["targets"][0]["code"]

    run(test)


def test_a_file_that_changes_after_it_was_imported_and_before_it_is_looked_at(run):
    """Here the file that imports it writes it; an editor does so at any moment."""

    async def test(both: Both) -> None:
        other = both.path.with_name("other.py")
        other.write_text("SCALE = 2\n")
        writing = f"from other import SCALE\nopen({str(other)!r}, 'w').write('SCALE = 2\\n')"
        for line, used in (("from other import SCALE", FORKS), (writing, 0)):
            text = TEXT.replace("SCALE = 2", line)
            await both.records(text)
            both.used = 0
            await both.records(text)
            assert both.used == used

    run(test)


def test_a_file_that_is_gone_after_it_was_imported_and_before_it_is_looked_at(run):
    async def test(both: Both) -> None:
        other = both.path.with_name("other.py")
        text = TEXT.replace("SCALE = 2", f"from other import SCALE\n__import__('os').remove({str(other)!r})")
        other.write_text("SCALE = 2\n")
        await trace.run(both.warm, Request(str(both.path), text, str(both.path.parent)))
        other.write_text("SCALE = 2\n")
        await asyncio.gather(*both.warm.kept._coming.values(), return_exceptions=True)
        assert not other.exists() or not FORKS, "the process that would be kept has executed the text"
        one, cold = await both.records(text)
        assert one == cold and both.used == 0

    run(test)


ALIVE = [
    "import threading; threading.Thread(target=__import__('time').sleep, args=(9,), daemon=True).start()",
    "import os; os.fork() or (__import__('time').sleep(9), os._exit(0))",
    "import subprocess; subprocess.run(['sleep', '9'])",
    "import sys; sys.setprofile(None)",
    "import multiprocessing; LOCK = multiprocessing.Lock()",
    "import multiprocessing; COUNTER = multiprocessing.Value('i', 0)",
    "TABLE = torch.zeros(3).share_memory_()",
    "SIZES = open(__file__)",
]


def test_what_does_not_survive_a_fork_is_not_kept(run):
    async def test(both: Both) -> None:
        for line in ALIVE:
            text = TEXT.replace("SCALE = 2", f"SCALE = 2\n{line}")
            for _ in range(2):
                one, other = await both.records(text)
                assert one == other
            assert both.used == 0, line

    run(test)


@pytest.mark.skipif(not FORKS, reason="elsewhere no file is kept")
def test_a_fork_that_does_not_end_is_the_last_one(run):
    """It may wait for what an earlier one, which an edit has killed, has left."""

    async def test(both: Both) -> None:
        await both.records(TEXT)
        await asyncio.gather(*both.warm.kept._coming.values(), return_exceptions=True)
        keeper = both.warm.kept._ready[str(both.path)]
        text = TEXT.replace("    return x * factor", "    while True:\n        pass\n    return x * factor")
        await trace.run(both.warm, Request(str(both.path), text, str(both.path.parent), limits=Limits(deadline=1.0)))
        assert both.warm.kept._ready.get(str(both.path)) is not keeper

    run(test)


def test_what_a_forward_imports_is_told_after_an_edit_elsewhere(run):
    async def test(both: Both) -> None:
        text = TEXT.replace("    return x * factor", "    import fxlens_no_such_package\n\n    return x * factor")
        for each in (text, text, text.replace("class Pair(", "# about Pair\nclass Pair(")):
            one, other = await both.records(each)
            assert one == other
            assert "FX311" in [found["code"] for found in one["findings"]]

    run(test)


WRITTEN = """import torch
from net import Base, Net, Pair


def test_pair():
    Pair(Net(), Base(4))(torch.ones(3, 4))
"""


def test_a_test_that_is_written_is_read_with_the_next_edit(run):
    async def test(both: Both) -> None:
        for number in range(3):
            if number == 2:
                both.path.with_name("test_net.py").write_text(WRITTEN)
            one, cold = await both.records(TEXT.replace("x = x * 2", f"x = x * {number}"))
            assert one == cold
        assert one["files"][-1].endswith("test_net.py") and both.used == 2 * FORKS

    run(test)
