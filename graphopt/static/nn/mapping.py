"""Other layers with a weight of their own (paddle.static.nn)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.creation import assign


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """Compute x [n, i] @ weight[k] @ y [n, j] plus a bias for each of `size` k: [n, size].

    Paddle page: paddle.static.nn.bilinear_tensor_product.
    """
    function = "bilinear_tensor_product"
    for what, value in (("x", x), ("y", y)):
        if len(arguments.variable(value, what, function).shape) != 2:
            raise ValueError(f"{function}(): '{what}' should be 2-D, found {list(value.shape)}")
    helper = LayerHelper(function, name)
    shape = [arguments.integer(size, "size", function), x.shape[1], y.shape[1]]
    weight = helper.parameter(as_weight_attr(param_attr, function), shape, x.dtype)
    inputs = {"X": x, "Y": y, "Weight": weight}
    bias = as_param_attr(bias_attr)
    if bias is not None:
        inputs["Bias"] = helper.parameter(bias, [1, shape[0]], x.dtype, is_bias=True)
    return helper.append_activation(helper.emit(function, inputs), act)


def prelu(
    x: Variable,
    mode: str,
    param_attr: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Multiply the elements of x that are not positive by a weight (paddle.static.nn.prelu).

    The weight starts at 0.25: one for all, one per channel, or one per element of a sample,
    selected by `mode`.
    """
    shape = list(arguments.variable(x, "x", "prelu").shape)
    arguments.choice(mode, "mode", "prelu", ("all", "channel", "element"))
    formats = ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")
    arguments.choice(data_format, "data_format", "prelu", formats)
    layout = "NCHW" if data_format[1] == "C" else "NHWC"
    if len(shape) < {"all": 0, "channel": 2, "element": 1}[mode]:
        raise ValueError(f"prelu(): mode '{mode}' does not support the shape {shape}")
    sizes = [1]
    if mode == "channel":
        sizes = [1, 1, 1, shape[-1]] if layout == "NHWC" else [1, shape[1], 1, 1]
    elif mode == "element":
        sizes = [1, *shape[1:]]
    helper = LayerHelper("prelu", name)
    alpha = helper.parameter(
        as_weight_attr(param_attr, "prelu"), sizes, x.dtype, default_initializer=Constant(0.25)
    )
    attrs = {"mode": mode, "data_format": layout if mode == "channel" else data_format}
    return helper.emit("prelu", {"X": x, "Alpha": alpha}, attrs)


def row_conv(
    input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None
) -> Variable:
    """Add to each step of [n, steps, size] a weighted sum of later steps.

    In sequences [n, size] (lod_level 1) the steps are the rows. The weight has the shape
    [future_context_size + 1, size]. Paddle page: paddle.static.nn.row_conv.
    """
    shape = arguments.variable(input, "input", "row_conv").shape
    rows = arguments.integer(future_context_size, "future_context_size", "row_conv") + 1
    of_sequences = len(shape) == 2 and bool(levels_of(input))
    if not (of_sequences or len(shape) == 3) or shape[-1] < 0 or rows < 1:
        raise ValueError(
            "row_conv(): 'input' should be [n, steps, size], or sequences [n, size], with a known "
            f"size, found {list(shape)}"
        )
    inputs: dict[str, Any] = {"X": input}
    if of_sequences:
        inputs[SLOT] = of_one_level(input, "row_conv", "input")
    helper = LayerHelper("row_conv")
    attr = as_weight_attr(param_attr, "row_conv")
    inputs["Filter"] = helper.parameter(attr, [rows, shape[-1]], input.dtype)
    made = note(helper.emit("row_conv", inputs), levels_of(input))
    return helper.append_activation(made, act)


_SAMPLERS = ("uniform", "log_uniform", "custom_dist")


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """Compute the noise-contrastive loss [n, 1] of rows [n, size] against their classes [n, k].

    Each row's classes are compared with `num_neg_samples` (10) others, drawn uniformly,
    log-uniformly, or by the probabilities `custom_dist`. `is_sparse` has no effect. Paddle page:
    paddle.static.nn.nce. Raises ValueError for an unknown sampler, or the wrong probabilities.
    """
    classes = arguments.integer(num_total_classes, "num_total_classes", "nce")
    kind = arguments.choice(sampler, "sampler", "nce", _SAMPLERS)
    count = 10 if num_neg_samples is None else num_neg_samples
    helper = LayerHelper("nce", name)
    size = arguments.variable(input, "input", "nce").shape[1]
    inputs: dict[str, Any] = {"Input": input, "Label": arguments.variable(label, "label", "nce")}
    weight = as_weight_attr(param_attr, "nce")
    inputs["Weight"] = helper.parameter(weight, [classes, size], input.dtype)
    bias = as_param_attr(bias_attr)
    if bias is not None:
        inputs["Bias"] = helper.parameter(bias, [classes, 1], input.dtype, is_bias=True)
    if sample_weight is not None:
        inputs["SampleWeight"] = arguments.variable(sample_weight, "sample_weight", "nce")
    if kind == "custom_dist":
        if custom_dist is None or len(custom_dist) != classes:
            raise ValueError(f"nce(): 'custom_dist' should have {classes} probabilities")
        inputs["CustomDistProbs"] = assign(np.asarray(custom_dist, "float32"))
    attrs = {
        "num_total_classes": classes,
        "num_neg_samples": arguments.integer(count, "num_neg_samples", "nce"),
        "sampler": _SAMPLERS.index(kind),
        "seed": arguments.integer(seed, "seed", "nce"),
        "is_sparse": arguments.flag(is_sparse, "is_sparse", "nce"),
    }
    outs = ("Cost", "SampleLogits", "SampleLabels")
    return helper.emit_all("nce", inputs, attrs, outs)[0]


def sparse_embedding(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: the table needs parameter servers (static.nn.sparse_embedding)."""
    raise UnsupportedError(
        "sparse_embedding() keeps its table on parameter servers, which graphopt does not "
        "support; use static.nn.embedding"
    )
