"""Operators that take a tensor without axes for one element, as Paddle does.

Along an axis, which may be 0 or -1, it is [1], and the results have no axes again; among the
terms of a sum it has the shape of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

_ALONG_AN_AXIS = (
    *("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    *("kthvalue", "mode", "top_k_v2", "argsort", "squeeze2", "gumbel_softmax"),
)


@translates(*_ALONG_AN_AXIS)
def along_an_axis(emit: Emitter) -> Written:
    """By the row of the table, for a tensor without axes as for [1]."""
    return _of_one_element(emit, to_number=not emit.attr("flatten"))


@translates("arg_max", "arg_min")
def extreme_place(emit: Emitter) -> Written:
    """With `keepdims` the place of the only element is [1]."""
    return _of_one_element(emit, to_number=not emit.attr("keepdims"))


@translates("sum")
def sum_of_terms(emit: Emitter) -> Written:
    """Terms of one shape; a number beside [1] counts as [1], and the sum is [1]."""
    terms = emit.inputs("X")
    shape = next((shape_of(term.type) for term in terms if rank_of(term.type)), ())
    if UNKNOWN not in shape and prod(shape) == 1:
        terms = [term if rank_of(term.type) else emit.reshaped(term, *shape) for term in terms]
    return emit.by_row(terms)


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
