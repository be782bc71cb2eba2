"""Everything that is used of torch's compiler and exporter. Tested with torch 2.13; `missing` says what another version
lacks, and then nothing here is called.

Public: ``torch.compile`` with a custom backend, ``torch.export.export``, ``torch.compiler.reset``,
``torch._logging.set_logs``. Less stable: the names of the loggers that it turns on (``graph_breaks``, ``recompiles``),
their state (``log_state``), the attribute ``real_stack`` of Dynamo's exceptions, ``compile_subgraph_reason`` of the
graphs that a backend gets, ``torch._dynamo.config.patch``, ``Distribution._validate_args``,
``torch._dynamo.guards.profile_guard_manager``, and the registry of graph breaks, which is a file beside Dynamo.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = [
    "Captured",
    "Logged",
    "audible",
    "compiled_parts",
    "compiled_whole",
    "exported",
    "is_unsupported",
    "logged",
    "missing",
    "quiet",
    "registry",
    "settings_kept",
]


@functools.cache
def missing() -> str | None:
    """What this torch lacks, as a sentence; None if it lacks nothing."""
    try:
        import torch._dynamo
        import torch.export
    except ImportError as error:
        return f"This torch ({torch.__version__}) has no torch.compile or torch.export: {error}."
    absent = [
        name
        for name, owner in (
            ("torch._dynamo.exc.Unsupported", getattr(torch._dynamo, "exc", None)),
            ("torch.export.export", torch.export),
            ("torch.compiler.reset", torch.compiler),
        )
        if not hasattr(owner, name.rpartition(".")[2])
    ]
    if not _loggers("graph_breaks"):
        absent.append("the graph_breaks log")
    if not absent:
        return None
    return (
        f"This torch ({torch.__version__}) lacks {', '.join(absent)}. torch.compile and torch.export need torch 2.13."
    )


@functools.cache
def registry() -> dict[str, dict[str, Any]]:
    """Dynamo's kinds of graph breaks: ``{"GB0170": {"Gb_type", "Context", "Explanation", "Hints"}}``. Empty if torch
    has no such file."""
    import torch._dynamo

    path = os.path.join(os.path.dirname(torch._dynamo.__file__), "graph_break_registry.json")
    try:
        with open(path, encoding="utf-8") as file:
            return {code: entries[0] for code, entries in json.load(file).items() if entries}
    except (OSError, ValueError):
        return {}


# ---- logs


@dataclass
class Logged:
    """One log record: its log, its text, and the stack of the exception that was being handled."""

    artifact: str
    text: str
    stack: Any = None


class _Collector(logging.Handler):
    def __init__(self, artifact: str, into: list[Logged]) -> None:
        super().__init__()
        self.artifact = artifact
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        stack = getattr(sys.exc_info()[1], "real_stack", None)
        self.into.append(Logged(self.artifact, record.getMessage(), stack))


def _loggers(artifact: str) -> list[logging.Logger]:
    return [each for each in _all_loggers() if each.name.endswith(f"__{artifact}")]


def _all_loggers() -> list[logging.Logger]:
    """Those of torch; some names have none yet."""
    known = [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
    return [each for each in known if each.name == "torch" or each.name.startswith("torch.")]


@contextlib.contextmanager
def logged(*artifacts: str) -> Iterator[list[Logged]]:
    """Collect what torch writes to these logs of ``TORCH_LOGS`` while this is active, without printing it. Afterwards,
    the logs that the user had enabled are on again."""
    records: list[Logged] = []
    wanted: dict[str, Any] = dict.fromkeys(artifacts, True)
    # `set_logs` turns off all logs that are not passed, and the logs that were on cannot be queried.
    state = vars(torch._logging._internal.log_state)
    chosen = copy.deepcopy(state)
    before = [(each, each.level, each.propagate, each.disabled, [*each.handlers]) for each in _all_loggers()]
    with _levels_at_once():
        torch._logging.set_logs(**wanted)
    listened: dict[logging.Logger, logging.Handler] = {}
    for artifact in artifacts:
        listened |= dict.fromkeys(_loggers(artifact), _Collector(artifact, records))
    for logger, handler in listened.items():
        logger.handlers = [handler]
        logger.propagate = False
    try:
        with audible(*listened):
            yield records
    finally:
        with _levels_at_once():
            torch._logging.set_logs()
            state.update(chosen)
            for logger, level, propagate, disabled, handlers in before:
                logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled
                if logger.level != level:
                    logger.setLevel(level)


@contextlib.contextmanager
def audible(*loggers: logging.Logger) -> Iterator[None]:
    """Let these loggers write even if the user's code has disabled them, as `logging.config.dictConfig` does with all
    that exist, or all loggers, as `logging.disable` does. The others stay silent."""
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = False
        vars(each)["isEnabledFor"] = functools.partial(_is_wanted, each)
    try:
        yield
    finally:
        for each, disabled in zip(loggers, before, strict=True):
            each.disabled = disabled
            del vars(each)["isEnabledFor"]


def _is_wanted(logger: logging.Logger, level: int) -> bool:
    return level >= logger.getEffectiveLevel()


@contextlib.contextmanager
def _levels_at_once() -> Iterator[None]:
    """Each change of a level clears the caches of all loggers in the process; this does so once for all changes."""
    manager: Any = logging.root.manager
    manager._clear_cache = lambda: None
    try:
        yield
    finally:
        del manager._clear_cache
        manager._clear_cache()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Do not print torch's warnings about failed captures, since they become findings."""
    # Handlers are used, since changing a level clears the caches of all loggers.
    noisy = [logger for logger in _all_loggers() if logger.handlers]
    before = [logger.handlers for logger in noisy]
    for logger in noisy:
        kept = [each for each in logger.handlers if not isinstance(each, logging.StreamHandler)]
        logger.handlers = [*kept, logging.NullHandler()]
    root = logging.getLogger("torch")
    propagate, root.propagate = root.propagate, False
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(_Nowhere()), contextlib.redirect_stderr(_Nowhere()):
            warnings.simplefilter("ignore")
            yield
    finally:
        root.propagate = propagate
        for logger, handlers in zip(noisy, before, strict=True):
            logger.handlers = handlers


@contextlib.contextmanager
def settings_kept(names: Iterable[str]) -> Iterator[None]:
    """Restore settings of Dynamo that a file changes when it is imported."""
    import torch._dynamo.config as config

    with config.patch({name: getattr(config, name) for name in names if hasattr(config, name)}):
        yield


class _Nowhere:
    """A stream that discards everything. The output of forward was shown when it ran in eager."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


# ---- torch.compile


@dataclass
class Captured:
    """The result of runs under torch.compile.

    ``graphs`` (``torch.fx.GraphModule``) and ``ends``, for each the stack at which it ended (None for one that ended
    with a return), are those of the first call, ``again`` is the number of graphs from later calls. ``log`` is what
    torch logged, ``error`` the exception of the first call, and ``later`` those of later ones by their number.
    """

    graphs: list[Any] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)
    again: int = 0
    log: list[Logged] = field(default_factory=list)
    error: BaseException | None = None
    later: dict[int, BaseException] = field(default_factory=dict)

    @property
    def is_one(self) -> bool:
        """Whether the first call was captured as exactly one graph."""
        broken = any(each.artifact == "graph_breaks" for each in self.log)
        return self.ends == [None] and not broken


class _Stop(BaseException):
    """Raised once the graph is captured, since nothing has to run."""


def is_unsupported(error: BaseException | None) -> bool:
    """Whether Dynamo reports that it cannot put something into a graph."""
    import torch._dynamo

    return isinstance(error, torch._dynamo.exc.Unsupported)


@contextlib.contextmanager
def _distributions_as_dynamo_has_them() -> Iterator[None]:
    """torch.compile turns off the checks of `torch.distributions` for the rest of the process. Without restoring them,
    later exports would behave differently than in a fresh process."""
    checked = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(checked)


@contextlib.contextmanager
def _guards_not_timed() -> Iterator[None]:
    """Dynamo times the guards of each graph for its log, and empties the caches of the processor before: 25 ms."""
    import torch._dynamo.guards as guards

    timed = getattr(guards, "profile_guard_manager", None)
    if timed is None:
        yield
        return
    guards.profile_guard_manager = lambda *arguments: 0.0  # type: ignore[assignment]
    try:
        yield
    finally:
        guards.profile_guard_manager = timed


def compiled_whole(module: Callable, args: tuple, kwargs: dict[str, Any], dynamic: bool | None = None) -> Captured:
    """Capture ``module`` as one graph, as ``torch.compile(fullgraph=True)`` does, without running it."""
    captured = Captured()

    def stop(graph: Any, inputs: Any) -> Any:
        captured.graphs.append(graph)

        def run(*inputs: Any) -> Any:
            raise _Stop

        return run

    torch.compiler.reset()
    try:
        with quiet(), _guards_not_timed(), _distributions_as_dynamo_has_them():
            torch.compile(module, fullgraph=True, backend=stop, dynamic=dynamic)(*args, **kwargs)
    except _Stop:
        pass
    except Exception as error:
        captured.error = error
    finally:
        torch.compiler.reset()
    return captured


def compiled_parts(
    module: Callable, calls: list[tuple[tuple, dict[str, Any]]], dynamic: bool | None = None
) -> Captured:
    """Run ``module`` under torch.compile, once for each pair of arguments, as a user does; graphs run unchanged.

    If the model is one graph, later calls stop before running it, since by then it is known whether it still fits.
    """
    captured = Captured()
    first = True

    def keep(graph: Any, inputs: Any) -> Any:
        if not first:
            captured.again += 1
            return graph.forward
        captured.graphs.append(graph)
        reason = getattr(graph, "compile_subgraph_reason", None)
        captured.ends.append(reason.user_stack if reason is not None and reason.graph_break else None)

        def run(*inputs: Any) -> Any:
            if not first and captured.is_one:
                raise _Stop
            return graph.forward(*inputs)

        return run

    torch.compiler.reset()
    try:
        logs = logged("graph_breaks", "recompiles")
        with quiet(), _guards_not_timed(), _distributions_as_dynamo_has_them(), logs as captured.log:
            run = torch.compile(module, backend=keep, dynamic=dynamic)
            for number, (args, kwargs) in enumerate(calls):
                try:
                    run(*args, **kwargs)
                except _Stop:
                    pass
                except Exception as error:
                    if first:
                        captured.error = error
                        break
                    captured.later[number] = error
                first = False
    finally:
        torch.compiler.reset()
    return captured


def turned_off() -> str | None:
    """Why torch.compile captures nothing here at all; None if it works."""
    if compiled_parts(lambda x: x + 1, [((torch.ones(1),), {})]).graphs:
        return None
    return (
        "torch.compile is turned off here and captures nothing: by TORCHDYNAMO_DISABLE or TORCH_COMPILE_DISABLE, "
        "torch._dynamo.config.disable, or torch.compiler.set_stance."
    )


# ---- torch.export


def exported(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any = None, strict: bool = False
) -> Any:
    """``torch.export.export`` without its output.

    Raises:
        Exception: any error of torch.
    """
    import torch.export

    try:
        with quiet(), _guards_not_timed() if strict else contextlib.nullcontext():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    finally:
        if strict:  # Dynamo keeps state
            torch.compiler.reset()
