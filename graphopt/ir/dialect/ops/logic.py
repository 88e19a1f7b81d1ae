"""Bits, and questions about the elements of tensors."""

from __future__ import annotations

from abc import ABC
from functools import partial

from xdsl.irdl import irdl_op_definition, traits_def

from graphopt.errors import OperandError
from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.ops.base import (
    Binary,
    Compare,
    OneTensor,
    PureOp,
    TwoTensors,
    Unary,
    declare,
)
from graphopt.ir.dialect.traits import Elementwise, Reduction
from graphopt.ir.dialect.types import Tensor, dtype_of, like, same_dtype, same_shape

elementwise = partial(declare, __name__)


def check_bits(x: Tensor) -> None:
    """Raise ProgramError unless the tensor holds integers or bools."""
    if dtype_of(x).is_differentiable:
        raise OperandError(f"expected an integer or bool tensor, found {dtype_of(x)}")


class BitwiseBinary(Binary, ABC):
    """Elementwise on the bits of two integer tensors; on bools the logical operation."""

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        check_bits(x)
        return Binary.infer(x, y)


BitwiseAnd = elementwise(BitwiseBinary, "bitwise_and", "Bits set in both.")
BitwiseOr = elementwise(BitwiseBinary, "bitwise_or", "Bits set in either.")
BitwiseXor = elementwise(BitwiseBinary, "bitwise_xor", "Bits set in one of the two.")


@irdl_op_definition
class BitwiseNot(Unary):
    """Every bit flipped; of a bool, not x. Paddle: bitwise_not."""

    name = "pd.bitwise_not"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        check_bits(x)
        return x


LogicalXor = elementwise(Compare, "logical_xor", "One of the two is true.")


class Test(OneTensor, PureOp, ABC):
    """A property of every element; the result is boolean."""

    traits = traits_def(Elementwise())

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, dtype="bool")


Isnan = elementwise(Test, "isnan", "x is not a number.", paddle="isnan_v2")
Isinf = elementwise(Test, "isinf", "x is an infinity.", paddle="isinf_v2")
Isfinite = elementwise(Test, "isfinite", "x is neither infinite nor nan.", paddle="isfinite_v2")


@irdl_op_definition
class EqualAll(TwoTensors, PureOp):
    """The tensors have one shape and equal elements. Paddle: equal_all."""

    name = "pd.equal_all"
    traits = traits_def(Reduction(axis=None))

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        return like(x, shape=(), dtype="bool")


@irdl_op_definition
class Isclose(Compare):
    """Elementwise closeness: |x - y| <= atol + rtol * |y|. Paddle: isclose."""

    name = "pd.isclose"
    rtol = number(1e-5)
    atol = number(1e-8)
    equal_nan = flag(False)


@irdl_op_definition
class Allclose(TwoTensors, PureOp):
    """All elements are close, as defined by isclose. Paddle: allclose."""

    name = "pd.allclose"
    traits = traits_def(Reduction(axis=None))
    rtol = number(1e-5)
    atol = number(1e-8)
    equal_nan = flag(False)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_shape(x, y)
        return like(Compare.infer(x, y), shape=())
