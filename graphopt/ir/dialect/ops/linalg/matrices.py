"""Linear algebra beyond matrix products."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp, TwoTensors
from graphopt.ir.dialect.ops.linalg.decompositions import OnSquares
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    like,
    normalize_axis,
    rank_of,
    same_dtype,
    same_shape,
    shape_of,
)


@irdl_op_definition
class Cholesky(OnSquares):
    """The triangular factor of symmetric positive-definite matrices. Paddle: cholesky."""

    name = "pd.cholesky"
    upper = flag(False)


@irdl_op_definition
class Inverse(OnSquares):
    """The inverses of matrices. Paddle: inverse."""

    name = "pd.inverse"


@irdl_op_definition
class Cross(TwoTensors, OpaqueOp):
    """The vector product along an axis of size 3; 9 stands for the first such axis.

    Paddle: cross.
    """

    name = "pd.cross"
    axis = integer(9)

    @staticmethod
    def infer(x: Tensor, y: Tensor, axis: int) -> Tensor:
        same_dtype(x, y)
        shape = same_shape(x, y)
        at = cross_axis(shape, axis)
        if shape[at] not in (3, UNKNOWN):
            raise ProgramError(f"cross needs size 3 at axis {axis} of {list(shape)}")
        return like(x, shape=shape)


def cross_axis(shape: tuple[int, ...], axis: int) -> int:
    """Return the axis of a vector product; 9 stands for the first axis of size 3."""
    if axis != 9:
        return normalize_axis(axis, len(shape))
    if 3 not in shape:
        raise ProgramError(f"cross needs an axis of size 3, found {list(shape)}")
    return shape.index(3)


def _two_axes(x: Tensor, axis1: int, axis2: int) -> tuple[int, int]:
    first, second = normalize_axis(axis1, rank_of(x)), normalize_axis(axis2, rank_of(x))
    if first == second:
        raise ProgramError(f"the axes of a diagonal must differ, found {axis1} twice")
    return first, second


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """Count the elements on a diagonal."""
    if UNKNOWN in (rows, columns):
        return UNKNOWN
    return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)


@irdl_op_definition
class Diagonal(PureOp):
    """A diagonal of the matrices in two axes, as a new last axis. Paddle: diagonal."""

    name = "pd.diagonal"
    traits = traits_def(Movement())
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    offset = integer(0)
    axis1 = integer(0)
    axis2 = integer(1)

    @staticmethod
    def infer(input: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
        shape = shape_of(input)
        first, second = _two_axes(input, axis1, axis2)
        kept = [dim for i, dim in enumerate(shape) if i not in (first, second)]
        return like(input, shape=(*kept, diagonal_length(shape[first], shape[second], offset)))


@irdl_op_definition
class Trace(OpaqueOp):
    """The sums of the diagonals of the matrices in two axes. Paddle: trace."""

    name = "pd.trace"
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    offset = integer(0)
    axis1 = integer(0)
    axis2 = integer(1)

    @staticmethod
    def infer(input: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
        diagonal = Diagonal.infer(input, offset, axis1, axis2)
        return like(input, shape=shape_of(diagonal)[:-1])


@irdl_op_definition
class Diag(OneTensor, OpaqueOp):
    """A matrix with this diagonal, or the diagonal of a matrix. Paddle: diag_v2."""

    name = "pd.diag"
    offset = integer(0)
    padding_value = number(0.0)

    @staticmethod
    def infer(x: Tensor, offset: int) -> Tensor:
        shape = shape_of(x)
        if len(shape) == 2:
            return like(x, shape=(diagonal_length(*shape, offset),))
        if len(shape) != 1:
            raise ProgramError(f"diag needs a vector or a matrix, found {list(shape)}")
        size = UNKNOWN if shape[0] == UNKNOWN else shape[0] + abs(offset)
        return like(x, shape=(size, size))


@irdl_op_definition
class Einsum(OpaqueOp):
    """Sums of products by Einstein's notation; `...` and sizes of 1 broadcast.

    Paddle: einsum.
    """

    name = "pd.einsum"
    inputs = var_operand_def(TENSOR)
    out = result_def(TENSOR)
    equation = string()

    @staticmethod
    def infer(inputs: tuple[Tensor, ...], equation: str) -> Tensor:
        same_dtype(*inputs)
        terms, arrow, result = equation.replace(" ", "").partition("->")
        names = terms.split(",")
        if len(names) != len(inputs) or not arrow:
            raise ProgramError(
                f"the equation '{equation}' should have a term for each of {len(inputs)} tensors "
                "and a result after ->"
            )
        sizes: dict[str, int] = {}
        spread: tuple[int, ...] = ()
        for term, operand in zip(names, inputs, strict=True):
            before, dots, after = term.partition("...")
            shape = shape_of(operand)
            extra = len(shape) - len(before) - len(after)
            if extra < 0 or (extra and not dots):
                raise ProgramError(f"'{term}' of '{equation}' does not fit {list(shape)}")
            spread = broadcast_shapes(spread, shape[len(before) : len(before) + extra])
            ends = shape[: len(before)] + shape[len(before) + extra :]
            for letter, dim in zip(before + after, ends, strict=True):
                known = sizes.get(letter, dim)
                if UNKNOWN not in (dim, known) and 1 not in (dim, known) and known != dim:
                    raise ProgramError(
                        f"einsum: '{letter}' of '{equation}' has the sizes {known} and {dim}; they "
                        "should be the same, or one of them 1"
                    )
                (sizes[letter],) = broadcast_shapes((known,), (dim,))
        before, dots, after = result.partition("...")
        unknown = set(before + after) - set(sizes)
        if unknown:
            raise ProgramError(f"'{min(unknown)}' of '{equation}' is in the result only")
        middle = spread if dots else ()
        shape = (*(sizes[c] for c in before), *middle, *(sizes[c] for c in after))
        return like(inputs[0], shape=shape)
