"""`x - y`, `x > 2`, … in programs of paddle.fluid, with numbers of Paddle 1.8.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import ProgramError
from graphopt.fluid import layers
from graphopt_tests.frontend.programs import fresh

X = np.arange(1, 9, dtype="float32").reshape(2, 4)
PER_ROW = np.array([2, 3], "float32")
NUMBERS = np.array([-7, 7, 5, -5])
DIVISORS = np.array([2, -2, 3, 3])


def computed(made: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Compute a function of fed arrays whose first size the program does not know."""
    with fresh():
        inputs = [
            fluid.data(f"x{i}", [None, *a.shape[1:]], str(a.dtype)) for i, a in enumerate(arrays)
        ]
        feed = {x.name: a for x, a in zip(inputs, arrays, strict=True)}
        return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[made(*inputs)])[0]


def test_unknown_first_dimensions_are_aligned() -> None:
    """A vector with one number per row aligns with the rows, on either side of the operator."""
    both = computed(
        lambda x, m: layers.concat([x - m, m - x, layers.cast(x > m, "float32")], 1), X, PER_ROW
    )
    below = X - PER_ROW[:, None]
    np.testing.assert_array_equal(both, np.concatenate([below, -below, below > 0], 1))
    square = np.arange(16, dtype="float32").reshape(4, 4)
    below = computed(lambda x: x - layers.reduce_max(x, dim=1), square)
    assert below.tolist() == [[-3, -2, -1, 0]] * 4


def test_a_later_program_aligns_last_dimensions() -> None:
    """paddle.static broadcasts as Paddle 2 does; a clone keeps the rules of its program."""
    square = np.arange(16, dtype="float32").reshape(4, 4)
    with fresh():
        x = static.data("x", [None, 4])
        out = x - paddle.max(x, axis=1)
        exe = static.Executor(paddle.CPUPlace())
        (found,) = exe.run(feed={"x": square}, fetch_list=[out])
        assert found[0].tolist() == [-3, -6, -9, -12]
        assert not static.default_main_program().clone().is_fluid
    with fresh():
        fluid.data("x", [None, 4])
        assert fluid.default_main_program().clone().is_fluid


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda i, j: i / j, [-3, -3, 1, -1]),
        (lambda i, j: i // j, [-3, -3, 1, -1]),
        (lambda i, j: i % j, [-1, 1, 2, -2]),
        (lambda i, j: i / 2.5, [-3, 3, 2, -2]),
        (lambda i, j: i % 2, [-1, 1, 1, -1]),
        (lambda i, j: i**2.0, [49, 49, 25, 25]),
        (lambda i, j: i - 2.0, [-9, 5, 3, -7]),
        (lambda i, j: j == 2, [True, False, False, False]),
    ],
)
def test_integers_stay_integers(made: Callable[..., Any], wanted: list[Any]) -> None:
    found = computed(made, NUMBERS, DIVISORS)
    assert found.tolist() == wanted and found.dtype in ("int64", "bool")


def test_the_left_operand_decides_the_dtype() -> None:
    found = computed(lambda x, j: x - j, X[0], DIVISORS)
    assert found.tolist() == [-1, 4, 0, 1] and found.dtype == "float32"
    with fresh():
        x, i = fluid.data("x", [None]), fluid.data("i", [None], "int64")
        with pytest.raises(ProgramError, match=r"'i' is int64, and 1\.5 is not an integer"):
            i + 1.5
        with pytest.raises(TypeError, match="// needs int32 or int64, found float32: 'x'"):
            x // 2
        with pytest.raises(TypeError, match="unsupported operand"):
            2 % i


def test_results_are_called_as_in_paddle() -> None:
    """The number in a comparison or a power is a variable of its own, and counts in names."""
    with fresh():
        x = fluid.data("x", [None])
        assert [(x + 1).name, (x > 2).name, (x**2).name, (-x).name] == [
            "tmp_0",
            "tmp_2",
            "tmp_4",
            "tmp_5",
        ]
        assert [x.astype("int64").name, (2 / x).name] == ["tmp_6", "tmp_8"]


def test_sizes_of_images_and_random_tensors_are_variables() -> None:
    layers = fluid.layers
    image = np.arange(12, dtype="float32").reshape(1, 1, 3, 4)
    size, factor = np.array([6, 8], "int32"), np.array([2.0], "float32")
    with fresh():
        x = fluid.data("x", [1, 1, 3, 4], "float32")
        whole, one = fluid.data("size", [2], "int32"), layers.fill_constant([1], "int32", 8)
        outs = [
            layers.resize_nearest(x, out_shape=whole),
            layers.resize_nearest(x, out_shape=[6, one]),
            layers.resize_nearest(x, out_shape=[1, 1], actual_shape=whole),
            layers.resize_nearest(x, scale=fluid.data("factor", [1], "float32")),
            layers.resize_nearest(x, out_shape=[6, 8]),
            layers.uniform_random(whole),
        ]
        feed = {"x": image, "size": size, "factor": factor}
        *found, wanted, drawn = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=outs)
    for value in found:
        np.testing.assert_array_equal(value, wanted)
    assert drawn.shape == (6, 8)


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
def test_places_of_no_stated_type_are_int64(kind: str) -> None:
    """The dtype -1, which Paddle 1.8 wrote as the default, is int64."""

    def place(x: Any) -> Any:
        out = x.block.create_var(name="place")
        x.block.append_op(kind, {"X": x}, {"Out": out}, {"axis": 1, "dtype": -1})
        return out

    found = computed(place, X)
    assert found.dtype == np.int64
    assert found.tolist() == [3 if kind == "arg_max" else 0] * 2
