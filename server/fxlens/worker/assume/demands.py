"""The demand in the error of a run: another size, rank or dtype."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import text_of
from . import blame


@dataclass(frozen=True)
class Demand:
    """``sizes``: pairs of an actual size and the wanted one. ``rank``: wanted number of dimensions. ``met``: the actual
    shape. ``kind``: the wanted dtype. ``larger``: the image is too small. ``flat``: a matrix was multiplied."""

    sizes: tuple[tuple[int, int], ...] = ()
    rank: tuple[int, ...] = ()
    met: tuple[int, ...] = ()
    kind: str = ""
    high: int = 0
    larger: bool = False
    flat: bool = False


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", text))


def _matmul(m: re.Match[str]) -> Demand:
    return Demand(((int(m[2]), int(m[3])), (int(m[3]), int(m[2]))), met=(int(m[1]), int(m[2])), flat=True)


def _either(m: re.Match[str]) -> Demand:
    one, other = int(m[1]), int(m[2])
    return Demand(((one, other), (other, one)))


def _broadcast(m: re.Match[str]) -> Demand:
    """Sizes at the same position from the end that differ, and neither is 1."""
    pairs = [(a, b) for a, b in zip(_shape(m[1])[::-1], _shape(m[2])[::-1], strict=False) if a != b and 1 not in (a, b)]
    return Demand(tuple(pair for a, b in pairs for pair in ((a, b), (b, a))), met=_shape(m[1]))


def _viewed(m: re.Match[str]) -> Demand:
    """A view with another number of elements: one dimension must change by their ratio."""
    wanted = 1
    for size in _shape(m[1]):
        wanted *= size
    return Demand(((int(m[2]), wanted),) if wanted else (), larger=not wanted)


_RULES: list[tuple[str, Callable[[re.Match[str]], Demand]]] = [
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x\d+\)", _matmul),
    (r"same reduction dim, but got \[(\d+), (\d+)\] X \[(\d+), \d+\]", _matmul),
    (r"size mismatch, got input \((\d+)\), mat \(\d+x(\d+)\), vec \((\d+)\)", _matmul),
    (r"expected input(\[[\d, ]+\]) to have (\d+) channels, but got (\d+) channels",
     lambda m: Demand(((int(m[3]), int(m[2])),), met=_shape(m[1]))),
    (r"Expected (\d)D \(unbatched\) or (\d)D \(batched\) input to \w+, but got input of size: (\[[\d, ]*\])",
     lambda m: Demand(rank=(int(m[2]), int(m[1])), met=_shape(m[3]))),
    (r"[Ee]xpected (\d)D or (\d)D input \(got (\d)D input\)", lambda m: Demand(rank=(int(m[2]), int(m[1])))),
    (r"[Ee]xpected (\d)D input \(got (\d)D input\)", lambda m: Demand(rank=(int(m[1]),))),
    (r"[Ee]xpected (\d)-?D (?:or (\d)-?D )?(?:\(batch mode\) )?(?:tensor|input)",
     lambda m: Demand(rank=tuple(int(each) for each in (m[2], m[1]) if each))),
    (r"[Ee]xpected (\d) dims\. Received (\d)-dim", lambda m: Demand(rank=(int(m[1]),))),
    (r"expected to be (\d)D or (\d)D|expects? (?:a )?(\d)-?D|must be (\d)-?D|should have (\d) dim|ndim ?==? ?(\d)",
     lambda m: Demand(rank=tuple(int(each) for each in m.groups() if each))),
    (r"normalized_shape=\[([\d, ]+)\], expected input with shape \[\*, [\d, ]+\], but got input "
    r"of size\s*(\[[\d, ]*\])",
     lambda m: Demand(tuple(zip(_shape(m[2])[-len(_shape(m[1])):], _shape(m[1]), strict=False)), met=_shape(m[2]))),
    (r"running_mean should contain (\d+) elements not (\d+)", lambda m: Demand(((int(m[1]), int(m[2])),))),
    (r"[Ee]xpected (?:weight|bias) to be a vector of size equal to the number of channels in "
    r"input, but got (?:weight|bias) of shape \[(\d+)\] and input of shape (\[[\d, ]*\])",
     lambda m: Demand(((_shape(m[2])[1], int(m[1])),) if len(_shape(m[2])) > 1 else (), met=_shape(m[2]))),
    (r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", _either),
    (r"broadcast a dimension of length \d+ at -?\d+! Mismatching argument at index \d+ had "
    r"torch\.Size\((\[[\d, ]*\])\); but "
     r"expected shape should be broadcastable to (\[[\d, ]*\])", _broadcast),
    (r"Expected (?:size )?(\d+)(?: in dimension \d+)? but got (?:size )?(\d+)", _either),
    (r"input\.size\(-1\) must be equal to "
    r"input_size\. Expected (\d+), got (\d+)", lambda m: Demand(((int(m[2]), int(m[1])),))),
    (r"has inconsistent \w+: got (\d+),? expected (\d+)|inconsistent input_size: got (\d+),? expected (\d+)",
     lambda m: Demand(((int(m[1] or m[3]), int(m[2] or m[4])),))),
    (r"expecting embedding dimension of (\d+), but got (\d+)", lambda m: Demand(((int(m[2]), int(m[1])),))),
    (r"[Ee]xpected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
     lambda m: Demand(((int(m[3]), int(m[1])), (int(m[4]), int(m[2])), (int(m[1]), int(m[3])), (int(m[2]),
     int(m[4]))))),
    (r"the feature number of src and tgt must be equal|batch number of src and tgt", lambda m: Demand()),
    (r"expected hidden\[\d\] size \(([\d, ]+)\), got \[([\d, ]+)\]",
     lambda m: Demand(tuple((b, a) for a, b in zip(_shape(m[1]), _shape(m[2]), strict=False) if a != b),
     met=_shape(m[2]))),
    (r"shape of the 2D attn_mask is torch\.Size\(\[([\d, ]+)\]\), but should be \(([\d, ]+)\)",
     lambda m: Demand(tuple((a, b) for a, b in zip(_shape(m[1]), _shape(m[2]), strict=False) if a != b),
     met=_shape(m[1]))),
    (r"not enough values to unpack \(expected (\d+), got (\d+)\)", lambda m: Demand(rank=(int(m[1]),))),
    (r"too many values to unpack \(expected (\d+)", lambda m: Demand(rank=(int(m[1]),))),
    (r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)", lambda m: Demand(rank=(int(m[2]),))),
    (r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
     lambda m: Demand(rank=tuple(dict.fromkeys((max(int(m[3]) + 1, -int(m[3])), 4, 3, 5))))),
    (r"too many indices for tensor of dimension (\d)", lambda m: Demand(rank=(int(m[1]) + 1, int(m[1]) + 2))),
    (r"number of sizes provided.*\((\d+)\) must be greater or equal to the number of dimensions "
    r"in the tensor \((\d+)\)",
     lambda m: Demand(rank=(int(m[1]),))),
    (r"Kernel size can't be greater than actual input size|Output size is too small|[Cc]alculated output size|"
     r"non-?positive|Expected more than 1 (?:spatial|value)|non-zero (?:size|dim)|[Pp]adding size should be less than|"
     r"greater than 0, but got|Trying to create tensor with negative dimension|cannot be (?:zero|"
    r"empty)|stepsize|too small|"
     r"smaller than kernel|must be > 0|negative", lambda m: Demand(larger=True)),
    (r"floating point or complex|Expected a floating point|must have the same dtype, but got|only supports floating|"
     r"only Tensors of floating|dtype of input must be (?:either )?a? ?float", lambda m: Demand(kind="float")),
    (r"shape '\[([\d, ]+)\]' is invalid for input of size (\d+)", _viewed),
    (r"subscript \w has size (\d+) for operand \d+ which does not broadcast with previously seen size (\d+)", _either),
    (r"number of subscripts in the equation \((\d)\) does not match the number of dimensions \(\d\)",
     lambda m: Demand(rank=(int(m[1]),))),
    (r"[Ee]xpected (\d)-D tensors, but got (\d)-D", lambda m: Demand(rank=(int(m[1]), int(m[2])))),
    (r"output with shape (?:torch\.Size\()?(\[[\d, ]*\])\)? doesn't match the broadcast shape "
    r"[\[(]([\d, ]*)[\])]", _broadcast),
    (r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]",
     lambda m: Demand(tuple((b, a) for a, b in zip(_shape(m[1]), _shape(m[2]), strict=False) if a != b),
     met=_shape(m[2]))),
    (r"Shape mismatch, (\d+) != (\d+)", lambda m: Demand(((int(m[1]), int(m[2])),))),
    (r"can't divide axis of length (\d+) in chunks of (\d+)",
     lambda m: Demand(((int(m[1]), max(1, int(m[1]) // int(m[2])) * int(m[2])), (int(m[1]), 8 * int(m[2]))))),
    (r"Wrong shape: expected (\d) dims", lambda m: Demand(rank=(int(m[1]),))),
    (r"Number of dimensions of repeat dims can not be smaller than", lambda m: Demand(rank=(3, 2, 4))),
    (r"scalar types: Long, Int|[Ee]xpected (?:tensor for argument )?.*(?:Long|int64|long)\b|must "
    r"be (?:long|int64)|tensors used as indices|"
     r"only tensors with integer|one_hot is only applicable|Expected dtype int64|scalar type Long but found|"
     r"argument #1 'indices'|got torch\.\w*FloatTensor instead|indices must be", lambda m: Demand(kind="long")),
    (r"boolean masks?|only supports boolean|must be bool|bool(?:ean)? tensor|bitwise_not|for type torch\.FloatTensor|"
     r"for 'Float'|\"bitwise|not supported for floating|expected BoolTensor|scalar type Bool",
     lambda m: Demand(kind="bool")),
    (r"must have the same dtype|not implemented for 'Long'|not implemented for 'Bool'|floating "
    r"point|expected m1 and m2|"
     r"only Tensors of floating|Expected floating|can't be cast to the desired output type|result type Float|"
     r"Subtraction, the `-` operator, with a bool|subtract|input types can't be cast|scalar type "
    r"Float but found|Input type",
     lambda m: Demand(kind="float")),
    (r"index out of range in self|out of bounds", lambda m: Demand(high=2)),
    (r"\((\d+)\s*\*\s*(\d+)\) doesn'?t match model \((\d+)\s*\*\s*(\d+)\)",
     lambda m: Demand(((int(m[1]), int(m[3])), (int(m[2]), int(m[4]))))),
    (r"height \((\d+)\) doesn'?t match model \((\d+)\)|width \((\d+)\) doesn'?t match model \((\d+)\)",
     lambda m: Demand(((int(m[1] or m[3]), int(m[2] or m[4])),))),
    (r"(\d+)\W{0,3}\s*but (?:it )?(?:got|found|was|is)\D{0,40}?(\d+)", lambda m: Demand(((int(m[2]), int(m[1])),))),
    (r"[Gg]ot\D{0,40}?(\d+)\D{0,30}?expected\D{0,40}?(\d+)", lambda m: Demand(((int(m[1]), int(m[2])),))),
    (r"(\d+)\D{1,30}(?:must (?:match|be equal to|equal)|!=|vs\.?|does not (?:match|equal)|"
    r"doesn't match)\D{1,40}?(\d+)", _either),
]  # fmt: skip
_COMPILED = [(re.compile(pattern, re.S), make) for pattern, make in _RULES]


def read(error: BaseException) -> Demand:
    """The demand of an error; an empty one if its message has none."""
    try:
        text = text_of(error)
    except Exception:
        return Demand()
    for pattern, make in _COMPILED:
        match = pattern.search(text)
        if match:
            return make(match)
    return Demand()


def of_call(message: str, step: blame.Step) -> Demand | None:
    """The demand of a convolution whose error on meta has no numbers: taken from the call's arguments."""
    import ast

    if ("Invalid channel dimensions" not in message and "channel" not in message) or not isinstance(
        step.node, ast.Call
    ):
        return None
    shapes = []
    for node in (*step.node.args, *(each.value for each in step.node.keywords)):
        inner = []
        for part in ast.walk(node):
            chain = blame.chain_of(part)
            value: Any = blame.value_of(step, chain) if chain is not None else None
            if hasattr(value, "shape") and hasattr(value, "stride"):
                inner.append(tuple(value.shape))
        if inner:
            shapes.append(max(inner, key=len))
    weights = [shape for shape in shapes[1:] if len(shape) > 2]
    if not shapes or not weights:
        return None
    given, weight = shapes[0], weights[0]
    if len(given) != len(weight):
        return Demand(rank=(len(weight),), met=given)
    return Demand(((given[1], weight[1]),), met=given) if given[1] != weight[1] else None


def wanted_by_layer(traceback: Any) -> tuple[Any, Any] | None:
    """The innermost layer of torch that was running, and its input tensor."""
    import torch

    found = None
    while traceback is not None:
        scope = traceback.tb_frame.f_locals
        owner = scope.get("self")
        if isinstance(owner, torch.nn.Module) and type(owner).__module__.startswith("torch.nn"):
            given = next(
                (v for k, v in scope.items() if k in ("input", "x", "query", "src") and isinstance(v, torch.Tensor)),
                None,
            )
            if given is not None:
                found = (owner, given)
        traceback = traceback.tb_next
    return found
