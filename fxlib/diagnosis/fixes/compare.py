"""Running a module on variants of its inputs, and comparing what two modules did and became."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributions import Distribution
from torch.utils import _pytree as pytree

from fxlib.diagnosis.fixes.resize import Resize
from fxlib.ir.copies import value_copy, whole_copy
from fxlib.ir.leaves import map_tensors, tensors_in, write_back

__all__ = [
    "EXTREME",
    "KINDS",
    "NEGATED",
    "NOT_FINITE",
    "STEEP",
    "TRIAL",
    "WHOLE",
    "Outcome",
    "agree",
    "in_another_dtype",
    "of_kind",
    "run",
    "same_state",
    "seed_all",
    "state_of",
    "take_weights",
    "variants",
]

Arguments = tuple[tuple, dict[str, Any]]

_ITEMS = 100  # most items of a container that are compared
_ZEROS = "zeros"
NEGATED = "negated"
LARGE, NAN, MIXED = EXTREME = ("large", "with NaN", "mixed")
"""Variants that are tried in eval mode only: in train mode, running statistics would become NaN."""
NOT_FINITE = (NAN, MIXED)
WHOLE = "in integers"
KINDS = {"in double": torch.float64, "in half": torch.float16, WHOLE: torch.int64}
"""Variants in other dtypes than the example's."""
_ROUNDING = {torch.float64: (1e-9, 1e-10), torch.float16: (1e-2, 1e-3)}
"""Tolerances, relative and absolute, for the results of a variant in this dtype."""
STEEP = ("the example", NEGATED, _ZEROS, LARGE, NAN)
"""Variants whose gradients are compared if that is quick: the others would take the same branches."""
TRIAL = "a trial"
_PATIENCE = {**dict.fromkeys(EXTREME, 0.5), "switched": 2.0, TRIAL: 1.0}
"""CPU seconds for a call with values, or on a branch, that the model is not made for: it may never end. A trial only
tells whether a call is quick."""


@dataclass
class Outcome:
    """One call: its result or the class of its exception, the inputs before and after, and gradients."""

    name: str
    args: tuple
    kwargs: dict[str, Any]
    value: Any = None
    error: str | None = None
    inputs_after: list[torch.Tensor] = field(default_factory=list)
    mutated: list[int] = field(default_factory=list)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    needing: list[bool] = field(default_factory=list)
    """Whether each tensor of the result needs gradients, if these are wanted."""

    @property
    def kinks(self) -> bool:
        """Whether the gradient is ambiguous at these values, as that of `max(a, b)` where both are equal."""
        return self.name.startswith(_ZEROS)

    def differing_effects(self, other: Outcome) -> list[str]:
        """What a caller notices besides the result: inputs that only one of the two changes, or that they change
        differently."""
        effects = []
        if self.mutated != other.mutated:
            effects.append(
                "the caller's tensors are no longer changed" if self.mutated else "the caller's tensors change"
            )
        for old, new in zip(self.inputs_after, other.inputs_after, strict=False):
            if not effects and not _close(old, new)[0]:
                effects.append("the caller's tensors are changed differently")
        kind = _other_kind(self.value, other.value) if self.error is None else None
        return effects if kind is None else [*effects, kind]


def variants(
    given: Callable[[int], Arguments], resize: Resize | None = None, smaller: bool = False
) -> Iterator[tuple[str, tuple, dict[str, Any]]]:
    """The example inputs, and others made of them that may take other branches: another size (where ``resize`` gives
    one), other dtypes, random values, signs, magnitudes, NaN. All of them have the other size if it is the ``smaller``
    one."""
    changes: list[tuple[str, int, Callable[[torch.Tensor], torch.Tensor]]] = [
        ("the example", 0, lambda t: t),
        *((name, 0, functools.partial(_as, dtype)) for name, dtype in KINDS.items()),
        (NEGATED, 0, torch.neg),
        (_ZEROS, 0, torch.zeros_like),
        ("a hundred times", 0, lambda t: t * 100),
        ("a hundredth", 0, lambda t: t / 100),
        ("another draw", 1, lambda t: t),
        (LARGE, 0, lambda t: t * 1e7),
        (NAN, 0, lambda t: _strewn(t, (math.nan, 1, 1, 1))),
        (MIXED, 0, lambda t: _strewn(t, (1e7, 1, math.inf, -1e-7, math.nan, 0, -math.inf))),
    ]
    for index, (name, seed, change) in enumerate(changes):
        args, kwargs = given(seed)
        if name == WHOLE and not any(each.is_floating_point() for each in tensors_in(args, kwargs)):
            continue
        if index and resize is not None and smaller:
            args, kwargs = resize((args, kwargs))

        def changed(tensor: torch.Tensor, change: Callable = change) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            # The result of an operation on an input that needs gradients would no longer be a leaf.
            other = change(tensor.detach())
            return other.requires_grad_(tensor.requires_grad and other.is_floating_point())

        yield name, map_tensors(changed, args), map_tensors(changed, kwargs)
        if resize is not None and not index:
            yield "another size", *resize((args, kwargs))


def _as(dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in another dtype; as integers, scaled so that its values stay distinct."""
    return tensor.to(dtype) if dtype.is_floating_point else (4 * tensor.nan_to_num().clamp(-100, 100)).round().to(dtype)


def of_kind(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """A copy of a model in the dtype of a variant of `KINDS`; for integers the model is unchanged."""
    dtype = KINDS[name]
    model = whole_copy(model)[0]
    return model.to(dtype) if dtype.is_floating_point else model


def _strewn(tensor: torch.Tensor, factors: tuple[float, ...]) -> torch.Tensor:
    """A tensor multiplied by ``factors``, which repeat over its elements."""
    if tensor.layout != torch.strided:
        return tensor
    count = -(-tensor.numel() // len(factors))
    repeated = torch.tensor(factors, dtype=tensor.dtype, device=tensor.device).repeat(count)
    return tensor * repeated[: tensor.numel()].view(tensor.shape)


@contextlib.contextmanager
def _ended(seconds: float) -> Iterator[None]:
    """Raises in Python code that takes longer: ``while x.max() > 1: x = x / 2`` never ends for infinity."""
    end, torchs = time.thread_time() + seconds, os.path.dirname(torch.__file__) + os.sep

    def watch(frame: Any, event: str, argument: Any) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(torchs):
            return None
        if time.thread_time() > end:
            raise TimeoutError(f"took more than {seconds:g} s")
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)


def run(
    model: Any, args: tuple, kwargs: dict[str, Any], name: str, gradients: bool, of_inputs: bool = False, seed: int = 7
) -> Outcome:
    """Call a module on copies of the inputs, under one ``seed``, and record everything that can be compared: with
    ``gradients`` those of the parameters, with ``of_inputs`` those of the inputs, too."""
    given_args, given_kwargs = value_copy((args, kwargs))
    wanted = {f"parameter {n}": p for n, p in model.named_parameters() if p.requires_grad} if gradients else {}
    if of_inputs:
        leaves = {id(each): each for each in tensors_in(given_args, given_kwargs) if each.is_floating_point()}
        # Only a tensor that is no leaf may be changed in place, as the example may be.
        clones = {key: each if each.requires_grad else each.requires_grad_().clone() for key, each in leaves.items()}
        wanted |= {f"input {number}": each for number, each in enumerate(leaves.values())}
        given_args, given_kwargs = map_tensors(lambda each: clones.get(id(each), each), (given_args, given_kwargs))
    given = tensors_in(given_args, given_kwargs)
    outcome = Outcome(name, args, kwargs)
    seed_all(seed)
    try:
        patience = next((seconds for kind, seconds in _PATIENCE.items() if name.startswith(kind)), None)
        ended = contextlib.nullcontext() if patience is None else _ended(patience)
        with torch.set_grad_enabled(gradients), ended:
            value = model(*given_args, **given_kwargs)
        if gradients:
            outcome.needing = [each.requires_grad for each in tensors_in(value)]
            # forward may have frozen some.
            wanted = {name: each for name, each in wanted.items() if each.requires_grad}
            finite = all(bool(each.isfinite().all()) for each in tensors_in(value))
            # If NaN reaches the result, gradients mean nothing; a model that handles NaN has some.
            outcome.gradients = _gradients(wanted, value) if finite or not name.startswith(EXTREME) else {}
    except (Exception, SystemExit) as error:
        outcome.error = type(error).__name__
        return outcome
    outcome.value = map_tensors(_snapshot, value)
    outcome.inputs_after = list(map(_snapshot, given))
    outcome.mutated = [
        index
        for index, (new, old) in enumerate(zip(outcome.inputs_after, tensors_in(args, kwargs), strict=True))
        if not _close(new, old)[0]
    ]
    return outcome


def _snapshot(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _gradients(wanted: dict[str, torch.Tensor], value: Any) -> dict[str, torch.Tensor]:
    """The gradients of the sum of a result; zeros where it does not depend on a tensor."""
    outputs = [tensor for tensor in tensors_in(value) if tensor.requires_grad]
    if not outputs or not wanted:
        return {}
    total = torch.stack([t.float().sum() for t in outputs]).sum()
    found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    pairs = zip(wanted.items(), found, strict=True)
    return {name: torch.zeros_like(tensor) if g is None else g.detach() for (name, tensor), g in pairs}


def seed_all(seed: int) -> None:
    """Seed the generators of torch on the CPU, of random and of NumPy."""
    # torch.manual_seed would also queue a call, with its stack, for every kind of device.
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def agree(old: Outcome, new: Outcome) -> tuple[bool, float, str]:
    """Whether two calls gave the same result: (same, largest absolute difference, what differs)."""
    if old.error is not None or new.error is not None:
        same = old.error is not None and new.error is not None
        return same, 0.0, f"{new.error or 'no error'} instead of {old.error or 'no error'}"
    before, before_spec = pytree.tree_flatten(_plain(old.value))
    after, after_spec = pytree.tree_flatten(_plain(new.value))
    if len(before) != len(after):
        return False, math.inf, f"{after_spec} instead of {before_spec}"
    worst = 0.0
    for left, right in zip(before, after, strict=True):
        own = old.name in KINDS and torch.is_tensor(left) and left.dtype == KINDS[old.name]
        same, error, reason = _close(left, right, *(_ROUNDING.get(left.dtype, ()) if own else ()))
        worst = max(worst, error)
        if not same:
            return False, worst, reason
    for name in old.gradients.keys() & new.gradients.keys():
        left, right = old.gradients[name], new.gradients[name]
        if old.kinks:
            left, right = left.isfinite(), right.isfinite()
        same, error, reason = _close(left, right)
        if not same:
            return False, error, f"the gradient of {name}: {reason}"
    return True, worst, ""


def in_another_dtype(name: str, reason: str) -> str:
    """The text of a note on a variant of `KINDS` that differs."""
    return f"it gives different results {name}: {reason}"


def _other_kind(old: Any, new: Any, where: str = "the result") -> str | None:
    """The first part of the result whose class differs from before."""
    # A class of the file is a new object each time the file is executed.
    kind, own = type(new), [each.__qualname__ for each in type(old).__mro__]
    if not isinstance(old, kind) and kind.__qualname__ not in own:
        return f"{where} is a {kind.__name__} instead of a {type(old).__name__}"
    pairs: list[tuple[Any, Any]] = []
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(value, new[key]) for key, value in old.items() if key in new]
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        pairs = list(zip(old, new, strict=False))
    return next(filter(None, (_other_kind(*pair, "a part of the result") for pair in pairs)), None)


def _plain(value: Any) -> Any:
    """A result with its dataclasses and distributions as dictionaries: the comparison must not depend on whether a
    class is registered with pytree."""

    def fields(part: Any) -> Any:
        if isinstance(part, Distribution):
            return {"": type(part).__qualname__, **{name: _plain(each) for name, each in vars(part).items()}}
        if not _is_dataclass(part):
            return part
        return {each.name: _plain(getattr(part, each.name, None)) for each in dataclasses.fields(part)}

    return pytree.tree_map(fields, value, is_leaf=lambda part: isinstance(part, Distribution) or _is_dataclass(part))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _close(left: Any, right: Any, relative: float = 1e-4, absolute: float = 1e-6) -> tuple[bool, float, str]:
    """Equality up to rounding of tensors, arrays and numbers; a tensor equals an array or number of the same values,
    but a float does not equal an int, since it cannot be an index."""
    if {type(left), type(right)} == {int, float}:
        return False, 0.0, f"{right!r} instead of {left!r}"
    if any(isinstance(each, FakeTensor) for each in (left, right)):
        return False, math.inf, "a tensor without data, which code kept from a trace"
    if _is_numeric(left) and _is_numeric(right):
        a, b = _dense(torch.as_tensor(left)), _dense(torch.as_tensor(right))
        if a.shape != b.shape:
            return False, math.inf, f"shape {tuple(b.shape)} instead of {tuple(a.shape)}"
        if a.dtype != b.dtype and all(map(torch.is_tensor, (left, right))):
            return False, math.inf, f"{b.dtype} instead of {a.dtype}"
        if a.dtype == b.dtype and torch.equal(a, b):
            return True, 0.0, ""
        if a.is_complex() or b.is_complex():
            a, b = torch.view_as_real(a.to(torch.complex128)), torch.view_as_real(b.to(torch.complex128))
        exact = not (a.is_floating_point() or b.is_floating_point())
        a, b = a.double(), b.double()
        difference = (a - b).abs()
        error = float(difference[difference.isfinite()].max()) if difference.isfinite().any() else 0.0
        same = bool(torch.equal(a, b)) if exact else torch.allclose(a, b, relative, absolute, equal_nan=True)
        return same, error, f"values differ by up to {error:.3g}"
    if left is right:
        return True, 0.0, ""
    try:
        same = bool(left == right)
    except Exception:
        same = type(left) is type(right)
    return same, 0.0, f"{right!r} instead of {left!r}"


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """torch cannot compare sparse tensors."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _is_numeric(value: Any) -> bool:
    if isinstance(value, torch.Tensor | bool | int | float | complex):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.kind in "biufc"


def take_weights(model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy another model's parameters and buffers, wherever names and shapes agree."""
    for name, tensor in model.state_dict().items():
        if name in weights and weights[name].shape == tensor.shape:
            write_back(tensor, weights[name])


def state_of(model: torch.nn.Module) -> dict[str, Any]:
    """What a call leaves behind: buffers and plain attributes of every submodule, and plain values of the files that
    define their classes. A buffer with a ``grad_fn`` keeps its autograd graph from call to call."""
    state: dict[str, Any] = {name: _snapshot(tensor) for name, tensor in model.named_buffers()}
    state |= {f"{name}\0": tensor.requires_grad for name, tensor in model.named_buffers()}
    homes: set[str] = set()
    for path, module in model.named_modules():
        homes.add(type(module).__module__)
        for name, value in vars(module).items():
            if not name.startswith("_") and (isinstance(value, torch.Tensor) or _is_plain(value)):
                state[f"{path}.{name}"] = _snapshot(value) if torch.is_tensor(value) else copy.deepcopy(value)
    for home in homes:
        if home.partition(".")[0] != "torch":
            for name, value in vars(sys.modules.get(home, sys)).items():
                if not name.startswith("__") and _is_plain(value):
                    state[f"\0{name}"] = copy.deepcopy(value)
    return state


def _is_plain(value: Any, depth: int = 2) -> bool:
    """Whether a value is a number, a text or nothing, or a small container of such."""
    if isinstance(value, bool | int | float | str | type(None)):
        return True
    if not depth or type(value) not in (list, tuple, dict, set) or len(value) > _ITEMS:
        return False
    return all(_is_plain(each, depth - 1) for each in (value.values() if isinstance(value, dict) else value))


def same_state(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether all state that both have is equal; state that only one has comes from the edit itself."""
    return all(_same(before[name], after[name]) for name in before.keys() & after.keys())


def _same(old: Any, new: Any) -> bool:
    tensors = torch.is_tensor(old), torch.is_tensor(new)
    if all(tensors):
        old, new = _dense(old), _dense(new)
        if old.shape != new.shape or (old.dtype == new.dtype and torch.equal(old, new)):
            return bool(old.shape == new.shape)
        return torch.allclose(old.double(), new.double(), 1e-4, 1e-6, equal_nan=True)
    return not any(tensors) and old == new
