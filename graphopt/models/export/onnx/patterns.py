"""Patterns of ops that are one ONNX operator, in all opsets or from some opset on.

The ops before the last one are written, too, and pruned if nothing else reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import constant
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    Conv2dTranspose,
    Conv3d,
    Conv3dTranspose,
    DepthwiseConv2d,
)
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Multiply,
    Pow,
    Rsqrt,
    Scale,
    Square,
    Subtract,
)
from graphopt.ir.dialect.ops.reduce import Max, Mean, Min, Sum
from graphopt.ir.dialect.ops.shape import Squeeze
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axes, rank_of, shape_of
from graphopt.models.export.onnx.nodes import Nodes, Value
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.pattern import Match, Node
from graphopt.passes.engine.pattern import Value as Hole


class RmsNorm:
    """x over its root mean square, times a weight."""

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
        """True if the last axes are normalized, and the weight has exactly their sizes."""
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
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit RMSNormalization."""
        x, weight = values[match.value(cls.x)], values[match.value(cls.weight)]
        axis = -len(shape_of(match.value(cls.weight).type))
        epsilon = match[cls.moved].attr("bias")
        return emit("RMSNormalization", x, weight, axis=axis, epsilon=epsilon)


class BiasedConv:
    """A convolution plus a bias per channel."""

    OPSET = 0
    x, filter, bias = Hole(), Hole(), Hole()
    conv = Node((Conv2d, DepthwiseConv2d, Conv3d, Conv2dTranspose, Conv3dTranspose), x, filter)
    lines = Node(Squeeze, conv, optional=True)
    root = Node(Add, lines, bias, commutes=True)

    @classmethod
    def _images(cls, match: Match) -> SSAValue:
        return match.ops.get(cls.lines, match[cls.conv]).results[0]

    @classmethod
    def check(cls, match: Match) -> bool:
        """True if nothing else reads the convolution, and the bias has one element per channel."""
        images = cls._images(match)
        sizes = shape_of(images.type)
        per_channel = (1, sizes[1], *(1 for _ in sizes[2:]))
        own = shape_of(match.value(cls.bias).type)
        return (
            len(match[cls.conv].operands) == 2
            and match[cls.conv].attr("data_format") in ("NCHW", "NCDHW")
            and sizes[1] != UNKNOWN
            and own in (per_channel, per_channel[1:])
            and images.has_one_use()
            and match[cls.conv].results[0].has_one_use()
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit the convolution with the bias as operand; None if it is not a single node."""
        found = values[cls._images(match)].producer()
        if found is None or found.op_type not in ("Conv", "ConvTranspose") or found.inputs[2:]:
            return None
        bias = values[match.value(cls.bias)]
        made = bias.producer()
        before = None if made is None or made.op_type != "Reshape" else made.inputs[0]
        is_vector = before is not None and len(before.shape or ()) == 1
        vector = before if is_vector else emit.reshape(bias, emit.ints([-1]))
        assert vector is not None
        attributes = {name: each.value for name, each in found.attributes.items()}
        return emit(found.op_type, *found.inputs, vector, **attributes)


class BiasedProduct:
    """A product of two matrices plus a bias per column."""

    OPSET = 0
    x, y, bias = Hole(), Hole(), Hole("vector")
    product = Node(Matmul, x, y)
    root = Node(Add, product, bias, commutes=True)

    @classmethod
    def check(cls, match: Match) -> bool:
        """True if nothing else reads the product."""
        product = match[cls.product].results[0]
        x, y = shape_of(match.value(cls.x).type), shape_of(match.value(cls.y).type)
        columns = shape_of(product.type)[-1:]
        return (
            len(x) == len(y) == 2
            and dtype_of(product.type) in ("float32", "float64")
            and columns != (UNKNOWN,)
            and shape_of(match.value(cls.bias).type) in (columns, (1, *columns))
            and product.has_one_use()
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit Gemm."""
        operands = [values[match.value(hole)] for hole in (cls.x, cls.y, cls.bias)]
        x, y = (int(match[cls.product].attr(f"transpose_{name}")) for name in "xy")
        return emit("Gemm", *operands, transA=x or None, transB=y or None)


class FlatReduction:
    """A reduction that keeps its axes, followed by their removal."""

    OPSET = 0
    x = Hole()
    reduced = Node((Max, Mean, Min, Sum), x)
    root = Node(Squeeze, reduced)

    @classmethod
    def check(cls, match: Match) -> bool:
        """True if exactly the reduced axes are removed, and nothing else reads the reduction."""
        rank = rank_of(match.value(cls.x).type)
        own, others = (
            sorted(normalize_axes(match[node].attr("axis"), rank))
            for node in (cls.reduced, cls.root)
        )
        return (
            bool(own)
            and own == others
            and match[cls.reduced].attr("keepdim")
            and match[cls.reduced].results[0].has_one_use()
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit the reduction without its axes; None if it is not a single node."""
        found = values[match[cls.reduced].results[0]].producer()
        if found is None or not found.op_type.startswith("Reduce"):
            return None
        return emit(found.op_type, *found.inputs, keepdims=0)


class IntegerConv:
    """A convolution of bytes minus zero points, imported in float64, which is exact."""

    OPSET = 0
    x, filter = Hole(), Hole()
    conv = Node((Conv2d, DepthwiseConv2d, Conv3d), x, filter)
    root = Node(Cast, conv)

    @classmethod
    def check(cls, match: Match) -> bool:
        """True if the operands are bytes with one zero point each."""
        wide, whole = match[cls.conv].results[0], match[cls.root].results[0]
        operands = (match.value(cls.x), match.value(cls.filter))
        return (
            dtype_of(wide.type) == "float64"
            and dtype_of(whole.type) == "int32"
            and match[cls.conv].attr("data_format") in ("NCHW", "NCDHW")
            and wide.has_one_use()
            and all(_bytes_of(operand) is not None for operand in operands)
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit ConvInteger; None if the convolution is not a single node."""
        found = values[match[cls.conv].results[0]].producer()
        if found is None or found.op_type != "Conv":
            return None
        operands = _operands_of_bytes(
            emit, [match.value(hole) for hole in (cls.x, cls.filter)], values
        )
        attributes = {name: each.value for name, each in found.attributes.items()}
        return emit("ConvInteger", *operands, dtype="int32", **attributes)


class IntegerProduct:
    """A matrix product of bytes minus zero points."""

    OPSET = 0
    x, y = Hole(), Hole()
    root = Node(Matmul, x, y)

    @classmethod
    def check(cls, match: Match) -> bool:
        """True if the operands are bytes with one zero point each."""
        product = match[cls.root]
        return (
            dtype_of(product.results[0].type) == "int32"
            and not (product.attr("transpose_x") or product.attr("transpose_y"))
            and all(_bytes_of(match.value(hole)) is not None for hole in (cls.x, cls.y))
        )

    @classmethod
    def write(cls, emit: Nodes, match: Match, values: Mapping[SSAValue, Value]) -> Value | None:
        """Emit MatMulInteger."""
        operands = _operands_of_bytes(emit, [match.value(cls.x), match.value(cls.y)], values)
        return emit("MatMulInteger", *operands, dtype="int32")


def _operands_of_bytes(
    emit: Nodes, centred: Sequence[SSAValue], values: Mapping[SSAValue, Value]
) -> list[Value | None]:
    """Collect the bytes of each value, then the zero point of each."""
    operands: list[Value | None] = []
    zeros: list[Value | None] = []
    for value in centred:
        numbers, zero = _bytes_of(value) or (value, None)
        operands.append(values[numbers])
        if isinstance(zero, SSAValue):
            zeros.append(values[zero])
        else:
            zeros.append(emit.number(zero, values[numbers]) if zero else None)
    return [*operands, *zeros]


def _bytes_of(value: SSAValue) -> tuple[SSAValue, SSAValue | float | None] | None:
    """Find the bytes that a value was computed from, and the zero point subtracted from them."""
    inner = _before_casts(value)
    if dtype_of(inner.type) in ("int8", "uint8"):
        return inner, None
    if not isinstance(inner.owner, Subtract):
        return None
    numbers, zero = (_before_casts(operand) for operand in inner.owner.operands)
    kind = dtype_of(numbers.type)
    if kind not in ("int8", "uint8") or rank_of(zero.type):
        return None
    least = -128 if kind == "int8" else 0
    number = constant(zero)
    if number is not None and least <= number < least + 256:
        return numbers, number
    return (numbers, zero) if dtype_of(zero.type) == kind else None


def _before_casts(value: SSAValue) -> SSAValue:
    """Skip casts that preserve the value: from bytes, or to a type that holds all its numbers."""
    while isinstance(value.owner, Cast) and dtype_of(value.type) in ("int32", "int64", "float64"):
        value = value.owner.operands[0]
    return value


PATTERNS = (RmsNorm, BiasedConv, BiasedProduct, FlatReduction, IntegerConv, IntegerProduct)


def as_one(emit: Nodes, op: PdOp, values: Mapping[SSAValue, Value]) -> Value | None:
    """Write a pattern that ends with `op` as one operator; None if no pattern matches."""
    for pattern in PATTERNS:
        if emit.shared.opset >= pattern.OPSET and type(op) in pattern.root.types:
            for match in matches(pattern.root, op):
                found = pattern.write(emit, match, values) if pattern.check(match) else None
                if found is not None:
                    return found
    return None
