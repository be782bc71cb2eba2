"""FX7xx: an exported program that holds for one size, where the model takes others. `fxlib.captures` finds them."""

from fxlib.diagnosis.rules.nets import net
from fxlib.diagnosis.rules.rule import Example, Rule, add

_ONE = (
    "import torch\nfrom torch import nn\n\n\n# fxlens: Net() <- torch.randn({batch}, 3)\nclass Net(nn.Module):\n"
    "    def forward(self, x):\n        return x.softmax(-1)\n"
)

add(
    Rule(
        "FX701",
        "pinned-size",
        "A size becomes a constant of the exported program",
        "{it} makes a size a constant of the program",
        "warning",
        """`int()`, `range`, a loop over a dimension, formatting: Python needs a number there, so the program is
exported for the number that the example has, whatever `dynamic_shapes` says. torch reports it only when the dimension
is declared dynamic, as a violated constraint, and does not name the line. Use the size as it is (`x.shape[0]`), or a
tensor operation in place of the loop. `torch.onnx.export` exports in the same way.""",
        fixes=("floor-div",),
        torch_text="",
        bad=net("n = int(x.shape[0])  # <- here\nreturn x.reshape(n, -1)"),
        good=net("n = x.shape[0]\nreturn x.reshape(n, -1)"),
        options='{"captures": ["export", "shapes"]}',
        advice="Use the size without making it a Python number.",
    ),
    Rule(
        "FX702",
        "example-of-one",
        "The example has a batch of 1, which torch.export takes for a constant",
        "The example has a batch of 1, which torch.export takes for a constant",
        "info",
        """torch.export takes the sizes 0 and 1 of the example for constants, since broadcasting depends on them. With
`Dim("batch")` for such a dimension the export raises (*your code specialized it to be a constant (1)*), with `Dim.AUTO`
the program refuses every other size (*Guard failed: input.size()[0] == 1*). Without `dynamic_shapes` nothing changes:
the program is for the size of the example, whichever that is. `torch.onnx.export` exports in the same way.

The finding is at the 1 in the comment or the call that gives the example, where that is in the file, otherwise at the
parameter of forward. Its fix writes a 2 there, in the configuration that has the example, or in a comment above the
class; it is offered once torch.export took the dimension as dynamic with it. The finding comes up only where the model
itself takes other sizes. An example that FX Lens found by itself has none: it takes a larger one when it asks which
sizes vary.""",
        example=Example(
            {"net.py": _ONE.format(batch=1)},
            {"net.py": _ONE.format(batch=2)},
            "Seen with `fxlens check --captures export`.",
        ),
        advice="Use 2 or more in the example.",
    ),
    Rule(
        "FX703",
        "table-of-one-size",
        "A table of one size keeps a dimension from varying",
        "{it} has one size along a dimension, so the model takes no other",
        "info",
        """The operand has a fixed size along this dimension, such as positional embeddings for one length, and nothing
else in the model needs that size. Slice the table to `x.shape[1]`, or interpolate it.""",
        fixes=("slice-table",),
        bad=net(
            "return torch.relu(x + self.position).sum(1)  # <- here",
            init="self.position = nn.Parameter(torch.zeros(1, 8, 3))",
        ),
        good=net(
            "return torch.relu(x + self.position[:, : x.shape[1]]).sum(1)",
            init="self.position = nn.Parameter(torch.zeros(1, 64, 3))",
        ),
        inputs="(torch.randn(2, 8, 3),)",
        options='{"captures": ["export", "shapes"]}',
        advice="Slice or interpolate it.",
    ),
)
