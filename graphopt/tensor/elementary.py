"""Elementary functions of one tensor (paddle.*); most of them cast integers to float32."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.math import as_float, divide, multiply, scale, subtract, unary


def sin(x: Variable, name: str | None = None) -> Variable:
    """Compute the sine (paddle.sin)."""
    return unary("sin", as_float(x, "sin"), name)


def cos(x: Variable, name: str | None = None) -> Variable:
    """Compute the cosine (paddle.cos)."""
    return unary("cos", as_float(x, "cos"), name)


def tan(x: Variable, name: str | None = None) -> Variable:
    """Compute the tangent (paddle.tan)."""
    return unary("tan", as_float(x, "tan"), name)


def asin(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse sine (paddle.asin)."""
    return unary("asin", as_float(x, "asin"), name)


def acos(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse cosine (paddle.acos)."""
    return unary("acos", as_float(x, "acos"), name)


def atan(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse tangent (paddle.atan)."""
    return unary("atan", as_float(x, "atan"), name)


def sinh(x: Variable, name: str | None = None) -> Variable:
    """Compute the hyperbolic sine (paddle.sinh)."""
    return unary("sinh", as_float(x, "sinh"), name)


def cosh(x: Variable, name: str | None = None) -> Variable:
    """Compute the hyperbolic cosine (paddle.cosh)."""
    return unary("cosh", as_float(x, "cosh"), name)


def asinh(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse hyperbolic sine (paddle.asinh)."""
    return unary("asinh", as_float(x, "asinh"), name)


def acosh(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse hyperbolic cosine (paddle.acosh)."""
    return unary("acosh", as_float(x, "acosh"), name)


def atanh(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse hyperbolic tangent (paddle.atanh)."""
    return unary("atanh", as_float(x, "atanh"), name)


def log2(x: Variable, name: str | None = None) -> Variable:
    """Compute the logarithm to base 2 (paddle.log2)."""
    return unary("log2", as_float(x, "log2"), name)


def log10(x: Variable, name: str | None = None) -> Variable:
    """Compute the logarithm to base 10 (paddle.log10)."""
    return unary("log10", as_float(x, "log10"), name)


def log1p(x: Variable, name: str | None = None) -> Variable:
    """Compute log(1 + x), exact for small x (paddle.log1p)."""
    return unary("log1p", as_float(x, "log1p"), name)


def expm1(x: Variable, name: str | None = None) -> Variable:
    """Compute exp(x) - 1, exact for small x (paddle.expm1)."""
    return unary("expm1", as_float(x, "expm1"), name)


def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """Compute 1 / x (paddle.reciprocal)."""
    return unary("reciprocal", as_float(x, "reciprocal"), name)


def erfinv(x: Variable, name: str | None = None) -> Variable:
    """Compute the inverse of the error function (paddle.erfinv)."""
    return unary("erfinv", as_float(x, "erfinv"), name)


def lgamma(x: Variable, name: str | None = None) -> Variable:
    """Compute the logarithm of the absolute value of the gamma function (paddle.lgamma)."""
    return unary("lgamma", as_float(x, "lgamma"), name)


def digamma(x: Variable, name: str | None = None) -> Variable:
    """Compute the derivative of lgamma (paddle.digamma)."""
    return unary("digamma", as_float(x, "digamma"), name)


def floor(x: Variable, name: str | None = None) -> Variable:
    """Round down to a whole number (paddle.floor)."""
    return unary("floor", x, name)


def ceil(x: Variable, name: str | None = None) -> Variable:
    """Round up to a whole number (paddle.ceil)."""
    return unary("ceil", x, name)


def round(x: Variable, decimals: Any = 0, name: str | None = None) -> Variable:
    """Round to a number of decimals, halves away from zero (paddle.round).

    Negative `decimals` round to tens, hundreds and so on. A str in their place is the name.
    """
    if decimals is None or isinstance(decimals, str):
        decimals, name = 0, decimals
    digits = arguments.integer(decimals, "decimals", "round")
    if digits == 0 or not arguments.variable(x, "x", "round").dtype.is_floating:
        return unary("round", x, name)
    power = full([], 10.0**digits, x.dtype)
    return divide(unary("round", multiply(x, power), None), power, name)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """Round toward zero to a whole number (paddle.trunc)."""
    return unary("trunc", input, name)


def sign(x: Variable, name: str | None = None) -> Variable:
    """Compute the sign: -1, 0 or 1 (paddle.sign)."""
    return unary("sign", x, name)


def frac(x: Variable, name: str | None = None) -> Variable:
    """Compute x - trunc(x), the fraction with the sign of x (paddle.frac)."""
    return subtract(x, trunc(x), name)


def stanh(
    x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Variable:
    """Compute scale_b * tanh(scale_a * x) (paddle.stanh)."""
    attrs = {
        "scale_a": arguments.number(scale_a, "scale_a", "stanh"),
        "scale_b": arguments.number(scale_b, "scale_b", "stanh"),
    }
    return unary("stanh", as_float(x, "stanh"), name, **attrs)


def logit(x: Variable, eps: Any = None, name: str | None = None) -> Variable:
    """Compute log(x / (1 - x)) of x clamped to [eps, 1 - eps] (paddle.logit).

    Without `eps` the result is nan outside [0, 1].
    """
    limit = 0.0 if eps is None else arguments.number(eps, "eps", "logit")
    return unary("logit", as_float(x, "logit"), name, eps=limit)


def rad2deg(x: Variable, name: str | None = None) -> Variable:
    """Convert radians to degrees (paddle.rad2deg)."""
    return scale(as_float(x, "rad2deg"), 180 / math.pi, name=name)


def deg2rad(x: Variable, name: str | None = None) -> Variable:
    """Convert degrees to radians (paddle.deg2rad)."""
    return scale(as_float(x, "deg2rad"), math.pi / 180, name=name)
