"""Halves of Transformer layers for generated programs, in many of the ways to write them.

Drawing backwards from one shape, as for other patterns, would hardly ever give attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Gelu, LeakyRelu, Relu, Softmax, Tanh
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, GreaterThan, Multiply, Scale, Subtract, Where
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave, Tile, Unbind
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Flatten,
    Reshape,
    ReshapeLike,
    Slice,
    Split,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.signature import FEED, STATE
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.fusion import Fusion
from graphopt.passes.fusions.fuse_dot_product_attention import DotProductAttention
from graphopt.passes.fusions.fused_attention import Attention
from graphopt.passes.fusions.fused_feedforward import FeedForward

Draw = Callable[[Any], Any]
TO_HEADS = (0, 2, 1, 3)


class Builder(Protocol):
    """The interface of a program generator."""

    draw: Draw
    shared: list[SSAValue]

    def leaf(self, kind: str, shape: tuple[int, ...], name: str) -> SSAValue:
        """Add an argument to the function."""
        ...

    def name_of(self, argument: SSAValue) -> str:
        """Return the name of an argument of the function."""
        ...

    def add(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """Append an op and return its first result."""
        ...


class _ProgramWriter:
    """A writer of the common parts, each in one of several ways."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.draw, self.drawn = builder, builder.draw, 0

    def add(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """Add an op, whose result other ops sometimes read, too."""
        value = self.builder.add(op_class, *operands, **attrs)
        if self.draw(st.integers(0, 99)) == 99:
            self.builder.shared.append(value)
        return value

    def maybe(self) -> bool:
        return self.draw(st.booleans())

    def feed(self, *shape: int) -> SSAValue:
        return self.builder.leaf(FEED, shape, "x")

    def weight(self, *shape: int) -> SSAValue:
        return self.builder.leaf(STATE, shape, "w")

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(Add, *((a, b) if self.maybe() else (b, a)))

    def linear(self, x: SSAValue, columns: int, *, bias: bool = True) -> SSAValue:
        size, transposed = shape_of(x.type)[-1], self.draw(st.integers(0, 4)) == 4
        weight = self.weight(*((columns, size) if transposed else (size, columns)))
        out = self.add(Matmul, x, weight, transpose_y=transposed)
        return self.plus(out, self.weight(columns)) if bias else out

    def norm(self, x: SSAValue) -> SSAValue:
        size = shape_of(x.type)[-1]
        vectors = (self.weight(size), self.weight(size)) if self.maybe() else ()
        return self.add(LayerNorm, x, *vectors, begin_norm_axis=len(shape_of(x.type)) - 1)

    def dropout(self, x: SSAValue) -> SSAValue:
        if self.maybe():
            return x
        self.drawn += 1
        mode = self.draw(st.sampled_from(["upscale_in_train", "downgrade_in_infer"]))
        # all in training: dropouts of one layer must agree
        return self.add(Dropout, x, p=0.25, mode=mode, rng_id=self.drawn)

    def scale(self, x: SSAValue) -> SSAValue:
        way = self.draw(st.integers(0, 3))
        if way == 0:
            return x
        if way == 1:
            return self.add(Scale, x, scale=0.5)
        number = self.builder.add(Full, shape=(1,), value=2.0)
        return self.add(Divide, x, number) if way == 2 else self.add(Multiply, number, x)

    def core(self, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        """Build softmax(q k^T) v, with or without a scale, a mask and dropout."""
        early = self.maybe()
        q = self.scale(q) if early else q
        if self.maybe():
            rank = len(shape_of(k.type))
            k = self.add(Transpose, k, perm=(*range(rank - 2), rank - 1, rank - 2))
            scores = self.add(Matmul, q, k)
        else:
            scores = self.add(Matmul, q, k, transpose_y=True)
        weights = self.add(Softmax, self.mask(scores if early else self.scale(scores)))
        return self.add(Matmul, self.dropout(weights), v)

    def mask(self, scores: SSAValue) -> SSAValue:
        shape = tuple(1 if self.maybe() else dim for dim in shape_of(scores.type))
        way = self.draw(st.integers(0, 6))
        if way == 0:
            return scores
        if way == 5:
            scores = self.plus(scores, self.feed(*shape)) if self.maybe() else scores
            return self.add(Subtract, self.scale(scores), self.feed(*shape))
        if way == 6:
            return self.in_windows(scores)
        if way < 3:
            scores = self.plus(scores, self.feed(*shape))
            return scores if way == 1 else self.plus(self.scale(scores), self.feed(*shape[1:]))
        zero = self.builder.add(Full, shape=(), value=0.0)
        fill = self.builder.add(Full, shape=(), value=-3.0)
        condition = self.builder.add(GreaterThan, self.feed(*shape), zero)
        return self.add(Where, condition, *((scores, fill) if way == 3 else (fill, scores)))

    def in_windows(self, scores: SSAValue) -> SSAValue:
        """Mask the scores of each window of an image, if there are more axes than two."""
        first, *rest = shape_of(scores.type)
        if len(rest) < 2:
            return scores
        if self.maybe():
            scores = self.plus(scores, self.feed(*rest))
        images = 2 if first % 2 == 0 and self.maybe() else 1
        apart = self.add(Reshape, scores, shape=(images, first // images, *rest))
        mask = self.feed(1 if self.maybe() else images, first // images, *(1 for _ in rest))
        joined = self.add(Reshape, self.plus(apart, mask), shape=(first, *rest))
        return self.scale(joined)

    def rest(self, branch: SSAValue, x: SSAValue, where: str) -> SSAValue:
        """Add dropout, residual and norm."""
        branch = self.dropout(branch)
        if shape_of(branch.type) == shape_of(x.type) and self.maybe():
            branch = self.plus(x, branch)
        return self.norm(branch) if where == "post" else branch


def core(builder: Builder, fusion: Fusion) -> SSAValue:
    """Build attention without its layers."""
    write = _ProgramWriter(builder)
    batch = builder.draw(st.sampled_from([(), (2,), (2, 2)]))
    rows, others, size, out = (builder.draw(st.integers(1, 3)) for _ in range(4))
    shapes = ((rows, size), (others, size), (others, out))
    return write.core(*(write.feed(*batch, *shape) for shape in shapes))


def attention(builder: Builder, fusion: Fusion) -> SSAValue:
    """Build multi-head attention in the form that a rule matches."""
    assert isinstance(fusion, Attention)
    write = _ProgramWriter(builder)
    heads, size, rows, columns = (builder.draw(st.integers(1, 2)) for _ in range(4))
    rows, columns = rows + 1, columns + 3
    x = write.feed(2, rows, columns)
    source = write.norm(x) if fusion.where == "pre" else x
    bias = write.maybe()

    def project(x: SSAValue, count: int) -> SSAValue:
        return write.linear(x, count * size, bias=bias)

    if fusion.kind in ("self", "cross"):
        form = _Form(write, heads, size, rows, joint=False)
        memory = [source, source]
        if fusion.kind == "cross":
            memory = (
                [write.feed(2, 2, columns)] * 2
                if write.maybe()
                else [write.feed(2, 3, columns), write.feed(2, 3, 2)]
            )
        elif write.maybe():
            form.turn()
        sources = zip((source, *memory), (heads, form.kv_heads, form.kv_heads), strict=True)
        parts = [project(s, count) for s, count in sources]
        parts = [form.in_heads(part, number) for number, part in enumerate(parts)]
    else:
        form = _Form(write, heads, size, rows, joint=True)
        parts = _joint(write, project(source, 3 * heads), heads, size, fusion.kind)
        parts = [form.finish(part, number) for number, part in enumerate(parts)]
    transposed = write.add(Transpose, write.core(parts[0], parts[1], parts[2]), perm=TO_HEADS)
    way = write.draw(st.integers(0, 2))
    if way == 0:
        joined = write.add(Flatten, transposed, start_axis=2)
    elif way == 1:
        joined = write.add(Reshape, transposed, shape=(0, 0, heads * size))
    else:
        joined = write.add(ReshapeLike, transposed, x, shape=(0, 0, heads * size))
    return write.rest(write.linear(joined, columns, bias=write.maybe()), x, fusion.where)


class _Form:
    """The form of heads of queries, keys and values.

    It may have positions, a cache, and fewer heads of keys.
    """

    def __init__(
        self, write: _ProgramWriter, heads: int, size: int, rows: int, *, joint: bool
    ) -> None:
        self.write, self.heads, self.size, self.rows = write, heads, size, rows
        self.kv_heads = heads if joint or write.maybe() else 1
        self.by_time = not joint and write.maybe()
        self.caches, self.turns = write.maybe(), list[SSAValue]()

    def turn(self) -> None:
        """Give the heads rotary positions, where they have halves."""
        if self.size % 2 == 0:
            shape = (self.rows, 1, self.size) if self.by_time else (self.rows, self.size)
            self.turns = [self.write.feed(*shape) for _ in range(2)]

    def in_heads(self, x: SSAValue, part: int) -> SSAValue:
        """Split a projection into heads of queries, keys or values, by the number `part`."""
        count = self.kv_heads if part else self.heads
        x = self.write.add(Reshape, x, shape=(0, 0, count, self.size))
        if not self.by_time:
            x = self.write.add(Transpose, x, perm=TO_HEADS)
        x = self.finish(self.rotate(x) if part < 2 else x, part)
        return self.write.add(Transpose, x, perm=TO_HEADS) if self.by_time else x

    def rotate(self, x: SSAValue) -> SSAValue:
        """Rotate heads by the positions."""
        if not self.turns:
            return x
        write, last, half = self.write, 3, self.size // 2
        first, second = (
            write.add(Slice, x, axes=(last,), starts=(at,), ends=(at + half,)) for at in (0, half)
        )
        swapped = write.add(Concat, [write.add(Scale, second, scale=-1.0), first], axis=last)
        turns = zip((x, swapped), self.turns, strict=True)
        return write.plus(*(write.add(Multiply, *pair) for pair in turns))

    def finish(self, x: SSAValue, part: int) -> SSAValue:
        """Append keys and values to a cache, and repeat heads for all queries they serve."""
        write = self.write
        if part == 0:
            return x
        length = 1 if self.by_time else 2
        if self.caches:
            shape = list(shape_of(x.type))
            shape[length] = 2
            x = write.builder.add(Concat, [write.feed(*shape), x], axis=length)
            if write.draw(st.integers(0, 3)) == 0:
                write.builder.shared.append(x)
        count = self.heads // self.kv_heads
        if count == 1:
            return x
        if not self.by_time or write.maybe():
            return write.add(RepeatInterleave, x, repeats=count, axis=3 - length)
        wide = write.add(Unsqueeze, x, axis=(3,))
        wide = write.add(Tile, wide, repeat_times=(1, 1, 1, count, 1))
        return write.add(Reshape, wide, shape=(0, 0, self.heads, self.size))


def _to_heads(write: _ProgramWriter, x: SSAValue, heads: int) -> SSAValue:
    size = shape_of(x.type)[-1] // heads
    return write.add(Transpose, write.add(Reshape, x, shape=(0, 0, heads, size)), perm=TO_HEADS)


def _joint(write: _ProgramWriter, x: SSAValue, heads: int, size: int, kind: str) -> list[SSAValue]:
    """Split one joint projection in one of several ways."""
    way = write.draw(st.integers(0, 2))

    def apart(x: SSAValue, axis: int, *, drops: bool) -> list[SSAValue]:
        """Split x into three equal parts along an axis, and remove the axis if it `drops`."""
        length = shape_of(x.type)[axis] // 3
        if kind == "slices":
            cuts = [{"starts": (i * length,), "ends": ((i + 1) * length,)} for i in range(3)]
            dropped = (axis,) if drops else ()
            return [write.add(Slice, x, axes=(axis,), decrease_axis=dropped, **cut) for cut in cuts]
        first = write.add(Unbind, x, axis=axis) if drops else write.add(Split, x, axis=axis, num=3)
        return list(first.owner.results)  # pyright: ignore

    if way == 0:
        five = write.add(Reshape, x, shape=(0, 0, 3, heads, size))
        return apart(write.add(Transpose, five, perm=(2, 0, 3, 1, 4)), 0, drops=True)
    if way == 1:
        return [_to_heads(write, part, heads) for part in apart(x, 2, drops=False)]
    mixed = write.add(Reshape, x, shape=(0, 0, heads, 3 * size))
    return [write.add(Transpose, p, perm=TO_HEADS) for p in apart(mixed, 3, drops=False)]


def feed_forward(builder: Builder, fusion: Fusion) -> SSAValue:
    """Build two linear layers with an activation between them."""
    assert isinstance(fusion, FeedForward)
    write = _ProgramWriter(builder)
    columns = builder.draw(st.integers(3, 4))
    x = write.feed(*builder.draw(st.sampled_from([(2,), (2, 3)])), columns)
    hidden = write.linear(write.norm(x) if fusion.where == "pre" else x, 3, bias=write.maybe())
    act, attrs = builder.draw(
        st.sampled_from(
            [
                (Relu, {}),
                (Tanh, {}),
                (Gelu, {"approximate": True}),
                (LeakyRelu, {"negative_slope": 0.3}),
            ]
        )
    )
    hidden = write.dropout(write.add(act, hidden, **attrs))
    out = columns if write.maybe() else 3
    return write.rest(write.linear(hidden, out, bias=write.maybe()), x, fusion.where)


Planter = Callable[[Builder, Fusion], SSAValue]
PLANTERS: Mapping[type[Fusion], Planter] = {
    DotProductAttention: core,
    Attention: attention,
    FeedForward: feed_forward,
}


def planter_of(fusion: Fusion) -> Planter | None:
    """Find the planter of a fusion's whole pattern, also if the fusion only adds conditions."""
    return next((PLANTERS[kind] for kind in type(fusion).__mro__ if kind in PLANTERS), None)
