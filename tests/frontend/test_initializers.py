"""Initializers under their names of all releases, with Paddle's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt_tests.frontend.programs import fresh, start, types

initial = paddle.nn.initializer


def parameter(shape: list[int], initializer: Any, dtype: str = "float32") -> Any:
    attr = paddle.ParamAttr(initializer=initializer)
    return static.create_parameter(shape, dtype, attr=attr)


@pytest.mark.parametrize("kind", [fluid.initializer.Bilinear, initial.Bilinear])
def test_bilinear(kind: Any) -> None:
    """Paddle adds a part of the column to the row, so the filter is not symmetric."""
    with fresh():
        filters = parameter([1, 1, 3, 3], kind())
        start()
        found = filters.get_value().numpy()[0, 0]
    wanted = [[0.0625, 0.3125, 0.4375], [0.1875, 0.6875, 0.6875], [0.1875, 0.4375, 0.3125]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_bilinear_numbers_are_cast_from_float32(dtype: str) -> None:
    with fresh() as (_, startup):
        filters = parameter([1, 1, 5, 5], initial.Bilinear(), dtype)
        single = parameter([1, 1, 5, 5], initial.Bilinear())
        start()
        assert types(startup) == ["assign_value", "cast", "assign_value"]
        found = [value.get_value().numpy() for value in (filters, single)]
    np.testing.assert_array_equal(found[0], found[1].astype(found[0].dtype))


def test_bilinear_is_for_floats() -> None:
    with fresh(), pytest.raises(TypeError, match="should be a float, found int32"):
        parameter([1, 1, 3, 3], initial.Bilinear(), "int32")


@pytest.mark.parametrize(
    ("initializer", "type", "bound"),
    [
        (initial.UniformInitializer(-0.5, 0.5, seed=3), "uniform_random", 0.5),
        (initial.XavierInitializer(fan_in=0, fan_out=6, seed=3), "uniform_random", 1.0),
        (initial.MSRAInitializer(fan_in=6, seed=3), "uniform_random", 1.0),
        (initial.MSRAInitializer(fan_in=3, nonlinearity="linear"), "uniform_random", 1.0),
        (initial.MSRAInitializer(False, 2, 3, 1.0, "leaky_relu"), "gaussian_random", 0.5**0.5),
        (initial.NormalInitializer(0.0, 2.0), "gaussian_random", 2.0),
        (initial.TruncatedNormalInitializer(0.0, 2.0), "truncated_gaussian_random", 2.0),
        (initial.XavierUniform(fan_in=0, fan_out=6), "uniform_random", 1.0),
        (initial.KaimingUniform(fan_in=6), "uniform_random", 1.0),
    ],
)
def test_spread(initializer: Any, type: str, bound: float) -> None:
    """The bound is a uniform distribution's limit, or a normal one's deviation."""
    with fresh() as (_, startup):
        parameter([4, 5], initializer)
        (op,) = startup.global_block().ops
    assert op.type == type
    assert op.attr("max" if type == "uniform_random" else "std") == pytest.approx(bound)


@pytest.mark.parametrize("kind", [initial.KaimingUniform, initial.MSRAInitializer])
def test_a_fan_of_0_is_a_fan(kind: Any) -> None:
    with fresh(), pytest.raises(ZeroDivisionError):
        parameter([4, 5], kind(fan_in=0))


def test_a_default_is_an_initializer() -> None:
    with fresh(), pytest.raises(TypeError, match="must be an Initializer, found ndarray"):
        static.create_parameter([3], "float32", default_initializer=np.ones(3))


def test_global_initializers_under_the_name_of_fluid() -> None:
    fluid.set_global_initializer(initial.Constant(2.0))
    try:
        with fresh() as (_, startup):
            parameter([3], None)
    finally:
        fluid.set_global_initializer(None)
    assert startup.global_block().ops[0].attr("value") == 2.0
