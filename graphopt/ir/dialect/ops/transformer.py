"""The parts of a Transformer as one op each, built by the attention and feed-forward fusions."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dictionary, flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.linear import check_kernel, matmul_type
from graphopt.ir.dialect.ops.norm import check_vector
from graphopt.ir.dialect.ops.random import Dropout, RandomOp
from graphopt.ir.dialect.ops.shape import Concat
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    rank_of,
    same_dtype,
    shape_of,
)
from graphopt.ir.dialect.types import like as like_type

NORMS = ("none", "pre", "post")
LAYOUTS = ("split", "heads")
ALGORITHMS = ("", "cudnn", "cudnn-causal", "pallas", "xla")


def core_type(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, transpose_k: bool = False
) -> Tensor:
    """Infer the type of softmax(q k^T + mask) v; a boolean mask is false at hidden elements.

    A mask that is added has the dtype of q or, for half types, float32.
    """
    scores = matmul_type(q, k, False, not transpose_k)
    if min(map(rank_of, (q, k, v))) < 2:
        raise ProgramError("attention needs q, k and v of rank 2 or more")
    if not dtype_of(q).is_floating:
        raise OperandError(f"attention needs floating-point tensors, found {dtype_of(q)}")
    if mask is not None:
        is_wide = dtype_of(mask) == "float32" and dtype_of(q) in ("float16", "bfloat16")
        if dtype_of(mask) != "bool" and not is_wide:
            same_dtype(q, mask)
        masked = broadcast_shapes(shape_of(scores), shape_of(mask))
        if len(masked) != rank_of(scores):
            raise ProgramError(f"the mask has more dimensions than the scores {list(masked)}")
        scores = like_type(scores, shape=masked)
    return matmul_type(scores, v, False, False)


@irdl_op_definition
class FusedDotProductAttention(RandomOp):
    """softmax(scaling_factor * q k^T + mask) v, q [..., t, d], k [..., s, d], v [..., s, e].

    With `transpose_k` k is [..., d, s]. Where a boolean mask is false the score is `fill`. Dropout,
    as by pd.dropout, is on the softmax. `algorithm`, set by a pass, names a library's kernel
    (`ALGORITHMS`) for the devices that have it, or XLA's products in its own dtype. A causal kernel
    hides all later keys itself, as the mask does.
    Paddle: fused_dot_product_attention, whose tensors have the heads after the length.
    """

    name = "pd.fused_dot_product_attention"
    q = operand_def(TENSOR)
    k = operand_def(TENSOR)
    v = operand_def(TENSOR)
    mask = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    scaling_factor = number(1.0)
    fill = number(float("-inf"))
    transpose_k = flag(False)
    dropout_probability = number(0.0)
    dropout_implementation = string(
        "upscale_in_train", of=("upscale_in_train", "downgrade_in_infer")
    )
    is_test = flag(False)
    algorithm = string("")

    def draws(self) -> tuple[tuple[int, int], ...]:
        """Return the seed and the RNG id of the dropout; empty without dropout."""
        drops = self.attr("dropout_probability") and not self.attr("is_test")
        return super().draws() if drops else ()

    @staticmethod
    def infer(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        transpose_k: bool,
        dropout_probability: float,
        dropout_implementation: str,
        algorithm: str = "",
    ) -> Tensor:
        if algorithm not in ALGORITHMS:
            raise ProgramError(
                f"algorithm should be one of {list(ALGORITHMS)}, found '{algorithm}'"
            )
        Dropout.infer(q, dropout_probability, dropout_implementation)
        return core_type(q, k, v, mask, transpose_k)


class TwoDropouts(RandomOp, ABC):
    """An op with two dropouts, which draw like the dropouts that it replaces."""

    other_seed = integer(0)
    other_rng_id = integer(0)
    is_test = flag(False)

    # the names of the dropout rates, in the order of the seeds
    RATES: ClassVar[tuple[str, str]]

    def draws(self) -> tuple[tuple[int, int], ...]:
        """Return the seed and the RNG id of both dropouts; empty when neither draws."""
        if self.attr("is_test") or not any(self.attr(rate) for rate in self.RATES):
            return ()
        return (*super().draws(), (self.attr("other_seed"), self.attr("other_rng_id")))


def check_norm(norm: str, x: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
    """Raise ProgramError unless this layer norm fits x, whose last axis it normalizes."""
    if norm not in NORMS:
        raise ProgramError(f"norm should be one of {', '.join(NORMS)}, found '{norm}'")
    if norm == "none" and (scale is not None or bias is not None):
        raise ProgramError("there is a scale or bias but no layer norm")
    check_vector("ln_scale", scale, shape_of(x)[-1])
    check_vector("ln_bias", bias, shape_of(x)[-1])


def linear_type(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Infer the type of x @ weight + bias."""
    if rank_of(weight) != 2 or rank_of(x) < 2:
        raise ProgramError("a linear layer needs a 2-D weight and an input of rank 2 or more")
    out = matmul_type(x, weight, False, False)
    check_vector("bias", bias, shape_of(out)[-1])
    return out


def residual_type(x: Tensor, out: Tensor) -> Tensor:
    """Infer the type of x + out; raise ProgramError unless they have one shape."""
    shape = broadcast_shapes(shape_of(x), shape_of(out))
    if len(shape) != rank_of(x) or any(
        UNKNOWN not in (a, b) and a != b for a, b in zip(shape_of(x), shape_of(out), strict=True)
    ):
        raise ProgramError(f"the residual {list(shape_of(x))} is not like {list(shape_of(out))}")
    return like_type(out, shape=shape)


@irdl_op_definition
class FusedAttention(TwoDropouts):
    """Multi-head attention: norm, projections, attention, output layer, dropout, residual, norm.

    x is [n, t, c]; `memory` is empty (keys and values come from x), or one source [n, s, c'] of
    both, or two. `qkv_weight` is one [c, 3 * heads * d] or three matrices, `qkv_bias` likewise, or
    empty. `layout` is the order of a joint projection: q, k and v one after the other ("split"), or
    head by head ("heads"). `norm` is "pre" (of x), "post" (of the result) or "none".

    With `num_kv_heads` there are fewer heads of keys and values, each shared by consecutive heads
    of queries. `rotary` is empty, or the cosines and sines, which broadcast to [n, heads, t, d] and
    rotate the halves of each head of q and k. `cache` is empty, or the keys and values [n, heads,
    s, d] ([n, s, heads, d] where `cache_by_time`) that precede the new ones; then all keys and all
    values are results too. The rows of the attention are joined to [n, t, heads * d], or to the
    first `like_axes` sizes of `like`. `kernel` is the library that computes the products with
    weights, as for matmul.
    Paddle: fused_attention; rotary_emb_dims and cache_kv of fused_multi_transformer.
    """

    name = "pd.fused_attention"
    x = operand_def(TENSOR)
    memory = var_operand_def(TENSOR)
    qkv_weight = var_operand_def(TENSOR)
    qkv_bias = var_operand_def(TENSOR)
    mask = opt_operand_def(TENSOR)
    linear_weight = operand_def(TENSOR)
    linear_bias = opt_operand_def(TENSOR)
    ln_scale = opt_operand_def(TENSOR)
    ln_bias = opt_operand_def(TENSOR)
    rotary = var_operand_def(TENSOR)
    cache = var_operand_def(TENSOR)
    like = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    cache_out = var_result_def(TENSOR)
    num_heads = integer()
    num_kv_heads = integer(0)
    layout = string("split", of=LAYOUTS)
    scaling_factor = number(1.0)
    fill = number(float("-inf"))
    norm = string("none", of=NORMS)
    epsilon = number(1e-5)
    add_residual = flag(True)
    attn_dropout_rate = number(0.0)
    attn_dropout_implementation = string(
        "upscale_in_train", of=("upscale_in_train", "downgrade_in_infer")
    )
    dropout_rate = number(0.0)
    dropout_implementation = string(
        "upscale_in_train", of=("upscale_in_train", "downgrade_in_infer")
    )
    cache_by_time = flag(False)
    like_axes = integer(2)
    kernel = string("")

    irdl_options = (SEGMENTS,)
    RATES: ClassVar[tuple[str, str]] = ("attn_dropout_rate", "dropout_rate")

    @staticmethod
    def infer(
        x: Tensor,
        memory: Sequence[Tensor],
        qkv_weight: Sequence[Tensor],
        qkv_bias: Sequence[Tensor],
        mask: Tensor | None,
        linear_weight: Tensor,
        linear_bias: Tensor | None,
        ln_scale: Tensor | None,
        ln_bias: Tensor | None,
        rotary: Sequence[Tensor],
        cache: Sequence[Tensor],
        like: Tensor | None,
        num_heads: int,
        num_kv_heads: int,
        layout: str,
        norm: str,
        add_residual: bool,
        attn_dropout_rate: float,
        attn_dropout_implementation: str,
        dropout_rate: float,
        dropout_implementation: str,
        cache_by_time: bool,
        like_axes: int,
        kernel: str = "",
    ) -> tuple[Tensor, ...]:
        check_kernel(kernel)
        Dropout.infer(x, attn_dropout_rate, attn_dropout_implementation)
        Dropout.infer(x, dropout_rate, dropout_implementation)
        if rank_of(x) != 3:
            raise ProgramError(f"x should be [n, length, size], found {list(shape_of(x))}")
        if layout not in LAYOUTS:
            raise ProgramError(f"layout should be split or heads, found '{layout}'")
        kv_heads = num_kv_heads or num_heads
        q, k, v = _project(x, memory, qkv_weight, qkv_bias, num_heads, kv_heads)
        q, k = _rotated_type(q, rotary), _rotated_type(k, rotary)
        kept = _join_cache((k, v), cache, by_time=cache_by_time)
        k, v = (_repeat_heads(part, num_heads // kv_heads) for part in kept or (k, v))
        joined = _join_heads(core_type(q, k, v, mask), like, like_axes)
        out = linear_type(joined, linear_weight, linear_bias)
        check_norm(norm, x if norm == "pre" else out, ln_scale, ln_bias)
        out = residual_type(x, out) if add_residual else out
        return (out, *(_by_time(part) if cache_by_time else part for part in kept))


def _project(
    x: Tensor,
    memory: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    heads: int,
    kv_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Infer the types of q, k and v as [n, heads, length, size]."""
    if len(weights) not in (1, 3) or len(biases) not in (0, len(weights)) or len(memory) > 2:
        raise ProgramError(
            "fused_attention takes one or three weights, as many biases or none, and two other "
            f"sources at most; found {len(weights)}, {len(biases)} and {len(memory)}"
        )
    if len(weights) == 1 and (memory or kv_heads != heads):
        raise ProgramError("a joint projection has one source, and as many heads of each kind")
    if kv_heads < 1 or heads % kv_heads:
        raise ProgramError(f"{heads} heads cannot share {kv_heads} heads of keys and values")
    key = memory[0] if memory else x
    sources = (x, key, memory[-1] if memory else x)[: len(weights)]
    bias = biases or (None,) * len(weights)
    parts = [linear_type(*each) for each in zip(sources, weights, bias, strict=True)]
    if len(parts) == 1:
        q, k, v = (_in_heads(part, heads, 3 * heads) for part in parts * 3)
        return q, k, v
    q, k, v = parts
    return (
        _in_heads(q, heads, heads),
        _in_heads(k, kv_heads, kv_heads),
        _in_heads(v, kv_heads, kv_heads),
    )


def _in_heads(x: Tensor, heads: int, ways: int) -> Tensor:
    if rank_of(x) != 3:
        raise ProgramError(f"projections should be [n, length, size], found {list(shape_of(x))}")
    batch, length, columns = shape_of(x)
    if heads < 1 or (columns != UNKNOWN and columns % ways):
        raise ProgramError(f"{columns} columns cannot be shared out among {ways} heads")
    size = UNKNOWN if columns == UNKNOWN else columns // ways
    return like_type(x, shape=(batch, heads, length, size))


def _rotated_type(x: Tensor, rotary: Sequence[Tensor]) -> Tensor:
    """Infer the type of x rotated by cosines and sines."""
    if len(rotary) not in (0, 2):
        raise ProgramError(f"rotary should be the cosines and the sines, found {len(rotary)}")
    shape, size = shape_of(x), shape_of(x)[-1]
    if rotary and size % 2 and size != UNKNOWN:
        raise ProgramError(f"heads of {size} have no halves to turn")
    for each in rotary:
        same_dtype(x, each)
        shape = broadcast_shapes(shape, shape_of(each))
    if len(shape) != 4 or (UNKNOWN not in (size, shape[-1]) and shape[-1] != size):
        raise ProgramError(f"the cosines and sines do not fit heads {list(shape_of(x))}")
    return like_type(x, shape=shape)


def _join_cache(
    parts: tuple[Tensor, Tensor], cache: Sequence[Tensor], *, by_time: bool
) -> tuple[Tensor, ...]:
    """Infer the types of cached and new keys and values joined; empty without a cache."""
    if len(cache) not in (0, 2):
        raise ProgramError(f"cache should be the keys and the values, found {len(cache)}")
    found: list[Tensor] = []
    for part, before in zip(parts, cache, strict=False):
        same_dtype(part, before)
        if rank_of(before) != 4:
            raise ProgramError(f"a cache should have 4 dimensions, found {list(shape_of(before))}")
        before = _by_time(before) if by_time else before
        found.append(Concat.infer((before, part), 2))
    return tuple(found)


def _by_time(x: Tensor) -> Tensor:
    a, b, c, d = shape_of(x)
    return like_type(x, shape=(a, c, b, d))


def _repeat_heads(x: Tensor, times: int) -> Tensor:
    batch, heads, length, size = shape_of(x)
    return like_type(x, shape=(batch, UNKNOWN if heads < 0 else heads * times, length, size))


def _join_heads(core: Tensor, like: Tensor | None, axes: int) -> Tensor:
    """Infer the type of joined heads [n, heads, t, d], in the rows of `like` if present."""
    batch, heads, length, size = shape_of(core)
    columns = UNKNOWN if UNKNOWN in (heads, size) else heads * size
    if like is not None:
        if axes not in (1, 2) or rank_of(like) < axes:
            raise ProgramError(f"{list(shape_of(like))} has no {axes} sizes to be taken, 1 or 2")
        batch, length = (*shape_of(like)[:axes], UNKNOWN)[:2]
    return like_type(core, shape=(batch, length, columns))


@irdl_op_definition
class FusedFeedforward(TwoDropouts):
    """norm, linear1, activation, dropout1, linear2, dropout2, residual, norm on x [..., c].

    `norm` is "pre" (of x), "post" (of the result) or "none"; `act_attrs` are properties of the
    activation's op, and `kernel` the library that computes the products, as for matmul.
    Paddle: fused_feedforward.
    """

    name = "pd.fused_feedforward"
    x = operand_def(TENSOR)
    linear1_weight = operand_def(TENSOR)
    linear1_bias = opt_operand_def(TENSOR)
    linear2_weight = operand_def(TENSOR)
    linear2_bias = opt_operand_def(TENSOR)
    ln_scale = opt_operand_def(TENSOR)
    ln_bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    norm = string("none", of=NORMS)
    epsilon = number(1e-5)
    act_method = string("relu")
    act_attrs = dictionary({})
    add_residual = flag(True)
    dropout1_rate = number(0.0)
    dropout1_implementation = string(
        "upscale_in_train", of=("upscale_in_train", "downgrade_in_infer")
    )
    dropout2_rate = number(0.0)
    dropout2_implementation = string(
        "upscale_in_train", of=("upscale_in_train", "downgrade_in_infer")
    )
    kernel = string("")

    irdl_options = (SEGMENTS,)
    RATES: ClassVar[tuple[str, str]] = ("dropout1_rate", "dropout2_rate")

    @staticmethod
    def infer(
        x: Tensor,
        linear1_weight: Tensor,
        linear1_bias: Tensor | None,
        linear2_weight: Tensor,
        linear2_bias: Tensor | None,
        ln_scale: Tensor | None,
        ln_bias: Tensor | None,
        norm: str,
        act_method: str,
        act_attrs: DictionaryAttr,
        add_residual: bool,
        dropout1_rate: float,
        dropout1_implementation: str,
        dropout2_rate: float,
        dropout2_implementation: str,
        kernel: str = "",
    ) -> Tensor:
        check_kernel(kernel)
        Dropout.infer(x, dropout1_rate, dropout1_implementation)
        Dropout.infer(x, dropout2_rate, dropout2_implementation)
        hidden = linear_type(x, linear1_weight, linear1_bias)
        out = linear_type(hidden, linear2_weight, linear2_bias)
        check_norm(norm, x if norm == "pre" else out, ln_scale, ln_bias)
        return residual_type(x, out) if add_residual else out
