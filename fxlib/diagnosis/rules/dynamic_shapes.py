"""FX7xx: an exported program that holds for one size, where the model takes others. `fxlib.captures` finds them."""

from fxlib.diagnosis.rules.nets import net
from fxlib.diagnosis.rules.rule import Rule, add

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
        "The example has a size of 1, which torch.export takes for a constant",
        "The example has a size of 1, which torch.export takes for a constant",
        "hint",
        """torch treats the sizes 0 and 1 as constants: broadcasting depends on them. A dimension that is to vary needs
an example of 2 or more.""",
        advice="Give an example of 2 or more.",
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
