"""Finding the nodes that a backend gets wrong, in each way of searching; against torch.fx where that finds them."""

import contextlib
import io

import pytest
import torch

import fxlib
from fxlib.passes.net_min_base import FxNetMinimizerBadModuleError, _MinimizerBase, _MinimizerSettingBase

from .both import assert_same

NAMES = ["sin", "cos", "relu", "tanh", "add", "neg", "mul", "sigmoid"]
INPUTS = (torch.rand(3) + 0.5, torch.rand(3))


def program(x, y):
    x = torch.tanh(torch.relu(torch.cos(torch.sin(x))))
    return torch.sigmoid(torch.mul(torch.neg(torch.add(x, y)), 2.0))


def compare(a, b, names):
    pairs = [(a, b)] if isinstance(a, torch.Tensor) else list(zip(a, b, strict=True))
    error = max((left - right).abs().max().item() for left, right in pairs)
    return round(error, 3), error < 1e-4


def minimizer(base, gm, wrong, failing=(), **settings):
    """``b`` adds one to what the functions named ``wrong`` give, and cannot run those named ``failing``."""

    class Backend(base._MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            values = dict(zip([n for n in mod.graph.nodes if n.op == "placeholder"], inputs, strict=True))
            for node in mod.graph.nodes:
                args = [values.get(arg, arg) for arg in node.args] if node.op != "output" else []
                if node.op == "call_function":
                    if node.target.__name__ in failing:
                        raise ValueError("cannot run it")
                    values[node] = node.target(*args) + (node.target.__name__ in wrong)
                elif node.op == "output":
                    result = node.args[0]
                    return tuple(map(values.get, result)) if isinstance(result, (tuple, list)) else values[result]

    return Backend(gm, INPUTS, compare, base._MinimizerSettingBase(**settings))


def search(base, gm, wrong, failing=(), call=None, **settings):
    found = minimizer(base, gm, wrong, failing, **settings)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        culprits = found.minimize(**(call or {}))
    return sorted(node.name for node in culprits), found, printed.getvalue()


@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "block"])
def test_one_culprit_as_torch_fx_finds_it(method):
    def scenario(side):
        base = side("passes.net_min_base")
        # Searching for blocks, torch.fx does not find one that begins with the first node.
        for wrong in NAMES[method == "block" :]:
            gm = side().symbolic_trace(program)
            for kind in ({"wrong": [wrong]}, {"wrong": [], "failing": [wrong]}):
                names, found, printed = search(base, gm, traverse_method=method, **kind)
                side.report(names)
                if method != "block":  # it tries other parts in between
                    side.report(sorted(found.results.items()))
                if method in ("sequential", "accumulate"):
                    side.report(printed)
        for call in ({"start": "cos", "end": "tanh"}, {"end": "cos"}, {"start": "add"}):
            side.report(search(base, gm, ["relu"], call=call, traverse_method=method)[0])

    assert_same(scenario, at_least=17)


def test_every_way_finds_what_is_wrong():
    gm = fxlib.symbolic_trace(program)

    def found(wrong, call=None, **settings):
        import fxlib.passes.net_min_base as base

        return search(base, gm, wrong, call=call, **settings)[0]

    for method in ("sequential", "binary", "accumulate"):
        assert found(["cos", "mul"], traverse_method=method, find_all=True) == ["cos", "mul"], method
        assert found([], traverse_method=method, find_all=True) == []
        assert found(["cos", "mul"], traverse_method=method) == ["cos"]
    skip = {"skip_nodes": ["tanh"]}
    assert found(["cos", "mul"], skip, traverse_method="skip") == sorted(set(NAMES) - {"tanh"})
    assert found(["tanh"], skip, traverse_method="skip") == []
    assert found(["relu"], traverse_method="defined") == sorted(NAMES)
    assert found(["relu"], {"start": "tanh"}, traverse_method="defined") == []
    assert found(["relu"], {"find_last_node": True}, traverse_method="block") == ["cos", "relu", "sin"]
    assert found(["relu"], {"find_last_node": False}, traverse_method="block") == sorted(NAMES[2:])
    assert found(["relu"], traverse_method="block", return_intermediate=True) == ["relu"]
    assert found(["relu"], traverse_method="sequential", all_outputs=True) == ["relu"]
    # On b's own values what follows the culprit differs too, unless each is compared on its own.
    assert found(["relu"], traverse_method="sequential", accumulate_error=True, find_all=True)[:1] == ["add"]
    for bad, kind in (({"start": "nothing"}, ValueError), ({"start": "mul", "end": "sin"}, ValueError)):
        with pytest.raises(kind, match=r"nothing|before"):
            found([], bad)
    with pytest.raises(RuntimeError, match="skip_nodes"):
        found([], traverse_method="skip")
    with pytest.raises(RuntimeError, match="Unknown traverse method"):
        found([], traverse_method="guess")


def test_parts_are_exported_excluded_and_must_hold_together(capsys):
    gm = fxlib.symbolic_trace(program)
    import fxlib.passes.net_min_base as base

    made = minimizer(base, gm, ["relu"])
    exported = []
    made.module_exporter = lambda inputs, part, name: exported.append((name, part.code.count("torch.")))
    made.exclusion_fn = lambda nodes, start, end: nodes.remove(nodes[0]) if nodes[0].name == "sin" else None
    assert [node.name for node in made.minimize()] == ["relu"]
    assert exported == [("relu_cpu", 1), ("relu_acc", 1)]
    assert ("sin",) not in made.results
    made.run_nodes("cos", "tanh")
    assert "Result mismatch for ('tanh',)" in capsys.readouterr().out
    named = {node.name: node for node in gm.graph.nodes}
    with pytest.raises(FxNetMinimizerBadModuleError, match="tanh"):
        made._build_submodule({named["cos"], named["tanh"]})
    plain = _MinimizerBase(gm, INPUTS, compare, _MinimizerSettingBase())
    for run in (plain.run_a, plain.run_b):
        with pytest.raises(RuntimeError, match="is not implemented"):
            run(gm, INPUTS)
