"""Each override point of the tracer, overridden the same way on both libraries."""

import collections

import torch
import torch.fx
import torch.nn as nn
from programs import LIBRARIES, describe
from tracers import Block, Net, both, names

import fxlib


def test_is_leaf_module():
    def make(fx):
        class Leaves(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return isinstance(m, Block) or module_qualified_name == "head"

        return Leaves()

    assert names(both(make, Net())) == ["x", "blocks_0", "blocks_1", "tanh", "head", "output"]


def test_is_leaf_module_may_look_inside_torch():
    def make(fx):
        class NoLeaves(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return False

        return NoLeaves()

    assert "head_weight" in names(both(make, Net()))


def test_is_leaf_module_sees_the_stack():
    def make(fx):
        class Noting(fx.Tracer):
            notes = None

            def is_leaf_module(self, m, module_qualified_name):
                self.notes = self.notes or []
                self.notes.append((module_qualified_name, list(self.module_stack), self.scope.module_path))
                return super().is_leaf_module(m, module_qualified_name)

        return Noting()

    assert len(both(make, Net())[2]) == 8


def test_call_module():
    def make(fx):
        class Quiet(fx.Tracer):
            """Drops activations and doubles what blocks return."""

            def call_module(self, m, forward, args, kwargs):
                if isinstance(m, nn.ReLU):
                    return args[0]
                result = super().call_module(m, forward, args, kwargs)
                return result * 2 if isinstance(m, Block) else result

        return Quiet()

    assert names(both(make, Net())).count("mul_1") == 1


def test_call_module_with_forward_only():
    def make(fx):
        class Flat(fx.Tracer):
            def call_module(self, m, forward, args, kwargs):
                return forward(*args, **kwargs)

        return Flat()

    both(make, Net())


def test_path_of_module():
    def make(fx):
        class Renamed(fx.Tracer):
            def path_of_module(self, mod):
                return "model." + super().path_of_module(mod)

        return Renamed()

    assert "model_head" in names(both(make, Net()))


def test_create_arg():
    class Secret:
        def __init__(self, value):
            self.value = value

    def make(fx):
        class Opens(fx.Tracer):
            def create_arg(self, a):
                if isinstance(a, Secret):
                    return self.create_arg(a.value)
                return super().create_arg(a)

        return Opens()

    both(make, lambda x: torch.add(x, Secret(3), alpha=Secret([x])))


def test_create_args_for_root():
    def make(fx):
        class Extra(fx.Tracer):
            def create_args_for_root(self, root_fn, is_module, concrete_args=None):
                fn, args = super().create_args_for_root(root_fn, is_module, concrete_args)
                extra = self.create_proxy("placeholder", "extra", (), {})
                return (lambda *values: fn(*values) + extra), args

        return Extra()

    assert names(both(make, lambda x: x * 2)) == ["x", "extra", "mul", "add", "output"]


def test_create_node():
    def make(fx):
        class Functional(fx.Tracer):
            def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
                if kind == "call_method" and target.endswith("_"):
                    target = target[:-1]
                node = super().create_node(kind, target, args, kwargs, name, type_expr)
                node.meta["kind"] = kind
                return node

        return Functional()

    assert "add" in names(both(make, lambda x: x.add_(1).relu_()))


def test_create_proxy():
    def make(fx):
        class Noting(fx.Tracer):
            def __init__(self):
                super().__init__()
                self.notes = []

            def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
                self.notes.append((kind, str(target), len(args), sorted(kwargs), name, str(type_expr)))
                return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)

        return Noting()

    both(make, Net())
    assert both(make, lambda x: torch.relu(x).view(x.shape[0], -1) + 1)[2]


def test_create_proxy_without_factory_parameter():
    def make(fx):
        class Old(fx.Tracer):
            def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
                return super().create_proxy(kind, target, args, kwargs, name, type_expr)

        return Old(param_shapes_constant=True)

    both(make, Net())


def test_proxy():
    def make(fx):
        class Loud(fx.Proxy):
            def __add__(self, other):
                return super().__sub__(other)

            def __len__(self):
                return 3

        class Louder(fx.Tracer):
            def proxy(self, node):
                return Loud(node, self)

        return Louder()

    assert names(both(make, lambda x: (x + len(x), x.foo + 1)))[1] == "sub"


def test_to_bool():
    def make(fx):
        class Yes(fx.Tracer):
            def to_bool(self, obj):
                self.create_node("call_function", bool, (obj.node,), {})
                return True

        return Yes()

    result = both(make, lambda x: x if x > 0 and not x < 1 else -x)
    assert "bool_1" in names(result)


def test_iter():
    def make(fx):
        class Pairs(fx.Tracer):
            def iter(self, obj):
                return iter([obj[0], obj[1]])

        return Pairs()

    both(make, lambda x: [v + 1 for v in x] + list(x.split(1)) + [torch.cat(x)])
    both(make, lambda x: torch.add(*x))


def test_keys():
    def make(fx):
        class Known(fx.Tracer):
            def keys(self, obj):
                return iter(["a", "b"])

        return Known()

    both(make, lambda x: dict(**x))
    both(make, lambda x: {**x, "c": [k for k in x.keys()]})  # noqa: SIM118


def test_getattr():
    def make(fx):
        class Values(fx.Tracer):
            """Parameters stay parameters, buffers become proxies."""

            def getattr(self, attr, attr_val, parameter_proxy_cache):
                if isinstance(attr_val, nn.Parameter):
                    return attr_val
                if attr == "shift":
                    return self.create_proxy("get_attr", "blocks.0.shift", (), {})
                return super().getattr(attr, attr_val, parameter_proxy_cache)

        return Values()

    both(make, Net())


def test_getattr_sees_submodules():
    def make(fx):
        class Noting(fx.Tracer):
            def __init__(self):
                super().__init__()
                self.notes = []

            def getattr(self, attr, attr_val, parameter_proxy_cache):
                self.notes.append((attr, type(attr_val).__name__, sorted(parameter_proxy_cache)))
                return super().getattr(attr, attr_val, parameter_proxy_cache)

        return Noting()

    assert ("head", "Linear") in [note[:2] for note in both(make, Net())[2]]


def test_get_fresh_qualname():
    def make(fx):
        class Named(fx.Tracer):
            def get_fresh_qualname(self, prefix):
                return super().get_fresh_qualname("my_" + prefix.strip("_"))

        return Named()

    root = Net()
    root.my_tensor_constant0 = 1

    def forward(x):
        return x + torch.ones(1) + torch.ones(2)

    result = both(make, forward)
    assert "my_tensor_constant1" in names(result)


def test_instance_overrides_are_honoured():
    def make(fx):
        tracer, three = fx.Tracer(), 3
        tracer.is_leaf_module = lambda m, name: isinstance(m, Block)
        tracer.create_arg = lambda a: 7 if a is three else fx.Tracer.create_arg(tracer, a)
        return tracer

    result = both(make, lambda x: torch.add(x, 3))
    assert "7" in result[0][1][3]
    both(make, Net())


def test_what_the_tracer_knows_afterwards():
    for root in (Net(), lambda x: x + torch.ones(1)):
        known = []
        for library in LIBRARIES.values():
            tracer = library.Tracer()
            graph = tracer.trace(root)
            known.append(
                (
                    tracer.node_name_to_scope, tracer.num_calls, list(tracer.module_stack), vars(tracer.scope),
                    list(tracer.tensor_attrs.values()), tracer.root_module_name,
                    sorted(dict(tracer.root.named_modules())), graph._co_fields, graph._tracer_cls is type(tracer),
                )
            )  # fmt: skip
        assert known[0] == known[1]


def test_a_tracer_may_be_used_twice():
    net = Net()

    def run(fx):
        tracer = fx.Tracer()
        tracer.trace(net)
        return describe(tracer.trace(net))

    assert run(fxlib) == run(torch.fx)


def test_scope_context_manager():
    for library in (torch.fx.proxy, fxlib.proxy):
        scope = library.Scope("", None)
        with library.ScopeContextManager(scope, library.Scope("a.b", Net)) as current:
            assert current is scope
            assert (scope.module_path, scope.module_type) == ("a.b", Net)
        assert (scope.module_path, scope.module_type) == ("", None)


def test_module_stack_may_be_changed_by_an_override():
    def make(fx):
        class Outside(fx.Tracer):
            def call_module(self, m, forward, args, kwargs):
                self.module_stack["tag"] = ("tag", type(m))
                try:
                    return super().call_module(m, forward, args, kwargs)
                finally:
                    self.module_stack = collections.OrderedDict()

        return Outside()

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(x) + 1

    both(make, One())
