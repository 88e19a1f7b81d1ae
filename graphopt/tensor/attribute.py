"""What is known about a tensor: its shape, rank and kind of elements (paddle.*)."""

from __future__ import annotations

import numpy as np

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit
from graphopt.tensor.creation import assign


def shape(input: Variable) -> Variable:
    """The dimensions of `input` at run time, int32 of shape [rank] (paddle.shape)."""
    return emit("shape", {"Input": arguments.variable(input, "input", "shape")}, stop_gradient=True)


def rank(input: Variable) -> Variable:
    """The number of dimensions, a 0-D int32 tensor (paddle.rank)."""
    made = assign(np.array(len(arguments.variable(input, "input", "rank").shape), "int32"))
    made.stop_gradient = True
    return made


def is_tensor(x: object) -> bool:
    """True for a Variable (paddle.is_tensor)."""
    return isinstance(x, Variable)


def is_floating_point(x: Variable) -> bool:
    """True when the elements are real floating-point numbers (paddle.is_floating_point)."""
    return arguments.variable(x, "x", "is_floating_point").dtype.is_floating


def is_integer(x: Variable) -> bool:
    """True when the elements are integers; bool does not count (paddle.is_integer)."""
    return arguments.variable(x, "x", "is_integer").dtype.startswith(("int", "uint"))


def is_complex(x: Variable) -> bool:
    """True when the elements are complex numbers (paddle.is_complex)."""
    return arguments.variable(x, "x", "is_complex").dtype.is_complex
