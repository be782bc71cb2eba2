"""Classes as parts of models that are constructed: where a model contains one, and how its forward calls it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from fxlens.recording.agent.describe import Description
from fxlens.sources import known
from fxlens.sources.targets import Source, Target

from . import alone, construct, example_inputs, guess
from .assume import sandbox
from .construct import Made
from .example_inputs import Inputs
from .scope import class_named

_SECONDS = 3.0


@dataclass(frozen=True)
class Part:
    """``path`` is the module's path in the model; ``inputs`` are its arguments, None if it is not called."""

    whole: Made
    path: str
    module: Any
    inputs: Source | None

    def made(self) -> Made:
        """The source of the module: assumed if the model is."""
        source = self.whole.source
        text = f"{source.text}.get_submodule({self.path!r})"
        made = "assumed" if source.source == "assumed" else "parent"
        part = Source(text, made, source.line, source.file)
        return replace(self.whole, module=self.module, source=part, inputs=None)


class Parts:
    """The constructed models of this file and others; those of this file run within ``apart``."""

    def __init__(
        self, namespace: ModuleType, apart: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> None:
        self._namespace = namespace
        self._apart = apart
        self._wholes: list[_Whole] = []
        self._looked_at: set[str] = set()

    def add(self, made: Made, inputs: Inputs | None = None) -> None:
        """Adds a model, with its inputs if known."""
        self.add_lazily(made, lambda: inputs)

    def add_lazily(self, made: Made, inputs: Callable[[], Inputs | None]) -> None:
        """Adds a model, with a function that finds its inputs on demand."""
        before = next((each for each in self._wholes if each.made.module is made.module), None)
        if before is not None:
            self._wholes.remove(before)
        here = any(each is type(made.module) for each in vars(self._namespace).values())
        apart = self._apart if here else contextlib.nullcontext
        kinds = {type(module) for module in made.module.modules()} if before is None else before.kinds
        self._wholes.append(_Whole(made, inputs, self._namespace, apart, kinds))

    def look(self, target: Target) -> Made | None:
        """Constructs the models of other files that contain the class by the index; an expression for the part itself
        is used directly."""
        import torch

        kind = class_named(self._namespace, target.name)
        for source in target.construct:
            if source.source != "parent" or source.text in self._looked_at:
                continue
            try:
                module, meta = construct.evaluate(self._namespace, source, torch.nn.Module)
            except (Exception, sandbox.OutOfTime):
                module = None
            if type(module) is kind:
                return Made(module, source, meta)
            self._looked_at.add(source.text)
            if isinstance(module, torch.nn.Module):
                made = Made(module, source, meta)
                own = [each for each in target.inputs if each.made == source.text]
                self.add_lazily(made, partial(self._inputs, replace(target, inputs=own), made))
        return None

    def _inputs(self, target: Target, made: Made) -> Inputs | None:
        from fxlib.diagnosis.diagnose import graph_of

        given = example_inputs.make(self._namespace, target, made)
        if given is not None and given.values is not None:
            return given
        return example_inputs.infer(self._namespace, made, given, graph_of(made.module))

    def holders(self, kind: type) -> int:
        """The number of models that contain an instance of the class."""
        return sum(each.made.module.__class__ is not kind and kind in each.kinds for each in self._wholes)

    def find(self, kind: type, assumed: bool = False) -> Part | None:
        """An instance of the class, preferably one called with known inputs; only in models whose construction is
        ``assumed``, or only in others."""
        wholes = [each for each in self._wholes if (each.made.source.source == "assumed") == assumed]
        first = None
        # Finding the inputs of models of other files is slow: stop at the first one that calls the class.
        for part in (part for whole in wholes for part in whole.parts(kind)):
            if part.inputs is not None:
                return part
            first = first or part
        return first


def make(namespace: ModuleType, target: Target) -> Made:
    """Constructs one class alone, by the best available way. Raises CannotConstruct."""
    ways, parts = construct.Construction(namespace, target), Parts(namespace)
    made = ways.said() or parts.look(target)
    if made is None and (part := parts.find(ways.kind)) is not None:
        target.inputs += [part.inputs] if part.inputs is not None else []
        made = part.made()
    return made or ways.assumed()


class _Whole:
    """One model; its forward runs once a part of it is needed."""

    def __init__(
        self,
        made: Made,
        inputs: Callable[[], Inputs | None],
        namespace: ModuleType,
        apart: Callable[[], AbstractContextManager[None]],
        kinds: set[type],
    ) -> None:
        self.made, self.kinds = made, kinds
        self._apart = apart
        self._find_inputs = inputs
        self._namespace = namespace
        self._calls: dict[str, str] | None = None

    @cached_property
    def _inputs(self) -> Inputs | None:
        """The inputs, found on demand; a model that raises meanwhile gives no parts."""
        with contextlib.suppress(Exception, SystemExit, sandbox.OutOfTime):
            return self._find_inputs()
        return None

    def paths(self, kind: type) -> Iterator[tuple[str, Any]]:
        for path, module in self.made.module.named_modules() if kind in self.kinds else ():
            if path and type(module) is kind:
                yield path, module

    def parts(self, kind: type) -> Iterator[Part]:
        """The first one that is called, or else the first."""
        found = list(self.paths(kind))
        if found:
            calls = self._called()
            path, module = next((each for each in found if each[0] in calls), found[0])
            yield Part(self.made, path, module, self._source(calls.get(path)))

    def _source(self, text: str | None) -> Source | None:
        if text is None or self._inputs is None:
            return None
        said = self._inputs.source
        kind = said.source if said.source in ("inferred", "assumed") else "parent"
        return Source(text, kind, said.line, said.file)

    def _called(self) -> dict[str, str]:
        """The arguments of the first call of each submodule, by its path, as far as forward runs on meta."""
        if self._calls is None:
            self._calls = {}
            if self._inputs is not None and self._inputs.values is not None:
                with self._apart(), contextlib.suppress(Exception, sandbox.OutOfTime):
                    self._run(self._inputs)
        return self._calls

    def _run(self, inputs: Inputs) -> None:
        import torch

        calls = self._calls
        assert calls is not None and inputs.values is not None
        trial = guess.shadow(self.made.module)

        def note(path: str) -> Any:
            def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                if path not in calls and (text := self._text(args, kwargs)):
                    calls[path] = text

            return hook

        own = vars(self._namespace).values()
        # Functions stored on a model may call the modules of the original.
        hooks = [
            module.register_forward_pre_hook(note(path), with_kwargs=True)
            for path, module in (*trial.named_modules(), *self.made.module.named_modules())
            if path and type(module) in own
        ]
        try:
            with sandbox.trial(_SECONDS), torch.device("meta"), torch.no_grad():
                args, kwargs = example_inputs.arguments(inputs, on_meta=True)
                alone.run(trial, lambda: trial(*args, **kwargs))
        finally:
            for each in hooks:
                each.remove()

    def _text(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        written = Description({})
        text = written.arguments(args, kwargs)
        if written.missing:
            return None
        return known.arguments(text, written.imports)
