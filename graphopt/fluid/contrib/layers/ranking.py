"""Layers of programs that rank items (paddle.fluid.contrib.layers, paddle.incubate.layers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.fluid.layers.sequence_lod import sequence_pool
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import as_weight_attr
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Variable
from graphopt.static.click_rates import continuous_value_model
from graphopt.tensor.manipulation import reshape
from graphopt.tensor.manipulation import slice as slice_


def batch_fc(
    input: Variable,
    param_size: Sequence[int],
    param_attr: Any,
    bias_size: Sequence[int],
    bias_attr: Any,
    act: str | None = None,
) -> Variable:
    """Apply a separate fully connected layer to each group of rows: [groups, n, out].

    `input` is [groups, n, in] of float32 or float64, `param_size` [groups, in, out], `bias_size`
    [groups, out]. Raises ValueError for sizes that do not fit. Paddle page:
    incubate.layers.batch_fc.
    """
    function = "batch_fc"
    shape = list(arguments.variable(input, "input", function).shape)
    sizes = arguments.integers(param_size, "param_size", function)
    wide = arguments.integers(bias_size, "bias_size", function)
    if len(shape) != 3 or len(sizes) != 3 or shape[::2] != sizes[:2] or wide != sizes[::2]:
        raise ValueError(
            f"{function}(): 'input' [groups, n, in], 'param_size' [groups, in, out] and "
            f"'bias_size' [groups, out] should fit, found {shape}, {sizes} and {wide}"
        )
    helper = LayerHelper(function)
    weight = helper.parameter(as_weight_attr(param_attr, function), sizes, input.dtype)
    bias = helper.parameter(as_weight_attr(bias_attr, function), wide, input.dtype)
    out = helper.emit(function, {"Input": input, "W": weight, "Bias": bias})
    return helper.append_activation(out, act)


def rank_attention(
    input: Variable,
    rank_offset: Variable,
    rank_param_shape: Sequence[int],
    rank_param_attr: Any,
    max_rank: int = 3,
    max_size: int = 0,
) -> Variable:
    """Sum, for each item, the items of its list, each times the matrix of the two ranks.

    `input` is [n, d] of float32 or float64. A row of `rank_offset`, int32 [n, 2 * max_rank + 1],
    has the item's rank from 1 on, then the rank and the row of each item of its list; a rank 0 is
    no item.
    `rank_param_shape` is [max_rank^2 * d, m], and the result [n, m]. The parameter is trained, the
    input is not. `max_size` has no effect. Raises ValueError for sizes that do not fit. Paddle
    page: incubate.layers.rank_attention.
    """
    function = "rank_attention"
    width = arguments.variable(input, "input", function).shape[-1]
    arguments.variable(rank_offset, "rank_offset", function)
    count = arguments.integer(max_rank, "max_rank", function)
    sizes = arguments.integers(rank_param_shape, "rank_param_shape", function)
    if width * count * count != sizes[0]:
        raise ValueError(
            f"{function}(): 'rank_param_shape' {sizes} should begin with {count} * {count} * "
            f"{width}, for {count} ranks and rows of {width}"
        )
    helper = LayerHelper(function)
    param = helper.parameter(as_weight_attr(rank_param_attr, function), sizes, input.dtype)
    inputs = {"X": input, "RankOffset": rank_offset, "RankParam": param}
    attrs = {"MaxRank": count, "MaxSize": arguments.integer(max_size, "max_size", function)}
    out, *rest = helper.emit_all(function, inputs, attrs, ("Out", "InputHelp", "InsRank"))
    for each in rest:
        each.stop_gradient = True
    return out


def tdm_child(
    x: Variable, node_nums: int, child_nums: int, param_attr: Any = None, dtype: Any = "int32"
) -> tuple[Variable, Variable]:
    """Look up the children of nodes in a tree, [..., child_nums], and which of them are items.

    Nodes `x` are int32 or int64, and so are the results, which have `dtype`. The tree is a
    parameter [node_nums, 3 + child_nums] that is not trained: a row has the item, the layer, the
    ancestor and the children, 0 for none. Paddle page: incubate.layers.tdm_child.
    """
    function = "tdm_child"
    arguments.variable(x, "x", function)
    element = as_dtype(arguments.choice(dtype, "dtype", function, ("int32", "int64")))
    count = arguments.integer(child_nums, "child_nums", function)
    shape = [arguments.integer(node_nums, "node_nums", function), 3 + count]
    helper = LayerHelper(function)
    tree = _create_fixed_parameter(helper, param_attr, shape, element)
    attrs = {"child_nums": count, "dtype": element.code}
    child, leaf = helper.emit_all(
        function, {"X": x, "TreeInfo": tree}, attrs, ("Child", "LeafMask"), stop_gradient=True
    )
    return child, leaf


def tdm_sampler(
    x: Variable,
    neg_samples_num_list: Sequence[int],
    layer_node_num_list: Sequence[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: Any = "int32",
    dtype: Any = "int32",
) -> tuple[Any, Any, Any]:
    """Sample, in each layer of a tree, the ancestor of leaves x, integers [n, 1], and other nodes.

    The results are the nodes, a mask of the ancestors, and a mask of the nodes that exist: for each
    layer [n, samples + 1, 1], or all layers in one [n, all] without `output_list`. The parameters,
    which are not trained, are the ancestors of each leaf [leaf_node_num, layers], 0 for none, and
    the nodes of all layers. Raises ValueError for more samples than nodes. Paddle page:
    incubate.layers.tdm_sampler.
    """
    function = "tdm_sampler"
    arguments.variable(x, "x", function)
    kinds = ("int32", "int64")
    stored = as_dtype(arguments.choice(tree_dtype, "tree_dtype", function, kinds))
    element = as_dtype(arguments.choice(dtype, "dtype", function, kinds))
    counts = arguments.integers(neg_samples_num_list, "neg_samples_num_list", function)
    sizes = arguments.integers(layer_node_num_list, "layer_node_num_list", function)
    leaves = arguments.integer(leaf_node_num, "leaf_node_num", function)
    if len(counts) != len(sizes) or any(c >= n for c, n in zip(counts, sizes, strict=True)):
        raise ValueError(
            f"{function}(): 'neg_samples_num_list' {counts} should have a number below that of the "
            f"nodes for each layer of 'layer_node_num_list' {sizes}"
        )
    if leaves >= sum(sizes):
        raise ValueError(
            f"{function}(): 'leaf_node_num' {leaves} should be below the {sum(sizes)} nodes"
        )
    helper = LayerHelper(function)
    travel = _create_fixed_parameter(helper, tree_travel_attr, [leaves, len(sizes)], stored)
    layer = _create_fixed_parameter(helper, tree_layer_attr, [sum(sizes), 1], stored)
    positive = arguments.flag(output_positive, "output_positive", function)
    attrs = {
        "neg_samples_num_list": counts,
        "output_positive": positive,
        "layer_offset_lod": [sum(sizes[:end]) for end in range(len(sizes) + 1)],
        "seed": arguments.integer(seed, "seed", function),
        "dtype": element.code,
    }
    inputs = {"X": x, "Travel": travel, "Layer": layer}
    slots = ("Out", "Labels", "Mask")
    made = helper.emit_all(function, inputs, attrs, slots, stop_gradient=True)
    if not arguments.flag(output_list, "output_list", function):
        return made[0], made[1], made[2]
    widths = [count + int(positive) for count in counts]
    out, labels, mask = ([_part(each, widths, at) for at in range(len(widths))] for each in made)
    return out, labels, mask


def fused_seqpool_cvm(
    input: Sequence[Variable],
    pool_type: str,
    cvm: Variable,
    pad_value: float = 0.0,
    use_cvm: bool = True,
    cvm_offset: int = 2,
) -> list[Variable]:
    """Sum each sequence and apply `continuous_value_model`, for each of several inputs.

    `cvm` [sequences, 2] has the shows and clicks. Raises ValueError for a `pool_type` other than
    "sum" and a `cvm_offset` other than 2. Paddle page: incubate.layers.fused_seqpool_cvm.
    """
    function = "fused_seqpool_cvm"
    given = arguments.variables(input, "input", function)
    arguments.choice(pool_type.lower(), "pool_type", function, ("sum",))
    if cvm_offset != 2:
        raise ValueError(f"{function}(): 'cvm_offset' should be 2, found {cvm_offset}")
    pooled = [sequence_pool(each, "sum", pad_value=pad_value) for each in given]
    return [continuous_value_model(each, cvm, use_cvm) for each in pooled]


def _create_fixed_parameter(
    helper: LayerHelper, attr: Any, shape: Sequence[int], dtype: Any
) -> Variable:
    """Create a parameter that is not trained, 0 by default."""
    made = as_weight_attr(attr, helper.layer_type)
    return helper.parameter(
        made, shape, dtype, default_initializer=Constant(0.0), stop_gradient=True
    )


def _part(x: Variable, widths: Sequence[int], at: int) -> Variable:
    """Slice the columns of one layer, as [n, width, 1]."""
    start = sum(widths[:at])
    part = reshape(slice_(x, [1], [start], [start + widths[at]]), [-1, widths[at], 1])
    part.stop_gradient = True
    return part


publish(globals(), __name__)
