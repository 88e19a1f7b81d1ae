"""Attention and feed-forward layers that saved models hold as one operator, taken apart."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, Exp, Subtract
from graphopt.ir.dialect.ops.rearrange import TriangleOf
from graphopt.ir.dialect.ops.reduce import Max, Sum
from graphopt.ir.dialect.ops.shape import Flatten, Reshape, Split, Squeeze, Transpose
from graphopt.ir.dialect.types import rank_of, shape_of
from graphopt.ir.translate.operators.fused import dropout, norm, plus
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation


def attention(
    make: Maker,
    q: SSAValue,
    k: SSAValue,
    v: SSAValue,
    factor: float,
    mask: SSAValue | None = None,
    drops: tuple[str, str] | None = None,
) -> SSAValue:
    """softmax(factor q kᵀ + mask) v of [batch, heads, length, size]."""
    scores = make(Matmul, make.scaled(q, factor), k, transpose_y=True)
    scores = scores if mask is None else make(Add, scores, make.like(mask, scores))
    shares = make(Softmax, scores, axis=-1)
    shares = shares if drops is None else dropout(make, shares, *drops)
    return make(Matmul, shares, v)


def _heads(make: Maker, mixed: SSAValue, heads: int, size: int) -> list[SSAValue]:
    """Queries, keys and values [batch, heads, length, size] of [batch, length, 3 heads size]."""
    apart = make.reshaped(mixed, 0, 0, 3, heads, size)
    transposed = make(Transpose, apart, perm=(2, 0, 3, 1, 4))
    return [make(Squeeze, part, axis=(0,)) for part in make.all(Split, transposed, axis=0, num=3)]


def _joined_heads(make: Maker, x: SSAValue) -> SSAValue:
    """[batch, heads, length, size] as [batch, length, heads size]."""
    return make(Flatten, make(Transpose, x, perm=(0, 2, 1, 3)), start_axis=2, stop_axis=3)


def _multihead_matmul(make: Maker) -> Written:
    """One weight [hidden, 3, heads, size] for queries, keys and values."""
    make.only("Input", "W", "Bias", "BiasQK")
    x, weight = make.input("Input"), make.input("W")
    heads = make.attr("head_number", 1)
    total = math.prod(shape_of(weight.type)[1:])
    if heads < 1 or rank_of(x.type) != 3 or total < 0 or total % (3 * heads):
        raise ProgramError(
            f"a weight {list(shape_of(weight.type))} is not queries, keys and values of "
            f"{heads} heads for an input {list(shape_of(x.type))}"
        )
    flat = make(Reshape, weight, shape=(0, -1))
    mixed = plus(make, make(Matmul, x, flat), make.optional("Bias"))
    q, k, v = _heads(make, mixed, heads, total // (3 * heads))
    out = attention(make, q, k, v, make.attr("alpha", 1.0), make.optional("BiasQK"))
    return make.results(Out=_joined_heads(make, out))


def _fused_attention(make: Maker) -> Written:
    """A layer of self-attention with its norm, residual and dropouts."""
    make.only(
        *("X", "LnScale", "LnBias", "QKVW", "QKVBias", "SrcMask", "OutLinearW", "OutLinearBias"),
        *("Ln2Scale", "Ln2Bias"),
    )
    if make.attr("transpose_qkv_wb", False):
        raise UnsupportedError("fused_attention with transpose_qkv_wb")
    x, weight = make.input("X"), make.input("QKVW")
    if rank_of(weight.type) != 4 or rank_of(x.type) != 3:
        raise ProgramError("fused_attention needs an input of rank 3 and a QKVW of rank 4")
    _, heads, size, _ = shape_of(weight.type)
    before = make.attr("pre_layer_norm", False)
    own = x
    if before:
        scale, bias = make.optional("LnScale"), make.optional("LnBias")
        own = norm(make, x, scale, bias, make.attr("epsilon", 1e-5), -1)[0]
    flat = make(Flatten, weight, start_axis=0, stop_axis=2)
    mixed = make(Matmul, own, flat, transpose_y=True)
    qkv_bias = make.optional("QKVBias")
    mixed = mixed if qkv_bias is None else make(Add, mixed, make.reshaped(qkv_bias, -1))
    q, k, v = _heads(make, mixed, heads, size)
    drops = ("attn_dropout_rate", "attn_dropout_implementation")
    out = attention(make, q, k, v, size**-0.5, make.optional("SrcMask"), drops)
    out = make(Matmul, _joined_heads(make, out), make.input("OutLinearW"))
    out = plus(make, out, make.optional("OutLinearBias"))
    out = dropout(make, out, "dropout_rate", "dropout_implementation")
    out = make(Add, x, out) if make.attr("add_residual", True) else out
    if not before:
        scale, bias = make.optional("Ln2Scale"), make.optional("Ln2Bias")
        out = norm(make, out, scale, bias, make.attr("ln_epsilon", 1e-5), -1)[0]
    return make.results(Y=out)


def _fused_feedforward(make: Maker) -> Written:
    """Two linear layers with a norm, a residual and dropouts."""
    names = [f"Linear{i}{part}" for i in "12" for part in ("Weight", "Bias")]
    names += [f"Ln{i}{part}" for i in "12" for part in ("Scale", "Bias")]
    make.only("X", *names)
    x = make.input("X")
    before = make.attr("pre_layer_norm", False)

    def normed(value: SSAValue, number: int) -> SSAValue:
        scale, bias = (make.optional(f"Ln{number}{part}") for part in ("Scale", "Bias"))
        return norm(make, value, scale, bias, make.attr(f"ln{number}_epsilon", 1e-5), -1)[0]

    own = normed(x, 1) if before else x
    own = make(Matmul, own, make.input("Linear1Weight"))
    own = plus(make, own, make.optional("Linear1Bias"))
    own = make.activated(own, make.attr("act_method", "gelu"))
    own = dropout(make, own, "dropout1_rate", "dropout1_implementation")
    own = make(Matmul, own, make.input("Linear2Weight"))
    own = plus(make, own, make.optional("Linear2Bias"))
    own = dropout(make, own, "dropout2_rate", "dropout2_implementation")
    out = make(Add, x, own) if make.attr("add_residual", True) else own
    return make.results(Out=out if before else normed(out, 2))


def _lower_softmax(make: Maker, scores: SSAValue) -> SSAValue:
    """The softmax over the elements up to the diagonal."""
    shifted = make(Subtract, scores, make(Max, scores, axis=(-1,), keepdim=True))
    powers = make(TriangleOf, make(Exp, shifted), diagonal=0, lower=True)
    return make(Divide, powers, make(Sum, powers, axis=(-1,), keepdim=True))


def _flash_attention(make: Maker) -> Written:
    """Attention of [batch, length, heads, size]."""
    make.only("q", "k", "v", "attn_mask")
    if make.attr("dropout", 0.0) and not make.attr("is_test", False):
        raise UnsupportedError("flash_attn with dropout in training")
    q, k, v = (make(Transpose, make.input(slot), perm=(0, 2, 1, 3)) for slot in "qkv")
    size, mask = shape_of(q.type)[-1], make.optional("attn_mask")
    if size < 1:
        raise UnsupportedError("flash_attn with heads of unknown size")
    if not make.attr("causal", False):
        out = attention(make, q, k, v, size**-0.5, mask)
    else:
        if mask is not None:
            raise UnsupportedError("flash_attn with causal=True and a mask")
        scores = make(Matmul, make.scaled(q, size**-0.5), k, transpose_y=True)
        out = make(Matmul, _lower_softmax(make, scores), v)
    return make.results(out=make(Transpose, out, perm=(0, 2, 1, 3)))


def _softmax_mask(make: Maker) -> Written:
    make.only("X", "Mask")
    total = make(Add, make.input("X"), make.input("Mask"))
    return make.results(Out=make(Softmax, total, axis=-1))


def _softmax_triangle(make: Maker) -> Written:
    make.only("X")
    return make.results(Out=_lower_softmax(make, make.input("X")))


ATTENTION: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "multihead_matmul": _multihead_matmul,
        "fused_attention": _fused_attention,
        "fused_feedforward": _fused_feedforward,
        "flash_attn": _flash_attention,
        "fused_softmax_mask": _softmax_mask,
        "fused_softmax_mask_upper_triangle": _softmax_triangle,
    }.items()
}
