"""Numbers in whole steps of a scale, and back. The steps stay in floating point, as in Paddle.

A scale has one element for all numbers, or one for each index of an axis: it broadcasts to x. It is
as large as so many steps (`steps`).
"""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, number
from graphopt.ir.dialect.ops.base import Binary
from graphopt.ir.dialect.ops.elementary import RealBinary
from graphopt.ir.dialect.types import Tensor, agree, shape_of, show

EVEN, AWAY = 0, 1
"""The rounding of halves: to even, with one more negative step, or away from zero."""


class Scaled(Binary, ABC):
    """x (first operand) by a scale (second operand) that broadcasts to it."""

    steps = number(127.0)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        out = RealBinary.infer(x, y)
        if not agree(shape_of(out), shape_of(x)):
            raise ProgramError(f"a scale {show(y)} does not broadcast to {show(x)}")
        return out


@irdl_op_definition
class QuantizeLinear(Scaled):
    """x / scale in whole steps. Paddle: quantize_linear, fake_quantize_abs_max and others.

    Halves are rounded away from zero, of an x that is cut to the scale before, or to even numbers
    (`round_type` 0), which are cut after.
    """

    name = "pd.quantize_linear"
    round_type = integer(EVEN)


@irdl_op_definition
class DequantizeLinear(Scaled):
    """Whole steps times the scale. Paddle: dequantize_linear, fake_dequantize_max_abs, others."""

    name = "pd.dequantize_linear"
