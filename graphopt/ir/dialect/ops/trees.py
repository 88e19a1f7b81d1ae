"""Convolutions on trees."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    like,
    same_dtype,
    shape_of,
    show,
)


@irdl_op_definition
class TreeConv(OpaqueOp):
    """Each node [d] and the nodes below it, by filters [d, 3, out, filters]: [b, n, out, filters].

    Nodes are [b, n, d]. `edges` [b, m, 2] are pairs of a node and its child, numbered from 1 on;
    the first pair with a 0 ends them. A window reaches `max_depth` - 1 levels below its root. The
    three parts of the filter are for a child far on the right, far on the left, and at the top.
    Nodes beyond the number of edges + 1 give 0. Paddle mixes the parts of the filter with its
    outputs in the gradient of the nodes, unless there is one output of one filter; here the
    gradient is the derivative of the result. Paddle: tree_conv.
    """

    name = "pd.tree_conv"
    nodes = operand_def(TENSOR)
    edges = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    out = result_def(TENSOR)
    max_depth = integer(2)

    @staticmethod
    def infer(nodes: Tensor, edges: Tensor, filter: Tensor, max_depth: int) -> Tensor:
        check_integer("edges", edges)
        same_dtype(nodes, filter)
        shape, parts = shape_of(nodes), shape_of(filter)
        width = shape[-1] if shape else UNKNOWN
        if (
            len(shape) != 3
            or len(parts) != 4
            or not agree(parts[:2], (width, 3))
            or not agree(shape_of(edges), (shape[0], UNKNOWN, 2))
        ):
            raise ProgramError(
                "tree_conv needs nodes [b, n, d], edges [b, m, 2] and filters [d, 3, out, m], "
                f"found {show(nodes)}, {show(edges)} and {show(filter)}"
            )
        if max_depth < 1:
            raise ProgramError(f"tree_conv needs a 'max_depth' above 0, found {max_depth}")
        return like(nodes, shape=(*shape[:2], *parts[2:]))
