"""Special functions, and functions of bits, signs and divisors (paddle.*).

Two operands broadcast and have one dtype; the result keeps the dtype of x unless a function says
otherwise.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from graphopt.errors import AssertedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import imag
from graphopt.tensor.complexes import complex as complex_
from graphopt.tensor.creation import full, ones_like
from graphopt.tensor.elementary import digamma, floor, lgamma, log1p, sign, sin
from graphopt.tensor.logic import (
    any,
    equal,
    greater_than,
    isinf,
    less_than,
    logical_and,
    logical_not,
)
from graphopt.tensor.manipulation import cast, reshape, unsqueeze
from graphopt.tensor.math import (
    abs,
    add,
    as_float,
    binary,
    divide,
    exp,
    floor_divide,
    log,
    maximum,
    multiply,
    pow,
    scale,
    sqrt,
    square,
    subtract,
)
from graphopt.tensor.search import where


def _unary(type: str, x: Any, name: str | None, **attrs: Any) -> Variable:
    return emit(type, {"x": arguments.variable(x, "x", type)}, attrs, name=name, out="out")


def _binary(type: str, x: Any, y: Any, name: str | None, **attrs: Any) -> Variable:
    inputs = {"x": arguments.variable(x, "x", type), "y": arguments.variable(y, "y", type)}
    return emit(type, inputs, attrs, name=name, out="out")


def i0(x: Variable, name: str | None = None) -> Variable:
    """Compute the modified Bessel function of the first kind, of order 0 (paddle.i0)."""
    return _unary("i0", as_float(x, "i0"), name)


def i0e(x: Variable, name: str | None = None) -> Variable:
    """Compute exp(-|x|) * i0(x) (paddle.i0e)."""
    return _unary("i0e", as_float(x, "i0e"), name)


def i1(x: Variable, name: str | None = None) -> Variable:
    """Compute the modified Bessel function of the first kind, of order 1 (paddle.i1)."""
    return _unary("i1", as_float(x, "i1"), name)


def i1e(x: Variable, name: str | None = None) -> Variable:
    """Compute exp(-|x|) * i1(x) (paddle.i1e)."""
    return _unary("i1e", as_float(x, "i1e"), name)


def polygamma(x: Variable, n: int, name: str | None = None) -> Variable:
    """Compute the n-th derivative of digamma (paddle.polygamma). Raises ValueError for n < 0."""
    order = arguments.integer(n, "n", "polygamma")
    if order < 0:
        raise ValueError(f"polygamma(): 'n' should be 0 or more, but received {n}")
    if order == 0:
        return digamma(x, name)
    return _unary("polygamma", as_float(x, "polygamma"), name, n=order)


def multigammaln(x: Variable, p: int, name: str | None = None) -> Variable:
    """Compute the logarithm of the gamma function of p dimensions (paddle.multigammaln).

    The terms are added from the smallest on and the constant last, as in Paddle.
    """
    count = arguments.integer(p, "p", "multigammaln")
    if count < 1:
        raise AssertedError(f"multigammaln(): 'p' should be 1 or more, but received {p}")
    terms = [lgamma(scale(x, 1.0, -0.5 * i)) for i in reversed(range(count))]
    total = functools.reduce(add, terms)
    return scale(total, 1.0, 0.25 * count * (count - 1) * math.log(math.pi), name=name)


def gammaln(x: Variable, name: str | None = None) -> Variable:
    """Compute the log of the absolute value of the gamma function (paddle.gammaln)."""
    return lgamma(x, name)


def gammaincc(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the regularized upper incomplete gamma function of order x at y (paddle.gammaincc).

    The order has no gradient.
    """
    return _binary("gammaincc", x, y, name)


def gammainc(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the regularized lower incomplete gamma function of order x at y (gammainc)."""
    return scale(gammaincc(x, y), -1.0, 1.0, name=name)


def sinc(x: Variable, name: str | None = None) -> Variable:
    """Compute sin(pi x) / (pi x), and 1 at 0 (paddle.sinc)."""
    at_zero = equal(x, full([], 0, arguments.variable(x, "x", "sinc").dtype))
    turns = scale(where(at_zero, full([], 1, x.dtype), x), math.pi)
    return where(at_zero, full([], 1, x.dtype), divide(sin(turns), turns), name)


def heaviside(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute 0 where x is negative, 1 where it is positive, y where it is 0 (paddle.heaviside)."""
    return binary("elementwise_heaviside", x, y, name)


def nextafter(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the next representable number after x toward y (paddle.nextafter)."""
    return _binary("nextafter", x, y, name)


def copysign(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Combine the magnitude of x with the sign of y, a number or a Variable (paddle.copysign)."""
    arguments.variable(x, "x", "copysign")
    sign = y if isinstance(y, Variable) else full([], y, x.dtype)
    return _binary("copysign", x, sign, name)


def gcd(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the greatest common divisor of integers, never negative (paddle.gcd)."""
    return binary("gcd", x, y, name)


def lcm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the least common multiple of integers, 0 if either is 0 (paddle.lcm)."""
    divisor = gcd(x, y)
    zero, one = full([], 0, divisor.dtype), full([], 1, divisor.dtype)
    product = abs(multiply(x, y))
    nothing = equal(divisor, zero)
    multiple = floor_divide(product, where(nothing, one, divisor))
    return where(nothing, zero, multiple, name)


def bitwise_left_shift(
    x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None
) -> Variable:
    """Shift the bits of integers x left by y (paddle.bitwise_left_shift)."""
    kind = arguments.flag(is_arithmetic, "is_arithmetic", "bitwise_left_shift")
    return _binary("bitwise_left_shift", x, y, name, is_arithmetic=kind)


def bitwise_right_shift(
    x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None
) -> Variable:
    """Shift the bits of integers x right by y (paddle.bitwise_right_shift).

    An arithmetic shift fills with the sign bit, a logical one with zeros.
    """
    kind = arguments.flag(is_arithmetic, "is_arithmetic", "bitwise_right_shift")
    return _binary("bitwise_right_shift", x, y, name, is_arithmetic=kind)


def ldexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute x * 2**y; float64 if either operand is, else float32 (paddle.ldexp)."""
    x, y = arguments.variable(x, "x", "ldexp"), arguments.variable(y, "y", "ldexp")
    made = "float64" if "float64" in (x.dtype, y.dtype) else "float32"
    power = pow(full([], 2.0, made), cast(y, made))
    return multiply(cast(x, made), power, name)


def frexp(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """Split x into a mantissa of magnitude 0.5 to 1 and an exponent of 2, both floats.

    Paddle page: paddle.frexp.
    """
    dtype = arguments.variable(x, "x", "frexp").dtype
    if dtype not in ("float32", "float64"):
        raise TypeError(f"frexp(): 'x' should be float32 or float64, but received {dtype}")
    zero, one = full([], 0.0, dtype), full([], 1.0, dtype)
    nothing = equal(x, zero)
    size = where(nothing, one, abs(x))
    exponent = scale(floor(scale(log(size), 1 / math.log(2))), 1.0, 1.0)
    mantissa = divide(size, pow(full([], 2.0, dtype), exponent))
    # next to powers of two, the logarithm may be off by 1
    large, small = greater_than(scale(one, 1.0), mantissa), less_than(mantissa, scale(one, 0.5))
    exponent = where(large, exponent, scale(exponent, 1.0, 1.0))
    mantissa = where(large, mantissa, scale(mantissa, 0.5))
    exponent = where(small, scale(exponent, 1.0, -1.0), exponent)
    mantissa = where(small, scale(mantissa, 2.0), mantissa)
    signed = where(less_than(x, zero), scale(mantissa, -1.0), mantissa)
    return where(nothing, zero, signed, name), where(nothing, zero, exponent)


def logaddexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute log(exp(x) + exp(y)) without overflow (paddle.logaddexp)."""
    arguments.variable(x, "x", "logaddexp")
    gap = scale(abs(subtract(x, y)), -1.0)
    return add(maximum(x, y), log1p(exp(gap)), name)


def hypot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute sqrt(x * x + y * y) (paddle.hypot)."""
    arguments.variable(x, "x", "hypot")
    return sqrt(add(square(x), square(arguments.variable(y, "y", "hypot"))), name)


def positive(x: Variable, name: str | None = None) -> Variable:
    """Return x unchanged (paddle.positive). Raises TypeError for bool tensors."""
    if arguments.variable(x, "x", "positive").dtype == "bool":
        raise TypeError("positive(): 'x' should hold numbers, but received bool")
    return x


def signbit(x: Variable, name: str | None = None) -> Variable:
    """Test the sign bit, set for negative numbers and -0.0 (paddle.signbit)."""
    dtype = arguments.variable(x, "x", "signbit").dtype
    if not dtype.is_floating:
        return less_than(x, full([], 0, dtype), name)
    one = full([], 1, dtype)
    return less_than(copysign(one, x), full([], 0, dtype), name)


def isposinf(x: Variable, name: str | None = None) -> Variable:
    """Test each element for +infinity (paddle.isposinf)."""
    return logical_and(isinf(x), greater_than(x, full([], 0, x.dtype)), name=name)


def isneginf(x: Variable, name: str | None = None) -> Variable:
    """Test each element for -infinity (paddle.isneginf)."""
    return logical_and(isinf(x), less_than(x, full([], 0, x.dtype)), name=name)


def isreal(x: Variable, name: str | None = None) -> Variable:
    """Test whether the imaginary part of each element is 0 (paddle.isreal)."""
    dtype = arguments.variable(x, "x", "isreal").dtype
    if not dtype.is_complex:
        return ones_like(x, "bool", name)
    part = imag(x)
    return equal(part, full([], 0, part.dtype), name)


def sgn(x: Variable, name: str | None = None) -> Variable:
    """Compute the sign of real numbers; of complex ones x / |x|, and 0 at 0 (paddle.sgn)."""
    if not arguments.variable(x, "x", "sgn").dtype.is_complex:
        return sign(x, name)
    size = abs(x)
    nothing = equal(size, full([], 0, size.dtype))
    length = where(nothing, full([], 1, size.dtype), size)
    return divide(x, complex_(length, full([], 0, size.dtype)), name)


def isin(
    x: Variable,
    test_x: Variable,
    assume_unique: bool = False,
    invert: bool = False,
    name: str | None = None,
) -> Variable:
    """Test whether each element of x is an element of `test_x` (paddle.isin)."""
    arguments.variable(x, "x", "isin")
    wanted = reshape(arguments.variable(test_x, "test_x", "isin"), [-1])
    found = any(equal(unsqueeze(x, -1), wanted), -1)
    return logical_not(found, name=name) if invert else found
