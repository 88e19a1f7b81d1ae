"""Base of initializers: an operator in the startup program, and the fan-in of a weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Block, Operator, Variable, default_startup_program


class Initializer(ABC):
    """Base of the initializers (Paddle page: paddle.nn.initializer.Initializer).

    Calling one with a parameter of the startup program appends the operator that initializes it.
    """

    def __call__(self, param: Variable, block: Block | None = None) -> Operator:
        """Append the operator that writes the initial value of `param`, and return it."""
        target = block or default_startup_program().global_block()
        return self.fill(arguments.variable(param, "param", type(self).__name__), target)

    @abstractmethod
    def fill(self, param: Variable, block: Block) -> Operator:
        """Append the operator."""


def append_fill(block: Block, type: str, param: Variable, **attrs: Any) -> Operator:
    """Append an operator without inputs that writes `param`."""
    shape = list(param.shape)
    attributes = {"shape": shape, "dtype": param.dtype.code, **attrs}
    return block.append_op(type, outputs={"Out": param}, attrs=attributes)


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Compute fan-in and fan-out of a weight: matrices are [in, out], filters [out, in, …]."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def choose_fan(fan: float | None, own: int) -> float:
    """Choose an explicit fan, which may be 0, over the weight's own."""
    return own if fan is None else fan


_GAINS = {
    "sigmoid": 1.0,
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv1d_transpose": 1.0,
    "conv2d_transpose": 1.0,
    "conv3d_transpose": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain after a nonlinearity (paddle.nn.initializer.calculate_gain).

    `param` is the negative slope of leaky_relu (0.01). Raises ValueError for an unknown name.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    raise ValueError(
        f"nonlinearity function {nonlinearity} is not supported now; use leaky_relu, "
        + ", ".join(_GAINS)
    )
