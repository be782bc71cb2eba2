"""What the text of a function says of its values, and what fixes assume beyond it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.source import Source
from fxlib.diagnosis.fixes.tensors import is_tensor, is_tuple

from .marked import HEAD, fixes_of, net

ROOT = Path(__file__).resolve().parents[3]
LOOP = "for part in «torch.relu(x).{}»:\n    x = x + part\nreturn x\n"
LEN = "n = «len(h)»\nreturn x * n\n"
GRAD = "with «torch.no_grad()»:\n    h = {}\nreturn x + h\n"
PLAIN = "self, x, flag=False"
SIZE, SLICED, WHERE = "len-to-shape", "setitem-functional", "if-to-where"


def of(body: str, init: str = "self.l = nn.Linear(4, 4)\n", signature: str = PLAIN, before: str = "") -> str:
    return net(body, head=HEAD + before, init=init, signature=signature)


SIDE = "x = self.r(x) if «x.sum() > 0» else x\nreturn x\n"
LIFT, INTS, NUMPY = "lift-block", "floor-div", "import numpy as np\n"
GUARDED = "if «self.use and x.sum() > 0»:\n    x = x * self.g\nreturn x\n"
MAYBE = "self.l = nn.Linear(4, 4) if k else nn.Identity()\n"
TWO = "\n\nclass Two(nn.Module):\n    def forward(self, x):\n        return x, x\n"
# What the text says: the recipe, the source, and whether it is enough.
CASES = {
    "a layer": (SIZE, of("h = self.l(x)\n" + LEN), False),
    "a name of a lambda": (
        SIZE,
        of("x = torch.relu(x)\nn = map(lambda x: «len(x)», flag)\nreturn x * sum(n)\n"),
        False,
    ),
    "a name of a comprehension": (SIZE, of("x = torch.relu(x)\nreturn x * sum([«len(x)» for x in flag])\n"), False),
    "an item of a tensor": (SIZE, of("h = torch.relu(x)\nreturn x * sum([«len(v)» for v in h])\n"), True),
    "an annotation": (SIZE, of("return x * «len(x)»\n", signature="self, x: torch.Tensor"), True),
    "an operator": (SIZE, of("return x / «len(x)»\n"), True),
    "an operator of lists": (SIZE, of("return x * «len(x)»\n"), False),
    "an operator of sets": (SIZE, of("h = flag - x\nreturn h, «len(x)»\n"), False),
    "a text": (SIZE, of("h = '%s' % torch.relu(x)\n" + LEN), False),
    "a function of torch": (SIZE, of("h = torch.relu(x)\n" + LEN), True),
    "a function of the file": (
        SIZE,
        of("h = mean(x)\n" + LEN, before="\n\ndef mean(y):\n    return torch.mean(y, 0)\n"),
        False,
    ),
    "a layer of another file": (SIZE, of("h = self.l(x)\n" + LEN, "self.l = Other()\n"), False),
    "indices beside": (SIZE, of("h = self.l(x)\n" + LEN, "self.l = nn.MaxPool2d(2, return_indices=k)\n"), False),
    "a tuple by a flag": (SIZE, of("h = torch.relu(x).nonzero(as_tuple=flag)\n" + LEN), False),
    "a message": (SIZE, of('h = x\nassert h is not None, f"{h.shape}"\n' + LEN), False),
    "a test": (SIZE, of("h = x\nassert h.mean() > 0\n" + LEN), True),
    "an attribute that settings have": (SIZE, of("h = x\nk = h.dim, h.size\n" + LEN), False),
    "a branch": (SIZE, of("h = x\nif flag:\n    h = h.mean(1)\n" + LEN), False),
    "behind a return": (SIZE, of("h = x\nn = «len(h)»\nif flag:\n    return n\nreturn h.mean(1)\n"), False),
    "what may be raised in vain": (SIZE, of("h = x\nwith suppress(Exception):\n    h.mean(1)\n" + LEN), False),
    "something in a tuple": (SIZE, of("h = (torch.relu(x), flag)[1]\n" + LEN), False),
    "an item of a loop": (SIZE, of("for h in torch.relu(x).chunk(2):\n    n = «len(h)»\nreturn x + n\n"), True),
    "an index of columns": (SIZE, of("h = x\ny = h[:, 0]\n" + LEN), False),
    "a method of lists": (SIZE, of("h = x\nh.index(2)\n" + LEN), False),
    "the object itself": ("detach", of(GRAD.format("self.mean(x)")), False),
    "chunks": ("fixed-count", of(LOOP.format("chunk(3)")), False),
    "equal parts": (
        "fixed-count",
        of(LOOP.format("tensor_split(3)")),
        False,
    ),
    "a view": (SLICED, of("h = torch.relu(x)\ny = h.view(-1)\nh«[h > 1]» = 0\nreturn h + y\n"), False),
    "the input": (SLICED, of("h = x.clone() if flag else x\n«h[:, 0]» = 0\nreturn h\n"), False),
    "a copy": (SLICED, of("h = x.clone()\n«h[:, 0]» = 0\nreturn h\n"), False),
    "a gradient that ends": ("detach", of(GRAD.format("self.l(x)")), False),
    "settings of one side": (
        "if-to-where",
        of("if «x.sum() > 0»:\n    x = x.sum(self.dims)\nelse:\n    x = x.mean(1)\nreturn x\n"),
        False,
    ),
    "the shape of the object": ("view-concat", of("return x.view(«*x.shape[:1]», *self.shape)\n"), False),
    "its own shape": ("view-concat", of("return x.view(«*x.shape[:1]», -1)\n"), True),
    "a list of sizes": ("view-concat", of("return x.view(«*flag», -1)\n"), False),
    "a view of a layer": ("view-concat", of("return self.l(x).view(«*x.size()[:1]», -1)\n"), False),
    "a side that draws": (
        WHERE,
        of(SIDE, "self.r = nn.Dropout()\n"),
        False,
    ),
    "an attribute of some": (
        LIFT,
        of(GUARDED, "self.use = k\nif k:\n    self.g = nn.Parameter(torch.ones(4))\n"),
        False,
    ),
    "an attribute of all": (LIFT, of(GUARDED, "self.use = k\nself.g = nn.Parameter(torch.ones(4))\n"), False),
    "of an attribute of all": (
        LIFT,
        of(GUARDED.replace("self.g", "self.inner.k"), "self.use = k\nself.inner = inner\n"),
        False,
    ),
    "an attribute of every way": (
        LIFT,
        of(GUARDED.replace("self.use and x.sum() > 0", "x.sum() > self.g"), "self.g = g\n"),
        True,
    ),
    "half of a size": (INTS, of("h, w = x.shape[-2:]\nreturn x[: «int((h + 1) * w / 2)»]\n"), True),
    "half of a size that another value replaces": (
        INTS,
        of("h = x.size(0)\nif flag:\n    h = flag\nreturn x[: «int(h / 2)»]\n"),
        False,
    ),
    "a part of a size": (INTS, of("return x[: «int(x.shape[0] / self.k)»]\n"), False),
    "a quarter, half by half": (INTS, of("return x[: «int(x.shape[0] / 2 / 2)»]\n"), False),
    "a size that may be negative": (INTS, of("return x[: «int((x.shape[0] - 9) / 2)»]\n"), False),
    "a negative number": (INTS, of("return x[: «int(x.shape[0] / -2)»]\n"), False),
    "a size of the module": (INTS, of("return x[: «int(self.shape[0] / 2)»]\n"), False),
    "a size of a layer": (INTS, of("return x[: «int(self.l.weight.shape[0] / 2)»]\n"), False),
    "a size of a module's name": (INTS, of("return x[: «int(config.shape[0] / 2)»]\n"), False),
    "an int that is one": (INTS, of("return x[: «int(x.size(0))»]\n"), True),
    "a float that is one": ("drop-float", of("return x * «float(1.0 / x.shape[0])»\n"), True),
    "a float of anything": ("drop-float", of("return x * «float(1.0 / self.k)»\n"), False),
    "rows and columns": ("divmod-ops", of("a, b = «divmod(x.shape[0], 2)»\nreturn x * a + b\n"), True),
    "rows of anything": ("divmod-ops", of("a, b = «divmod(x.shape[0], self.k)»\nreturn x * a + b\n"), False),
    "a tuple of sizes": ("star-concat", of("s = («*x.shape[:-1]», 2, 2)\nreturn x.view(s)\n"), True),
    "a tuple of sizes that is returned": (
        "star-concat",
        of("s = («*x.shape[:-1]», 2, 2)\nreturn x.view(s), s\n"),
        False,
    ),
    "a keyword between": ("view-concat", of("return x.new_zeros(2, dtype=None, «*x.shape[1:]»)\n"), None),
    "a size of a class of the file": (
        INTS,
        of(
            "return x[: «int(flag.size(0) / 2)»]\n",
            before="\n\nclass Box:\n    def size(self, i):\n        return 1.5\n",
        ),
        False,
    ),
    "a rank": (SIZE, of("return x * «len(x.shape)»\n"), False),
    "a rank of a tensor": (SIZE, of("y = x.flatten()\nreturn y * «len(x.shape)»\n"), True),
    "sizes that are returned": ("size-tuple", of("s = «torch.Size([x.shape[0], 4])»\nreturn x.view(s), s\n"), False),
    "sizes that are taken": (
        "size-tuple",
        of("s = «torch.Size([x.shape[0], 4])»\nreturn torch.relu(x).view(s)\n"),
        True,
    ),
    "a list of joined tensors": ("drop-list", of("return torch.cat(«list(x.chunk(2))»)\n"), True),
    "a list of a layer": ("drop-list", of("return torch.cat(«list(self.l(x))»)\n"), False),
    "a slice of a list": (
        "drop-list",
        of("s = «list(x.shape)»\nif self.up:\n    return x.view(s[:-1] + [2, -1])\nreturn x\n"),
        False,
    ),
    "a root of a difference": ("np-to-torch", of("return x * «np.sqrt(x.shape[0] - self.k)»\n", before=NUMPY), False),
    "a root of a size": ("np-to-torch", of("return x * «np.sqrt(x.shape[0])»\n", before=NUMPY), False),
    "a side of layers": (WHERE, of(SIDE.replace("self.r", "self.l")), False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_text_does_not_say_is_assumed(name):
    recipe, text, said = CASES[name]
    fixes = fixes_of(recipe, text)[0]
    if said is None:
        assert fixes == []
    else:
        assert (fixes[0].hazard is None) == said, fixes[0].hazard


def test_any_name_of_a_file_can_be_asked_about():
    """Also one of a signature, a lambda, a comprehension, or a statement that gives a name its own value anew."""
    files = [*ROOT.glob("examples/**/*.py"), *ROOT.glob("fxlib/diagnosis/fixes/*.py")]
    asked = 0
    for file in files:
        source = Source(str(file), file.read_text(encoding="utf-8"))
        for node in source.nodes[::3]:
            if isinstance(node, ast.Name | ast.Call):
                site = Site(None, source, node, lambda path: None)
                for ask in (is_tensor, is_tuple):
                    ask(site, node)
                asked += 1
    assert asked > 3000
