"""The classes that a text defines, and its constructions of them."""

from __future__ import annotations

import ast
import time

import pytest
from fxlens.config import selection
from fxlens.sources import targets


def find(text: str) -> dict[str, targets.Target]:
    return {target.name: target for target in targets.find(ast.parse(text), text)}


def said(sources: list[targets.Source]) -> list[tuple[str, str]]:
    return [(source.text, source.source) for source in sources]


CLASS = "class Net(nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.mark.parametrize(
    "text",
    [
        f"# fxlens: Net(3) <- torch.randn(1, 3)\n{CLASS}",
        CLASS.replace("Module):", "Module):  # fxlens: Net(3) <- torch.randn(1, 3)"),
        CLASS.replace("    def", "    # fxlens: Net(3) <- torch.randn(1, 3)\n    def", 1),
        f"# fxlens: Net(3) <- torch.randn(1, 3)\n@register\n{CLASS}",
        f"{CLASS}\n\n# fxlens: Net(3) <- torch.randn(1, 3)\n",
    ],
)
def test_a_comment_on_or_near_the_class(text: str):
    target = find(text)["Net"]
    assert said(target.construct) == [("Net(3)", "comment")]
    assert said(target.inputs) == [("torch.randn(1, 3)", "comment")]


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("Net(3)", ("Net(3)", None)),
        ("Net(3) <- x, y=2", ("Net(3)", "x, y=2")),
        ("<- torch.randn(2)", ("", "torch.randn(2)")),
        ("Net(a <-b) <- x", ("Net(a <-b)", "x")),
        ("Net('<-') <- {'<-': 1}", ("Net('<-')", "{'<-': 1}")),
    ],
)
def test_the_arrow_separates_where_both_sides_are_python(body: str, parts: tuple):
    assert targets.split_comment(body) == parts


def test_what_is_in_a_string_is_no_comment():
    assert find(f'"""\n# fxlens: Net(3)\n"""\n\n\n{CLASS}')["Net"].construct == []


def test_instances_and_calls_of_the_module():
    target = find(f"import torch\n{CLASS}\nnet = Net().eval()\nx = torch.randn(2)\ny = net(x, scale=2)\n")["Net"]
    assert said(target.construct) == [("net", "instance"), ("Net()", "call")]
    assert said(target.inputs) == [("x, scale=2", "call")]


def test_names_under_the_main_guard_are_put_in_their_place():
    text = f"import torch\nWIDTH = 4\n{CLASS}\n" + (
        "if __name__ == '__main__':\n    depth = 2\n    batch = torch.randn(depth, WIDTH)\n"
        "    net = Net(WIDTH, depth).to('cpu')\n    print(net(batch))\n"
    )
    target = find(text)["Net"]
    assert said(target.construct) == [("Net(WIDTH, 2)", "call")]
    assert said(target.inputs) == [("torch.randn(2, WIDTH)", "call")]


def test_calls_in_functions_and_other_classes():
    text = f"import torch\n{CLASS}\n" + (
        "class Outer(nn.Module):\n    def __init__(self, n):\n        self.a = Net(n)\n        self.b = Net(7)\n\n"
        "def main(args):\n    net = Net(args.width)\n    other = Net(8)\n    other(torch.ones(3))\n"
    )
    target = find(text)["Net"]
    assert said(target.construct) == [("Net(8)", "call"), ("Net(7)", "call")]  # the first one is called
    assert said(target.inputs) == [("torch.ones(3)", "call")]


def test_the_files_own_functions_are_not_called_for_an_example():
    text = f"import torch\n{CLASS}\ndef download():\n    return 3\n\ndef main():\n    Net(download())\n"
    assert find(text)["Net"].construct == []


def test_ignored_lines():
    text = "a = 1  # fxlens: ignore\nb = 2  # fxlens: ignore[fx1, FX203]\nc = '# fxlens: ignore'\n"
    found = targets.ignored(text)
    assert found == {1: frozenset(), 2: frozenset({"FX1", "FX203"})}
    silent = {code for code in ("FX101", "FX120", "FX202", "FX203") if selection.silenced(code, 2, 3, found)}
    assert silent == {"FX101", "FX120", "FX203"}


def test_the_comment_of_a_line_may_stand_behind_that_of_a_linter():
    text = (
        "é = 1  # noqa: E501  # fxlens: ignore[FX101]\nclass Net(nn.Module):  # type: ignore # fxlens: skip\n    pass\n"
    )
    assert targets.ignored(text) == {1: frozenset({"FX101"})}
    first, second = targets.comments(text)
    assert text.splitlines()[0].encode()[first.column : first.end_column] == b"# fxlens: ignore[FX101]"
    assert second.body == "skip"
    text = (
        "class Net(nn.Module):  # noqa: N801  # fxlens: Net(6) <- torch.randn(2, 6)  # pylint: disable=all\n    pass\n"
    )
    (comment,) = targets.comments(text)
    assert text[comment.column :].startswith("# fxlens: Net(6)")
    assert targets.split_comment(comment.body) == ("Net(6)", "torch.randn(2, 6)")
    for body in ('Net(3) <- {"#": torch.ones(3)}["#"]', "<- torch.ones(3)", "Net(3)"):
        assert targets.split_comment(f"{body}  # noqa: E501") == targets.split_comment(body)
    told = "# Write `# fxlens: Net(3)` above it, # fxlens: Net(4)\nclass Net(nn.Module): ...\n"
    assert not targets.comments(told)


def test_names_are_marked_in_utf8():
    target = find("x = 'é'; pass\nclass  Ünet (nn.Module):\n    pass\n")["Ünet"]
    assert (target.line, target.column, target.end_column) == (2, 7, 12)


@pytest.mark.parametrize(
    ("expression", "own"),
    [
        ("self.weight.device", True),
        ("next(self.parameters()).device", True),
        ("self.device", True),
        ("self.layers[0].weight.is_cuda", True),
        ("x.device", False),
        ("torch.device('cpu')", False),
        ("x.to(self.weight.dtype)", False),
    ],
)
def test_code_that_looks_where_a_module_is(expression: str, own: bool):
    from fxlens.worker.construct import reads_own_device

    text = f"def forward(self, x):\n    return {expression}\n"
    assert reads_own_device(ast.parse(text), text) is own


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("width = 4\n    width *= 2\n    Net(width)", ["Net(4 * 2)"]),
        ("width = 4\n    for _ in range(3):\n        width += 1\n    Net(width)", []),
        ("width = 4\n    for _ in range(3):\n        Net(width)\n        width += 1", ["Net(4)"]),
    ],
)
def test_what_is_added_to_a_name_counts_and_what_a_loop_adds_up_is_not_known(lines: str, expected: list[str]):
    found = find(f"{CLASS}\n\ndef build():\n    {lines}\n")["Net"]
    assert [source.text for source in found.construct] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("cfg = Config()\n    cfg.dim = 8\n    Net(cfg)", []),
        ("cfg = {'dim': 4}\n    cfg['dim'] = 8\n    Net(cfg)", []),
        ("dims = [3]\n    dims.append(4)\n    Net(dims)", []),
        ("dims = [3]\n    dims.append(4)\n    dims += [5]\n    Net(dims)", []),
        ("dims = [3]\n    same = dims\n    same.append(4)\n    Net(dims)", []),
        ("cfg = Config()\n    prepare(cfg)\n    Net(cfg)", []),
        ("cfg = Config()\n    print(cfg)\n    Net(cfg)", ["Net(Config())"]),
        ("SIZES.append(3)\n    Net(SIZES)", []),
        ("print(SIZES.copy())\n    Net(SIZES)", ["Net(SIZES)"]),
        ("KIND.bit_length()\n    X.mean()\n    Net(KIND, X)", ["Net(KIND, X)"]),
        ("X.unsqueeze_(0)\n    Net(X)", []),
        ("x = torch.ones(3)\n    prepare(x)\n    x.requires_grad_()\n    Net(x)", ["Net(torch.ones(3))"]),
        ("x = torch.ones(3)\n    x.unsqueeze_(0)\n    Net(x)", []),
        ("dim = 4\n    if big:\n        dim = 8\n    Net(dim)", []),
        ("dim = 4\n    if big:\n        dim = 4\n    Net(dim)", ["Net(4)"]),
        ("dim = 4\n    if big:\n        dim = 8\n        return\n    Net(dim)", ["Net(4)"]),
        ("dim = 4\n    for dim in (1, 2):\n        Net(dim)", []),
        ("log = None\n    with open('x') as log:\n        Net(log)", []),
        ("dim = 4\n    del dim\n    Net(dim)", []),
        ("i = 3\n    Net([i for i in range(2)])", ["Net([i for i in range(2)])"]),
        ("x = 3\n    Net(lambda x: x, x)", ["Net(lambda x: x, 3)"]),
        ("size = [i for i in [SIZES]]\n    Net([size for SIZES in (1, 2)])", []),
        ("dim = 4\n    two = dim\n    dim = 8\n    Net(two)", ["Net(4)"]),
    ],
)
def test_what_may_have_changed_since_it_was_assigned_is_not_known(lines: str, expected: list[str]):
    head = f"import torch\nSIZES = [1]\nX = torch.ones(3)\nKIND = 4\n{CLASS}\n\nclass Config:\n    dim = 4\n"
    text = f"{head}\n\ndef build(big):\n    {lines}\n"
    assert [source.text for source in find(text)["Net"].construct] == expected


def test_inputs_of_a_module_that_either_branch_may_have_made_belong_to_both():
    ways = "    if big:\n        net = Net(8)\n    else:\n        net = Net(4)\n"
    target = find(f"import torch\n{CLASS}\n\ndef build(big):\n{ways}    net(torch.ones(1))\n")["Net"]
    assert [(each.text, each.made) for each in target.inputs] == [("torch.ones(1)", None)]


def test_values_that_grow_with_each_use_are_given_up_soon():
    rows = "".join(f"    v{i} = [{', '.join([f'v{i - 1}'] * 8)}]\n" for i in range(1, 12))
    start = time.process_time()
    assert find(f"{CLASS}\n\ndef build():\n    v0 = 1\n{rows}    Net(v11)\n")["Net"].construct == []
    assert time.process_time() - start < 2


def test_a_chain_of_branches_at_module_level_is_no_recursion():
    branches = "".join(f"elif X == {i}:\n    Y = {i}\n" for i in range(1, 1200))
    assert find(f"X = 1\nif X == 0:\n    Y = 0\n{branches}{CLASS}\nNet(3)\n")["Net"].construct[0].text == "Net(3)"
