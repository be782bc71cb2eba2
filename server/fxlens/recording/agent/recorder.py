"""Watches constructions and calls of modules, and records new ones.

``Module.__new__`` sees the arguments of a construction, before a constructor can change them; ``Module.__init__``
confirms that it is one (copies and unpickled modules are not constructed); ``Module.__call__`` sees the inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .describe import Description, file_of
from .journal import Journal

_CONSTRUCTIONS, _CALLS = 6, 12
"""Distinct constructions of a class, and distinct calls of a construction, that are kept."""
_PATIENCE = 32
"""After so many calls of a class without a new one, only some of its calls are examined, then fewer."""


class Watched:
    """The state for one class of the workspace."""

    def __init__(self, file: str, name: str, makes_itself: bool) -> None:
        self.file = file
        self.name = name
        self.makes_itself = makes_itself
        """Its own ``__new__`` hides the arguments of a construction."""
        self.constructions: set[str] = set()
        self.calls: dict[str, set[Any]] = {}
        self.skip = 0
        self.idle = 0
        self.stride = 1


class Recorder:
    """Records how modules of classes in ``folder`` are constructed and called.

    Args:
        folder: the workspace; classes of other files are not recorded.
        journal: receives the facts.
        calls: after so many calls of one outermost module the program is interrupted, as by Ctrl+C; 0 never.
    """

    def __init__(self, folder: str, journal: Journal, calls: int = 0) -> None:
        self.folder = os.path.join(os.path.realpath(folder), "")
        self.journal = journal
        self.limit = calls
        self.watched: dict[type, Watched | None] = {}
        self.made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.outer_calls = 0
        self._pending = threading.local()
        self._inside = threading.local()
        self._installed = tuple(
            os.path.join(os.path.realpath(sysconfig.get_path(key)), "") for key in ("purelib", "platlib", "stdlib")
        )

    # --- hooks --------------------------------------------------------------------------------------------------------

    def attach(self, torch: Any) -> None:
        """Put the hooks into ``torch.nn.Module``."""
        Module = torch.nn.Module
        new, init, call = Module.__dict__.get("__new__"), Module.__init__, Module.__call__
        compiling = torch.compiler.is_compiling
        watched, watch, guarded = self.watched, self._watch, self._guarded
        pending, note_construction, note_call, limit = self._pending, self._construction, self._call, self.limit

        def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
            # torch's compiler can trace this, but not super().
            if new is None and (compiling() or super(Module, cls).__new__ is object.__new__):  # type: ignore[misc]
                made: Any = object.__new__(cls)
            else:
                made = (new or super(Module, cls).__new__)(cls, *args, **kwargs)  # type: ignore[misc]
            if not compiling():
                try:
                    known = watched[cls]
                except KeyError:
                    known = watch(cls)
                if known is not None and not known.makes_itself:
                    guarded(note_construction, known, made, args, kwargs)
            return made

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            if not compiling() and watched.get(type(self)) is not None:
                guarded(confirm, self)
            init(self, *args, **kwargs)

        def confirm(module: Any) -> None:
            waiting = getattr(pending, "waiting", None)
            if waiting is not None and waiting[0]() is module:
                pending.waiting = None
                self._constructed(module, *waiting[1:])

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return call(self, *args, **kwargs)
            try:
                known = watched[type(self)]
            except KeyError:
                known = watch(type(self))
            if known is not None:
                if known.skip:
                    known.skip -= 1
                else:
                    guarded(note_call, known, self, args, kwargs)
                if limit:
                    return counted(self, args, kwargs)
            return call(self, *args, **kwargs)

        def counted(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            inside = getattr(self._inside, "depth", 0)
            self._inside.depth = inside + 1
            try:
                result = call(module, *args, **kwargs)
            finally:
                self._inside.depth = inside
            if not inside:
                self.outer_calls += 1
                if self.outer_calls == limit:
                    print(f"fxlens record: {limit} calls recorded; stopping the program", file=sys.stderr)
                    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background by a shell
                        signal.signal(signal.SIGINT, signal.default_int_handler)
                    signal.raise_signal(signal.SIGINT)
            return result

        Module.__new__ = staticmethod(__new__)
        Module.__init__, Module.__call__ = __init__, __call__
        self.journal.write({"event": "attached"})

    @staticmethod
    def _guarded(note: Callable[..., None], *arguments: Any) -> None:
        """Suppress all errors, so that unusual values cannot affect the program."""
        with contextlib.suppress(Exception, SystemExit):
            note(*arguments)

    def _watch(self, cls: type) -> Watched | None:
        file = file_of(cls.__module__)
        path = os.path.realpath(file) if file else ""
        ours = (
            path.startswith(self.folder) and not path.startswith(self._installed) and path.endswith((".py", ".ipynb"))
        )
        known = self.watched[cls] = Watched(path, cls.__qualname__, _makes_itself(cls)) if ours else None
        return known

    # --- facts --------------------------------------------------------------------------------------------------------

    def _construction(self, known: Watched, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Describe the arguments now; whether it is a construction is seen when ``Module.__init__`` runs."""
        described = Description(self.made)
        text = described.call(known.name.rpartition(".")[2], args, kwargs)
        # A copied or unpickled module is never confirmed, and must not be kept alive.
        self._pending.waiting = (weakref.ref(module), known, text, described)

    def _constructed(self, module: Any, known: Watched, text: str, described: Description) -> None:
        self.made[module] = text
        if text in known.constructions or len(known.constructions) >= _CONSTRUCTIONS:
            return
        known.constructions.add(text)
        self.journal.write(
            {
                "event": "constructed",
                "file": known.file,
                "name": known.name,
                "construct": text,
                "imports": sorted(described.imports),
                "missing": described.missing,
            }
        )

    def _call(self, known: Watched, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        made = self.made.get(module, "")
        calls = known.calls.setdefault(made, set())
        described = Description(self.made)
        inputs = described.arguments(args, kwargs)
        fact = (inputs, module.training)
        if fact in calls or len(calls) >= _CALLS:
            known.idle += 1
            if known.idle >= _PATIENCE:
                known.idle, known.stride = 0, min(known.stride * 4, 4096)
            known.skip = known.stride - 1
            return
        calls.add(fact)
        known.idle, known.stride = 0, 1
        self.journal.write(
            {
                "event": "called",
                "file": known.file,
                "name": known.name,
                "construct": made,
                "inputs": inputs,
                "training": module.training,
                "imports": sorted(described.imports),
                "missing": described.missing,
            }
        )


def _makes_itself(cls: type) -> bool:
    """Whether a class before ``torch.nn.Module`` has a ``__new__``, which need not pass its arguments on."""
    own = itertools.takewhile(lambda each: each.__module__ != "torch.nn.modules.module", cls.__mro__)
    return any("__new__" in vars(each) for each in own)


def when_torch_is_imported(then: Callable[[Any], None]) -> None:
    """Call ``then(torch)`` once torch is imported; this does not import torch."""
    if "torch" in sys.modules:
        then(sys.modules["torch"])
        return

    class Finder:
        """Finds torch by the other finders, and runs ``then`` after its loader."""

        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name != "torch":
                return None
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            import importlib.util

            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                try:
                    then(module)
                except Exception as error:  # recording must not affect the program
                    print(f"fxlens record: {type(error).__name__}: {error}", file=sys.stderr)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
