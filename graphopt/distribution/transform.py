"""Functions of random variables, with the change of their densities (paddle.distribution)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from graphopt.distribution.base import Distribution, sum_last
from graphopt.frontend import arguments
from graphopt.frontend.missing import explain
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_sigmoid, sigmoid, softmax, softplus, tanh
from graphopt.tensor.creation import assign, full, full_like
from graphopt.tensor.elementary import atanh, log1p
from graphopt.tensor.manipulation import concat, reshape, stack
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import abs, cumprod, cumsum, exp, log, pow, sum
from graphopt.tensor.rearrange import unstack
from graphopt.tensor.stacking import broadcast_shape


class Transform:
    """A function of events, its inverse, and the logarithm of its Jacobian determinant.

    `in_rank` and `out_rank` are the numbers of axes of input and output events. The methods raise
    TypeError unless the argument is a Variable, ValueError for a Variable with fewer axes, and
    NotImplementedError for a method that a transform lacks.
    """

    in_rank: int = 0
    out_rank: int = 0
    injective: bool = True
    # `transformed.TransformedDistribution`, which imports this module
    of_distribution: ClassVar[Callable[[Distribution, Sequence[Transform]], Distribution]]

    def __call__(self, input: Any) -> Any:
        if isinstance(input, Distribution):
            return type(self).of_distribution(input, [self])
        if isinstance(input, Transform):
            return ChainTransform([self, input])
        return self.forward(input)

    def forward(self, x: Any) -> Any:
        """Apply the transform to x."""
        return self._forward(self._check(x, "x", self.in_rank))

    def inverse(self, y: Any) -> Any:
        """Apply the inverse to y."""
        return self._inverse(self._check(y, "y", self.out_rank))

    def forward_log_det_jacobian(self, x: Any) -> Any:
        """Compute the logarithm of the absolute determinant of the derivative at x."""
        if not self.injective:
            raise NotImplementedError(f"{type(self).__name__} has no forward_log_det_jacobian")
        return self._log_det(self._check(x, "x", self.in_rank))

    def inverse_log_det_jacobian(self, y: Any) -> Any:
        """Compute the logarithm of the absolute determinant of the inverse's derivative at y."""
        found = self._check(y, "y", self.out_rank)
        return -self._log_det(self._inverse(found))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Infer the output shape from an input shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Infer the input shape from an output shape."""
        return tuple(shape)

    def _forward(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def _log_det(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no log_det_jacobian")

    def _check(self, value: Any, name: str, rank: int) -> Any:
        found = arguments.variable(value, name, type(self).__name__)
        if len(found.shape) < rank:
            raise ValueError(
                f"{type(self).__name__}: '{name}' should have {rank} axes or more, found "
                f"{list(found.shape)}"
            )
        return found


def as_transforms(transforms: Any, function: str) -> list[Transform]:
    """Convert a sequence of transforms to a list; TypeError for other arguments."""
    if not isinstance(transforms, Sequence) or not all(
        isinstance(transform, Transform) for transform in transforms
    ):
        raise TypeError(f"{function}(): 'transforms' must be a sequence of Transforms")
    return list(transforms)


class AbsTransform(Transform):
    """|x|, whose inverse is the pair (-y, y) (paddle.distribution.AbsTransform)."""

    injective = False

    def _forward(self, x: Any) -> Any:
        return abs(x)

    def _inverse(self, y: Any) -> Any:
        return -y, y

    def inverse_log_det_jacobian(self, y: Any) -> Any:
        zero = full([], 0.0, self._check(y, "y", 0).dtype)
        return zero, zero


class AffineTransform(Transform):
    """loc + scale * x, for two Variables (paddle.distribution.AffineTransform)."""

    def __init__(self, loc: Variable, scale: Variable) -> None:
        self.loc: Any = arguments.variable(loc, "loc", "AffineTransform")
        self.scale: Any = arguments.variable(scale, "scale", "AffineTransform")

    def _forward(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def _log_det(self, x: Any) -> Any:
        return log(abs(self.scale))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(broadcast_shape(broadcast_shape(shape, self.loc.shape), self.scale.shape))

    inverse_shape = forward_shape


class ChainTransform(Transform):
    """Several transforms after each other (paddle.distribution.ChainTransform)."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = as_transforms(transforms, "ChainTransform")
        self.injective = all(transform.injective for transform in self.transforms)
        first = last = 0
        for transform in reversed(self.transforms):
            first = max(transform.in_rank, first - transform.out_rank + transform.in_rank)
        for transform in self.transforms:
            last = max(transform.out_rank, last - transform.in_rank + transform.out_rank)
        self.in_rank, self.out_rank = first, last

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform.forward(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for transform in reversed(self.transforms):
            y = transform.inverse(y)
        return y

    def _log_det(self, x: Any) -> Any:
        total: Any = 0.0
        rank = self.in_rank
        for transform in self.transforms:
            own = transform.forward_log_det_jacobian(x)
            total = total + sum_last(own, rank - transform.in_rank)
            x = transform.forward(x)
            rank += transform.out_rank - transform.in_rank
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for transform in self.transforms:
            shape = transform.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        return tuple(shape)


class ExpTransform(Transform):
    """exp(x) (paddle.distribution.ExpTransform)."""

    def _forward(self, x: Any) -> Any:
        return exp(x)

    def _inverse(self, y: Any) -> Any:
        return log(y)

    def _log_det(self, x: Any) -> Any:
        return x


class IndependentTransform(Transform):
    """A transform whose last batch axes belong to the event.

    ValueError unless there is one such axis or more. Paddle page:
    paddle.distribution.IndependentTransform.
    """

    def __init__(self, base: Transform, reinterpreted_batch_rank: int) -> None:
        if not isinstance(base, Transform):
            raise TypeError("IndependentTransform(): 'base' must be a Transform")
        if reinterpreted_batch_rank < 1:
            raise ValueError(
                "IndependentTransform(): 'reinterpreted_batch_rank' should be above 0, found "
                f"{reinterpreted_batch_rank}"
            )
        self._base = base
        self._rank = reinterpreted_batch_rank
        self.injective = base.injective
        self.in_rank = base.in_rank + reinterpreted_batch_rank
        self.out_rank = base.out_rank + reinterpreted_batch_rank

    def _forward(self, x: Any) -> Any:
        return self._base.forward(x)

    def _inverse(self, y: Any) -> Any:
        return self._base.inverse(y)

    def _log_det(self, x: Any) -> Any:
        return sum_last(self._base.forward_log_det_jacobian(x), self._rank)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._base.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._base.inverse_shape(shape)


class PowerTransform(Transform):
    """x ** power, for a Variable (paddle.distribution.PowerTransform)."""

    def __init__(self, power: Variable) -> None:
        self.power: Any = arguments.variable(power, "power", "PowerTransform")

    def _forward(self, x: Any) -> Any:
        return pow(x, self.power)

    def _inverse(self, y: Any) -> Any:
        return pow(y, 1.0 / self.power)

    def _log_det(self, x: Any) -> Any:
        return log(abs(self.power * pow(x, self.power - 1.0)))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(broadcast_shape(shape, self.power.shape))

    inverse_shape = forward_shape


class ReshapeTransform(Transform):
    """Events of one shape in another shape of the same size.

    ValueError for another size. Paddle page: paddle.distribution.ReshapeTransform.
    """

    def __init__(self, in_event_shape: Sequence[int], out_event_shape: Sequence[int]) -> None:
        self.in_event_shape = tuple(in_event_shape)
        self.out_event_shape = tuple(out_event_shape)
        if math.prod(self.in_event_shape) != math.prod(self.out_event_shape):
            raise ValueError(
                f"ReshapeTransform(): {self.in_event_shape} and {self.out_event_shape} have "
                "different sizes"
            )
        self.in_rank, self.out_rank = len(self.in_event_shape), len(self.out_event_shape)

    def _forward(self, x: Any) -> Any:
        return reshape(x, list(self.forward_shape(x.shape)))

    def _inverse(self, y: Any) -> Any:
        return reshape(y, list(self.inverse_shape(y.shape)))

    def _log_det(self, x: Any) -> Any:
        return full(list(x.shape[: len(x.shape) - self.in_rank]), 0.0, x.dtype)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace_end(shape, self.in_event_shape, self.out_event_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._replace_end(shape, self.out_event_shape, self.in_event_shape)

    def _replace_end(
        self, shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]
    ) -> tuple[int, ...]:
        batch = len(shape) - len(old)
        if batch < 0 or tuple(shape[batch:]) != old:
            raise ValueError(f"ReshapeTransform: {tuple(shape)} should end with {old}")
        return (*shape[:batch], *new)


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)) (paddle.distribution.SigmoidTransform)."""

    def _forward(self, x: Any) -> Any:
        return sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        rest: Any = log1p(-y)
        return log(y) - rest

    def _log_det(self, x: Any) -> Any:
        both: Any = softplus(-x)
        return -both - softplus(x)


class SoftmaxTransform(Transform):
    """Shares by the exponentials of the last axis (paddle.distribution.SoftmaxTransform)."""

    in_rank = out_rank = 1
    injective = False

    def _forward(self, x: Any) -> Any:
        return softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return log(y)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        if not shape:
            raise ValueError("SoftmaxTransform: the shape should have one axis or more")
        return tuple(shape)

    inverse_shape = forward_shape


class StackTransform(Transform):
    """A transform for each slice along an axis (paddle.distribution.StackTransform).

    ValueError for another number of slices.
    """

    def __init__(self, transforms: Sequence[Transform], axis: int = 0) -> None:
        self.transforms = as_transforms(transforms, "StackTransform")
        self.axis = arguments.integer(axis, "axis", "StackTransform")
        self.injective = all(transform.injective for transform in self.transforms)
        self.in_rank = max(transform.in_rank for transform in self.transforms)
        self.out_rank = max(transform.out_rank for transform in self.transforms)

    def _forward(self, x: Any) -> Any:
        return self._each("forward", x)

    def _inverse(self, y: Any) -> Any:
        return self._each("inverse", y)

    def _log_det(self, x: Any) -> Any:
        return self._each("forward_log_det_jacobian", x)

    def _each(self, what: str, value: Any) -> Any:
        rank = len(value.shape)
        count = len(self.transforms)
        if not -rank <= self.axis < rank or value.shape[self.axis] != count:
            raise ValueError(
                f"StackTransform: axis {self.axis} of {list(value.shape)} should have size {count}"
            )
        slices = zip(self.transforms, unstack(value, self.axis), strict=True)
        return stack([getattr(transform, what)(one) for transform, one in slices], self.axis)


class StickBreakingTransform(Transform):
    """n numbers to n + 1 shares, each a fraction of the rest that the shares before it leave.

    Paddle page: paddle.distribution.StickBreakingTransform.
    """

    in_rank = out_rank = 1

    def _offset(self, count: int, like: Any) -> Any:
        return assign(np.log(np.arange(count, 0, -1)).astype(like.dtype.numpy))

    def _forward(self, x: Any) -> Any:
        last = len(x.shape) - 1
        share: Any = sigmoid(x - self._offset(x.shape[-1], x))
        one = full_like(slice_(share, [last], [0], [1]), 1.0)
        left = cumprod(1.0 - share, -1)
        return concat([share, one], last) * concat([one, left], last)

    def _inverse(self, y: Any) -> Any:
        last = len(y.shape) - 1
        kept: Any = slice_(y, [last], [0], [y.shape[-1] - 1])
        left: Any = 1.0 - cumsum(kept, -1)
        return log(kept) - log(left) + self._offset(y.shape[-1] - 1, y)

    def _log_det(self, x: Any) -> Any:
        last = len(x.shape) - 1
        shares = slice_(self._forward(x), [last], [0], [x.shape[-1]])
        moved: Any = x - self._offset(x.shape[-1], x)
        slope: Any = log_sigmoid(moved)
        return sum(slope - moved + log(shares), -1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._longer(shape, 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._longer(shape, -1)

    def _longer(self, shape: Sequence[int], by: int) -> tuple[int, ...]:
        if not shape:
            raise ValueError("StickBreakingTransform: the shape should have one axis or more")
        return (*shape[:-1], shape[-1] + by)


class TanhTransform(Transform):
    """tanh(x) (paddle.distribution.TanhTransform)."""

    def _forward(self, x: Any) -> Any:
        return tanh(x)

    def _inverse(self, y: Any) -> Any:
        return atanh(y)

    def _log_det(self, x: Any) -> Any:
        steep: Any = softplus(-2.0 * x)
        return 2.0 * (math.log(2.0) - x - steep)


explain(globals())
