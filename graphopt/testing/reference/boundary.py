"""Numbers that rewrites trip over, for the values at the boundary of what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dtypes import DType
from graphopt.ir.op import PdOp, operand_names
from graphopt.ir.types import UNKNOWN, dtype_of, shape_of

Array = np.ndarray[Any, Any]
ORDINARY = "ordinary numbers"
ZEROS, TIES = "zeros and ties", "equal and whole numbers"
NAN, INFINITIES = "NaN", "infinities"
LARGE, SMALL, MIXED = "large numbers", "small and denormal numbers", "all kinds of numbers"
KINDS = (ORDINARY, ZEROS, TIES, NAN, INFINITIES, LARGE, SMALL, MIXED)
WITH_ORDER = (ORDINARY, ZEROS, TIES, NAN)
"""Those on which a change of the order of operations changes little."""

# operands that are never negative in a program that works
_POSITIVE = frozenset({"variance", "moment2", "moment2_max", "moments2", "moments2_max"})
_PROBABILITY = frozenset({"beta1_pow", "beta2_pow", "beta1_pows", "beta2_pows"})


def bound(
    leaves: Sequence[SSAValue], kind: str, size: int, seed: int, *, wide: bool
) -> dict[SSAValue, Array]:
    """An array for each value; unknown dimensions get this size. `wide` leaves float64 as it is."""
    generator = np.random.default_rng([seed, size])
    found: dict[SSAValue, Array] = {}
    for value in leaves:
        shape = tuple(size if dim == UNKNOWN else dim for dim in shape_of(value.type))
        dtype = dtype_of(value.type)
        if dtype.is_differentiable:
            # numbers that the declared dtype has, so that both precisions start from the same
            array = _floats(generator, shape, kind, dtype).astype(dtype.numpy)
            array = as_used(value, array)
            found[value] = array.astype(np.float64) if wide and dtype.is_floating else array
        elif dtype == "bool":
            found[value] = generator.random(shape) < 0.5
        else:
            found[value] = _integers(generator, shape, kind, dtype)
    return found


def _floats(
    generator: np.random.Generator, shape: tuple[int, ...], kind: str, dtype: DType
) -> Array:
    array = generator.normal(size=shape)
    limits = ml_dtypes.finfo(dtype.numpy)
    top, low = float(limits.max), float(limits.smallest_normal)
    last = float(limits.smallest_subnormal)
    choices: dict[str, Sequence[float]] = {
        ZEROS: (0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 0.5),
        TIES: (0.5, 1.0, 1.0, -1.0, 1.5, 2.0, 2.5, -2.5, 3.0, 6.0),
        NAN: (np.nan,),
        INFINITIES: (np.inf, -np.inf),
        LARGE: (top, -top, top / 3, top**0.5, -(top**0.6), top**0.75),
        SMALL: (last, -last, low, -low, low * 1.5, low**0.5, -(low**0.5), low**0.75),
        MIXED: (0.0, -0.0, np.inf, -np.inf, np.nan, last, -last, top, -top, 1.0, -1.0),
    }
    if kind not in choices:
        return array
    share = {NAN: 0.1, INFINITIES: 0.15, MIXED: 0.4}.get(kind, 0.7)
    chosen = generator.random(shape) < share
    if not chosen.any() and chosen.size:
        chosen.ravel()[generator.integers(chosen.size)] = True
    return np.where(chosen, generator.choice(np.array(choices[kind]), shape), array)


def _integers(
    generator: np.random.Generator, shape: tuple[int, ...], kind: str, dtype: DType
) -> Array:
    limits = np.iinfo(dtype.numpy)
    if kind in (LARGE, MIXED):
        choices = np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype.numpy)
        return generator.choice(choices, shape)
    return generator.integers(0, 2, shape).astype(dtype.numpy)


def as_used(value: SSAValue, array: Array) -> Array:
    """Without a sign where an op wants a variance or a power of a probability."""
    for use in value.uses:
        op = use.operation
        if not isinstance(op, PdOp):
            continue
        position = use.index
        for name, group in zip(operand_names(type(op)), op.operand_groups(), strict=True):
            if position < len(group):
                if name in _POSITIVE:
                    return np.abs(array)
                if name in _PROBABILITY:
                    return np.minimum(np.abs(array), np.asarray(0.9, array.dtype))
                break
            position -= len(group)
    return array
