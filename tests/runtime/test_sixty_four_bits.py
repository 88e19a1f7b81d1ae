"""int64 and float64 have 64 bits, whatever JAX's setting, which does not change."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import graphopt as paddle
from graphopt import static
from graphopt.runtime.settings.flags import TIER

BIG = 2**40 + 1


def run(build: Any, devices: int, **feed: Any) -> list[Any]:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        variables = {n: static.data(n, [None, *a.shape[1:]], str(a.dtype)) for n, a in feed.items()}
        fetches = build(**variables)
    program: Any = main
    if devices > 1:
        places = [paddle.CPUPlace()] * devices
        program = static.CompiledProgram(main).with_data_parallel(places=places)
    return static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=fetches)


@pytest.mark.parametrize("devices", [1, 2])
def test_nothing_is_cut(devices: int) -> None:
    """Large integers and small differences survive arithmetic, sums, sorting and gathering."""
    i, x = np.array([BIG, 3, -BIG, 7]), np.array([1.0, 1e-12, 2.0, 3.0])

    def build(i: Any, x: Any) -> list[Any]:
        return [i + 1, paddle.sum(i, keepdim=True), paddle.sort(i), 1.0 + x, paddle.argmax(x)]

    plus, total, ordered, near, place = run(build, devices, i=i, x=x)
    np.testing.assert_array_equal(plus, i + 1)
    assert plus.dtype == total.dtype == ordered.dtype == np.int64
    assert total.sum() == i.sum()
    assert set(ordered) == set(i)
    assert near.dtype == np.float64
    assert near[1] == 1 + 1e-12
    assert place.dtype == np.int64


@pytest.mark.parametrize("tier", ["host", "full"])
def test_constants_are_exact(tier: str) -> None:
    """Several constants are exact, in NumPy and in XLA: a float holds no number above 2**53."""
    paddle.set_flags({TIER: tier})
    numbers = np.array([2**63 - 1, -(2**53) - 1, 2])
    (found,) = run(lambda: [paddle.assign(numbers)], 1)
    np.testing.assert_array_equal(found, numbers)


def test_defaults_are_paddles() -> None:
    """Indices, counts and integer constants are int64."""

    def build(x: Any) -> list[Any]:
        _, indices = paddle.topk(x, 2)
        return [indices, paddle.argsort(x), paddle.arange(3), paddle.full([1], BIG, "int64")]

    for value in run(build, 1, x=np.ones((2, 3), "float32")):
        assert value.dtype == np.int64
    assert value[0] == BIG


def test_jax_keeps_its_setting() -> None:
    """JAX code around runs computes in 32 bits, unless it requests more."""
    assert jnp.ones(2).dtype == np.float32
    run(lambda x: [x * 2], 1, x=np.ones(2))
    assert jnp.arange(3).dtype == np.int32
    assert not jax.config.read("jax_enable_x64")
