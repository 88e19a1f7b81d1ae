"""Reshapes with sizes read from tensors, run with and without the pass."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt_tests.frontend.programs import fresh


@pytest.mark.parametrize("shape", [(0, 5, 6), (2, 0, 6), (0, 0, 6), (2, 5, 6)])
def test_a_batch_without_elements_keeps_its_length(shape: tuple[int, ...]) -> None:
    """As in Paddle 1.8.5 and 2.6.2, a 0 copies a size of an empty tensor, too."""
    with fresh() as (main, _):
        x = static.data("x", [None, None, 6], "float32")
        rows, length = paddle.shape(x)[0], paddle.shape(x)[1]
        read = paddle.reshape(x, [rows, length, 3, 2])
        copied = paddle.reshape(x, [0, 0, 3, 2])
        executor = static.Executor(paddle.CPUPlace())
        for program in (main, CompiledProgram(main, static.BuildStrategy())):
            found = executor.run(program, {"x": np.zeros(shape, "float32")}, [read, copied])
            assert [array.shape for array in found] == [(*shape[:2], 3, 2)] * 2
