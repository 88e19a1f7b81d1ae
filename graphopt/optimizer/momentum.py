"""Gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from graphopt.ir.program import Block, Operator, Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer


class Momentum(Optimizer):
    """v = mu * v + g; p -= lr * v, or p -= lr * (g + mu * v) with Nesterov's form.

    The state is `<parameter>_velocity_0`. `rescale_grad` has no effect in static programs, as in
    Paddle. Paddle page: paddle.optimizer.Momentum.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        momentum: float = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        if momentum is None:
            raise ValueError("Momentum(): momentum is not set")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum = float(momentum)
        self._use_nesterov = bool(use_nesterov)

    def create_accumulators(self, parameter: Parameter) -> None:
        self.accumulator("velocity", parameter)

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        velocity = self.accumulator("velocity", parameter)
        slots = {"Param": parameter, "Grad": grad, "Velocity": velocity, "LearningRate": rate}
        outs = {"ParamOut": parameter, "VelocityOut": velocity}
        return self.append(
            block, "momentum", slots, outs, mu=self._momentum, use_nesterov=self._use_nesterov
        )
