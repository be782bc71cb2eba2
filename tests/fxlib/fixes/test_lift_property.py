"""Lifting any statement of any program: the program computes what it did, or the lift is refused."""

from __future__ import annotations

import ast

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fxlib.diagnosis.fixes import Source, apply_edits
from fxlib.diagnosis.fixes.lift import lift_expression, lift_statements
from fxlib.diagnosis.fixes.reload import registrations_dropped

NAMES = st.sampled_from(["a", "b", "c", "x"])
ATOMS = st.one_of(NAMES, st.integers(-3, 3).map(str), st.just("self.k"), st.just("G"))
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "<", ">"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"sum([i + {t[0]} for i in range(3) if i != {t[1]}])"),
        st.tuples(inner, inner).map(lambda t: f"(lambda a: a + {t[0]})({t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=4,
)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


SIMPLE = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(lambda t: [f"{t[0]} = {t[1]}"]),
    st.tuples(NAMES, EXPRESSIONS).map(lambda t: [f"{t[0]} += {t[1]}"]),
    st.tuples(NAMES, NAMES, EXPRESSIONS).map(lambda t: [f"{t[0]}, {t[1]} = {t[2]}, x"]),
    st.tuples(NAMES, EXPRESSIONS).map(lambda t: [f"({t[0]} := {t[1]})"]),
    st.tuples(NAMES, EXPRESSIONS).map(lambda t: ["if x:  # note", f"    {t[0]} = {t[1]}"]),
    EXPRESSIONS.map(lambda e: [f"if {e}:", "    return x"]),
)


def compound(inner: st.SearchStrategy) -> st.SearchStrategy:
    block = st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part])
    return st.one_of(
        st.tuples(EXPRESSIONS, block, block).map(lambda t: [f"if {t[0]}:", *indented(t[1]), "else:", *indented(t[2])]),
        st.tuples(NAMES, block).map(lambda t: [f"for {t[0]} in range(2):", *indented(t[1])]),
        st.tuples(EXPRESSIONS, block).map(
            lambda t: ["for _ in range(3):", *indented([f"if {t[0]}:", "    break", *t[1]])]
        ),
        st.tuples(EXPRESSIONS, block).map(
            lambda t: ["for _ in range(3):", *indented([*t[1], f"if {t[0]}:", "    continue"])]
        ),
        st.tuples(block, block).map(lambda t: ["try:", *indented(t[0]), "except ValueError:", *indented(t[1])]),
    )


STATEMENTS = st.recursive(SIMPLE, compound, max_leaves=6)
PROGRAMS = st.lists(STATEMENTS, min_size=2, max_size=5).map(lambda parts: [line for part in parts for line in part])


def file_of(lines: list[str]) -> str:
    body = "".join(f"        {line}\n" for line in ["a = 1", *lines, "return a, x"])
    return f"import torch.fx\n\nG = 7\n\n\nclass Net:\n    k = 2\n\n    def forward(self, x):\n{body}"


def outcomes(text: str) -> list:
    namespace: dict = {"__name__": "lifted"}
    with registrations_dropped():
        exec(compile(text, "net.py", "exec"), namespace)
    found = []
    for x in (-2, 0, 1, 5):
        try:
            found.append(namespace["Net"]().forward(x))
        except (UnboundLocalError, NameError):
            found.append("unbound")
    return found


@settings(max_examples=80, deadline=None, derandomize=True)
@given(PROGRAMS, st.integers(0, 1000))
def test_any_statement(lines, choice):
    text = file_of(lines)
    before = outcomes(text)
    source = Source("net.py", text)
    function = next(n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef))
    statements = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
    statement = statements[choice % len(statements)]
    block, index = source.block_of(statement)
    chosen = block[index : index + 1 + choice % 3]
    lift = lift_statements(source, chosen, function)
    event("refused" if lift.edits is None else "lifted")
    if lift.edits is None:
        return
    after = outcomes(apply_edits(text, lift.edits))
    for old, new in zip(before, after, strict=True):
        # Where the original runs, so does the result, to the same end.
        assert old == "unbound" or new == old


@settings(max_examples=50, deadline=None, derandomize=True)
@given(PROGRAMS, st.integers(0, 1000))
def test_any_expression(lines, choice):
    text = file_of(lines)
    before = outcomes(text)
    source = Source("net.py", text)
    function = next(n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef))
    wanted = (ast.BinOp, ast.Compare, ast.Call, ast.IfExp)
    inside = [
        n
        for n in ast.walk(function)
        if isinstance(n, wanted) and not any(isinstance(a, ast.Lambda) for a in source.ancestors(n))
    ]
    if not inside:
        return
    lift = lift_expression(source, inside[choice % len(inside)], function, "_call")
    if lift.edits is None:
        return
    after = outcomes(apply_edits(text, lift.edits))
    for old, new in zip(before, after, strict=True):
        assert old == "unbound" or new == old
