"""Random ops. A non-zero `seed` repeats the same numbers on every execution (SEMANTICS 1.5).

With seed 0 the numbers come from the global generator; `rng_id` then tells the ops of a program
apart, and passes must keep it, so that optimising a program does not change what it draws.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import dtype as dtype_property
from graphopt.ir.attrs import flag, integer, integers, number, string
from graphopt.ir.ops.base import PureOp
from graphopt.ir.ops.creation import known_shape
from graphopt.ir.types import Tensor, tensor


class RandomOp(PureOp, ABC):
    """An op that draws from a generator; its lowering takes a `key`."""

    seed = integer(0)
    rng_id = integer(0)


@irdl_op_definition
class Dropout(RandomOp):
    """Zero a share `p` of the elements in training. Paddle: dropout."""

    name = "pd.dropout"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    p = number(0.5)
    is_test = flag(False)
    mode = string("downgrade_in_infer")

    @staticmethod
    def infer(x: Tensor, p: float, mode: str) -> Tensor:
        if not 0 <= p <= 1:
            raise ProgramError(f"p argument should between 0 and 1, found {p}")
        if mode not in ("downgrade_in_infer", "upscale_in_train"):
            raise ProgramError(f"unknown dropout mode '{mode}'")
        return x


class RandomTensor(RandomOp, ABC):
    """A new tensor of random numbers."""

    out = result_def(Tensor)
    shape = integers()
    dtype = dtype_property("float32")

    @staticmethod
    def infer(shape: Sequence[int], dtype: str) -> Tensor:
        return tensor(known_shape(shape), dtype)


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
    """Normal, cut at two standard deviations. Paddle: truncated_gaussian_random."""

    name = "pd.truncated_gaussian"
    mean = number(0.0)
    std = number(1.0)
