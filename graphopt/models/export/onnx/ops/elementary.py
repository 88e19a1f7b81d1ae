"""Elementwise mathematical functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary as ops
from graphopt.lowering.host_draws import FAR, NEAR
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of
from graphopt.models.export.onnx.registry import exports, exports_as, exports_each

exports_as(
    {
        ops.Acos: "Acos",
        ops.Acosh: "Acosh",
        ops.Asin: "Asin",
        ops.Asinh: "Asinh",
        ops.Atan: "Atan",
        ops.Atanh: "Atanh",
        ops.Cos: "Cos",
        ops.Cosh: "Cosh",
        ops.Reciprocal: "Reciprocal",
        ops.Sign: "Sign",
        ops.Sin: "Sin",
        ops.Sinh: "Sinh",
        ops.Tan: "Tan",
    }
)


@exports(ops.Floor)
def floor(emit: Nodes, x: Value) -> Value:
    return emit("Floor", x) if dtype_of(x).is_floating else x


@exports(ops.Ceil)
def ceil(emit: Nodes, x: Value) -> Value:
    return emit("Ceil", x) if dtype_of(x).is_floating else x


@exports(ops.Trunc)
def trunc(emit: Nodes, x: Value) -> Value:
    if not dtype_of(x).is_floating:
        return x
    negative = emit("Less", x, emit.number(0, x))
    return emit("Where", negative, emit("Ceil", x), emit("Floor", x))


@exports(ops.Round, wide=True)
def round_(emit: Nodes, x: Value) -> Value:
    """Round halves away from zero; ONNX's Round rounds them to even."""
    if not dtype_of(x).is_floating:
        return x
    size = emit("Abs", x)
    whole = emit("Floor", size)
    up = emit("GreaterOrEqual", emit("Sub", size, whole), emit.number(0.5, x))
    return emit("Mul", emit("Sign", x), emit("Add", whole, emit.cast(up, dtype_of(x))))


exports_each(
    {
        ops.Log2: lambda emit, x: emit("Div", emit("Log", x), emit.number(math.log(2), x)),
        ops.Log10: lambda emit, x: emit("Div", emit("Log", x), emit.number(math.log(10), x)),
        ops.Lerp: lambda emit, x, y, weight: emit("Add", x, emit("Mul", weight, emit("Sub", y, x))),
    },
    wide=True,
)


@exports(ops.Log1p, wide=True)
def log1p(emit: Nodes, x: Value) -> Value:
    """Compute x * log(u) / (u - 1) with u the rounded 1 + x, where the rounding errors cancel."""
    one = emit.number(1, x)
    more = emit("Add", one, x)
    step = emit("Sub", more, one)
    scaled = emit("Mul", emit("Log", more), emit("Div", x, step))
    is_tiny = emit("Equal", step, emit.number(0, x))
    is_large = emit("Greater", x, emit.number(1e7, x))
    return emit("Where", is_tiny, x, emit("Where", is_large, emit("Log", more), scaled))


@exports(ops.Expm1, wide=True)
def expm1(emit: Nodes, x: Value) -> Value:
    """Compute tanh(x / 2) * (exp(x) + 1), which keeps the digits of small x."""
    half = emit("Tanh", emit("Mul", x, emit.number(0.5, x)))
    return emit("Mul", half, emit("Add", emit("Exp", x), emit.number(1, x)))


@exports(ops.Stanh, wide=True)
def stanh(emit: Nodes, x: Value, scale_a: float, scale_b: float) -> Value:
    inner = emit("Tanh", emit("Mul", x, emit.number(scale_a, x)))
    return emit("Mul", inner, emit.number(scale_b, x))


@exports(ops.Logit, wide=True)
def logit(emit: Nodes, x: Value, eps: float) -> Value:
    if eps:
        x = emit("Clip", x, emit.number(eps, x), emit.number(1 - eps, x))
    return emit("Sub", emit("Log", x), log1p(emit, emit("Neg", x)))


@exports(ops.Heaviside)
def heaviside(emit: Nodes, x: Value, y: Value) -> Value:
    zero = emit.number(0, x)
    positive = emit.cast(emit("Greater", x, zero), dtype_of(x))
    return emit("Where", emit("Equal", x, zero), y, positive)


@exports(ops.Atan2, wide=True)
def atan2(emit: Nodes, x: Value, y: Value) -> Value:
    """Compute the angle of the point (y, x): atan(x / y), shifted by half a turn for y < 0."""
    zero, half = emit.number(0, x), emit.number(math.pi, x)
    flat, upright = emit("Equal", x, zero), emit("Equal", y, zero)
    line = emit("Where", flat, zero, emit("Atan", emit("Div", x, y)))
    up = emit("Where", emit("Less", x, zero), emit("Neg", half), half)
    left = emit("Where", emit("Less", y, zero), up, zero)
    quarter = emit("Mul", emit("Sign", x), emit.number(math.pi / 2, x))
    return emit("Where", upright, quarter, emit("Add", line, left))


@exports(ops.Copysign)
def copysign(emit: Nodes, x: Value, y: Value) -> Value:
    if dtype_of(x) == "bool":
        return emit("And", x, emit("Or", y, emit("Not", y)))
    zero = emit.number(0, y)
    below = emit("Less", y, zero)
    if dtype_of(y).is_floating:  # -0 counts as negative, too
        below = emit("Or", below, emit("Less", emit("Reciprocal", y), zero))
    size = emit("Abs", x)
    return emit("Where", below, emit("Neg", size), size)


# ONNX shifts unsigned integers, and ONNX Runtime only these dtypes.
_SHIFTED = ("uint32", "uint64")


def _by_bits(emit: Nodes, y: Value) -> Value:
    """Look up 2 to the power of each number; 2**63 is the sign bit alone."""
    powers = emit.constant(np.left_shift(1, np.arange(64)))
    return emit("Gather", powers, emit.cast(y, "int64"), axis=0)


@exports(ops.BitwiseLeftShift)
def bitwise_left_shift(emit: Nodes, x: Value, y: Value) -> Value:
    if dtype_of(x) in _SHIFTED:
        return emit("BitShift", x, y, direction="LEFT")
    moved = emit("Mul", emit.cast(x, "int64"), _by_bits(emit, y))
    return emit.cast(moved, dtype_of(x))


@exports(ops.BitwiseRightShift)
def bitwise_right_shift(emit: Nodes, x: Value, y: Value, is_arithmetic: bool) -> Value:
    """Shift by division; complement negative numbers first, since Div rounds toward zero."""
    if dtype_of(x) in _SHIFTED:
        return emit("BitShift", x, y, direction="RIGHT")
    wide, powers = emit.cast(x, "int64"), _by_bits(emit, y)
    negative = emit("Less", wide, emit.number(0, "int64"))
    if not is_arithmetic and dtype_of(x) != "uint8":
        if dtype_of(x) == "int64":
            raise NotInOnnx("the shift treats 64-bit numbers as unsigned")
        above = emit.number(1 << 8 * dtype_of(x).numpy.itemsize, "int64")
        wide = emit("Where", negative, emit("Add", wide, above), wide)
        return emit.cast(emit("Div", wide, powers), dtype_of(x))
    bits = emit("Where", negative, emit("BitwiseNot", wide), wide)
    moved = emit("Div", bits, powers)
    moved = emit("Where", negative, emit("BitwiseNot", moved), moved)
    return emit.cast(moved, dtype_of(x))


def polynomial(emit: Nodes, x: Value, factors: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule; the coefficient of the highest power comes first."""
    total = emit.number(factors[0], x)
    for factor in factors[1:]:
        total = emit("Add", emit("Mul", total, x), emit.number(factor, x))
    return total


# Lanczos approximation with g = 7
_LANCZOS = (
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


@exports(ops.Lgamma)
def lgamma(emit: Nodes, x: Value) -> Value:
    """Compute log-gamma in float64, which Lanczos' sum of large terms of both signs needs."""
    wide = emit.cast(x, "float64")
    half, one = emit.number(0.5, wide), emit.number(1, wide)
    low = emit("Less", wide, half)
    above = emit("Sub", emit("Where", low, emit("Sub", one, wide), wide), one)
    series = emit.number(0.99999999999980993, wide)
    for at, factor in enumerate(_LANCZOS, 1):
        part = emit("Div", emit.number(factor, wide), emit("Add", above, emit.number(at, wide)))
        series = emit("Add", series, part)
    base = emit("Add", above, emit.number(7.5, wide))
    power = emit("Mul", emit("Add", above, half), emit("Log", base))
    found = emit("Add", emit("Sub", power, base), emit("Log", series))
    found = emit("Add", found, emit.number(0.5 * math.log(2 * math.pi), wide))
    away = emit("Sub", wide, emit("Floor", wide))
    sine = emit("Sin", emit("Mul", away, emit.number(math.pi, wide)))
    mirrored = emit("Sub", emit.number(math.log(math.pi), wide), emit("Log", sine))
    found = emit("Where", low, emit("Sub", mirrored, found), found)
    whole = emit("And", emit("Equal", away, emit.number(0, wide)), emit("LessOrEqual", wide, away))
    infinite = emit("Equal", emit("Abs", wide), emit.number(math.inf, wide))
    found = emit("Where", emit("Or", whole, infinite), emit.number(math.inf, wide), found)
    return emit.cast(found, dtype_of(x))


@exports(ops.Digamma)
def digamma(emit: Nodes, x: Value) -> Value:
    """Compute digamma by recurrence, up to arguments where the asymptotic series is exact."""
    wide = emit.cast(x, "float64")
    one = emit.number(1, wide)
    low = emit("Less", wide, emit.number(0.5, wide))
    place = emit("Where", low, emit("Sub", one, wide), wide)
    found = _asymptotic(emit, emit("Add", place, emit.number(_FAR, wide)))
    for step in range(_FAR):
        found = emit("Sub", found, emit("Reciprocal", emit("Add", place, emit.number(step, wide))))
    angle = emit("Mul", wide, emit.number(math.pi, wide))
    turned = emit(
        "Mul", emit.number(math.pi, wide), emit("Div", emit("Cos", angle), emit("Sin", angle))
    )
    found = emit("Where", low, emit("Sub", found, turned), found)
    whole = emit("Equal", emit("Floor", wide), wide)
    pole = emit("And", whole, emit("LessOrEqual", wide, emit.number(0, wide)))
    found = emit("Where", pole, emit.number(math.nan, wide), found)
    flat = emit("Equal", wide, emit.number(0, wide))
    found = emit("Where", flat, emit("Neg", emit("Reciprocal", wide)), found)
    return emit.cast(found, dtype_of(x))


_FAR = 8
"""The number from which on the asymptotic series of the gamma function's derivatives are exact."""


def _asymptotic(emit: Nodes, x: Value) -> Value:
    inverse = emit("Reciprocal", x)
    square = emit("Mul", inverse, inverse)
    rest = polynomial(emit, square, (-1 / 240, 1 / 252, -1 / 120, 1 / 12, 0))
    half = emit("Mul", emit.number(0.5, x), inverse)
    return emit("Sub", emit("Sub", emit("Log", x), half), rest)


@exports(ops.Polygamma)
def polygamma(emit: Nodes, x: Value, n: int) -> Value:
    """Compute n! times Hurwitz' zeta function of n + 1 by the Euler-Maclaurin formula.

    Below 0, reflect to 1 - x and add the derivative of the cotangent.
    """
    if n == 0:
        return digamma(emit, x)
    given = emit.cast(x, "float64")
    low = emit("Less", given, emit.number(0, given))
    wide = emit("Where", low, emit("Sub", emit.number(1, given), given), given)

    def power(base: Value, exponent: float) -> Value:
        return emit("Pow", base, emit.number(exponent, wide))

    far, order = emit("Add", wide, emit.number(_FAR, wide)), n + 1
    terms = [power(emit("Add", wide, emit.number(k, wide)), -order) for k in range(_FAR)]
    terms.append(emit("Div", power(far, 1 - order), emit.number(order - 1, wide)))
    terms.append(emit("Mul", power(far, -order), emit.number(0.5, wide)))
    rising = 1.0
    for at, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), 1):
        rising *= (order + 2 * at - 3) * (order + 2 * at - 2) if at > 1 else order
        factor = bernoulli / math.factorial(2 * at) * rising
        terms.append(emit("Mul", power(far, -order - 2 * at + 1), emit.number(factor, wide)))
    sign = 1 if n % 2 else -1
    total = emit("Mul", emit("Sum", *terms), emit.number(sign * math.factorial(n), wide))
    mirrored = emit("Neg", total) if n % 2 else total
    mirrored = emit("Sub", mirrored, _cotangent(emit, given, n))
    found = emit("Where", low, mirrored, total)
    whole = emit("Equal", emit("Floor", given), given)
    pole = emit("And", whole, emit("LessOrEqual", given, emit.number(0, given)))
    found = emit("Where", pole, emit.number(sign * math.inf, given), found)
    return emit.cast(found, dtype_of(x))


def _cotangent(emit: Nodes, x: Value, n: int) -> Value:
    """Compute the n-th derivative of pi cot(pi x), a polynomial of cot(pi x)."""
    derivative = np.polynomial.Polynomial([0.0, math.pi])
    for _ in range(n):
        derivative = derivative.deriv() * [-math.pi, 0.0, -math.pi]
    angle = emit("Mul", emit("Sub", x, emit("Round", x)), emit.number(math.pi, x))
    at = emit("Reciprocal", emit("Tan", angle))
    return polynomial(emit, at, derivative.coef[::-1].tolist())


@exports(ops.Erfinv, wide=True)
def erfinv(emit: Nodes, x: Value) -> Value:
    one = emit.number(1, x)
    inside = emit("Mul", emit("Sub", one, x), emit("Add", one, x))
    w = emit("Neg", emit("Log", inside))
    middle = polynomial(emit, emit("Sub", w, emit.number(2.5, x)), NEAR)
    root = emit("Sqrt", emit("Max", w, emit.number(0, x)))
    ends = polynomial(emit, emit("Sub", root, emit.number(3, x)), FAR)
    found = emit("Where", emit("Less", w, emit.number(5, x)), middle, ends)
    edge = emit("Equal", emit("Abs", x), one)
    factor = emit("Where", edge, emit.number(math.inf, x), found)
    return emit("Mul", factor, x)


# Abramowitz and Stegun 9.8.1 to 9.8.4: for small x, and for the rest times exp(-x) sqrt(x)
_BESSEL = {
    0: (
        (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0),
        (
            *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565),
            *(0.00225319, 0.01328592, 0.39894228),
        ),
    ),
    1: (
        (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5),
        (
            *(-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801),
            *(-0.00362018, -0.03988024, 0.39894228),
        ),
    ),
}
_BEND = 3.75


def _bessel(op_class: type[PdOp], order: int, *, scaled: bool) -> None:
    @exports(op_class, wide=True)
    def rule(emit: Nodes, x: Value) -> Value:
        small, large = _BESSEL[order]
        size, bend = emit("Abs", x), emit.number(_BEND, x)
        share = emit("Div", x, bend)
        near = polynomial(emit, emit("Mul", share, share), small)
        far = emit("Max", size, bend)
        beyond = emit("Div", polynomial(emit, emit("Div", bend, far), large), emit("Sqrt", far))
        if order:
            near, beyond = emit("Mul", near, x), emit("Mul", beyond, emit("Sign", x))
        if scaled:
            near = emit("Mul", near, emit("Exp", emit("Neg", size)))
        else:
            beyond = emit("Mul", beyond, emit("Exp", size))
        return emit("Where", emit("Less", size, bend), near, beyond)


_bessel(ops.I0, 0, scaled=False)
_bessel(ops.I0e, 0, scaled=True)
_bessel(ops.I1, 1, scaled=False)
_bessel(ops.I1e, 1, scaled=True)


@exports(ops.Gcd)
def gcd(emit: Nodes, x: Value, y: Value) -> Value:
    """Run Euclid's algorithm for the maximal number of steps that 64-bit numbers take."""
    sizes = emit("Shape", emit("Add", x, y))
    pair = [emit("Expand", emit("Abs", value), sizes) for value in (x, y)]

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        large, small = states
        done = inner("Equal", small, inner.number(0, small))
        rest = inner("Mod", large, inner("Where", done, inner.number(1, small), small))
        return [
            inner("Where", done, large, small),
            inner("Where", done, small, rest),
        ], []

    (found, _), _ = scan(emit, pair, [emit.ints(range(_EUCLID))], step)
    return found


_EUCLID = 92
