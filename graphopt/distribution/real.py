"""Distributions over numbers (paddle.distribution)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import Distribution, parameters, without_gradient
from graphopt.tensor.elementary import atan, expm1, log1p, sign, tan
from graphopt.tensor.logic import less_than
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import abs, exp, log, pow, sqrt, square
from graphopt.tensor.random import gaussian, uniform


class _Located(Distribution):
    """A distribution with a location and a scale, both Variables of one shape."""

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self.loc, self.scale = parameters(type(self).__name__, loc=loc, scale=scale)
        self.dtype = self.loc.dtype
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return sqrt(self.variance)

    def _steps(self, value: Any) -> Any:
        """Compute the distance of a value from `loc`, in units of `scale`."""
        return (self._like(self.loc, value) - self.loc) / self.scale


class Normal(_Located):
    """The normal distribution (paddle.distribution.Normal)."""

    @property
    def variance(self) -> Any:
        return square(self.scale)

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        return without_gradient(self.rsample(shape, seed))

    def rsample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        sizes = self._sizes(shape, self.loc, self.scale)
        return self.loc + gaussian(sizes, seed=seed, dtype=self.dtype) * self.scale

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + log(self.scale)

    def log_prob(self, value: Any) -> Any:
        return -0.5 * square(self._steps(value)) - log(self.scale) - 0.5 * math.log(2 * math.pi)

    def probs(self, value: Any) -> Any:
        """Compute the density of a value."""
        return self.prob(value)

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        ratio = square(self.scale / one.scale)
        away = square((self.loc - one.loc) / one.scale)
        return 0.5 * (ratio + away - 1.0 - log(ratio))


class Uniform(Distribution):
    """All numbers between `low` and `high` alike (paddle.distribution.Uniform)."""

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self.low, self.high = parameters("Uniform", low=low, high=high)
        self.dtype = self.low.dtype
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Any:
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Any:
        return square(self.high - self.low) / 12.0

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        return without_gradient(self.rsample(shape, seed))

    def rsample(self, shape: Sequence[int] = (), seed: int = 0) -> Any:
        sizes = self._sizes(shape, self.low, self.high)
        drawn = uniform(sizes, self.dtype, 0.0, 1.0, seed)
        return self.low + drawn * (self.high - self.low)

    def entropy(self) -> Any:
        return log(self.high - self.low)

    def _inside(self, value: Any) -> Any:
        found = self._like(self.low, value)
        low, high = less_than(self.low, found), less_than(found, self.high)
        return cast(low, self.dtype) * cast(high, self.dtype)

    def log_prob(self, value: Any) -> Any:
        return log(self._inside(value)) - log(self.high - self.low)

    def probs(self, value: Any) -> Any:
        """Compute the density of a value."""
        return self._inside(value) / (self.high - self.low)

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        return log((one.high - one.low) / (self.high - self.low))


class Laplace(_Located):
    """Densities that fall with the distance from the place (paddle.distribution.Laplace)."""

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale)

    @property
    def variance(self) -> Any:
        return 2.0 * square(self.scale)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.loc, self.scale)
        near = 1.0 - float(np.finfo(self.dtype.numpy).eps)
        drawn: Any = uniform(sizes, self.dtype, -near, near)
        return self.loc - self.scale * sign(drawn) * log1p(-abs(drawn))

    def entropy(self) -> Any:
        return 1.0 + log(2.0 * self.scale)

    def log_prob(self, value: Any) -> Any:
        return -log(2.0 * self.scale) - abs(self._steps(value))

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        steps = self._steps(value)
        return 0.5 - 0.5 * sign(steps) * expm1(-abs(steps))

    def icdf(self, value: Any) -> Any:
        """Invert `cdf`: compute the quantile of a probability."""
        away: Any = self._like(self.loc, value) - 0.5
        return self.loc - self.scale * sign(away) * log1p(-2.0 * abs(away))

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        away = abs(self.loc - one.loc)
        part = (self.scale * exp(-away / self.scale) + away) / one.scale
        return part + log(one.scale / self.scale) - 1.0


class Cauchy(_Located):
    """The ratio of two normal numbers, which has no mean (paddle.distribution.Cauchy).

    `mean`, `variance` and `stddev` raise ValueError.
    """

    @property
    def mean(self) -> Any:
        raise ValueError("Cauchy distribution has no mean.")

    @property
    def variance(self) -> Any:
        raise ValueError("Cauchy distribution has no variance.")

    def sample(self, shape: Sequence[int] = (), name: str | None = None) -> Any:
        return super().sample(shape)

    def rsample(self, shape: Sequence[int] = (), name: str | None = None) -> Any:
        drawn: Any = uniform(self._sizes(shape, self.loc, self.scale), self.dtype, 0.0, 1.0)
        return self.loc + self.scale * tan(math.pi * (drawn - 0.5))

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + log(self.scale)

    def log_prob(self, value: Any) -> Any:
        return -log1p(square(self._steps(value))) - (math.log(math.pi) + log(self.scale))

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        return atan(self._steps(value)) / math.pi + 0.5

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        both = square(self.scale + one.scale) + square(self.loc - one.loc)
        return log(both) - log(4.0 * self.scale * one.scale)


class Gumbel(_Located):
    """The largest of many numbers (paddle.distribution.Gumbel)."""

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * float(np.euler_gamma)

    @property
    def variance(self) -> Any:
        return pow(self.scale, 2) * (math.pi**2 / 6)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        info = np.finfo(np.float32)
        sizes = self._sizes(shape, self.loc, self.scale)
        drawn = uniform(sizes, self.dtype, float(info.tiny), float(1 - info.eps))
        return self.loc - self.scale * log(-log(drawn))

    def entropy(self) -> Any:
        return log(self.scale) + (1.0 + float(np.euler_gamma))

    def log_prob(self, value: Any) -> Any:
        steps = -self._steps(value)
        return steps - exp(steps) - log(self.scale)

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        return exp(-exp(-self._steps(value)))
