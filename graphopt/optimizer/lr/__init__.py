"""Learning-rate schedules (paddle.optimizer.lr)."""

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.optimizer.lr.adaptive import LinearWarmup as LinearWarmup
from graphopt.optimizer.lr.adaptive import ReduceOnPlateau as ReduceOnPlateau
from graphopt.optimizer.lr.base import LRScheduler as LRScheduler
from graphopt.optimizer.lr.cosine import CosineAnnealingDecay as CosineAnnealingDecay
from graphopt.optimizer.lr.cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from graphopt.optimizer.lr.cosine import CyclicLR as CyclicLR
from graphopt.optimizer.lr.cosine import OneCycleLR as OneCycleLR
from graphopt.optimizer.lr.counter import autoincreased_step_counter as autoincreased_step_counter
from graphopt.optimizer.lr.decay import ExponentialDecay as ExponentialDecay
from graphopt.optimizer.lr.decay import InverseTimeDecay as InverseTimeDecay
from graphopt.optimizer.lr.decay import LambdaDecay as LambdaDecay
from graphopt.optimizer.lr.decay import LinearLR as LinearLR
from graphopt.optimizer.lr.decay import MultiplicativeDecay as MultiplicativeDecay
from graphopt.optimizer.lr.decay import MultiStepDecay as MultiStepDecay
from graphopt.optimizer.lr.decay import NaturalExpDecay as NaturalExpDecay
from graphopt.optimizer.lr.decay import NoamDecay as NoamDecay
from graphopt.optimizer.lr.decay import PiecewiseDecay as PiecewiseDecay
from graphopt.optimizer.lr.decay import PolynomialDecay as PolynomialDecay
from graphopt.optimizer.lr.decay import StepDecay as StepDecay

# fluid's schedules, which a program computes
_IN_PROGRAMS = (
    *("cosine_decay", "exponential_decay", "inverse_time_decay", "linear_lr_warmup"),
    *("natural_exp_decay", "noam_decay", "piecewise_decay", "polynomial_decay"),
)
lazy.attach(globals(), {name: ("graphopt.fluid.layers", name) for name in _IN_PROGRAMS})
publish(globals(), __name__)
