"""Probability distributions of tensors (paddle.fluid.layers.distributions)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from graphopt.fluid.layers.random import (
    gaussian_random,
    gaussian_random_batch_size_like,
    uniform_random,
    uniform_random_batch_size_like,
)
from graphopt.fluid.layers.reduction import reduce_max, reduce_prod, reduce_sum
from graphopt.frontend import arguments
from graphopt.frontend.missing import explain
from graphopt.ir.dialect.shapes import UNKNOWN, broadcast_shapes
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.logic import less_than
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import add, divide, exp, log, multiply, scale, square, subtract
from graphopt.tensor.ranges import diagonal


def _not_a_number(function: str, **given: Any) -> None:
    """Raise TypeError for a number where a distribution needs a vector."""
    for name, value in given.items():
        if isinstance(value, float):
            raise TypeError(
                f"{function}(): '{name}' must be a list, an array or a Variable, found float"
            )


def _variables(function: str, **given: Any) -> list[Variable]:
    """Convert the arguments to float32 constants, unless all are Variables already."""
    if all(isinstance(value, Variable) for value in given.values()):
        return list(given.values())
    arrays: list[np.ndarray[Any, Any]] = []
    for name, value in given.items():
        if isinstance(value, Variable):
            raise ValueError(
                f"{function}(): '{name}' is a Variable, so the other arguments must be Variables"
            )
        if not isinstance(value, (float, list, np.ndarray)):
            raise TypeError(
                f"{function}(): '{name}' must be a float, a list, an array or a Variable, "
                f"found {type(value).__name__}"
            )
        arrays.append(np.atleast_1d(np.asarray(value, "float32")))
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return [assign(np.array(np.broadcast_to(array, shape))) for array in arrays]


class Distribution(ABC):
    """Base of the distributions."""

    @abstractmethod
    def entropy(self) -> Variable:
        """Compute the entropy, the expected negative logarithm of the density."""

    def _other(self, other: Any) -> Self:
        if not isinstance(other, type(self)):
            raise TypeError(
                f"kl_divergence(): 'other' must be a {type(self).__name__}, "
                f"found {type(other).__name__}"
            )
        return other


class _Located(Distribution):
    """A distribution with two parameters for each element."""

    _scalar: bool
    _made: tuple[Variable, Variable]

    def _set(self, first: Any, second: Any, *made: Variable) -> None:
        self._scalar = isinstance(first, float) and isinstance(second, float)
        self._made = made[0], made[1]

    def _draw(self, draw: Any, draw_like: Any, shape: Sequence[int], **options: Any) -> Variable:
        """Draw random numbers in `shape` followed by the shape of the parameters.

        One dimension of the parameters, such as the batch, may be known only at run time.
        """
        before = arguments.shape(shape, f"{type(self).__name__}.sample")
        own = broadcast_shapes(*(v.shape for v in self._made))
        if UNKNOWN not in own:
            return draw([*before, *own], **options)
        like, at = add(*self._made), own.index(UNKNOWN)
        places = {"input_dim_idx": at, "output_dim_idx": len(before) + at}
        return draw_like(like, [*before, *own], **places, **options)

    def _as_sample(self, drawn: Variable, shape: Sequence[int]) -> Variable:
        return reshape(drawn, list(shape)) if self._scalar and shape else drawn


class Normal(_Located):
    """Normal with mean `loc` and standard deviation `scale` (fluid.layers.Normal)."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = _variables("Normal", loc=loc, scale=scale)
        self._set(loc, scale, self.loc, self.scale)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Draw samples in `shape` followed by the distribution's own dimensions."""
        like = gaussian_random_batch_size_like
        unit = self._draw(gaussian_random, like, shape, seed=seed, dtype=self.loc.dtype)
        return self._as_sample(add(multiply(unit, self.scale), self.loc), shape)

    def entropy(self) -> Variable:
        return scale(log(self.scale), 1.0, 0.5 + 0.5 * math.log(2 * math.pi))

    def log_prob(self, value: Variable) -> Variable:
        """Compute the logarithm of the density at `value`."""
        error = divide(subtract(value, self.loc), self.scale)
        return subtract(scale(square(error), -0.5, -0.5 * math.log(2 * math.pi)), log(self.scale))

    def kl_divergence(self, other: Normal) -> Variable:
        """Compute the Kullback-Leibler divergence KL(self || other)."""
        other = self._other(other)
        ratio = square(divide(self.scale, other.scale))
        gap = square(divide(subtract(self.loc, other.loc), other.scale))
        return scale(subtract(scale(add(ratio, gap), 1.0, -1.0), log(ratio)), 0.5)


class Uniform(_Located):
    """Uniform between `low` and `high` (fluid.layers.Uniform)."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = _variables("Uniform", low=low, high=high)
        self._set(low, high, self.low, self.high)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Draw samples in `shape` followed by the distribution's own dimensions."""
        like = uniform_random_batch_size_like
        options = {"min": 0.0, "max": 1.0, "seed": seed, "dtype": self.low.dtype}
        unit = self._draw(uniform_random, like, shape, **options)
        span = subtract(self.high, self.low)
        return self._as_sample(add(multiply(unit, span), self.low), shape)

    def entropy(self) -> Variable:
        return log(subtract(self.high, self.low))

    def log_prob(self, value: Variable) -> Variable:
        """Compute the logarithm of the density at `value`, minus infinity outside."""
        above = cast(less_than(self.low, value), value.dtype)
        below = cast(less_than(value, self.high), value.dtype)
        return subtract(log(multiply(above, below)), self.entropy())


class Categorical(Distribution):
    """Classes with the probabilities softmax(logits) (fluid.layers.Categorical)."""

    def __init__(self, logits: Any) -> None:
        _not_a_number("Categorical", logits=logits)
        (self.logits,) = _variables("Categorical", logits=logits)

    def _log_probabilities(self) -> Variable:
        shifted = subtract(self.logits, reduce_max(self.logits, -1, keep_dim=True))
        return subtract(shifted, log(reduce_sum(exp(shifted), -1, keep_dim=True)))

    def entropy(self) -> Variable:
        logarithms = self._log_probabilities()
        return scale(reduce_sum(multiply(exp(logarithms), logarithms), -1, keep_dim=True), -1.0)

    def kl_divergence(self, other: Categorical) -> Variable:
        """Compute the Kullback-Leibler divergence KL(self || other)."""
        own, others = self._log_probabilities(), self._other(other)._log_probabilities()
        return reduce_sum(multiply(exp(own), subtract(own, others)), -1, keep_dim=True)


class MultivariateNormalDiag(Distribution):
    """Normal vectors [k] whose covariance `scale` [k, k] is diagonal.

    Paddle page: fluid.layers.MultivariateNormalDiag.
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        given = {"loc": loc, "scale": scale}
        _not_a_number("MultivariateNormalDiag", **given)
        if all(isinstance(value, Variable) for value in given.values()):
            self.loc, self.scale = loc, scale
        else:
            (self.loc,) = _variables("MultivariateNormalDiag", loc=loc)
            (self.scale,) = _variables("MultivariateNormalDiag", scale=scale)
        size = self.scale.shape[0]
        if tuple(self.scale.shape) != (size, size):
            raise ValueError(
                "MultivariateNormalDiag(): 'scale' must be a square matrix, found "
                f"{list(self.scale.shape)}"
            )

    def _variances(self) -> Variable:
        return diagonal(self.scale)

    def entropy(self) -> Variable:
        constant = self.scale.shape[0] * (1.0 + math.log(2 * math.pi))
        return scale(log(reduce_prod(self._variances())), 0.5, 0.5 * constant)

    def kl_divergence(self, other: MultivariateNormalDiag) -> Variable:
        """Compute the Kullback-Leibler divergence KL(self || other)."""
        other = self._other(other)
        own, others = self._variances(), other._variances()
        gap = square(subtract(other.loc, self.loc))
        terms = reduce_sum(divide(add(own, gap), others))
        logarithms = subtract(log(reduce_prod(others)), log(reduce_prod(own)))
        return scale(scale(add(terms, logarithms), 1.0, -float(self.scale.shape[0])), 0.5)


explain(globals())
