"""Parameter updates from sparse gradients: of the whole table, or of the rows that were looked up.

From a sparse gradient Paddle's kernels of Adam and AdamW compute another result than from a dense
one. `_rows` updates get the gradients of lookups, each with the ids of its rows, and leave the
other rows unchanged. A row that was looked up several times gets the sum. Rows with an id in
`padding`, and rows that do not exist, get nothing.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integers, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.update.basic import Update, updated_types
from graphopt.ir.dialect.types import (
    TENSOR,
    Tensor,
    compatible,
    dtype_of,
    like,
    rank_of,
    shape_of,
    show,
)


class SparseAdamBase(Update, ABC):
    """With `looked_up` (Paddle: lazy_mode) rows without a lookup stay, moments included.

    `looked_up` has the shape of the table and counts the lookups of each row.
    """

    PER_ELEMENT: ClassVar[frozenset[str]] = frozenset({"param", "grad", "looked_up"})

    param = operand_def(TENSOR)
    grad = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    moment1 = operand_def(TENSOR)
    moment2 = operand_def(TENSOR)
    beta1_pow = operand_def(TENSOR)
    beta2_pow = operand_def(TENSOR)
    looked_up = opt_operand_def(TENSOR)
    param_out = result_def(TENSOR)
    moment1_out = result_def(TENSOR)
    moment2_out = result_def(TENSOR)
    beta1_pow_out = result_def(TENSOR)
    beta2_pow_out = result_def(TENSOR)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    uncorrected_epsilon = flag(False)
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
        looked_up: Tensor | None,
    ) -> tuple[Tensor, ...]:
        if looked_up is not None and not compatible(param, like(looked_up, dtype=dtype_of(param))):
            raise ProgramError(f"the counts {show(looked_up)} do not fit {show(param)}")
        return updated_types(param, grad, moment1, moment2, beta1_pow, beta2_pow)


@irdl_op_definition
class SparseAdam(SparseAdamBase):
    """Adam as Paddle's CPU computes it from a sparse gradient. Paddle: adam.

    It corrects the bias by the powers of the next step.
    """

    name = "pd.sparse_adam"


@irdl_op_definition
class SparseAdamw(SparseAdamBase):
    """AdamW; rows that stay do not decay either. Paddle: adamw, on GPUs."""

    name = "pd.sparse_adamw"
    coeff = number(0.01)
    lr_ratio = number(1.0)
    with_decay = flag(True)


def check_rows(
    param: Tensor, ids: Sequence[Tensor], grads: Sequence[Tensor], padding: Sequence[int]
) -> None:
    """Raise ProgramError unless each gradient has a row of the table for each of its ids."""
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
    param = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    ids = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    param_out = result_def(TENSOR)
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
    param = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    moment = operand_def(TENSOR)
    ids = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    param_out = result_def(TENSOR)
    moment_out = result_def(TENSOR)
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
        return updated_types(param, param, moment)


class AdamRowsBase(RowUpdate, ABC):
    """As `pd.sparse_adam` and `pd.sparse_adamw` with the counts of these lookups."""

    param = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    moment1 = operand_def(TENSOR)
    moment2 = operand_def(TENSOR)
    beta1_pow = operand_def(TENSOR)
    beta2_pow = operand_def(TENSOR)
    ids = var_operand_def(TENSOR)
    grads = var_operand_def(TENSOR)
    param_out = result_def(TENSOR)
    moment1_out = result_def(TENSOR)
    moment2_out = result_def(TENSOR)
    beta1_pow_out = result_def(TENSOR)
    beta2_pow_out = result_def(TENSOR)
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
        return updated_types(param, param, moment1, moment2, beta1_pow, beta2_pow)


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
