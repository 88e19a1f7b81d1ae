"""Parameter updates whose step size follows from the gradients so far, element by element."""

from __future__ import annotations

from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.ops.update.basic import Update, update


@update("moment")
class Adagrad(Update):
    """m += g², then param - lr * g / (sqrt(m) + epsilon). Paddle: adagrad."""

    name = "pd.adagrad"
    epsilon = number(1e-6)


@update("moment")
class DecayedAdagrad(Update):
    """As adagrad, with a decaying mean of the squares. Paddle: decayed_adagrad."""

    name = "pd.decayed_adagrad"
    decay = number(0.95)
    epsilon = number(1e-6)


@update("avg_squared_grad", "avg_squared_update")
class Adadelta(Update):
    """Steps in units of the earlier steps' root mean square (Zeiler, 2012). Paddle: adadelta."""

    name = "pd.adadelta"
    rho = number(0.95)
    epsilon = number(1e-6)


@update("moment", "inf_norm", reads=("beta1_pow",))
class Adamax(Update):
    """Adam with the largest gradient for a second moment. Paddle: adamax.

    The power of beta1 is read here and advanced by an operator of its own, as in Paddle.
    """

    name = "pd.adamax"
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)


@update("moment", "mean_square", "mean_grad")
class Rmsprop(Update):
    """Gradients over their root mean square, or their deviation if centered. Paddle: rmsprop."""

    name = "pd.rmsprop"
    epsilon = number(1e-10)
    decay = number(0.9)
    momentum = number(0.0)
    centered = flag(False)


@update("moment1", "moment2", "beta1_pow", "beta2_pow")
class Lamb(Update):
    """Adam's step, scaled to the length of the parameter (You and others, 2020). Paddle: lamb.

    With `in_parts` each replica has a part of the tensors, but lengths are of the whole tensors.
    """

    name = "pd.lamb"
    weight_decay = number(0.01)
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-6)
    always_adapt = flag(False)
    in_parts = flag(False)


@update("momentum_decay_pow", "beta2_pow", "mu_product", "moment1", "moment2")
class Nadam(Update):
    """Adam with Nesterov's momentum (Dozat, 2016). Paddle: nadam.

    The three powers and products are state in the shape of the parameter, as Paddle keeps them.
    """

    name = "pd.nadam"
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)
    momentum_decay = number(0.004)


@update("beta1_pow", "beta2_pow", "rho", "moment1", "moment2")
class Radam(Update):
    """Adam whose adaptive part waits for its variance (Liu and others, 2020). Paddle: radam."""

    name = "pd.radam"
    beta1 = number(0.9)
    beta2 = number(0.999)
    epsilon = number(1e-8)


@update("squared_accumulator", "linear_accumulator")
class Ftrl(Update):
    """Follow the regularized leader (McMahan and others, 2013). Paddle: ftrl."""

    name = "pd.ftrl"
    l1 = number(0.0)
    l2 = number(0.0)
    lr_power = number(-0.5)
