"""paddle.amp.debugging: counts of non-finite numbers as in 2.6.2, and checked steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import CheckError, NotFiniteError, UnsupportedError
from graphopt_tests.frontend.programs import fresh, run

debugging = paddle.amp.debugging

BAD = np.array([[np.nan, np.inf, -1]], "float32")


@pytest.mark.parametrize("mode", [debugging.DebugMode.CHECK_ALL, debugging.DebugMode.CHECK_NAN_INF])
def test_numbers_of_a_tensor(mode: Any) -> None:
    with fresh():
        y = static.data("x", [1, 3]) + 1
        stats, values = debugging.check_numerics(y, "add", y.name, mode)
        good = run([stats, values], x=np.array([[1, 2, -1]], "float32"))
        bad = run([stats, values], x=BAD)
    assert (stats.shape, values.shape) == ((3,), (3,))
    assert str(good[0].dtype) == "int64"
    assert [each.tolist() for each in good] == [[0, 0, 1], [3.0, 0.0, pytest.approx(5 / 3)]]
    assert bad[0].tolist() == [1, 1, 1]
    assert np.isnan(bad[1]).all()


def test_a_run_stops() -> None:
    with fresh():
        x = static.data("x", [1, 3])
        debugging.check_numerics(x, "feed", x.name)
        run([x * 2], x=np.ones((1, 3), "float32"))
        with pytest.raises(CheckError):
            run([x * 2], x=BAD)
        with pytest.raises(TypeError, match="should be floating-point"):
            debugging.check_numerics(static.data("n", [1], "int64"), "feed", "n")


def test_checked_steps() -> None:
    config = debugging.TensorCheckerConfig(True)
    with fresh():
        x = static.data("x", [1, 3])
        out = paddle.log(x)
        debugging.enable_tensor_checker(config)
        try:
            with pytest.raises(NotFiniteError, match="There are NAN or INF"):
                run([out], x=np.zeros((1, 3), "float32"))
        finally:
            debugging.disable_tensor_checker()
        run([out], x=np.zeros((1, 3), "float32"))


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'skipped_op_list' is not supported"):
        debugging.TensorCheckerConfig(True, skipped_op_list=["log"])
    with pytest.raises(UnsupportedError, match=r"'debug_mode' .* is not supported"):
        debugging.TensorCheckerConfig(True, debugging.DebugMode.DUMP_ALL)
    with pytest.raises(UnsupportedError, match="dynamic mode"):
        debugging.check_layer_numerics(print)
