"""Ops that are together one operator of a later opset.

The ops before the last one are written, too, and left out where nothing else reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Multiply, Pow, Rsqrt, Scale, Square
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.types import UNKNOWN, normalize_axes, rank_of, shape_of
from graphopt.models.export.onnx.nodes import Nodes, Value
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.pattern import Match, Node
from graphopt.passes.engine.pattern import Value as Hole


class RmsNorm:
    """x over the root of its mean square, times a weight."""

    OPSET = 23
    x, weight = Hole(), Hole("vector")
    square = Node((Square, Pow), x)
    mean = Node(Mean, square)
    moved = Node(Scale, mean)
    inverse = Node(Rsqrt, moved)
    normal = Node(Multiply, x, inverse, commutes=True)
    root = Node(Multiply, normal, weight, commutes=True)

    @classmethod
    def check(cls, match: Match) -> bool:
        """True for the last axes, and a weight of just their sizes."""
        x, square, moved = match.value(cls.x), match[cls.square], match[cls.moved]
        rank, sizes = rank_of(x.type), shape_of(match.value(cls.weight).type)
        axes = normalize_axes(match[cls.mean].attr("axis"), rank)
        return (
            bool(axes)
            and sorted(axes) == list(range(rank - len(axes), rank))
            and match[cls.mean].attr("keepdim")
            and (isinstance(square, Square) or square.attr("factor") == 2)
            and moved.attr("scale") == 1
            and UNKNOWN not in sizes
            and sizes == shape_of(x.type)[rank - len(axes) :]
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value:
        """The operator."""
        x, weight = values[match.value(cls.x)], values[match.value(cls.weight)]
        axis = -len(shape_of(match.value(cls.weight).type))
        epsilon = match[cls.moved].attr("bias")
        return emit("RMSNormalization", x, weight, axis=axis, epsilon=epsilon)


PATTERNS = (RmsNorm,)


def as_one(emit: Nodes, op: PdOp, values: Mapping[SSAValue, Value]) -> Value | None:
    """The result of a pattern that ends with an op, by one operator; None without."""
    for pattern in PATTERNS:
        if emit.shared.opset >= pattern.OPSET and type(op) in pattern.root.types:
            for match in matches(pattern.root, op):
                if pattern.check(match):
                    return pattern.write(emit, match, values)
    return None
