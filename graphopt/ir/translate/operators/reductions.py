"""Reductions: axes in several forms, norms and distances, and tests of a whole tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.logic import Isfinite, Isinf, Isnan
from graphopt.ir.dialect.ops.math import Abs, Cast, Divide, Equal, Subtract
from graphopt.ir.dialect.ops.reduce import (
    All,
    Mean,
    Numel,
    PNorm,
    ReduceAs,
    Sum,
    check_broadcasts,
)
from graphopt.ir.dialect.ops.reduce import Any as AnyOf
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE

_ALONG_AN_AXIS = (
    *("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    *("kthvalue", "mode", "top_k_v2", "argsort", "squeeze2", "gumbel_softmax"),
)


@translates(*_ALONG_AN_AXIS)
def along_an_axis(emit: Emitter) -> Written:
    """Translate by the row of the table; a 0-D tensor is treated as [1]."""
    return _of_one_element(emit, to_number=not emit.attr("flatten"))


@translates("arg_max", "arg_min")
def extreme_place(emit: Emitter) -> Written:
    """Translate arg_max or arg_min; with `keepdims` the index in a 0-D tensor is [1]."""
    attrs = {"dtype": "int64"} if emit.attr("dtype") < 0 else {}  # Paddle 1.8's default
    return _of_one_element(emit, to_number=not emit.attr("keepdims"), **attrs)


@translates("sum")
def sum_of_terms(emit: Emitter) -> Written:
    """Add terms of one shape; a 0-D term beside [1] counts as [1], and the sum is [1]."""
    terms = emit.inputs("X")
    shape = next((shape_of(term.type) for term in terms if rank_of(term.type)), ())
    if UNKNOWN not in shape and prod(shape) == 1:
        terms = [term if rank_of(term.type) else emit.reshape(term, *shape) for term in terms]
    return emit.by_row(terms)


def _of_one_element(emit: Emitter, *, to_number: bool, **attrs: Any) -> Written:
    row = emit.row
    x = emit.input(row.inputs[0])
    if rank_of(x.type):
        return emit.by_row(**attrs)
    written = emit.by_row(emit.reshape(x, 1), **attrs)
    return {n: emit.reshape(v) if to_number else v for n, v in written.items()}


def axes_of(x: SSAValue, axes: Sequence[int]) -> Sequence[int]:
    """Return the axes of a reduction; for a 0-D tensor, 0 and -1 mean no axis."""
    return () if not rank_of(x.type) and set(axes) <= {0, -1} else axes


@translates(
    *(t for t in BY_TYPE if t.startswith("reduce_")), "logsumexp", "frobenius_norm", "nanmedian"
)
def reduction(emit: Emitter) -> Written:
    """Translate a reduction; `reduce_all` overrides the axes, `out_dtype` is -1 by default."""
    row, given = emit.row, emit.op.attrs
    attrs: dict[str, Any] = {}
    axes = axes_of(emit.input(row.inputs[0]), emit.several(row.renamed.get("axis", "axis")))
    attrs["axis"] = () if given.get("reduce_all") else axes
    out_dtype = given.get("out_dtype", -1)
    if "dtype" in attr_kinds(row.op):
        attrs["dtype"] = None if out_dtype in (-1, None) else out_dtype
    if row.op is Mean and not dtype_of(emit.input("X").type).is_differentiable:
        return _whole_mean(emit, attrs["axis"], emit.attr("keep_dim"))
    operands = (_sizes(emit, emit.input("X")),) if row.op is PNorm else ()
    return emit.by_row(*operands, **attrs)


def _whole_mean(emit: Emitter, axis: Sequence[int], keepdim: bool) -> Written:
    """Emit the mean of integers without its fraction; for bool, whether any element is true."""
    x, over = emit.input("X"), {"axis": axis, "keepdim": keepdim}
    if dtype_of(x.type) == "bool":
        return emit.results(Out=emit(AnyOf, x, **over))
    count = emit(Sum, emit(FullLike, x, value=1, dtype="int64"), **over, dtype="int64")
    found = emit(Divide, emit(Sum, x, **over, dtype="int64"), count)
    return emit.results(Out=emit(Cast, found, dtype=dtype_of(x.type)))


@translates("p_norm")
def p_norm(emit: Emitter) -> Written:
    """Translate p_norm; `asvector` means all axes, else there is one."""
    axis = () if emit.attr("asvector") else (emit.attr("axis"),)
    return emit.by_row(_sizes(emit, emit.input("X")), axis=axis)


def _sizes(emit: Emitter, x: SSAValue) -> SSAValue:
    """Return the operand of a norm: x, or the magnitudes of complex numbers."""
    return emit(Abs, x) if dtype_of(x.type).is_complex else x


@translates("reduce_as")
def reduce_as(emit: Emitter) -> Written:
    """Sum x over the axes along which the target would broadcast to it.

    These are axes of size 1 of the target, or axes that it lacks, so `pd.sum` is enough unless a
    size is open.
    """
    emit.only("x", "target")
    x, target = emit.input("x"), emit.input("target")
    wanted, rank = shape_of(target.type), rank_of(x.type)
    check_broadcasts(wanted, shape_of(x.type))
    if UNKNOWN in wanted:
        return emit.results(out=emit(ReduceAs, x, target))
    outer = tuple(range(rank - len(wanted)))
    inner = tuple(len(outer) + i for i, size in enumerate(wanted) if size == 1)
    dtype = dtype_of(x.type)
    if inner:
        x = emit(Sum, x, axis=inner, keepdim=True, dtype=dtype)
    return emit.results(out=emit(Sum, x, axis=outer, dtype=dtype) if outer else x)


@translates("l1_norm")
def l1_norm(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=emit(Sum, emit(Abs, emit.input("X"))))


@translates("dist")
def distance(emit: Emitter) -> Written:
    """Emit the norm of x - y, as a 0-D tensor."""
    emit.only("X", "Y")
    difference = emit(Subtract, emit.input("X"), emit.input("Y"))
    return emit.results(Out=emit(PNorm, _sizes(emit, difference), porder=emit.attr("p")))


_TESTS = {"isfinite": (Isfinite, All), "isinf": (Isinf, AnyOf), "isnan": (Isnan, AnyOf)}


@translates(*_TESTS)
def whole_test(emit: Emitter) -> Written:
    """Emit one answer for the whole tensor: all are finite, any is infinite, or any is nan."""
    test, reduce = _TESTS[emit.op.type]
    return emit.results(Out=emit.reshape(emit(reduce, emit(test, emit.input("X"))), 1))


@translates("is_empty")
def is_empty(emit: Emitter) -> Written:
    emit.only("X")
    count = emit(Numel, emit.input("X"))
    return emit.results(Out=emit(Equal, count, emit(FullLike, count, value=0)))
