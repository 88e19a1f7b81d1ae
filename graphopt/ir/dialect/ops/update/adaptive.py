"""Parameter updates whose step size follows from the gradients so far, element by element."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.ops.update.basic import Update, updated
from graphopt.ir.dialect.types import Tensor


@irdl_op_definition
class Adagrad(Update):
    """m += g², then param - lr * g / (sqrt(m) + epsilon). Paddle: adagrad."""

    name = "pd.adagrad"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment = operand_def(Tensor)
    param_out = result_def(Tensor)
    moment_out = result_def(Tensor)
    epsilon = number(1e-6)

    @staticmethod
    def infer(param: Tensor, grad: Tensor, moment: Tensor) -> tuple[Tensor, ...]:
        return updated(param, grad, moment)


@irdl_op_definition
class DecayedAdagrad(Update):
    """As adagrad, with a decaying mean of the squares. Paddle: decayed_adagrad."""

    name = "pd.decayed_adagrad"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment = operand_def(Tensor)
    param_out = result_def(Tensor)
    moment_out = result_def(Tensor)
    decay = number(0.95)
    epsilon = number(1e-6)

    @staticmethod
    def infer(param: Tensor, grad: Tensor, moment: Tensor) -> tuple[Tensor, ...]:
        return updated(param, grad, moment)


@irdl_op_definition
class Adadelta(Update):
    """Steps in units of the earlier steps' root mean square (Zeiler, 2012). Paddle: adadelta."""

    name = "pd.adadelta"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    avg_squared_grad = operand_def(Tensor)
    avg_squared_update = operand_def(Tensor)
    param_out = result_def(Tensor)
    avg_squared_grad_out = result_def(Tensor)
    avg_squared_update_out = result_def(Tensor)
    rho = number(0.95)
    epsilon = number(1e-6)

    @staticmethod
    def infer(
        param: Tensor, grad: Tensor, avg_squared_grad: Tensor, avg_squared_update: Tensor
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, avg_squared_grad, avg_squared_update)


@irdl_op_definition
class Adamax(Update):
    """Adam with the largest gradient for a second moment. Paddle: adamax.

    The power of beta1 is read here and advanced by an operator of its own, as in Paddle.
    """

    name = "pd.adamax"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment = operand_def(Tensor)
    inf_norm = operand_def(Tensor)
    beta1_pow = operand_def(Tensor)
    param_out = result_def(Tensor)
    moment_out = result_def(Tensor)
    inf_norm_out = result_def(Tensor)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)

    @staticmethod
    def infer(param: Tensor, grad: Tensor, moment: Tensor, inf_norm: Tensor) -> tuple[Tensor, ...]:
        return updated(param, grad, moment, inf_norm)


@irdl_op_definition
class Rmsprop(Update):
    """Gradients over their root mean square, or their deviation if centered. Paddle: rmsprop."""

    name = "pd.rmsprop"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    moment = operand_def(Tensor)
    mean_square = operand_def(Tensor)
    mean_grad = operand_def(Tensor)
    param_out = result_def(Tensor)
    moment_out = result_def(Tensor)
    mean_square_out = result_def(Tensor)
    mean_grad_out = result_def(Tensor)
    epsilon = number(1e-10)
    decay = number(0.9)
    momentum = number(0.0)
    centered = flag(False)

    @staticmethod
    def infer(
        param: Tensor, grad: Tensor, moment: Tensor, mean_square: Tensor, mean_grad: Tensor
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, moment, mean_square, mean_grad)


@irdl_op_definition
class Lamb(Update):
    """Adam's step, scaled to the length of the parameter (You and others, 2020). Paddle: lamb.

    With `in_parts` each replica has a part of the tensors; lengths are those of the whole.
    """

    name = "pd.lamb"
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
    weight_decay = number(0.01)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-6)
    always_adapt = flag(False)
    in_parts = flag(False)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        moment1: Tensor,
        moment2: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, moment1, moment2, beta1_pow, beta2_pow)


@irdl_op_definition
class Nadam(Update):
    """Adam with Nesterov's momentum (Dozat, 2016). Paddle: nadam.

    The three powers and products are state in the shape of the parameter, as Paddle keeps them.
    """

    name = "pd.nadam"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    momentum_decay_pow = operand_def(Tensor)
    beta2_pow = operand_def(Tensor)
    mu_product = operand_def(Tensor)
    moment1 = operand_def(Tensor)
    moment2 = operand_def(Tensor)
    param_out = result_def(Tensor)
    momentum_decay_pow_out = result_def(Tensor)
    beta2_pow_out = result_def(Tensor)
    mu_product_out = result_def(Tensor)
    moment1_out = result_def(Tensor)
    moment2_out = result_def(Tensor)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    momentum_decay = number(0.004)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        momentum_decay_pow: Tensor,
        beta2_pow: Tensor,
        mu_product: Tensor,
        moment1: Tensor,
        moment2: Tensor,
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2)


@irdl_op_definition
class Radam(Update):
    """Adam whose adaptive part waits for its variance (Liu and others, 2020). Paddle: radam."""

    name = "pd.radam"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    beta1_pow = operand_def(Tensor)
    beta2_pow = operand_def(Tensor)
    rho = operand_def(Tensor)
    moment1 = operand_def(Tensor)
    moment2 = operand_def(Tensor)
    param_out = result_def(Tensor)
    beta1_pow_out = result_def(Tensor)
    beta2_pow_out = result_def(Tensor)
    rho_out = result_def(Tensor)
    moment1_out = result_def(Tensor)
    moment2_out = result_def(Tensor)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)

    @staticmethod
    def infer(
        param: Tensor,
        grad: Tensor,
        beta1_pow: Tensor,
        beta2_pow: Tensor,
        rho: Tensor,
        moment1: Tensor,
        moment2: Tensor,
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, beta1_pow, beta2_pow, rho, moment1, moment2)


@irdl_op_definition
class Ftrl(Update):
    """Follow the regularised leader (McMahan and others, 2013). Paddle: ftrl."""

    name = "pd.ftrl"
    param = operand_def(Tensor)
    grad = operand_def(Tensor)
    learning_rate = operand_def(Tensor)
    squared_accumulator = operand_def(Tensor)
    linear_accumulator = operand_def(Tensor)
    param_out = result_def(Tensor)
    squared_accumulator_out = result_def(Tensor)
    linear_accumulator_out = result_def(Tensor)
    l1 = number(0.0)
    l2 = number(0.0)
    lr_power = number(-0.5)

    @staticmethod
    def infer(
        param: Tensor, grad: Tensor, squared_accumulator: Tensor, linear_accumulator: Tensor
    ) -> tuple[Tensor, ...]:
        return updated(param, grad, squared_accumulator, linear_accumulator)
