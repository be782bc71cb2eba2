"""fxlib and torch.fx give the same result for the same programs: same graph and code, or same error."""

import pytest
from programs import LIBRARIES, TABLES, load, outcome

import fxlib

NAMES = [(table, name) for table in TABLES for name in load(table, "fxlib")]


class Overridden(fxlib.Tracer):
    """Overrides everything and changes nothing, so that the slow path is taken."""

    def create_node(self, *args, **kwargs):
        return super().create_node(*args, **kwargs)

    def create_proxy(self, *args, **kwargs):
        return super().create_proxy(*args, **kwargs)

    def create_arg(self, a):
        return super().create_arg(a)

    def proxy(self, node):
        return super().proxy(node)

    def call_module(self, m, forward, args, kwargs):
        return super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod):
        return super().path_of_module(mod)

    def is_leaf_module(self, m, module_qualified_name):
        return super().is_leaf_module(m, module_qualified_name)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def to_bool(self, obj):
        return super().to_bool(obj)

    def iter(self, obj):
        return super().iter(obj)

    def keys(self, obj):
        return super().keys(obj)

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        return super().create_args_for_root(root_fn, is_module, concrete_args)


@pytest.mark.parametrize("tracer_class", [fxlib.Tracer, Overridden], ids=["plain", "overridden"])
@pytest.mark.parametrize(("table", "name"), NAMES, ids=[f"{table}-{name}" for table, name in NAMES])
def test_same_judgement(table, name, tracer_class):
    theirs = outcome(LIBRARIES["torch.fx"], load(table, "torch.fx")[name])
    ours = outcome(LIBRARIES["fxlib"], load(table, "fxlib")[name], tracer_class)
    assert ours[:1] == theirs[:1], f"torch.fx {theirs}, fxlib {ours}"
    if theirs[0] == "failed":
        assert ours[1] == theirs[1], f"torch.fx {theirs}, fxlib {ours}"
        # Our text may add to torch.fx's.
        assert ours[2].startswith(theirs[2])
    else:
        assert ours == theirs


def test_both_verdicts_are_there():
    verdicts = [outcome(LIBRARIES["fxlib"], load(table, "fxlib")[name])[0] for table, name in NAMES]
    assert verdicts.count("failed") > 100
    assert verdicts.count("traced") > 150
