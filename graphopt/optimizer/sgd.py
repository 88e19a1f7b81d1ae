"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from graphopt.ir.program import Block, Operator, Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer


class SGD(Optimizer):
    """p -= lr * g (Paddle page: paddle.optimizer.SGD).

    `multi_precision` has no effect on float32 and float64 parameters.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        slots = {"Param": parameter, "Grad": grad, "LearningRate": rate}
        return self.append(block, "sgd", slots, {"ParamOut": parameter})
