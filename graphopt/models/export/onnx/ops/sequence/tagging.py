"""Sequence tagging with conditional random fields."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import tagging as ops
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import LAST, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.ops.sequence.layers import (
    combine_rows,
    each,
    ends_of,
    owners_of,
    starts_of,
)
from graphopt.models.export.onnx.registry import exports


class _Steps:
    """Scores in time-major order, [n, tags] or [steps, sequences, tags], and masks of steps.

    `first` and `last` mark the steps where a sequence starts and ends, `inside` the valid steps.
    """

    def __init__(self, emit: Nodes, emission: Value, lengths: Value) -> None:
        if 0 in sizes_of(emission):
            raise NotInOnnx("the sequences have no steps")
        self.emit, self.emission = emit, emission
        self.is_padded = len(sizes_of(emission)) == 3
        self.axis = len(sizes_of(emission)) - 1
        self.lengths = emit.cast(lengths, "int64")
        if self.is_padded:
            self.scores = emit.transpose(emission, (1, 0, 2))
            at = emit.unsqueeze(emit.places(emission, 1), 1)
            last = emit("Sub", self.lengths, emit.number(1, "int64"))
            nothing = emit("Mul", self.lengths, emit.number(0, "int64"))
            self.first = emit("Equal", at, nothing)
            self.last = emit("Equal", at, last)
            self.inside = emit("Less", at, self.lengths)
        else:
            self.scores = emission
            self.owners = owners_of(emit, lengths, emission)
            at, ends = emit.places(emission), ends_of(emit, lengths)
            last = emit("Sub", ends, emit.number(1, "int64"))
            self.first = emit("Equal", at, each(emit, starts_of(emit, lengths), self.owners))
            self.last = emit("Equal", at, each(emit, last, self.owners))
            self.inside = emit("GreaterOrEqual", at, emit.number(0, "int64"))

    def tags(self, label: Value) -> Value:
        """Transpose labels to time-major order."""
        if self.is_padded:
            flat = self.emit.reshape(self.emit.cast(label, "int64"), [0, -1])
            return self.emit.transpose(flat, (1, 0))
        return self.emit.reshape(self.emit.cast(label, "int64"), [-1])

    def at_last(self, values: Value) -> Value:
        """Gather the value at the last step of each sequence; any step's if it is empty."""
        emit, zero, one = self.emit, self.emit.number(0, "int64"), self.emit.number(1, "int64")
        if self.is_padded:
            at = emit("Max", emit("Sub", self.lengths, one), zero)
            pair = emit.unsqueeze(at, 1), emit.unsqueeze(emit.places(self.emission), 1)
            return emit("GatherND", values, emit("Concat", *pair, axis=1))
        at = emit("Max", emit("Sub", ends_of(emit, self.lengths), one), zero)
        return emit("Gather", values, at, axis=0)

    def sums(self, values: Value) -> Value:
        """Sum the values over the steps of each sequence."""
        emit = self.emit
        if self.is_padded:
            counted = emit("Where", self.inside, values, emit.number(0, values))
            return emit("ReduceSum", counted, emit.ints([0]), keepdims=0)
        return combine_rows(emit, values, self.owners, emit.size(self.lengths, 0), "add", 0)


def _start(emit: Nodes, scores: Value) -> Value:
    """Emit zeros for one step."""
    return emit.zeros(emit("Shape", scores, start=1), scores)


def _parts(emit: Nodes, transition: Value) -> tuple[Value, Value, Value]:
    """Split the transition scores into start scores, end scores and the transition matrix."""
    start, end = (emit("Gather", transition, emit.number(at, "int64"), axis=0) for at in (0, 1))
    return start, end, emit.cut(transition, [0], [2], [LAST])


@exports(ops.LinearChainCrf, wide=True)
def linear_chain_crf(
    emit: Nodes, emission: Value, transition: Value, label: Value, lengths: Value
) -> Value:
    steps, (start, end, between) = _Steps(emit, emission, lengths), _parts(emit, transition)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (before,), (own, first) = states, items
        ways = inner("Add", inner.unsqueeze(before, -1), between)
        carried = inner("ReduceLogSumExp", ways, inner.ints([-2]), keepdims=0)
        out = inner("Add", own, inner("Where", inner.unsqueeze(first, -1), start, carried))
        return [out], [out]

    begin = _start(emit, steps.scores)
    _, (forward,) = scan(emit, [begin], [steps.scores, steps.first], step)
    whole = emit("Add", steps.at_last(forward), end)
    whole = emit("ReduceLogSumExp", whole, emit.ints([-1]), keepdims=0)
    tags = steps.tags(label)
    before = emit("Concat", emit.cut(tags, [0], [0], [1]), emit.cut(tags, [0], [0], [-1]), axis=0)
    found = emit.squeeze(
        emit("GatherElements", steps.scores, emit.unsqueeze(tags, -1), axis=steps.axis), -1
    )
    pair = emit("Concat", emit.unsqueeze(before, -1), emit.unsqueeze(tags, -1), axis=-1)
    begins = emit("Gather", start, tags, axis=0)
    moved = emit("Where", steps.first, begins, emit("GatherND", between, pair))
    ends = emit("Where", steps.last, emit("Gather", end, tags, axis=0), emit.number(0, emission))
    total = steps.sums(emit("Add", emit("Add", found, moved), ends))
    some = emit("Greater", steps.lengths, emit.number(0, "int64"))
    out = emit("Where", some, emit("Sub", whole, total), emit.number(0, emission))
    return emit.unsqueeze(out, 1)


@exports(ops.CrfDecoding, wide=True)
def crf_decoding(
    emit: Nodes, emission: Value, transition: Value, lengths: Value, label: Value | None
) -> Value:
    steps, (start, end, between) = _Steps(emit, emission, lengths), _parts(emit, transition)

    def forwards(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (before,), (own, first) = states, items
        ways = inner("Add", inner.unsqueeze(before, -1), between)
        best = inner("ReduceMax", ways, inner.ints([-2]), keepdims=0)
        out = inner("Add", own, inner("Where", inner.unsqueeze(first, -1), start, best))
        return [out], [out, inner("ArgMax", ways, axis=-2, keepdims=0)]

    def backwards(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (after,), (best, last, back) = states, items
        tag = inner("Where", last, best, after)
        place = inner.unsqueeze(tag, -1)
        return [inner.squeeze(inner("GatherElements", back, place, axis=steps.axis - 1), -1)], [tag]

    begin = _start(emit, steps.scores)
    _, (found, back) = scan(emit, [begin], [steps.scores, steps.first], forwards)
    best = emit("ArgMax", emit("Add", found, end), axis=-1, keepdims=0)
    first = emit("Gather", best, emit.number(0, "int64"), axis=0)
    _, (tags,) = scan(emit, [first], [best, steps.last, back], backwards, reverse=True)
    if label is not None:
        tags = emit.cast(emit("Equal", tags, steps.tags(label)), "int64")
    tags = emit("Where", steps.inside, tags, emit.number(0, "int64"))
    return emit.transpose(tags, (1, 0)) if steps.is_padded else emit.unsqueeze(tags, 1)


@exports(ops.ViterbiDecode, wide=True)
def viterbi_decode(
    emit: Nodes, potentials: Value, transition: Value, lengths: Value, include_bos_eos_tag: bool
) -> tuple[Value, Value]:
    """Decode the best tag paths, with as many steps as the longest sequence has."""
    zero = emit.number(0, "int64")
    sizes = emit.cast(lengths, "int64")
    longest = emit.unsqueeze(emit("ReduceMax", sizes, keepdims=0), 0)
    scores = emit.cut(emit.transpose(potentials, (1, 0, 2)), [0], [0], longest)
    inside = emit("Less", emit.unsqueeze(emit.range(longest), 1), sizes)
    start = emit("Gather", scores, zero, axis=0)
    ends = emit("Gather", transition, emit.ints([-1, -2]), axis=0)
    if include_bos_eos_tag:
        start = emit("Add", start, emit.cut(ends, [0], [0], [1]))
    # the first step has no predecessor; its score is the start score
    is_first = emit("Equal", emit.range(longest), zero)

    def forwards(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (before,), (own, is_inside, first) = states, items
        ways = inner("Add", inner.unsqueeze(before, 2), transition)
        best = inner("Add", own, inner("ReduceMax", ways, inner.ints([1]), keepdims=0))
        goes_on = inner("And", inner.unsqueeze(is_inside, 1), inner("Not", first))
        out = inner("Where", goes_on, best, before)
        return [out], [inner("ArgMax", ways, axis=1, keepdims=0)]

    def backwards(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (after,), (back, is_inside) = states, items
        place = inner.unsqueeze(after, 1)
        tag = inner.squeeze(inner("GatherElements", back, place, axis=1), 1)
        return [inner("Where", is_inside, tag, after)], [after]

    (whole,), (back,) = scan(emit, [start], [scores, inside, is_first], forwards)
    if include_bos_eos_tag:
        some = emit.unsqueeze(emit("Greater", sizes, zero), 1)
        stop = emit("Where", some, emit.cut(ends, [0], [1], [2]), emit.number(0, whole))
        whole = emit("Add", whole, stop)
    last = emit("ArgMax", whole, axis=1, keepdims=0)
    # a step yields its tag and continues with the tag before it
    _, (tags,) = scan(emit, [last], [back, inside], backwards, reverse=True)
    path = emit("Where", inside, tags, zero)
    best = emit("ReduceMax", whole, emit.ints([1]), keepdims=0)
    return best, emit.transpose(path, (1, 0))
