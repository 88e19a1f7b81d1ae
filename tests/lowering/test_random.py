"""Random draws: a compiled program and single ops, which share programs, draw the same numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops import random
from graphopt_tests.runtime.nets import value

DISTRIBUTIONS = {
    "uniform": partial(random.uniform, min=-2.0, max=3.0),
    "gaussian": partial(random.gaussian, mean=1.0, std=0.5),
    "truncated_gaussian": partial(random.truncated_gaussian, mean=1.0, std=0.5, a=-2.0, b=2.0),
}
# less than a block, whole blocks, one and a bit, and more than a part
SHAPES = ((3, 5), (2, random.BLOCK), (random.BLOCK + 1,), (random.BLOCK * random.PART + 7,))


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_are_those_of_a_compiled_program(name: str, dtype: str, shape: Any) -> None:
    """The numbers are equal up to the rounding of the scale."""
    rule = partial(DISTRIBUTIONS[name], shape=shape, dtype=DType(dtype))
    with jax.enable_x64(True):
        key = jax.random.key(3)
        found, expected = rule(key=key), jax.jit(lambda key: rule(key=key))(key)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    wide = "float64" if dtype == "bfloat16" else dtype
    tolerance = 1e-2 if dtype == "bfloat16" else 1e-6
    np.testing.assert_allclose(np.asarray(found, wide), np.asarray(expected, wide), rtol=tolerance)


def test_startup_programs_share_a_generator() -> None:
    """Layers of many sizes share two programs of a distribution, and draw different numbers."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        hidden = static.data("x", [None, 80], "float32")
        for width in (60, 80, 90, 7, 5):
            hidden = static.nn.fc(hidden, width, bias_attr=False)
        random._block.cache_clear()
        random._part.cache_clear()
        static.Executor(paddle.CPUPlace()).run(startup)
        weights = [value(p.name).reshape(-1)[:35] for p in main.all_parameters()]
    assert random._part.cache_info().misses == random._block.cache_info().misses == 1
    assert len({array.tobytes() for array in weights}) == 5


@pytest.mark.parametrize("shape", SHAPES[::2])
def test_other_devices_get_the_numbers_of_the_cpu(shape: Any) -> None:
    """The CPU's generators draw the numbers, which are then transferred."""
    host, device = jax.devices()[0], jax.devices()[2]
    random._block.cache_clear()
    random._part.cache_clear()
    rule = partial(DISTRIBUTIONS["gaussian"], shape=shape, dtype=DType("float32"))
    key = jax.random.key(3)
    wanted, found = rule(key=key), rule(key=jax.device_put(key, device))
    assert (wanted.devices(), found.devices()) == ({host}, {device})
    np.testing.assert_array_equal(found, wanted)
    assert random._part.cache_info().misses + random._block.cache_info().misses == 1
