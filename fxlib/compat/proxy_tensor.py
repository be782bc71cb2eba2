"""Functions as graphs of the ATen operators that they run, by torch's own recording.

torch's dispatcher does the recording; ``make_fx`` and ``get_isolated_graphmodule`` return the result as a module of
this library. Every other name is the object of ``torch.fx.experimental.proxy_tensor``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted, from_torch_fx
from fxlib.interop.torch_side import experimental

_recording = experimental("proxy_tensor")


def make_fx(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., GraphModule]:
    """A function that runs ``f`` on its arguments and returns the graph of the ATen operators that ran.

    Example::

        make_fx(lambda x: x.softmax(-1))(torch.rand(2, 3)).print_readable()

    Args:
        decomposition_table: operator -> function whose operators are recorded in its place.
        tracing_mode: ``"real"``, ``"fake"`` (nothing is computed) or ``"symbolic"`` (sizes are symbols).
        pre_dispatch: record operators before autograd and autocast instead of after them.
        record_module_stack: note in ``meta["nn_module_stack"]`` which submodule ran each operator.
        record_stack_traces: note the place in ``f`` in ``meta["stack_trace"]``.

    The other options are those of torch.
    """
    recorded = _recording.make_fx(f, *args, **kwargs)

    @functools.wraps(recorded)
    def convert(*args: Any, **kwargs: Any) -> GraphModule:
        return from_torch_fx(recorded(*args, **kwargs))

    return convert


def get_isolated_graphmodule(*args: Any, **kwargs: Any) -> GraphModule:
    """The graph of a function that is called while another one is recorded, without becoming part of that recording."""
    made: GraphModule = adopted(_recording.get_isolated_graphmodule(*args, **kwargs))
    return made


# The options are torch's, and may grow with its versions.
for _name in ("make_fx", "get_isolated_graphmodule"):
    globals()[_name].__signature__ = inspect.signature(getattr(_recording, _name))


def __getattr__(name: str) -> Any:
    return getattr(_recording, name)


def __dir__() -> list[str]:
    return dir(_recording)
