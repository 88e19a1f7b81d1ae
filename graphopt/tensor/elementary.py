"""Elementary functions of one tensor (paddle.*); those of integers give float32."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.math import as_float, divide, multiply, scale, subtract, unary


def sin(x: Variable, name: str | None = None) -> Variable:
    """Sine (paddle.sin)."""
    return unary("sin", as_float(x, "sin"), name)


def cos(x: Variable, name: str | None = None) -> Variable:
    """Cosine (paddle.cos)."""
    return unary("cos", as_float(x, "cos"), name)


def tan(x: Variable, name: str | None = None) -> Variable:
    """Tangent (paddle.tan)."""
    return unary("tan", as_float(x, "tan"), name)


def asin(x: Variable, name: str | None = None) -> Variable:
    """Inverse sine (paddle.asin)."""
    return unary("asin", as_float(x, "asin"), name)


def acos(x: Variable, name: str | None = None) -> Variable:
    """Inverse cosine (paddle.acos)."""
    return unary("acos", as_float(x, "acos"), name)


def atan(x: Variable, name: str | None = None) -> Variable:
    """Inverse tangent (paddle.atan)."""
    return unary("atan", as_float(x, "atan"), name)


def sinh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic sine (paddle.sinh)."""
    return unary("sinh", as_float(x, "sinh"), name)


def cosh(x: Variable, name: str | None = None) -> Variable:
    """Hyperbolic cosine (paddle.cosh)."""
    return unary("cosh", as_float(x, "cosh"), name)


def asinh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic sine (paddle.asinh)."""
    return unary("asinh", as_float(x, "asinh"), name)


def acosh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic cosine (paddle.acosh)."""
    return unary("acosh", as_float(x, "acosh"), name)


def atanh(x: Variable, name: str | None = None) -> Variable:
    """Inverse hyperbolic tangent (paddle.atanh)."""
    return unary("atanh", as_float(x, "atanh"), name)


def log2(x: Variable, name: str | None = None) -> Variable:
    """Logarithm to base 2 (paddle.log2)."""
    return unary("log2", as_float(x, "log2"), name)


def log10(x: Variable, name: str | None = None) -> Variable:
    """Logarithm to base 10 (paddle.log10)."""
    return unary("log10", as_float(x, "log10"), name)


def log1p(x: Variable, name: str | None = None) -> Variable:
    """log(1 + x), exact for small x (paddle.log1p)."""
    return unary("log1p", as_float(x, "log1p"), name)


def expm1(x: Variable, name: str | None = None) -> Variable:
    """exp(x) - 1, exact for small x (paddle.expm1)."""
    return unary("expm1", as_float(x, "expm1"), name)


def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """1 / x (paddle.reciprocal)."""
    return unary("reciprocal", as_float(x, "reciprocal"), name)


def erfinv(x: Variable, name: str | None = None) -> Variable:
    """Inverse of the error function (paddle.erfinv)."""
    return unary("erfinv", as_float(x, "erfinv"), name)


def lgamma(x: Variable, name: str | None = None) -> Variable:
    """Logarithm of the absolute value of the gamma function (paddle.lgamma)."""
    return unary("lgamma", as_float(x, "lgamma"), name)


def digamma(x: Variable, name: str | None = None) -> Variable:
    """Derivative of lgamma (paddle.digamma)."""
    return unary("digamma", as_float(x, "digamma"), name)


def floor(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number not above x (paddle.floor)."""
    return unary("floor", x, name)


def ceil(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number not below x (paddle.ceil)."""
    return unary("ceil", x, name)


def round(x: Variable, decimals: Any = 0, name: str | None = None) -> Variable:
    """The nearest number of so many decimals, halves away from zero (paddle.round).

    A negative number of decimals rounds to tens, hundreds and so on. A str there is the name.
    """
    if decimals is None or isinstance(decimals, str):
        decimals, name = 0, decimals
    digits = arguments.integer(decimals, "decimals", "round")
    if digits == 0 or not arguments.variable(x, "x", "round").dtype.is_floating:
        return unary("round", x, name)
    power = full([], 10.0**digits, x.dtype)
    return divide(unary("round", multiply(x, power), None), power, name)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """The whole part, towards zero (paddle.trunc)."""
    return unary("trunc", input, name)


def sign(x: Variable, name: str | None = None) -> Variable:
    """-1, 0 or 1 (paddle.sign)."""
    return unary("sign", x, name)


def frac(x: Variable, name: str | None = None) -> Variable:
    """The fraction that trunc cuts off, with the sign of x (paddle.frac)."""
    return subtract(x, trunc(x), name)


def stanh(
    x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Variable:
    """scale_b * tanh(scale_a * x) (paddle.stanh)."""
    attrs = {
        "scale_a": arguments.number(scale_a, "scale_a", "stanh"),
        "scale_b": arguments.number(scale_b, "scale_b", "stanh"),
    }
    return unary("stanh", as_float(x, "stanh"), name, **attrs)


def logit(x: Variable, eps: Any = None, name: str | None = None) -> Variable:
    """log(x / (1 - x)) of x kept in [eps, 1 - eps]; nan outside [0, 1] (paddle.logit)."""
    limit = 0.0 if eps is None else arguments.number(eps, "eps", "logit")
    return unary("logit", as_float(x, "logit"), name, eps=limit)


def rad2deg(x: Variable, name: str | None = None) -> Variable:
    """Radians in degrees (paddle.rad2deg)."""
    return scale(as_float(x, "rad2deg"), 180 / math.pi, name=name)


def deg2rad(x: Variable, name: str | None = None) -> Variable:
    """Degrees in radians (paddle.deg2rad)."""
    return scale(as_float(x, "deg2rad"), math.pi / 180, name=name)
