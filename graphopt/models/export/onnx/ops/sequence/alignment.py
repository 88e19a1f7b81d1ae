"""Alignment of sequences with each other, their masks, and the beams of a search."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import LAST, Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.reduce import log_added
from graphopt.models.export.onnx.registry import exports


@exports(ops.SequenceMask, open=("max_len",))
def sequence_mask(emit: Nodes, x: Value, max_len: int | Value, out_dtype: DType) -> Value:
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    end = emit.number(max_len, "int64") if isinstance(max_len, int) else max_len
    if isinstance(max_len, Value):
        end = emit.reshape(emit.cast(max_len, "int64"), emit.ints([]))
    assert isinstance(end, Value)
    steps = emit.cast(emit("Range", zero, end, one), dtype_of(x))
    return emit.cast(emit("Less", steps, emit.unsqueeze(x, len(sizes_of(x)))), out_dtype)


@exports(ops.GatherTree)
def gather_tree(emit: Nodes, ids: Value, parents: Value) -> Value:
    """Walk from the last step to the first: each beam reads its token and follows its parent."""
    count = emit.reshape(emit.size(ids, 2), emit.ints([]))
    beams = emit("Range", emit.number(0, "int64"), count, emit.number(1, "int64"))
    last = emit("Expand", emit.cast(beams, dtype_of(parents)), emit.shape(ids, 1))

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (beam,) = states
        tokens, origins = (inner("GatherElements", each, beam, axis=1) for each in items)
        return [origins], [tokens]

    _, (found,) = scan(emit, [last], [ids, parents], step, reverse=True)
    return found


def _before(emit: Nodes, x: Value, by: int, fill: Value) -> Value:
    """Shift rows [n, m] right by some places; fill the left with a number."""
    edge = emit("Expand", fill, emit("Concat", emit("Shape", x, end=1), emit.ints([by]), axis=0))
    longer = emit("Concat", edge, x, axis=1)
    return emit.cut(longer, [1], [0], emit("Shape", x, start=1))


@exports(ops.CtcAlign)
def ctc_align(
    emit: Nodes,
    input: Value,
    input_length: Value,
    blank: int,
    merge_repeated: bool,
    padding_value: int,
) -> tuple[Value, Value]:
    """Move kept tokens to the front by sorting: they have the smaller keys."""
    inside = emit(
        "Less", emit.places(input, 1), emit.reshape(emit.cast(input_length, "int64"), [-1, 1])
    )
    kept = emit("And", inside, emit("Not", emit("Equal", input, emit.number(blank, input))))
    if merge_repeated:
        same = emit("Equal", input, _before(emit, input, 1, emit.number(-1, input)))
        kept = emit("And", kept, emit("Not", same))
    removed = emit.cast(emit("Not", kept), "int64")
    width = emit.size(input, 1)
    keys = emit("Add", emit("Mul", removed, width), emit.places(input, 1))
    attrs = {"axis": 1, "largest": 0, "sorted": 1}
    _, order = emit.all("TopK", keys, width, dtypes=(None, "int64"), **attrs)
    count = emit("ReduceSum", emit.cast(kept, "int64"), emit.ints([1]), keepdims=1)
    front = emit("Less", emit.places(input, 1), count)
    found = emit("GatherElements", input, order, axis=1)
    out = emit("Where", front, found, emit.number(padding_value, input))
    return out, emit.cast(count, dtype_of(input_length))


def _least_so_far(emit: Nodes, x: Value) -> Value:
    """Compute the running minimum of the elements [..., m]."""
    places = emit.range(emit("Shape", x, start=-1))
    before = emit("LessOrEqual", emit.unsqueeze(places, 0), emit.unsqueeze(places, 1))
    most = emit.number(np.iinfo(np.int64).max, x)
    seen = emit("Where", before, emit.unsqueeze(x, -2), most)
    return emit("ReduceMin", seen, emit.ints([-1]), keepdims=0)


@exports(ops.EditDistance)
def edit_distance(
    emit: Nodes,
    hyps: Value,
    refs: Value,
    hyps_length: Value | None,
    refs_length: Value | None,
    normalized: bool,
) -> tuple[Value, Value]:
    """Compute a row of the distance table per token, with a column per reference token."""
    batch, one = emit.size(refs, 0), emit.number(1, "int64")

    def counts(lengths: Value | None, x: Value) -> Value:
        if lengths is None:
            return emit("Expand", emit.size(x, 1), batch)
        return emit.reshape(emit.cast(lengths, "int64"), [-1])

    rows, columns = counts(hyps_length, hyps), counts(refs_length, refs)
    width = emit("Add", emit.size(refs, 1), one)
    at = emit.range(width)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (row,), (token, number) = states, items
        other = inner("Not", inner("Equal", refs, inner.unsqueeze(token, 1)))
        changed = inner("Add", inner.cut(row, [1], [0], [-1]), inner.cast(other, "int64"))
        later = inner("Add", row, one)
        best = inner("Min", changed, inner.cut(later, [1], [1], [LAST]))
        new = inner("Concat", inner.cut(later, [1], [0], [1]), best, axis=1)
        # an insertion from any column to the left costs one per step
        new = inner("Add", _least_so_far(inner, inner("Sub", new, at)), at)
        goes_on = inner.unsqueeze(inner("Less", number, rows), 1)
        return [inner("Where", goes_on, new, row)], []

    start = emit("Expand", at, emit("Concat", batch, width, axis=0))
    tokens = emit.transpose(hyps, (1, 0))
    (row,), _ = scan(emit, [start], [tokens, emit.places(hyps, 1)], step)
    place = emit.unsqueeze(columns, 1)
    distance = emit.cast(emit("GatherElements", row, place, axis=1), "float32")
    if normalized:
        distance = emit("Div", distance, emit.cast(place, "float32"))
    return distance, batch


IMPOSSIBLE = -1e30
"""The logarithm of probability 0."""


@exports(ops.WarpCtc, wide=True)
def warpctc(
    emit: Nodes,
    logits: Value,
    label: Value,
    logits_length: Value,
    labels_length: Value,
    blank: int,
    norm_by_times: bool,
) -> Value:
    """Scan the log-probability of all paths to each state: the labels, with blanks around each."""
    longest = sizes_of(label)[1]
    if longest in (UNKNOWN, 0):
        raise NotInOnnx("the length of the labels is open, or 0")
    count, impossible = 2 * longest + 1, emit.number(IMPOSSIBLE, logits)
    label, steps, length = (
        emit.cast(value, "int64") for value in (label, logits_length, labels_length)
    )
    steps, length = (emit.reshape(value, [-1]) for value in (steps, length))
    scores = emit("LogSoftmax", logits, axis=2)
    least = math.log(np.finfo(dtype_of(logits).numpy).tiny)
    scores = emit("Max", scores, emit.number(least, logits))
    # blank, label, blank, label, ..., blank
    blanks = emit.zeros(emit("Shape", label), label, blank)
    pairs = emit("Concat", emit.unsqueeze(blanks, 2), emit.unsqueeze(label, 2), axis=2)
    last = emit.cut(blanks, [1], [0], [1])
    states = emit("Concat", emit.reshape(pairs, [0, 2 * longest]), last, axis=1)
    places = emit.ints(range(count))
    ends = emit.unsqueeze(emit("Mul", length, emit.number(2, "int64")), 1)
    inside = emit("LessOrEqual", places, ends)
    index = emit("Where", inside, states, emit.number(blank, "int64"))
    sizes = emit("Concat", emit.size(logits, 0), emit("Shape", index), axis=0)
    index = emit("Expand", emit.unsqueeze(index, 0), sizes)
    emitted = emit("GatherElements", scores, index, axis=2)
    # a label may directly follow a different label
    two_before = _before(emit, states, 2, emit.number(blank, "int64"))
    odd = emit.constant(np.arange(count) % 2 == 1)
    first = emit.constant(np.arange(count) < 2)
    differs = emit("Not", emit("Or", emit("Equal", states, two_before), first))
    skips = emit("And", differs, odd)

    def step(inner: Nodes, values: Values, items: Values) -> tuple[Values, Values]:
        (alpha,), (found, time) = values, items
        jumped = inner("Where", skips, _before(inner, alpha, 2, impossible), impossible)
        reached = log_added(inner, alpha, _before(inner, alpha, 1, impossible))
        reached = inner("Add", log_added(inner, reached, jumped), found)
        goes_on = inner.unsqueeze(inner("Less", time, steps), 1)
        return [inner("Where", goes_on, reached, alpha)], []

    begin = emit.constant(np.where(np.arange(count), IMPOSSIBLE, 0).astype(dtype_of(logits).numpy))
    start = emit("Expand", begin, emit("Shape", states))
    (alpha,), _ = scan(emit, [start], [emitted, emit.places(logits, 0)], step)
    one, zero = emit.number(1, "int64"), emit.number(0, "int64")
    label_end = emit("Max", emit("Sub", ends, one), zero)
    final, before = (emit("GatherElements", alpha, at, axis=1) for at in (ends, label_end))
    before = emit("Where", emit("Greater", ends, zero), before, impossible)
    loss = emit("Neg", log_added(emit, final, before))
    repeats = emit(
        "And",
        emit("Equal", label, _before(emit, label, 1, emit.number(-1, "int64"))),
        emit("Less", emit.ints(range(longest)), emit.unsqueeze(length, 1)),
    )
    more = emit("ReduceSum", emit.cast(repeats, "int64"), emit.ints([1]), keepdims=0)
    short = emit("Greater", emit("Add", length, more), steps)
    loss = emit("Where", emit.unsqueeze(short, 1), emit.number(0, loss), loss)
    empty = emit("Equal", emit("Add", emit("Abs", steps), emit("Abs", length)), zero)
    return emit("Where", emit.unsqueeze(empty, 1), emit.number(math.inf, loss), loss)
