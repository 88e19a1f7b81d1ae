"""Draws in NumPy equal JAX's, for the keys that programs use."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from graphopt.ir.dtypes import DType
from graphopt.lowering import host_draws
from graphopt.lowering.ops import random

STEP = np.array([123, 7], np.uint32)
RULES = {
    "uniform": partial(random.uniform, min=0.0, max=1.0),
    "normal": partial(random.gaussian, mean=0.0, std=1.0),
    "truncated_normal": partial(random.truncated_gaussian, mean=0.0, std=1.0, a=None, b=None),
}


@pytest.mark.parametrize(("path", "number"), [((), 0), ((), 5), ((3, 1), 2**31)])
def test_keys(path: tuple[int, ...], number: int) -> None:
    """The key depends on the step, the iterations of loops, and the number of the op."""
    key = jax.random.wrap_key_data(jax.numpy.asarray(STEP))
    for each in (*path, number):
        key = jax.random.fold_in(key, each)
    found = host_draws.key_of_draw(STEP, path, 0, number)
    assert [int(word[0, 0]) for word in found] == jax.random.key_data(key).tolist()


@pytest.mark.parametrize("seed", [1, 2**31 + 3, 2**40 + 5])
def test_a_seed_is_a_key(seed: int) -> None:
    with jax.enable_x64(True):
        expected = jax.random.key_data(jax.random.key(seed)).tolist()
    found = host_draws.key_of_draw(STEP, (1,), seed, 4)
    assert [int(word[0, 0]) for word in found] == expected


# less than a block, one and a bit, more than are made at once
@pytest.mark.every(3)
@pytest.mark.parametrize("size", [7, random.BLOCK + 1, 9 * random.BLOCK + 3])
@pytest.mark.parametrize("name", RULES)
def test_numbers(name: str, size: int) -> None:
    """Uniform numbers have the same bits; normal numbers differ in the last two."""
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.wrap_key_data(jax.numpy.asarray(STEP)), 5)
        expected = np.asarray(RULES[name](key=key, shape=(size,), dtype=DType("float32")))
    key = host_draws.key_of_draw(STEP, (), 0, 5)
    found = host_draws.draw_numbers(getattr(host_draws, name), key, size)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, 0 if name == "uniform" else 5e-7)
