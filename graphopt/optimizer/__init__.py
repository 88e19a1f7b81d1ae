"""Optimizers and learning-rate schedules (paddle.optimizer)."""

from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain_members as _explain_members
from graphopt.optimizer import lr as lr
from graphopt.optimizer.adagrad import Adadelta as Adadelta
from graphopt.optimizer.adagrad import Adagrad as Adagrad
from graphopt.optimizer.adagrad import DecayedAdagrad as DecayedAdagrad
from graphopt.optimizer.adagrad import RMSProp as RMSProp
from graphopt.optimizer.adam import Adam as Adam
from graphopt.optimizer.adam import AdamW as AdamW
from graphopt.optimizer.moments import Adamax as Adamax
from graphopt.optimizer.moments import Lamb as Lamb
from graphopt.optimizer.moments import NAdam as NAdam
from graphopt.optimizer.moments import RAdam as RAdam
from graphopt.optimizer.momentum import LarsMomentum as LarsMomentum
from graphopt.optimizer.momentum import Momentum as Momentum
from graphopt.optimizer.optimizer import Optimizer as Optimizer
from graphopt.optimizer.other import LBFGS as LBFGS
from graphopt.optimizer.other import Dpsgd as Dpsgd
from graphopt.optimizer.other import Ftrl as Ftrl
from graphopt.optimizer.other import Rprop as Rprop
from graphopt.optimizer.sgd import ASGD as ASGD
from graphopt.optimizer.sgd import SGD as SGD

_explain_members(Optimizer, "paddle.optimizer.Optimizer")
publish(globals(), __name__)
