"""Normalization over batches, layers, groups, instances and adjacent channels."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable, unique_name
from graphopt.nn.functional.vision import pad
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add_n, divide, pow, scale, square

_LAYOUTS = {
    "NC": "NCHW",
    "NCL": "NCHW",
    "NCHW": "NCHW",
    "NCDHW": "NCHW",
    "NLC": "NHWC",
    "NHWC": "NHWC",
    "NDHWC": "NHWC",
}


def batch_norm(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Variable:
    """Normalize each channel over batch and space (paddle.nn.functional.batch_norm).

    In training the running statistics become momentum * running + (1 - momentum) * batch, with
    the biased variance; outside it, or with `use_global_stats`, they normalize and stay unchanged.
    """
    arguments.choice(data_format, "data_format", "batch_norm", tuple(_LAYOUTS))
    if use_global_stats is None:
        use_global_stats, trainable_statistics = not training, False
    else:
        trainable_statistics = not use_global_stats
    attrs = {
        "is_test": not training,
        "use_global_stats": use_global_stats,
        "trainable_statistics": trainable_statistics,
        "momentum": arguments.number(momentum, "momentum", "batch_norm"),
        "epsilon": arguments.number(epsilon, "epsilon", "batch_norm"),
        "data_layout": _LAYOUTS[data_format],
    }
    helper = LayerHelper("batch_norm", name)
    return normalise_batch(helper, x, running_mean, running_var, weight, bias, attrs)


def normalise_batch(
    helper: LayerHelper,
    x: Any,
    mean: Any,
    variance: Any,
    weight: Variable | None,
    bias: Variable | None,
    attrs: dict[str, Any],
    type: str = "batch_norm",
    *,
    reserves: bool = False,
) -> Variable:
    """Append the operator for these attributes; it updates the statistics in place.

    `reserves` skips one temporary name before the result, which Paddle uses for cuDNN.
    """
    function = helper.layer_type
    inputs = {
        "X": arguments.variable(x, "x", function),
        "Mean": arguments.variable(mean, "running_mean", function),
        "Variance": arguments.variable(variance, "running_var", function),
        "Scale": weight,
        "Bias": bias,
    }
    saved = [helper.temporary(stop_gradient=True) for _ in range(2)]
    if reserves:
        unique_name.generate(f"{helper.name}.tmp")
    out = helper.temporary()
    outputs = {
        "Y": out,
        "MeanOut": mean,
        "VarianceOut": variance,
        "SavedMean": saved[0],
        "SavedVariance": saved[1],
    }
    helper.append_op(type, inputs, outputs, attrs)
    return out


def layer_norm(
    x: Variable,
    normalized_shape: Any,
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Normalize over the last axes, whose sizes are `normalized_shape` (nn.functional.layer_norm).

    `weight` and `bias` are 1-D with one element per normalized element. Raises ValueError when
    the shape does not end in `normalized_shape`.
    """
    arguments.variable(x, "x", "layer_norm")
    sizes = arguments.integers(normalized_shape, "normalized_shape", "layer_norm")
    begin = len(x.shape) - len(sizes)
    tail = x.shape[max(begin, 0) :]
    if begin < 0 or any(
        -1 not in pair and len({*pair}) > 1 for pair in zip(tail, sizes, strict=True)
    ):
        raise ValueError(
            f"layer_norm(): 'normalized_shape' {sizes} should be the end of the shape of 'x', "
            f"{list(x.shape)}"
        )
    inputs = {"X": x, "Scale": weight, "Bias": bias}
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", "layer_norm"),
        "begin_norm_axis": begin,
    }
    helper = LayerHelper("layer_norm", name)
    return helper.emit_all("layer_norm", inputs, attrs, ("Mean", "Variance", "Y"))[2]


def instance_norm(
    x: Variable,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: Variable | None = None,
    bias: Variable | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalize each channel of each sample over space (paddle.nn.functional.instance_norm).

    As in Paddle, the statistics are always computed from the input, and the channels are the second
    dimension whatever `data_format` says: transpose x if they are the last one.
    """
    arguments.choice(data_format, "data_format", "instance_norm", tuple(_LAYOUTS))
    inputs = {"X": arguments.variable(x, "x", "instance_norm"), "Scale": weight, "Bias": bias}
    attrs = {"epsilon": arguments.number(eps, "eps", "instance_norm")}
    helper = LayerHelper("instance_norm", name)
    outs = ("SavedMean", "SavedVariance", "Y")
    return helper.emit_all("instance_norm", inputs, attrs, outs)[2]


def group_norm(
    x: Variable,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Variable | None = None,
    bias: Variable | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalize each sample over groups of channels and space (paddle.nn.functional.group_norm).

    Raises ProgramError when the channels do not divide in `num_groups`.
    """
    arguments.choice(data_format, "data_format", "group_norm", tuple(_LAYOUTS))
    inputs = {"X": arguments.variable(x, "x", "group_norm"), "Scale": weight, "Bias": bias}
    attrs = {
        "groups": arguments.integer(num_groups, "num_groups", "group_norm"),
        "epsilon": arguments.number(epsilon, "epsilon", "group_norm"),
        "data_layout": _LAYOUTS[data_format],
    }
    helper = LayerHelper("group_norm", name)
    return helper.emit_all("group_norm", inputs, attrs, ("Mean", "Variance", "Y"))[2]


def local_response_norm(
    x: Variable,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Divide x by (k + alpha * mean square of `size` adjacent channels) ** beta.

    Paddle page: paddle.nn.functional.local_response_norm.
    """
    rank = len(arguments.variable(x, "x", "local_response_norm").shape)
    if rank < 3:
        raise ValueError(f"local_response_norm(): 'x' should have rank 3 or more, found {rank}")
    axis = 1 if data_format.startswith("NC") else rank - 1
    channels, around = size_of(x, axis), [0] * (2 * rank)
    around[2 * axis : 2 * axis + 2] = [size // 2, (size - 1) // 2]
    squares = pad(square(x), around)
    near = [slice_(squares, [axis], [i], [channels + i]) for i in range(size)]
    return divide(x, pow(scale(add_n(near), alpha / size, k), beta), name)


lazy.join_package(globals())
