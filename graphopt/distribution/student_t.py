"""Student's t-distribution (paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.distribution.base import Distribution, parameters, without_gradient
from graphopt.distribution.gamma import Gamma
from graphopt.tensor.creation import full_like
from graphopt.tensor.elementary import digamma, lgamma, log1p
from graphopt.tensor.logic import greater_than
from graphopt.tensor.math import log, rsqrt, square
from graphopt.tensor.random import gaussian
from graphopt.tensor.search import where


class StudentT(Distribution):
    """The error of a mean whose spread is estimated, too (paddle.distribution.StudentT).

    `df`, the degrees of freedom, `loc` and `scale` are numbers, lists, arrays or Variables; the
    batch has the shape of all three together. The mean is nan for `df` up to 1; the variance is
    infinite for `df` up to 2 and nan up to 1.
    """

    def __init__(self, df: Any, loc: Any, scale: Any, name: str | None = None) -> None:
        self.df, self.loc, self.scale = parameters("StudentT", df=df, loc=loc, scale=scale)
        self.dtype = self.df.dtype
        self.name = name or "StudentT"
        self._chi2 = Gamma(self.df * 0.5, full_like(self.df, 0.5))
        super().__init__(self.df.shape)

    @property
    def mean(self) -> Any:
        return where(self._above(1.0), self.loc, full_like(self.loc, math.nan))

    @property
    def variance(self) -> Any:
        spread: Any = square(self.scale) * self.df / (self.df - 2.0)
        infinite = full_like(self.df, math.inf)
        known = where(self._above(2.0), spread, infinite)
        return where(self._above(1.0), known, full_like(self.df, math.nan))

    def _above(self, number: float) -> Any:
        return greater_than(self.df, full_like(self.df, number))

    def sample(self, shape: Sequence[int] = ()) -> Any:
        sizes = self._sizes(shape, self.df, self.loc, self.scale)
        drawn: Any = gaussian(sizes, dtype=self.dtype)
        found = drawn * rsqrt(self._chi2.sample(shape) / self.df)
        return without_gradient(self.loc + self.scale * found)

    def entropy(self) -> Any:
        half: Any = 0.5 * self.df
        more: Any = 0.5 * (self.df + 1.0)
        beta: Any = lgamma(half) + math.lgamma(0.5) - lgamma(more)
        spread: Any = digamma(more) - digamma(half)
        return log(self.scale) + more * spread + 0.5 * log(self.df) + beta

    def log_prob(self, value: Any) -> Any:
        steps: Any = (self._like(self.df, value) - self.loc) / self.scale
        more: Any = 0.5 * (self.df + 1.0)
        normaliser: Any = log(self.scale) + 0.5 * log(self.df) + 0.5 * math.log(math.pi)
        normaliser = normaliser + lgamma(0.5 * self.df) - lgamma(more)
        return -more * log1p(square(steps) / self.df) - normaliser
