"""Distributions derived from other distributions (paddle.distribution)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.distribution.base import Distribution, sum_last, without_gradient
from graphopt.distribution.real import Normal
from graphopt.distribution.transform import ExpTransform, Transform, as_transforms
from graphopt.tensor.elementary import expm1
from graphopt.tensor.math import exp


class Independent(Distribution):
    """A distribution whose last batch axes belong to the event.

    ValueError unless it has so many batch axes. Paddle page: paddle.distribution.Independent.
    """

    def __init__(self, base: Distribution, reinterpreted_batch_rank: int) -> None:
        if not isinstance(base, Distribution):
            raise TypeError("Independent(): 'base' must be a Distribution")
        rank = len(base.batch_shape)
        if not 0 < reinterpreted_batch_rank <= rank:
            raise ValueError(
                f"Independent(): 'reinterpreted_batch_rank' should be in [1, {rank}], found "
                f"{reinterpreted_batch_rank}"
            )
        self._base = base
        self._rank = reinterpreted_batch_rank
        shape = base.batch_shape + base.event_shape
        cut = rank - reinterpreted_batch_rank
        super().__init__(shape[:cut], shape[cut:])

    @property
    def mean(self) -> Any:
        return self._base.mean

    @property
    def variance(self) -> Any:
        return self._base.variance

    def sample(self, shape: Sequence[int] = ()) -> Any:
        return self._base.sample(shape)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        return self._base.rsample(shape)

    def log_prob(self, value: Any) -> Any:
        return sum_last(self._base.log_prob(value), self._rank)

    def entropy(self) -> Any:
        return sum_last(self._base.entropy(), self._rank)


class TransformedDistribution(Distribution):
    """The events of a distribution after transforms.

    ValueError where the events have too few axes. Paddle page:
    paddle.distribution.TransformedDistribution.
    """

    def __init__(self, base: Distribution, transforms: Sequence[Transform]) -> None:
        if not isinstance(base, Distribution):
            raise TypeError("TransformedDistribution(): 'base' must be a Distribution")
        self._transforms = as_transforms(transforms, "TransformedDistribution")
        shape = base.batch_shape + base.event_shape
        rank = len(base.event_shape)
        for transform in self._transforms:
            rank = max(rank, transform.in_rank)
            if len(shape) < rank:
                raise ValueError(
                    f"TransformedDistribution(): 'base' should have {rank} axes or more, found "
                    f"{shape}"
                )
            rank += transform.out_rank - transform.in_rank
            shape = transform.forward_shape(shape)
        self._base = base
        super().__init__(shape[: len(shape) - rank], shape[len(shape) - rank :])

    def sample(self, shape: Sequence[int] = ()) -> Any:
        return without_gradient(self._apply_transforms(self._base.sample(shape)))

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        return self._apply_transforms(self._base.rsample(shape))

    def _apply_transforms(self, x: Any) -> Any:
        for transform in self._transforms:
            x = transform.forward(x)
        return x

    def log_prob(self, value: Any) -> Any:
        total: Any = 0.0
        rank = len(self.event_shape)
        for transform in reversed(self._transforms):
            before = transform.inverse(value)
            rank += transform.in_rank - transform.out_rank
            own = transform.forward_log_det_jacobian(before)
            total = total - sum_last(own, rank - transform.in_rank)
            value = before
        return total + sum_last(self._base.log_prob(value), rank - len(self._base.event_shape))


Transform.of_distribution = TransformedDistribution


class LogNormal(TransformedDistribution):
    """exp of normal numbers (paddle.distribution.LogNormal)."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self._normal = Normal(loc, scale)
        self.loc, self.scale = self._normal.loc, self._normal.scale
        super().__init__(self._normal, [ExpTransform()])

    @property
    def mean(self) -> Any:
        return exp(self._normal.mean + self._normal.variance * 0.5)

    @property
    def variance(self) -> Any:
        spread: Any = expm1(self._normal.variance)
        return spread * exp(2.0 * self._normal.mean + self._normal.variance)

    def entropy(self) -> Any:
        return self._normal.entropy() + self._normal.mean

    def probs(self, value: Any) -> Any:
        """Compute the density of a value."""
        return self.prob(value)

    def kl_divergence(self, other: Distribution) -> Any:
        return self._normal.kl_divergence(self._other(other)._normal)
