"""Decomposition of the operators that Paddle's inference passes and fused layers put in models.

XLA fuses by itself; the parts are ordinary ops, which passes and derivatives know.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    Conv2dTranspose,
    Conv3d,
    DepthwiseConv2d,
    is_channels_last,
)
from graphopt.ir.dialect.ops.fused import FusedElemwiseAddActivation
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, Multiply, Rsqrt, Square, Subtract
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.ops.shape import Concat, Flatten, Squeeze, Transpose
from graphopt.ir.dialect.types import rank_of
from graphopt.ir.translate.operators.elementwise import align_ranks
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE

_MODES = ("downgrade_in_infer", "upscale_in_train")


def _linear(emit: Emitter, x: SSAValue, weight: SSAValue, axis: int) -> SSAValue:
    """Emit a linear layer that keeps the dimensions of x before `axis` and contracts the rest."""
    return emit(Matmul, emit.matrix(x, axis), weight)


def plus(emit: Emitter, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    """Add a bias, if any, along the last dimension of x; it may be stored as a row."""
    if bias is None:
        return x
    return emit(Add, x, emit.reshape(bias, -1) if rank_of(bias.type) > 1 else bias)


def norm(
    emit: Emitter,
    x: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
    at: int,
) -> list[SSAValue]:
    """Emit a layer norm and its statistics; the parameters may have another dtype than x."""
    at = at + rank_of(x.type) if at < 0 else at
    return list(emit.all(LayerNorm, x, scale, bias, epsilon=epsilon, begin_norm_axis=at))


def dropout(emit: Emitter, x: SSAValue, rate: str, mode: str) -> SSAValue:
    p = emit.attr(rate)
    training = {
        "is_test": emit.attr("is_test"),
        "mode": emit.choice(mode, _MODES),
    }
    return x if p == 0 else emit(Dropout, x, p=p, **training)


@translates("fc")
def fc(emit: Emitter) -> Written:
    emit.only("Input", "W", "Bias")
    if emit.attr("padding_weights"):
        raise UnsupportedError("operator fc with padded weights is not supported")
    x, weight = emit.input("Input"), emit.input("W")
    out = _linear(emit, x, weight, emit.attr("in_num_col_dims"))
    out = plus(emit, out, emit.optional("Bias"))
    return emit.results(Out=emit.activate(out, emit.attr("activation_type")))


@translates("fusion_repeated_fc_relu")
def repeated_fc(emit: Emitter) -> Written:
    """Emit layers of x W + b with relu after each."""
    emit.only("X", "W", "Bias")
    out = emit.input("X")
    for weight, bias in zip(emit.inputs("W"), emit.inputs("Bias"), strict=True):
        out = emit.activate(plus(emit, emit(Matmul, out, weight), bias), "relu")
    return emit.results(Out=out)


@translates("fused_gemm_epilogue")
def gemm_epilogue(emit: Emitter) -> Written:
    """Decompose a matmul with bias and activation; a transposed x has to be a matrix."""
    emit.only("X", "Y", "Bias")
    x = emit.input("X")
    flags = {f"transpose_{c}": emit.attr(f"trans_{c}") for c in "xy"}
    if rank_of(x.type) > 2 and flags["transpose_x"]:
        raise UnsupportedError(
            "operator fused_gemm_epilogue of a transposed tensor is supported only for a matrix"
        )
    out = plus(emit, emit(Matmul, x, emit.input("Y"), **flags), emit.input("Bias"))
    return emit.results(Out=emit.activate(out, emit.attr("activation")))


@translates("skip_layernorm")
def skip_layernorm(emit: Emitter) -> Written:
    emit.only("X", "Y", "Scale", "Bias")
    total = emit(Add, emit.input("X"), emit.input("Y"))
    at, epsilon = emit.attr("begin_norm_axis"), emit.attr("epsilon")
    out = norm(emit, total, emit.input("Scale"), emit.input("Bias"), epsilon, at)
    return emit.results(Out=out[0])


@translates("fused_fc_elementwise_layernorm")
def fc_layernorm(emit: Emitter) -> Written:
    emit.only("X", "W", "Y", "Bias0", "Scale", "Bias1")
    axis = emit.attr("x_num_col_dims")
    out = plus(emit, _linear(emit, emit.input("X"), emit.input("W"), axis), emit.optional("Bias0"))
    out = emit.activate(out, emit.attr("activation_type"))
    total = emit(Add, out, emit.input("Y"))
    at, epsilon = emit.attr("begin_norm_axis"), emit.attr("epsilon")
    scale, bias = emit.optional("Scale"), emit.optional("Bias1")
    out, mean, variance = norm(emit, total, scale, bias, epsilon, at)
    return emit.results(Out=out, Mean=mean, Variance=variance)


@translates("fused_embedding_eltwise_layernorm")
def embeddings_layernorm(emit: Emitter) -> Written:
    """Emit the layer norm of the sum of several embeddings."""
    emit.only("Ids", "Embs", "Bias", "Scale")
    ids, tables = emit.inputs("Ids"), emit.inputs("Embs")
    if not ids or len(ids) != len(tables):
        raise ProgramError(f"{len(ids)} tensors of ids need as many tables, found {len(tables)}")
    total: SSAValue | None = None
    for numbers, table in zip(ids, tables, strict=True):
        if rank_of(numbers.type) == 3:
            numbers = emit(Squeeze, numbers, axis=(-1,))
        rows = emit(Embedding, numbers, table)
        total = rows if total is None else emit(Add, total, rows)
    assert total is not None
    scale, bias, epsilon = emit.input("Scale"), emit.input("Bias"), emit.attr("epsilon")
    return emit.results(Out=norm(emit, total, scale, bias, epsilon, -1)[0])


@translates("fused_bias_dropout_residual_layer_norm")
def bias_dropout_norm(emit: Emitter) -> Written:
    """Emit the layer norm of residual + dropout(x + bias)."""
    emit.only("X", "Residual", "Bias", "LnScale", "LnBias")
    x = plus(emit, emit.input("X"), emit.optional("Bias"))
    x = dropout(emit, x, "dropout_rate", "dropout_implementation")
    total = emit(Add, x, emit.input("Residual"))
    scale, bias = emit.optional("LnScale"), emit.optional("LnBias")
    epsilon = emit.attr("ln_epsilon")
    out, mean, variance = norm(emit, total, scale, bias, epsilon, -1)
    return emit.results(Y=out, BiasDropoutResidualOut=total, LnMean=mean, LnVariance=variance)


@translates("fused_dropout_add")
def dropout_add(emit: Emitter) -> Written:
    emit.only("x", "y")
    mode = emit.choice("mode", _MODES)
    attrs = {"p": emit.attr("p"), "is_test": emit.attr("is_test"), "mode": mode}
    x = emit.input("x")
    kept = emit(Dropout, x, **attrs) if attrs["p"] else x
    return emit.results(out=emit(Add, kept, emit.input("y")))


@translates("rms_norm")
def rms_norm(emit: Emitter) -> Written:
    """Emit x over its root mean square, times a weight; bias and residual are added to x before."""
    emit.only("x", "bias", "residual", "norm_weight", "norm_bias")
    if emit.attr("quant_scale") > 0:
        raise UnsupportedError("operator rms_norm with a quantized result is not supported")
    x, residual = emit.input("x"), emit.optional("residual")
    x = plus(emit, x, emit.optional("bias"))
    x = x if residual is None else emit(Add, x, residual)
    at = emit.attr("begin_norm_axis")
    axes = tuple(range(at % rank_of(x.type), rank_of(x.type)))
    power = emit(Mean, emit(Square, x), axis=axes, keepdim=True)
    root = emit(Rsqrt, emit.scale(power, 1.0, emit.attr("epsilon")))
    out = emit(Multiply, emit(Multiply, x, root), emit.input("norm_weight"))
    return emit.results(out=plus(emit, out, emit.optional("norm_bias")), residual_out=x)


@translates("fused_bias_residual_layernorm")
def residual_layer_norm(emit: Emitter) -> Written:
    """Emit the layer norm of x + bias + a share of a residual; without parameters, the sum.

    Paddle's result for the variance is 1 over the standard deviation. Paddle leaves the other
    results empty if there is only the sum.
    """
    emit.only("x", "bias", "residual", "norm_weight", "norm_bias")
    if emit.attr("quant_scale") > 0:
        raise UnsupportedError(
            "operator fused_bias_residual_layernorm with a quantized result is not supported"
        )
    residual, scale = emit.optional("residual"), emit.optional("norm_weight")
    x, shift = plus(emit, emit.input("x"), emit.optional("bias")), emit.optional("norm_bias")
    if residual is not None:
        x = emit(Add, x, emit.scale(residual, emit.attr("residual_alpha")))
    if scale is None and shift is None:
        return emit.results(out=x)
    at, epsilon = emit.attr("begin_norm_axis"), emit.attr("epsilon")
    out, mean, variance = norm(emit, x, scale, shift, epsilon, at)
    inverse = emit(Rsqrt, emit.scale(variance, 1.0, epsilon))
    return emit.results(out=out, residual_out=x, mean=mean, variance=inverse)


@translates("fusion_squared_mat_sub")
def square_difference(emit: Emitter) -> Written:
    """Emit scalar * ((x y)² - x² y²)."""
    emit.only("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    squares = [emit(Square, v) for v in (x, y, emit(Matmul, x, y))]
    difference = emit(Subtract, squares[2], emit(Matmul, *squares[:2]))
    out = emit.scale(difference, emit.attr("scalar"))
    return emit.results(SquaredX=squares[0], SquaredY=squares[1], SquaredXY=squares[2], Out=out)


@translates("fusion_transpose_flatten_concat")
def transpose_flatten_concat(emit: Emitter) -> Written:
    emit.only("X")
    perm, at = tuple(emit.attr("trans_axis")), emit.attr("flatten_axis")
    parts: list[SSAValue] = []
    for x in emit.inputs("X"):
        part = emit.matrix(emit(Transpose, x, perm=perm), at)
        part = emit(Flatten, part, start_axis=0, stop_axis=at - 1) if at > 1 else part
        parts.append(part)
    return emit.results(Out=emit(Concat, parts, axis=emit.attr("concat_axis")))


_CONVS: Mapping[str, type[Conv2d | DepthwiseConv2d | Conv3d | Conv2dTranspose]] = {
    "conv2d": Conv2d,
    "fused_conv2d": Conv2d,
    "conv2d_fusion": Conv2d,
    "fused_conv2d_add_act": Conv2d,
    "depthwise_conv2d": DepthwiseConv2d,
    "conv3d": Conv3d,
    "fused_conv3d": Conv3d,
    "conv2d_transpose": Conv2dTranspose,
    "depthwise_conv2d_transpose": Conv2dTranspose,
}


@translates(*_CONVS)
def conv(emit: Emitter) -> Written:
    """Emit a convolution and the ops that fusions append: a bias, a residual, an activation."""
    emit.only("Input", "Filter", "Bias", "ResidualData")
    op_class, given = _CONVS[emit.op.type], emit.op.attrs
    extras = emit.inputs("Bias") or emit.inputs("ResidualData")
    names = ("fuse_activation", "fuse_relu", "activation")
    if emit.op.type in BY_TYPE and not extras and not any(given.get(name) for name in names):
        return emit.by_row()
    attrs = {name: given[name] for name in attr_kinds(op_class) if name in given}
    if len(emit.op.output("Outputs")) > 1 or given.get("split_channels"):
        raise UnsupportedError(f"operator {emit.op.type} with split channels is not supported")
    out = emit(op_class, emit.input("Input"), emit.input("Filter"), **attrs)
    bias, residual = emit.optional("Bias"), emit.optional("ResidualData")
    if bias is not None:
        rank = rank_of(out.type)
        last = is_channels_last(str(attrs["data_format"]))
        out = emit(Add, out, emit.along(bias, rank, rank - 1 if last else 1))
    out = out if residual is None else emit(Add, out, residual)
    name = emit.attr("fuse_activation") or emit.attr("activation") or ""
    name = "relu" if emit.attr("fuse_relu") else name
    out = emit.activate(out, name, emit.attr("fuse_alpha"), emit.attr("fuse_beta"))
    return emit.results(Output=out)


@translates("fused_elemwise_add_activation")
def add_activation(emit: Emitter) -> Written:
    """Translate an addition fused with an activation; `functor_list` has the outer one first."""
    emit.only("X", "Y")
    x, y = align_ranks(emit, emit.input("X"), emit.input("Y"), emit.attr("axis"))
    functors = tuple(emit.attr("functor_list"))
    if not set(functors) <= {"elementwise_add", "relu", "scale", "tanh", "sigmoid", "gelu"}:
        raise UnsupportedError(
            f"operator fused_elemwise_add_activation of {list(functors)} is not supported"
        )
    out = emit(
        FusedElemwiseAddActivation,
        *(x, y),
        functor_list=functors,
        scale=emit.attr("scale"),
    )
    return emit.results(Out=out)


@translates("fused_elemwise_activation")
def elemwise_activation(emit: Emitter) -> Written:
    """Emit binary(x, unary(y)) or unary(binary(x, y)), as `functor_list` states."""
    emit.only("X", "Y")
    functors = emit.attr("functor_list")
    if len(functors) != 2:
        raise ProgramError(
            f"fused_elemwise_activation: expected two functions, found {list(functors)}"
        )
    outer, inner = functors
    x, y = align_ranks(emit, emit.input("X"), emit.input("Y"), emit.attr("axis"))

    def unary(value: SSAValue, name: str) -> SSAValue:
        if name == "scale":
            return emit.scale(value, emit.attr("scale"))
        return emit.activate(value, name)

    binary = {f"elementwise_{name}": op for name, op in _BINARY.items()}
    if outer in binary:
        inner_out = unary(y, inner)
        return emit.results(Out=emit(binary[outer], x, inner_out), IntermediateOut=inner_out)
    if inner not in binary:
        raise UnsupportedError(
            f"operator fused_elemwise_activation of {outer} and {inner} is not supported"
        )
    inner_out = emit(binary[inner], x, y)
    return emit.results(Out=unary(inner_out, outer), IntermediateOut=inner_out)


_BINARY = {"add": Add, "sub": Subtract, "mul": Multiply, "div": Divide}


@translates(*(f"fused_elementwise_{name}" for name in _BINARY))
def binary(emit: Emitter) -> Written:
    """Emit an arithmetic op and its activation."""
    emit.only("X", "Y")
    x, y = align_ranks(emit, emit.input("X"), emit.input("Y"), emit.attr("axis"))
    out = emit(_BINARY[emit.op.type.removeprefix("fused_elementwise_")], x, y)
    names = emit.attr("fuse_activation"), emit.attr("fuse_alpha")
    return emit.results(Out=emit.activate(out, *names, emit.attr("fuse_beta")))
