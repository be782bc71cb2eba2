"""Lists and dicts that are arguments of nodes.

A node keeps track of which nodes it uses, so its arguments must not change without it: collections inside ``node.args``
and ``node.kwargs`` are these types, equal to and instances of ``list`` and ``dict``, hashable, registered with
``torch.utils._pytree``, and refusing mutation. Turning a node's arguments into them is left to ``node``.
"""

from typing import Any, NoReturn

from torch.utils import _pytree as pytree

__all__ = ["immutable_dict", "immutable_list"]

_help_mutation = """\
If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args"""


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_help_mutation}")


class immutable_list(list):
    """A list that refuses mutation; ``copy`` and slicing give plain lists."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict that refuses mutation; ``copy`` and ``|`` give plain dicts."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_dict, (tuple(self.items()),)


_LIST_MUTATORS = (
    "__delitem__", "__iadd__", "__imul__", "__setitem__",
    "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort",
)  # fmt: skip
_DICT_MUTATORS = ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update")

for _cls, _names in ((immutable_list, _LIST_MUTATORS), (immutable_dict, _DICT_MUTATORS)):
    for _name in _names:
        setattr(_cls, _name, _no_mutation)


def _register_with_pytree() -> None:
    pytree.register_pytree_node(
        immutable_list,
        lambda value: (list(value), None),
        lambda children, context: immutable_list(children),
        serialized_type_name="fxlib.immutable_collections.immutable_list",
        flatten_with_keys_fn=lambda value: ([(pytree.SequenceKey(i), v) for i, v in enumerate(value)], None),
    )
    pytree.register_pytree_node(
        immutable_dict,
        lambda value: (list(value.values()), list(value)),
        lambda children, context: immutable_dict(zip(context, children, strict=True)),
        serialized_type_name="fxlib.immutable_collections.immutable_dict",
        flatten_with_keys_fn=lambda value: ([(pytree.MappingKey(k), v) for k, v in value.items()], list(value)),
    )


_register_with_pytree()
