"""Messages along the edges of graphs, and reductions of segments of rows."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Add, Cast, Multiply
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.ops.scatter import PutAlongAxis
from graphopt.ir.dialect.ops.shape import Concat, ShapeOf, Slice, Unsqueeze
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

_MESSAGES = {"ADD": Add, "MUL": Multiply}
# Paddle's name of a reduction -> the name in `put_along_axis`
_REDUCTIONS = {"SUM": "add", "MEAN": "mean", "MIN": "amin", "MAX": "amax"}


@translates("graph_send_recv")
def graph_send_recv(emit: Emitter) -> Written:
    """Reduce, for each node, the rows of x that edges bring; zeros for nodes without edges."""
    emit.only("X", "Src_index", "Dst_index", "Out_size")
    rows = emit(Gather, emit.input("X"), emit.input("Src_index"))
    return emit.results(Out=_receive_rows(emit, rows))


@translates("graph_send_ue_recv")
def graph_send_ue_recv(emit: Emitter) -> Written:
    """Reduce, for each node, the rows of x that edges bring, combined with y's row per edge."""
    emit.only("X", "Y", "Src_index", "Dst_index", "Out_size")
    rows = emit(Gather, emit.input("X"), emit.input("Src_index"))
    combine = _MESSAGES[emit.choice("message_op", tuple(_MESSAGES))]
    x, y = _of_one_rank(emit, rows, emit.input("Y"))
    return emit.results(Out=_receive_rows(emit, emit(combine, x, y)))


@translates("graph_send_uv")
def graph_send_uv(emit: Emitter) -> Written:
    """Combine, for each edge, the row of x at its start with the row of y at its end."""
    emit.only("x", "y", "src_index", "dst_index")
    combine = _MESSAGES[emit.choice("message_op", tuple(_MESSAGES))]
    ends = [
        emit(Gather, emit.input(rows), emit.input(index))
        for rows, index in (("x", "src_index"), ("y", "dst_index"))
    ]
    if len({rank_of(end.type) for end in ends}) > 1:
        shapes = " and ".join(str(list(shape_of(end.type))) for end in ends)
        raise ProgramError(f"rows of edges need one rank, found {shapes}; reshape x or y")
    return emit.results(out=emit(combine, *ends))


@translates("segment_pool")
def segment_pool(emit: Emitter) -> Written:
    """Reduce the rows of each segment; the run decides the number of segments."""
    emit.only("X", "SegmentIds")
    ids = emit(Cast, emit.input("SegmentIds"), dtype="int64")
    count = emit.scale(emit(Max, ids, axis=(0,), keepdim=True), 1.0, 1.0)
    kind = _REDUCTIONS[emit.choice("pooltype", tuple(_REDUCTIONS))]
    return emit.results(Out=_reduce_rows(emit, emit.input("X"), ids, count, kind))


def _receive_rows(emit: Emitter, rows: SSAValue) -> SSAValue:
    """Reduce the rows that reach each node; the node count is `out_size` or the rows of x."""
    wanted = emit.several("out_size") if "out_size" in emit.op.attrs else ()
    given = emit.inputs("Out_size")
    if given:
        count = emit.reshape(emit(Cast, given[0], dtype="int64"), 1)
    elif wanted and int(wanted[0]) > 0:
        count = emit(Full, shape=(1,), value=float(wanted[0]), dtype="int64")
    else:
        count = emit(Slice, emit(ShapeOf, emit.input("X")), axes=(0,), starts=(0,), ends=(1,))
        count = emit(Cast, count, dtype="int64")
    kind = _REDUCTIONS[emit.choice("reduce_op", tuple(_REDUCTIONS))]
    return _reduce_rows(emit, rows, emit(Cast, emit.input("Dst_index"), dtype="int64"), count, kind)


def _reduce_rows(
    emit: Emitter, rows: SSAValue, ids: SSAValue, count: SSAValue, kind: str
) -> SSAValue:
    """Reduce the rows of each id below `count`; zeros for ids without rows."""
    rank = rank_of(rows.type)
    shape = count
    if rank > 1:
        own = emit(Cast, emit(ShapeOf, rows), dtype="int64")
        rest = emit(Slice, own, axes=(0,), starts=(1,), ends=(rank,))
        shape = emit(Concat, [count, rest], axis=0)
    attrs = {"value": 0.0, "dtype": dtype_of(rows.type)}
    empty = emit.dynamic(Full, [], attrs, {"shape": shape})[0]
    index = emit.reshape(ids, -1, *[1] * (rank - 1))
    return emit(PutAlongAxis, empty, index, rows, axis=0, reduce=kind, include_self=False)


def _of_one_rank(emit: Emitter, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Insert axes after the first one until x and y have the same rank."""
    wanted = max(rank_of(x.type), rank_of(y.type))

    def widen(value: SSAValue) -> SSAValue:
        missing = wanted - rank_of(value.type)
        return emit(Unsqueeze, value, axis=tuple(range(1, 1 + missing))) if missing else value

    return widen(x), widen(y)
