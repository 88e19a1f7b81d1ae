"""Operators of Paddle 1.x that later versions replaced: `matmul`, `top_k`, `one_hot`, `pad2d`, …

Each becomes ops that exist for its successor. Like `translator.py`, this is used for saved programs
and for the operators that `graphopt.fluid` appends.
"""

from __future__ import annotations

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.activation import Hardtanh, Softplus
from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.ops.index import OneHot, Topk
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.logic import Isfinite, Isinf, Isnan
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.math import Clip, Divide, Log, Multiply, Scale, Sqrt, Square
from graphopt.ir.dialect.ops.rearrange import Pad, Tile
from graphopt.ir.dialect.ops.reduce import All, Sum
from graphopt.ir.dialect.ops.reduce import Any as AnyOf
from graphopt.ir.dialect.ops.shape import Flatten, Reshape, Squeeze, Unsqueeze
from graphopt.ir.dialect.ops.vision import Interpolate
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# the logarithm of zero is the negative of this
_LARGEST = 1e20


@translates("matmul")
def matmul(emit: Emitter) -> Written:
    """With a factor; the product of two vectors has one element in one dimension."""
    emit.only_constants_besides("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    flags = {f"transpose_{c}": emit.attr(f"transpose_{c.upper()}", False) for c in "xy"}
    # vectors are a row and a column, so transposes make matrices of them
    if rank_of(x.type) == 1 and flags["transpose_x"]:
        x = emit.reshaped(x, 1, -1)
    if rank_of(y.type) == 1 and flags["transpose_y"]:
        y = emit.reshaped(y, -1, 1)
    out = emit.scaled(emit(Matmul, x, y, **flags), emit.attr("alpha", 1.0))
    return emit.results(Out=out if rank_of(out.type) else emit.reshaped(out, 1))


@translates("cross_entropy", "cross_entropy2")
def cross_entropy(emit: Emitter) -> Written:
    """The entropy of probabilities; the logarithm of 0 counts as -1e20."""
    emit.only_constants_besides("X", "Label")
    x, label = emit.input("X"), emit.input("Label")
    if emit.attr("soft_label", False):
        logarithm = emit(Clip, emit(Log, x), min=-_LARGEST, max=_LARGEST)
        terms = emit(Multiply, label, logarithm)
        return emit.results(Y=emit.scaled(emit(Sum, terms, axis=(-1,), keepdim=True), -1.0))
    loss = emit.all(
        CrossEntropyWithSoftmax,
        *(x, label),
        ignore_index=emit.attr("ignore_index", -100),
        use_softmax=False,
    )[1]
    return emit.results(Y=emit(Clip, loss, min=-_LARGEST, max=_LARGEST))


@translates("top_k")
def top_k(emit: Emitter) -> Written:
    emit.only_constants_besides("X")
    out, indices = emit.all(Topk, emit.input("X"), k=emit.attr("k", 1))
    return emit.results(Out=out, Indices=indices)


@translates("one_hot")
def one_hot(emit: Emitter) -> Written:
    """The first version wants numbers with a trailing 1, which the classes replace."""
    emit.only_constants_besides("X")
    x = emit.input("X")
    if shape_of(x.type)[-1:] != (1,):
        raise ProgramError(
            f"one_hot needs numbers with a last dimension of 1, found {list(shape_of(x.type))}; "
            "append one, or use one_hot_v2"
        )
    attrs = {
        "depth": int(emit.op.attr("depth")),
        "allow_out_of_range": emit.attr("allow_out_of_range", False),
    }
    return emit.results(Out=emit(OneHot, emit(Squeeze, x, axis=(-1,)), **attrs))


@translates("expand")
def expand(emit: Emitter) -> Written:
    emit.only_constants_besides("X")
    x, times = emit.input("X"), tuple(emit.op.attr("expand_times"))
    if len(times) != rank_of(x.type):
        raise ProgramError(
            f"expand needs a number for each axis of {list(shape_of(x.type))}, found {list(times)}"
        )
    return emit.results(Out=emit(Tile, x, repeat_times=times))


@translates("expand_as")
def expand_as(emit: Emitter) -> Written:
    """As often as x fits into the target, along each axis."""
    emit.only_constants_besides("X", "target_tensor")
    x = emit.input("X")
    sizes, wanted = shape_of(x.type), shape_of(emit.input("target_tensor").type)
    fits = len(sizes) == len(wanted)
    times: list[int] = []
    for own, other in zip(sizes, wanted, strict=False):
        if UNKNOWN in (own, other) and own != other:
            raise UnsupportedError(
                f"expand_as needs known shapes, found {list(sizes)} and {list(wanted)}"
            )
        fits = fits and (own == other or (own > 0 and other % own == 0))
        times.append(1 if own == other else other // max(own, 1))
    if not fits:
        raise ProgramError(f"{list(sizes)} cannot be repeated to the shape {list(wanted)}")
    return emit.results(Out=emit(Tile, x, repeat_times=times))


@translates("pad2d")
def pad2d(emit: Emitter) -> Written:
    """Rows above and below, then columns left and right."""
    emit.only_constants_besides("X")
    pads, mode = list(emit.attr("paddings", (0, 0, 0, 0))), emit.attr("mode", "constant")
    last = is_channels_last(emit.attr("data_format", "NCHW"))
    flat = [0, 0, *pads, 0, 0] if last else [0, 0, 0, 0, *pads]
    attrs = {
        "mode": "replicate" if mode == "edge" else mode,
        "value": emit.attr("pad_value", 0.0),
    }
    return emit.results(Out=emit(Pad, emit.input("X"), paddings=flat, **attrs))


@translates("flatten", "flatten2")
def flatten(emit: Emitter) -> Written:
    """A matrix: the dimensions before the axis by those after it."""
    emit.only_constants_besides("X")
    x, axis = emit.input("X"), emit.attr("axis", 1)
    rank = rank_of(x.type)
    if not 0 <= axis <= rank:
        raise ProgramError(f"flatten at axis {axis} of {list(shape_of(x.type))}")
    if axis in (0, rank):
        return emit.results(Out=emit.reshaped(x, *((1, -1) if axis == 0 else (-1, 1))))
    x = emit.matrix(x, axis)
    return emit.results(Out=emit(Flatten, x, start_axis=0, stop_axis=axis - 1) if axis > 1 else x)


@translates("soft_relu")
def soft_relu(emit: Emitter) -> Written:
    """log(1 + exp(x)) of x kept within ± threshold."""
    limit = emit.attr("threshold", 40.0)
    x = emit(Hardtanh, emit.input("X"), t_min=-limit, t_max=limit)
    return emit.results(Out=emit(Softplus, x, threshold=limit))


@translates("norm")
def norm(emit: Emitter) -> Written:
    """Lengths along one axis, and the tensor divided by them."""
    emit.only_constants_besides("X")
    x, axis = emit.input("X"), emit.attr("axis", -1)
    total = emit(Sum, emit(Square, x), axis=(axis,), keepdim=True)
    length = emit(Sqrt, emit(Scale, total, bias=emit.attr("epsilon", 1e-10)))
    return emit.results(Norm=length, Out=emit(Divide, x, length))


_TESTS = {"isfinite": (Isfinite, All), "isinf": (Isinf, AnyOf), "isnan": (Isnan, AnyOf)}


@translates(*_TESTS)
def whole_test(emit: Emitter) -> Written:
    """One answer for the whole tensor: all are finite, any is infinite, any is nan."""
    test, reduce = _TESTS[emit.op.type]
    return emit.results(Out=emit.reshaped(emit(reduce, emit(test, emit.input("X"))), 1))


_METHODS = ("nearest", "bilinear", "trilinear", "linear", "bicubic")


@translates(*(f"{method}_interp" for method in _METHODS))
def interpolate(emit: Emitter) -> Written:
    """The scale is one number, and only says how large the result is."""
    emit.only_constants_besides("X")
    x, method = emit.input("X"), emit.op.type.removesuffix("_interp")
    layout, shape = emit.attr("data_layout", "NCHW"), shape_of(x.type)
    spatial = shape[1:-1] if is_channels_last(layout) else shape[2:]
    names = ("out_d", "out_h", "out_w")[-len(spatial) :]
    size = [emit.attr(name, -1) for name in names]
    scale = float(emit.op.attrs.get("scale") or 0.0)
    if scale > 0:
        if UNKNOWN in spatial:
            raise UnsupportedError(
                f"{emit.op.type} by a scale needs known sizes, found {list(shape)}"
            )
        size = [int(dim * scale) for dim in spatial]
    attrs = {
        "size": size,
        "mode": "linear" if method in ("bilinear", "trilinear") else method,
        "align_corners": emit.attr("align_corners", True),
        "align_mode": emit.attr("align_mode", 1),
        "data_layout": layout,
    }
    return emit.results(Out=emit(Interpolate, x, None, **attrs))


_SUCCESSORS = {
    "reshape": (Reshape, "shape", "shape"),
    "squeeze": (Squeeze, "axis", "axes"),
    "unsqueeze": (Unsqueeze, "axis", "axes"),
}


@translates(*_SUCCESSORS)
def without_copy(emit: Emitter) -> Written:
    """The successor also gives a copy of the shape, which nothing here needs."""
    emit.only_constants_besides("X")
    op_class, name, legacy_name = _SUCCESSORS[emit.op.type]
    attrs = {name: emit.op.attr(legacy_name)}
    return emit.results(Out=emit(op_class, emit.input("X"), **attrs))
