"""Layers that create their own parameters (paddle.fluid.layers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.one_layer import made_by
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.ir.program import Variable, default_main_program
from graphopt.nn.functional.input import table_padding
from graphopt.static.nn import common, conv
from graphopt.static.nn.norm import normalise_instances

batch_norm = common.batch_norm
conv2d = conv.conv2d
layer_norm = common.layer_norm


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Apply a fully connected layer to one or more inputs (fluid.layers.fc).

    See `graphopt.static.nn.fc`, which has other names for the last arguments.
    """
    return common.fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Look up rows of a new table, `size` [rows, width], for indices [..., 1] (layers.embedding).

    The width replaces the trailing 1; fluid.embedding takes indices without it. Row `padding_idx`
    reads as zeros. `is_sparse` is `sparse` in `nn.functional.embedding`; `is_distributed` has no
    effect.
    """
    arguments.variable(input, "input", "embedding")
    if input.shape[-1:] != (1,):
        raise ValueError(
            f"fluid.layers.embedding(): the last dimension of 'input' {list(input.shape)} should "
            "be 1; use fluid.embedding for numbers without it"
        )
    helper = LayerHelper("embedding")
    sizes = arguments.pair(list(size), "size", "embedding")
    weight = helper.parameter(as_weight_attr(param_attr, "embedding"), sizes, dtype)
    attrs = {
        "padding_idx": table_padding(padding_idx, sizes[0], "embedding"),
        "is_sparse": bool(is_sparse),
        "is_distributed": bool(is_distributed),
    }
    return helper.emit("lookup_table", {"Ids": input, "W": weight}, attrs)


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool | None = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Zero each element with a probability, unless `is_test` (fluid.layers.dropout).

    By default kept elements are unchanged, and testing multiplies by 1 - dropout_prob;
    `upscale_in_train` divides kept elements instead, and testing returns x.
    """
    options = ("downgrade_in_infer", "upscale_in_train")
    arguments.variable(x, "x", "dropout")
    chance = arguments.number(dropout_prob, "dropout_prob", "dropout")
    if not 0 <= chance <= 1:
        raise ValueError(f"dropout(): 'dropout_prob' should be between 0 and 1, found {chance}")
    fixed = seed or default_main_program().random_seed
    attrs = {
        "dropout_prob": chance,
        "is_test": bool(is_test),
        "fix_seed": seed is not None or fixed != 0,
        "seed": arguments.integer(fixed, "seed", "dropout"),
        "dropout_implementation": arguments.choice(
            dropout_implementation, "dropout_implementation", "dropout", options
        ),
    }
    return LayerHelper("dropout", name).emit("dropout", {"X": x}, attrs)


def instance_norm(
    input: Variable,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalize each channel of each sample, with a scale and a bias (fluid.layers.instance_norm).

    The scale starts as 1 and the bias as 0; both exist whatever the attributes.
    """
    arguments.variable(input, "input", "instance_norm")
    return normalise_instances(input, epsilon, (param_attr, bias_attr), name)


def inplace_abn(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Variable:
    """Apply batch normalization and an activation: identity, elu, leaky_relu (inplace_abn).

    `act_alpha` is the activation's. XLA decides whether to compute in place.
    """
    from graphopt.fluid.layers.ops import leaky_relu
    from graphopt.nn.functional.activation import elu

    options = (None, "identity", "elu", "leaky_relu")
    if act not in options:
        raise ValueError(f"inplace_abn(): 'act' should be one of {options}, found {act!r}")
    out = common.batch_norm(
        input,
        None,
        is_test,
        momentum,
        epsilon,
        param_attr,
        bias_attr,
        data_layout,
        True,
        name,
        moving_mean_name,
        moving_variance_name,
        do_model_average_for_mean_and_var,
        use_global_stats,
    )
    if act in (None, "identity"):
        return out
    return elu(out, act_alpha) if act == "elu" else leaky_relu(out, act_alpha)


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """Compute the loss [n, 1] of a softmax over many classes, as decisions in a binary tree.

    input is [n, d], label int64 [n, 1]. The tree is complete unless `is_custom`: then `path_table`
    and `path_code` [n, l] have the inner nodes of each row's path and the decisions there (below 0:
    the path has ended). Gradients are dense. Paddle page: fluid.layers.hsigmoid.
    """
    from graphopt.fluid.layers import tree

    arguments.variable(input, "input", "hsigmoid")
    arguments.variable(label, "label", "hsigmoid")
    helper = LayerHelper("hierarchical_sigmoid", name)
    nodes = arguments.integer(num_classes, "num_classes", "hsigmoid")
    if is_custom and (path_table is None or path_code is None):
        raise ValueError("hsigmoid(): a custom tree needs 'path_table' and 'path_code'")
    if not is_custom and nodes < 2:
        raise ValueError(f"hsigmoid(): 'num_classes' must not be less than 2, found {nodes}")
    nodes = nodes if is_custom else nodes - 1
    sizes, dtype = [nodes, input.shape[1]], input.dtype
    weight = helper.parameter(as_weight_attr(param_attr, "hsigmoid"), sizes, dtype)
    attr, bias = as_param_attr(bias_attr), None
    if attr is not None:
        bias = helper.parameter(attr, [nodes, 1], dtype, is_bias=True)
    if path_table is not None and path_code is not None:
        paths = tree.Paths.from_table(path_table, path_code, dtype)
    else:
        paths = tree.Paths.complete(label, num_classes, dtype)
    return made_by(helper.name, [0], lambda: tree.loss(input, weight, bias, paths))
