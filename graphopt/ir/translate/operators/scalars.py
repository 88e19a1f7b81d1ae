"""Operators along an axis of a tensor without axes, which Paddle takes for one element [1].

The axis may be 0 or -1, and the results have no axes again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.types import rank_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

_ALONG_AN_AXIS = (
    *("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    *("kthvalue", "mode", "top_k_v2", "argsort", "squeeze2", "gumbel_softmax"),
)


@translates(*_ALONG_AN_AXIS)
def along_an_axis(emit: Emitter) -> Written:
    """By the row of the table, for a tensor without axes as for [1]."""
    return _of_one_element(emit, to_number=not emit.attr("flatten", False))


@translates("arg_max", "arg_min")
def extreme_place(emit: Emitter) -> Written:
    """With `keepdims` the place of the only element is [1]."""
    return _of_one_element(emit, to_number=not emit.attr("keepdims", False))


def _of_one_element(emit: Emitter, *, to_number: bool) -> Written:
    row = emit.row
    x = emit.input(row.inputs[0])
    if rank_of(x.type):
        return emit.by_row()
    written = emit.by_row(emit.reshaped(x, 1))
    return {n: emit.reshaped(v) if to_number else v for n, v in written.items()}


def axes_of(x: SSAValue, axes: Sequence[int]) -> Sequence[int]:
    """The axes of a reduction; of a tensor without axes, 0 and -1 are all it has."""
    return () if not rank_of(x.type) and set(axes) <= {0, -1} else axes
