"""Reinplacing: as much as torch's own pass, and never a different result."""

import pytest
import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.reinplace import reinplace as oracle_reinplace

from fxlib.interop import from_torch_fx
from fxlib.passes.reinplace import overlaps, reinplace

aten = torch.ops.aten


def captured(function, *args):
    return make_fx(functionalize(function, remove="mutations"))(
        *[a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    )


def functional(function, *args):
    """ATen calls as they are written, without functionalization."""
    return make_fx(function)(*args)


def mutable_calls(graph_module):
    return [
        n.target
        for n in graph_module.graph.nodes
        if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable
    ]


def scatters(graph_module):
    return sum("_scatter" in str(n.target) for n in graph_module.graph.nodes)


def check(capture, function, *args):
    """The pass's result, after comparing it with the function, and inputs with what the function leaves of them."""
    original = capture(function, *args)
    ours = reinplace(from_torch_fx(original), *args)
    inputs = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    reference = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    torch.testing.assert_close(ours(*inputs), original(*reference), rtol=0, atol=0)
    torch.testing.assert_close(inputs, reference, rtol=0, atol=0)
    return ours


x, y = torch.randn(4, 4), torch.randn(4, 4)


def simple(a, b):
    c = a + 1
    c.add_(b)
    return c.mul(2).relu()


def diagonal_fill(a):
    b = a + a
    b.diagonal().fill_(0)
    return b


def select_assign(a):
    b = torch.zeros(4, 4)
    b[0] = a[1]
    b[1:3] = a[2:]
    return b


def several_writes(a):
    b = a.clone()
    row = b[1]
    row.add_(1)
    row.mul_(3)
    b[2].copy_(row)
    return b + 1


def nested_views(a):
    b = a * 2
    b[1:3][0].add_(5)
    return b


def strided(a):
    b = a * 2
    b.as_strided((2, 2), (4, 1), 5).add_(1)
    return b


def view_then_write(a):
    b = a + 1
    c = b.view(-1)
    c.add_(1)
    return b


def returns_alias(a):
    b = a + 1
    c = b.view(-1)
    d = b.add(1)
    return c, d


def used_later(a):
    b = a + 1
    c = b.add(2)
    return c * b


def on_input(a):
    return a.add(1).mul(2), a


def view_of_input(a):
    return a.view(-1).add(1)


def repeated(a):
    b = a + 1
    return b.mul(b)


def aliased_argument(a):
    b = a + 1
    return aten.add.Tensor(b, b.t())


def grows(a):
    b = a[0] + 1
    return b.add(a)


def changes_dtype(a):
    b = a + 1
    return b.ge(0)


def promotes(a):
    b = torch.ones(4, 4, dtype=torch.int32)
    return aten.add.Tensor(b, a)


def overlapping(a):
    b = torch.ones(1).expand(4, 4)
    return aten.add.Tensor(b, 1)


def two_scatters(a):
    b = a + 1
    s = aten.select.int(b, 0, 0)
    f = aten.fill.Scalar(s, 7.0)
    one = aten.select_scatter.default(b, f, 0, 0)
    two = aten.select_scatter.default(b, a[1], 0, 0)
    return one, two


def scatter_elsewhere(a):
    b = a + 1
    s = aten.select.int(b, 0, 1)
    f = aten.fill.Scalar(s, 7.0)
    return aten.select_scatter.default(b, a[0], 0, 0), f


def scatter_of_another_source(a):
    b = a + 1
    s = aten.select.int(b, 0, 0)
    f = aten.fill.Scalar(s, 7.0)
    return aten.select_scatter.default(b, a[2], 0, 0), f


def result_of_scatter_is_changed(a):
    b = a + 1
    s = aten.select.int(b, 0, 0)
    f = aten.fill.Scalar(s, 7.0)
    out = aten.select_scatter.default(b, f, 0, 0)
    changed = aten.add.Tensor(out, 1)
    return f, changed


def strides_matter(a):
    b = (a + 1).t()
    c = aten.add.Tensor(b, aten.clone.default(a))
    return aten.view.default(aten.contiguous.default(c), [16])


def splits(a):
    b = a + 1
    first, second = b.split(2)
    first.add_(1)
    return b, second


def mutated_input(a):
    a.add_(1)
    return a * 2


def row_swap(a):
    b = a.clone()
    b[0], b[1] = b[1].clone(), b[0].clone()
    return b


FUNCTIONALIZED = [
    simple,
    diagonal_fill,
    select_assign,
    several_writes,
    nested_views,
    strided,
    view_then_write,
    splits,
    mutated_input,
    row_swap,
    changes_dtype,
    grows,
    used_later,
]  # fmt: skip
WRITTEN = [
    returns_alias,
    on_input,
    view_of_input,
    repeated,
    aliased_argument,
    promotes,
    overlapping,
    two_scatters,
    scatter_elsewhere,
    scatter_of_another_source,
    result_of_scatter_is_changed,
    strides_matter,
]  # fmt: skip


@pytest.mark.parametrize(
    ("capture", "function"),
    [*[(captured, f) for f in FUNCTIONALIZED], *[(functional, f) for f in WRITTEN]],
    ids=lambda f: f.__name__,
)
def test_same_result_and_no_less_than_torch(capture, function):
    args = (x, y) if function is simple else (x,)
    original = capture(function, *args)
    ours = check(capture, function, *args)
    try:
        theirs = oracle_reinplace(original, *args)
        sound = all(
            torch.equal(a, b)
            for a, b in zip(
                torch.utils._pytree.tree_leaves(theirs(*[a.clone() for a in args])),
                torch.utils._pytree.tree_leaves(capture(function, *args)(*[a.clone() for a in args])),
                strict=False,
            )
        )
    except Exception:
        return
    if sound:
        assert len(mutable_calls(ours)) >= len(mutable_calls(theirs))
        assert scatters(ours) <= scatters(theirs)


@pytest.mark.parametrize(
    ("function", "capture", "expected"),
    [
        (used_later, captured, 1),
        (repeated, functional, 0),
        (aliased_argument, functional, 0),
        (promotes, functional, 0),
        (overlapping, functional, 0),
        (on_input, functional, 1),
        (view_of_input, functional, 0),
        (changes_dtype, captured, 0),
        (grows, captured, 0),
        (returns_alias, functional, 0),
    ],
)
def test_conditions_of_the_document(function, capture, expected):
    assert len(mutable_calls(check(capture, function, x))) == expected


def test_documented_diagonal():
    ours = check(captured, diagonal_fill, x)
    assert mutable_calls(ours) == [aten.fill_.Scalar] and scatters(ours) == 0


def test_documented_select_scatter_becomes_a_copy():
    def f(a):
        b = torch.zeros(4, 4)
        b[0] = a
        return b

    ours = check(captured, f, torch.randn(4))
    assert aten.copy_.default in mutable_calls(ours) and scatters(ours) == 0


def test_parameters_are_not_written_to():
    weight = torch.nn.Parameter(torch.randn(4))

    def f(a):
        return (weight.detach().add(1) + a).mul(2)

    before = weight.detach().clone()
    ours = check(functional, f, torch.randn(4))
    ours(torch.randn(4))
    assert torch.equal(weight.detach(), before)


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (torch.ones(2, 3), False),
        (torch.ones(1).expand(4, 4), True),
        (torch.ones(4, 4).t(), False),
        (torch.ones(9).unfold(0, 3, 1), True),
        (torch.ones(4, 4)[:, ::2], False),
        (torch.ones(4, 4).diagonal(), False),
        (torch.ones(1, 1).expand(1, 1), False),
    ],
)
def test_overlap(t, expected):
    assert overlaps(t) is expected


def random_program(seed):
    """A function of functional and viewing ATen calls, drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)

    def draw(n):
        return int(torch.randint(0, n, (1,), generator=generator))

    choices = [(draw(9), draw(100), draw(100), draw(4)) for _ in range(12)]

    def f(a, b):
        pool = [a, b, a + 1, b * 2]
        for kind, i, j, k in choices:
            s, t = pool[i % len(pool)], pool[j % len(pool)]
            if kind == 0:
                pool.append(s.add(1.5))
            elif kind == 1:
                pool.append(s.mul(t) if s.shape == t.shape else s.mul(2))
            elif kind == 2 and s.dim() == 2:
                pool.append(s[k % s.shape[0]])
            elif kind == 3 and s.dim() == 2:
                pool.append(s.t())
            elif kind == 4 and s.dim() == 2:
                pool.append(aten.fill.Scalar(s[k % s.shape[0]], 0.5))
            elif kind == 5 and s.dim() == 2:
                row = s.select(0, k % s.shape[0])
                new = row.mul(3)
                pool.append(aten.select_scatter.default(s, new, 0, k % s.shape[0]))
            elif kind == 6 and s.dim() == 2:
                rows = [r for r in pool if r.shape == s[0].shape]
                if rows:
                    pool.append(aten.select_scatter.default(s, rows[j % len(rows)], 0, k % s.shape[0]))
            elif kind == 7:
                pool.append(s.relu())
            elif kind == 8 and s.dim() == 2:
                pool.append(aten.slice_scatter.default(s, aten.slice.Tensor(s, 0, 1, 3).add(2), 0, 1, 3))
        return pool[-1], pool[-2], pool[len(pool) // 2]

    return f


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_their_results(seed):
    check(functional, random_program(seed), torch.randn(4, 4), torch.randn(4, 4))


def element_through_two_views(a):
    a = a.clone()
    a.view(-1)[1].view(-1).add_(1)
    return a


def element_of_column(a):
    a = a.clone()
    column = a[:, 1]
    column[1].add_(1)
    column[0].mul_(2)
    return a


def block(a):
    a = a.clone()
    a[1:, :2].add_(3)
    a[0].relu_()
    return a


def row_of_transposed(a):
    a = a.clone()
    a.t()[0].add_(1)
    return a


def row_to_row(a):
    a = a.clone()
    upper, lower = a[0], a[1]
    upper.add_(lower)
    lower.mul_(2)
    return a, upper


def onto_itself(a):
    a = a.view(-1).clone()
    a.add_(a.view(-1))
    return a


@pytest.mark.parametrize(
    "function", [element_through_two_views, element_of_column, block, row_of_transposed, row_to_row, onto_itself]
)
def test_equal_views_are_one_place(function):
    """Functionalization takes a view anew for each access; the pass sees that it is the same memory."""
    ours = check(captured, function, x)
    theirs = oracle_reinplace(captured(function, x), x.clone())
    assert ours.code == theirs.code
    assert scatters(ours) == 0


def test_overlapping_parts_and_other_orders_are_no_such_place():
    def shifted(a):
        a = a.view(-1).clone()
        return aten.add.Tensor(a[1:], a[:-1])

    def turned(a):
        a = a.clone()
        return aten.add.Tensor(a, a.t())

    def matrix(a):
        a = a.clone()
        return aten.addmm.default(a, a.view(4, 4), a.view(4, 4))

    for function in (shifted, turned, matrix):
        assert not mutable_calls(check(functional, function, x))
