"""Which expressions surely make a tensor of their own, by the text alone: what is done to it is seen by nobody else,
and autograd does not reach through it to an input."""

from __future__ import annotations

import ast
import re

from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.given import AN_INT, to_name
from fxlib.diagnosis.fixes.names import self_name
from fxlib.diagnosis.fixes.runs import Runs
from fxlib.diagnosis.fixes.source import FunctionNode

__all__ = ["is_fresh", "kept_by_another"]

# Functions and methods that always write into new memory. Views, casts and dropout may give what they get.
_NEW = re.compile(
    r"^(clone|zeros|ones|empty|full|rand|randn|randint|arange|linspace|eye|tensor|cat|concat|stack|where|exp|log\w*|sqrt|"
    r"rsqrt|sigmoid|tanh|softmax|log_softmax|relu|gelu|silu|sin|cos|abs|add|sub|mul|div|pow|matmul|mm|bmm|linear|"
    r"conv\dd|layer_norm|sum|mean|var|std|cumsum|masked_fill|index_fill|scatter|slice_scatter|select_scatter|repeat|"
    r"clamp|round|floor|ceil|neg|sign|new_\w+|einsum|norm|normalize|argmax|argmin|amax|amin|flip|roll|gather|"
    r"index_select|one_hot|embedding|tril|triu|bernoulli|multinomial)(_like)?$"
)
_LAYER = re.compile(
    r"\.(\w*Linear|Bilinear|Conv\w+|\w*Norm\w*|Embedding|GELU|SiLU|Sigmoid|Tanh|Softmax|LogSoftmax|Softplus)$"
)
_VIEWS = {
    "view", "reshape", "t", "T", "mT", "transpose", "permute", "unsqueeze", "squeeze", "expand", "chunk", "split",
    "unbind", "narrow", "detach", "flatten", "data", "contiguous", "to", "view_as", "select", "diagonal", "unfold",
}  # fmt: skip


def is_fresh(site: Site, node: ast.AST | None, function: FunctionNode | None = None) -> bool:
    """Whether an expression of a function always makes a new tensor."""
    return _is_fresh(site, node, function or site.function, set())


def _is_fresh(site: Site, node: ast.AST | None, function: FunctionNode | None, seen: set[str]) -> bool:
    if node is AN_INT or isinstance(node, ast.Constant | ast.BinOp | ast.Compare):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.Invert)
    if isinstance(node, ast.IfExp):
        return all(_is_fresh(site, each, function, seen) for each in (node.body, node.orelse))
    if isinstance(node, ast.Name):
        given = [] if node.id in seen else list(to_name(site.source, node, function))
        seen.add(node.id)
        return bool(given) and all(_is_fresh(site, value, where, seen) for value, where in given)
    if not isinstance(node, ast.Call) or any(each.arg in ("inplace", "out") for each in node.keywords):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    of_torch = (site.call_name(node) or "").startswith("torch.")
    if _NEW.match(called) and (of_torch or not _is_own(site, node.func, function)):
        return True
    made = Runs(site).of(node.func, function)
    return bool(made) and all(isinstance(each, str) and _LAYER.search(each) for each in made)


def _is_own(site: Site, called: ast.expr, function: FunctionNode | None) -> bool:
    """Whether a call is one of a method or a submodule of the class."""
    me = self_name(site.source, function) if function is not None else None
    return isinstance(called, ast.Attribute) and me is not None and getattr(called.value, "id", None) == me


def kept_by_another(site: Site, name: str) -> bool:
    """Whether something else in a function may be the same tensor as a name: another name, an attribute or a container
    that gets it, or a view of it."""
    for node in ast.walk(site.function or site.source.tree):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        value: ast.AST = node
        above = site.source.parents.get(value)
        while isinstance(above, ast.IfExp | ast.Subscript) or (
            isinstance(above, ast.Attribute) and above.attr in _VIEWS
        ):
            if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
                break
            value, above = above, site.source.parents.get(above)
            if isinstance(above, ast.Call) and above.func is value:
                value, above = above, site.source.parents.get(above)
        if isinstance(above, ast.Assign | ast.AnnAssign | ast.NamedExpr) and above.value is value:
            return True
        if isinstance(above, ast.List | ast.Tuple | ast.Set | ast.Dict) and not _is_returned(site, above):
            return True
        if isinstance(above, ast.Call) and getattr(above.func, "attr", "") in ("append", "add", "insert", "update"):
            return True
    return False


def _is_returned(site: Site, node: ast.AST) -> bool:
    return isinstance(site.source.parents.get(node), ast.Return)
