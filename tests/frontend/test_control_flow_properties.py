"""Generated programs with branches and loops compute the numbers of the same steps in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend.programs import fresh, run

Array = np.ndarray[Any, Any]
Values = list[Any]
# One step of a program, on paddle Variables or on NumPy arrays alike.
Step = Callable[[Values, "Language"], Values]


class Language:
    """The elements of steps, in NumPy."""

    def tanh(self, x: Any) -> Any:
        return np.tanh(x)

    def total(self, x: Any) -> Any:
        return np.sum(x)

    def choose(self, holds: Any, one: Callable[[], Values], other: Callable[[], Values]) -> Values:
        return one() if holds else other()

    def repeat(self, times: int, values: Values, body: Callable[[Values], Values]) -> Values:
        for _ in range(times):
            values = body(values)
        return values

    def grow(self, limit: float, values: Values, body: Callable[[Values], Values]) -> Values:
        """Repeat the body until the first value is large, but 6 times at most."""
        for _ in range(6):
            if not np.sum(values[0] * values[0]) < limit:
                break
            values = body(values)
        return values


class Programs(Language):
    """The elements of steps, as operators of a program."""

    def tanh(self, x: Any) -> Any:
        return paddle.tanh(x)

    def total(self, x: Any) -> Any:
        return paddle.sum(x)

    def choose(self, holds: Any, one: Callable[[], Values], other: Callable[[], Values]) -> Values:
        return static.nn.cond(holds, one, other)

    def repeat(self, times: int, values: Values, body: Callable[[Values], Values]) -> Values:
        i, start = paddle.full([1], 0, "int64"), [paddle.assign(v) for v in values]
        made = static.nn.while_loop(
            lambda i, *_: i < times, lambda i, *v: [i + 1, *body(list(v))], [i, *start]
        )
        return list(made[1:])

    def grow(self, limit: float, values: Values, body: Callable[[Values], Values]) -> Values:
        i, start = paddle.full([1], 0, "int64"), [paddle.assign(v) for v in values]
        made = static.nn.while_loop(
            lambda i, a, *_: paddle.logical_and(i < 6, paddle.sum(a * a) < limit),
            lambda i, *v: [i + 1, *body(list(v))],
            [i, *start],
        )
        return list(made[1:])


def _mix(a: int, b: int, factor: float) -> Step:
    def step(v: Values, use: Language) -> Values:
        after = list(v)
        after[a] = use.tanh(v[b] * factor) + v[a] * 0.5
        return after

    return step


def _branch(one: list[Step], other: list[Step], at: int, bound: float) -> Step:
    def step(v: Values, use: Language) -> Values:
        return use.choose(
            use.total(v[at]) > bound, lambda: _all(one)(v, use), lambda: _all(other)(v, use)
        )

    return step


def _loop(body: list[Step], times: int, limit: float | None) -> Step:
    def step(v: Values, use: Language) -> Values:
        inner = lambda values: _all([*body, _swell])(values, use)  # noqa: E731
        return use.repeat(times, v, inner) if limit is None else use.grow(limit, v, inner)

    return step


def _swell(v: Values, use: Language) -> Values:
    return [v[0] * 1.5 + 0.25, *v[1:]]


def _all(steps: list[Step]) -> Step:
    def run_all(v: Values, use: Language) -> Values:
        # a branch must give values of its own, also where it changes nothing
        v = [x * 1.0 for x in v]
        for step in steps:
            v = step(v, use)
        return v

    return run_all


INDEX = st.integers(0, 1)
NUMBER = st.floats(-1.5, 1.5).map(lambda x: round(x, 2))
MIX = st.builds(_mix, INDEX, INDEX, NUMBER)


def _deeper(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    steps = st.lists(inner, min_size=1, max_size=2)
    limits = st.none() | st.sampled_from([2.0, 10.0])
    return st.one_of(
        st.builds(_branch, steps, steps, INDEX, NUMBER),
        st.builds(_loop, steps, st.integers(0, 3), limits),
    )


PROGRAMS = st.lists(st.recursive(MIX, _deeper, max_leaves=4), min_size=1, max_size=3).map(_all)


@pytest.mark.exhaustive
@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(program=PROGRAMS, seed=st.integers(0, 1000))
def test_programs_compute_what_numpy_computes(program: Step, seed: int) -> None:
    """Values and gradients equal NumPy's, the latter along a direction, before and after passes."""
    rng = np.random.default_rng(seed)
    start = [rng.standard_normal((2, 2)) for _ in range(2)]
    direction = rng.standard_normal((2, 2))

    def numpy_total(shift: float) -> float:
        values = program([start[0] + shift * direction, start[1]], Language())
        return float(sum(np.sum(np.sin(v)) for v in values))

    with fresh():
        inputs = [static.data(name, [2, 2], "float64") for name in "ab"]
        for each in inputs:  # as in Paddle, a loop cuts what starts without a gradient
            each.stop_gradient = False
        outs = program(inputs, Programs())
        total = paddle.add_n([paddle.sum(paddle.sin(v)) for v in outs])
        fetches = [*outs, *static.gradients([total], inputs[:1])]
        feed = dict(zip("ab", start, strict=True))
        found = run(fetches, **feed)
        strategy = BuildStrategy()
        strategy.fuse_elewise_add_act_ops = True
        optimized = CompiledProgram(static.default_main_program(), strategy)
        again = static.Executor(paddle.CPUPlace()).run(optimized, feed, fetches)
    wanted = program(start, Language())
    for value, other, want in zip(found, again, wanted, strict=False):
        np.testing.assert_allclose(value, want, rtol=1e-10)
        np.testing.assert_allclose(other, want, rtol=1e-10)
    near, far = ((numpy_total(step) - numpy_total(-step)) / (2 * step) for step in (1e-6, 2e-6))
    if len(found) > len(wanted) and abs(near - far) < 1e-5:  # else a bound is crossed between
        np.testing.assert_allclose(np.sum(found[-1] * direction), near, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(again[-1], found[-1], rtol=1e-9, atol=1e-12)
