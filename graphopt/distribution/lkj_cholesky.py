"""Random correlations (Lewandowski, Kurowicka and Joe, 2009; paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distribution.base import Distribution, parameters, without_gradient
from graphopt.distribution.simplex import Beta
from graphopt.frontend import arguments
from graphopt.frontend.missing import explain
from graphopt.tensor.creation import assign
from graphopt.tensor.elementary import lgamma
from graphopt.tensor.manipulation import concat, gather, reshape, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import clip, cumprod, log, sqrt, square, sum
from graphopt.tensor.places import diag_embed
from graphopt.tensor.random import gaussian
from graphopt.tensor.ranges import diagonal, tril


class LKJCholesky(Distribution):
    """Lower Cholesky factors [dim, dim] of correlation matrices (paddle.distribution.LKJCholesky).

    Their density is proportional to det^(concentration - 1). `concentration` is a number, a list,
    an array or a Variable; the batch has its shape. `sample_method` is "onion", which adds row by
    row, or "cvine", which draws partial correlations. For more than two rows "onion" draws the
    lengths of rows as Paddle does, which deviates slightly from `log_prob`. Raises ValueError for
    another method or a `dim` below 2.
    """

    def __init__(
        self, dim: int = 2, concentration: Any = 1.0, sample_method: str = "onion"
    ) -> None:
        function = "LKJCholesky"
        self.dim = arguments.integer(dim, "dim", function)
        if self.dim < 2:
            raise ValueError(f"{function}(): 'dim' should be at least 2, found {dim}")
        if sample_method not in ("onion", "cvine"):
            raise ValueError(
                f"{function}(): 'sample_method' should be 'onion' or 'cvine', found "
                f"{sample_method!r}"
            )
        (self.concentration,) = parameters(function, concentration=concentration)
        self.dtype = self.concentration.dtype
        self.sample_method = sample_method
        own: Any = unsqueeze(self.concentration + 0.5 * (self.dim - 2), [-1])
        if sample_method == "onion":
            rows = np.array([0, *range(self.dim - 1)])
            self._beta = Beta(self._number(rows + 0.5), own - self._number(0.5 * rows))
        else:
            before = [column for row in range(1, self.dim) for column in range(row)]
            count: Any = own - self._number(0.5 * np.array(before))
            self._beta = Beta(count, count)
        super().__init__(self.concentration.shape, (self.dim, self.dim))

    def _number(self, value: Any) -> Any:
        return assign(np.asarray(value, self.dtype.numpy))

    def sample(  # pyright: ignore[reportIncompatibleMethodOverride] - the name is Paddle's
        self, sample_shape: Sequence[int] = ()
    ) -> Any:
        drawn = self._beta.sample(sample_shape)
        if self.sample_method == "onion":
            return without_gradient(self._onion(sample_shape, drawn))
        return without_gradient(self._cvine(drawn))

    def _onion(self, shape: Sequence[int], radii: Any) -> Any:
        """Draw rows in random directions; their lengths are the roots of `radii` [..., dim]."""
        sizes = self._sizes(shape, unsqueeze(self._beta.alpha, [-1]))
        noise = tril(gaussian(sizes, dtype=self.dtype), -1)
        last = len(noise.shape) - 2
        below: Any = slice_(noise, [last], [1], [self.dim])
        below = below / sqrt(sum(square(below), -1, keepdim=True))
        none: Any = slice_(noise, [last], [0], [1])
        rows: Any = concat([none, below], -2) * sqrt(unsqueeze(radii, [-1]))
        rest = clip(1.0 - sum(square(rows), -1), float(np.finfo(self.dtype.numpy).tiny))
        return rows + diag_embed(sqrt(rest))

    def _cvine(self, shares: Any) -> Any:
        """Map `shares` [..., dim * (dim - 1) / 2] to partial correlations, and these to rows.

        Each element is scaled by the length that the elements before it leave in its row of length
        1.
        """
        count, rank = self.dim, len(shares.shape)
        last: int = shares.shape[-1]
        places = np.full((count, count), last)
        places[np.tril_indices(count, -1)] = np.arange(last)
        zero: Any = slice_(shares, [rank - 1], [0], [1]) * 0.0
        flat = concat([2.0 * shares - 1.0, zero], -1)
        chosen = gather(flat, assign(places.reshape(-1)), -1)
        least = float(np.finfo(self.dtype.numpy).eps)
        matrix: Any = reshape(chosen, [*shares.shape[:-1], count, count])
        matrix = clip(matrix, least - 1.0, 1.0 - least)
        left: Any = cumprod(sqrt(1.0 - square(matrix)), -1)
        one: Any = slice_(left, [rank], [0], [1]) * 0.0 + 1.0
        left = concat([one, slice_(left, [rank], [0], [count - 1])], -1)
        return (matrix + self._number(np.eye(count))) * left

    def log_prob(self, value: Any) -> Any:
        found = diagonal(self._like(self.concentration, value), axis1=-1, axis2=-2)
        last = len(found.shape) - 1
        found = slice_(found, [last], [1], [self.dim])
        order = self._number(self.dim - np.arange(2, self.dim + 1))
        powers: Any = unsqueeze(2.0 * (self.concentration - 1.0), [-1]) + order
        rest = self.dim - 1
        alpha: Any = self.concentration + 0.5 * rest
        halves = self._number(0.5 * np.arange(1, rest + 1))
        several: Any = sum(lgamma(unsqueeze(alpha, [-1]) - halves), -1)
        several = several + rest * (rest - 1) / 4 * math.log(math.pi)
        normaliser = several + 0.5 * rest * math.log(math.pi) - lgamma(alpha) * rest
        return sum(powers * log(found), -1) - normaliser


explain(globals())
