"""The order of elements by integer keys equals a stable sort's."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels import ordering

FLOATS = ["float16", "bfloat16", "float32", "float64"]
WHOLE = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64"]


def numbers(dtype: str) -> Any:
    """Draw numbers, many equal, with both zeros, infinities and NaN if the dtype has them."""
    drawn = np.random.default_rng(0).normal(0, 3, [7, 40])
    if dtype not in FLOATS:
        low, high = (0, 2) if dtype == "bool" else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)
        drawn = np.abs(drawn) if low == 0 else drawn
        drawn = drawn.astype(dtype)
        drawn[0, :2] = low, high
        return drawn
    drawn = drawn.round()
    drawn[0, :9] = [np.nan, 0, -0.0, np.inf, -np.inf, -np.nan, np.nan, -0.0, 0]
    return drawn


@pytest.mark.every(5)
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_order(dtype: str, axis: int, descending: bool) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(numbers(dtype), dtype)
        expected = jnp.argsort(x, axis, stable=True, descending=descending)
        ordered = jax.jit(ordering.argsort, static_argnums=1, static_argnames="descending")
        found = ordered(x, axis, descending=descending)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)
        if dtype == "int64":  # those above are not all of 32 bits
            x = x % 1000 - 500
            expected = jnp.argsort(x, axis, stable=True, descending=descending)
            np.testing.assert_array_equal(ordered(x, axis, descending=descending), expected)


@pytest.mark.every(3)
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_first_places(count: int, axis: int) -> None:
    """The first places are right for a few elements of many, and for more."""
    with jax.enable_x64(True):
        x = jnp.asarray(numbers("float32"), "float32")
        x = jnp.concatenate([x] * 5, 0) if axis == 0 else x
        wanted = lax.slice_in_dim(jnp.argsort(x, axis, stable=True), 0, count, axis=axis)
        np.testing.assert_array_equal(ordering.first_places(x, count, axis), wanted)
        all_nan = jnp.where(jnp.isnan(x) | (x > 0), x, jnp.nan)
        wanted = lax.slice_in_dim(jnp.argsort(all_nan, axis, stable=True), 0, count, axis=axis)
        np.testing.assert_array_equal(ordering.first_places(all_nan, count, axis), wanted)


def test_one_sort_of_whole_numbers() -> None:
    """CPUs sort one array of integers; GPUs sort pairs."""
    with jax.enable_x64(True):
        traced = jax.jit(lambda x: ordering.sort(x)).trace(np.zeros([4, 8], "float32"))
        on_cpu, on_gpu = (
            traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")
        )
    sorts = [re.findall(r"stablehlo\.sort\"\((.*?)\)", text) for text in (on_cpu, on_gpu)]
    assert [each.count("%") for (each,) in sorts] == [1, 2]


def test_derivative() -> None:
    """The gradient of sorted elements goes back to their original places."""
    x = np.array([[3.0, 1, 2], [1, 1, 0]], "float32")
    weights = np.array([1.0, 10, 100], "float32")
    with jax.enable_x64(True):
        found = jax.grad(lambda x: jnp.sum(ordering.sort(x) * weights))(x)
    np.testing.assert_array_equal(found, [[100, 1, 10], [10, 100, 1]])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("axis", [0, 1])
def test_index_of_extremes(dtype: str, axis: int) -> None:
    """Of equal elements the first is found."""
    pairs = ((ordering.index_of_largest, np.argmax), (ordering.index_of_smallest, np.argmin))
    for function, plain in pairs:
        with jax.enable_x64(True):
            x = jnp.asarray(np.random.default_rng(1).integers(0, 3, [5, 6]), dtype)
            found = function(x, axis, np.int32)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, plain(np.asarray(x, "float32"), axis))
