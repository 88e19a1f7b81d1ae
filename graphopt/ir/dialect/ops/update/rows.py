"""Parameter updates of the rows of a table that were looked up; the others are unchanged.

The gradient is given as the gradients of lookups, each with the numbers of its rows. A row
that was looked up several times gets the sum. Rows of the number in `padding`, and rows that do not
exist, get nothing.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integers, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.update.basic import updated
from graphopt.ir.dialect.types import Tensor, compatible, dtype_of, like, rank_of, shape_of, show


def check_rows(
    param: Tensor, ids: Sequence[Tensor], grads: Sequence[Tensor], padding: Sequence[int]
) -> None:
    """ProgramError unless each gradient has a row of the table for each of its numbers."""
    if rank_of(param) != 2:
        raise ProgramError("the table must be 2-D")
    if not len(ids) == len(grads) == len(padding):
        raise ProgramError(
            f"{len(ids)} lookups need as many gradients and paddings, found {len(grads)} and "
            f"{len(padding)}"
        )
    for numbers, grad in zip(ids, grads, strict=True):
        check_integer("ids", numbers)
        wanted = like(param, shape=(*shape_of(numbers), shape_of(param)[1]))
        if not compatible(wanted, like(grad, dtype=dtype_of(param))):
            raise ProgramError(f"the gradient {show(grad)} does not fit rows {show(wanted)}")


class RowUpdate(OpaqueOp, ABC):
    """An update from `grads`, the gradients of the rows `ids` of each lookup."""

    irdl_options = (SEGMENTS,)


@irdl_op_definition
class SgdRows(RowUpdate):
    """param - lr * grad, for the rows that were looked up. Paddle: sgd with sparse gradients."""

    name = "pd.sgd_rows"
    param = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    ids = var_operand_def(Tensor)
    grads = var_operand_def(Tensor)
    param_out = result_def(Tensor)
    padding = integers(())

    @staticmethod
    def infer(
        param: Tensor,
        ids: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
        padding: tuple[int, ...],
    ) -> Tensor:
        check_rows(param, ids, grads, padding)
        return param


@irdl_op_definition
class AdagradRows(RowUpdate):
    """m += g², then param - lr * g / (sqrt(m) + epsilon), for the rows that were looked up.

    Paddle: adagrad with sparse gradients.
    """

    name = "pd.adagrad_rows"
    param = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment = operand_def(Tensor)
    ids = var_operand_def(Tensor)
    grads = var_operand_def(Tensor)
    param_out = result_def(Tensor)
    moment_out = result_def(Tensor)
    epsilon = number(1e-6)
    padding = integers(())

    @staticmethod
    def infer(
        param: Tensor,
        moment: Tensor,
        ids: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
        padding: tuple[int, ...],
    ) -> tuple[Tensor, ...]:
        check_rows(param, ids, grads, padding)
        return updated(param, param, moment)


class AdamRowsBase(RowUpdate, ABC):
    """As `pd.sparse_adam` and `pd.sparse_adamw` with the counts of these lookups."""

    param = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment1 = operand_def(Tensor)
    moment2 = operand_def(Tensor)
    beta1_pow = operand_def(Tensor)
    beta2_pow = operand_def(Tensor)
    ids = var_operand_def(Tensor)
    grads = var_operand_def(Tensor)
    param_out = result_def(Tensor)
    moment1_out = result_def(Tensor)
    moment2_out = result_def(Tensor)
    beta1_pow_out = result_def(Tensor)
    beta2_pow_out = result_def(Tensor)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    uncorrected_epsilon = flag(False)
    padding = integers(())

    @staticmethod
    def infer(
        param: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
        ids: tuple[Tensor, ...],
        grads: tuple[Tensor, ...],
        padding: tuple[int, ...],
    ) -> tuple[Tensor, ...]:
        check_rows(param, ids, grads, padding)
        return updated(param, param, moment1, moment2, beta1_pow, beta2_pow)


@irdl_op_definition
class AdamRows(AdamRowsBase):
    """Adam, for the rows that were looked up. Paddle: adam with sparse gradients, lazy_mode."""

    name = "pd.adam_rows"


@irdl_op_definition
class AdamwRows(AdamRowsBase):
    """AdamW, for the rows that were looked up. Paddle: adamw with sparse gradients, lazy_mode."""

    name = "pd.adamw_rows"
    coeff = number(0.01)
    lr_ratio = number(1.0)
    with_decay = flag(True)
