"""The normal distribution of vectors (paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.distribution.base import Distribution, parameters
from graphopt.tensor.decompose import triangular_solve
from graphopt.tensor.linalg import cholesky, matmul
from graphopt.tensor.manipulation import cast, expand, reshape, squeeze, unsqueeze
from graphopt.tensor.math import log, square, sum
from graphopt.tensor.random import gaussian
from graphopt.tensor.ranges import diagonal, eye
from graphopt.tensor.rearrange import flip
from graphopt.tensor.spellings import matrix_transpose
from graphopt.tensor.stacking import broadcast_shape


class MultivariateNormal(Distribution):
    """Normal vectors [n] with correlated elements (paddle.distribution.MultivariateNormal).

    `loc` [..., n] is the mean. The covariance is either `covariance_matrix`, its inverse
    `precision_matrix`, or its lower Cholesky factor `scale_tril`: each [..., n, n]. All may be
    lists, arrays or Variables. Raises ValueError unless there is exactly one of the three, with two
    axes or more.
    """

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
    ) -> None:
        function = "MultivariateNormal"
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        there = [name for name, value in given.items() if value is not None]
        if len(there) != 1:
            raise ValueError(
                f"{function}(): exactly one of {', '.join(given)} should be given, found "
                f"{' and '.join(there) or 'none'}"
            )
        (mean,) = parameters(function, loc=[loc] if isinstance(loc, (int, float)) else loc)
        mean = mean if mean.shape else reshape(mean, [1])
        self.dtype = mean.dtype
        (kind,) = there
        (matrix,) = parameters(function, **{kind: given[kind]})
        matrix = matrix if matrix.dtype == self.dtype else cast(matrix, self.dtype)
        if len(matrix.shape) < 2:
            raise ValueError(
                f"{function}(): '{kind}' should have two axes or more, found {list(matrix.shape)}"
            )
        batch = tuple(broadcast_shape(matrix.shape[:-2], mean.shape[:-1]))
        whole = _expand_to(matrix, (*batch, *matrix.shape[-2:]))
        self.loc = _expand_to(mean, (*batch, *mean.shape[-1:]))
        self.covariance_matrix = whole if kind == "covariance_matrix" else None
        self.precision_matrix = whole if kind == "precision_matrix" else None
        self.scale_tril = whole if kind == "scale_tril" else None
        self._factor: Any = whole
        if kind == "covariance_matrix":
            self._factor = cholesky(whole)
        elif kind == "precision_matrix":
            self._factor = _factor_of_inverse(whole)
        super().__init__(batch, mean.shape[-1:])

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return sum(square(self._factor), -1)

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        drawn = gaussian(self._sizes(shape, self.loc), dtype=self.dtype)
        return self.loc + squeeze(matmul(self._factor, unsqueeze(drawn, [-1])), [-1])

    def log_prob(self, value: Any) -> Any:
        away = self._distance(self._like(self.loc, value) - self.loc)
        size = self.event_shape[0]
        return -0.5 * (size * math.log(2 * math.pi) + away) - self._half_log_det()

    def _half_log_det(self) -> Any:
        return sum(log(diagonal(self._factor, axis1=-2, axis2=-1)), -1)

    def _distance(self, steps: Any) -> Any:
        """Compute the squared Mahalanobis distance of vectors [..., n] from 0."""
        batch = broadcast_shape(steps.shape[:-1], self._factor.shape[:-2])
        factor = _expand_to(self._factor, (*batch, *self._factor.shape[-2:]))
        steps = unsqueeze(_expand_to(steps, (*batch, *steps.shape[-1:])), [-1])
        return sum(square(squeeze(triangular_solve(factor, steps, upper=False), [-1])), -1)

    def entropy(self) -> Any:
        size = self.event_shape[0]
        return self._half_log_det() + 0.5 * size * (1.0 + math.log(2 * math.pi))

    def kl_divergence(self, other: Distribution) -> Any:
        one = self._other(other)
        if self.event_shape != one.event_shape or self.batch_shape != one.batch_shape:
            raise ValueError(
                "kl_divergence(): both should be batches of one shape, found "
                f"{self.batch_shape + self.event_shape} and {one.batch_shape + one.event_shape}"
            )
        # trace(inverse(q) @ p) is the squared norm of inverse(factor of q) @ factor of p
        spread = triangular_solve(one._factor, self._factor, upper=False)
        away: Any = sum(square(spread), [-2, -1]) + one._distance(self.loc - one.loc)
        return one._half_log_det() - self._half_log_det() + 0.5 * (away - self.event_shape[0])


def _expand_to(x: Any, shape: tuple[int, ...]) -> Any:
    return x if tuple(x.shape) == shape else expand(x, list(shape))


def _factor_of_inverse(precision: Any) -> Any:
    """Compute the lower Cholesky factor of the inverse, from the factor of the flipped matrix."""
    upper = matrix_transpose(flip(cholesky(flip(precision, [-2, -1])), [-2, -1]))
    unit = eye(precision.shape[-1], dtype=precision.dtype)
    return triangular_solve(upper, _expand_to(unit, tuple(precision.shape)), upper=False)
