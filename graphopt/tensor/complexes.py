"""Conversions between complex numbers and their parts (paddle.*)."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.tensor.elementary import cos, sin
from graphopt.tensor.math import multiply


def complex(real: Variable, imag: Variable, name: str | None = None) -> Variable:
    """Build complex numbers from real and imaginary parts, which broadcast (paddle.complex)."""
    inputs = {"X": arguments.variable(real, "real", "complex")}
    inputs["Y"] = arguments.variable(imag, "imag", "complex")
    return emit("complex", inputs, name=name)


def as_complex(x: Variable, name: str | None = None) -> Variable:
    """Convert pairs along the last axis, of size 2, to complex numbers (paddle.as_complex)."""
    return emit("as_complex", {"X": arguments.variable(x, "x", "as_complex")}, name=name)


def as_real(x: Variable, name: str | None = None) -> Variable:
    """Convert complex numbers to their two parts along a new last axis (paddle.as_real)."""
    return emit("as_real", {"X": arguments.variable(x, "x", "as_real")}, name=name)


def polar(abs: Variable, angle: Variable, name: str | None = None) -> Variable:
    """Build complex numbers from absolute values and angles (paddle.polar)."""
    arguments.variable(abs, "abs", "polar")
    arguments.variable(angle, "angle", "polar")
    return complex(multiply(abs, cos(angle)), multiply(abs, sin(angle)), name)
