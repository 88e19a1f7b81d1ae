"""Hard numbers for rewrites, planted in the values at the boundary of the compared ops.

Every number of a kind is planted in every value, whatever its shape: a small value gets them over
several rounds. In every other round values of one shape get the same numbers at the same places, so
that ties and zeros of one sign meet; in the other rounds each value has an order of its own, with
ordinary numbers in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.passes.engine.numerics import Numbers

Array = np.ndarray[Any, Any]
SHARE: Mapping[Numbers, float] = {Numbers.NAN: 0.1, Numbers.INFINITE: 0.15}
"""The share of a value that gets planted numbers; small for NaN and infinities, which spread."""
USUAL_SHARE = 0.7
MANY = 1 << 13
"""From so many computed elements on, several kinds of numbers share a round."""
MOST_ELEMENTS = 1 << 15
"""The most elements that the rounds of a kind compute, except for its first two rounds."""
SHARED = frozenset({Numbers.ZEROS, Numbers.KINKS, Numbers.SMALL})
BY_STEPS = frozenset({Numbers.MODERATE, Numbers.LARGE})
"""The kinds for which differences are measured relative to intermediate values."""

# operands that are never negative in a working program
_POSITIVE = frozenset({"variance", "moment2", "moment2_max", "moments2", "moments2_max"})
_PROBABILITY = frozenset({"beta1_pow", "beta2_pow", "beta1_pows", "beta2_pows"})


@cache
def numbers(kind: Numbers, dtype: DType) -> tuple[float, ...]:
    """List the numbers of a kind that this dtype has; none for ordinary ones, which are drawn."""
    limits = ml_dtypes.finfo(dtype.numpy)
    top, low = float(limits.max), float(limits.smallest_normal)
    last = float(limits.smallest_subnormal)
    known: dict[Numbers, Sequence[float]] = {
        Numbers.ZEROS: (0.0, -0.0),
        Numbers.KINKS: (0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, 6.0, 20.0, -20.0),
        Numbers.MODERATE: (1.0, 10.0, 50.0, -50.0, 100.0, -100.0, 1e4, -1e4),
        Numbers.SMALL: (1e-40, -1e-40, last, -last, low, low * 1.5, low**0.5, -(low**0.75), 1e-7),
        Numbers.LARGE: (1e6, -1e6, 1e10, -1e10, top**0.4),
        Numbers.HUGE: (top, -top, top / 3, top**0.5, -(top**0.6), top**0.75),
        Numbers.INFINITE: (np.inf, -np.inf),
        Numbers.NAN: (np.nan,),
    }
    with np.errstate(over="ignore", under="ignore"):
        plain = limits.dtype if dtype.is_complex else dtype.numpy
        found = [float(np.asarray(value).astype(plain)) for value in known.get(kind, ())]
    if kind not in (Numbers.INFINITE, Numbers.NAN):
        found = [value for value in found if math.isfinite(value)]
    return tuple({(value, math.copysign(1.0, value)): value for value in found}.values())


@dataclass(frozen=True)
class Round:
    """One way to fill all values with numbers of some kinds."""

    kinds: tuple[Numbers, ...]
    number: int = 0

    @property
    def is_ordinary(self) -> bool:
        """True for numbers without planted special values."""
        return self.kinds == (Numbers.ORDINARY,)

    @property
    def is_large(self) -> bool:
        """True when a difference counts by the size of intermediate values."""
        return not BY_STEPS.isdisjoint(self.kinds)

    def words(self) -> str:
        """Describe the kinds in words."""
        return " and ".join(kind.value for kind in self.kinds)


def rounds(
    leaves: Sequence[SSAValue], kinds: Sequence[Numbers], size: int, elements: int
) -> Iterator[Round]:
    """Yield rounds of each kind until each number has been in each value.

    `elements` counts the elements of all computed values. Where they are many, several kinds share
    a round, and values that are much smaller than the others do not get every number.
    """
    together = elements > MANY
    groups = [tuple(kind for kind in kinds if kind in SHARED)] if together else []
    groups += [(kind,) for kind in kinds if not together or kind not in SHARED]
    for group in sorted(groups, key=lambda group: list(Numbers).index(group[0])):
        needed = max((_rounds_of(value, group, size) for value in leaves), default=1)
        most = 1 if together else max(MOST_ELEMENTS // max(elements, 1), 2)
        for number in range(min(needed, most)):
            yield Round(group, number + together)


def _rounds_of(value: SSAValue, kinds: tuple[Numbers, ...], size: int) -> int:
    dtype = dtype_of(value.type)
    if not dtype.is_differentiable:
        return 2  # booleans alternate between rounds
    listed = len(_numbers_of(kinds, dtype))
    planted = _count_planted(math.prod(sizes(value, size)), kinds)
    # half of the rounds plant only these numbers, the other half mixes in ordinary ones
    return 2 * math.ceil(1.5 * listed / planted) if listed and planted else 1


def _numbers_of(kinds: tuple[Numbers, ...], dtype: DType) -> list[float]:
    return [number for kind in kinds for number in numbers(kind, dtype)]


def _count_planted(elements: int, kinds: tuple[Numbers, ...]) -> int:
    """Count the elements of a value that are planted."""
    return min(max(round(elements * SHARE.get(kinds[0], USUAL_SHARE)), 1), elements)


def sizes(value: SSAValue, size: int) -> tuple[int, ...]:
    """Return the shape of a value; unknown dimensions have this size."""
    return tuple(size if dim == UNKNOWN else dim for dim in shape_of(value.type))


def bind_values(
    leaves: Sequence[SSAValue], filling: Round, size: int, *, wide: bool
) -> dict[SSAValue, Array]:
    """Make an array for each value; unknown dimensions get this size. `wide` keeps float64."""
    generator = np.random.default_rng([list(Numbers).index(filling.kinds[0]), filling.number, size])
    found: dict[SSAValue, Array] = {}
    for at, value in enumerate(leaves):
        shape, dtype = sizes(value, size), dtype_of(value.type)
        if dtype.is_differentiable:
            # use numbers of the declared dtype, so that both precisions start from the same values
            array = _floats(generator, shape, filling, at, dtype).astype(dtype.numpy)
            array = as_used(value, array)
            found[value] = array.astype(np.float64) if wide and dtype.is_floating else array
        elif dtype == "bool":
            half = np.random.default_rng([at, filling.number // 2]).random(shape) < 0.5
            found[value] = half ^ bool(filling.number % 2)
        else:
            found[value] = _integers(generator, shape, filling.kinds[0], dtype)
    return found


def _floats(
    generator: np.random.Generator, shape: tuple[int, ...], filling: Round, at: int, dtype: DType
) -> Array:
    array = generator.normal(size=shape)
    if not array.size or not _numbers_of(filling.kinds, dtype):
        return array
    places, planted, drawn = _planting(filling, at, dtype, array.size)
    if drawn is not None:
        planted = np.where(drawn, generator.normal(), planted)
    array.reshape(-1)[places] = planted
    return array


@lru_cache(maxsize=4096)
def _planting(
    filling: Round, at: int, dtype: DType, size: int
) -> tuple[Array, Array, Array | None]:
    """Choose places in a value of this size, their numbers, and a mask of numbers drawn instead.

    This is cached, as it takes longer than the draw: it is the same for each rewrite with values of
    the same sizes.
    """
    listed = np.array(_numbers_of(filling.kinds, dtype))
    turn, own = divmod(filling.number, 2)
    ordered = np.random.default_rng([at * own, own]).permutation(listed)
    drawn = np.zeros(ordered.size, bool)
    if own:
        # insert an ordinary number, drawn at random, after every two of the kind
        ends = np.minimum(2 * np.arange(-(-listed.size // 2)) + 2, listed.size)
        ordered, drawn = np.insert(ordered, ends, 0.0), np.insert(drawn, ends, True)
    elif size > 1:
        ordered, drawn = np.repeat(ordered, 2), np.repeat(drawn, 2)  # equal neighbors
    count = _count_planted(size, filling.kinds)
    at_random = np.random.default_rng([filling.number, size, at * own])
    places = at_random.permutation(size)[:count]
    which = turn * count + np.arange(count)
    values = np.take(ordered, which, mode="wrap")
    return places, values, np.take(drawn, which, mode="wrap") if own else None


def _integers(
    generator: np.random.Generator, shape: tuple[int, ...], kind: Numbers, dtype: DType
) -> Array:
    limits = np.iinfo(dtype.numpy)
    if kind in (Numbers.LARGE, Numbers.HUGE):
        choices = np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype.numpy)
        return generator.choice(choices, shape)
    return generator.integers(0, 2, shape).astype(dtype.numpy)


def as_used(value: SSAValue, array: Array) -> Array:
    """Remove the signs where an op reads a variance or a power of a probability."""
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
