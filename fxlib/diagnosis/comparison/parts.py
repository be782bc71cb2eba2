"""What the parts of a model return on both sides: a part that gave the same values need not be compared alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils import _pytree as pytree

from fxlib.capture.proxy import Proxy
from fxlib.codegen.function import CodeGen
from fxlib.codegen.graph_module import GraphModule
from fxlib.diagnosis.fixes.compare import Outcome, agree
from fxlib.interop.torch_side import foreign_proxy
from fxlib.ir.leaves import map_tensors, tensors_in
from fxlib.ir.objects import home_of

__all__ = ["Asked", "Kind", "Returned", "kind_of", "proven"]

_SCALARS = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))
_PLAIN = (torch.Tensor, *_SCALARS)
_OF_MODULES = frozenset(vars(nn.Module()))
_MOST = 1000  # items of a container that is compared

Kind = tuple[Any, ...]
"""See `kind_of`."""


class Returned:
    """Records, within, what each call of a part returns; parts of torch's classes do not count."""

    def __init__(self, model: nn.Module) -> None:
        parts = {path: each for path, each in model.named_modules() if path}
        self.kinds = {path: kind_of(each) for path, each in parts.items() if not home_of(each).startswith("torch.")}
        self.values: dict[str, list[Any]] = {}
        """The leaves of all results of a part, by its path."""
        self.copies: dict[str, list[Any]] = {}
        """The same as they were then: the model may change them later, as in `y += 1`, which a graph does not."""
        self._paths = {id(parts[path]): path for path in self.kinds}

    def __enter__(self) -> Returned:
        self._hook = register_module_forward_hook(self._note)
        return self

    def __exit__(self, *error: Any) -> None:
        self._hook.remove()

    def _note(self, module: nn.Module, args: Any, result: Any) -> None:
        if (path := self._paths.get(id(module))) is not None:
            leaves = pytree.tree_leaves(result)
            self.values.setdefault(path, []).append(leaves)
            self.copies.setdefault(path, []).append([_copy(leaf) for leaf in leaves])


class Asked:
    """A graph that also tells what the parts of its model returned while it was traced."""

    def __init__(self, module: GraphModule, traced: Returned) -> None:
        self.module, self._traced = module, traced
        self.calls: list[dict[str, list[Any]]] = []
        """What `Returned` records, for each call."""
        nodes = {node.name: node for node in module.graph.nodes}
        leaves = [leaf for leaf in pytree.tree_leaves(traced.values) if _is_node(leaf)]
        self._asks = type(module.graph._codegen) is CodeGen and all(leaf.node.name in nodes for leaf in leaves)
        if self._asks:
            output = module.graph.output_node()
            self._names = list(dict.fromkeys(leaf.node.name for leaf in leaves))
            output.args = ((output.args[0], tuple(nodes[name] for name in self._names)),)
            module.recompile()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append({})
        if not self._asks:
            return self.module(*args, **kwargs)
        value, given = self.module(*args, **kwargs)
        known = dict(zip(self._names, given, strict=True))

        def found(leaf: Any) -> Any:
            return known[leaf.node.name] if _is_node(leaf) else leaf

        self.calls[-1] = pytree.tree_map(found, self._traced.values)
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


def kind_of(module: nn.Module) -> Kind:
    """What decides, besides its inputs and weights, which of its code a module runs: the classes and modes of itself
    and its parts, and those of their attributes that are numbers, texts and the like; of others the type. Layers of
    torch are one node each, whatever their attributes."""
    rows = []
    for path, each in module.named_modules():
        own = vars(each).items() if not home_of(each).startswith("torch.") else ()
        plain = ((name, _text(value)) for name, value in own if name not in _OF_MODULES)
        rows.append((path, type(each), each.training, *sorted(plain)))
    return tuple(rows)


def _text(value: Any) -> str:
    container = type(value) in (list, tuple, dict)
    if container and len(value) > _MOST:
        return type(value).__qualname__
    try:
        leaves = pytree.tree_leaves(value) if container else [value]
    except RecursionError:  # it contains itself
        return type(value).__qualname__
    plain = len(leaves) <= _MOST and all(isinstance(leaf, _SCALARS) for leaf in leaves)
    return repr(value) if plain else type(value).__qualname__


def proven(eager: list[Returned], graph: list[dict[str, list[Any]]]) -> set[Kind]:
    """The kinds of which each part that ran gave, in each call, the same in eager as in the graph."""
    good: set[Kind] = set()
    bad: set[Kind] = set()
    kinds = eager[0].kinds if eager else {}  # later calls may have changed attributes
    for old, new in zip(eager, graph, strict=False):
        for path, values in old.values.items():
            alike = path in new and (_agree(old.copies[path], new[path]) or _agree(values, new[path]))
            (good if alike else bad).add(kinds[path])
    return good - bad


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _is_node(leaf: Any) -> bool:
    # An attribute, as `x.shape`, has a node only once it is used.
    return isinstance(leaf, Proxy | foreign_proxy) and type(leaf).__name__ != "Attribute"


def _agree(old: Any, new: Any) -> bool:
    if not all(isinstance(leaf, _PLAIN) for leaf in pytree.tree_leaves((old, new))):
        return False  # it may hold proxies
    if [each.requires_grad for each in tensors_in(old)] != [each.requires_grad for each in tensors_in(new)]:
        return False
    old, new = map_tensors(torch.Tensor.detach, (old, new))
    return agree(Outcome("", (), {}, old), Outcome("", (), {}, new))[0]
