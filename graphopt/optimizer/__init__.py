"""Optimizers and learning-rate schedules (paddle.optimizer)."""

from graphopt.optimizer import lr as lr
from graphopt.optimizer.adam import Adam as Adam
from graphopt.optimizer.adam import AdamW as AdamW
from graphopt.optimizer.momentum import Momentum as Momentum
from graphopt.optimizer.optimizer import Optimizer as Optimizer
from graphopt.optimizer.sgd import SGD as SGD
