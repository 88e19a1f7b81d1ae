"""Ops that call Python on the host while a program runs: functions, printing, checking.

A number names a Python function (see `ir/dialect/callables.py`), so a module with these ops is
valid only in the process that built it. `pd.print` and `pd.assert` have no results, but are never
removed as dead code.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    traits_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, integers, string, strings
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import OpaqueOp, Unary
from graphopt.ir.dialect.traits import Opaque, Shown
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    element_count,
    rank_of,
    shape_of,
    tensor,
)


def split_shapes(sizes: Sequence[int], ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Split a flat list of sizes into shapes of these ranks."""
    shapes: list[tuple[int, ...]] = []
    at = 0
    for rank in ranks:
        shapes.append(tuple(sizes[at : at + rank]))
        at += rank
    return shapes


@irdl_op_definition
class PyFunc(PdOp):
    """A Python function of arrays; no gradient flows through it. Paddle: py_func.

    `sizes` lists the result shapes one after the other, of `ranks` dimensions each; an unknown size
    is taken from the first operand that has the axis. `variables` are the names of the results, or
    of the operands when there are no results.
    """

    name = "pd.py_func"
    traits = traits_def(Opaque())
    xs = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    function = integer()
    sizes = integers(())
    ranks = integers(())
    dtypes = strings(())
    variables = strings(())

    @staticmethod
    def infer(
        xs: Sequence[Tensor], sizes: Sequence[int], ranks: Sequence[int], dtypes: Sequence[str]
    ) -> list[Tensor]:
        if sum(ranks) != len(sizes) or len(ranks) != len(dtypes):
            raise ProgramError("py_func: sizes, ranks and dtypes do not belong together")
        shapes = [
            tuple(_size(size, axis, xs) for axis, size in enumerate(shape))
            for shape in split_shapes(sizes, ranks)
        ]
        return [tensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def _size(size: int, axis: int, xs: Sequence[Tensor]) -> int:
    """Return a declared size; if it is open, the size of the first operand that has the axis."""
    if size != UNKNOWN:
        return size
    for x in xs:
        if rank_of(x) > axis:
            return shape_of(x)[axis]
    raise ProgramError(
        f"py_func: the size of axis {axis} of an output is not known, and no input has this axis; "
        "declare the size of the output"
    )


@irdl_op_definition
class PyFuncBackward(OpaqueOp):
    """`outs`, with a Python function that computes the gradients of `xs`. Paddle: py_func.

    The function gets the xs and outs whose position is not `skipped`, then the gradients of outs.
    `variables` are the names of outs.
    """

    name = "pd.py_func_backward"
    xs = var_operand_def(TENSOR)
    outs = var_operand_def(TENSOR)
    results_ = var_result_def(TENSOR)
    function = integer()
    skipped = integers(())
    variables = strings(())
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(outs: Sequence[Tensor]) -> list[Tensor]:
        return list(outs)


PARTS = ("name", "message", "lod", "place", "shape", "layout", "dtype")


def _check_parts(parts: tuple[str, ...]) -> None:
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise ProgramError(f"print shows {', '.join(PARTS)}, not '{min(unknown)}'")


@irdl_op_definition
class Print(PdOp):
    """Print a tensor each time the program runs this op. Paddle: print.

    `first_n` limits how often (-1: always), `summarize` how many elements (-1: all); `parts` names
    the facts to print with the elements, and `variable` its name.
    """

    name = "pd.print"
    traits = traits_def(Opaque())
    x = operand_def(TENSOR)
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

    `variables` are the names of the condition and of the data; a `message` replaces the default
    text.
    """

    name = "pd.assert"
    traits = traits_def(Opaque())
    irdl_options = (SEGMENTS,)
    condition = operand_def(TENSOR)
    data = var_operand_def(TENSOR)
    variables = strings()
    summarize = integer(20)
    message = string("")

    @staticmethod
    def infer(
        condition: Tensor, data: tuple[Tensor, ...], variables: tuple[str, ...]
    ) -> tuple[Tensor, ...]:
        if dtype_of(condition) != "bool" or element_count(shape_of(condition)) not in (1, UNKNOWN):
            raise ProgramError("the condition of an assert must be a bool of one element")
        if len(variables) != 1 + len(data):
            raise ProgramError("an assert names its condition and each of its data")
        return ()
