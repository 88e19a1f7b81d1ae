"""Adam and AdamW from the sparse gradient of an embedding, which here is that of the whole table.

Paddle's kernels compute something else there than from a dense gradient.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.update.basic import Update, updated
from graphopt.ir.dialect.types import Tensor, compatible, dtype_of, like, show


class SparseAdamBase(Update, ABC):
    """With `looked_up` (Paddle: lazy_mode) rows that were not looked up stay, with their moments.

    It has the shape of the table and says how often each row was looked up.
    """

    PER_ELEMENT: ClassVar[frozenset[str]] = frozenset({"param", "grad", "looked_up"})

    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment1 = operand_def(Tensor)
    moment2 = operand_def(Tensor)
    beta1_pow = operand_def(Tensor)
    beta2_pow = operand_def(Tensor)
    looked_up = opt_operand_def(Tensor)
    param_out = result_def(Tensor)
    moment1_out = result_def(Tensor)
    moment2_out = result_def(Tensor)
    beta1_pow_out = result_def(Tensor)
    beta2_pow_out = result_def(Tensor)
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
        return updated(param, grad, moment1, moment2, beta1_pow, beta2_pow)


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
