"""The distinct elements of a tensor: sorted, or in order of first occurrence."""

from __future__ import annotations

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.dynamic import Unique
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.sort import Argsort
from graphopt.ir.dialect.types import rank_of, show
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("unique", "unique_with_counts")
def unique(emit: Emitter) -> Written:
    """Translate unique; later releases state that they sort, 1.8 keeps the order of occurrence."""
    if emit.attr("is_sorted") or emit.several("axis"):
        return emit.by_row()
    emit.only("X")
    x = emit.input("X")
    if rank_of(x.type) != 1:
        raise ProgramError(f"{emit.op.type} takes a vector, found {show(x.type)}")
    dtype = as_dtype(emit.attr("dtype"))
    found, first, which, counts = emit.all(Unique, x, dtype=dtype)
    order = emit.all(Argsort, first)[1]
    places = emit(Cast, emit.all(Argsort, order)[1], dtype=dtype)
    return emit.results(
        Out=emit(Gather, found, order, axis=0),
        Indices=emit(Gather, first, order, axis=0),
        Index=emit(Gather, places, which, axis=0),
        Counts=emit(Gather, counts, order, axis=0),
        Count=emit(Gather, counts, order, axis=0),
    )
