"""Changes after an exception in a forward: shapes and dtypes of tensors, and non-tensors."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from . import blame, demands, layers, sandbox
from .demands import Demand
from .feeding import Feeding, tensor_option
from .remedies import Remedies
from .search import Move, Outcome
from .slots import Slot, State, chosen, walk
from .tensors import Spec


class InputRemedies(Remedies):
    """Moves for a search over the arguments of the forward of ``module``."""

    def __init__(self, feeding: Feeding, slots: dict[str, Slot], optional: dict[str, Slot], module: Any) -> None:
        super().__init__(feeding, slots, type(module), optional)
        self.feeding = feeding
        self.module = module

    def moves(self, state: State, outcome: Outcome) -> Iterator[Move]:
        if outcome.error is None:
            return
        failed = blame.failure(self.options.reader.sources, outcome.error)
        blamed = self._suspects.of(blame.suspects(failed.path, failed.message), state)
        slots = [slot for slot, _ in blamed]
        tensors = self._tensors(slots, state)
        yield from self._growing.grown(failed, blamed, state)
        yield from self._of_layer(failed.error, tensors, state)
        if isinstance(failed.error, sandbox.OutOfTime):
            yield from self._smaller(state)
        demand = demands.read(failed.error)
        if failed.path and (met := demands.of_call(failed.message, failed.path[-1])) is not None:
            demand = met
        if demand.sizes:
            yield from self._alike(state)
        yield from self._demanded(demand, tensors, state)
        yield from self._solved(failed.path, blamed, state)
        if failed.path:
            yield from self._sized_by_test(failed.path[-1], tensors, state)
        yield from self._replaced(failed.message, slots, state)
        yield from self._lengths(state)
        yield from self._shared(tensors, state)
        yield from self._spread_sizes(tensors, state)
        yield from self._any(blamed, state)

    def _tensors(self, slots: list[Slot], state: State) -> list[Slot]:
        """Slots that hold a tensor, blamed ones, or those within blamed ones, first."""
        inner: list[Slot] = []
        for slot in slots:
            option = chosen(slot, state)
            inner.append(slot)
            inner += walk(option.parts, state)
            inner += walk({str(index): item for index, item in enumerate(option.items)}, state)
        everything = [*inner, *walk(self.slots, state)]
        return [slot for slot in dict.fromkeys(everything) if chosen(slot, state).spec is not None]

    def _smaller(self, state: State) -> Iterator[Move]:
        """Shorter and smaller tensors, after a timeout."""
        for factor in (4, 2):
            move: Move = {}
            for slot in self._tensors([], state):
                spec = chosen(slot, state).spec
                shape = tuple(
                    size if index == 0 or size <= 8 else max(4, size // factor) for index, size in enumerate(spec.shape)
                )
                rest = (*spec.shape[:3], *shape[3:]) if len(shape) > 3 else shape
                for each in (rest, (*shape[:2], *rest[2:])):
                    if each != spec.shape:
                        move.update(self._with(slot, replace(spec, shape=each)))
                        break
            if move:
                yield move

    def _with(self, slot: Slot, spec: Spec) -> Move:
        return {slot: slot.add(tensor_option(spec, "error"))}

    def _of_layer(self, error: BaseException, tensors: list[Slot], state: State) -> Iterator[Move]:
        """Moves from the requirements of the layer that raised; its input may be an argument itself."""
        met = demands.wanted_by_layer(error.__traceback__)
        need = layers.need(met[0]) if met is not None else None
        if met is None or need is None:
            return
        shape = tuple(met[1].shape)
        for slot in tensors:
            spec = chosen(slot, state).spec
            if need.high and (spec.shape == shape or len(tensors) == 1) and spec.kind != "long":
                yield self._with(slot, replace(spec, kind="long", high=need.high))
            if spec.shape != shape:
                continue
            if len(shape) in need.ranks and need.channels is not None and shape[need.at] != need.channels:
                yield self._with(slot, spec.resized(need.at, need.channels))
            for rank in need.ranks:
                if rank != len(shape):
                    yield self._with(slot, replace(need.spec(rank, self.feeding.sizes.image), kind=spec.kind))
        if need.channels is not None and len(shape) in need.ranks and shape[need.at] != need.channels:
            yield from self._demanded(Demand(((shape[need.at], need.channels),)), tensors, state)
        if len(shape) not in need.ranks:
            yield from self._demanded(Demand(rank=tuple(need.ranks)), tensors, state)

    def _demanded(self, demand: Demand, tensors: list[Slot], state: State) -> Iterator[Move]:
        if demand.flat and any(len(chosen(slot, state).spec.shape) == 4 for slot in tensors):
            yield from self._image_sizes(tensors, state, (32, 224, 28))
        for met, wanted in demand.sizes:
            root, side = round(met**0.5), round(wanted**0.5)
            if root * root == met and side * side == wanted and root > 2:
                yield from self._resized_all(tensors, root, side, state)
            yield from self._resized_together(tensors, met, wanted, state)
            for slot in tensors:
                spec = chosen(slot, state).spec
                order = sorted(range(len(spec.shape)), key=lambda i: (i == 0, -i))
                for index in order:
                    if spec.shape[index] == met and wanted > 0:
                        yield self._with(slot, spec.resized(index, wanted))
            for slot in tensors:
                yield from self._scaled(slot, met, wanted, state)
        for rank in demand.rank:
            yield from self._reranked_together(tensors, rank, state)
            for slot in tensors:
                spec = chosen(slot, state).spec
                if len(spec.shape) != rank and 0 < rank < 7:
                    for other in self.feeding.reranked(spec, rank):
                        yield self._with(slot, other)
        if demand.kind:
            for slot in tensors:
                spec = chosen(slot, state).spec
                if spec.kind != demand.kind:
                    yield self._with(slot, replace(spec, kind=demand.kind, high=4))
        if demand.high:
            for slot in tensors:
                spec = chosen(slot, state).spec
                if spec.kind == "long" and spec.high > demand.high:
                    yield self._with(slot, replace(spec, high=demand.high))
        if demand.larger:
            for factor in (2, 4):
                for slot in tensors:
                    spec = chosen(slot, state).spec
                    if len(spec.shape) > 2:
                        shape = tuple(size if index < 2 else size * factor for index, size in enumerate(spec.shape))
                        yield self._with(slot, replace(spec, shape=shape))
                    elif spec.shape:
                        yield self._with(slot, spec.resized(-1, spec.shape[-1] * factor))

    def _image_sizes(self, tensors: list[Slot], state: State, sizes: tuple[int, ...]) -> Iterator[Move]:
        for size in sizes:
            move: Move = {}
            for slot in tensors:
                spec = chosen(slot, state).spec
                if len(spec.shape) >= 4 and spec.shape[-1] == spec.shape[-2] and spec.shape[-1] != size:
                    move.update(self._with(slot, replace(spec, shape=(*spec.shape[:-2], size, size))))
            if move:
                yield move

    def _resized_all(self, tensors: list[Slot], met: int, wanted: int, state: State) -> Iterator[Move]:
        """Every dimension of this size but the first: as both sides of a window."""
        move: Move = {}
        for slot in tensors:
            spec = chosen(slot, state).spec
            shape = (*spec.shape[:1], *(wanted if size == met else size for size in spec.shape[1:]))
            if shape != spec.shape:
                move.update(self._with(slot, replace(spec, shape=shape)))
        if move:
            yield move

    def _resized_together(self, tensors: list[Slot], met: int, wanted: int, state: State) -> Iterator[Move]:
        """The same dimension of all arguments that have or contain it."""
        for part in (1, len(tensors)) if len(tensors) > 1 else ():
            if part > 1 and (met % part or wanted % part):
                continue
            for index in (1, -1, 2, -2):
                move: Move = {}
                for slot in tensors:
                    spec = chosen(slot, state).spec
                    if -len(spec.shape) <= index < len(spec.shape) and spec.shape[index] == met // part and wanted > 0:
                        move.update(self._with(slot, spec.resized(index, wanted // part)))
                if len(move) > 1:
                    yield move

    def _reranked_together(self, tensors: list[Slot], rank: int, state: State) -> Iterator[Move]:
        alike = [
            slot
            for slot in tensors
            if len(chosen(slot, state).spec.shape) != rank and chosen(slot, state).spec.kind == "float"
        ]
        if len(alike) > 1 and 0 < rank < 7:
            for index in range(3):
                move: Move = {}
                for slot in alike:
                    others = self.feeding.reranked(chosen(slot, state).spec, rank)
                    move.update(self._with(slot, others[min(index, len(others) - 1)]))
                yield move

    def _scaled(self, slot: Slot, met: int, wanted: int, state: State) -> Iterator[Move]:
        """Moves for an actual size that is a multiple or a fraction of an argument's."""
        spec = chosen(slot, state).spec
        # Two spatial dimensions that were flattened: match the wanted number of pixels.
        if len(spec.shape) == 4 and met > 0 and wanted > 0:
            side = (wanted / met) ** 0.5 * spec.shape[-1]
            for size in dict.fromkeys((round(side), int(side))):
                if 0 < size < 2000 and size != spec.shape[-1]:
                    yield self._with(slot, replace(spec, shape=(*spec.shape[:2], size, size)))
        for index in sorted(range(1, len(spec.shape)), reverse=True):
            size = spec.shape[index]
            if size > 1 and met != size and met > 0 and (size * wanted) % met == 0 and 0 < size * wanted // met < 5000:
                yield self._with(slot, spec.resized(index, size * wanted // met))
        for constant in (wanted - met,):
            for index in sorted(range(1, len(spec.shape)), reverse=True):
                size = spec.shape[index] + constant
                if constant and 0 < size < 5000 and spec.shape[index] in (met + 1, met - 1, met // 2):
                    yield self._with(slot, spec.resized(index, size))

    def _sized_by_test(self, step: blame.Step, tensors: list[Slot], state: State) -> Iterator[Move]:
        """Numbers that a failed test compares, one of which is a size of an argument."""
        statement = blame.statement_of(step)
        tests: list[ast.expr] = []
        if isinstance(statement, ast.Assert):
            tests = [statement.test]
        elif isinstance(statement, ast.Raise):
            tests = [test for test, _ in blame.conditions(step.function, statement)][:2]
        for test in tests:
            # Sides of a comparison first: `L == H * W` wants 4096 and has 16.
            sides = [each for n in ast.walk(test) if isinstance(n, ast.Compare) for each in (n.left, *n.comparators)]
            numbers = [v for n in [*sides, *ast.walk(test)] if type(v := _number(n, step)) is int and 0 < v < 5000]
            for met in dict.fromkeys(numbers):
                for wanted in dict.fromkeys([*numbers, *(n * 8 for n in numbers), *(n * 16 for n in numbers)]):
                    if wanted != met:
                        yield from self._demanded(Demand(((met, wanted),)), tensors, state)

    def _alike(self, state: State) -> Iterator[Move]:
        """Three or more tensors of different ranks as the one of the highest: query, key and value go together, and the
        code may tell the rank of one of them only."""
        given = {slot: chosen(slot, state).spec for slot in self._tensors([], state)}
        if len(given) < 3 or any(spec.kind != "float" for spec in given.values()):
            return
        largest = max(given.values(), key=lambda spec: len(spec.shape))
        option = tensor_option(largest, "error")
        move = {slot: slot.add(option) for slot, spec in given.items() if len(spec.shape) < len(largest.shape)}
        if move:
            yield move

    def _shared(self, tensors: list[Slot], state: State) -> Iterator[Move]:
        """Copy the option of one argument to another, or to all."""
        everything = self._tensors([], state)
        for slot in tensors[:3]:
            for other in everything:
                spec = chosen(other, state).spec
                if other is not slot and spec != chosen(slot, state).spec:
                    yield self._with(slot, replace(spec, kind=chosen(slot, state).spec.kind))
        for source in everything[:3] if len(everything) > 2 else ():
            spec = chosen(source, state).spec
            yield {slot: slot.add(tensor_option(spec, "error")) for slot in everything if slot is not source}

    def _spread_sizes(self, tensors: list[Slot], state: State) -> Iterator[Move]:
        """The usual image sizes, for all images at once; then other ranks."""
        yield from self._image_sizes(tensors, state, (224, 32, 28, 128, 96, 256, 16, 8, 512, 299))
        for slot in tensors[:2]:
            spec = chosen(slot, state).spec
            for rank in (3, 4, 2, 5, 1):
                if rank != len(spec.shape):
                    for other in self.feeding.reranked(spec, rank)[:2]:
                        yield self._with(slot, other)
            widths = [w for w in _widths(self.module) if w not in spec.shape]
            for width in widths[:4]:
                for index in (-1, 1):
                    if -len(spec.shape) <= index < len(spec.shape):
                        yield self._with(slot, spec.resized(index, width))


_OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv}


def _number(node: Any, step: blame.Step) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left, step), _number(node.right, step)
        make = _OPERATORS.get(type(node.op))
        try:
            return make(left, right) if make is not None and None not in (left, right) else None
        except Exception:
            return None
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and (chain := blame.chain_of(node)):
        return blame.value_of(step, chain)
    return None


def _widths(module: Any) -> list[int]:
    found: dict[int, None] = {}
    for child in module.modules():
        for name in ("in_channels", "in_features", "num_features", "embed_dim", "input_size"):
            value = getattr(child, "__dict__", {}).get(name)
            if isinstance(value, int) and value > 0:
                found.setdefault(value)
        if len(found) > 8:
            break
    return list(found)
