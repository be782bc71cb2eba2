"""A size that becomes a constant, planted in ten models: found at the exact expression; without it nothing is found."""

import pytest
import torch
from torch import nn

from fxlib.captures import judge, specify
from fxlib.captures.guards import around
from fxlib.ir.span import source_text
from tests.fxlib.diagnosis.snippets import load

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n\n"
MODELS = {
    "linear": ("self.fc = nn.Linear(8, 8)", ["n = SIZE", "return self.fc(x).reshape(n, -1)"], (4, 8)),
    "mlp": (
        "self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)",
        ["h = F.gelu(self.a(x))", "n = SIZE", "return self.b(h).view(n, 2, 2)"],
        (4, 8),
    ),
    "conv": (
        "self.c = nn.Conv2d(3, 4, 3)", ["n = SIZE", "return self.c(x).mean((2, 3)).reshape(n, 4)"], (4, 3, 8, 8)
    ),
    "norm": ("self.n = nn.LayerNorm(8)", ["n = SIZE", "return self.n(x).reshape(n, 2, 4).sum(1)"], (4, 8)),
    "heads": (
        "self.q = nn.Linear(8, 24)", ["n = SIZE", "return self.q(x).view(n, -1, 3, 8).transpose(1, 2)"], (4, 5, 8)
    ),
    "pool": ("self.p = nn.AdaptiveAvgPool1d(2)", ["n = SIZE", "return self.p(x).reshape(n, -1)"], (4, 3, 8)),
    "residual": (
        "self.fc = nn.Linear(8, 8)", ["h = x + self.fc(x)", "n = SIZE", "return F.relu(h).view(n, 8)"], (4, 8)
    ),
    "softmax": ("self.s = 2.0", ["n = SIZE", "return torch.softmax(x / self.s, -1).reshape(n, 8)"], (4, 8)),
    "outer": (
        "self.w = nn.Parameter(torch.ones(8))", ["n = SIZE", "return (x * self.w).unsqueeze(1).expand(n, 3, 8)"], (4, 8)
    ),
    "cumsum": ("self.k = 1", ["n = SIZE", "return x.cumsum(self.k).reshape(n, 4, 2)"], (4, 8)),
}  # fmt: skip


def net(name, size, folder):
    init, body, shape = MODELS[name]
    lines = "\n".join(f"        {line}" for line in "\n".join(body).replace("SIZE", size).splitlines())
    text = f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
    module = load(f"{text}    def forward(self, x):\n{lines}\n", folder)
    return module.Net().eval(), (torch.randn(shape),)


@pytest.mark.parametrize("name", MODELS)
def test_a_planted_pin_is_found_at_its_expression(name, tmp_path):
    model, inputs = net(name, "int(x.shape[0])", tmp_path)
    found = judge(model, inputs, captures=("export", "shapes"))
    (pin,) = [each for each in found.findings if each.code == "FX701"]
    assert source_text(pin.span) == "int(x.shape[0])"
    assert pin.data["dimensions"] == [["x", 0]]


@pytest.mark.parametrize("name", MODELS)
def test_without_it_nothing_is_found_and_the_batch_varies(name, tmp_path):
    model, inputs = net(name, "x.shape[0]", tmp_path)
    found = judge(model, inputs, captures=("export", "shapes"))
    assert [each.code for each in found.findings] == [] and found.verdicts["shapes"].outcome == "captured"
    specification = specify(model, inputs)
    assert specification.proven and '0: Dim("batch"' in specification.text


# The lines of forward for inputs of 2 x 16 x 4, and the expression that keeps what was computed from dimension 1.
COMPUTED = {
    "n = int(x.shape[1] / 2)\nreturn x[:, :n] * 2 + x[:, n : 2 * n]": "int(x.shape[1] / 2)",
    "for i in range(x.shape[1] // 4):\n    x = x + i\nreturn x": "range(x.shape[1] // 4)",
    "n = x.shape[1] // 2\nassert x.shape[1] % 2 == 0\nreturn x[:, :n] * 2 + x[:, n : 2 * n]": None,
    "return x * 2 if x.shape[1] > 8 else x": None,
}


@pytest.mark.parametrize("lines", COMPUTED)
def test_what_is_computed_from_a_size_and_becomes_a_constant_is_found(lines, tmp_path):
    """torch keeps the size itself as a symbol, and its program accepts only the sizes that give the same."""
    text = f"{HEAD}class Net(nn.Module):\n    def forward(self, x):\n        "
    module = load(text + lines.replace("\n", "\n        "), tmp_path)
    found = judge(module.Net(), (torch.randn(2, 16, 4),), captures=("export", "shapes"))
    expected = [] if COMPUTED[lines] is None else [COMPUTED[lines]]
    assert [source_text(each.span) for each in found.findings] == expected
    shapes = found.verdicts["shapes"]
    assert shapes.dimensions["x", 1] == ("pinned" if expected else "free") and shapes.dimensions["x", 0] == "free"


class Strided(nn.Sequential):
    def __init__(self):
        super().__init__(*(nn.Conv2d(width, 4, 3, stride=2, padding=1) for width in (3, 4, 4)))

    def forward(self, x):
        return super().forward(x).mean((2, 3))


def test_a_least_size_is_found_from_the_guards_of_torch():
    """Each export takes a second or more, so not every size below it is exported."""
    specification = specify(Strided().eval(), (torch.randn(2, 3, 24, 24),))
    text = '{"x": {0: Dim("batch"), 2: Dim("height", min=9), 3: Dim("width", min=9)}}'
    assert specification.proven and specification.text == text


@pytest.mark.parametrize(
    "layers",
    [
        (
            nn.Conv2d(3, 4, 7, stride=2, padding=3),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        ),
        (nn.Conv2d(3, 4, 11, stride=4, padding=2), *(nn.MaxPool2d(3, 2) for _ in range(3))),
    ],
    ids=["a size is named", "no size is named"],
)
def test_what_makes_the_export_fail_without_advice_is_left_out(layers):
    """torch.export cannot compare the sizes after a stride and several poolings: its solver fails."""
    specification = specify(nn.Sequential(*layers).eval(), (torch.randn(2, 3, 64, 64),))
    assert specification.proven and specification.text == '{"input": {0: Dim("batch")}}'
    assert len(specification.limits) == 2


SOURCE = "L['x'].size()[2]"


@pytest.mark.parametrize(
    ("guards", "expected"),
    [
        (["(1 + (((-1) + size) // 32)) != 1"], (33, None)),
        (["size != 64"], (2, 63)),
        (["size > 4", "size // 2 < 100"], (5, 199)),
        (["size != other"], (2, None)),
        (["__import__('os').abort() != size"], (2, None)),
        (["1 // (size - 3) != 1"], (5, None)),
    ],
)
def test_a_range_is_what_the_guards_leave_about_the_example(guards, expected):
    start = f"- Not all values of height = {SOURCE} in the specified range height <= 99 satisfy the generated guard "
    text = "\n".join(f"{start}{each.replace('size', SOURCE)}." for each in guards)
    assert around(text, "height", 2, None, 48) == expected
    assert around(text, "width", 2, None, 48) == (2, None)


class Positions(nn.Module):
    """A table of 34 positions, the first two for padding, as in OPT."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 8), nn.Embedding(34, 8)

    def forward(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]) + 2)


def test_a_length_ends_where_the_table_of_positions_does():
    """torch.export accepts any length: the program raises only at run time."""
    specification = specify(Positions().eval(), (torch.randint(50, (2, 6)),))
    text = '{"ids": {0: Dim("batch"), 1: Dim("length", max=32)}}'
    assert specification.proven and specification.text == text
