"""Families of ops that share operands, results and a type rule."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, TypeVar, cast

from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from graphopt.errors import OperandError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.traits import Elementwise, Opaque
from graphopt.ir.dialect.types import (
    TENSOR,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    same_dtype,
    shape_of,
)

Op = TypeVar("Op", bound=PdOp)


class PureOp(PdOp, ABC):
    """An op whose results depend on its operands and properties alone; unused ones are removed."""

    traits = traits_def(Pure())


class OpaqueOp(PureOp, ABC):
    """A pure op without any other statement: any element may depend on all operands."""

    traits = traits_def(Opaque())


class OneTensor(PdOp, ABC):
    """An op of one tensor that gives one tensor."""

    x = operand_def(TENSOR)
    out = result_def(TENSOR)


class TwoTensors(PdOp, ABC):
    """An op of two tensors that gives one tensor."""

    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    out = result_def(TENSOR)


class DataSizedOp(OpaqueOp, ABC):
    """An op whose result sizes depend on the elements of its operands."""

    DECIDED_BY: ClassVar[str] = ""
    """The operand whose elements decide a size; empty for the first operand."""
    FIXED_BY: ClassVar[str] = ""
    """An optional operand whose shape, where present, gives the size."""

    def deciding_operand(self) -> SSAValue | None:
        """Return the operand whose elements decide a size; None where a shape decides it."""
        if self.FIXED_BY and getattr(self, self.FIXED_BY) is not None:
            return None
        return getattr(self, self.DECIDED_BY) if self.DECIDED_BY else self.operands[0]


class Unary(OneTensor, PureOp, ABC):
    """Elementwise on one tensor; the result has the operand's type."""

    traits = traits_def(Elementwise())

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return x


class FloatUnary(Unary, ABC):
    """Elementwise on one floating-point or complex tensor."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if not dtype_of(x).is_differentiable:
            raise OperandError(
                f"expected a floating-point tensor, found {dtype_of(x)}; cast it first"
            )
        return x


class NumberUnary(Unary, ABC):
    """Elementwise on one tensor of real numbers, whole ones too."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if dtype_of(x).is_complex or dtype_of(x) == "bool":
            raise OperandError(
                f"expected a tensor of real numbers, found {dtype_of(x)}; cast it first"
            )
        return x


class RealUnary(Unary, ABC):
    """Elementwise on one tensor of real floating-point numbers."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if not dtype_of(x).is_floating:
            raise OperandError(
                f"expected a tensor of real floating-point numbers, found {dtype_of(x)}; "
                "cast it first"
            )
        return x


def declare(module: str, base: type[Op], name: str, doc: str, paddle: str = "") -> type[Op]:
    """Declare an elementwise op of a module, without properties, in one line.

    `elementwise = partial(declare, __name__)`; then `elementwise(FloatUnary, "sin", "Sine.")`
    declares the op `pd.sin`, of a class `Sin`. `paddle` is Paddle's name for the op, where it
    differs.
    """
    members = {
        "name": f"pd.{name}",
        "__doc__": f"{doc} Paddle: {paddle or name}.",
        "__module__": module,
    }
    camel_case = "".join(part.capitalize() for part in name.split("_"))
    return cast("type[Op]", irdl_op_definition(type(camel_case, (base,), members)))


class Binary(TwoTensors, PureOp, ABC):
    """Elementwise on two tensors of one dtype, with NumPy broadcasting."""

    traits = traits_def(Elementwise())

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        return like(x, shape=broadcast_shapes(shape_of(x), shape_of(y)))


class Compare(TwoTensors, PureOp, ABC):
    """Elementwise on two tensors of one dtype; the result is boolean."""

    traits = traits_def(Elementwise())

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        return like(x, shape=broadcast_shapes(shape_of(x), shape_of(y)), dtype="bool")
