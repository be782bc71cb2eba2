"""Functions with ``assert`` statements, in a file whose assertions pytest does not rewrite."""


def plain_assert(x):
    assert x.sum() > 0
    return x


def with_message(x):
    assert x.sum() > 0, "must be positive"
    for _ in range(2):
        assert x.mean() > 0, f"step {1}"
        x = x + 1
    return x


def several(x, y):
    assert x.sum() > 0
    assert y.sum() > 0, (x, "and", y)
    return x + y


def not_an_assertion(x):
    return x if x.sum() > 0 else -x


def raises_by_hand(x):
    if not (x.sum() > 0):
        raise ValueError("positive")
    return x
