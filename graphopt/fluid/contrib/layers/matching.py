"""Layers that match two texts, and convolutions over trees (paddle.fluid.contrib.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT


def match_matrix_tensor(
    x: Variable,
    y: Variable,
    channel_num: int,
    act: str | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Multiply each row of a sequence of x by each row of one of y, through several matrices.

    Rows are [n, d] and [m, d] with lod_level 1. Sequences of k and l rows give channel_num * k * l
    rows of one number. Also returns the products of x and the matrices. Raises ValueError for rows
    of unknown width, UnsupportedError for rows without lengths. Paddle page:
    fluid.contrib.layers.match_matrix_tensor.
    """
    function = "match_matrix_tensor"
    shapes = [arguments.variable(v, n, function).shape for v, n in ((x, "x"), (y, "y"))]
    if [len(shape) for shape in shapes] != [2, 2] or shapes[0][1] != shapes[1][1]:
        raise ValueError(
            f"{function}(): 'x' and 'y' should be rows of one known width, found "
            f"{list(shapes[0])} and {list(shapes[1])}"
        )
    helper = LayerHelper(function, name)
    count = arguments.integer(channel_num, "channel_num", function)
    sizes = [shapes[0][1], count, shapes[1][1]]
    weight = helper.parameter(as_weight_attr(param_attr, function), sizes, dtype)
    inputs = {"X": x, "Y": y, "W": weight, SLOT: of_one_level(x, function, "x")}
    inputs["OtherLengths"] = of_one_level(y, function, "y")
    slots = ("Out", "Tmp", "OutLengths")
    out, products, lengths = helper.emit_all(function, inputs, {"dim_t": count}, slots)
    products.stop_gradient = lengths.stop_gradient = True
    return note(helper.append_activation(note(out, [lengths.name]), act), [lengths.name]), products


def tree_conv(
    nodes_vector: Variable,
    edge_set: Variable,
    output_size: int,
    num_filters: int = 1,
    max_depth: int = 2,
    act: str | None = "tanh",
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Convolve each node of a tree with its descendants: [b, n, output_size, num_filters].

    Nodes are [b, n, d]; `edge_set`, int32 [b, m, 2], has pairs of a node and its child, numbered
    from 1, and ends with the first 0. The parameter is [d, 3, output_size, num_filters], of the
    dtype of the nodes, float32 or float64. Nodes that no edge can connect give 0, where 1.8.5
    leaves them undefined; gradients are the true derivatives (see `pd.tree_conv`). Paddle page:
    fluid.contrib.layers.tree_conv.
    """
    function = "tree_conv"
    arguments.variable(nodes_vector, "nodes_vector", function)
    arguments.variable(edge_set, "edge_set", function)
    helper = LayerHelper(function, name)
    counts = [
        arguments.integer(output_size, "output_size", function),
        arguments.integer(num_filters, "num_filters", function),
    ]
    sizes = [nodes_vector.shape[2], 3, *counts]
    weight = helper.parameter(as_weight_attr(param_attr, function), sizes, nodes_vector.dtype)
    inputs = {"NodesVector": nodes_vector, "EdgeSet": edge_set, "Filter": weight}
    attrs = {"max_depth": arguments.integer(max_depth, "max_depth", function)}
    out = helper.emit(function, inputs, attrs)
    bias = as_param_attr(bias_attr)
    if bias is not None:
        # as in Paddle, all axes but the first
        size = [*nodes_vector.shape[1:2], *counts]
        shift = helper.parameter(bias, size, nodes_vector.dtype, is_bias=True)
        out = helper.emit("elementwise_add", {"X": out, "Y": shift}, {"axis": 1})
    return helper.append_activation(out, act)


publish(globals(), __name__)
