"""Names of torch by what they take and give: one tensor, several, or something else."""

from __future__ import annotations

import re

__all__ = [
    "ANNOTATION",
    "FLAG",
    "KEPT",
    "MAKERS",
    "METHODS",
    "NOT_OF_TENSORS",
    "PLAIN",
    "SEVERAL",
    "SHAPED",
]

ANNOTATION = re.compile(r"^(\w+\.)*(Tensor|LongTensor|FloatTensor|BoolTensor|IntTensor|Parameter)$")
# Of jaxtyping and torchtyping: `Float[Tensor, "b c"]`, `TensorType["b"]`.
SHAPED = re.compile(
    r"^(\w+\.)*((Float\w*|Int\w*|UInt\w*|Bool|Num|Real|Inexact|Complex\w*|Shaped|Key|BFloat16|Double|Half|Long)"
    r"\[(\w+\.)*Tensor\b.*\]|TensorType\[.*\])$"
)

FLAG = re.compile(r"^(return_\w+|as_tuple|need_\w+|output_\w+|with_\w+|keep_\w+)$")
"""Arguments that ask a function for something else, too."""

# Functions of torch that take something else first, or give something else.
NOT_OF_TENSORS = re.compile(
    r"^(zeros|ones|empty|full|rand|randn|randint|randperm|normal|arange|range|linspace|logspace|eye|tensor|as_tensor|"
    r"asarray|from_\w+|frombuffer|scalar_tensor|complex|polar|cat|concat|concatenate|\w*stack|block_diag|meshgrid|"
    r"broadcast_\w+|cartesian_prod|einsum|atleast_\w+|is_\w+|can_cast|promote_types|result_type|\w*seed\w*|save|load|"
    r"_\w+|sym_\w+|device|dtype|Size|Generator|[A-Z]\w*|compile|\w*grad\w*|inference_mode|autocast|finfo|iinfo|"
    r"get_\w+|set_\w+|typename|\w*_window|chain_matmul|vmap|cond|while_loop)$"
)
MAKERS = re.compile(
    r"^(zeros|ones|empty|full|rand|randn|randint|randperm|normal|arange|linspace|logspace|eye|tensor|as_tensor|cat|"
    r"concat|concatenate|\w*stack|block_diag|einsum|scalar_tensor|from_numpy|\w*_window)(_like)?$"
)
SEVERAL = {
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "aminmax", "chunk", "cummax", "cummin",
    "dsplit", "eig", "eigh", "fractional_max_pool2d", "fractional_max_pool3d", "frexp", "geqrf", "gradient", "gru",
    "histogram", "histogramdd", "hsplit", "kthvalue", "lobpcg", "lstm", "lu", "lu_unpack", "max", "max_pool1d",
    "max_pool2d", "max_pool3d", "median", "min", "mode", "multi_head_attention_forward", "native_batch_norm",
    "native_dropout", "native_group_norm", "native_layer_norm", "nonzero_static", "pca_lowrank", "qr", "rnn_relu",
    "rnn_tanh", "slogdet", "sort", "split", "split_with_sizes", "std_mean", "svd", "svd_lowrank", "tensor_split",
    "topk", "triangular_solve", "unbind", "unique", "unique_consecutive", "unravel_index", "var_mean", "vsplit",
    "where",
}  # fmt: skip
"""What gives several tensors, or one or several."""
PLAIN = {
    "allclose", "apply_", "backward", "data_ptr", "dim", "dim_order", "element_size", "equal", "get_device",
    "has_names", "is_complex", "is_contiguous", "is_floating_point", "item", "map_", "names", "ndim", "ndimension",
    "nelement", "numel", "numpy", "qscheme", "size", "storage", "storage_offset", "stride", "tolist", "type",
    "untyped_storage",
}  # fmt: skip
"""Methods that give no tensor."""

METHODS = {
    "addmm", "argmax", "baddbmm", "bmm", "chunk", "clamp", "contiguous", "cumsum", "expand_as",
    "flatten", "gather", "index_select", "log_softmax", "masked_fill", "matmul", "mean", "mm", "narrow", "new_ones",
    "new_zeros", "permute", "repeat", "repeat_interleave", "reshape", "reshape_as", "scatter_add", "softmax",
    "squeeze", "transpose", "type_as", "unbind", "unflatten", "unsqueeze", "view", "view_as",
}  # fmt: skip
"""Methods that tell a tensor from lists, dictionaries, numbers and most classes. Arrays have some of them: `len` is the
first size of these, too."""

KEPT = {"T", "mT", "H", "data", "real", "imag", "grad"}
"""Attributes of tensors that are tensors."""
