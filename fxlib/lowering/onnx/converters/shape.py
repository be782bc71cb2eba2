"""Views, permutations, joining, splitting, padding and resizing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
import torch.nn as nn

from fxlib.lowering.onnx.arguments import listed, per_dimension, spread
from fxlib.lowering.onnx.context import INT64_MAX, product
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import ATEN, METHODS, aten, module, of_module, op


@op("reshape", "view", "_unsafe_view", "_reshape_alias")
def reshape(ctx, input, *shape, **kwargs):
    sizes = list(kwargs.get("shape") or kwargs.get("size") or spread(shape))
    if len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        raise Unsupported("x.view(dtype), which reinterprets the bits of a tensor, is not supported")
    return ctx.reshape(input, sizes)


@op("view_as", "reshape_as")
def view_as(ctx, input, other):
    return ctx.reshape(input, list(ctx.sizes(other)))


@op("flatten")
def flatten(ctx, input, start_dim=0, end_dim=-1):
    sizes = list(ctx.sizes(input))
    rank = len(sizes)
    start, end = start_dim % max(rank, 1), end_dim % max(rank, 1)
    if rank == 0:
        return ctx.reshape(input, [1])
    return ctx.reshape(input, sizes[:start] + [product(sizes[start : end + 1])] + sizes[end + 1 :])


@op("unflatten")
def unflatten(ctx, input, dim, sizes):
    whole = list(ctx.sizes(input))
    dim %= len(whole)
    return ctx.reshape(input, whole[:dim] + list(ctx.fake.shape[dim : dim + len(sizes)]) + whole[dim + 1 :])


@op("permute")
def permute(ctx, input, *dims, **kwargs):
    rank = ctx.rank(input)
    return ctx.op("Transpose", input, perm=[d % rank for d in kwargs.get("dims") or spread(dims)])


@op("transpose", "swapaxes", "swapdims")
def transpose(ctx, input, dim0, dim1):
    rank = ctx.rank(input)
    if not rank:
        return input
    order = list(range(rank))
    dim0, dim1 = dim0 % rank, dim1 % rank
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return ctx.op("Transpose", input, perm=order)


@op("t", "numpy_T", "adjoint")
def t(ctx, input):
    rank = ctx.rank(input)
    return input if rank < 2 else transpose(ctx, input, rank - 2, rank - 1)


@op("movedim", "moveaxis")
def movedim(ctx, input, source, destination):
    rank = ctx.rank(input)
    places = {d % rank: s % rank for d, s in zip(listed(destination), listed(source), strict=True)}
    rest = iter(d for d in range(rank) if d not in places.values())
    return ctx.op("Transpose", input, perm=[places[d] if d in places else next(rest) for d in range(rank)])


@op("unsqueeze")
def unsqueeze(ctx, input, dim):
    return ctx.op("Unsqueeze", input, ctx.constant([dim % (ctx.rank(input) + 1)]))


@op("squeeze")
def squeeze(ctx, input, dim=None):
    sizes = ctx.sizes(input)
    dims = range(len(sizes)) if dim is None else ctx.axes(dim, len(sizes))
    for each in dims:
        ctx.static(sizes[each], "a size that squeeze drops if it is 1")
    ones = [d for d in dims if sizes[d] == 1]
    return ctx.op("Squeeze", input, ctx.constant(ones)) if ones else input


@op("expand", "broadcast_to", "expand_copy", "expand_as")
def expand(ctx, input, *sizes, implicit=False, **kwargs):
    # Every -1 is already resolved in the example's shape.
    return ctx.op("Expand", input, ctx.shape(ctx.fake.shape))


@op("repeat", "tile")
def repeat(ctx, input, *repeats, **kwargs):
    times = list(kwargs.get("repeats") or kwargs.get("dims") or spread(repeats))
    missing = len(times) - ctx.rank(input)
    if missing > 0:
        input = ctx.reshape(input, [1] * missing + list(ctx.sizes(input)))
    return ctx.op("Tile", input, ctx.shape([1] * -missing + times))


@op("repeat_interleave")
def repeat_interleave(ctx, input, repeats, dim=None, output_size=None):
    if not isinstance(repeats, int) or dim is None:
        raise Unsupported("repeat_interleave is supported with dim and a number of repeats only", "FX402")
    sizes = list(ctx.sizes(input))
    dim %= len(sizes)
    wide = ctx.op("Unsqueeze", input, ctx.constant([dim + 1]))
    tiled = ctx.op("Tile", wide, ctx.shape([1] * (dim + 1) + [repeats] + [1] * (len(sizes) - dim - 1)))
    return ctx.reshape(tiled, list(ctx.fake.shape))


@op("cat", "concat", "concatenate")
def cat(ctx, tensors, dim=0, **kwargs):
    tensors = [t for t in tensors if not (ctx.rank(t) == 1 and ctx.sizes(t)[0] == 0)]
    if not tensors:
        raise Unsupported("torch.cat of empty tensors only is not supported")
    values = [ctx.cast(t, ctx.fake.dtype) for t in tensors]
    return values[0] if len(values) == 1 else ctx.op("Concat", *values, axis=dim)


@op("stack")
def stack(ctx, tensors, dim=0):
    rank = len(ctx.fake.shape)
    axis = dim % rank
    where = ctx.constant([axis])
    return ctx.op("Concat", *(ctx.op("Unsqueeze", ctx.cast(t, ctx.fake.dtype), where) for t in tensors), axis=axis)


def _pieces(ctx, input, dim):
    lengths = [int(piece.shape[dim]) for piece in ctx.fake]
    if len(lengths) == 1:
        return (input,)
    return ctx.op("Split", input, ctx.constant(lengths), axis=dim, outputs=len(lengths))


@op("chunk", "split", "split_with_sizes", "tensor_split", "unsafe_split", "unsafe_chunk")
def split(ctx, input, *args, dim=0, **kwargs):
    if len(args) > 1:
        dim = args[1]
    if any(isinstance(each, ir.Value) for each in (*args, *kwargs.values())):
        raise Unsupported("the sizes of the pieces of tensor_split depend on tensor values", "FX402")
    dim %= ctx.rank(input)
    ctx.static(ctx.sizes(input)[dim], "the size of a dimension that is split")
    return _pieces(ctx, input, dim)


@op("unbind")
def unbind(ctx, input, dim=0):
    dim %= ctx.rank(input)
    count = ctx.static(ctx.sizes(input)[dim], "the size of a dimension that is unbound")
    where = ctx.constant([dim])
    if count == 1:
        return (ctx.op("Squeeze", input, where),)
    pieces = ctx.op("Split", input, axis=dim, num_outputs=count, outputs=count)
    return tuple(ctx.op("Squeeze", piece, where) for piece in pieces)


@op("flip")
def flip(ctx, input, *dims, **kwargs):
    axes = ctx.axes(list(kwargs.get("dims") or spread(dims)), ctx.rank(input))
    back, whole = ctx.constant([-1] * len(axes)), ctx.constant([-INT64_MAX] * len(axes))
    return ctx.op("Slice", input, back, whole, ctx.constant(axes), back)


@op("roll")
def roll(ctx, input, shifts, dims=None):
    if dims is None or dims == ():
        raise Unsupported("torch.roll without dims is not supported")
    sizes = ctx.sizes(input)
    for shift, dim in zip(listed(shifts), listed(dims), strict=True):
        dim %= len(sizes)
        size = ctx.static(sizes[dim], "the size of a rolled dimension")
        shift %= size
        if shift:
            input = ctx.op(
                "Concat",
                ctx.slice(input, dim, size - shift, INT64_MAX),
                ctx.slice(input, dim, 0, size - shift),
                axis=dim,
            )
    return input


@op("pad", "constant_pad_nd")
def pad(ctx, input, pad, mode="constant", value=None):
    if isinstance(mode, (int, float)):  # aten.constant_pad_nd(input, pad, value)
        mode, value = "constant", mode
    pad = [int(p) if isinstance(p, int) else p for p in pad]
    rank = ctx.rank(input)
    kind = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    # torch lists (begin, end) from the last dimension backwards; ONNX all begins, then all ends. The dimensions are not
    # named by Pad's `axes`: ONNX Runtime 1.31 moves a Transpose across the Pad as if the amounts were for all of them.
    begins, ends = ([*reversed(pad[i::2])] for i in (0, 1))
    if not any(each != 0 for each in pad):
        return input
    others = [0] * (rank - len(begins))
    fill = ctx.constant(value or 0, ctx.dtype(input)) if kind == "constant" else None
    return ctx.op("Pad", input, ctx.shape([*others, *begins, *others, *ends]), fill, mode=kind)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(ctx, input, padding):
    return pad(ctx, input, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(ctx, input, padding):
    return pad(ctx, input, padding, "replicate")


@module(nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)
def constant_pad_module(ctx, m, input):
    return pad(ctx, input, m.padding, value=getattr(m, "value", 0))


@module(nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d)
def reflection_pad_module(ctx, m, input):
    return pad(ctx, input, m.padding, "reflect")


@module(nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d)
def replication_pad_module(ctx, m, input):
    return pad(ctx, input, m.padding, "replicate")


@op("pixel_shuffle")
def pixel_shuffle(ctx, input, upscale_factor):
    return _images(ctx, input, lambda image: ctx.op("DepthToSpace", image, blocksize=upscale_factor, mode="CRD"))


def _images(ctx, input, convert):
    """`convert` of a batch of images; torch also takes one image, or several dimensions before the channels."""
    *lead, c, h, w = ctx.sizes(input)
    if len(lead) == 1:
        return convert(input)
    return ctx.reshape(convert(ctx.reshape(input, [product(lead), c, h, w])), list(ctx.fake.shape))


@op("pixel_unshuffle")
def pixel_unshuffle(ctx, input, downscale_factor):
    *lead, c, h, w = ctx.sizes(input)
    n, r = product(lead), downscale_factor
    split = ctx.reshape(input, [n, c, h // r, r, w // r, r])
    moved = ctx.op("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    return ctx.reshape(moved, [*lead, c * r * r, h // r, w // r])


@op("channel_shuffle")
def channel_shuffle(ctx, input, groups):
    n, c, *rest = ctx.sizes(input)
    split = ctx.reshape(input, [n, groups, c // groups, *rest])
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    return ctx.reshape(ctx.op("Transpose", split, perm=order), [n, c, *rest])


# -- resizing
# -------------------------------------------------------------------------------------------------------------------


@op("interpolate", "upsample")
def interpolate(
    ctx,
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    if antialias and mode not in ("bilinear", "bicubic"):
        raise Unsupported(f"antialias=True is not supported with mode={mode!r}")
    if antialias:
        factors = () if size is not None or recompute_scale_factor else scale_factor
        return _antialiased(ctx, input, mode, align_corners, factors)
    if not mode.startswith("nearest") and not ctx.dtype(input).is_floating_point:
        raise Unsupported(f"interpolate with mode={mode!r} of integers is not supported")
    kind = {
        "nearest": "nearest",
        "nearest-exact": "nearest",
        "linear": "linear",
        "bilinear": "linear",
        "trilinear": "linear",
        "bicubic": "cubic",
    }.get(mode)
    if kind is None:
        raise Unsupported(f"interpolate with mode={mode!r} is not supported")
    rank = ctx.rank(input)
    spatial = rank - 2
    if kind == "nearest" and (taken := _nearest(ctx, input, mode, size, scale_factor, recompute_scale_factor)):
        return taken
    if kind == "nearest":
        transform = "half_pixel" if mode == "nearest-exact" else "asymmetric"
    else:
        transform = "align_corners" if align_corners else "half_pixel"
    scales = sizes = None
    if size is None and scale_factor is not None and not recompute_scale_factor:
        factors = [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
        scales = ctx.constant(np.array([1.0, 1.0, *map(float, factors)], dtype=np.float32))
    else:
        sizes = ctx.shape(ctx.fake.shape)
    return ctx.op(
        "Resize",
        input,
        None,
        scales,
        sizes,
        mode=kind,
        coordinate_transformation_mode=transform,
        nearest_mode=("round_prefer_ceil" if mode == "nearest-exact" else "floor") if kind == "nearest" else None,
        cubic_coeff_a=-0.75 if kind == "cubic" else None,
    )


def _nearest(ctx, input, mode, size, factors, recompute):
    """The nearest elements by tables of torch's own positions, where engines may round otherwise: at sizes that are no
    multiples. None at sizes that are."""
    sizes, wanted = ctx.sizes(input)[2:], ctx.fake.shape[2:]
    given = listed(factors) if size is None and factors is not None and not recompute else [None]
    given = given * len(sizes) if len(given) == 1 else given
    axes = list(zip(sizes, wanted, given, strict=True))
    if all(want % length == 0 and factor in (None, want // length) for length, want, factor in axes):
        return None
    if not all(isinstance(each, int) for each in (*sizes, *wanted)):
        return _nearest_computed(ctx, input, mode, axes)
    how = {"size": wanted} if given == [None] * len(sizes) else {"scale_factor": given}
    for axis, length in enumerate(sizes):
        along = torch.arange(length, dtype=torch.float64).reshape([-1 if d == axis else 1 for d in range(len(sizes))])
        found = nn.functional.interpolate(along.expand(sizes)[None, None], mode=mode, **how)[0, 0]
        places = found.movedim(axis, 0).reshape(wanted[axis], -1)[:, 0]
        input = ctx.op("Gather", input, ctx.constant(places.long().numpy()), axis=axis + 2)
    return input


def _nearest_computed(ctx, input, mode, axes):
    """The nearest elements at sizes that may change; None if torch and engines have the same by a factor."""
    if all(factor is not None and (factor % 1 == 0 or 1 / factor % 1 == 0) for *_, factor in axes):
        return None
    for axis, (length, want, factor) in enumerate(axes):
        if factor is not None:
            raise Unsupported(f"interpolate by {factor} is not supported for sizes that may change", "FX402")
        length, want = ctx.number(length), ctx.number(want)
        places = ctx.cast(ctx.op("Range", ctx.constant(0), want, ctx.constant(1)), torch.float32)
        if mode == "nearest-exact":
            places = ctx.op("Add", places, ctx.constant(0.5))
        scale = ctx.op("Div", ctx.cast(length, torch.float32), ctx.cast(want, torch.float32))
        places = ctx.cast(ctx.op("Floor", ctx.op("Mul", places, scale)), torch.int64)
        places = ctx.op("Min", places, ctx.op("Sub", length, ctx.constant(1)))
        input = ctx.op("Gather", input, places, axis=axis + 2)
    return input


def _antialiased(ctx, input, mode, align_corners, factors):
    """ONNX's antialias filter differs from torch's. Torch's is linear along each axis, so its results for the unit
    vectors are the matrix to multiply by."""
    filters = {"bilinear": torch.ops.aten._upsample_bilinear2d_aa, "bicubic": torch.ops.aten._upsample_bicubic2d_aa}
    sizes, wanted = ctx.sizes(input)[2:], ctx.fake.shape[2:]
    factors = listed(factors) if factors else [None]
    for axis, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
        size, want = (ctx.static(each, "a size that is resized with antialias=True") for each in (size, want))
        if size == 1:
            raise Unsupported("antialias=True is not supported for a size of 1")  # eager reads out of bounds there
        factor = factors[axis % len(factors)]
        rows = filters[mode].default(torch.eye(size)[None, None], [want, size], bool(align_corners), factor, None)[0, 0]
        matrix = ctx.cast(ctx.constant((rows if axis == 0 else rows.T).contiguous().numpy()), ctx.dtype(input))
        input = ctx.op("MatMul", *((matrix, input) if axis == 0 else (input, matrix)))
    return input


def _register_upsampling() -> None:
    """ATen has one operator for each mode and number of dimensions."""

    def wanted(ctx, scales):
        # torch computes positions from the scale factors if given, and otherwise from the sizes.
        factors = [each for some in scales if some is not None for each in listed(some)]
        return {"scale_factor": factors} if factors else {"size": tuple(ctx.fake.shape[2:])}

    def nearest(mode):
        return lambda ctx, input, size, *scales: interpolate(ctx, input, **wanted(ctx, scales), mode=mode)

    def smooth(mode, antialias=False):
        def convert(ctx, input, output_size, align_corners, *scales):
            kind = {"mode": mode, "align_corners": align_corners, "antialias": antialias}
            return interpolate(ctx, input, **wanted(ctx, scales), **kind)

        return convert

    for n, mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
        aten(f"upsample_nearest{n}d")(nearest("nearest"))
        aten(f"_upsample_nearest_exact{n}d")(nearest("nearest-exact"))
        aten(f"upsample_{mode}{n}d")(smooth(mode))
    aten("upsample_bicubic2d")(smooth("bicubic"))
    aten("_upsample_bilinear2d_aa")(smooth("bilinear", antialias=True))
    aten("_upsample_bicubic2d_aa")(smooth("bicubic", antialias=True))


_register_upsampling()


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(ctx, input, grid, interpolation_mode, padding_mode, align_corners):
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    return grid_sample(ctx, input, grid, mode, ("zeros", "border", "reflection")[padding_mode], align_corners)


@op("grid_sample")
def grid_sample(ctx, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    if ctx.rank(input) != 4:
        raise Unsupported("grid_sample is supported for images only, that is, for tensors of four dimensions")
    kind = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode]
    return ctx.op(
        "GridSample", input, grid, mode=kind, padding_mode=padding_mode, align_corners=int(bool(align_corners))
    )


@op("unfold", methods=False)
def unfold(ctx, input, kernel_size, dilation=1, padding=0, stride=1):
    pair = lambda v: (v, v) if isinstance(v, int) else tuple(v)  # noqa: E731
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = pair(kernel_size), pair(dilation), pair(padding), pair(stride)
    n, c, h, w = ctx.sizes(input)
    h, w = ctx.static(h, "the height that unfold slides over"), ctx.static(w, "the width that unfold slides over")
    padded = pad(ctx, input, (pw, pw, ph, ph))
    rows = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    cols = (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    # One gather per axis with a table of positions: [kernel, window].
    at = lambda k, d, s, count: np.arange(k)[:, None] * d + np.arange(count)[None, :] * s  # noqa: E731
    tall = ctx.op("Gather", padded, ctx.constant(at(kh, dh, sh, rows).astype(np.int64)), axis=2)
    both = ctx.op("Gather", tall, ctx.constant(at(kw, dw, sw, cols).astype(np.int64)), axis=4)
    moved = ctx.op("Transpose", both, perm=[0, 1, 2, 4, 3, 5])
    return ctx.reshape(moved, [n, c * kh * kw, rows * cols])


@op("fold", "col2im", methods=False)
def fold(ctx, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    size, kernel, dilation, padding, stride = (
        per_dimension(each, 2) for each in (output_size, kernel_size, dilation, padding, stride)
    )
    image, block = ctx.constant(size, torch.int64), ctx.constant(kernel, torch.int64)
    return ctx.batched(
        input,
        1,
        lambda batch: ctx.op(
            "Col2Im", batch, image, block, dilations=dilation, pads=[*padding, *padding], strides=stride
        ),
    )


def tensor_unfold(ctx, input, dimension, size, step):
    rank = ctx.rank(input)
    axis = dimension % rank
    length = ctx.static(ctx.sizes(input)[axis], "the size of an unfolded dimension")
    count = (length - size) // step + 1
    windows = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    found = ctx.op("Gather", input, ctx.constant(windows.astype(np.int64)), axis=axis)
    return ctx.op("Transpose", found, perm=[*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])


# x.unfold and torch.nn.functional.unfold share only the name; the ATen operator is the method.
METHODS["unfold"] = ATEN["unfold"] = tensor_unfold


module(nn.Flatten)(of_module(flatten, "start_dim", "end_dim"))
module(nn.Unflatten)(of_module(unflatten, "dim", "unflattened_size"))
module(nn.PixelShuffle)(of_module(pixel_shuffle, "upscale_factor"))
module(nn.PixelUnshuffle)(of_module(pixel_unshuffle, "downscale_factor"))
module(nn.ChannelShuffle)(of_module(channel_shuffle, "groups"))
module(nn.Fold)(of_module(fold, "output_size", "kernel_size", "dilation", "padding", "stride"))
module(nn.Unfold)(of_module(unfold, "kernel_size", "dilation", "padding", "stride"))
module(nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d)(
    of_module(interpolate, "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")
)
