"""What could tell that code has moved into a function of its own, by the text that a fix gives."""

from __future__ import annotations

import os

import pytest

from fxlib.diagnosis.fixes import propose

from .marked import HEAD, Marked, applied, fixes_of, net, unmark

BLOCK = "lift-block"
IF = "if «ids.max() > self.k»:\n"
SIGNATURE = "self, x, ids, save=False"


def of(body: str, init: str = "self.k = k\n", before: str = "", after: str = "") -> str:
    return net(body, head=HEAD + before, init=init, signature=SIGNATURE) + after


def method(text: str) -> str:
    return "\n" + "\n".join(f"    {line}" for line in text.splitlines()) + "\n"


KEPT = "\nLAST = 1\n\n\ndef keep(x):\n    global LAST\n    LAST = x\n"
FRAME = "import sys\n\n\ndef ev(t):\n    return sys._getframe(1)\n"
SEED = "import random\n\nseed = 3\n"
# The recipe, the source, and what could be noticed.
CASES = {
    "plain": (BLOCK, of(f"y = x\n{IF}    y = y * self.k\nreturn y\n"), None),
    "a comprehension": (BLOCK, of(f"y = x\n{IF}    y = sum(y * i for i in [1, self.k])\nreturn y\n"), None),
    "no gradients": (BLOCK, of(f"y = x\n{IF}    with torch.no_grad():\n        y = y * 2\nreturn y\n"), None),
    "a global": (BLOCK, of(f"global LAST\ny = x\n{IF}    LAST = y\n    y = y * 2\nreturn y\n"), "declared global"),
    "a global of another function": (BLOCK, of(f"y = x\n{IF}    y = y * LAST\nreturn y\n", before=KEPT), None),
    "an outer name": (
        BLOCK,
        of(
            "found = False\n\ndef step(y):\n    nonlocal found\n    if «ids.max() > 100»:\n        found = True\n"
            "        y = y * 2\n    return y\n\ny = step(x)\nreturn y + found\n"
        ),
        "declared nonlocal",
    ),
    "a local that has a global's name": (
        "seed-wrapped",
        of("seed = self.k\n«torch.manual_seed(seed)»\nreturn torch.rand(4) + x\n", before=SEED),
        "`seed` is a name of the function",
    ),
    "a global seed": ("seed-wrapped", of("«torch.manual_seed(seed)»\nreturn torch.rand(4) + x\n", before=SEED), None),
    "an attribute of a layer": (
        BLOCK,
        of("y = x\nif «ids.max() > self.l.seen»:\n    self.l.seen += 1\n    y = y * 2\nreturn y\n"),
        "`self.l.seen` is then not assigned",
    ),
    "a property": (
        BLOCK,
        of("y = x\nif «ids.max() > self.noise»:\n    y = y + self.noise\nreturn y\n")
        + method("@property\ndef noise(self):\n    return torch.rand(4)"),
        "then read once",
    ),
    "an attribute that is read again": (BLOCK, of(f"y = x\n{IF}    y = y * self.k + self.k\nreturn y\n"), None),
    "an attribute of a class above": (
        BLOCK,
        of("y = x\nif «ids.max() > self.limit»:\n    y = y * self.limit\nreturn y\n"),
        "then read once",
    ),
    "an attribute behind a call": (
        BLOCK,
        of(f"y = x\n{IF}    advance(k)\n    y = y * self.k\nreturn y\n", before="\ndef advance(k):\n    k.rise += 1\n"),
        "then read once",
    ),
    "a method of a part that has the name of a tensor's": (
        BLOCK,
        of("y = x\nif «ids.max() > 100»:\n    self.l.add(y)\ny = y / self.l.total\nreturn y\n"),
        "`self.l.add` may be a layer",
    ),
    "a method of a name of a part": (
        BLOCK,
        of(f"y, m = x, self.l\n{IF}    m.add(y)\n    y = y / self.k\nreturn y\n"),
        "then read once",
    ),
    "a method of an input, which may be a part": (
        BLOCK,
        of("y = x\nif «ids.max() > self.l.limit»:\n    y = y * 2\nreturn y\n"),
        "then read once",
    ),
    "a function of another file": (
        BLOCK,
        of(f"y = x\n{IF}    ops.add(y)\n    y = y * self.k\nreturn y\n", before="\nimport ops\n"),
        "`ops.add` may look at what calls it",
    ),
    "a parameter that is read again": (
        BLOCK,
        of("y = x\nif «ids.max() > self.l.weight.norm()»:\n    y = y @ self.l.weight\nreturn y\n"),
        "then read once",
    ),
    "a parameter of the constructor's": (
        BLOCK,
        of(
            "y = x\nif «ids.max() > self.w.norm()»:\n    y = y @ self.w\nreturn y\n",
            init="w = nn.Parameter(torch.ones(4, 4))\nself.w = w\n",
        ),
        "then read once",
    ),
    "a number of the constructor's": (
        BLOCK,
        of(
            "y = x\nif «ids.max() > self.w»:\n    y = y.clamp(-self.w, self.w)\nreturn y\n",
            init="half = k / 2\nself.w = math.sqrt(half) if k else max(k, 2.0)\n",
        ),
        None,
    ),
    "a class in the class": (
        BLOCK,
        of("y = x\nif «ids.max() > getattr(self.Config, 'limit', 1)»:\n    y = y * 2\nreturn y\n")
        + method("class Config:\n    limit = 100"),
        "is then `Net.Config` in the classes that inherit from it, too",
    ),
    "what batch_norm writes": (
        BLOCK,
        of(
            f"m, v = self.m, self.v\n{IF}    F.batch_norm(x, m, v, None, None, True)\nreturn x / self.deviation\n",
            before="\nimport torch.nn.functional as F\n",
        ),
        "then read once",
    ),
    "what an operator writes": (
        BLOCK,
        of(f"m, y = self.m, x\n{IF}    m *= 5\nreturn y / self.deviation\n"),
        "then read once",
    ),
    "what `out` writes": (
        BLOCK,
        of(f"{IF}    torch.add(x, 3, out=x)\nreturn x / self.deviation\n"),
        "then read once",
    ),
    "a call of what is not known": (
        BLOCK,
        of(f"y = x\n{IF}    logger.info('large')\n    y = y * 2\nreturn y\n"),
        "`logger.info` may look at what calls it",
    ),
    "a function with a decorator of another file": (
        BLOCK,
        of(
            f"y = x\n{IF}    y = twice(y)\nreturn y\n",
            before="\nfrom tools import traced\n\n\n@traced\ndef twice(y):\n    return y * 2\n",
        ),
        "`twice` may look at what calls it",
    ),
    "a function with a decorator of torch": (
        BLOCK,
        of(
            f"y = x\n{IF}    y = twice(y)\nreturn y\n",
            before="\n\n@torch.no_grad()\ndef twice(y):\n    return y * 2\n",
        ),
        None,
    ),
    "an attribute that is read without gradients": (
        BLOCK,
        of("y = x\nwith torch.no_grad():\n    if «ids.max() > 3»:\n        y = y @ self.l.weight\nreturn y\n"),
        "is then read",
    ),
    "a warning of Python's": (
        BLOCK,
        of(f"y = x\n{IF}    warnings.warn('large')\n    y = y * 2\nreturn y\n", before="\nimport warnings\n"),
        "`warnings.warn` may look at what calls it",
    ),
    "a function of Python's": (
        BLOCK,
        of(f"y = x\n{IF}    y = y * time.time()\nreturn y\n", before="\nimport time\n"),
        None,
    ),
    "a function of the file that calls it": (
        BLOCK,
        of(f"y = x\n{IF}    y = twice(y)\nreturn y\n", before="\ndef twice(y):\n    return ev('y') * 2\n"),
        "`ev` may look at what calls it",
    ),
    "a function of the file": (
        BLOCK,
        of(
            f"y = x\n{IF}    y = twice(y, k)\nreturn y\n",
            before="\ndef twice(y, k):\n    if k > 9:\n        raise ValueError(k)\n    return twice(y * 2, k + 1)\n",
        ),
        None,
    ),
    "a name of a comprehension": (
        "lift-random",
        of("return [x * «random.uniform(0, size)» for size in save]\n", before="import random\n\nsize = 4\n"),
        "`size` is a name",
    ),
    "a builtin's name": (
        "wrap-conversion",
        of("float = self.k\nreturn x * «float(x.sum())»\n"),
        "`float` is a name",
    ),
    "a hook": (
        BLOCK,
        of(f"y = x * 1\n{IF}    y.register_hook(lambda g: -self.k * g)\n    y = y * 2\nreturn y\n"),
        "run later",
    ),
    "a generator": (BLOCK, of(f"y = [x]\n{IF}    y = (each * self.k for each in y)\nreturn sum(y)\n"), "run later"),
    "what may be deleted": (
        BLOCK,
        of(f"y = x * 1\nif save:\n    del x\n{IF}    y = y + x\nreturn y\n"),
        "may have no value",
    ),
    "what an exception leaves": (
        BLOCK,
        of(f"e, y = 0.5, x\ntry:\n    y = y * k\nexcept NameError as e:\n    pass\n{IF}    y = y * e\nreturn y\n"),
        "may have no value",
    ),
    "what matches": (
        BLOCK,
        of(f"rest, y = 1, x\n{IF}    match save:\n        case {{**rest}}:\n            y = 2 * y\nreturn y, rest\n"),
        "only at times",
    ),
    "names as text": (
        BLOCK,
        of(f"k, y = 1, x\n{IF}    k, y = 2, y * 2\nprint('{{k}}'.format(**locals()))\nreturn y\n"),
        "`locals()`",
    ),
    "frames": (BLOCK, of(f"y = x\n{IF}    y = y * ev('k')\nreturn y\n", before=FRAME), "calling functions"),
    "its own name": (BLOCK, of(f"y = x\n{IF}    print(f'{{self.k=}}')\n    y = y * 2\nreturn y\n"), "names its own"),
    "a name in a text": (BLOCK, of(f"y = x\n{IF}    print(f'k = {{self.k}}')\n    y = y * 2\nreturn y\n"), None),
    "a warning": (
        BLOCK,
        of(f"y = x\n{IF}    warn('large', stacklevel=2)\n    y = y * 2\nreturn y\n"),
        "`warn` may look at what calls it",
    ),
    "a manager that is given a device": (
        BLOCK,
        of("y = x\nwith skip(torch.device('cpu')):\n    if «ids.max() > 3»:\n        y = y * 2\nreturn y\n"),
        "only at times",
    ),
    "an import that may fail": (
        "wrap",
        of("return x * «scale(x)»\n", before="\ntry:\n    from ops import scale\nexcept ImportError:\n    pass\n"),
        "has no `scale`",
    ),
    "a size that is unpacked": ("floor-div", of("b, c = x.shape\nreturn x * «int(c)» ** -0.5\n"), None),
    "a builtin": ("wrap", of("return x * «len(x)»\n"), None),
    "a builtin that others call": (
        "wrap",
        of("return x * «len(x)»\n", after="\n\ndef count(parts):\n    return len(parts)\n"),
        "no other model needs `len()`",
    ),
    "an import": ("wrap", of("return x * «scale(x)»\n", before="\nfrom ops import scale\n"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_could_be_noticed_is_said(name):
    recipe, text, noticed = CASES[name]
    fixes = fixes_of(recipe, text)[0]
    assert noticed in fixes[0].hazard if noticed else fixes[0].hazard is None


def test_a_method_that_tensors_lack_is_one_of_a_part():
    text = of("y = x\nif «ids.max() > self.l.seen»:\n    self.l.bump()\n    y = y * 2\nreturn y\n")
    assert fixes_of(BLOCK, text)[0] == []


def test_a_line_that_a_path_of_self_is_broken_in_moves_alone():
    text = of("y = x\nif «(ids.max() > self\n        .k)»:\n    y = y * 2\nprint('done')\nreturn y\n")
    (edit,) = (each for each in fixes_of(BLOCK, text)[0][0].edits if "def " in each.text)
    assert "done" not in edit.text


def test_a_comment_after_the_last_line_moves_with_it():
    fixes, files = fixes_of(BLOCK, of("y = x\nif «ids.max() > self.k»:\n    y = y * 2  # twice\nreturn y  # done\n"))
    (after,) = applied(fixes[0], files).values()
    assert after.count("# twice") == after.count("# done") == 1


def test_a_submodule_of_the_package_keeps_its_name(tmp_path):
    (tmp_path / "_net_y.py").write_text("")
    from fxlib.diagnosis.fixes.source import Source

    assert Source(os.fspath(tmp_path / "__init__.py"), "x = 1\n").fresh_name("_net_y") == "_net_y_2"
    assert Source(os.fspath(tmp_path / "net.py"), "x = 1\n").fresh_name("_net_y") == "_net_y"


def test_a_file_in_which_torch_is_guarded_gets_no_import_of_it_by_itself(tmp_path):
    """Also if it is the caller's, and not that of the finding."""
    helper, (place,) = unmark(
        "import torch\n\n\ndef pick(y):\n    return y * «float(y.sum())»\n", str(tmp_path / "ops.py")
    )
    guarded = "from ops import pick\n\ntry:\n    import torch\nexcept ImportError:\n    torch = None\n\n\n"
    for head, hazard in ((guarded, "whatever guards the import"), ("import torch\nfrom ops import pick\n\n\n", None)):
        caller, (call,) = unmark(f"{head}def forward(x):\n    return «pick(x)»\n", str(tmp_path / "net.py"))
        texts = {place.file: helper, call.file: caller}
        (fix,) = propose(Marked(place, (call, place)), texts.get, ["wrap"], project=True)
        assert fix.edits[0].file == call.file
        assert hazard in fix.hazard if hazard else fix.hazard is None
