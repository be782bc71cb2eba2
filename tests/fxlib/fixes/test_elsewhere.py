"""Who else uses what a fix changes: such a fix is offered with the reason, and never applied by itself."""

from __future__ import annotations

import os

import pytest

from fxlib.diagnosis.fixes.elsewhere import mentioned

from .marked import HEAD, net
from .test_verify import checker_for, settled

FORWARD = "class Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
COUNT = f"{HEAD}\n\ndef count(items):\n    return len(items)\n\n\n{FORWARD}        return x * count(x)\n"
METHOD = "\n    def count(self, items):\n        return len(items)\n"
HELPED = f"{HEAD}\n\n{FORWARD}        return x * self.count(x)\n{METHOD}"
SHIFTED = "def shifted(y, by=1):\n    y += by\n    return y\n\n\n"
ADDED = f"{HEAD}\n\n{SHIFTED}{FORWARD}        x = x * 1\n        shifted(x)\n        return x\n"
KEPT = net("self.attention = x.softmax(-1)\nreturn self.attention * x\n")
PRIVATE = KEPT.replace(".attention", "._attention")
RATE = net("return nn.functional.dropout(x, self.p, training=self.training)\n", init="self.p = 0.5\n")
STATIC = net("return x + 1\n", signature="x").replace("    def forward", "    @staticmethod\n    def forward")
MAYBE = net(
    "if self.p is not None:\n    x = nn.functional.dropout(x, self.p, training=self.training)\nreturn x\n",
    init="self.p = 0.5\n",
)
IN_DICT = RATE.replace("self.p, t", "self.p['p'], t").replace("= 0.5", "= {'p': 0.5}")
LIST = net(
    "parts = list(x.chunk(2, 1))\nif self.extra:\n    parts.append(x)\nreturn torch.cat(parts, 1)\n",
    init="self.extra = False\n",
)
LOG = net(
    "out = self.log if self.keep else {}\nout.update(d)\nreturn out['a'] * 2\n",
    init="self.keep = False\nself.log = {}\n",
    signature="self, d",
)
BRANCH = (
    HEAD
    + """

class Net(nn.Module):
    def other(self, x):
        return x * 3

    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return self.other(x)
"""
)
KEYS = (
    HEAD
    + """

class Net(nn.Module):
    def combine(self, a, b=1):
        return a * b

    def forward(self, d):
        return self.combine(**d)
"""
)
OTHER_LIST = net(
    "features = self.backbone(x)\nreturn x * len(features)\n", init="self.backbone = Backbone()\n"
).replace(
    "class Net",
    "class Backbone(nn.Module):\n    many = False\n\n    def forward(self, x):\n"
    "        return [x] if self.many else x\n\n\nclass Net",
)
NOT_TENSOR = net("if not isinstance(x, torch.Tensor):\n    x = torch.from_numpy(x)\nreturn x * 2\n")
CHECKED = net("if not isinstance(x, torch.Tensor):\n    raise TypeError('x')\nreturn x * 2\n")
GIVEN = net("parts = list(x.chunk(2, 1))\nreturn torch.cat(self.merged(parts), 1)\n").replace(
    "    def forward", "    def merged(self, parts):\n        return parts\n\n    def forward"
)
OPTIONAL = net("with torch.no_grad():\n    t = self.mean(x)\nreturn x + t\n", init="self.on = True\n").replace(
    "    def forward", "    def mean(self, x):\n        return x.mean() if self.on else None\n\n    def forward"
)
NO_GRAD = net("with torch.no_grad():\n    t = x * 2 if self.on else 0\nreturn x + t\n", init="self.on = True\n")
TIMES = net("return x * len(x)\n", signature="self, x")
CHILD = ("child.py", "from net import Net\n\n\nclass Child(Net):\n    pass\n")
OTHER_NET = ("child.py", "class Net:\n    pass\n\n\nclass Child(Net):\n    pass\n")
DICT = "{'a': torch.randn(3, 4)}"
INPUTS = "torch.linspace(-2, 3, 12).reshape(3, 4)"
REPORT = "\n\ndef report(names):\n    return count(names)\n"
OF_CLASS = "\n    def report(self, names):\n        return self.count(names)\n"
CHILDREN = "\n    def features(self):\n        return list(self.children())\n"
CELL = ("look.ipynb", '{"cells": [{"source": ["model._attention"]}]}')
MAIN = "\n\nif __name__ == '__main__':\n    print(shifted(3, 2))\n"
SCRIPT = ("plot.py", "print(model._attention)\n")

# The text, another file or None, the finding's code, the fix, and whether it may be applied by itself.
USED = ("use.py", "from net import count\n\nprint(count([1, 2]))\n")
IN_FORWARD = ("use.py", "from net import count\n\n\nclass Other:\n    def forward(self, x):\n        return count(x)\n")
CASES = {
    "a helper": (COUNT, None, "FX120", "len-to-shape", True),
    "a caller in the file": (COUNT + REPORT, None, "FX120", "len-to-shape", False),
    "a caller in another file": (COUNT, USED, "FX120", "len-to-shape", False),
    "an import in another file": (COUNT, ("use.py", "from net import count\n"), "FX120", "len-to-shape", True),
    "a forward in another file": (COUNT, IN_FORWARD, "FX120", "len-to-shape", True),
    "another function of that name": (COUNT, ("use.py", "def count():\n    pass\n"), "FX120", "len-to-shape", True),
    "a method": (HELPED, None, "FX120", "len-to-shape", True),
    "a method with another caller": (HELPED + OF_CLASS, None, "FX120", "len-to-shape", False),
    "a call of the file itself": (ADDED + MAIN, None, "FX230", "in-place-method", False),
    "an attribute": (KEPT, None, "FX209", "local-value", False),
    "a private attribute": (PRIVATE, None, "FX209", "local-value", True),
    "an attribute that a script reads": (PRIVATE, SCRIPT, "FX209", "local-value", False),
    "an attribute that a notebook reads": (PRIVATE, CELL, "FX209", "local-value", False),
    "a rate": (RATE, None, "FX207", "dropout-module", True),
    "a rate that a script writes": (RATE, ("train.py", "model.p = 0.1\n"), "FX207", "dropout-module", False),
    "a rate that is read": (RATE, ("train.py", "print(model.p)\n"), "FX207", "dropout-module", True),
    "a rate in a dict": (IN_DICT, None, "FX207", "dropout-module", False),
    "a rate that may be None": (MAYBE, None, "FX207", "dropout-module", False),
    "children": (RATE + CHILDREN, None, "FX207", "dropout-module", False),
    "a list of another construction": (LIST, None, "FX110", "drop-list", False),
    "a list": (LIST.replace("    parts.append(x)", "    x = x + 1"), None, "FX110", "drop-list", True),
    "a dict of the module": (LOG, None, "FX113", "dict-union", False),
    "a child in another file, of a new layer": (RATE, CHILD, "FX207", "dropout-module", False),
    "a child of another class": (RATE, OTHER_NET, "FX207", "dropout-module", True),
    "a child in another file, of a branch": (BRANCH, CHILD, "FX101", "if-to-where", False),
    "a branch": (BRANCH, None, "FX101", "if-to-where", True),
    "keys with defaults": (KEYS, None, "FX113", "index-mapping", False),
    "keys": (KEYS.replace(", b=1", "").replace("a * b", "a"), None, "FX113", "index-mapping", True),
    "a list from another construction": (OTHER_LIST, None, "FX120", "len-to-shape", False),
    "a forward that takes lists": (TIMES, None, "FX120", "len-to-shape", False),
    "a division": (TIMES.replace("*", "/"), None, "FX120", "len-to-shape", True),
    "other types": (NOT_TENSOR, None, "FX202", "drop-type-test", False),
    "a check of the type": (CHECKED, None, "FX195", "drop-type-test", True),
    "a helper that a package passes on": (COUNT, ("use.py", "from pkg import count\nprint(count([1]))\n"), "FX120",
                                          "len-to-shape", False),
    "a child in another file, from the package": (BRANCH, ("use.py", CHILD[1].replace("net", "pkg")), "FX101",
                                                   "if-to-where", False),
    "children of any module": (RATE, ("cut.py", "nn.Sequential(*list(build().children())[:-1])\n"), "FX207",
                               "dropout-module", False),
    "dropouts of any module": (RATE, ("mc.py", "for m in net.modules():\n    isinstance(m, nn.Dropout)\n"), "FX207",
                               "dropout-module", False),
    "modules of another kind": (RATE, ("mc.py", "for m in net.modules():\n    isinstance(m, nn.Linear)\n"), "FX207",
                                "dropout-module", True),
    "a list that a method gets": (GIVEN, None, "FX110", "drop-list", False),
    "nothing in another construction": (OPTIONAL, None, "FX212", "detach", False),
    "a dict that is kept": (LOG.replace("self.log if self.keep else {}", "{}\n        self.log['all'] = [out]"), None,
                            "FX113", "dict-union", False),
    "a forward without an instance": (STATIC, ("use.py", "net.Net.forward(x)\n"), "FX187", "instance-forward", False),
    "a static forward": (STATIC, None, "FX187", "instance-forward", True),
    "a number of another construction": (NO_GRAD, None, "FX212", "detach", False),
    "a new dict": (LOG.replace("self.log if self.keep else {}", "{}"), None, "FX113", "dict-union", True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_others_use_is_not_changed_without_asking(name, tmp_path):
    text, other, code, recipe, expected = CASES[name]
    if other is not None:
        (tmp_path / other[0]).write_text(other[1])
    if other is not None and "pkg" in other[1]:
        (tmp_path / "pyproject.toml").write_text("")
        tmp_path = tmp_path / "pkg"
        tmp_path.mkdir()
        (tmp_path / "__init__.py").write_text("from .net import *\n")
    offered = settled(checker_for(tmp_path, text, DICT if "signature" in name or "(self, d)" in text else INPUTS), code)
    assert offered[recipe].preferred == expected, offered[recipe]
    if not expected:
        assert offered[recipe].note and not any(each.preferred for each in offered.values() if each.id == recipe)


def test_only_regular_files_of_the_project_are_read(tmp_path):
    (tmp_path / "setup.py").write_text("")
    folder = tmp_path / "package" / "models"
    folder.mkdir(parents=True)
    (folder / "net.py").write_text("self.kept\n")
    os.mkfifo(folder / "pipe.py")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "use.py").write_text("net.kept\n")
    assert mentioned(str(folder / "net.py"), r"\.kept\b") is None
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "plot.py").write_bytes(b"\xff\xfe net.kept\n")
    from fxlib.diagnosis.fixes import elsewhere

    elsewhere._texts.cache_clear()
    elsewhere._first.cache_clear()
    assert mentioned(str(folder / "net.py"), r"\.kept\b") == "plot.py"


def test_a_folder_of_everybody_is_no_project(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    (tmp_path / "use.py").write_text("net.kept_there\n")
    tmp_path.chmod(0o1777)  # as /tmp
    assert mentioned(str(folder / "net.py"), r"\.kept_there\b") is None
    tmp_path.chmod(0o755)
    other = tmp_path / "two"
    other.mkdir()
    assert mentioned(str(other / "net.py"), r"\.kept_there\b") == "use.py"
