"""Tables of the arguments that Paddle's functions accept, and errors for all others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import fluid, static
from graphopt.errors import OperandError, ProgramError
from graphopt.frontend.accepted import _DTYPES, _KINDS, _row, paddle18, paddle26
from graphopt.ir.program import Program

ARRAY: Any = np.zeros((2, 3), "float32")
Call = Callable[[Any, Any], Any]


def find(path: str) -> Any:
    found: Any = paddle.linalg if path in vars(paddle.linalg) else paddle
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    "call",
    [
        lambda x, k: F.softmax(k),
        lambda x, k: paddle.where(k, x, x),
        lambda x, k: paddle.add(x, k),
        lambda x, k: paddle.subtract(k > 0, k > 1),
        lambda x, k: paddle.gather(x, x),
        lambda x, k: paddle.linalg.matrix_power(k > 0, 2),
        lambda x, k: F.embedding(x, x),
        lambda x, k: static.nn.conv2d(k, 1, 1),
        lambda x, k: static.nn.group_norm(k, 2),
        lambda x, k: static.nn.layer_norm(k),
    ],
)
def test_a_dtype_that_an_operator_does_not_take(call: Call) -> None:
    """A wrong dtype raises a TypeError, as Paddle's checks do, which is a ValueError as well."""
    with static.program_guard(Program()):
        x = static.data("x", [2, 2], "float32")
        k = static.data("k", [2, 2], "int64")
        with pytest.raises(TypeError) as found:
            call(x, k)
    assert isinstance(found.value, OperandError) and isinstance(found.value, ValueError)


@pytest.mark.parametrize("table", [paddle18, paddle26])
def test_rows_name_functions_and_their_arguments(table: Any) -> None:
    """Each row names an existing function and its arguments; otherwise it would check nothing."""
    for path, row in table.ROWS.items():
        arguments = inspect.signature(find(path)).parameters
        for group in row.split(";"):
            names, _, options = group.partition(":")
            assert {word.strip("=?.") for word in names.split()} <= set(arguments), path
            assert set(options.split()) <= {*_DTYPES, *_KINDS}, path


def test_each_version_has_its_own_row() -> None:
    """Paddle 2.6 adds booleans, and 1.8 does not."""
    assert _row("add") != _row("fluid.layers.elementwise_add")
    with static.program_guard(Program()):
        x = static.data("x", [2, 3], "bool")
        paddle.add(x, x)
        with pytest.raises(OperandError, match="found 'x', a Variable of dtype bool"):
            fluid.layers.elementwise_add(x, x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: paddle.matmul(x, ARRAY), r"'y' must be .* found a NumPy array .* assign"),
        (lambda x, i: F.relu(i), "'x' must be a Variable of dtype .*found 'i', .* int32; .* cast"),
        (lambda x, i: paddle.concat([x, ARRAY]), r"'x\[1\]' must be a Variable, found"),
        (lambda x, i: paddle.concat(1), "'x' must be a Variable or a list or a tuple of them,"),
        (lambda x, i: paddle.multiplex(1, i), "'inputs' must be a list or a tuple, found int 1"),
        (
            lambda x, i: paddle.broadcast_tensors(x),
            "'input' must be .*found the Variable 'x'; put it into a list",
        ),
        (
            lambda x, i: fluid.layers.cast(x, "complex64"),
            "'dtype' must be bool, .* found complex64",
        ),
        (lambda x, i: paddle.logical_and(x, 3), "'y' must be a Variable of dtype .*, found int 3"),
        (lambda x, i: fluid.layers.mul(x, ARRAY), "'y' must be a Variable"),
        (lambda x, i: fluid.layers.one_hot(i, "3"), "'depth' must be an int or a Variable"),
        (lambda x, i: fluid.layers.sqrt(i), "'x' must be a Variable of dtype float16"),
        (lambda x, i: fluid.layers.tanh(i), "'x' must be a Variable of dtype"),
        (lambda x, i: x.block.create_parameter("p", None, "float32"), "'p' needs a shape"),
        (lambda x, i: x.block.append_op("relu", {"X": 3}, {"Out": x}), "slot 'X' takes Variables"),
    ],
)
def test_what_is_refused(call: Call, text: str) -> None:
    """The error is a TypeError, as Paddle's, and graphopt's own, with the function and the line."""
    with static.program_guard(Program()):
        x, i = static.data("x", [2, 3], "float32"), static.data("i", [2, 3], "int32")
        with pytest.raises(TypeError, match=text) as caught:
            call(x, i)
        assert isinstance(caught.value, ProgramError)
        assert isinstance(caught.value, fluid.core.EnforceNotMet)


def test_what_is_accepted() -> None:
    """NumPy scalars and absent arguments are accepted, and bfloat16 where 1.8 accepts float16."""
    with static.program_guard(Program()):
        x = static.data("x", [2, 3], "bfloat16")
        fluid.layers.elementwise_add(x, x)
        paddle.concat([x, x], axis=np.int64(1))  # pyright: ignore[reportArgumentType]
        F.softmax(x, dtype=None)
