"""Optimizers that wrap others (paddle.incubate.optimizer)."""

from graphopt.frontend.calls import publish
from graphopt.optimizer.lookahead import LookAhead as LookAhead
from graphopt.optimizer.model_average import ModelAverage as ModelAverage
from graphopt.optimizer.momentum import LarsMomentum as LarsMomentumOptimizer
from graphopt.optimizer.recompute import RecomputeOptimizer as RecomputeOptimizer
from graphopt.static.gradient_merge import (
    GradientMergeOptimizer as GradientMergeOptimizer,
)

__all__ = [
    "GradientMergeOptimizer",
    "LarsMomentumOptimizer",
    "LookAhead",
    "ModelAverage",
    "RecomputeOptimizer",
]

publish(globals(), __name__)
