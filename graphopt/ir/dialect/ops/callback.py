"""Ops that call Python functions of the host while a program runs.

A number names the Python function (see `ir/dialect/callables.py`), so a module with these ops means
something in the process that built it only.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    traits_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, integers, strings
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.traits import Opaque
from graphopt.ir.dialect.types import UNKNOWN, Tensor, rank_of, shape_of, tensor


def split_shapes(sizes: Sequence[int], ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """Several shapes from one list of sizes."""
    shapes: list[tuple[int, ...]] = []
    at = 0
    for rank in ranks:
        shapes.append(tuple(sizes[at : at + rank]))
        at += rank
    return shapes


@irdl_op_definition
class PyFunc(PdOp):
    """A Python function of arrays; no gradient flows through it. Paddle: py_func.

    `sizes` has the results' shapes, of `ranks` dimensions each, one after the other; an unknown
    size is that of the first operand which has the axis. `variables` are the names of the results,
    or of the operands when there are none.
    """

    name = "pd.py_func"
    traits = traits_def(Opaque())
    xs = var_operand_def(Tensor)
    outs = var_result_def(Tensor)
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
    """A declared size, or where there is none, that of the first operand which has the axis."""
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
    """`outs`, whose gradients a Python function takes on to `xs`. Paddle: py_func.

    The function gets those of xs and outs whose position is not `skipped`, then the gradients.
    `variables` are the names of outs.
    """

    name = "pd.py_func_backward"
    xs = var_operand_def(Tensor)
    outs = var_operand_def(Tensor)
    results_ = var_result_def(Tensor)
    function = integer()
    skipped = integers(())
    variables = strings(())
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(outs: Sequence[Tensor]) -> list[Tensor]:
        return list(outs)
