"""Layers as functions that create their own parameters (paddle.static.nn)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend import arguments, lazy
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr, as_param_attr, as_weight_attr
from graphopt.ir.program import Parameter, Variable
from graphopt.nn.functional.input import table_padding
from graphopt.nn.functional.norm import normalise_batch
from graphopt.nn.functional.window import is_channels_last
from graphopt.static.nn.weights import weight as weight_of


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """Apply a fully connected layer (paddle.static.nn.fc).

    Each input is flattened to a matrix after `num_flatten_dims` axes (-1: all but the last) and
    multiplied by a weight of its own; the sum, a bias [size] and the activation follow. Raises
    ValueError when the flattened size is not known.
    """
    inputs = arguments.variables([x] if isinstance(x, Variable) else x, "x", "fc")
    size = arguments.integer(size, "size", "fc")
    helper = LayerHelper("fc", name)
    attrs_given = weight_attr if isinstance(weight_attr, (list, tuple)) else [weight_attr]
    if len(attrs_given) not in (1, len(inputs)):
        raise ValueError(
            f"fc(): 'weight_attr' should have one ParamAttr, or one for each of the {len(inputs)} "
            f"inputs, found {len(attrs_given)}"
        )
    parts: list[Variable] = []
    for number, value in enumerate(inputs):
        axes = len(value.shape) - 1 if num_flatten_dims == -1 else num_flatten_dims
        rows = math.prod(value.shape[axes:])
        if rows < 0 or not 0 < axes < len(value.shape):
            raise ValueError(
                f"fc(): '{value.name}' {list(value.shape)} must have axes after the first {axes} "
                "axes, and their sizes must be known"
            )
        attr = as_weight_attr(attrs_given[number % len(attrs_given)], "fc")
        weight = weight_of(helper, attr, [rows, size], value.dtype)
        attrs = {"x_num_col_dims": axes, "y_num_col_dims": 1}
        parts.append(helper.emit("mul", {"X": value, "Y": weight}, attrs))
    out = parts[0] if len(parts) == 1 else helper.emit("sum", {"X": parts})
    out = helper.append_bias(out, as_param_attr(bias_attr), size, len(out.shape) - 1)
    return helper.append_activation(out, activation)


def statistics(
    helper: LayerHelper, size: int, dtype: Any, mean_name: str | None, variance_name: str | None
) -> tuple[Parameter, Parameter]:
    """Create the running mean (0) and variance (1) of a batch normalization."""
    made: list[Parameter] = []
    for name, value in ((mean_name, 0.0), (variance_name, 1.0)):
        attr = ParamAttr(name=name, initializer=Constant(value), trainable=False)
        made.append(helper.parameter(attr, [size], dtype, stop_gradient=True))
    return made[0], made[1]


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Apply batch normalization with parameters of its own (paddle.static.nn.batch_norm).

    The running statistics are persistable and become momentum * old + (1 - momentum) * batch.
    After `clone(for_test=True)` they normalize instead of the batch's. `in_place` and
    `do_model_average_for_mean_and_var` have no effect.
    """
    arguments.variable(input, "input", "batch_norm")
    last = is_channels_last(data_layout, "batch_norm", ("NCHW", "NHWC"))
    if len(input.shape) < 2:
        raise ProgramError(
            f"batch_norm(): '{input.name}' should have an axis of channels after the batch axis, "
            f"found shape {list(input.shape)}"
        )
    helper = LayerHelper("batch_norm", name)
    size = input.shape[-1 if last else 1]
    dtype = "float32" if input.dtype == "float16" else input.dtype
    scale_attr, shift_attr = as_param_attr(param_attr), as_param_attr(bias_attr)
    weight = bias = None
    if scale_attr is not None:
        weight = helper.parameter(scale_attr, [size], dtype, default_initializer=Constant(1.0))
    if shift_attr is not None:
        bias = helper.parameter(shift_attr, [size], dtype, is_bias=True)
    mean, variance = statistics(helper, size, dtype, moving_mean_name, moving_variance_name)
    attrs = {
        "momentum": arguments.number(momentum, "momentum", "batch_norm"),
        "epsilon": arguments.number(epsilon, "epsilon", "batch_norm"),
        "is_test": arguments.flag(is_test, "is_test", "batch_norm"),
        "data_layout": data_layout,
        "use_global_stats": arguments.flag(use_global_stats, "use_global_stats", "batch_norm"),
    }
    # 1.8 has no such temporary
    reserves = not helper.main_program.is_fluid
    out = normalise_batch(helper, input, mean, variance, weight, bias, attrs, reserves=reserves)
    return helper.append_activation(out, act)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Look up rows of a new table, `size` [rows, width], by index (paddle.static.nn.embedding).

    `input` is an integer tensor; the result has a last axis of size `width`. Row `padding_idx`
    reads as zeros. `is_sparse` is the `sparse` of `nn.functional.embedding`; `is_distributed` has
    no effect.
    """
    arguments.variable(input, "input", "embedding")
    helper = LayerHelper("embedding")
    sizes = arguments.integers(size, "size", "embedding")
    if len(sizes) != 2:
        raise ValueError(f"embedding(): 'size' should be [rows, width], found {size}")
    weight = helper.parameter(as_weight_attr(param_attr, "embedding"), sizes, dtype)
    attrs: dict[str, Any] = {
        "padding_idx": table_padding(padding_idx, sizes[0], "embedding"),
        "is_sparse": arguments.flag(is_sparse, "is_sparse", "embedding"),
    }
    return helper.emit("lookup_table_v2", {"Ids": input, "W": weight}, attrs)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalize over the axes from `begin_norm_axis` on (paddle.static.nn.layer_norm).

    The scale and the bias are 1-D, with one element per normalized element.
    """
    arguments.variable(input, "input", "layer_norm")
    helper = LayerHelper("layer_norm", name)
    size = math.prod(input.shape[begin_norm_axis:])
    inputs = {"X": input}
    if scale:
        attr = as_weight_attr(param_attr, "layer_norm")
        inputs["Scale"] = helper.parameter(
            attr, [size], input.dtype, default_initializer=Constant(1.0)
        )
    if shift:
        attr = as_weight_attr(bias_attr, "layer_norm")
        inputs["Bias"] = helper.parameter(attr, [size], input.dtype, is_bias=True)
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", "layer_norm"),
        "begin_norm_axis": arguments.integer(begin_norm_axis, "begin_norm_axis", "layer_norm"),
    }
    out = helper.emit_all("layer_norm", inputs, attrs, ("Mean", "Variance", "Y"))[2]
    return helper.append_activation(out, act)


lazy.join_package(globals())
