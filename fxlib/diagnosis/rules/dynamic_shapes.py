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
        """`int()`, `range`, a loop over a dimension and string formatting need a Python number. The program is then
exported for the size of the example, whatever `dynamic_shapes` says. torch reports this only when the dimension is
declared dynamic, as a violated constraint, and does not name the line. Of `int(x.shape[1] / 2)` the result becomes the
constant: the export succeeds, and its program refuses all sizes that give another result (*Guard failed*). Use the size
as it is (`x.shape[0]`), or replace the loop with a tensor operation. `torch.onnx.export` exports in the same way.""",
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
        "The example has a batch of 1, which torch.export treats as a constant",
        "The example has a batch of 1, which torch.export treats as a constant",
        "info",
        """torch.export treats sizes 0 and 1 of the example as constants, since broadcasting depends on them. With
`Dim("batch")` for such a dimension the export raises (*your code specialized it to be a constant (1)*). With `Dim.AUTO`
the program refuses every other size (*Guard failed: input.size()[0] == 1*). Without `dynamic_shapes` the program is
valid only for the size of the example in any case. `torch.onnx.export` exports in the same way.

The finding marks the 1 in the comment or call that gives the example, if that is in the same file, and otherwise the
parameter of forward. Its fix writes a 2 there, or into the configuration that has the example, or into a new comment
above the class. It is offered only after torch.export has accepted the dimension as dynamic with the new example. The
finding is reported only if the model itself accepts other sizes, and only for an example that you gave. Where FX Lens
assumed the example, it uses a larger batch to find the sizes that can vary.""",
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
        "A tensor of fixed size keeps a dimension from varying",
        "{it} has a fixed size along a dimension, so the model accepts no other",
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
