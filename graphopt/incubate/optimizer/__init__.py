"""Optimizers that wrap others (paddle.incubate.optimizer)."""

from graphopt.frontend.calls import publish
from graphopt.optimizer.lookahead import LookAhead as LookAhead
from graphopt.optimizer.model_average import ModelAverage as ModelAverage
from graphopt.optimizer.momentum import LarsMomentum as LarsMomentumOptimizer

__all__ = ["LarsMomentumOptimizer", "LookAhead", "ModelAverage"]

publish(globals(), __name__)
