"""The continuous Bernoulli distribution (arXiv:1907.06845; paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import Distribution, parameters
from graphopt.tensor.creation import full_like
from graphopt.tensor.elementary import atanh, log1p
from graphopt.tensor.logic import equal, greater_equal, greater_than, less_equal, logical_or
from graphopt.tensor.math import abs, clip, log, pow, square
from graphopt.tensor.random import uniform
from graphopt.tensor.rearrange import broadcast_tensors
from graphopt.tensor.search import where
from graphopt.tensor.stat import nan_to_num


class ContinuousBernoulli(Distribution):
    """Numbers in [0, 1] with densities of probs^x (1-probs)^(1-x) times a constant.

    `probs` is a number, which makes a batch of shape [1], a list, an array or a Variable. Between
    both `lims` the constant is a series, as its formula divides 0 by 0 at 0.5. Paddle page:
    paddle.distribution.ContinuousBernoulli.
    """

    def __init__(self, probs: Any, lims: tuple[float, float] = (0.499, 0.501)) -> None:
        given = [probs] if isinstance(probs, (int, float)) else probs
        (found,) = parameters("ContinuousBernoulli", probs=given)
        self.dtype = found.dtype
        self.lims = lims
        least = float(np.finfo(self.dtype.numpy).eps)
        self.probs: Any = clip(found, least, 1.0 - least)
        super().__init__(found.shape)

    def _outside(self) -> Any:
        """Mask the elements of `probs` outside the limits, where the formula holds."""
        low, high = (full_like(self.probs, limit) for limit in self.lims)
        return logical_or(less_equal(self.probs, low), greater_than(self.probs, high))

    def _cut(self) -> Any:
        """Replace `probs` between the limits by the lower limit."""
        return where(self._outside(), self.probs, full_like(self.probs, self.lims[0]))

    def _log_constant(self) -> Any:
        cut = self._cut()
        near: Any = square(self.probs - 0.5)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * near) * near
        formula: Any = log(2.0 * abs(atanh(1.0 - 2.0 * cut))) - log(abs(1.0 - 2.0 * cut))
        return where(self._outside(), formula, series)

    @property
    def mean(self) -> Any:
        cut = self._cut()
        away = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * square(away)) * away
        formula = cut / (2.0 * cut - 1.0) + 0.5 / atanh(1.0 - 2.0 * cut)
        return where(self._outside(), formula, series)

    @property
    def variance(self) -> Any:
        cut = self._cut()
        near: Any = square(self.probs - 0.5)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * near) * near
        formula = cut * (cut - 1.0) / square(1.0 - 2.0 * cut)
        formula = formula + 1.0 / square(log1p(-cut) - log(cut))
        return where(self._outside(), formula, series)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        return self.icdf(uniform(self._sizes(shape, self.probs), self.dtype, 0.0, 1.0))

    def log_prob(self, value: Any) -> Any:
        found = self._like(self.probs, value)
        parts = found * log(self.probs) + (1.0 - found) * log(1.0 - self.probs)
        least = -float(np.finfo(self.dtype.numpy).eps)
        return self._log_constant() + nan_to_num(parts, neginf=least)

    def entropy(self) -> Any:
        yes, no = log(self.probs), log1p(-self.probs)
        found = self.mean * (no - yes) - self._log_constant() - no
        half = equal(self.probs, full_like(self.probs, 0.5))
        return where(half, full_like(self.probs, 0.0), found)

    def cdf(self, value: Any) -> Any:
        """Compute the probability of values up to `value`."""
        found = self._like(self.probs, value)
        cut = self._cut()
        formula = pow(cut, found) * pow(1.0 - cut, 1.0 - found) + cut - 1.0
        outside, formula, found = self._together(formula / (2.0 * cut - 1.0), found)
        inside = where(outside, formula, found)
        zero, one = full_like(found, 0.0), full_like(found, 1.0)
        above = where(greater_equal(found, one), one, inside)
        return where(less_equal(found, zero), zero, above)

    def icdf(self, value: Any) -> Any:
        """Invert `cdf`: compute the quantile of a probability."""
        found = self._like(self.probs, value)
        cut = self._cut()
        formula: Any = log1p(found * (2.0 * cut - 1.0) - cut) - log1p(-cut)
        outside, formula, found = self._together(formula / (log(cut) - log1p(-cut)), found)
        return where(outside, formula, found)

    def _together(self, formula: Any, value: Any) -> tuple[Any, Any, Any]:
        """Broadcast the mask of elements with the formula, and both values, to one shape."""
        formula, value = broadcast_tensors([formula, value])
        outside, _ = broadcast_tensors([self._outside(), formula])
        return outside, formula, value

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        if self.batch_shape != one.batch_shape:
            raise ValueError(
                f"kl_divergence(): both should be batches of one shape, found {self.batch_shape} "
                f"and {one.batch_shape}"
            )
        yes, no = log(one.probs), log1p(-one.probs)
        return -self.entropy() - (one._log_constant() + self.mean * (yes - no) + no)
