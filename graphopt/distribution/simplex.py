"""Distributions over shares (paddle.distribution)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.distribution.base import (
    Distribution,
    ExponentialFamily,
    parameters,
    without_gradient,
)
from graphopt.tensor.elementary import digamma, lgamma
from graphopt.tensor.manipulation import concat, expand, squeeze, stack, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import log, square, sum
from graphopt.tensor.random import standard_gamma


class Dirichlet(ExponentialFamily):
    """Shares that add to 1, by a concentration of each (paddle.distribution.Dirichlet).

    Raises ValueError unless `concentration` has an axis.
    """

    def __init__(self, concentration: Any) -> None:
        (self.concentration,) = parameters("Dirichlet", concentration=concentration)
        if not self.concentration.shape:
            raise ValueError("Dirichlet(): 'concentration' should have one axis or more")
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:])

    @property
    def mean(self) -> Any:
        return self.concentration / sum(self.concentration, -1, keepdim=True)

    @property
    def variance(self) -> Any:
        total: Any = sum(self.concentration, -1, keepdim=True)
        own = self.concentration
        return own * (total - own) / (square(total) * (total + 1.0))

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.concentration)
        own = self.concentration if len(shape) == 0 else expand(self.concentration, sizes)
        drawn: Any = standard_gamma(own)
        return without_gradient(drawn / sum(drawn, -1, keepdim=True))

    def log_prob(self, value: Any) -> Any:
        own = self.concentration
        normaliser: Any = lgamma(sum(own, -1)) - sum(lgamma(own), -1)
        return sum(log(self._like(own, value)) * (own - 1.0), -1) + normaliser

    def entropy(self) -> Any:
        own = self.concentration
        total: Any = sum(own, -1)
        normaliser: Any = sum(lgamma(own), -1) - lgamma(total)
        rest = sum((own - 1.0) * digamma(own), -1)
        return normaliser - (own.shape[-1] - total) * digamma(total) - rest

    def kl_divergence(self, other: Distribution) -> Any:
        p, q = self.concentration, self._other(other).concentration
        totals: Any = lgamma(sum(p, -1)) - lgamma(sum(q, -1))
        spread: Any = digamma(p) - unsqueeze(digamma(sum(p, -1)), [-1])
        return totals - sum(lgamma(p) - lgamma(q), -1) + sum((p - q) * spread, -1)


class Beta(ExponentialFamily):
    """A share between 0 and 1 (paddle.distribution.Beta)."""

    def __init__(self, alpha: Any, beta: Any) -> None:
        self.alpha, self.beta = parameters("Beta", alpha=alpha, beta=beta)
        self._dirichlet = Dirichlet(stack([self.alpha, self.beta], -1))
        super().__init__(self.alpha.shape)

    @property
    def mean(self) -> Any:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (square(total) * (total + 1.0))

    def sample(self, shape: Sequence[int] = ()) -> Any:
        drawn = self._dirichlet.sample(shape)
        last = len(drawn.shape) - 1
        return without_gradient(squeeze(slice_(drawn, [last], [0], [1]), [last]))

    def log_prob(self, value: Any) -> Any:
        share = unsqueeze(self._like(self.alpha, value), [-1])
        return self._dirichlet.log_prob(concat([share, 1.0 - share], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    def kl_divergence(self, other: Distribution) -> Any:
        return self._dirichlet.kl_divergence(self._other(other)._dirichlet)
