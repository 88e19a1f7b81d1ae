"""Losses."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import flag, integer
from graphopt.ir.ops.base import PureOp
from graphopt.ir.ops.index import check_integer
from graphopt.ir.types import (
    UNKNOWN,
    Tensor,
    like,
    normalize_axis,
    same_dtype,
    shape_of,
)


@irdl_op_definition
class CrossEntropyWithSoftmax(PureOp):
    """Softmax along an axis and its cross entropy with the labels.

    Hard labels are numbers with a 1 at the class axis (or without that axis); soft ones are
    distributions shaped like the logits. Paddle: softmax_with_cross_entropy.
    """

    name = "pd.cross_entropy_with_softmax"
    logits = operand_def(Tensor)
    label = operand_def(Tensor)
    softmax = result_def(Tensor)
    loss = result_def(Tensor)
    axis = integer(-1)
    soft_label = flag(False)
    use_softmax = flag(True)
    ignore_index = integer(-100)

    @staticmethod
    def infer(logits: Tensor, label: Tensor, axis: int, soft_label: bool) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(logits))
        at = normalize_axis(axis, len(shape))
        loss = [*shape[:at], 1, *shape[at + 1 :]]
        if soft_label:
            same_dtype(logits, label)
            wanted = (shape,)
        else:
            check_integer("label", label)
            wanted = (loss, [*shape[:at], *shape[at + 1 :]])
        have = shape_of(label)
        if not any(_agree(have, other) for other in wanted):
            raise ProgramError(
                f"the label {list(have)} does not fit logits {shape} on axis {at}; "
                f"expected {' or '.join(map(str, wanted))}"
            )
        return logits, like(logits, shape=loss)


def _agree(a: tuple[int, ...], b: list[int]) -> bool:
    return len(a) == len(b) and all(x == y or UNKNOWN in (x, y) for x, y in zip(a, b, strict=True))
