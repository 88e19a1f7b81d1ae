"""Normalizations that create their own parameters (paddle.static.nn)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant, Normal
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr, as_weight_attr
from graphopt.ir.program import Variable
from graphopt.nn.functional.window import is_channels_last
from graphopt.nn.layer.spectral_norm import normalise_spectrum


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalize each sample over groups of channels and space (paddle.static.nn.group_norm).

    As in Paddle, there is a scale (or a bias) only if its attribute is given.
    """
    last = is_channels_last(data_layout, "group_norm", ("NCHW", "NHWC"))
    shape = arguments.variable(input, "input", "group_norm").shape
    if len(shape) < 2:
        raise ValueError(f"group_norm(): 'input' should have rank 2 or more, found {list(shape)}")
    helper = LayerHelper("group_norm", name)
    size = [shape[-1 if last else 1]]
    inputs = {"X": input}
    if param_attr:
        attr = as_weight_attr(param_attr, "group_norm")
        made = helper.parameter(attr, size, input.dtype, default_initializer=Constant(1.0))
        inputs["Scale"] = made
    if bias_attr:
        attr = as_weight_attr(bias_attr, "group_norm")
        inputs["Bias"] = helper.parameter(attr, size, input.dtype, is_bias=True)
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", "group_norm"),
        "groups": arguments.integer(groups, "groups", "group_norm"),
        "data_layout": data_layout,
    }
    out = helper.emit_unnamed("group_norm", inputs, attrs, ("Mean", "Variance", "Y"))[2]
    return helper.append_activation(out, act)


def instance_norm(
    input: Variable,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalize each channel of each sample over space (paddle.static.nn.instance_norm).

    As in Paddle, there are a scale and a bias only if both attributes are given; False must be
    given for both or neither.
    """
    shape = arguments.variable(input, "input", "instance_norm").shape
    if not 2 <= len(shape) <= 5:
        raise ValueError(f"instance_norm(): 'input' should have rank 2 to 5, found {list(shape)}")
    if param_attr is False and bias_attr is not False:
        raise ValueError("instance_norm(): param_attr and bias_attr must be False together")
    given = (param_attr, bias_attr) if param_attr and bias_attr else ()
    return normalise_instances(input, epsilon, given, name)


def normalise_instances(
    input: Variable, epsilon: float, given: tuple[Any, ...], name: str | None
) -> Variable:
    """Emit an `instance_norm`, with a scale and a bias if their attributes are given."""
    helper, size = LayerHelper("instance_norm", name), [input.shape[1]]
    dtype = "float32" if input.dtype == "float16" else input.dtype
    inputs = {"X": input}
    if given:
        scale, bias = (as_weight_attr(attr, "instance_norm") for attr in given)
        one = Constant(1.0)
        inputs["Scale"] = helper.parameter(scale, size, dtype, default_initializer=one)
        inputs["Bias"] = helper.parameter(bias, size, dtype, is_bias=True)
    attrs = {"epsilon": arguments.number(epsilon, "epsilon", "instance_norm")}
    outs = ("SavedMean", "SavedVariance", "Y")
    return helper.emit_all("instance_norm", inputs, attrs, outs)[2]


_SUMMARY = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4, "scale_w": 1.0, "bias": 0.0}


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalize channels by sums kept over many batches (paddle.static.nn.data_norm).

    `param_attr` is a dict of the initial values of the sums: batch_size, batch_sum,
    batch_square, and scale_w and bias with `enable_scale_and_shift`. The gradient of a sum is the
    batch's contribution. `in_place`, the moving names and `do_model_average_for_mean_and_var` have
    no effect.
    """
    last = is_channels_last(data_layout, "data_norm", ("NCHW", "NHWC"))
    shape = arguments.variable(input, "input", "data_norm").shape
    if len(shape) < 2:
        raise ValueError(f"data_norm(): 'input' should have rank 2 or more, found {list(shape)}")
    helper = LayerHelper("data_norm", name)
    starts = {**_SUMMARY, **(param_attr if isinstance(param_attr, dict) else {})}
    prefix, size = name or "dn", [shape[-1 if last else 1]]

    def parameter(own: str, start: str) -> Variable:
        attr = ParamAttr(f"{prefix}.{own}", initializer=Constant(float(starts[start])))
        return helper.parameter(attr, size, input.dtype)

    inputs = {"X": input}
    if enable_scale_and_shift:
        inputs["scale_w"] = parameter("scale_w", "scale_w")
        inputs["bias"] = parameter("bias", "bias")
    inputs["BatchSize"] = parameter("batch_size", "batch_size")
    inputs["BatchSum"] = parameter("batch_sum", "batch_sum")
    inputs["BatchSquareSum"] = parameter("batch_square_sum", "batch_square")
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", "data_norm"),
        "data_layout": data_layout,
        "sync_stats": arguments.flag(sync_stats, "sync_stats", "data_norm"),
        "summary_decay_rate": summary_decay_rate,
        "slot_dim": arguments.integer(slot_dim, "slot_dim", "data_norm"),
        "enable_scale_and_shift": enable_scale_and_shift,
    }
    out = helper.emit_unnamed("data_norm", inputs, attrs, ("Means", "Scales", "Y"))[2]
    return helper.append_activation(out, act)


def spectral_norm(
    weight: Variable,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 1e-12,
    name: str | None = None,
) -> Variable:
    """Divide a weight by its largest singular value as a matrix [dim, the rest], dim 0 or 1.

    Paddle page: paddle.static.nn.spectral_norm.
    """
    shape = arguments.variable(weight, "weight", "spectral_norm").shape
    if dim not in (0, 1):
        raise ValueError(f"spectral_norm(): 'dim' should be 0 or 1, but received {dim}")
    if min(shape, default=0) < 1:
        raise ValueError(f"spectral_norm(): the sizes {list(shape)} should be above 0")
    helper = LayerHelper("spectral_norm", name)
    sizes = [shape[dim], math.prod(shape) // shape[dim]]
    vectors = [
        helper.parameter(
            ParamAttr(),
            [size],
            weight.dtype,
            default_initializer=Normal(0.0, 1.0),
            stop_gradient=True,
        )
        for size in sizes
    ]
    attrs = {
        "dim": dim,
        "power_iters": arguments.integer(power_iters, "power_iters", "spectral_norm"),
        "eps": arguments.number(eps, "eps", "spectral_norm"),
    }
    return normalise_spectrum(helper, weight, vectors[0], vectors[1], attrs)
