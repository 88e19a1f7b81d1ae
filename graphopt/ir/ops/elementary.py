"""Elementary functions of one tensor: trigonometric, logarithmic, rounding and special."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from graphopt.ir.attrs import number
from graphopt.ir.ops.base import FloatUnary, RealUnary, Unary


@irdl_op_definition
class Sin(FloatUnary):
    """Sine. Paddle: sin."""

    name = "pd.sin"


@irdl_op_definition
class Cos(FloatUnary):
    """Cosine. Paddle: cos."""

    name = "pd.cos"


@irdl_op_definition
class Tan(FloatUnary):
    """Tangent. Paddle: tan."""

    name = "pd.tan"


@irdl_op_definition
class Asin(FloatUnary):
    """Inverse sine. Paddle: asin."""

    name = "pd.asin"


@irdl_op_definition
class Acos(FloatUnary):
    """Inverse cosine. Paddle: acos."""

    name = "pd.acos"


@irdl_op_definition
class Atan(FloatUnary):
    """Inverse tangent. Paddle: atan."""

    name = "pd.atan"


@irdl_op_definition
class Sinh(FloatUnary):
    """Hyperbolic sine. Paddle: sinh."""

    name = "pd.sinh"


@irdl_op_definition
class Cosh(FloatUnary):
    """Hyperbolic cosine. Paddle: cosh."""

    name = "pd.cosh"


@irdl_op_definition
class Asinh(FloatUnary):
    """Inverse hyperbolic sine. Paddle: asinh."""

    name = "pd.asinh"


@irdl_op_definition
class Acosh(FloatUnary):
    """Inverse hyperbolic cosine. Paddle: acosh."""

    name = "pd.acosh"


@irdl_op_definition
class Atanh(FloatUnary):
    """Inverse hyperbolic tangent. Paddle: atanh."""

    name = "pd.atanh"


@irdl_op_definition
class Log2(FloatUnary):
    """Logarithm to base 2. Paddle: log2."""

    name = "pd.log2"


@irdl_op_definition
class Log10(FloatUnary):
    """Logarithm to base 10. Paddle: log10."""

    name = "pd.log10"


@irdl_op_definition
class Log1p(FloatUnary):
    """log(1 + x), exact for small x. Paddle: log1p."""

    name = "pd.log1p"


@irdl_op_definition
class Expm1(FloatUnary):
    """exp(x) - 1, exact for small x. Paddle: expm1."""

    name = "pd.expm1"


@irdl_op_definition
class Reciprocal(FloatUnary):
    """1 / x. Paddle: reciprocal."""

    name = "pd.reciprocal"


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


@irdl_op_definition
class Erfinv(RealUnary):
    """Inverse of the error function. Paddle: erfinv."""

    name = "pd.erfinv"


@irdl_op_definition
class Lgamma(RealUnary):
    """Logarithm of the absolute value of the gamma function. Paddle: lgamma."""

    name = "pd.lgamma"


@irdl_op_definition
class Digamma(RealUnary):
    """Derivative of lgamma. Paddle: digamma."""

    name = "pd.digamma"


@irdl_op_definition
class Floor(RealUnary):
    """The nearest whole number not above x. Paddle: floor."""

    name = "pd.floor"


@irdl_op_definition
class Ceil(RealUnary):
    """The nearest whole number not below x. Paddle: ceil."""

    name = "pd.ceil"


@irdl_op_definition
class Round(RealUnary):
    """The nearest whole number; halves go away from zero. Paddle: round."""

    name = "pd.round"


@irdl_op_definition
class Trunc(Unary):
    """The whole part, towards zero. Paddle: trunc."""

    name = "pd.trunc"


@irdl_op_definition
class Sign(Unary):
    """-1, 0 or 1. Paddle: sign."""

    name = "pd.sign"
