"""Scripts that construct ``Net``, each in a folder of its own: a text is that of ``train.py``, after two imports."""

from __future__ import annotations

Files = dict[str, str]

_BRANCHES: dict[str, str | Files] = {
    "a comprehension below an unknown condition": """
if len(sys.argv) > 3:
    pass
else:
    net = Net([64 * 2 ** i for i in range(4)])
""",
    "a comprehension of a conditional expression": """
net = Net([i * 2 for i in range(3)] if len(sys.argv) < 5 else None)
""",
    "names of a branch": """
w = 3
if len(sys.argv) < 3:
    w = 8
    w = w * 2
    for k in (1, 2):
        w = w + k
    net = Net(w)
""",
    "a function called in a branch": """
names = ["a"]
def build(w):
    w = w * 2
    return Net(w)
if len(sys.argv) < 3:
    net = build(8)
""",
    "a list that either branch extends": """
dims = [64]
if len(sys.argv) < 3:
    dims.append(128)
else:
    dims.append(512)
net = Net(dims)
""",
    "what a branch changes before it returns": """
def build(dims):
    if len(sys.argv) > 3:
        dims.append(512)
        return None
    return Net(dims)
build([64])
""",
    "the case of a known subject": """
def width(name):
    match name:
        case "small" | "tiny":
            return 64
        case "big":
            return 256
        case _:
            return 1
net = Net(width("small"), width("big"), width("other"))
""",
    "the else of a loop": """
n = 0
while n < 3:
    n += 1
else:
    n = 10
net = Net(n)
""",
}
_PYTHON: dict[str, str | Files] = {
    "sets": """
labels = {"cat": 0, "kitty": 0, "dog": 1}
some = {1}
some.add(1)
net = Net(len(set(labels.values())), len({x % 3 for x in range(10)}), len(some), len({1, 1}))
""",
    "keywords of builtins": """
net = Net(max([3, 1, 2], key=lambda v: -v), max([], default=4), sum([1, 2], start=10), round(3.14159, ndigits=2),
          sorted([3, 1, 2], key=lambda v: -v))
""",
    "what changes lists and dicts": """
w, v, u, t, s = [3, 1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2]
w.sort(reverse=True)
v.remove(2)
del u[0]
t[0:2] = [9]
s.clear()
d, e = {"a": 1, "b": 2}, {"a": 1}
d.popitem()
e.clear()
net = Net(w, v, u, t, s, d, e)
""",
    "operators in place": """
base = (64, 128)
wide = base
wide += (256,)
many = same = [1]
same += [2]
same *= 2
some = other = {"a": 1}
other |= {"b": 2}
net = Net(base, wide, many, some)
""",
    "an assignment in a comprehension": """
total = 0
xs = [total := total + w for w in (1, 2, 3)]
net = Net(total, xs)
""",
    "a long map": "net = Net(sum(list(map(lambda i: i, range(300)))))\n",
    "kinds of values": """
import numbers
from collections.abc import Iterable
net = Net(isinstance(3, numbers.Integral), isinstance("a", Iterable), isinstance("a", numbers.Number),
          isinstance([], Iterable))
""",
    "identity": """
x, y = 1, True
net = Net(x is True, x == True, y is True)
""",
    "formats": """
w, n = 4, "a"
net = Net(f"{7:0{w}d}", f"{n!r}", f"{3.14159:.2f}", f"{n=}")
""",
}
_NAMES: dict[str, str | Files] = {
    "a global name": """
DIM = 64
def setup():
    global DIM
    DIM = 128
setup()
net = Net(DIM)
""",
    "a nonlocal name": """
def main():
    dim = 64
    def grow():
        nonlocal dim
        dim = 128
    grow()
    return Net(dim)
main()
""",
}
_NAMES |= {
    "stars": {
        "a.py": "DIM = 3\nOWN = 3\n",
        "b.py": "DIM = 64\n",
        "train.py": "OWN = 5\nfrom a import *\nfrom b import *\nnet = Net(DIM, OWN)\n",
    },
    "a star in another file": {
        "a.py": "DIM = 3\n",
        "b.py": "DIM = 64\n",
        "both.py": "from a import *\nfrom b import *\n",
        "train.py": "import both\nnet = Net(both.DIM)\n",
    },
    "a function that is defined twice": {
        "parts.py": "def width():\n    return 1\n\n\ndef width():\n    return 2\n",
        "train.py": """
from parts import width
def build():
    return Net(1)
def build():
    return Net(width())
net = build()
""",
    },
    "a property with a setter": """
class Config:
    @property
    def width(self):
        return 8
    @width.setter
    def width(self, value):
        pass
net = Net(Config().width)
""",
    "bases with a common one": """
class A: width = 1
class B(A): pass
class C(A): width = 2
class D(B, C): pass
net = Net(D().width, D.width)
""",
    "defaults of the time of the definition": {
        "parts.py": "W = 64\ndef width(w=W):\n    return w\nW = 128\n",
        "train.py": """
from parts import width
W = 8
def build(w=W, acc=[]):
    acc.append(width())
    return Net(w, acc)
W = 16
build()
""",
    },
    "the main part of an imported file": {
        "config.py": "DIM = 64\nif '__main__' == __name__:\n    DIM = 3\n",
        "train.py": "from config import DIM\nnet = Net(DIM)\n",
    },
}
_CLASSES: dict[str, str | Files] = {
    "what a data class computes from its fields": """
from dataclasses import KW_ONLY, InitVar, dataclass, field
@dataclass
class Config:
    dim: int = 8
    head_dim: int = field(init=False)
    mult: InitVar[int] = 2
    _: KW_ONLY
    heads: int = 4
    def __post_init__(self, mult):
        self.dim *= mult
        self.head_dim = self.dim // self.heads
net = Net(Config(16, 3, heads=2))
""",
    "what is set later": """
from dataclasses import dataclass
@dataclass
class Config:
    dim: int = 8
    vocab: int = 100
    def __post_init__(self):
        self.vocab += 1
config = Config(vocab=50)
config.dim = 16
net = Net(config)
""",
    "a shallow copy": """
import copy
a = {"x": {"y": 1}}
b = copy.copy(a)
b["x"]["y"], b["z"] = 2, 3
net = Net(a)
""",
}
_NAMESPACES: dict[str, str | Files] = {
    "attributes with a default": {
        "net.py": """from torch import nn


class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.width, self.scale = args.width, getattr(args, "scale", 2)
        self.depth = args.depth if hasattr(args, "depth") else 3
        try:
            self.heads = args.heads
        except AttributeError:
            self.heads = 4

    def forward(self, x):
        return x
""",
        "train.py": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--width", type=int, default=8)
net = Net(p.parse_args())
""",
    },
}
_SETTINGS: dict[str, str | Files] = {
    "options of a command line": """
import argparse, ast
p = argparse.ArgumentParser()
p.set_defaults(depth=7, other=8)
p.add_argument("--depth", type=int, default=2)
p.add_argument("--other", type=int)
p.add_argument("--flag", action=argparse.BooleanOptionalAction, default=True)
p.add_argument("--many", action="append", type=int)
p.add_argument("--c", action="store_const", const=5, default=1)
p.add_argument("-v", action="count", default=0)
p.add_argument("--pair", nargs=2, type=int, default=[1, 2])
p.add_argument("--dims", type=ast.literal_eval, default="[64, 128]")
p.add_argument("--s", type=lambda s: [int(x) for x in s.split(",")], default="1,2")
p.add_argument("arch")
p.add_argument("name", nargs="?", default="x")
a = p.parse_args(["--no-flag", "--many", "3", "--many=4", "small", "--c", "-v", "-v", "--pair", "3", "4"])
net = Net(a.depth, a.other, a.flag, a.many, a.c, a.v, a.pair, a.dims, a.s, a.arch, a.name)
""",
    "a subcommand": """
import argparse
p = argparse.ArgumentParser()
commands = p.add_subparsers(dest="command")
commands.add_parser("test").add_argument("--width", type=int, default=1)
commands.add_parser("train").add_argument("--width", type=int, default=2)
a = p.parse_args(["train", "--width", "3"])
net = Net(a.command, a.width)
""",
    "texts of configurations": {
        "configs/config.json": '{"dim": 999}',
        "train.py": """
import ast, json
net = Net(json.loads('{"dim": 3}')["dim"], ast.literal_eval("[1]"))
""",
    },
    "a file beside the script": {
        "configs/config.json": '{"dim": 999}',
        "config.json": '{"dim": 3}',
        "train.py": "import json\nnet = Net(json.load(open('config.json'))['dim'])\n",
    },
}
TEXTS: dict[str, Files] = {
    "references": {
        "conf.yaml": "model:\n  dim: 8\n  hid: ${model.dim}\n  z: ${.dim}\n  l: [1, 2]\n  e: ${model.l[0]}\n"
        "  r: '${eval:2*3}'\n",
        "train.py": "from omegaconf import OmegaConf\nm = OmegaConf.load('conf.yaml').model\n"
        "net = Net(m.hid, m.z, m.e, m.r)\n",
    },
    "texts in place of files": {
        "configs/config.yaml": "dim: 999\n",
        "train.py": "import yaml\nfrom omegaconf import OmegaConf\n"
        "net = Net(yaml.safe_load('dim: 3')['dim'], OmegaConf.create('dim: 4').dim)\n",
    },
}
"""Scripts that need packages; ``SAID`` has the texts of the constructions."""
SAID = {"references": "Net(8, 8, 1, __hole__('r'))", "texts in place of files": "Net(3, 4)"}
KNOWN: dict[str, str | Files] = {**_BRANCHES, **_PYTHON, **_NAMES, **_CLASSES, **_NAMESPACES, **_SETTINGS}
UNKNOWN: dict[str, str | Files] = {
    "a list of a loop": """
dims = []
for _ in range(len(sys.argv)):
    dims.append(64)
net = Net(dims)
""",
    "a number of some iterations of a loop": """
n = 0
for layer in sys.argv[1:]:
    if layer.startswith("norm"):
        n += 2
net = Net(n)
""",
    "a number of a loop": """
dim = 8
for _ in range(len(sys.argv)):
    dim = dim * 2
net = Net(dim)
""",
    "a flag beside an optional import": """
try:
    import flash_attn_nope
    HAS = True
except ImportError:
    HAS = False
net = Net(flash=HAS)
""",
    "a conversion that is not known": """
import argparse
import somewhere
p = argparse.ArgumentParser()
p.add_argument("--dims", type=somewhere.parse, default="[64, 128]")
net = Net(p.parse_args().dims)
""",
    "a method that is not read": """
dims = [1, 2]
dims.__setitem__(0, 5)
net = Net(dims)
""",
}
