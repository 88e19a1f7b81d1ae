"""Initializers whose values do not depend on the layer: constants, arrays, plain distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend.constants import value_attrs
from graphopt.frontend.initializers.base import Initializer, append_fill
from graphopt.ir.program import Block, Operator, Variable


class Constant(Initializer):
    """One value everywhere (Paddle page: paddle.nn.initializer.Constant)."""

    def __init__(self, value: float = 0.0) -> None:
        self._value = float(value)

    def fill(self, param: Variable, block: Block) -> Operator:
        return append_fill(block, "fill_constant", param, value=self._value)


class Assign(Initializer):
    """The values of a NumPy array or list (Paddle page: paddle.nn.initializer.Assign).

    Raises ValueError when the value does not have the parameter's number of elements.
    """

    def __init__(self, value: Any, name: str | None = None) -> None:
        if isinstance(value, Variable):
            raise UnsupportedError(
                "Assign() takes a NumPy array or a list; a Variable has no value before a run"
            )
        self._value = np.asarray(value)

    def fill(self, param: Variable, block: Block) -> Operator:
        value = self._value.astype(param.dtype.numpy)
        if value.shape != param.shape:
            raise ValueError(
                f"Assign(): the value has shape {list(value.shape)}, but parameter "
                f"'{param.name}' has shape {list(param.shape)}"
            )
        return block.append_op("assign_value", outputs={"Out": param}, attrs=value_attrs(value))


class Uniform(Initializer):
    """Uniform on [low, high) (Paddle page: paddle.nn.initializer.Uniform)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        self._low, self._high = float(low), float(high)

    def fill(self, param: Variable, block: Block) -> Operator:
        seed = block.program.random_seed
        return append_fill(block, "uniform_random", param, min=self._low, max=self._high, seed=seed)


class Normal(Initializer):
    """Normal with a mean and a standard deviation (Paddle page: paddle.nn.initializer.Normal)."""

    operator = "gaussian_random"

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self._mean, self._std = float(mean), float(std)

    def fill(self, param: Variable, block: Block) -> Operator:
        seed = block.program.random_seed
        numbers = {"mean": self._mean, "std": self._std, **self.options()}
        return append_fill(block, self.operator, param, seed=seed, **numbers)

    def options(self) -> dict[str, float]:
        """Return further attributes of the operator."""
        return {}


class TruncatedNormal(Normal):
    """Normal without the numbers outside of [a, b] (paddle.nn.initializer.TruncatedNormal).

    Without bounds it is cut at two standard deviations from the mean, as in Paddle 2. Paddle 3's
    default bounds are -2 and 2 whatever the mean and deviation; pass them by keyword.
    """

    operator = "truncated_gaussian_random"

    def __init__(
        self,
        mean: float = 0.0,
        std: float = 1.0,
        name: str | None = None,
        *,
        a: float | None = None,
        b: float | None = None,
    ) -> None:
        if not isinstance(name, str | None):
            raise TypeError(
                f"TruncatedNormal(): 'name' must be a str, found {type(name).__name__}; give the "
                "bounds by keyword: a=..., b=..."
            )
        super().__init__(mean, std, name)
        bounds = {"a": a, "b": b}
        self._bounds = {key: float(value) for key, value in bounds.items() if value is not None}
        if a is not None and b is not None and a >= b:
            raise ValueError(f"TruncatedNormal(): 'a' must be below 'b', found {a} and {b}")

    def options(self) -> dict[str, float]:
        return self._bounds
