"""Attention, linear attention with a state over the steps, and rotary embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.activation import Softmax, Tanh
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Equal,
    Exp,
    GreaterEqual,
    LessEqual,
    LessThan,
    LogicalAnd,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import Pad, RepeatInterleave, StridedSlice
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.ops.shape import Concat, Slice
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads

_NEVER = float("-inf")


@dataclass
class _Frontier:
    """The keys that a query may see by its position: not after it, or within a window around it."""

    is_causal: bool
    left: int
    right: int

    @property
    def is_open(self) -> bool:
        """True where every query sees all keys."""
        return not self.is_causal and self.left < 0 and self.right < 0


@reads("Attention")
def attention(
    emit: OnnxEmitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    mask: SSAValue | None = None,
    past_key: SSAValue | None = None,
    past_value: SSAValue | None = None,
    lengths: SSAValue | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> Sequence[SSAValue]:
    """Compose attention of smaller ops; passes match the part that a kernel computes."""
    kept, flat = dtype(q), rank(q) == 3
    if flat:
        q = _heads(emit, q, q_num_heads)
        k, v = (_heads(emit, value, kv_num_heads) for value in (k, v))
    before: SSAValue | int = 0
    if past_key is not None and past_value is not None:
        before = emit.size(past_key, 2)
        k = emit(Concat, [past_key, k], axis=2)
        v = emit(Concat, [past_value, v], axis=2)
    present = k, v
    repeats = shape(q)[1] // shape(k)[1] if shape(k)[1] > 0 else 1
    if repeats > 1:
        k, v = (emit(RepeatInterleave, value, repeats=repeats, axis=1) for value in (k, v))
    # scales both operands by the root, so that float16 does not overflow
    size = emit.sizes(q, "the sizes of its queries")[3] if scale is None else 1
    root = size**-0.25 if scale is None else scale**0.5
    left, right = emit.scale(q, root), emit.scale(k, root)
    scores = emit(Matmul, left, right, transpose_y=True)
    given = scores
    if softcap:
        scores = emit.scale(emit(Tanh, emit.scale(scores, 1 / softcap)), softcap)
    seen = [scores] * 2 if qk_matmul_output_mode else [given]
    frontier = _Frontier(bool(is_causal), left_window_size, right_window_size)
    bias = _bias(emit, q, k, mask, lengths, before, frontier)
    if bias is not None:
        scores = emit(Add, scores, bias)
    wide = kept if softmax_precision is None else emit.element_type(softmax_precision)
    weights = emit(Softmax, emit.cast(scores, wide), axis=-1)
    if bias is not None:
        weights = _without_blind(emit, weights, bias)
    weights = emit.cast(weights, kept)
    out = emit(Matmul, weights, v)
    if flat:
        joined = emit.transpose(out, (0, 2, 1, 3))
        out = emit.reshape(joined, 0, 0, shape(out)[1] * shape(out)[3])
    exposed = (given, seen[-1], scores, weights)[qk_matmul_output_mode]
    return [out, *present, exposed]


def _heads(emit: OnnxEmitter, x: SSAValue, count: int | None) -> SSAValue:
    """Reshape [batch, length, heads * size] to [batch, heads, length, size]."""
    if not count or shape(x)[2] == UNKNOWN:
        raise emit.refuse("the number of heads is unknown")
    return emit.transpose(emit.reshape(x, 0, 0, count, shape(x)[2] // count), (0, 2, 1, 3))


def _bias(
    emit: OnnxEmitter,
    q: SSAValue,
    k: SSAValue,
    mask: SSAValue | None,
    lengths: SSAValue | None,
    before: SSAValue | int,
    frontier: _Frontier,
) -> SSAValue | None:
    """Emit the bias of the scores: minus infinity for hidden keys; None if no key is hidden."""
    kept = dtype(q)
    bias: SSAValue | None = None
    if mask is not None:
        bias = _to_bias(emit, _widen_mask(emit, mask, emit.size(k, 2)), kept)
    if not frontier.is_open:
        queries, keys = (emit.numbers_to(emit.size(value, 2)) for value in (q, k))
        places = emit.unsqueeze(queries, 1)
        offset = before if isinstance(before, SSAValue) else emit.constant([before], "int64", ())
        if lengths is not None:
            own = emit(Subtract, emit.cast(lengths, "int64"), _as_value(emit, emit.size(q, 2)))
            offset = emit.reshape(own, -1, 1, 1, 1)
        places = emit(Add, places, offset)
        sees = _sees(emit, places, keys, frontier)
        bias = _sum(emit, bias, _to_bias(emit, sees, kept))
    if lengths is not None:
        keys = emit.numbers_to(emit.size(k, 2))
        counts = emit.reshape(emit.cast(lengths, "int64"), -1, 1, 1, 1)
        bias = _sum(emit, bias, _to_bias(emit, emit(LessThan, keys, counts), kept))
    return bias


def _sees(emit: OnnxEmitter, places: SSAValue, keys: SSAValue, frontier: _Frontier) -> SSAValue:
    """Emit the mask of the keys within the window and, if causal, not after the query."""
    found: list[SSAValue] = []
    if frontier.is_causal:
        found.append(emit(LessEqual, keys, places))
    if frontier.left >= 0:
        first = emit(Subtract, places, emit.constant([frontier.left], "int64", ()))
        found.append(emit(GreaterEqual, keys, first))
    if frontier.right >= 0:
        last = emit(Add, places, emit.constant([frontier.right], "int64", ()))
        found.append(emit(LessEqual, keys, last))
    sees = found[0]
    for each in found[1:]:
        sees = emit(LogicalAnd, sees, each)
    return sees


def _widen_mask(emit: OnnxEmitter, mask: SSAValue, length: SSAValue | int) -> SSAValue:
    """Pad a mask of the first keys to all keys; the others are hidden."""
    own = shape(mask)[-1]
    if not isinstance(length, int) or own in (length, UNKNOWN, 1):
        return mask
    around = (0,) * (2 * rank(mask) - 1) + (length - own,)
    if dtype(mask) == "bool":
        return emit.cast(emit(Pad, emit.cast(mask, "uint8"), paddings=around), "bool")
    return emit(Pad, mask, paddings=around, value=_NEVER)


def _to_bias(emit: OnnxEmitter, mask: SSAValue, kind: str) -> SSAValue:
    if dtype(mask) != "bool":
        return mask
    zero = emit.constant([0.0], kind, ())
    return emit(Where, mask, zero, emit.constant([_NEVER], kind, ()))


def _sum(emit: OnnxEmitter, x: SSAValue | None, y: SSAValue) -> SSAValue:
    return y if x is None else emit(Add, x, y)


def _as_value(emit: OnnxEmitter, length: SSAValue | int) -> SSAValue:
    return length if isinstance(length, SSAValue) else emit.constant([length], "int64", ())


def _without_blind(emit: OnnxEmitter, weights: SSAValue, bias: SSAValue) -> SSAValue:
    """Set the weights of queries that see no key to 0."""
    most = emit(Max, bias, axis=(rank(bias) - 1,), keepdim=True)
    is_blind = emit(Equal, most, emit.constant([_NEVER], dtype(bias), ()))
    return emit(Where, is_blind, emit.number(0, weights), weights)


@reads("LinearAttention")
def linear_attention(
    emit: OnnxEmitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    past: SSAValue | None = None,
    decay: SSAValue | None = None,
    beta: SSAValue | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Sequence[SSAValue]:
    """Emit a scan with a state [batch, heads, keys, values] that each step decays and adds to."""
    rule = emit.one_of(update_rule, ("linear", "gated", "delta", "gated_delta"))
    for name, value in (("gated", decay), ("delta", beta)):
        if (name in rule) != (value is not None):
            raise emit.refuse(f"{update_rule!r} {'with' if value else 'without'} its operand")
    if kv_num_heads < 1 or q_num_heads % kv_num_heads:
        raise emit.refuse(
            f"{q_num_heads} query heads are not a multiple of {kv_num_heads} key heads"
        )
    kept, state_kind = dtype(q), dtype(q if past is None else past)
    wide = "float64" if kept == "float64" else "float32"

    def by_step(x: SSAValue, *split: int) -> SSAValue:
        """Reshape [batch, length, all] to [length, batch, *split]."""
        apart = emit.transpose(emit.cast(x, wide), (1, 0, 2))
        return emit.reshape(apart, 0, 0, *split)

    keys, values = (shape(x)[2] // kv_num_heads for x in (k, v))
    queries = by_step(q, kv_num_heads, q_num_heads // kv_num_heads, keys)
    items = [queries, by_step(k, kv_num_heads, keys, 1), by_step(v, kv_num_heads, 1, values)]
    if decay is not None:  # one number per head, or per element of a key
        items.append(by_step(decay, kv_num_heads, shape(decay)[2] // kv_num_heads, 1))
    if beta is not None:  # one number per head, or one for all heads
        items.append(by_step(beta, shape(beta)[2], 1, 1))
    start = emit.zeros((UNKNOWN, kv_num_heads, keys, values), q, 0) if past is None else past

    def step(state: SSAValue, *now: SSAValue) -> Sequence[SSAValue]:
        query, key, value, *gates = now
        if decay is not None:
            state = emit(Multiply, state, emit(Exp, gates[0]))
        if beta is not None:
            known = emit(Matmul, key, state, transpose_x=True)
            value = emit(Multiply, gates[-1], emit(Subtract, value, known))
        state = emit(Add, state, emit(Multiply, key, value))
        return [state, emit(Matmul, query, state), state]

    found, states = emit.scan([emit.cast(start, wide)], items, step)
    out = emit.scale(found, scale or keys**-0.5)
    out = emit.reshape(emit.transpose(out, (1, 0, 2, 3, 4)), 0, 0, q_num_heads * values)
    last = {"axes": (0,), "starts": (-1,), "ends": (END,), "decrease_axis": (0,)}
    return [emit.cast(out, kept), emit.cast(emit(Slice, states, **last), state_kind)]


@reads("RotaryEmbedding")
def rotary_embedding(
    emit: OnnxEmitter,
    x: SSAValue,
    cosines: SSAValue,
    sines: SSAValue,
    positions: SSAValue | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> SSAValue:
    """Rotate pairs of elements of each head: from its two halves, or even and odd elements."""
    flat, sizes = rank(x) == 3, shape(x)
    images = _heads(emit, x, num_heads) if flat else x
    size = shape(images)[3]
    width = rotary_embedding_dim or size
    rotated = _part(emit, images, 0, width) if width != size else images
    if interleaved:
        first, second = (
            emit(StridedSlice, rotated, axes=(3,), starts=(i,), ends=(width,), strides=(2,))
            for i in (0, 1)
        )
    else:
        first, second = _part(emit, rotated, 0, width // 2), _part(emit, rotated, width // 2, width)
    cos, sin = (_turns(emit, value, positions) for value in (cosines, sines))
    real = emit(Subtract, emit(Multiply, cos, first), emit(Multiply, sin, second))
    imaginary = emit(Add, emit(Multiply, sin, first), emit(Multiply, cos, second))
    if interleaved:
        pairs = [emit.unsqueeze(value, 4) for value in (real, imaginary)]
        out = emit.reshape(emit(Concat, pairs, axis=4), 0, 0, 0, width)
    else:
        out = emit(Concat, [real, imaginary], axis=3)
    if width != size:
        out = emit(Concat, [out, _part(emit, images, width, size)], axis=3)
    if not flat:
        return out
    return emit.reshape(emit.transpose(out, (0, 2, 1, 3)), 0, 0, sizes[2])


def _part(emit: OnnxEmitter, x: SSAValue, start: int, end: int) -> SSAValue:
    return emit(Slice, x, axes=(3,), starts=(start,), ends=(end,))


def _turns(emit: OnnxEmitter, cache: SSAValue, positions: SSAValue | None) -> SSAValue:
    """Return the cosines or sines [batch, 1, length, half]: rows at `positions`, or `cache`."""
    if positions is None:
        return emit.unsqueeze(cache, 1)
    rows = emit(Gather, cache, emit.reshape(positions, -1))
    batch, length = shape(positions)
    if UNKNOWN in (batch, length):
        batch, length = emit.sizes(positions, "the sizes of its positions")
    return emit.unsqueeze(emit.to_shape(rows, (batch, length, shape(cache)[-1])), 1)
