"""Loops and their derivatives, with a known or an unknown number of iterations.

A loop whose variables change their shapes, or that has data-sized results, runs one iteration at a
time, where arrays have values; JAX then differentiates the iterations that ran.

XLA cannot keep the states of a loop of unknown length. Their gradient is exact all the same, in
fixed memory: the loop counts its iterations, keeps `_SLOTS` states at even distances, and
recomputes the states in between in the backward pass. With two such levels, a loop of `_SLOTS`**2
iterations computes each state three times; for longer loops this grows slowly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.dynamic import concrete

Array = Any
Arrays = tuple[Array, ...]
# (loop variables, captured values, key data, iteration number) -> (condition, variables ...)
Step = Callable[[Arrays, Arrays, Array, Array], Arrays]

_SLOTS = 16
_LEVELS = 2


def fixed_loop(step: Step, trips: int, carried: Arrays, outside: Arrays, key: Array) -> Arrays:
    """Run a loop of `trips` iterations as a scan, which JAX can differentiate."""

    def body(state: Arrays, number: Array) -> tuple[Arrays, None]:
        return step(state, outside, key, number)[1:], None

    return lax.scan(body, carried, jnp.arange(trips, dtype="int32"))[0]


def stepped_loop(
    step: Step, condition: Array, carried: Arrays, outside: Arrays, key: Array
) -> Arrays:
    """Run a loop one iteration at a time until its condition is false; NeedsData while tracing."""
    for number in itertools.count():
        if not concrete(condition, "the number of iterations of a loop whose shapes change").all():
            return carried
        condition, *after = step(carried, outside, key, np.int32(number))
        carried = tuple(after)
    raise AssertionError("counting does not end")


def open_loop(step: Step, condition: Array, carried: Arrays, outside: Arrays, key: Array) -> Arrays:
    """Run a loop until its condition is false, with a derivative in fixed memory."""

    def run_counted(condition: Array, carried: Arrays, outside: Arrays, key: Array) -> Any:
        def going(state: Any) -> Array:
            return state[0]

        def body(state: Any) -> Any:
            _, number, values = state
            flag, *after = step(values, outside, key, number)
            return flag.reshape(()), number + 1, tuple(after)

        _, trips, last = lax.while_loop(going, body, (condition, jnp.int32(0), carried))
        return trips, last

    @jax.custom_vjp
    def loop(condition: Array, carried: Arrays, outside: Arrays, key: Array) -> Arrays:
        return run_counted(condition, carried, outside, key)[1]

    def forward(condition: Array, carried: Arrays, outside: Arrays, key: Array) -> Any:
        trips, last = run_counted(condition, carried, outside, key)
        return last, (carried, outside, key, trips)

    def backward(saved: Any, cotangents: Arrays) -> Any:
        carried, outside, key, trips = saved
        return (None, *_Reverse(step, outside, key).run(carried, trips, cotangents), None)

    loop.defvjp(forward, backward)
    return loop(condition, carried, outside, key)


class _Reverse:
    """The backward pass of a loop of unknown length.

    Only real and complex variables have gradients; the others are carried along.
    """

    def __init__(self, step: Step, outside: Arrays, key: Array) -> None:
        self.step, self.outside, self.key = step, outside, key

    def run(self, carried: Arrays, trips: Array, cotangents: Arrays) -> tuple[Arrays, Arrays]:
        """Compute the gradients of the initial variables and of the captured values."""
        smooth = [i for i, x in enumerate(carried) if _is_smooth(x)]
        captured = [i for i, x in enumerate(self.outside) if _is_smooth(x)]
        start = (
            tuple(cotangents[i] for i in smooth),
            tuple(jnp.zeros_like(self.outside[i]) for i in captured),
        )
        self.smooth, self.captured = smooth, captured
        first, outside = self._segment(carried, jnp.int32(0), trips, start, _LEVELS)
        return _scatter(first, smooth, carried), _scatter(outside, captured, self.outside)

    def _advance(self, state: Arrays, at: Array, count: Array) -> Arrays:
        """Compute the state `count` iterations later; `state` is the one before iteration `at`."""

        def body(i: Array, values: Arrays) -> Arrays:
            return tuple(self.step(values, self.outside, self.key, at + i)[1:])

        return lax.fori_loop(jnp.int32(0), count, body, state)

    def _segment(self, state: Arrays, at: Array, count: Array, grads: Any, level: int) -> Any:
        """Pull the gradients back through `count` iterations from `at`; `state` is the first."""
        if level == 0:

            def back(i: Array, grads: Any) -> Any:
                here = count - 1 - i
                return self._one(self._advance(state, at, here), at + here, grads)

            return lax.fori_loop(jnp.int32(0), count, back, grads)
        distance = jnp.maximum((count + _SLOTS - 1) // _SLOTS, 1)
        parts = (count + distance - 1) // distance

        def keep(i: Array, held: tuple[Arrays, Arrays]) -> tuple[Arrays, Arrays]:
            slots, current = held
            slots = tuple(s.at[i].set(c) for s, c in zip(slots, current, strict=True))
            return slots, self._advance(current, at + i * distance, distance)

        slots = tuple(jnp.zeros((_SLOTS, *x.shape), x.dtype) for x in state)
        # the loop does not advance over the last part, which may be shorter
        slots, current = lax.fori_loop(
            jnp.int32(0), jnp.maximum(parts - 1, 0), keep, (slots, state)
        )
        last = jnp.maximum(parts - 1, 0)
        slots = tuple(s.at[last].set(c) for s, c in zip(slots, current, strict=True))

        def back_over(i: Array, grads: Any) -> Any:
            part = parts - 1 - i
            begin = part * distance
            size = jnp.minimum(distance, count - begin)
            there = tuple(s[part] for s in slots)
            return self._segment(there, at + begin, size, grads, level - 1)

        return lax.fori_loop(jnp.int32(0), parts, back_over, grads)

    def _one(self, state: Arrays, number: Array, grads: tuple[Arrays, Arrays]) -> Any:
        """Pull the gradients back through one iteration."""

        def forward(smooth: Arrays, captured: Arrays) -> Arrays:
            values = _fill_in(state, self.smooth, smooth)
            outside = _fill_in(self.outside, self.captured, captured)
            after = self.step(values, outside, self.key, number)[1:]
            return tuple(after[i] for i in self.smooth)

        _, pullback = jax.vjp(
            forward,
            tuple(state[i] for i in self.smooth),
            tuple(self.outside[i] for i in self.captured),
        )
        before, outside = pullback(grads[0])
        return before, tuple(a + b for a, b in zip(grads[1], outside, strict=True))


def _is_smooth(x: Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _fill_in(values: Arrays, where: list[int], new: Arrays) -> Arrays:
    result = list(values)
    for index, value in zip(where, new, strict=True):
        result[index] = value
    return tuple(result)


def _scatter(gradients: Arrays, where: list[int], like: Arrays) -> tuple[Any, ...]:
    """Put the gradients at their positions; integers have JAX's float0 zeros."""
    result: list[Any] = [np.zeros(x.shape, jax.dtypes.float0) for x in like]
    for index, gradient in zip(where, gradients, strict=True):
        result[index] = gradient
    return tuple(result)
