"""Ops that show or check values while a program runs; they have no results and stay."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, traits_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, string, strings
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import Unary
from graphopt.ir.dialect.traits import Opaque, Shown
from graphopt.ir.dialect.types import UNKNOWN, Tensor, dtype_of, element_count, shape_of

PARTS = ("name", "message", "lod", "place", "shape", "layout", "dtype")


def _check_parts(parts: tuple[str, ...]) -> None:
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise ProgramError(f"print shows {', '.join(PARTS)}, not '{min(unknown)}'")


@irdl_op_definition
class Print(PdOp):
    """Print a tensor when the program gets here. Paddle: print.

    `first_n` limits how often (-1: always), `summarize` how many elements (-1: all); `parts` names
    the facts to print with the elements, and `variable` its name.
    """

    name = "pd.print"
    traits = traits_def(Opaque())
    x = operand_def(Tensor)
    variable = string()
    message = string("")
    first_n = integer(-1)
    summarize = integer(20)
    parts = strings(PARTS)

    @staticmethod
    def infer(parts: tuple[str, ...]) -> tuple[Tensor, ...]:
        _check_parts(parts)
        return ()


@irdl_op_definition
class PrintGradient(Unary):
    """The same value; its gradient is printed when it is computed. Paddle: print."""

    name = "pd.print_gradient"
    traits = traits_def(Shown())
    variable = string()
    message = string("")
    first_n = integer(-1)
    summarize = integer(20)
    parts = strings(PARTS)

    @staticmethod
    def infer(x: Tensor, parts: tuple[str, ...] = PARTS) -> Tensor:
        _check_parts(parts)
        return x


@irdl_op_definition
class Assert(PdOp):
    """Stop the program, showing `data`, unless `condition` holds. Paddle: assert.

    `variables` are the names of the condition and of the data.
    """

    name = "pd.assert"
    traits = traits_def(Opaque())
    irdl_options = (SEGMENTS,)
    condition = operand_def(Tensor)
    data = var_operand_def(Tensor)
    variables = strings()
    summarize = integer(20)

    @staticmethod
    def infer(
        condition: Tensor, data: tuple[Tensor, ...], variables: tuple[str, ...]
    ) -> tuple[Tensor, ...]:
        if dtype_of(condition) != "bool" or element_count(shape_of(condition)) not in (1, UNKNOWN):
            raise ProgramError("the condition of an assert must be a bool of one element")
        if len(variables) != 1 + len(data):
            raise ProgramError("an assert names its condition and each of its data")
        return ()
