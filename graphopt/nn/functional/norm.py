"""Batch and layer normalisation."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import LayerHelper

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
    """Normalise each channel over batch and space (paddle.nn.functional.batch_norm).

    In training the running statistics become momentum * running + (1 - momentum) * batch, with
    the biased variance; outside it, or with `use_global_stats`, they normalise and stay.
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
) -> Variable:
    """The operator for these attributes; it updates the statistics in place."""
    function = helper.layer_type
    inputs = {
        "X": arguments.variable(x, "x", function),
        "Mean": arguments.variable(mean, "running_mean", function),
        "Variance": arguments.variable(variance, "running_var", function),
        "Scale": weight,
        "Bias": bias,
    }
    saved = [helper.temporary(stop_gradient=True) for _ in range(2)]
    out = helper.temporary()
    outputs = {
        "Y": out,
        "MeanOut": mean,
        "VarianceOut": variance,
        "SavedMean": saved[0],
        "SavedVariance": saved[1],
    }
    helper.append_op("batch_norm", inputs, outputs, attrs)
    return out


def layer_norm(
    x: Variable,
    normalized_shape: Any,
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Normalise over the last axes, whose sizes are `normalized_shape` (nn.functional.layer_norm).

    `weight` and `bias` are 1-D with one element for each normalised one. Raises ValueError when
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
    return helper.emit_all("layer_norm", inputs, attrs, ("Y", "Mean", "Variance"))[0]
