"""Messages along the edges of graphs, and reductions of segments (paddle.geometric)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.calls import publish
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, gather, reshape
from graphopt.tensor.math import add, divide, max, multiply, scale, subtract
from graphopt.tensor.positions import put_along_axis

_MESSAGES = {"add": add, "sub": subtract, "mul": multiply, "div": divide}
_REDUCTIONS = {"sum": "add", "mean": "mean", "min": "amin", "max": "amax"}


def _column(ids: Variable, rank: int) -> Variable:
    """Reshape ids [e] to [e, 1, ...] of this rank."""
    return reshape(ids, [-1, *[1] * (rank - 1)])


def _reduce_rows(rows: Variable, ids: Variable, size: Any, kind: str) -> Variable:
    """Reduce the rows of each id from 0 to size - 1; ids without rows get zeros."""
    others = [size_of(rows, axis) for axis in range(1, len(rows.shape))]
    empty = full([size, *others], 0, rows.dtype)
    own = _column(cast(ids, "int64"), len(rows.shape))
    return put_along_axis(empty, own, rows, 0, _REDUCTIONS[kind], include_self=False)


def _receive_rows(
    function: str, x: Variable, rows: Variable, dst: Any, reduce_op: str, out_size: Any
) -> Variable:
    kind = arguments.choice(reduce_op, "reduce_op", function, tuple(_REDUCTIONS))
    ids = arguments.variable(dst, "dst_index", function)
    if isinstance(out_size, Variable):
        size: Any = reshape(out_size, [])
    else:
        size = size_of(x, 0) if out_size is None or out_size <= 0 else out_size
    return _reduce_rows(rows, ids, size, kind)


def send_u_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Reduce for each node the rows of x [n, ...] of its incoming edges: [out_size or n, ...].

    Edge i goes from node src_index[i] to node dst_index[i]; nodes without edges get zeros.
    `reduce_op` is sum, mean, min or max. Paddle page: paddle.geometric.send_u_recv.
    """
    rows = gather(arguments.variable(x, "x", "send_u_recv"), src_index)
    return _receive_rows("send_u_recv", x, rows, dst_index, reduce_op, out_size)


def send_ue_recv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Combine rows of x with edge features y [e, ...], and reduce them as `send_u_recv`.

    `message_op` is add, sub, mul or div. Paddle page: paddle.geometric.send_ue_recv.
    """
    function = "send_ue_recv"
    rows = gather(arguments.variable(x, "x", function), src_index)
    kind = arguments.choice(message_op, "message_op", function, tuple(_MESSAGES))
    messages = _MESSAGES[kind](*_of_one_rank(rows, arguments.variable(y, "y", function)))
    return _receive_rows(function, x, messages, dst_index, reduce_op, out_size)


def _of_one_rank(x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Insert axes after the first into x or y, so that both have the same rank."""
    rank = len(x.shape) - len(y.shape)
    if rank > 0:
        return x, reshape(y, [0, *[1] * rank, *y.shape[1:]])
    return (reshape(x, [0, *[1] * -rank, *x.shape[1:]]) if rank else x), y


def send_uv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: str = "add",
    name: str | None = None,
) -> Variable:
    """Combine for each edge its source row of x and its destination row of y: [e, ...].

    `message_op` is add, sub, mul or div. Paddle page: paddle.geometric.send_uv.
    """
    kind = arguments.choice(message_op, "message_op", "send_uv", tuple(_MESSAGES))
    start = gather(arguments.variable(x, "x", "send_uv"), src_index)
    return _MESSAGES[kind](*_of_one_rank(start, gather(y, dst_index)))


def _segments(function: str, data: Any, segment_ids: Any) -> Variable:
    rows = arguments.variable(data, "data", function)
    ids = arguments.variable(segment_ids, "segment_ids", function)
    return _reduce_rows(rows, ids, scale(cast(max(ids), "int64"), 1.0, 1), function.split("_")[1])


def segment_sum(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Sum the rows of each segment (paddle.geometric.segment_sum).

    `segment_ids` [n] has the segment of each row of data [n, ...]. The number of segments is the
    largest id + 1, so the run determines it; an empty segment is zeros.
    """
    return _segments("segment_sum", data, segment_ids)


def segment_mean(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Average the rows of each segment, as `segment_sum` (paddle.geometric.segment_mean)."""
    return _segments("segment_mean", data, segment_ids)


def segment_min(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Find the smallest of each segment's rows, as `segment_sum` (paddle.geometric.segment_min)."""
    return _segments("segment_min", data, segment_ids)


def segment_max(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Find the largest of each segment's rows, as `segment_sum` (paddle.geometric.segment_max)."""
    return _segments("segment_max", data, segment_ids)


_SAMPLING = (
    "it draws or renumbers nodes before a program is fed",
    "NumPy, and feed the numbers of the edges",
)
_REFUSED: Mapping[str, lazy.Refusal] = dict.fromkeys(
    ("reindex_graph", "reindex_heter_graph", "sample_neighbors", "weighted_sample_neighbors"),
    _SAMPLING,
)
lazy.attach(globals(), refused=_REFUSED)
publish(globals(), __name__)
