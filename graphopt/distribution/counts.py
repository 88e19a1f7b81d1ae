"""Distributions over numbers of events (paddle.distribution of Paddle 3).

Entropies and divergences are sums over all likely counts. The run computes from the parameters how
many these are.
"""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import Distribution, parameters, without_gradient
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full_like
from graphopt.tensor.elementary import lgamma
from graphopt.tensor.logic import equal, greater_equal
from graphopt.tensor.manipulation import cast, expand, reshape
from graphopt.tensor.math import clip, exp, log, max, maximum, sqrt, sum
from graphopt.tensor.random import binomial, poisson
from graphopt.tensor.ranges import arange
from graphopt.tensor.rearrange import broadcast_tensors
from graphopt.tensor.search import where
from graphopt.tensor.stat import nan_to_num

# larger counts, by standard deviations above the mean, are not expected
_FAR = 30.0


def _counts(end: Any, dtype: Any, rank: int) -> Any:
    """Build the counts below `end`, followed by `rank` axes of size 1."""
    return reshape(cast(arange(0, end, 1, "int32"), dtype), [-1, *[1] * rank])


def _logarithm(found: Any) -> Any:
    """Replace -inf by minus the rounding error, and nan by 0, in logarithms, as Paddle does."""
    return nan_to_num(found, neginf=-float(np.finfo(found.dtype.numpy).eps))


class Poisson(Distribution):
    """The number of events of a rate in a unit of time (paddle.distribution.Poisson).

    `rate` is a number, which makes a batch of shape [1], a list, an array or a Variable.
    """

    def __init__(self, rate: Any) -> None:
        (self.rate,) = parameters("Poisson", rate=[rate] if _is_number(rate) else rate)
        self.dtype = self.rate.dtype
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.rate)
        return without_gradient(poisson(expand(self.rate, sizes) if len(shape) else self.rate))

    def entropy(self) -> Any:
        known = self.log_prob(self._support(self.rate))
        found: Any = -sum(exp(known) * known, 0)
        zero: Any = full_like(self.rate, 0.0)
        return where(equal(self.rate, zero), zero, found)

    def _support(self, rates: Any) -> Any:
        """Build the counts that are likely at the largest of the rates."""
        largest = max(rates)
        one = full_like(largest, 1.0)
        wide = where(greater_equal(largest, one), sqrt(largest), one)
        end = max(cast(rates + _FAR * wide, "int32"))
        return _counts(end, self.dtype, len(self.batch_shape))

    def log_prob(self, value: Any) -> Any:
        found = self._like(self.rate, value)
        return _logarithm(found * log(self.rate) - self.rate - lgamma(found + 1.0))

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        if self.batch_shape != one.batch_shape:
            raise ValueError(
                f"kl_divergence(): both should be batches of one shape, found {self.batch_shape} "
                f"and {one.batch_shape}"
            )
        largest = max(self._support(max(maximum(self.rate, one.rate))))
        # as in Paddle, without the last count
        support = _counts(cast(largest, "int32"), self.dtype, len(self.batch_shape))
        mine, theirs = self.log_prob(support), one.log_prob(support)
        return sum(exp(mine) * (mine - theirs), 0)


class Binomial(Distribution):
    """The number of successes in `total_count` tries (paddle.distribution.Binomial).

    `total_count` is an int or a tensor of integers; `probs`, the chance of a success, is a
    number, a list, an array or a Variable. The batch has the shape of both together.
    """

    def __init__(self, total_count: Any, probs: Any) -> None:
        (chance,) = parameters("Binomial", probs=probs)
        self.dtype = chance.dtype
        if isinstance(total_count, Variable):
            count = cast(total_count, self.dtype)
        else:
            given = np.asarray(total_count, self.dtype.numpy)
            (count,) = parameters("Binomial", total_count=given)
        self.total_count, self.probs = broadcast_tensors([count, chance])
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1.0 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.total_count, self.probs)
        count, chance = self.total_count, self.probs
        if len(shape):
            count, chance = expand(count, sizes), expand(chance, sizes)
        return without_gradient(cast(binomial(cast(count, "int32"), chance), self.dtype))

    def entropy(self) -> Any:
        known = self.log_prob(self._support())
        return -sum(exp(known) * known, 0)

    def _support(self) -> Any:
        end: Any = cast(max(self.total_count), "int32")
        return _counts(end + 1, self.dtype, len(self.batch_shape))

    def log_prob(self, value: Any) -> Any:
        found, total = self._like(self.probs, value), self.total_count
        least = float(np.finfo(self.dtype.numpy).eps)
        chance: Any = clip(self.probs, least, 1.0 - least)
        ways: Any = lgamma(total + 1.0) - lgamma(total - found + 1.0) - lgamma(found + 1.0)
        return _logarithm(ways + found * log(chance) + (total - found) * log(1.0 - chance))

    def kl_divergence(self, other: Distribution) -> Any:
        support = self._support()
        mine, theirs = self.log_prob(support), self._other(other).log_prob(support)
        return sum(exp(mine) * (mine - theirs), 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
