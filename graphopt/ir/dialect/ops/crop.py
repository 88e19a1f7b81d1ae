"""Blocks of tensors, which must be inside of the tensor."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integers
from graphopt.ir.dialect.ops.base import OneTensor, PureOp
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import UNKNOWN, Partial, Tensor, like, rank_of, shape_of


@irdl_op_definition
class Crop(OneTensor, PureOp):
    """A block of x [..] of the sizes `shape` at `offsets`, all of it inside x; -1 is up to the end.

    Unlike a slice it is never clipped: a block that reaches outside is an error, at run time where
    only a run knows. Paddle: crop, crop_tensor.
    """

    name = "pd.crop"
    traits = traits_def(Movement())
    shape = integers()
    offsets = integers()

    @staticmethod
    def infer(x: Tensor, shape: Sequence[int], offsets: Sequence[int]) -> Tensor:
        return like(x, shape=block_of(shape_of(x), shape, offsets))

    @staticmethod
    def infer_partly(x: Tensor, shape: Partial, offsets: Partial) -> Tensor:
        rank = rank_of(x)
        sizes = (None,) * rank if shape is None else shape
        at = (None,) * rank if offsets is None else offsets
        return like(x, shape=block_of(shape_of(x), sizes, at))


def block_of(
    have: Sequence[int], shape: Sequence[int | None], offsets: Sequence[int | None]
) -> list[int]:
    """Compute the sizes of a block of a tensor [have]; UNKNOWN where a None or -1 leaves one open.

    Raises ProgramError for a block that is certainly not inside.
    """
    given = f"a block {_show_sizes(shape)} at {_show_sizes(offsets)} of {_show_sizes(have)}"
    if not len(shape) == len(offsets) == len(have):
        raise ProgramError(f"{given}: 'shape' and 'offsets' need {len(have)} numbers each")
    found: list[int] = []
    for axis, (whole, size, at) in enumerate(zip(have, shape, offsets, strict=True)):
        if size is not None and size < 1 and size != -1 and (size or whole):
            raise ProgramError(
                f"{given}: a size should be above 0, or -1 for the rest, found {size} in 'shape'"
            )
        last = (at or 0) + max(size or 0, 0)
        if (at is not None and at < 0) or (whole != UNKNOWN and last > whole):
            raise ProgramError(
                f"{given} reaches outside axis {axis}; choose 'offsets' of 0 or more and a "
                "'shape' that ends in it, or -1 in 'shape' for the rest of the axis"
            )
        if size is not None and size > 0:
            found.append(size)
        elif size is None or at is None or whole == UNKNOWN:
            found.append(UNKNOWN)
        else:
            found.append(whole - at)
    return found


def _show_sizes(sizes: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"
