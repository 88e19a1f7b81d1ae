"""Activation functions: one floating-point tensor in, one of the same shape out."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.in_place import in_place
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.tensor.activation import sigmoid as sigmoid
from graphopt.tensor.activation import softmax as softmax
from graphopt.tensor.manipulation import cast, split
from graphopt.tensor.math import multiply, unary, unary_as
from graphopt.tensor.math import tanh as tanh


def relu(x: Variable, name: str | None = None) -> Variable:
    """Compute max(x, 0) (paddle.nn.functional.relu)."""
    return unary("relu", x, name)


def relu6(x: Variable, name: str | None = None) -> Variable:
    """Compute min(max(x, 0), 6) (paddle.nn.functional.relu6)."""
    return unary("relu6", x, name)


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """Compute x * Phi(x), exactly or by the tanh formula (paddle.nn.functional.gelu)."""
    return unary("gelu", x, name, approximate=arguments.flag(approximate, "approximate", "gelu"))


def silu(x: Variable, name: str | None = None) -> Variable:
    """Compute x * sigmoid(x) (paddle.nn.functional.silu)."""
    return unary("silu", x, name)


def swish(x: Variable, name: str | None = None) -> Variable:
    """Compute x * sigmoid(x) (paddle.nn.functional.swish)."""
    return unary("swish", x, name, beta=1.0)


def hardsigmoid(
    x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Variable:
    """Compute min(max(slope * x + offset, 0), 1) (paddle.nn.functional.hardsigmoid)."""
    slope = arguments.number(slope, "slope", "hardsigmoid")
    offset = arguments.number(offset, "offset", "hardsigmoid")
    return unary_as("hardsigmoid", "hard_sigmoid", x, name, slope=slope, offset=offset)


def hardswish(x: Variable, name: str | None = None) -> Variable:
    """Compute x * relu6(x + 3) / 6 (paddle.nn.functional.hardswish)."""
    return unary_as("hardswish", "hard_swish", x, name)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """Compute x where positive, negative_slope * x elsewhere (paddle.nn.functional.leaky_relu)."""
    alpha = arguments.number(negative_slope, "negative_slope", "leaky_relu")
    return unary("leaky_relu", x, name, alpha=alpha)


def log_softmax(
    x: Variable, axis: int | None = -1, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute log(softmax(x)) along `axis`, after a cast to `dtype` (functional.log_softmax).

    None is the last axis.
    """
    axis = -1 if axis is None else axis
    x = x if dtype is None else cast(x, dtype)
    return unary("log_softmax", x, name, axis=arguments.integer(axis, "axis", "log_softmax"))


def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """Multiply the first half of x along `axis` by sigmoid(second half) (nn.functional.glu)."""
    value, gate = split(x, 2, axis)
    return multiply(value, sigmoid(gate), name)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """Compute x where positive, alpha * (exp(x) - 1) elsewhere (paddle.nn.functional.elu)."""
    return unary("elu", x, name, alpha=arguments.number(alpha, "alpha", "elu"))


def selu(
    x: Variable,
    scale: float = 1.0507009873554805,
    alpha: float = 1.6732632423543772,
    name: str | None = None,
) -> Variable:
    """Compute scale * elu(x, alpha) (paddle.nn.functional.selu).

    Raises ValueError for a scale of 1 or less, and an alpha below 0.
    """
    attrs = {
        "scale": arguments.number(scale, "scale", "selu"),
        "alpha": arguments.number(alpha, "alpha", "selu"),
    }
    if attrs["scale"] <= 1:
        raise ValueError(f"selu(): 'scale' should be above 1, found {scale}")
    if attrs["alpha"] < 0:
        raise ValueError(f"selu(): 'alpha' should not be negative, found {alpha}")
    return unary("selu", x, name, **attrs)


def celu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """Compute x where positive, alpha * (exp(x / alpha) - 1) elsewhere (functional.celu).

    Raises ZeroDivisionError for an alpha of 0.
    """
    if arguments.number(alpha, "alpha", "celu") == 0:
        raise ZeroDivisionError("celu(): 'alpha' should not be 0")
    return unary("celu", x, name, alpha=arguments.number(alpha, "alpha", "celu"))


def softplus(
    x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None
) -> Variable:
    """Compute log(1 + exp(beta * x)) / beta, or x if beta * x > threshold (functional.softplus)."""
    attrs = {
        "beta": arguments.number(beta, "beta", "softplus"),
        "threshold": arguments.number(threshold, "threshold", "softplus"),
    }
    return unary("softplus", x, name, **attrs)


def softsign(x: Variable, name: str | None = None) -> Variable:
    """Compute x / (1 + |x|) (paddle.nn.functional.softsign)."""
    return unary("softsign", x, name)


def softshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """Shrink x toward 0 by the threshold, to 0 within it (paddle.nn.functional.softshrink).

    Raises ValueError for a threshold below 0.
    """
    attrs = {"lambda": arguments.number(threshold, "threshold", "softshrink")}
    if attrs["lambda"] < 0:
        raise ValueError(f"softshrink(): 'threshold' should not be negative, found {threshold}")
    return unary("softshrink", x, name, **attrs)


def hardshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """Set the elements of x within the threshold to 0 (paddle.nn.functional.hardshrink)."""
    limit = arguments.number(threshold, "threshold", "hardshrink")
    return unary_as("hardshrink", "hard_shrink", x, name, threshold=limit)


def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """Clip x to [min, max] (paddle.nn.functional.hardtanh)."""
    attrs = {
        "t_min": arguments.number(min, "min", "hardtanh"),
        "t_max": arguments.number(max, "max", "hardtanh"),
    }
    return unary_as("hardtanh", "brelu", x, name, **attrs)


def tanhshrink(x: Variable, name: str | None = None) -> Variable:
    """Compute x - tanh(x) (paddle.nn.functional.tanhshrink)."""
    return unary("tanh_shrink", x, name)


def log_sigmoid(x: Variable, name: str | None = None) -> Variable:
    """Compute log(sigmoid(x)) (paddle.nn.functional.log_sigmoid)."""
    return unary_as("log_sigmoid", "logsigmoid", x, name)


def mish(x: Variable, name: str | None = None) -> Variable:
    """Compute x * tanh(softplus(x)) (paddle.nn.functional.mish)."""
    return unary("mish", x, name)


def thresholded_relu(
    x: Variable, threshold: float = 1.0, value: float = 0.0, name: str | None = None
) -> Variable:
    """Replace elements not above the threshold by `value` (nn.functional.thresholded_relu)."""
    return unary(
        "thresholded_relu",
        x,
        name,
        threshold=arguments.number(threshold, "threshold", "thresholded_relu"),
        value=arguments.number(value, "value", "thresholded_relu"),
    )


def prelu(
    x: Variable, weight: Variable, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Multiply the elements of x that are not positive by a weight (paddle.nn.functional.prelu).

    There is one weight, or one per channel. Raises ValueError for another number of weights.
    """
    shape = arguments.variable(x, "x", "prelu").shape
    count = arguments.variable(weight, "weight", "prelu").shape
    formats = ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")
    layout = arguments.choice(data_format, "data_format", "prelu", formats)
    last = layout in ("NLC", "NHWC", "NDHWC")
    if list(count) not in ([], [1]) and list(count) != [shape[-1 if last else 1]]:
        raise ValueError(
            f"prelu(): 'weight' should have one element or one per channel of x {list(shape)}, "
            f"but received {list(count)}"
        )
    attrs = {
        "mode": "all" if list(count) in ([], [1]) else "channel",
        "data_format": "NHWC" if last else "NCHW",
    }
    return emit("prelu", {"X": x, "Alpha": weight}, attrs, name=name)


def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """Take the maximum of every `groups` adjacent elements along an axis (functional.maxout)."""
    attrs = {
        "groups": arguments.integer(groups, "groups", "maxout"),
        "axis": arguments.integer(axis, "axis", "maxout"),
    }
    return unary("maxout", x, name, **attrs)


elu_ = in_place(elu)
hardtanh_ = in_place(hardtanh)
leaky_relu_ = in_place(leaky_relu)
relu_ = in_place(relu)
softmax_ = in_place(softmax)
tanh_ = in_place(tanh)
thresholded_relu_ = in_place(thresholded_relu)


def rrelu(
    x: Variable,
    lower: float = 1.0 / 8.0,
    upper: float = 1.0 / 3.0,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """Multiply negative elements by slopes drawn from [lower, upper) (paddle.nn.functional.rrelu).

    Outside training the slope is the middle of the range. Raises ValueError unless 0 <= lower <=
    upper <= 1.
    """
    low, high = arguments.number(lower, "lower", "rrelu"), arguments.number(upper, "upper", "rrelu")
    if not 0 <= low <= high <= 1:
        raise ValueError(
            f"rrelu(): needs 0 <= lower <= upper <= 1, but received {lower} and {upper}"
        )
    attrs = {"lower": low, "upper": high, "is_test": not training}
    inputs = {"X": arguments.variable(x, "x", "rrelu")}
    return LayerHelper("rrelu", name).emit_all("rrelu", inputs, attrs, ("Out", "Noise"))[0]


def gumbel_softmax(
    x: Variable,
    temperature: float = 1.0,
    hard: bool = False,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """Sample classes from the logits x along `axis` (paddle.nn.functional.gumbel_softmax).

    Soft samples become sharper as the temperature falls; `hard` samples are one-hot, with the
    gradient of the soft sample. Raises ValueError for a temperature that is not positive.
    """
    attrs = {
        "temperature": arguments.number(temperature, "temperature", "gumbel_softmax"),
        "hard": arguments.flag(hard, "hard", "gumbel_softmax"),
        "axis": arguments.integer(axis, "axis", "gumbel_softmax"),
    }
    if attrs["temperature"] <= 0:
        raise ValueError(f"gumbel_softmax(): 'temperature' should be above 0, found {temperature}")
    return unary("gumbel_softmax", x, name, **attrs)


def swiglu(x: Variable, y: Variable | None = None, name: str | None = None) -> Variable:
    """Compute silu(x) * y (paddle.nn.functional.swiglu).

    Without y the last axis of x is split in halves, x and y. Raises ValueError for an odd size.
    """
    arguments.variable(x, "x", "swiglu")
    if y is None:
        if x.shape[-1] > 0 and x.shape[-1] % 2:
            raise ValueError(
                f"swiglu(): the last axis of 'x' should be even, found {list(x.shape)}"
            )
        x, y = split(x, 2, -1)
    return multiply(silu(x), arguments.variable(y, "y", "swiglu"), name)


lazy.join_package(globals())
