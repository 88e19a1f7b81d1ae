"""Elementary functions of one tensor: trigonometric, logarithmic, rounding and special.

A function without properties is one line here, and one in `lowering/ops/elementary.py`. Its name is
also that of Paddle's operator, from X to Out.
"""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from graphopt.ir.dialect.attrs import number
from graphopt.ir.dialect.ops.base import Declare, FloatUnary, RealUnary, Unary

elementwise = Declare(__name__)

Sin = elementwise(FloatUnary, "sin", "Sine.")
Cos = elementwise(FloatUnary, "cos", "Cosine.")
Tan = elementwise(FloatUnary, "tan", "Tangent.")
Asin = elementwise(FloatUnary, "asin", "Inverse sine.")
Acos = elementwise(FloatUnary, "acos", "Inverse cosine.")
Atan = elementwise(FloatUnary, "atan", "Inverse tangent.")
Sinh = elementwise(FloatUnary, "sinh", "Hyperbolic sine.")
Cosh = elementwise(FloatUnary, "cosh", "Hyperbolic cosine.")
Asinh = elementwise(FloatUnary, "asinh", "Inverse hyperbolic sine.")
Acosh = elementwise(FloatUnary, "acosh", "Inverse hyperbolic cosine.")
Atanh = elementwise(FloatUnary, "atanh", "Inverse hyperbolic tangent.")
Log2 = elementwise(FloatUnary, "log2", "Logarithm to base 2.")
Log10 = elementwise(FloatUnary, "log10", "Logarithm to base 10.")
Log1p = elementwise(FloatUnary, "log1p", "log(1 + x), exact for small x.")
Expm1 = elementwise(FloatUnary, "expm1", "exp(x) - 1, exact for small x.")
Reciprocal = elementwise(FloatUnary, "reciprocal", "1 / x.")
Erfinv = elementwise(RealUnary, "erfinv", "Inverse of the error function.")
Lgamma = elementwise(RealUnary, "lgamma", "Logarithm of the absolute value of the gamma function.")
Digamma = elementwise(RealUnary, "digamma", "Derivative of lgamma.")
Floor = elementwise(RealUnary, "floor", "The nearest whole number not above x.")
Ceil = elementwise(RealUnary, "ceil", "The nearest whole number not below x.")
Round = elementwise(RealUnary, "round", "The nearest whole number; halves go away from zero.")
Trunc = elementwise(Unary, "trunc", "The whole part, towards zero.")
Sign = elementwise(Unary, "sign", "-1, 0 or 1.")

# `legacy/table.py` needs no rows for these
PLAIN = tuple(elementwise.made)


@irdl_op_definition
class Stanh(FloatUnary):
    """scale_b * tanh(scale_a * x). Paddle: stanh."""

    name = "pd.stanh"
    scale_a = number(0.67)
    scale_b = number(1.7159)


@irdl_op_definition
class Logit(RealUnary):
    """log(x / (1 - x)); x is first kept in [eps, 1 - eps] when eps is not 0. Paddle: logit."""

    name = "pd.logit"
    eps = number(1e-6)
