"""Typical programs: ``expects(codes, inputs)`` says what a diagnosis finds in each, in order."""

# ruff: noqa
# fmt: off
import numpy as np
import torch, math, threading, functools, collections, contextlib, itertools, copy, dataclasses, typing, enum, warnings, logging
import torch.nn.functional as F
from torch import nn
CASES = {}
X = torch.randn(2, 4)


def expects(codes, inputs=X):
    def register(function):
        CASES[function.__name__] = (function, codes.split(), inputs)
        return function

    return register


@expects("FX102")
def walrus(x):
    if (n := x.shape[0]) > 1: x = x + n
    return x

@expects("FX102")
def match_stmt(x):
    match x.dim():
        case 2: return x
        case _: return -x

@expects("FX101")
def while_true(x):
    n = 0
    while True:
        x = x / 2; n += 1
        if x.abs().max() < 1: break
    return x

@expects("FX101")
def for_else(x):
    for i in range(3):
        if x[0, i] > 0: break
    else:
        x = x + 1
    return x

@expects("FX101")
def nested_fn(x):
    k = 3
    def inner(y):
        nonlocal k
        k += 1
        if y.sum() > k: return y
        return -y
    return inner(x)

@expects("FX133")
def gen_fn(x):
    def rows(y):
        for i in range(y.shape[0]): yield y[i]
    return torch.stack(list(rows(x)))

@expects("FX101")
def lam(x):
    g = lambda t: t if t.sum() > 0 else -t
    return g(x)

@expects("FX133")
def dict_comp(x):
    d = {i: x[i] for i in range(x.shape[0])}
    return d[0]

@expects("FX102 FX110")
def any_gen(x):
    if any(s > 3 for s in x.shape): return x
    return -x

@expects("FX106")
def minmax_list(x):
    return x * max([x.shape[0], x.shape[1]])

@expects("FX106 FX114")
def sorted_shape(x):
    a, b = sorted(x.shape)
    return x * a

@expects("FX101")
def item(x):
    n = x.sum().item()
    if n > 0: return x
    return -x

@expects("FX110")
def tolist(x):
    for v in x.tolist(): x = x + v[0]
    return x

@expects("FX110")
def enum_zip(x):
    out = []
    for i, (a, b) in enumerate(zip(x, x.unbind(0))): out.append(a + b * i)
    return torch.stack(out)

@expects("FX113 FX113", (X, {'a': X, 'b': X}))
def dict_iter(x, d):
    for k, v in d.items(): x = x + v
    if 'a' in d: x = x + d['a']
    return x

@expects("FX110 FX120", (X, [X, X]))
def list_arg(x, ys):
    for y in ys: x = x + y
    return x + len(ys)

@expects("FX101")
def try_finally(x):
    try:
        if x.sum() > 0: return x
    finally:
        x = x + 1
    return x

@expects("FX215")
def suppress(x):
    with contextlib.suppress(Exception):
        x = x + len(x)
    return x

@expects("FX130")
def reraise(x):
    try:
        n = int(x.shape[0])
    except TypeError as e:
        raise RuntimeError("bad shape") from e
    return x * n

@expects("FX205 FX104")
def fstring_assert(x):
    torch._assert(x.dim() == 2, f"got {x.dim()}")
    assert x.shape[1] == 4, f"got {x.shape}"
    return x

@expects("FX103 FX201 FX102 FX102")
def and_or(x, a: bool = True, b=None):
    if a and b is None and not x.is_cuda or x.shape[0] == 3: x = x + 1
    return x

@expects("FX102")
def ternary_nest(x):
    return x if x.dim() == 2 else (x[0] if x.dim() == 3 else x[0, 0])

@expects("FX150")
def slice_assign_loop(x):
    out = torch.zeros_like(x)
    for i in range(4):
        out[:, i] = x[:, 3 - i]
    return out

@expects("FX230 FX150")
def aug(x):
    x += 1
    x[0] += x[1]
    return x

@expects("")
def aug_of_one_item(x):
    values, indices = torch.topk(x + 1, 2, dim=-1)
    values /= values.sum(-1, keepdim=True)
    pair = (x * 2).max(dim=0)
    best = pair[0]
    best -= 1
    left, right = (x + 2).chunk(2, dim=-1)
    left *= 3
    return values, indices, best, pair[1], left, right

@expects("FX230 FX230 FX230")
def aug_of_what_is_shared(x):
    both = x + 1
    left, right = both.chunk(2, dim=-1)
    left *= 3
    row = (x * 2).t()
    first = row[0]
    first -= 1
    pair = (x * 3).max(dim=0)
    best = pair[0]
    best += 1
    return both, row, pair[0], right

@expects("FX101 FX101")
def made_of_sizes(x):
    mask = torch.full((x.shape[0], 4), 7)
    if (mask == 7).any(dim=-1).all():
        x = x + 1
    return x * 2 if x.new_zeros((x.shape[0], 2)).any() else x

@expects("FX199")
def index_of_a_text(x):
    results = [x, x * 2]
    return results["logits"]

@expects("")
def power_within_aug(x):
    total = x.sum(0)
    total += torch.sum(x ** 2, 0)
    return total + x[0]

@expects("FX130")
def shape_arith(x):
    b, c = x.shape
    h = int(c ** 0.5)
    return x.view(b, h, h)

@expects("FX134")
def real_tensor_index(x):
    t = torch.arange(10)
    return x + t[: x.shape[1]]

@expects("")
def ceil(x):
    n = math.ceil(x.shape[1] / 3)
    return x[:, :n]

@expects("")
def math_prod(x):
    n = math.prod(x.shape[1:])
    return x.view(-1, n)

@expects("FX130")
def np_prod(x):
    import numpy as np
    return x.view(-1, int(np.prod(x.shape[1:])))

@expects("FX110")
def functools_reduce(x):
    n = functools.reduce(lambda a, b: a * b, x.shape)
    return x / n

@expects("FX214 FX120")
def checkpointed(x):
    from torch.utils.checkpoint import checkpoint
    return checkpoint(lambda t: t * len(t), x, use_reentrant=False)

@expects("")
def interpolate(x):
    return F.interpolate(x[None, None], size=(x.shape[0] * 2, x.shape[1]), mode='bilinear')

@expects("FX102")
def pad(x):
    d = 8 - x.shape[1]
    if d > 0: x = F.pad(x, (0, d))
    return x

@expects("FX112")
def einops_like(x):
    return x.reshape(*x.shape[:-1], 2, -1)

@expects("FX105")
def dtype_branch(x):
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16): x = x.float()
    x = x * 2
    return x.to(dtype)

@expects("FX184")
def device_ctx(x):
    with torch.device(x.device): y = torch.zeros(4)
    return x + y

@expects("FX205 FX205")
def logging_it(x):
    logging.info("shape %s", x.shape)
    print(x.shape)
    warnings.warn(f"{x.shape}")
    return x

@expects("FX101")
def nan_check(x):
    if torch.isnan(x).any(): raise ValueError("nan")
    return x

@expects("FX234")
def clone_mod(x):
    y = copy.deepcopy(x)
    return y + 1

@expects("")
def set_of(x):
    s = set()
    s.add(x)
    return x * len(s)

@expects("FX130")
def complex_(x):
    return x * complex(x.shape[0], 1).real

@expects("FX103")
def eq_none(x, y=None):
    if y == None: return x
    return x + y

@expects("FX103")
def truthy_list(x, ys=()):
    if ys: x = x + ys[0]
    return x

@expects("FX133")
def stack_range(x):
    return torch.stack([x[:, i] for i in range(x.size(1))], 1)

@expects("")
def dataclass_out(x):
    @dataclasses.dataclass
    class Out: a: torch.Tensor
    return Out(x)

@expects("FX102")
def recursion(x, depth=0):
    if x.shape[0] > 1: return recursion(x[:1], depth + 1)
    return x

@expects("FX101")
def cond_expr_call(x):
    return F.relu(x) if bool(x.sum() > 0) else x

@expects("FX101 FX101")
def multi_line(x):
    if (
        x.sum() > 0
        and x.mean() < 3
    ):
        x = x + 1
    return x

@expects("FX111")
def unpack_nested(x):
    (a, b), c = x.chunk(2), 3
    a, *b = x.chunk(2)
    return a + c

@expects("FX110")
def star_mid(x):
    return torch.cat([*x.chunk(2), x])

@expects("FX103")
def kw_only(x, *, scale=2.0, flag=False):
    if flag: x = -x
    return x * scale

@expects("FX110", (X, X, X))
def var_args(x, *ys):
    for y in ys: x = x + y
    return x

@expects("FX113")
def var_kw(x, **kw):
    if 'scale' in kw: x = x * kw['scale']
    return x * kw.get('bias', 1)

@expects("FX120 FX130")
def same_line_two(x):
    a = len(x) + int(x.shape[0]); return x * a

@expects("FX140")
def as_array(x):
    return x * np.asarray(x)

@expects("FX228")
def lambda_in_a_thread(x):
    out = []
    thread = threading.Thread(target=lambda: out.append(x * 2))
    thread.start(); thread.join()
    return out[0]
