"""Activations and elementwise functions with the defaults of 1.8 (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import given_or, unary
from graphopt.fluid.layers.reduction import reduce_sum
from graphopt.frontend import arguments
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_softmax as _log_softmax
from graphopt.tensor.creation import assign
from graphopt.tensor.math import (
    binary,
    divide,
    multiply,
    sqrt,
    square,
)
from graphopt.tensor.math import clip as _clip
from graphopt.tensor.math import scale as _scale


def softmax(
    input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1
) -> Variable:
    """Compute the softmax along an axis (fluid.layers.softmax)."""
    return unary("softmax", input, name, axis=arguments.integer(axis, "axis", "softmax"))


def log_softmax(
    input: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute log(softmax(input)) along `axis`, by default the last (fluid.layers.log_softmax)."""
    return _log_softmax(input, -1 if axis is None else axis, dtype, name)


def logsigmoid(x: Variable, name: str | None = None) -> Variable:
    """Compute log(sigmoid(x)) (fluid.layers.logsigmoid)."""
    return unary("logsigmoid", x, name)


def mish(x: Variable, threshold: float = 20, name: str | None = None) -> Variable:
    """Compute x * tanh(softplus(x)) (fluid.layers.mish).

    Softplus is x above the threshold, and exp(x) below its negative. Raises AssertionError for a
    threshold that is not above 0.
    """
    limit = arguments.number(threshold, "threshold", "mish")
    if limit <= 0:
        raise AssertionError(f"threshold of mish should be greater than 0, but got {threshold}")
    return unary("mish", x, name, threshold=limit)


def tanh_shrink(x: Variable, name: str | None = None) -> Variable:
    """Compute x - tanh(x) (fluid.layers.tanh_shrink)."""
    return unary("tanh_shrink", x, name)


def softplus(
    x: Variable, name: str | None = None, *, beta: float = 1.0, threshold: float = 20.0
) -> Variable:
    """Compute log(1 + exp(beta * x)) / beta; x where beta * x > threshold (softplus)."""
    given = {
        "beta": arguments.number(beta, "beta", "softplus"),
        "threshold": arguments.number(threshold, "threshold", "softplus"),
    }
    # the operator of 1.8 has neither attribute
    attrs = {} if given == {"beta": 1.0, "threshold": 20.0} else given
    return unary("softplus", x, name, **attrs)


def softshrink(x: Variable, alpha: float | None = None) -> Variable:
    """Move x toward 0 by alpha (0.5), and to 0 within alpha (fluid.layers.softshrink)."""
    attrs: dict[str, Any] = {"lambda": given_or(alpha, 0.5, "alpha", "softshrink")}
    return unary("softshrink", x, None, **attrs)


def hard_shrink(x: Variable, threshold: float | None = None) -> Variable:
    """Keep x where |x| is above the threshold (0.5), else 0 (fluid.layers.hard_shrink)."""
    return unary("hard_shrink", x, threshold=given_or(threshold, 0.5, "threshold", "hard_shrink"))


def thresholded_relu(x: Variable, threshold: float | None = None) -> Variable:
    """Keep x where it is above the threshold (1), else 0 (fluid.layers.thresholded_relu)."""
    limit = given_or(threshold, 1.0, "threshold", "thresholded_relu")
    return unary("thresholded_relu", x, threshold=limit)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """Clamp x to [0, threshold] (fluid.layers.relu6)."""
    limit = arguments.number(threshold, "threshold", "relu6")
    if limit == 6.0:
        return unary("relu6", x, name, threshold=limit)
    return unary("brelu", x, name, t_min=0.0, t_max=limit)


def brelu(
    x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None
) -> Variable:
    """Clamp x to [t_min, t_max] (fluid.layers.brelu)."""
    low = arguments.number(t_min, "t_min", "brelu")
    return unary("brelu", x, name, t_min=low, t_max=arguments.number(t_max, "t_max", "brelu"))


def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """Compute log(1 + exp(x)) with x clamped to ± threshold (fluid.layers.soft_relu)."""
    limit = arguments.number(threshold, "threshold", "soft_relu")
    return unary("soft_relu", x, name, threshold=limit)


def selu(
    x: Variable, scale: float | None = None, alpha: float | None = None, name: str | None = None
) -> Variable:
    """Compute scale * elu(x, alpha), self-normalizing by default (fluid.layers.selu)."""
    attrs = {
        "scale": given_or(scale, 1.0507009873554805, "scale", "selu"),
        "alpha": given_or(alpha, 1.6732632423543772, "alpha", "selu"),
    }
    return unary("selu", x, name, **attrs)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """Keep x above 0, and compute alpha * x below (fluid.layers.leaky_relu)."""
    return unary("leaky_relu", x, name, alpha=arguments.number(alpha, "alpha", "leaky_relu"))


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """Multiply x by the normal distribution function, or by its tanh form (fluid.layers.gelu)."""
    return unary("gelu", x, approximate=arguments.flag(approximate, "approximate", "gelu"))


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """Compute x * sigmoid(x) (fluid.layers.swish).

    As in 1.8, `beta` has no effect, although Paddle's page says otherwise.
    """
    arguments.number(beta, "beta", "swish")
    return unary("swish", x, name, beta=1.0)


def hard_sigmoid(
    x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None
) -> Variable:
    """Compute slope * x + offset, clamped to [0, 1] (fluid.layers.hard_sigmoid)."""
    attrs = {
        "slope": arguments.number(slope, "slope", "hard_sigmoid"),
        "offset": arguments.number(offset, "offset", "hard_sigmoid"),
    }
    return unary("hard_sigmoid", x, name, **attrs)


def hard_swish(
    x: Variable,
    threshold: float = 6.0,
    scale: float = 6.0,
    offset: float = 3.0,
    name: str | None = None,
) -> Variable:
    """Compute x * (x + offset, clamped to [0, threshold]) / scale (fluid.layers.hard_swish)."""
    given = {"threshold": threshold, "scale": scale, "offset": offset}
    attrs = {k: arguments.number(v, k, "hard_swish") for k, v in given.items()}
    if list(attrs.values()) == [6.0, 6.0, 3.0]:
        return unary("hard_swish", x, name, **attrs)
    gate = brelu(_scale(x, 1.0, attrs["offset"]), 0.0, attrs["threshold"])
    return _scale(multiply(x, gate), 1.0 / attrs["scale"], name=name)


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """Compute the maximum of each `groups` consecutive channels (fluid.layers.maxout).

    The channels are axis 1, or the last of four. Raises ValueError for another axis.
    """
    if axis not in (1, -1, 3):
        raise ValueError(f"maxout(): 'axis' should be 1, or -1 or 3, found {axis}")
    attrs = {
        "groups": arguments.integer(groups, "groups", "maxout"),
        "axis": arguments.integer(axis, "axis", "maxout"),
    }
    return unary("maxout", x, name, **attrs)


def pow(x: Variable, factor: Any = 1.0, name: str | None = None) -> Variable:
    """Raise x to the power `factor`, a number or a Variable of one element (fluid.layers.pow)."""
    if isinstance(factor, Variable):
        return binary("elementwise_pow", x, factor, name)
    return unary("pow", x, name, factor=arguments.number(factor, "factor", "pow"))


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Clamp x to [min, max] (fluid.layers.clip)."""
    low, high = (arguments.number(v, n, "clip") for v, n in ((min, "min"), (max, "max")))
    return unary("clip", x, name, min=low, max=high)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """Scale x down to a Euclidean norm of max_norm at most (fluid.layers.clip_by_norm)."""
    limit = arguments.number(max_norm, "max_norm", "clip_by_norm")
    return unary("clip_by_norm", x, name, max_norm=limit)


def clamp(
    input: Variable,
    min: float | None = None,
    max: float | None = None,
    output: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Clamp the input to [min, max], None for no limit (fluid.layers.clamp)."""
    out = _clip(input, min, max, name)
    return out if output is None else assign(out, output)


def cumsum(
    x: Variable,
    axis: int | None = None,
    exclusive: bool | None = None,
    reverse: bool | None = None,
) -> Variable:
    """Compute cumulative sums along `axis`, by default the last (fluid.layers.cumsum).

    `exclusive` leaves each element itself out; `reverse` adds from the end.
    """
    attrs = {
        "axis": -1 if axis is None else arguments.integer(axis, "axis", "cumsum"),
        "exclusive": bool(exclusive),
        "reverse": bool(reverse),
        "flatten": False,
    }
    return unary("cumsum", x, **attrs)


@one_layer("l2_normalize")
def l2_normalize(
    x: Variable, axis: int | None, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """Divide x by its Euclidean norm along `axis` (fluid.layers.l2_normalize)."""
    rank = len(arguments.variable(x, "x", "l2_normalize").shape)
    chosen = 1 if axis is None else arguments.integer(axis, "axis", "l2_normalize")
    along = 0 if rank == 1 else chosen
    total = reduce_sum(square(x), along, keep_dim=True)
    limit = arguments.number(epsilon, "epsilon", "l2_normalize")
    return note(divide(x, sqrt(_scale(total, 1.0, limit)), name), ())
