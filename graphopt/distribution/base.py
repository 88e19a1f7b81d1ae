"""The base of distributions, and their parameters as Variables (paddle.distribution)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.backward import gradients
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.creation import assign
from graphopt.tensor.manipulation import cast, concat
from graphopt.tensor.math import add, exp, sum
from graphopt.tensor.rearrange import broadcast_tensors


def parameters(function: str, **given: Any) -> tuple[Any, ...]:
    """Convert numbers, lists, arrays and Variables to Variables of one shape and dtype.

    Arrays of float64 keep their dtype. Raises TypeError for another type.
    """
    found: list[Any] = []
    variables = [value for value in given.values() if isinstance(value, Variable)]
    doubles = [v for v in given.values() if isinstance(v, np.ndarray) and v.dtype == "float64"]
    own = variables[0].dtype if variables else DType("float64" if doubles else get_default_dtype())
    for name, value in given.items():
        if isinstance(value, Variable):
            found.append(value)
        elif isinstance(value, (int, float, list, tuple, np.ndarray, np.generic)):
            found.append(assign(np.asarray(value, own.numpy)))
        else:
            raise TypeError(
                f"{function}(): '{name}' must be a number, a list, an array or a Variable, found "
                f"{type(value).__name__}"
            )
    shapes = {value.shape for value in found}
    return tuple(found if len(shapes) == 1 else broadcast_tensors(found))


def without_gradient(x: Any) -> Any:
    """Return x with its gradient stopped."""
    x.stop_gradient = True
    return x


def sum_last(x: Any, axes: int) -> Any:
    """Sum x over its last axes."""
    return sum(x, list(range(-axes, 0))) if axes > 0 else x


class Distribution:
    """A distribution over events of a shape, several of them in a batch (paddle.distribution).

    Samples have the shape sample shape + `batch_shape` + `event_shape`. Functions that a
    distribution lacks raise NotImplementedError.
    """

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = ()) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the distributions that are computed together."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise self._lacks("mean")

    @property
    def variance(self) -> Any:
        """The expected squared distance from the mean."""
        raise self._lacks("variance")

    def sample(self, shape: Sequence[int] = ()) -> Any:
        """Draw random events, through which no gradient flows."""
        return without_gradient(self.rsample(shape))

    def rsample(self, shape: Sequence[int] = ()) -> Any:
        """Draw random events as functions of the parameters, for gradients."""
        raise self._lacks("rsample")

    def entropy(self) -> Any:
        """Compute the expected negative logarithm of the density."""
        raise self._lacks("entropy")

    def kl_divergence(self, other: Distribution) -> Any:
        """Compute KL(self || other) for another distribution of the same class."""
        raise self._lacks("kl_divergence")

    def log_prob(self, value: Any) -> Any:
        """Compute the logarithm of the density, or of the probability, of a value."""
        raise self._lacks("log_prob")

    def prob(self, value: Any) -> Any:
        """Compute the density, or the probability, of a value."""
        return exp(self.log_prob(value))

    probs: Any = prob

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def _like(self, parameter: Any, value: Any) -> Any:
        """Convert a value to a Variable of the parameter's dtype."""
        found = arguments.variable(value, "value", type(self).__name__)
        return found if found.dtype == parameter.dtype else cast(found, parameter.dtype)

    def _other(self, other: Any) -> Any:
        if not isinstance(other, type(self)):
            raise TypeError(
                f"kl_divergence(): 'other' must be a {type(self).__name__}, found "
                f"{type(other).__name__}"
            )
        return other

    def _sizes(self, shape: Sequence[int], *like: Any) -> Any:
        """Compute the shape of samples; a Variable when only a run knows the batch size."""
        before = arguments.shape(shape, f"{type(self).__name__}.sample") if len(shape) else []
        sizes = [*before, *self._batch_shape, *self._event_shape]
        if -1 not in sizes:
            return sizes
        whole = like[0]
        for one in like[1:]:
            whole = add(whole, one)
        known = shape_of(whole)
        return (
            concat([assign(np.asarray(before, known.dtype.numpy)), known], 0) if before else known
        )


class ExponentialFamily(Distribution):
    """A distribution whose density is exp(parameters · statistics - normalizer).

    A derived class defines the property `_natural_parameters` and their function `_log_normalizer`.
    The entropy and the divergence follow from the gradients of the normalizer. NotImplementedError
    without both.
    """

    @property
    def _natural_parameters(self) -> Sequence[Any]:
        raise self._lacks("_natural_parameters")

    def _log_normalizer(self, *natural: Any) -> Any:
        raise self._lacks("_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        """The expected logarithm of the carrier measure, the factor before exp in the density."""
        raise self._lacks("_mean_carrier_measure")

    def _normaliser(self) -> tuple[list[Any], Any, list[Any]]:
        """Compute the natural parameters, the log-normalizer and its gradients by them."""
        natural: list[Any] = [assign(one) for one in self._natural_parameters]
        for one in natural:
            one.stop_gradient = False
        found = self._log_normalizer(*natural)
        return natural, found, list(gradients([sum(found)], natural))

    def entropy(self) -> Any:
        natural, found, slopes = self._normaliser()
        for one, slope in zip(natural, slopes, strict=True):
            found = found - one * slope
        return found - self._mean_carrier_measure

    def kl_divergence(self, other: Distribution) -> Any:
        theirs = self._other(other)
        natural, found, slopes = self._normaliser()
        total = theirs._log_normalizer(*theirs._natural_parameters) - found
        for mine, one, slope in zip(natural, theirs._natural_parameters, slopes, strict=True):
            total = total - sum_last((one - mine) * slope, len(self.event_shape))
        return total
