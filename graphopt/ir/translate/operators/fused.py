"""Operators that Paddle's inference passes and fused layers put into saved models, taken apart.

XLA fuses by itself; the parts are ordinary ops, which passes and derivatives know.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.ops.conv import Conv2d, Conv3d, DepthwiseConv2d, is_channels_last
from graphopt.ir.dialect.ops.conv_transpose import Conv2dTranspose
from graphopt.ir.dialect.ops.fused import FusedElemwiseAddActivation
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, Multiply, Rsqrt, Square, Subtract
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.ops.shape import Concat, Flatten, Reshape, Squeeze, Transpose
from graphopt.ir.dialect.types import rank_of, shape_of, show
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation
from graphopt.ir.translate.operators.table import BY_TYPE

_MODES = ("downgrade_in_infer", "upscale_in_train")


def _linear(make: Maker, x: SSAValue, weight: SSAValue, axis: int) -> SSAValue:
    """A linear layer: the dimensions of x before `axis` are kept, the rest is contracted."""
    return make(Matmul, make.matrix(x, axis), weight)


def plus(make: Maker, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    """x plus a bias along its last dimension, which may be stored as a row."""
    if bias is None:
        return x
    return make(Add, x, make.reshaped(bias, -1) if rank_of(bias.type) > 1 else bias)


def norm(
    make: Maker, x: SSAValue, scale: SSAValue | None, bias: SSAValue | None, epsilon: float, at: int
) -> list[SSAValue]:
    """Layer normalisation and its statistics; parameters may be of another dtype than x."""
    at = at + rank_of(x.type) if at < 0 else at
    return list(make.all(LayerNorm, x, scale, bias, epsilon=epsilon, begin_norm_axis=at))


def dropout(make: Maker, x: SSAValue, rate: str, mode: str) -> SSAValue:
    p = make.attr(rate, 0.5)
    training = {
        "is_test": make.attr("is_test", False),
        "mode": make.choice(mode, _MODES[0], _MODES),
    }
    return x if p == 0 else make(Dropout, x, p=p, **training)


def _fc(make: Maker) -> Written:
    make.only("Input", "W", "Bias")
    if make.attr("padding_weights", False):
        raise UnsupportedError("operator fc with padded weights")
    x, weight = make.input("Input"), make.input("W")
    out = _linear(make, x, weight, make.attr("in_num_col_dims", 1))
    out = plus(make, out, make.optional("Bias"))
    return make.results(Out=make.activated(out, make.attr("activation_type", "")))


def _repeated_fc(make: Maker) -> Written:
    """Layers of x W + b with relu after each."""
    make.only("X", "W", "Bias")
    out = make.input("X")
    for weight, bias in zip(make.inputs("W"), make.inputs("Bias"), strict=True):
        out = make.activated(plus(make, make(Matmul, out, weight), bias), "relu")
    return make.results(Out=out)


def _gemm_epilogue(make: Maker) -> Written:
    """x is a matrix of rows, or of columns when it is transposed."""
    make.only("X", "Y", "Bias")
    x = make.input("X")
    flags = {f"transpose_{c}": make.attr(f"trans_{c}", False) for c in "xy"}
    if rank_of(x.type) > 2 and flags["transpose_x"]:
        raise UnsupportedError("fused_gemm_epilogue of a transposed tensor that is not a matrix")
    out = plus(make, make(Matmul, x, make.input("Y"), **flags), make.input("Bias"))
    return make.results(Out=make.activated(out, make.attr("activation", "none")))


def _skip_layernorm(make: Maker) -> Written:
    make.only("X", "Y", "Scale", "Bias")
    total = make(Add, make.input("X"), make.input("Y"))
    at, epsilon = make.attr("begin_norm_axis", 2), make.attr("epsilon", 1e-5)
    out = norm(make, total, make.input("Scale"), make.input("Bias"), epsilon, at)
    return make.results(Out=out[0])


def _fc_layernorm(make: Maker) -> Written:
    make.only("X", "W", "Y", "Bias0", "Scale", "Bias1")
    axis = make.attr("x_num_col_dims", 1)
    out = plus(make, _linear(make, make.input("X"), make.input("W"), axis), make.optional("Bias0"))
    out = make.activated(out, make.attr("activation_type", ""))
    total = make(Add, out, make.input("Y"))
    at, epsilon = make.attr("begin_norm_axis", 1), make.attr("epsilon", 1e-5)
    scale, bias = make.optional("Scale"), make.optional("Bias1")
    out, mean, variance = norm(make, total, scale, bias, epsilon, at)
    return make.results(Out=out, Mean=mean, Variance=variance)


def _embeddings_layernorm(make: Maker) -> Written:
    """The sum of several embeddings, normalised."""
    make.only("Ids", "Embs", "Bias", "Scale")
    ids, tables = make.inputs("Ids"), make.inputs("Embs")
    if not ids or len(ids) != len(tables):
        raise ProgramError(f"{len(ids)} tensors of ids need as many tables, found {len(tables)}")
    total: SSAValue | None = None
    for numbers, table in zip(ids, tables, strict=True):
        if rank_of(numbers.type) == 3:
            numbers = make(Squeeze, numbers, axis=(-1,))
        rows = make(Embedding, numbers, table)
        total = rows if total is None else make(Add, total, rows)
    assert total is not None
    scale, bias, epsilon = make.input("Scale"), make.input("Bias"), make.attr("epsilon", 1e-5)
    return make.results(Out=norm(make, total, scale, bias, epsilon, -1)[0])


def _bias_dropout_norm(make: Maker) -> Written:
    """The norm of residual + dropout(x + bias)."""
    make.only("X", "Residual", "Bias", "LnScale", "LnBias")
    x = plus(make, make.input("X"), make.optional("Bias"))
    x = dropout(make, x, "dropout_rate", "dropout_implementation")
    total = make(Add, x, make.input("Residual"))
    scale, bias = make.optional("LnScale"), make.optional("LnBias")
    epsilon = make.attr("ln_epsilon", 1e-5)
    out, mean, variance = norm(make, total, scale, bias, epsilon, -1)
    return make.results(Y=out, BiasDropoutResidualOut=total, LnMean=mean, LnVariance=variance)


def _dropout_add(make: Maker) -> Written:
    make.only("x", "y")
    mode = make.choice("mode", _MODES[1], _MODES)
    attrs = {"p": make.attr("p", 0.5), "is_test": make.attr("is_test", False), "mode": mode}
    x = make.input("x")
    kept = make(Dropout, x, **attrs) if attrs["p"] else x
    return make.results(out=make(Add, kept, make.input("y")))


def _rms_norm(make: Maker) -> Written:
    """x over its root mean square, times a weight, after adding the residual if there is one."""
    make.only("x", "bias", "residual", "norm_weight", "norm_bias")
    if make.attr("quant_scale", -1.0) > 0:
        raise UnsupportedError("rms_norm with a quantised result")
    x, residual = make.input("x"), make.optional("residual")
    x = plus(make, x, make.optional("bias"))
    x = x if residual is None else make(Add, x, residual)
    at = make.attr("begin_norm_axis", -1)
    axes = tuple(range(at % rank_of(x.type), rank_of(x.type)))
    power = make(Mean, make(Square, x), axis=axes, keepdim=True)
    root = make(Rsqrt, make.scaled(power, 1.0, make.attr("epsilon", 1e-5)))
    out = make(Multiply, make(Multiply, x, root), make.input("norm_weight"))
    return make.results(out=plus(make, out, make.optional("norm_bias")), residual_out=x)


def _square_difference(make: Maker) -> Written:
    """scalar * ((x y)² - x² y²)."""
    make.only("X", "Y")
    x, y = make.input("X"), make.input("Y")
    squares = [make(Square, v) for v in (x, y, make(Matmul, x, y))]
    difference = make(Subtract, squares[2], make(Matmul, *squares[:2]))
    out = make.scaled(difference, make.attr("scalar", 1.0))
    return make.results(SquaredX=squares[0], SquaredY=squares[1], SquaredXY=squares[2], Out=out)


def _transpose_flatten_concat(make: Maker) -> Written:
    make.only("X")
    perm, at = tuple(make.attr("trans_axis", ())), make.attr("flatten_axis", 1)
    parts: list[SSAValue] = []
    for x in make.inputs("X"):
        part = make.matrix(make(Transpose, x, perm=perm), at)
        part = make(Flatten, part, start_axis=0, stop_axis=at - 1) if at > 1 else part
        parts.append(part)
    return make.results(Out=make(Concat, parts, axis=make.attr("concat_axis", 1)))


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


def _conv(make: Maker) -> Written:
    """A convolution with the ops that fusions append: a bias, a residual, an activation."""
    make.only("Input", "Filter", "Bias", "ResidualData")
    op_class, given = _CONVS[make.op.type], make.op.attrs
    extras = make.inputs("Bias") or make.inputs("ResidualData")
    names = ("fuse_activation", "fuse_relu", "activation")
    if make.op.type in BY_TYPE and not extras and not any(given.get(name) for name in names):
        return make.by_row()
    attrs = {name: given[name] for name in attr_kinds(op_class) if name in given}
    if len(make.op.output("Outputs")) > 1 or given.get("split_channels"):
        raise UnsupportedError(f"operator {make.op.type} with split channels")
    out = make(op_class, make.input("Input"), make.input("Filter"), **attrs)
    bias, residual = make.optional("Bias"), make.optional("ResidualData")
    if bias is not None:
        rank = rank_of(out.type)
        last = is_channels_last(str(attrs.get("data_format", "NCHW")))
        out = make(Add, out, make.along(bias, rank, rank - 1 if last else 1))
    out = out if residual is None else make(Add, out, residual)
    name = make.attr("fuse_activation", "") or make.attr("activation", "")
    name = "relu" if make.attr("fuse_relu", False) else name
    out = make.activated(out, name, make.attr("fuse_alpha", 0.0), make.attr("fuse_beta", 0.0))
    return make.results(Output=out)


def _add_activation(make: Maker) -> Written:
    """The two functions, outer first."""
    make.only("X", "Y")
    x, y = aligned(make, make.input("X"), make.input("Y"), make.attr("axis", -1))
    functors = tuple(make.attr("functor_list", ()))
    if not set(functors) <= {"elementwise_add", "relu", "scale", "tanh", "sigmoid", "gelu"}:
        raise UnsupportedError(f"fused_elemwise_add_activation of {list(functors)}")
    out = make(
        FusedElemwiseAddActivation,
        *(x, y),
        functor_list=functors,
        scale=make.attr("scale", 1.0),
    )
    return make.results(Out=out)


def aligned(make: Maker, x: SSAValue, y: SSAValue, axis: int) -> tuple[SSAValue, SSAValue]:
    """Both, with 1s after the dimensions of the one of lower rank, which start at `axis`.

    -1 is ordinary broadcasting. ProgramError for an axis that neither has.
    """
    if rank_of(x.type) < rank_of(y.type):
        y, x = aligned(make, y, x, axis)
        return x, y
    if not -1 <= axis <= rank_of(x.type):
        raise ProgramError(f"axis {axis} is neither -1 nor an axis of x {show(x.type)}")
    trailing = rank_of(x.type) - rank_of(y.type) - axis
    if axis != -1 and trailing > 0:
        shape = (*(d if d >= 0 else 0 for d in shape_of(y.type)), *(1,) * trailing)
        y = make(Reshape, y, shape=shape)
    return x, y


_BINARY = {"add": Add, "sub": Subtract, "mul": Multiply, "div": Divide}


def _binary(make: Maker) -> Written:
    """Arithmetic and an activation."""
    make.only("X", "Y")
    x, y = aligned(make, make.input("X"), make.input("Y"), make.attr("axis", -1))
    out = make(_BINARY[make.op.type.removeprefix("fused_elementwise_")], x, y)
    names = make.attr("fuse_activation", ""), make.attr("fuse_alpha", 0.0)
    return make.results(Out=make.activated(out, *names, make.attr("fuse_beta", 0.0)))


_MADE = {
    "fc": _fc,
    "fusion_repeated_fc_relu": _repeated_fc,
    "fused_gemm_epilogue": _gemm_epilogue,
    "skip_layernorm": _skip_layernorm,
    "fused_fc_elementwise_layernorm": _fc_layernorm,
    "fused_embedding_eltwise_layernorm": _embeddings_layernorm,
    "fused_bias_dropout_residual_layer_norm": _bias_dropout_norm,
    "fused_dropout_add": _dropout_add,
    "rms_norm": _rms_norm,
    "fusion_squared_mat_sub": _square_difference,
    "fusion_transpose_flatten_concat": _transpose_flatten_concat,
    "fused_elemwise_add_activation": _add_activation,
    **dict.fromkeys((f"fused_elementwise_{name}" for name in _BINARY), _binary),
    **dict.fromkeys(_CONVS, _conv),
}
FUSED: Mapping[str, Translation] = {type: translation(made) for type, made in _MADE.items()}
