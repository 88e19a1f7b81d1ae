"""Initializers scaled by the number of inputs and outputs: Glorot & Bengio 2010, He et al. 2015."""

from __future__ import annotations

import math

from graphopt.frontend.initializers.base import Initializer, calculate_gain, choose_fan, fans
from graphopt.frontend.initializers.fill import Normal, Uniform
from graphopt.ir.program import Block, Operator, Variable


class Xavier(Initializer):
    """Variance 2 / (fan_in + fan_out); the fans are computed from the weight's shape by default."""

    def __init__(
        self,
        fan_in: float | None = None,
        fan_out: float | None = None,
        name: str | None = None,
        gain: float = 1.0,
    ) -> None:
        self._fan_in, self._fan_out, self._gain = fan_in, fan_out, gain

    def std(self, param: Variable) -> float:
        """Compute the standard deviation for a parameter."""
        fan_in, fan_out = fans(param.shape)
        total = choose_fan(self._fan_in, fan_in) + choose_fan(self._fan_out, fan_out)
        return self._gain * math.sqrt(2.0 / total)


class XavierUniform(Xavier):
    """Uniform on ± gain * sqrt(6 / (fan_in + fan_out)) (paddle.nn.initializer.XavierUniform)."""

    def fill(self, param: Variable, block: Block) -> Operator:
        limit = math.sqrt(3.0) * self.std(param)
        return Uniform(-limit, limit).fill(param, block)


class XavierNormal(Xavier):
    """Normal with std gain * sqrt(2 / (fan_in + fan_out)) (paddle.nn.initializer.XavierNormal)."""

    def fill(self, param: Variable, block: Block) -> Operator:
        return Normal(0.0, self.std(param)).fill(param, block)


class Kaiming(Initializer):
    """Variance gain² / fan, for layers followed by `nonlinearity`.

    The fan is the number of inputs, or of outputs with the mode 'fan_out'. Raises ValueError for
    another mode.
    """

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
        mode: str = "fan_in",
    ) -> None:
        if mode not in ("fan_in", "fan_out"):
            raise ValueError(
                f"{type(self).__name__}(): mode must be 'fan_in' or 'fan_out', found {mode!r}"
            )
        self._fan_in, self._mode = fan_in, mode
        self._gain = calculate_gain(nonlinearity, negative_slope)

    def std(self, param: Variable) -> float:
        """Compute the standard deviation for a parameter."""
        fan_in, fan_out = fans(param.shape)
        fan = fan_out if self._mode == "fan_out" else choose_fan(self._fan_in, fan_in)
        return self._gain / math.sqrt(fan)


class KaimingUniform(Kaiming):
    """Uniform on ± gain * sqrt(3 / fan_in) (paddle.nn.initializer.KaimingUniform)."""

    def fill(self, param: Variable, block: Block) -> Operator:
        limit = math.sqrt(3.0) * self.std(param)
        return Uniform(-limit, limit).fill(param, block)


class KaimingNormal(Kaiming):
    """Normal with std gain / sqrt(fan_in) (paddle.nn.initializer.KaimingNormal)."""

    def fill(self, param: Variable, block: Block) -> Operator:
        return Normal(0.0, self.std(param)).fill(param, block)
