"""Decomposition of attention and feed-forward layers that saved models hold as one operator."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, Exp, Subtract
from graphopt.ir.dialect.ops.rearrange import TriangleOf
from graphopt.ir.dialect.ops.reduce import Max, Sum
from graphopt.ir.dialect.ops.shape import Flatten, Reshape, Split, Squeeze, Transpose
from graphopt.ir.dialect.types import rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.fused import dropout, norm, plus
from graphopt.ir.translate.operators.registry import translates


def attention(
    emit: Emitter,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    factor: float,
    mask: SSAValue | None = None,
    drops: tuple[str, str] | None = None,
) -> SSAValue:
    """Emit softmax(factor q kᵀ + mask) v for [batch, heads, length, size]."""
    scores = emit(Matmul, emit.scale(q, factor), k, transpose_y=True)
    scores = scores if mask is None else emit(Add, scores, emit.like(mask, scores))
    shares = emit(Softmax, scores, axis=-1)
    shares = shares if drops is None else dropout(emit, shares, *drops)
    return emit(Matmul, shares, v)


def _heads(emit: Emitter, mixed: SSAValue, heads: int, size: int) -> list[SSAValue]:
    """Split [batch, length, 3 heads size] into q, k and v [batch, heads, length, size]."""
    apart = emit.reshape(mixed, 0, 0, 3, heads, size)
    transposed = emit(Transpose, apart, perm=(2, 0, 3, 1, 4))
    return [emit(Squeeze, part, axis=(0,)) for part in emit.all(Split, transposed, axis=0, num=3)]


def _joined_heads(emit: Emitter, x: SSAValue) -> SSAValue:
    """Reshape [batch, heads, length, size] to [batch, length, heads size]."""
    return emit(Flatten, emit(Transpose, x, perm=(0, 2, 1, 3)), start_axis=2, stop_axis=3)


@translates("multihead_matmul")
def multihead_matmul(emit: Emitter) -> Written:
    """Decompose attention with one weight [hidden, 3, heads, size] for queries, keys and values."""
    emit.only("Input", "W", "Bias", "BiasQK")
    x, weight = emit.input("Input"), emit.input("W")
    heads = emit.attr("head_number")
    total = math.prod(shape_of(weight.type)[1:])
    if heads < 1 or rank_of(x.type) != 3 or total < 0 or total % (3 * heads):
        raise ProgramError(
            f"the shape {list(shape_of(weight.type))} of the weight does not match the queries, "
            f"keys and values of {heads} heads for an input of shape {list(shape_of(x.type))}"
        )
    flat = emit(Reshape, weight, shape=(0, -1))
    mixed = plus(emit, emit(Matmul, x, flat), emit.optional("Bias"))
    q, k, v = _heads(emit, mixed, heads, total // (3 * heads))
    out = attention(emit, q, k, v, emit.attr("alpha"), emit.optional("BiasQK"))
    return emit.results(Out=_joined_heads(emit, out))


@translates("fused_attention")
def fused_attention(emit: Emitter) -> Written:
    """Decompose a layer of self-attention with its norm, residual and dropouts."""
    emit.only(
        *("X", "LnScale", "LnBias", "QKVW", "QKVBias", "SrcMask", "OutLinearW", "OutLinearBias"),
        *("Ln2Scale", "Ln2Bias"),
    )
    if emit.attr("transpose_qkv_wb"):
        raise UnsupportedError("operator fused_attention with transpose_qkv_wb is not supported")
    x, weight = emit.input("X"), emit.input("QKVW")
    if rank_of(weight.type) != 4 or rank_of(x.type) != 3:
        raise ProgramError("fused_attention needs an input of rank 3 and a QKVW of rank 4")
    _, heads, size, _ = shape_of(weight.type)
    before = emit.attr("pre_layer_norm")
    own = x
    if before:
        scale, bias = emit.optional("LnScale"), emit.optional("LnBias")
        own = norm(emit, x, scale, bias, emit.attr("epsilon"), -1)[0]
    flat = emit(Flatten, weight, start_axis=0, stop_axis=2)
    mixed = emit(Matmul, own, flat, transpose_y=True)
    qkv_bias = emit.optional("QKVBias")
    mixed = mixed if qkv_bias is None else emit(Add, mixed, emit.reshape(qkv_bias, -1))
    q, k, v = _heads(emit, mixed, heads, size)
    drops = ("attn_dropout_rate", "attn_dropout_implementation")
    out = attention(emit, q, k, v, size**-0.5, emit.optional("SrcMask"), drops)
    out = emit(Matmul, _joined_heads(emit, out), emit.input("OutLinearW"))
    out = plus(emit, out, emit.optional("OutLinearBias"))
    out = dropout(emit, out, "dropout_rate", "dropout_implementation")
    out = emit(Add, x, out) if emit.attr("add_residual") else out
    if not before:
        scale, bias = emit.optional("Ln2Scale"), emit.optional("Ln2Bias")
        out = norm(emit, out, scale, bias, emit.attr("ln_epsilon"), -1)[0]
    return emit.results(Y=out)


@translates("fused_feedforward")
def fused_feedforward(emit: Emitter) -> Written:
    """Decompose two linear layers with a norm, a residual and dropouts."""
    names = [f"Linear{i}{part}" for i in "12" for part in ("Weight", "Bias")]
    names += [f"Ln{i}{part}" for i in "12" for part in ("Scale", "Bias")]
    emit.only("X", *names)
    x = emit.input("X")
    before = emit.attr("pre_layer_norm")

    def normalize(value: SSAValue, number: int) -> SSAValue:
        scale, bias = (emit.optional(f"Ln{number}{part}") for part in ("Scale", "Bias"))
        return norm(emit, value, scale, bias, emit.attr(f"ln{number}_epsilon"), -1)[0]

    own = normalize(x, 1) if before else x
    own = emit(Matmul, own, emit.input("Linear1Weight"))
    own = plus(emit, own, emit.optional("Linear1Bias"))
    own = emit.activate(own, emit.attr("act_method"))
    own = dropout(emit, own, "dropout1_rate", "dropout1_implementation")
    own = emit(Matmul, own, emit.input("Linear2Weight"))
    own = plus(emit, own, emit.optional("Linear2Bias"))
    own = dropout(emit, own, "dropout2_rate", "dropout2_implementation")
    out = emit(Add, x, own) if emit.attr("add_residual") else own
    return emit.results(Out=out if before else normalize(out, 2))


def _lower_softmax(emit: Emitter, scores: SSAValue) -> SSAValue:
    """Emit the softmax over the elements up to the diagonal."""
    shifted = emit(Subtract, scores, emit(Max, scores, axis=(-1,), keepdim=True))
    powers = emit(TriangleOf, emit(Exp, shifted), diagonal=0, lower=True)
    return emit(Divide, powers, emit(Sum, powers, axis=(-1,), keepdim=True))


@translates("flash_attn")
def flash_attention(emit: Emitter) -> Written:
    """Decompose attention of [batch, length, heads, size]."""
    emit.only("q", "k", "v", "attn_mask")
    if emit.attr("dropout") and not emit.attr("is_test"):
        raise UnsupportedError("operator flash_attn with dropout in training is not supported")
    q, k, v = (emit(Transpose, emit.input(slot), perm=(0, 2, 1, 3)) for slot in "qkv")
    size, mask = shape_of(q.type)[-1], emit.optional("attn_mask")
    if size < 1:
        raise UnsupportedError("operator flash_attn with heads of unknown size is not supported")
    if not emit.attr("causal"):
        out = attention(emit, q, k, v, size**-0.5, mask)
    else:
        if mask is not None:
            raise UnsupportedError(
                "operator flash_attn with causal=True and a mask is not supported"
            )
        scores = emit(Matmul, emit.scale(q, size**-0.5), k, transpose_y=True)
        out = emit(Matmul, _lower_softmax(emit, scores), v)
    return emit.results(out=emit(Transpose, out, perm=(0, 2, 1, 3)))


@translates("fused_softmax_mask")
def softmax_mask(emit: Emitter) -> Written:
    emit.only("X", "Mask")
    total = emit(Add, emit.input("X"), emit.input("Mask"))
    return emit.results(Out=emit(Softmax, total, axis=-1))


@translates("fused_softmax_mask_upper_triangle")
def softmax_triangle(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=_lower_softmax(emit, emit.input("X")))
