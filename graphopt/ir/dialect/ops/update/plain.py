"""Parameter updates whose step size is one number, or follows from signs and lengths alone."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.ir.dialect.attrs import flag, integer, number
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.ops.update.basic import Update, check_gradient, update, updated_types
from graphopt.ir.dialect.types import TENSOR, Tensor


@update("d", "y", reads=("n",))
class Asgd(Update):
    """param - lr / n * d, where d sums the latest gradient of each of n batches. Paddle: asgd.

    `y` is the gradient that this batch gave last time.
    """

    name = "pd.asgd"


@irdl_op_definition
class Rprop(Update):
    """Steps against the gradient's sign, growing while it stays the same. Paddle: rprop.

    `learning_rate` is the step of each element; `learning_rate_range` and `etas` are two numbers
    each: least and largest step, and the factors for a changed and an unchanged sign.
    """

    name = "pd.rprop"
    param = operand_def(TENSOR)
    grad = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    prev = operand_def(TENSOR)
    learning_rate_range = operand_def(TENSOR)
    etas = operand_def(TENSOR)
    param_out = result_def(TENSOR)
    prev_out = result_def(TENSOR)
    learning_rate_out = result_def(TENSOR)

    @staticmethod
    def infer(
        param: Tensor, grad: Tensor, learning_rate: Tensor, prev: Tensor
    ) -> tuple[Tensor, ...]:
        return updated_types(param, grad, prev, learning_rate)


@update("velocity")
class LarsMomentum(Update):
    """Momentum with a rate for each layer (You and others, 2017). Paddle: lars_momentum.

    With `in_parts` each replica has a part of the tensors, but lengths are of the whole tensors.
    """

    name = "pd.lars_momentum"
    mu = number()
    lars_coeff = number(0.001)
    lars_weight_decay = number(0.0005)
    epsilon = number(0.0)
    rescale_grad = number(1.0)
    in_parts = flag(False)


@irdl_op_definition
class Dpsgd(RandomOp):
    """Clipped gradient descent with one random number of noise per step. Paddle: dpsgd."""

    name = "pd.dpsgd"
    param = operand_def(TENSOR)
    grad = operand_def(TENSOR)
    learning_rate = operand_def(TENSOR)
    param_out = result_def(TENSOR)
    clip = number(10.0)
    batch_size = number(16.0)
    sigma = number(1.0)

    @staticmethod
    def infer(param: Tensor, grad: Tensor) -> Tensor:
        check_gradient(param, grad)
        return param


@irdl_op_definition
class AverageAccumulates(OpaqueOp):
    """Sums of a parameter over a window of steps. Paddle: average_accumulates.

    sum_1 and sum_2 belong to the window that is open, sum_3 to the last full one.
    """

    name = "pd.average_accumulates"
    param = operand_def(TENSOR)
    sum_1 = operand_def(TENSOR)
    sum_2 = operand_def(TENSOR)
    sum_3 = operand_def(TENSOR)
    num_accumulates = operand_def(TENSOR)
    old_num_accumulates = operand_def(TENSOR)
    num_updates = operand_def(TENSOR)
    sum_1_out = result_def(TENSOR)
    sum_2_out = result_def(TENSOR)
    sum_3_out = result_def(TENSOR)
    num_accumulates_out = result_def(TENSOR)
    old_num_accumulates_out = result_def(TENSOR)
    num_updates_out = result_def(TENSOR)
    average_window = number(0.0)
    max_average_window = integer()
    min_average_window = integer(10000)

    @staticmethod
    def infer(
        param: Tensor,
        sum_1: Tensor,
        sum_2: Tensor,
        sum_3: Tensor,
        num_accumulates: Tensor,
        old_num_accumulates: Tensor,
        num_updates: Tensor,
    ) -> tuple[Tensor, ...]:
        updated_types(param, sum_1)
        return sum_1, sum_2, sum_3, num_accumulates, old_num_accumulates, num_updates
