"""Attributes of tensors: shape, rank, kind of dtype, real and imaginary parts (paddle.*)."""

from __future__ import annotations

import numpy as np

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign


def shape(input: Variable) -> Variable:
    """Compute the dimensions of `input` at run time, int32 of shape [rank] (paddle.shape)."""
    return emit("shape", {"Input": arguments.variable(input, "input", "shape")}, stop_gradient=True)


def rank(input: Variable) -> Variable:
    """Return the number of dimensions as a constant, a 0-D int32 tensor (paddle.rank)."""
    made = assign(np.array(len(arguments.variable(input, "input", "rank").shape), "int32"))
    made.stop_gradient = True
    return made


def is_tensor(x: object) -> bool:
    """Return whether x is a Variable (paddle.is_tensor)."""
    return isinstance(x, Variable)


def is_floating_point(x: Variable) -> bool:
    """Return whether the elements are real floating-point numbers (paddle.is_floating_point)."""
    return arguments.variable(x, "x", "is_floating_point").dtype.is_floating


def is_integer(x: Variable) -> bool:
    """Return whether the elements are integers; bool does not count (paddle.is_integer)."""
    return arguments.variable(x, "x", "is_integer").dtype.startswith(("int", "uint"))


def is_complex(x: Variable) -> bool:
    """Return whether the elements are complex numbers (paddle.is_complex)."""
    return arguments.variable(x, "x", "is_complex").dtype.is_complex


def numel(x: Variable, name: str | None = None) -> Variable:
    """Count the elements at run time, a 0-D int64 tensor (paddle.numel)."""
    inputs = {"Input": arguments.variable(x, "x", "numel")}
    return emit("size", inputs, layer="numel", name=name, stop_gradient=True)


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """Test at run time whether there are no elements, a 0-D bool tensor (paddle.is_empty)."""
    count = numel(arguments.variable(x, "x", "is_empty"))
    zero = assign(np.array(0, "int64"))
    return emit("equal", {"X": count, "Y": zero}, name=name, stop_gradient=True)


def real(x: Variable, name: str | None = None) -> Variable:
    """Extract the real parts (paddle.real)."""
    return emit("real", {"X": arguments.variable(x, "x", "real")}, name=name)


def imag(x: Variable, name: str | None = None) -> Variable:
    """Extract the imaginary parts (paddle.imag)."""
    return emit("imag", {"X": arguments.variable(x, "x", "imag")}, name=name)


def conj(x: Variable, name: str | None = None) -> Variable:
    """Compute the complex conjugates (paddle.conj)."""
    return emit("conj", {"X": arguments.variable(x, "x", "conj")}, name=name)


def angle(x: Variable, name: str | None = None) -> Variable:
    """Compute the angles to the positive real axis (paddle.angle)."""
    return emit("angle", {"X": arguments.variable(x, "x", "angle")}, name=name)


lazy.join_package(globals())
