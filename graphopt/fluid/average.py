"""The weighted mean of numbers of many batches (paddle.fluid.average)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.metrics import check_number, check_number_or_array
from graphopt.frontend.calls import publish


class WeightedAverage:
    """The weighted mean of what was added (Paddle page: fluid.average.WeightedAverage)."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Add a number or an array with its weight."""
        check_number_or_array(value, "value")
        check_number(weight, "weight")
        if self.numerator is None:
            self.numerator, self.denominator = value * weight, weight
        else:
            self.numerator += value * weight
            self.denominator += weight

    def eval(self) -> Any:
        """The mean so far; ValueError when nothing was added."""
        if self.numerator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self.numerator / self.denominator


publish(globals(), __name__)
