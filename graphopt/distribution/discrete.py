"""Distributions over counts and classes (paddle.distribution)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import (
    Distribution,
    ExponentialFamily,
    parameters,
    without_gradient,
)
from graphopt.frontend import arguments
from graphopt.nn.functional.activation import log_softmax, softmax, softplus
from graphopt.nn.functional.input import one_hot
from graphopt.tensor.attribute import is_integer
from graphopt.tensor.creation import assign, full_like
from graphopt.tensor.elementary import floor, lgamma, log1p
from graphopt.tensor.linalg import transpose
from graphopt.tensor.logic import equal, less_than
from graphopt.tensor.manipulation import cast, expand, gather, reshape
from graphopt.tensor.math import clip, exp, log, pow, sqrt, sum
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.random import bernoulli, multinomial, uniform
from graphopt.tensor.rearrange import broadcast_tensors
from graphopt.tensor.search import where


class Bernoulli(ExponentialFamily):
    """1 with the probability `probs`, else 0 (paddle.distribution.Bernoulli)."""

    def __init__(self, probs: Any, name: str | None = None) -> None:
        (given,) = parameters("Bernoulli", probs=probs)
        self.dtype = given.dtype
        least = float(np.finfo(self.dtype.numpy).eps)
        self.probs: Any = clip(given, least, 1.0 - least)
        self.logits: Any = log(self.probs) - log1p(-self.probs)
        super().__init__(given.shape)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1.0 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.probs)
        return bernoulli(self.probs if len(shape) == 0 else expand(self.probs, sizes))

    def rsample(self, shape: Sequence[int] = (), temperature: float = 1.0) -> Any:
        drawn: Any = uniform(self._sizes(shape, self.probs), self.dtype, 0.0, 1.0)
        return (log(drawn) - log1p(-drawn) + self.logits) / temperature

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        found, probs = broadcast_tensors([self._like(self.probs, value), self.probs])
        zero, one = full_like(probs, 0.0), full_like(probs, 1.0)
        return where(less_than(found, zero), zero, where(less_than(found, one), 1.0 - probs, one))

    def log_prob(self, value: Any) -> Any:
        return self._like(self.probs, value) * self.logits - softplus(self.logits)

    def entropy(self) -> Any:
        return softplus(self.logits) - self.probs * self.logits

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        return (
            self.probs * (self.logits - one.logits) + softplus(one.logits) - softplus(self.logits)
        )


class Geometric(Distribution):
    """The number of failures before a success (paddle.distribution.Geometric)."""

    def __init__(self, probs: Any) -> None:
        (self.probs,) = parameters("Geometric", probs=probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return sqrt(self.variance)

    def pmf(self, k: Any) -> Any:
        """Compute the probability of k failures."""
        return pow(1.0 - self.probs, k) * self.probs

    def log_pmf(self, k: Any) -> Any:
        """Compute the logarithm of the probability of k failures."""
        return log(self.pmf(k))

    def log_prob(self, value: Any) -> Any:
        return self.log_pmf(value)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.probs)
        drawn: Any = uniform(sizes, self.probs.dtype, float(np.finfo(np.float32).tiny), 1.0)
        return floor(log(drawn) / log1p(-self.probs))

    def entropy(self) -> Any:
        rest = 1.0 - self.probs
        return -(rest * log(rest) + self.probs * log(self.probs)) / self.probs

    def cdf(self, k: Any) -> Any:
        """Compute the probability of at most k failures."""
        return 1.0 - pow(1.0 - self.probs, k + 1)

    def kl_divergence(self, other: Distribution) -> Any:
        p, q = self.probs, self._other(other).probs
        return p * log(p / q) + (1.0 - p) * log((1.0 - p) / (1.0 - q))


class Categorical(Distribution):
    """One of several classes, by weights in the last axis (paddle.distribution.Categorical).

    As in Paddle 2.6, samples, entropy and divergence take `logits` for logarithms, while `probs`
    and `log_prob` take them for weights that are divided by their sum.
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        (self.logits,) = parameters("Categorical", logits=logits)
        self.dtype = self.logits.dtype
        super().__init__(self.logits.shape[:-1])

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = arguments.shape(shape, "Categorical.sample") if len(shape) else []
        rows = self.logits.shape[:-1]
        chances = softmax(self.logits, -1)
        if len(rows) > 1:
            chances = reshape(chances, [-1, self.logits.shape[-1]])
        drawn = multinomial(chances, math.prod(sizes), True)
        return reshape(transpose(drawn, [1, 0]) if rows else drawn, [*sizes, *rows])

    def probs(self, value: Any) -> Any:
        """Look up the weights of classes, divided by the sum of all weights."""
        chances = self.logits / sum(self.logits, -1, keepdim=True)
        found = arguments.variable(value, "value", "Categorical")
        rank = len(self.logits.shape)
        if rank == 1:
            return reshape(gather(chances, reshape(found, [-1])), list(found.shape))
        if len(found.shape) == 1:
            found = reshape(found, [*[1] * (rank - 1), -1])
        return take_along_axis(chances, found, -1)

    def log_prob(self, value: Any) -> Any:
        return log(self.probs(value))

    def entropy(self) -> Any:
        known: Any = log_softmax(self.logits, -1)
        return -sum(exp(known) * known, -1)

    def kl_divergence(self, other: Distribution) -> Any:
        mine: Any = log_softmax(self.logits, -1)
        theirs: Any = log_softmax(self._other(other).logits, -1)
        return sum(exp(mine) * (mine - theirs), -1, keepdim=True)


class Multinomial(Distribution):
    """The count of each class in `total_count` draws (paddle.distribution.Multinomial).

    Raises ValueError unless there is a draw and `probs` has an axis.
    """

    def __init__(self, total_count: int, probs: Any) -> None:
        if not isinstance(total_count, int) or total_count < 1:
            raise ValueError(f"Multinomial(): 'total_count' should be above 0, found {total_count}")
        (given,) = parameters("Multinomial", probs=probs)
        if not given.shape:
            raise ValueError("Multinomial(): 'probs' should have one axis or more")
        self.total_count = total_count
        self.probs: Any = given / sum(given, -1, keepdim=True)
        self._categorical = Categorical(log(given))
        super().__init__(given.shape[:-1], given.shape[-1:])

    @property
    def mean(self) -> Any:
        return self.probs * float(self.total_count)

    @property
    def variance(self) -> Any:
        return float(self.total_count) * self.probs * (1.0 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Any:
        drawn = self._categorical.sample([self.total_count, *shape])
        counts = sum(cast(one_hot(drawn, self.probs.shape[-1]), self.probs.dtype), 0)
        return without_gradient(counts)

    def log_prob(self, value: Any) -> Any:
        counts = cast(value, self.probs.dtype) if is_integer(value) else value
        logits, counts = broadcast_tensors([log(self.probs), counts])
        zero: Any = full_like(counts, 0.0)
        # a class of probability 0 that does not occur
        logits = where(equal(counts, zero), zero, logits)
        ways: Any = lgamma(sum(counts, -1) + 1.0) - sum(lgamma(counts + 1.0), -1)
        return ways + sum(counts * logits, -1)

    def entropy(self) -> Any:
        """Compute the entropy from the binomial counts of each class."""
        total = self.total_count
        support = np.arange(1, total + 1, dtype=self.probs.dtype.numpy)
        support = support.reshape(-1, *[1] * len(self.probs.shape))
        ways = [math.lgamma(k + 1) for k in range(total + 1)]
        choices = np.array([ways[total] - ways[k] - ways[total - k] for k in range(1, total + 1)])
        counts: Any = assign(support)
        constant = assign(choices.reshape(support.shape).astype(support.dtype))
        logs = constant + counts * log(self.probs) + (total - counts) * log1p(-self.probs)
        inner = sum(exp(logs) * lgamma(counts + 1.0), [0, -1])
        return float(total) * self._categorical.entropy() - ways[total] + inner
