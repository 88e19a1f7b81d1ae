"""The comparison of two programs by an interpreter that is independent of XLA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from graphopt.debug.compare import random_inputs, run_module
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.types import Tensor, dtype_of
from graphopt.reference import Unsupported, evaluate

Array = np.ndarray[Any, Any]
Results = Mapping[str, Array]
# in float64 what is equal in real arithmetic is equal to this, relative to the largest number
ALIKE = 1e-7
# and to this where a half type rounds constants: folded ones, or those of a formula made one op
ALIKE_FOLDED = 2.0**-7


HALF_TYPES = ("float16", "bfloat16")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, 1.0, -1.0)


class Unknown(Exception):
    """The interpreter cannot compute a program; the message says why."""


def inputs_of(module: ModuleOp, seed: int = 0) -> dict[str, Array]:
    """Make random inputs; an open batch has its size before opening, 2."""
    return random_inputs(module, seed, unknown=2)


def special_inputs_of(module: ModuleOp, seed: int = 0) -> dict[str, Array]:
    """Make inputs with special numbers at some places, on which rounding rules may fail."""
    generator, inputs = np.random.default_rng(seed), inputs_of(module, seed)
    with np.errstate(all="ignore"):
        for array in inputs.values():
            if array.dtype.kind in "fV":
                chosen = generator.random(array.shape) < 0.4
                array[chosen] = generator.choice(SPECIAL, int(chosen.sum())).astype(array.dtype)
    return inputs


def alike_of(module: ModuleOp) -> float:
    """Return the tolerance in float64 for programs that are derived from this one."""
    ops = list(module.walk())
    constants = any(isinstance(op, AssignValue) or _is_rounded(op) for op in ops)
    types = (result.type for op in ops for result in op.results)
    half = any(isa(type_, Tensor) and dtype_of(type_) in HALF_TYPES for type_ in types)
    return ALIKE_FOLDED if constants and half else ALIKE


def _is_rounded(op: Operation) -> bool:
    """True for a full tensor whose dtype cannot represent its value."""
    if not isinstance(op, Full):
        return False
    value = op.attr("value")
    return float(np.asarray(value, dtype_of(op.out.type).numpy)) != value


def other_bits(wanted: Results, found: Results) -> str:
    """Find the first result whose bits differ, "" for none; all NaN are equal."""
    for name, array in wanted.items():
        if _bits(array) != _bits(found[name]):
            return name
    return ""


def _bits(array: Array) -> tuple[Any, ...]:
    if array.dtype.kind in "fV":
        wide = array.astype(np.float64)
        wide[np.isnan(wide)] = np.nan
        return array.shape, array.dtype.name, wide.tobytes()
    return array.shape, array.dtype.name, array.tobytes()


def results(module: ModuleOp, inputs: Mapping[str, Array], precision: str = "float64") -> Results:
    """Compute a program by the reference interpreter; Unknown if an op has no rule."""
    try:
        with np.errstate(all="ignore"):
            return evaluate(module, inputs, precision=precision)
    except Unsupported as error:
        raise Unknown(str(error)) from error


def jax_results(module: ModuleOp, inputs: Mapping[str, Array]) -> Results:
    """Compute a program by JAX and XLA."""
    return run_module(module, inputs)


def difference(wanted: Results, found: Results, alike: float = ALIKE) -> str:
    """Describe the difference in a sentence; "" for equal results."""
    if wanted.keys() != found.keys():
        return f"the results changed from {list(wanted)} to {list(found)}"
    for name, a in wanted.items():
        b = found[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{a.shape} became {b.dtype}{b.shape}"
        absolute, relative = deviation(a, b)
        if relative > alike:
            return f"{name}: differs by {absolute:.3g} ({relative:.3g} of the largest number)"
    return ""


def deviation(a: Array, b: Array) -> tuple[float, float]:
    """Return the largest absolute difference, and its ratio to the largest finite number.

    Infinite where one is NaN or infinite and the other is not the same.
    """
    x, y = (
        np.asarray(v).astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b)
    )
    if not x.size:
        return 0.0, 0.0
    special = ~(np.isfinite(x) & np.isfinite(y))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if (special & ~same).any():
        return np.inf, np.inf
    with np.errstate(all="ignore"):
        apart = np.where(special, 0, np.abs(x - y)).max()
        largest = np.where(special, 0, np.abs(x)).max()
    return float(apart), float(apart / max(largest, 1.0))
