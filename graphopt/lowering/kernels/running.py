"""Running results along an axis: on CPUs a loop over it, whose steps take all other elements.

XLA has trees for them, on CPUs too. There logarithms of sums take 60 times the time of the loop,
sums of columns ten times, and the indices of the largest elements ten times as long to compile. The
loop adds in the order of Paddle and NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array: TypeAlias = jax.Array
Of: TypeAlias = Callable[[Array], Any]
State: TypeAlias = tuple[Array, ...]


def on_cpus(x: Array, axis: int, loop: Of, tree: Of) -> Any:
    """Compute by `loop` on CPUs; by `tree` elsewhere, and for an axis of size 0 or unknown size."""
    size = x.shape[axis]
    if not isinstance(size, int) or size == 0:
        return tree(x)
    return lax.platform_dependent(x, cpu=loop, default=tree)


def running(
    step: Callable[[State, State], State],
    start: State,
    arrays: Sequence[Array],
    axis: int,
    *,
    reverse: bool = False,
) -> State:
    """Scan along an axis and return all states; `step` maps a state and an element to the next."""

    def each(state: State, row: State) -> tuple[State, State]:
        state = step(state, row)
        return state, state

    rows = tuple(jnp.moveaxis(array, axis, 0) for array in arrays)
    states = lax.scan(each, start, rows, reverse=reverse)[1]
    return tuple(jnp.moveaxis(state, 0, axis) for state in states)


def cumulate(
    step: Callable[[Array, Array], Array],
    neutral: float,
    tree: Of,
    x: Array,
    axis: int,
    *,
    reverse: bool,
) -> Array:
    """Compute running sums or products."""
    start = jnp.full((*x.shape[:axis], *x.shape[axis + 1 :]), neutral, x.dtype)

    def loop(x: Array) -> Array:
        return running(lambda a, b: (step(a[0], b[0]),), (start,), (x,), axis, reverse=reverse)[0]

    return on_cpus(x, axis, loop, tree)


def log_sums(x: Array, axis: int, *, reverse: bool) -> Array:
    """Compute logarithms of running sums of exponentials, scaled by the largest element so far."""
    others = (*x.shape[:axis], *x.shape[axis + 1 :])

    def step(state: State, row: State) -> State:
        (largest, total), (new,) = state, row
        # the maximum only scales the sum, so it needs no gradient
        now = lax.stop_gradient(jnp.maximum(largest, new))
        scale = _finite(now)
        return now, total * jnp.exp(largest - scale) + jnp.exp(new - scale)

    def loop(x: Array) -> Array:
        start = jnp.full(others, -np.inf, x.dtype), jnp.zeros(others, x.dtype)
        largest, total = running(step, start, (x,), axis, reverse=reverse)
        return _finite(largest) + jnp.log(total)

    return on_cpus(x, axis, loop, lambda x: lax.cumlogsumexp(x, axis, reverse))


def _finite(x: Array) -> Array:
    return jnp.where(jnp.isfinite(x), x, jnp.zeros((), x.dtype))
