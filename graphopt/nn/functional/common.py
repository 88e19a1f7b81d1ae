"""Linear maps, dropout and similarities."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full, full_like
from graphopt.tensor.distances import norm
from graphopt.tensor.math import add, clip, divide, max, maximum, multiply, scale, sqrt, sum


def linear(
    x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute x @ weight + bias: [..., in] by [in, out], and [out] (nn.functional.linear)."""
    helper = LayerHelper("linear", name)
    inputs = {"X": arguments.variable(x, "x", "linear")}
    inputs["Y"] = arguments.variable(weight, "weight", "linear")
    out = helper.emit("matmul_v2", inputs, {"trans_x": False, "trans_y": False})
    if bias is None:
        return out
    return helper.emit("elementwise_add", {"X": out, "Y": bias}, {"axis": -1})


DROPOUT_MODES = ("upscale_in_train", "downscale_in_infer")


def dropout(
    x: Variable,
    p: float | Variable = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Zero each element with probability p in training (paddle.nn.functional.dropout).

    `upscale_in_train` divides kept elements by 1 - p; `downscale_in_infer` multiplies by 1 - p
    outside training instead. With `axis`, whole slices along those axes are kept or zeroed.
    p may be a Variable [1]. Raises ValueError when p is outside [0, 1] or the mode is unknown.
    """
    arguments.variable(x, "x", "dropout")
    if not isinstance(p, Variable):
        p = arguments.number(p, "p", "dropout")
    elif math.prod(p.shape) != 1 or not p.dtype.startswith("float"):
        raise ValueError(f"dropout(): 'p' should be one float, found {p.dtype} {list(p.shape)}")
    if not isinstance(p, Variable) and not 0 <= p <= 1:
        raise ValueError(f"dropout(): p argument should between 0 and 1, found {p}")
    arguments.choice(mode, "mode", "dropout", DROPOUT_MODES)
    if axis is not None:
        return _axis_dropout(x, p, arguments.integers(axis, "axis", "dropout"), training, mode)
    helper = LayerHelper("dropout", name)
    attrs = {
        "dropout_prob": p,
        "is_test": not training,
        "dropout_implementation": _operator_mode(mode),
        "seed": helper.main_program.random_seed,
        "fix_seed": helper.main_program.random_seed != 0,
    }
    return helper.emit("dropout", {"X": x}, attrs)


def _operator_mode(mode: str) -> str:
    """Map a mode to the operator's attribute, which differs for one of the modes."""
    return "downgrade_in_infer" if mode == "downscale_in_infer" else mode


def _axis_dropout(
    x: Variable, p: float | Variable, axes: list[int], training: bool, mode: str
) -> Variable:
    """Multiply x by the dropout of a mask that has size 1 outside `axes`."""
    rank = len(x.shape)
    kept = {axis % rank for axis in axes}
    others = [axis for axis in range(rank) if axis not in kept]
    # only the shape of the maximum is used, which also works for unknown dimensions
    ones = full_like(max(x, others, keepdim=True) if others else x, 1.0)
    return multiply(x, dropout(ones, p, None, training, mode))


def dropout2d(
    x: Variable,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Zero whole channels of images [n, c, h, w] (paddle.nn.functional.dropout2d)."""
    return _channel_dropout(x, p, training, data_format, "dropout2d", ("NCHW", "NHWC"))


def dropout3d(
    x: Variable,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Zero whole channels of volumes [n, c, d, h, w] (paddle.nn.functional.dropout3d)."""
    return _channel_dropout(x, p, training, data_format, "dropout3d", ("NCDHW", "NDHWC"))


def _channel_dropout(
    x: Variable,
    p: float,
    training: bool,
    data_format: str,
    function: str,
    formats: tuple[str, str],
) -> Variable:
    rank = len(arguments.variable(x, "x", function).shape)
    if rank != len(formats[0]):
        raise ValueError(f"{function}(): 'x' should have rank {len(formats[0])}, found {rank}")
    arguments.choice(data_format, "data_format", function, formats)
    return dropout(x, p, [0, 1 if data_format == formats[0] else rank - 1], training)


def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """Compute the cosine of the angle between x1 and x2 along `axis` (cosine_similarity)."""
    arguments.variable(x1, "x1", "cosine_similarity")
    arguments.variable(x2, "x2", "cosine_similarity")
    lengths = multiply(sum(multiply(x1, x1), axis), sum(multiply(x2, x2), axis))
    return divide(sum(multiply(x1, x2), axis), sqrt(clip(lengths, min=eps * eps)))


def alpha_dropout(
    x: Variable, p: float = 0.5, training: bool = True, name: str | None = None
) -> Variable:
    """Drop elements, keeping mean and variance of selu's results (functional.alpha_dropout).

    Dropped elements take the lowest value of selu, and then all are scaled and shifted. Raises
    ValueError when p is outside [0, 1].
    """
    return _selu_dropout("alpha_dropout", x, p, training, None, name)


def feature_alpha_dropout(
    x: Variable, p: float = 0.5, training: bool = True, name: str | None = None
) -> Variable:
    """Apply `alpha_dropout` to whole channels [n, c, ...] (functional.feature_alpha_dropout)."""
    return _selu_dropout("feature_alpha_dropout", x, p, training, [0, 1], name)


def _selu_dropout(
    function: str, x: Variable, p: float, training: bool, axis: Any, name: str | None
) -> Variable:
    arguments.variable(x, "x", function)
    p = arguments.number(p, "p", function)
    if not 0 <= p <= 1:
        raise ValueError(f"{function}(): p argument should between 0 and 1, found {p}")
    if not training:
        return x
    if p == 1:
        return scale(x, 0.0)
    lowest = -1.6732632423543772 * 1.0507009873554805
    factor = ((1 - p) * (1 + p * lowest**2)) ** -0.5
    kept = dropout(full_like(x, 1.0), p, axis, True, "downscale_in_infer")
    mixed = add(multiply(x, kept), scale(kept, -lowest, lowest))
    return scale(mixed, factor, -factor * lowest * p, name=name)


def bilinear(
    x1: Variable,
    x2: Variable,
    weight: Variable,
    bias: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute x1 [n, i] @ weight[k] @ x2 [n, j] plus a bias [1, k] for each k: [n, k].

    Paddle page: paddle.nn.functional.bilinear.
    """
    inputs: dict[str, Any] = {
        "X": arguments.variable(x1, "x1", "bilinear"),
        "Y": arguments.variable(x2, "x2", "bilinear"),
        "Weight": arguments.variable(weight, "weight", "bilinear"),
    }
    if bias is not None:
        inputs["Bias"] = arguments.variable(bias, "bias", "bilinear")
    return LayerHelper("bilinear", name).emit("bilinear_tensor_product", inputs)


def normalize(
    x: Variable,
    p: float = 2,
    axis: int = 1,
    epsilon: float = 1e-12,
    name: str | None = None,
) -> Variable:
    """Divide x by its p-norm along `axis`, or by epsilon if larger (functional.normalize).

    A tensor of rank 1 is normalized as a whole.
    """
    rank = len(arguments.variable(x, "x", "normalize").shape)
    at = 0 if rank == 1 else arguments.integer(axis, "axis", "normalize")
    least = arguments.number(epsilon, "epsilon", "normalize")
    lengths = norm(x, arguments.number(p, "p", "normalize"), at, True)
    return divide(x, maximum(lengths, full([], least, x.dtype)), name)


lazy.join_package(globals())
