"""FX13x: a traced value is turned into a Python number."""

from fxlib.diagnosis.rules.nets import net
from fxlib.diagnosis.rules.rule import Rule, add

_WRAPPED = """\
import torch
import torch.fx
from torch import nn


@torch.fx.wrap
def {name}(value):
    return {expression}
"""

add(
    Rule(
        "FX130",
        "number-conversion",
        "int(), float() or complex() of a traced value",
        "`{call}()` cannot convert a traced value: {it}",
        "error",
        """`int(value)` must return a real int. Replace `int(n / 2)` with `n // 2`; for other conversions use a
wrapped function, which is recorded as one call.""",
        "int() argument must be a string, a bytes-like object or a real number, not 'Proxy'",
        ("floor-div", "drop-float", "wrap-conversion"),
        net("        half = int(x.shape[1] / 2)  # <- here\n        return x[:, :half]\n"),
        net("        half = x.shape[1] // 2\n        return x[:, :half]\n"),
        number=True,
        advice="Use `//` for sizes, or convert in a wrapped function",
    ),
    Rule(
        "FX131",
        "rounding",
        "round(), math.ceil() or another math function of a traced value",
        "`{call}()` needs a Python number, but gets a traced value: {it}",
        "error",
        """`round(value)` and the functions of `math` that need a number fail on a traced value. `torch.round`,
`torch.ceil` and `torch.floor` are recorded for tensors; for sizes use integer arithmetic or a wrapped function.
(`math.floor`, `math.sqrt` and the like are recorded when called directly as `math.f(value)`, since the tracer
patches the `math` module.)""",
        "type Proxy doesn't define __round__ method",
        ("floor-div", "wrap-conversion"),
        net("        return x * round(x.shape[0] * 0.5)  # <- here\n"),
        net("        return x * half(x.shape[0])\n", _WRAPPED.format(name="half", expression="round(value * 0.5)")),
        number=True,
        advice="Use the torch function for tensors, or a wrapped function for sizes",
    ),
    Rule(
        "FX132",
        "divmod",
        "divmod() of a traced value",
        "`divmod()` cannot take a traced value: {it}",
        "error",
        """`divmod` cannot be recorded, but `//` and `%` can.""",
        "unsupported operand type(s) for divmod(): 'Proxy' and 'int'",
        ("divmod-ops",),
        net("        rows, rest = divmod(x.shape[1], 2)  # <- here\n        return x * rows + rest\n"),
        net("        rows, rest = x.shape[1] // 2, x.shape[1] % 2\n        return x * rows + rest\n"),
        number=True,
        advice="Use `//` and `%`, which are recorded",
    ),
    Rule(
        "FX133",
        "range",
        "range() of a traced value",
        "`range()` needs a Python int, but gets a traced value: {it}",
        "error",
        """A loop over `range(x.shape[0])` would give a different graph for every size, so torch.fx raises. Use
the batched form of the operation, or put the loop into a wrapped function. (With `torch.fx.wrap("range")` the
iteration fails instead.)""",
        "'Proxy' object cannot be interpreted as an integer",
        ("lift-block", "lift-expression", "wrap"),
        net(
            "        total = x[0] * 0\n        for i in range(x.shape[0]):  # <- here\n"
            "            total = total + x[i]\n        return total\n"
        ),
        net("        return x.sum(0)\n"),
        number=True,
        advice="Use the batched operation, or put the loop into a wrapped function",
    ),
    Rule(
        "FX134",
        "index",
        "Traced value as an index of a list, a string or a plain tensor",
        "{it} needs a Python int as its index, but gets a traced value",
        "error",
        """An index of a plain list must be a Python int. The same holds for a slice of a buffer: torch.fx does
not trace buffers, so `self.table[:, :n]` slices a real tensor with a traced number. Read a registered tensor
with an operation (`torch.index_select`, `narrow`), or put the lookup into a wrapped function.""",
        "list indices must be integers or slices, not Proxy",
        ("wrap-index", "lift-block"),
        net("        scales = [1.0, 2.0, 3.0]\n        return x * scales[x.shape[0]]  # <- here\n"),
        net(
            "        return x * scale(x.shape[0])\n",
            _WRAPPED.format(name="scale", expression="[1.0, 2.0, 3.0][value]"),
        ),
        number=True,
        picks=True,
        advice="Put the lookup into a wrapped function",
    ),
    Rule(
        "FX135",
        "dict-key",
        "Traced value as the key of a dictionary",
        "{it} looks up a traced value, which equals none of the keys",
        "error",
        """A dictionary compares a traced value by its identity, so it equals none of the keys. Put the lookup
into a wrapped function.""",
        "KeyError: Proxy(getitem)",
        ("wrap-index", "lift-block"),
        net("        scales = {2: 0.5, 4: 0.25}\n        return x * scales[x.shape[0]]  # <- here\n"),
        net(
            "        return x * scale(x.shape[0])\n",
            _WRAPPED.format(name="scale", expression="{2: 0.5, 4: 0.25}[value]"),
        ),
        number=True,
        picks=True,
        advice="Put the lookup into a wrapped function",
    ),
    Rule(
        "FX136",
        "number-format",
        "Traced value formatted as a number",
        "{it} formats a traced value as a number, but its value is not known",
        "error",
        """`"%d" % n` and `f"{n:3d}"` need the number itself. Remove the text from forward, or format it in a
wrapped function.""",
        "unsupported format string passed to Proxy.__format__",
        ("lift-expression",),
        net('        name = f"{x.shape[0]:3d} rows"  # <- here\n        return x * len(name)\n'),
        net("        return x * 8\n"),
        number=True,
        advice="Format it in a wrapped function",
    ),
)
