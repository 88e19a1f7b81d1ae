"""Distributions over waiting times (paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import Distribution, ExponentialFamily, parameters
from graphopt.tensor.elementary import digamma, lgamma, log1p, reciprocal
from graphopt.tensor.manipulation import expand
from graphopt.tensor.math import exp, log, square
from graphopt.tensor.random import standard_gamma, uniform


class Exponential(ExponentialFamily):
    """The time until an event that comes `rate` times per unit (paddle.distribution.Exponential).

    `rate` is a number, a list, an array or a Variable; the batch has its shape.
    """

    def __init__(self, rate: Any) -> None:
        (self.rate,) = parameters("Exponential", rate=rate)
        self.dtype = self.rate.dtype
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Any:
        return reciprocal(self.rate)

    @property
    def variance(self) -> Any:
        return reciprocal(square(self.rate))

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        least = float(np.finfo(np.float32).tiny)
        drawn: Any = uniform(self._sizes(shape, self.rate), self.dtype, least, 1.0)
        return -log(drawn) / self.rate

    def prob(self, value: Any) -> Any:
        return self.rate * exp(-self.rate * self._like(self.rate, value))

    def log_prob(self, value: Any) -> Any:
        return log(self.rate) - self.rate * self._like(self.rate, value)

    def entropy(self) -> Any:
        return 1.0 - log(self.rate)

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        return 1.0 - exp(-self.rate * self._like(self.rate, value))

    def icdf(self, value: Any) -> Any:
        """Invert `cdf`: compute the quantile of a probability."""
        return -log1p(-self._like(self.rate, value)) / self.rate

    def kl_divergence(self, other: Distribution) -> Any:
        ratio: Any = self._other(other).rate / self.rate
        return ratio - log(ratio) - 1.0

    @property
    def _natural_parameters(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural: Any) -> Any:
        return -log(-natural[0])


class Gamma(ExponentialFamily):
    """The time until event number `concentration` (paddle.distribution.Gamma).

    `concentration` and `rate` are numbers, lists, arrays or Variables; the batch has the shape of
    both together. Gradients of samples reach `rate` alone, as in Paddle.
    """

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = parameters(
            type(self).__name__, concentration=concentration, rate=rate
        )
        self.dtype = self.concentration.dtype
        super().__init__(self.concentration.shape)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        return self.concentration / square(self.rate)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.concentration, self.rate)
        count, rate = self.concentration, self.rate
        if len(shape):
            count, rate = expand(count, sizes), expand(rate, sizes)
        drawn: Any = standard_gamma(count)
        return drawn / rate

    def log_prob(self, value: Any) -> Any:
        count, rate = self.concentration, self.rate
        found = self._like(count, value)
        return count * log(rate) + (count - 1.0) * log(found) - rate * found - lgamma(count)

    def entropy(self) -> Any:
        count = self.concentration
        return count - log(self.rate) + lgamma(count) + (1.0 - count) * digamma(count)

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        p, q = self.concentration, one.concentration
        rates: Any = q * log(self.rate / one.rate) + (one.rate - self.rate) * (p / self.rate)
        return rates + (lgamma(q) - lgamma(p)) + (p - q) * digamma(p)

    @property
    def _natural_parameters(self) -> tuple[Any, ...]:
        return (self.concentration - 1.0, -self.rate)

    def _log_normalizer(self, *natural: Any) -> Any:
        power, slope = natural
        return lgamma(power + 1.0) + (power + 1.0) * log(-reciprocal(slope))
