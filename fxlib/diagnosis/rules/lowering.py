"""FX4xx: nodes of a traced graph that no engine can run. They stay in PyTorch when the model is lowered.

`fxlib.lowering.check` finds them. Each explanation has one example that defines `Net` and gives the code at the line
marked `# <- here`, on a tensor of shape (4, 8).
"""

from fxlib.diagnosis.rules.rule import Rule, add

_EXAMPLE = """

```python
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
{body}
```

`fxlib.lower` runs this model in parts: the engine before and after the marked line, PyTorch at it."""


def _example(*lines: str) -> str:
    return _EXAMPLE.format(body="\n".join(f"        {line}" for line in lines))


_ROWS = (
    ("FX401", "no-converter", "No converter for this operator",
     "The operator, or this form of its arguments, has no converter to ONNX, so the node stays in PyTorch and splits "
     "the model into parts. [operators.md](../operators.md) lists the operators that have one. A function "
     "that the project wraps has none, because the graph holds only its name."
     + _example("x = torch.relu(self.linear(x)) + 1", "x = torch.logcumsumexp(x, 1)  # <- here",
                "return torch.relu(x).sum(1) * 2")),
    ("FX402", "data-dependent-shape", "The shape depends on tensor values, or is not known",
     "An engine allocates its memory before it runs, so the size of every result must follow from the sizes of the "
     "inputs. Here it depends on their values, or is known only after the node has run."
     + _example("x = torch.relu(self.linear(x)) + 1", "x = x[x > 0]  # <- here", "return x.sum() + 1")),
    ("FX403", "visible-write", "Writes in place to a tensor that is used elsewhere",
     "The node writes to a tensor that is used elsewhere: an input of the model, a parameter or buffer, or a tensor "
     "that is read later through a view. An engine returns new tensors, so the write would be lost. Use the "
     "out-of-place form of the operator. Writes that nothing else can see are converted."
     + _example("x = x.add_(1)  # <- here", "return torch.relu(self.linear(x)) * 2")),
    ("FX404", "small-part", "The part is too small for an engine",
     "The node has a converter, but its neighbours stay in PyTorch, and its part has so few operators that calling "
     "an engine would cost more than it saves (`min_nodes` of `fxlib.lower`, 3 by default)."
     + _example("x = torch.logcumsumexp(x, 1)", "x = x + 1  # <- here", "return torch.logcumsumexp(x, 1)")),
    ("FX405", "training-mode", "Behaves as in training mode",
     "Dropout, and batch normalization with the batch's own statistics, belong to training; engines run "
     "inference. A model is checked and lowered in evaluation mode, so this operation ignores the mode: for example "
     "`F.dropout(x)` without `training=self.training`, or batch norm without running statistics."
     + _example("x = torch.relu(self.linear(x)) + 1", "x = nn.functional.dropout(x, 0.5)  # <- here",
                "return torch.relu(x).sum(1) * 2")),
    ("FX406", "engine-random", "Draws random numbers",
     "An engine has its own random number generator, so results would differ from PyTorch's even with the same seed. "
     "Draw the numbers outside the model and pass them in."
     + _example("x = torch.relu(self.linear(x)) + 1", "x = x + torch.rand_like(x)  # <- here",
                "return torch.relu(x).sum(1) * 2")),
    ("FX499", "not-convertible", "Cannot be converted",
     "The node stays in PyTorch for another reason, such as an element type that ONNX does not have. The message "
     "gives the reason."
     + _example("x = torch.relu(self.linear(x)) + 1", "x = x.to(torch.complex64)  # <- here",
                "return torch.relu(x.real).sum(1) * 2")),
)  # fmt: skip

add(*(Rule(code, slug, title, title, "hint", text) for code, slug, title, text in _ROWS))
