"""Collections that are arguments: equal to the plain ones, hashable, and not to be changed."""

import copy
import pickle

import pytest
from torch.fx import immutable_collections as theirs
from torch.utils import _pytree as pytree

from fxlib.ir import collections as ours

CHANGES = {
    "immutable_list": [
        lambda a: a.append(1), lambda a: a.extend([1]), lambda a: a.insert(0, 1), lambda a: a.pop(),
        lambda a: a.remove(1),
        lambda a: a.clear(), lambda a: a.sort(), lambda a: a.reverse(), lambda a: a.__setitem__(0, 1),
        lambda a: a.__delitem__(0), lambda a: a.__iadd__([1]), lambda a: a.__imul__(2),
    ],
    "immutable_dict": [
        lambda a: a.__setitem__("a", 1), lambda a: a.__delitem__("a"), lambda a: a.update(b=1), lambda a: a.pop("a"),
        lambda a: a.popitem(), lambda a: a.clear(), lambda a: a.setdefault("b", 1), lambda a: a.__ior__({"b": 1}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in CHANGES for change in CHANGES[name]])
def test_changes_are_refused_with_the_same_words(name, change):
    content = [1, 2] if name == "immutable_list" else {"a": 1}
    texts = []
    for module in (ours, theirs):
        value = getattr(module, name)(content)
        with pytest.raises(TypeError) as info:
            change(value)
        texts.append(str(info.value))
        assert value == content
    assert texts[0] == texts[1]


@pytest.mark.parametrize("value", [ours.immutable_list([1, (2, 3)]), ours.immutable_dict(a=1, b=(2,))])
def test_they_behave_like_plain_ones(value):
    plain = list(value) if isinstance(value, list) else dict(value)
    assert value == plain and repr(value) == repr(plain) and isinstance(value, type(plain))
    assert hash(value) == hash(type(value)(plain))
    assert pickle.loads(pickle.dumps(value)) == value and type(pickle.loads(pickle.dumps(value))) is type(value)
    assert type(copy.deepcopy(value)) is type(value)
    assert type(value.copy()) is type(plain)
    leaves, spec = pytree.tree_flatten(value)
    assert leaves == [1, 2, 3] if isinstance(value, list) else leaves == [1, 2]
    assert type(pytree.tree_unflatten(leaves, spec)) is type(value)
    assert pytree.tree_map(lambda x: x + 1, value) == pytree.tree_map(lambda x: x + 1, plain)
