"""The weighted mean of numbers over batches (paddle.fluid.average)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.metrics import check_number, check_number_or_array
from graphopt.frontend.calls import publish


class WeightedAverage:
    """The weighted mean of the added values (Paddle page: fluid.average.WeightedAverage)."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
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
        """Compute the mean so far; raise ValueError if nothing was added."""
        if self.numerator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return self.numerator / self.denominator


publish(globals(), __name__)
