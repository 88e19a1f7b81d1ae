"""Outcomes of programs, and how two differ: in numbers, shapes, results, or by failing.

An outcome is the results by kind and name (`pd.fetch y`), or the exception instead of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import TOLERANCE, Array, run_module
from graphopt.display.units import several
from graphopt.ir.dtypes import DType
from graphopt.reference.stored import by_variable, stored_inputs

Inputs = Mapping[str, Array]
Evaluate = Callable[[ModuleOp, Inputs], Mapping[str, Array]]


class DifferenceKind(Enum):
    """The ways in which two outcomes differ, the worst first."""

    PASS = "pass"
    """A pass failed, or left invalid IR."""
    RUN = "run"
    """Compiling or running the program failed."""
    RESULTS = "results"
    """The sets of results differ."""
    DTYPE = "dtype"
    SHAPE = "shape"
    NAN = "nan"
    """One has NaN in place of the other's number."""
    NUMBERS = "numbers"


# one bug can produce NaN for some inputs and wrong numbers for others
_ALIKE = (
    {DifferenceKind.NAN, DifferenceKind.NUMBERS},
    {DifferenceKind.PASS},
    {DifferenceKind.RUN},
    {DifferenceKind.RESULTS, DifferenceKind.DTYPE, DifferenceKind.SHAPE},
)


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of a comparison; None means the default of the element type (`TOLERANCE`).

    Without `atol`, the absolute tolerance is multiplied by the largest finite number of the result
    if that exceeds 1.
    """

    rtol: float | None = None
    atol: float | None = None

    def bounds(self, wanted: Array) -> tuple[float, float]:
        """Return the relative and the absolute tolerance for a result."""
        usual = TOLERANCE.get(DType(wanted.dtype.name), 1e-9)
        if wanted.dtype.kind in "biu":
            usual = 0.0
        rtol = usual if self.rtol is None else self.rtol
        if self.atol is not None:
            return rtol, self.atol
        numbers = np.abs(_wide(wanted))
        finite = numbers[np.isfinite(numbers)]
        return rtol, usual * max(float(np.max(finite, initial=0.0)), 1.0)


@dataclass(frozen=True)
class Difference:
    """A result, how it differs, and by how much at which element."""

    kind: DifferenceKind
    result: str
    text: str
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.result}: {self.text}" if self.result else self.text

    def like(self, other: Difference) -> bool:
        """True when both may come from one bug."""
        if self.kind in (DifferenceKind.PASS, DifferenceKind.RUN) and self.result != other.result:
            return False  # `result` is the exception's class
        return any(self.kind in kinds and other.kind in kinds for kinds in _ALIKE)


@dataclass(frozen=True)
class RunOutcome:
    """The results of a run, or the exception and whether a pass raised it."""

    results: Mapping[str, Array]
    error: Exception | None = None
    in_pass: bool = False


def run(module: ModuleOp, inputs: Inputs, seed: int = 7) -> dict[str, Array]:
    """Run a module as `run_module`; op by op where sizes depend on data."""
    from graphopt.lowering.dynamic import NeedsData

    try:
        return run_module(module, inputs, seed)
    except NeedsData:
        return run_module(module, inputs, seed, one_by_one=True)


def run_by_op(module: ModuleOp, inputs: Inputs, seed: int = 7) -> dict[str, Array]:
    """Run a module as `run`, but compile each op separately, each kind once for all programs.

    So versions of one program are compared quickly; rounding may differ from a whole program.
    """
    import jax

    from graphopt.lowering.plan import Plan
    from graphopt.lowering.replication import by_op

    plan, inputs = Plan.of(module), stored_inputs(module, inputs)
    with jax.enable_x64(True):
        fetches, written = by_op(module, plan, jax.devices("cpu")[0]).function(
            *(tuple(inputs[p.name] for p in ports)
              for ports in (plan.updated, plan.read_only, plan.feeds)),
            np.array([seed, 1], np.uint32),
        )  # fmt: skip
        ports = (*plan.fetches, *plan.written)
        arrays = map(np.array, (*fetches, *written))
        found = {f"{p.kind} {p.name}": a for p, a in zip(ports, arrays, strict=True)}
    return by_variable(module, found)


def outcome_of(module: ModuleOp, inputs: Inputs, evaluate: Evaluate) -> RunOutcome:
    """Run a module; catch the exception that this may raise."""
    try:
        return RunOutcome(evaluate(module, inputs))
    except Exception as error:
        return RunOutcome({}, error)


def difference(wanted: RunOutcome, found: RunOutcome, tolerance: Tolerance) -> Difference | None:
    """Find the worst difference of two outcomes; None when they are equal within the tolerance."""
    if found.error is not None:
        kind = DifferenceKind.PASS if found.in_pass else DifferenceKind.RUN
        words = " ".join(str(found.error).split())
        name = type(found.error).__name__
        return Difference(kind, name, words[:300] + ("..." if len(words) > 300 else ""))
    if wanted.results.keys() != found.results.keys():
        return Difference(
            DifferenceKind.RESULTS,
            "",
            f"the results changed from {[*wanted.results]} to {[*found.results]}",
        )
    all_found = [
        each
        for name, array in wanted.results.items()
        if (each := _differs(name, array, found.results[name], tolerance)) is not None
    ]
    kinds = list(DifferenceKind)
    return min(all_found, key=lambda d: (kinds.index(d.kind), -d.amount), default=None)


def largest_gap(wanted: RunOutcome, found: RunOutcome) -> tuple[float, str]:
    """Find the largest absolute difference of finite numbers, and its result."""
    gaps = [
        (float(np.max(np.abs(a - b)[both], initial=0.0)), name)
        for name, array in wanted.results.items()
        for a, b in [(_wide(array), _wide(found.results[name]))]
        for both in [np.isfinite(a) & np.isfinite(b)]
    ]
    return max(gaps, default=(0.0, ""))


def _differs(name: str, wanted: Array, found: Array, tolerance: Tolerance) -> Difference | None:
    if wanted.dtype != found.dtype:
        return Difference(DifferenceKind.DTYPE, name, f"{wanted.dtype} became {found.dtype}")
    if wanted.shape != found.shape:
        return Difference(
            DifferenceKind.SHAPE, name, f"{list(wanted.shape)} became {list(found.shape)}"
        )
    a, b = _wide(wanted), _wide(found)
    lost = np.isnan(a) != np.isnan(b)
    if lost.any():
        index = _index(lost)
        text = f"{_at(wanted, index)} became {_at(found, index)} at {list(index)}"
        return Difference(
            DifferenceKind.NAN,
            name,
            f"{text}; {int(lost.sum())} of {several(lost.size, 'element')}",
        )
    rtol, atol = tolerance.bounds(wanted)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where((a == b) | np.isnan(a), 0.0, np.abs(a - b))
        wrong = gap > np.where(np.isfinite(a), atol + rtol * np.abs(a), 0.0)
    if not wrong.any():
        return None
    index = _index(np.where(wrong, gap, -1.0) == np.max(gap[wrong]))
    text = (
        f"{_at(wanted, index)} became {_at(found, index)} at {list(index)}; "
        f"{int(wrong.sum())} of {wrong.size} elements differ by more than "
        f"{atol:.3g} + {rtol:.3g} * |x|"
    )
    return Difference(DifferenceKind.NUMBERS, name, text, float(gap[index]))


def _index(chosen: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(chosen)[0])


def _at(array: Array, index: tuple[int, ...]) -> str:
    return f"{array[index]:.6g}" if array.dtype.kind in "fc" else str(array[index])


def _wide(array: Array) -> Any:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
