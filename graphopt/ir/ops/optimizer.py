"""Parameter updates: values in, updated values out (the parser ties them to the same name)."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import flag, number, string
from graphopt.ir.ops.base import PureOp
from graphopt.ir.types import Tensor, compatible, show


def check_gradient(param: Tensor, grad: Tensor) -> None:
    """ProgramError unless a gradient has its parameter's type."""
    if not compatible(param, grad):
        raise ProgramError(f"the gradient {show(grad)} does not fit {show(param)}")


@irdl_op_definition
class Sgd(PureOp):
    """param - lr * grad. Paddle: sgd."""

    name = "pd.sgd"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    param_out = result_def(Tensor)

    @staticmethod
    def infer(param: Tensor, grad: Tensor) -> Tensor:
        check_gradient(param, grad)
        return param


@irdl_op_definition
class Momentum(PureOp):
    """v = mu * v + grad, then param - lr * v (or the Nesterov form). Paddle: momentum."""

    name = "pd.momentum"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    velocity = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    param_out = result_def(Tensor)
    velocity_out = result_def(Tensor)
    mu = number()
    use_nesterov = flag(False)
    regularization_method = string("")
    regularization_coeff = number(0.0)

    @staticmethod
    def infer(param: Tensor, grad: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        check_gradient(param, grad)
        return param, velocity


class AdamBase(PureOp, ABC):
    """Adaptive moments (Kingma and Ba, 2015); the powers of the betas are state as in Paddle."""

    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment1 = operand_def(Tensor)
    moment2 = operand_def(Tensor)
    beta1_pow = operand_def(Tensor)
    beta2_pow = operand_def(Tensor)
    param_out = result_def(Tensor)
    moment1_out = result_def(Tensor)
    moment2_out = result_def(Tensor)
    beta1_pow_out = result_def(Tensor)
    beta2_pow_out = result_def(Tensor)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    lazy_mode = flag(False)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
    ) -> tuple[Tensor, ...]:
        check_gradient(param, grad)
        return (param, moment1, moment2, beta1_pow, beta2_pow)


@irdl_op_definition
class Adam(AdamBase):
    """Adam. Paddle: adam."""

    name = "pd.adam"


@irdl_op_definition
class Adamw(AdamBase):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019). Paddle: adamw."""

    name = "pd.adamw"
    coeff = number(0.01)
    lr_ratio = number(1.0)
    with_decay = flag(True)
