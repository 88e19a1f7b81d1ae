"""Random ops. A non-zero `seed` repeats the same numbers on every execution.

With seed 0 the numbers come from the global generator; `rng_id` then distinguishes the ops of a
program. Passes must keep it, so that optimizing a program does not change the numbers it draws.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer, integers, number, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp
from graphopt.ir.dialect.ops.creation import known_shape
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    normalize_axis,
    rank_of,
    shape_of,
    sizes_in,
    tensor,
)


class RandomOp(OpaqueOp, ABC):
    """An op that draws from a generator; its lowering takes a `key`, a tuple if it draws twice."""

    seed = integer(0)
    rng_id = integer(0)

    def draws(self) -> tuple[tuple[int, int], ...]:
        """Return the seed and the RNG id of each key that the op takes."""
        return ((self.attr("seed"), self.attr("rng_id")),)


@irdl_op_definition
class Dropout(OneTensor, RandomOp):
    """Zero a share `p` of the elements in training. Paddle: dropout.

    With `cut`, x is a piece along that axis; the same elements are zeroed as in the whole value.
    """

    name = "pd.dropout"
    p = number(0.5)
    is_test = flag(False)
    mode = string("downgrade_in_infer", of=("downgrade_in_infer", "upscale_in_train"))
    cut = integer(None)

    @staticmethod
    def infer(x: Tensor, p: float, mode: str) -> Tensor:
        if not 0 <= p <= 1:
            raise ProgramError(f"p argument should between 0 and 1, found {p}")
        if mode not in ("downgrade_in_infer", "upscale_in_train"):
            raise ProgramError(f"unknown dropout mode '{mode}'")
        return x


class RandomTensor(RandomOp, ABC):
    """A new tensor of random numbers."""

    out = result_def(TENSOR)
    shape = integers()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], dtype: str) -> Tensor:
        return tensor(known_shape(shape), dtype)

    @staticmethod
    def infer_partly(shape: Partial, dtype: str) -> Tensor:
        return tensor(sizes_in(shape, "shape"), dtype)


@irdl_op_definition
class Uniform(RandomTensor):
    """Uniform on [min, max). Paddle: uniform_random."""

    name = "pd.uniform"
    min = number(-1.0)
    max = number(1.0)


@irdl_op_definition
class Gaussian(RandomTensor):
    """Normal with this mean and standard deviation. Paddle: gaussian_random."""

    name = "pd.gaussian"
    mean = number(0.0)
    std = number(1.0)


@irdl_op_definition
class TruncatedGaussian(RandomTensor):
    """Normal without the numbers outside of [a, b]; None is two standard deviations from the mean.

    Paddle: truncated_gaussian_random.
    """

    name = "pd.truncated_gaussian"
    mean = number(0.0)
    std = number(1.0)
    a = number(None)
    b = number(None)

    @staticmethod
    def infer(
        shape: Sequence[int], dtype: str, a: float | None = None, b: float | None = None
    ) -> Tensor:
        if a is not None and b is not None and a >= b:
            raise ProgramError(f"truncated_gaussian needs a < b, found {a} and {b}")
        return RandomTensor.infer(shape, dtype)

    @staticmethod
    def deviations(
        mean: float, std: float, a: float | None, b: float | None
    ) -> tuple[float, float]:
        """Convert the bounds to standard deviations from the mean."""
        low = -2.0 if a is None else (a - mean) / std if std else -math.inf
        high = 2.0 if b is None else (b - mean) / std if std else math.inf
        return low, high


@irdl_op_definition
class RandomIntegers(RandomOp):
    """Whole numbers from low up to, but without, high. Paddle: randint."""

    name = "pd.randint"
    out = result_def(TENSOR)
    shape = integers()
    dtype = dtype_property("int64")
    low = integer(0)
    high = integer()

    @staticmethod
    def infer(shape: Sequence[int], dtype: str, low: int, high: int) -> Tensor:
        if low >= high:
            raise ProgramError(f"randint needs low < high, found {low} and {high}")
        return tensor(known_shape(shape), dtype)

    @staticmethod
    def infer_partly(shape: Partial, dtype: str) -> Tensor:
        return tensor(sizes_in(shape, "shape"), dtype)


@irdl_op_definition
class Permutation(RandomOp):
    """The numbers below n in random order. Paddle: randperm."""

    name = "pd.randperm"
    out = result_def(TENSOR)
    n = integer()
    dtype = dtype_property("int64")

    @staticmethod
    def infer(n: int, dtype: str) -> Tensor:
        return tensor(known_shape((n,)), dtype)


@irdl_op_definition
class Bernoulli(OneTensor, RandomOp):
    """1 with the probability x, else 0. Paddle: bernoulli."""

    name = "pd.bernoulli"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return x


@irdl_op_definition
class Multinomial(OneTensor, RandomOp):
    """Class numbers drawn by the weights in the last axis. Paddle: multinomial."""

    name = "pd.multinomial"
    num_samples = integer(1)
    replacement = flag(False)

    @staticmethod
    def infer(x: Tensor, num_samples: int, replacement: bool) -> Tensor:
        shape = shape_of(x)
        if rank_of(x) not in (1, 2):
            raise ProgramError(f"multinomial needs rank 1 or 2, found {list(shape)}")
        if num_samples < 1 or (not replacement and UNKNOWN != shape[-1] < num_samples):
            raise ProgramError(f"{num_samples} cannot be drawn from {shape[-1]} classes")
        return like(x, shape=(*shape[:-1], num_samples), dtype="int64")


class Drawn(OneTensor, RandomOp, ABC):
    """One number drawn for each element of x, a real floating-point tensor."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if not dtype_of(x).is_floating:
            raise OperandError(f"expected a floating-point tensor, found {dtype_of(x)}")
        return x


@irdl_op_definition
class Poisson(Drawn):
    """Counts of the Poisson distribution with the rate x. Paddle: poisson."""

    name = "pd.poisson"


@irdl_op_definition
class StandardGamma(Drawn):
    """Numbers of the gamma distribution with the shape x and rate 1. Paddle: standard_gamma."""

    name = "pd.standard_gamma"


@irdl_op_definition
class Binomial(RandomOp):
    """Number of successes in `count` tries, each with probability `prob`. Paddle: binomial."""

    name = "pd.binomial"
    count = operand_def(TENSOR)
    prob = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(count: Tensor, prob: Tensor) -> Tensor:
        shape = broadcast_shapes(shape_of(count), shape_of(prob))
        return like(count, shape=shape, dtype="int64")


@irdl_op_definition
class GumbelSoftmax(OneTensor, RandomOp):
    """A draw of classes along an axis, softened by a temperature, or one-hot when `hard`.

    Paddle: gumbel_softmax.
    """

    name = "pd.gumbel_softmax"
    temperature = number(1.0)
    hard = flag(False)
    axis = integer(-1)

    @staticmethod
    def infer(x: Tensor, temperature: float, axis: int) -> Tensor:
        normalize_axis(axis, rank_of(x))
        if temperature <= 0:
            raise ProgramError(f"the temperature should be above 0, found {temperature}")
        return Drawn.infer(x)


@irdl_op_definition
class Rrelu(RandomOp):
    """x where positive, elsewhere x times a slope drawn from [lower, upper), or their mean.

    Paddle: rrelu.
    """

    name = "pd.rrelu"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    noise = result_def(TENSOR)
    lower = number(0.125)
    upper = number(1 / 3)
    is_test = flag(False)

    @staticmethod
    def infer(x: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor]:
        if not 0 <= lower <= upper <= 1:
            raise ProgramError(f"rrelu needs 0 <= lower <= upper <= 1, found {lower} and {upper}")
        return Drawn.infer(x), x
