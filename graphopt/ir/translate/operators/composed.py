"""Operators of 1.8 that are a few ops here: pieces of tensors, images, and proximal updates."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.elementary import Sign
from graphopt.ir.dialect.ops.index import OneHot
from graphopt.ir.dialect.ops.linalg.matrices import Diag
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Abs,
    Add,
    AddN,
    Cast,
    Divide,
    Equal,
    GreaterEqual,
    GreaterThan,
    Maximum,
    Multiply,
    Sqrt,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.pool import Pool2d
from graphopt.ir.dialect.ops.random import RandomIntegers, Uniform
from graphopt.ir.dialect.ops.rearrange import Pad, Roll
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import Assign, Concat, ShapeOf, Slice, StopGradient, Transpose
from graphopt.ir.dialect.ops.vision import Unfold
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of, show
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.properties import names_variables
from graphopt.ir.translate.operators.registry import translates


def _check_known_sizes(emit: Emitter, *values: SSAValue, first: int = 1) -> None:
    """Raise UnsupportedError if a size after the first axes is unknown."""
    for value in values:
        if UNKNOWN in shape_of(value.type)[first:]:
            raise UnsupportedError(
                f"operator {emit.op.type} of {show(value.type)}: the sizes must be known"
            )


# Dropout -----------------------------------------------------------------------------------------


@translates("dropout")
def dropout(emit: Emitter) -> Written:
    """Translate dropout, with its mask only if all elements are kept, or none.

    Then no seed matters either. At other rates only Paddle's own gradient reads the mask.
    """
    if names_variables(emit.op, "dropout_prob"):
        return _dropout_of_a_rate(emit)
    x, rate = emit.input("X"), emit.attr("dropout_prob")
    plain = copy(emit.op)
    plain.inputs = {"X": emit.op.input("X")}
    if rate not in (0.0, 1.0):
        return Emitter(emit.builder, plain).by_row(**_draw(emit))
    written = Emitter(emit.builder, plain).by_row()
    shape = shape_of(x.type)
    if UNKNOWN in shape or emit.attr("is_test"):
        return written
    return written | emit.results(Mask=emit(Full, shape=shape, value=1.0 - rate, dtype="uint8"))


def _dropout_of_a_rate(emit: Emitter) -> Written:
    """Emit a dropout with a variable for its rate; a rate of 1 or more drops all elements."""
    emit.only("X", "Seed")
    x, name = emit.input("X"), emit.several("dropout_prob")[0]
    rate = emit(StopGradient, emit.like(emit.reshape(emit.read(name), 1), x))
    upscale = emit.op.attrs.get("dropout_implementation") == "upscale_in_train"
    kept = emit.scale(rate, -1.0, 1.0)
    if emit.attr("is_test"):
        return emit.results(Out=emit(Assign, x) if upscale else emit(Multiply, x, kept))
    fixed = emit.attr("seed") if emit.attr("fix_seed") else 0
    attrs = {"dtype": "float32", "min": 0.0, "max": 1.0, "seed": fixed, **_draw(emit)}
    own = shape_of(x.type)
    if UNKNOWN in own:
        attrs["shape"] = own
        noise = emit.dynamic(Uniform, (), attrs, {"shape": emit(ShapeOf, x)})[0]
    else:
        noise = emit(Uniform, shape=own, **attrs)
    stays = emit(GreaterEqual, noise, emit(Cast, rate, dtype="float32"))
    none = emit(FullLike, x, value=0.0)
    if upscale:
        some = emit(GreaterThan, kept, emit(FullLike, kept, value=0.0))
        x = emit(Divide, x, emit(Where, some, kept, emit(FullLike, kept, value=1.0)))
    out = emit(Where, stays, x, none)
    return emit.results(Out=out, Mask=emit(Cast, stays, dtype="uint8"))


def _draw(emit: Emitter) -> dict[str, Any]:
    """Return the seed in the slot, or the `rng_id` of the op that draws it for the run.

    Two dropouts of one seed zero the same elements: a Paddle program that recomputes activations
    has such pairs. Raises UnsupportedError for a seed that is computed otherwise.
    """
    seed = emit.optional("Seed")
    if seed is None or emit.builder.only_types:
        return {}
    known = known_numbers(seed)
    if known is not None:
        return {"seed": int(known[0])}
    if isinstance(seed.owner, RandomIntegers):
        return {"seed": 0, "rng_id": seed.owner.attr("rng_id")}
    raise UnsupportedError(
        "operator dropout takes its 'Seed' from a tensor that is neither a constant nor drawn by "
        "an operator 'seed'; give it one of these, or leave the slot empty"
    )


# Pieces of tensors -------------------------------------------------------------------------------


@translates("diag")
def diag(emit: Emitter) -> Written:
    emit.only("Diagonal")
    return emit.results(Out=emit(Diag, emit.input("Diagonal")))


@translates("pad_constant_like")
def pad_constant_like(emit: Emitter) -> Written:
    """Pad Y at the end of each axis to the sizes of X."""
    emit.only("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    pairs = list(zip(shape_of(x.type), shape_of(y.type), strict=True))
    gaps = [0 if wanted == have else wanted - have for wanted, have in pairs]
    if any(UNKNOWN in pair and pair[0] != pair[1] for pair in pairs) or min(gaps, default=0) < 0:
        raise ProgramError(f"{show(y.type)} cannot be padded to {show(x.type)}")
    paddings = tuple(number for gap in gaps for number in (0, gap))
    return emit.results(Out=emit(Pad, y, paddings=paddings, value=emit.attr("pad_value")))


@translates("partial_concat", "partial_sum")
def partial(emit: Emitter) -> Written:
    """Concatenate or add the same columns of several matrices."""
    emit.only("X")
    given, start = emit.inputs("X"), emit.attr("start_index")
    _check_known_sizes(emit, *given)
    width = shape_of(given[0].type)[1]
    start = start + width if start < 0 else start
    length = emit.attr("length")
    end = width if length < 0 else start + length
    parts = [emit(Slice, x, axes=(1,), starts=(start,), ends=(end,)) for x in given]
    if emit.op.type == "partial_concat":
        return emit.results(Out=emit(Concat, parts, axis=1))
    return emit.results(Out=emit(AddN, parts))


# Images and rows ---------------------------------------------------------------------------------


@translates("fsp")
def fsp(emit: Emitter) -> Written:
    """Emit the products of the channels of two images, averaged over their pixels: [n, cx, cy]."""
    emit.only("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    _check_known_sizes(emit, x, y)
    pixels = int(np.prod(shape_of(x.type)[2:]))
    rows = [emit.reshape(v, -1, shape_of(v.type)[1], pixels) for v in (x, y)]
    product = emit(Matmul, *rows, transpose_y=True)
    return emit.results(Out=emit.scale(product, 1.0 / pixels))


@translates("conv_shift")
def conv_shift(emit: Emitter) -> Written:
    """Convolve each row of X circularly with the row of Y, which is centered."""
    emit.only("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    _check_known_sizes(emit, x, y)
    width = shape_of(y.type)[1]
    if width % 2 == 0:
        raise ProgramError(f"conv_shift needs an odd number of columns in Y, found {width}")
    terms = [
        emit(
            Multiply,
            emit(Roll, x, shifts=(width // 2 - at,), axis=(1,)),
            emit(Slice, y, axes=(1,), starts=(at,), ends=(at + 1,)),
        )
        for at in range(width)
    ]
    return emit.results(Out=emit(AddN, terms))


@translates("im2sequence")
def im2sequence(emit: Emitter) -> Written:
    """Emit the windows of images as rows, one image after another."""
    emit.only("X")
    x = emit.input("X")
    _check_known_sizes(emit, x)
    pads = tuple(emit.attr("paddings"))
    columns = emit(
        Unfold,
        x,
        kernel_sizes=tuple(emit.attr("kernels")),
        strides=tuple(emit.attr("strides")),
        paddings=pads,
    )
    emit.attr("out_stride")
    rows = emit(Transpose, columns, perm=(0, 2, 1))
    return emit.results(Out=emit.reshape(rows, -1, shape_of(rows.type)[2]))


@translates("spp")
def spp(emit: Emitter) -> Written:
    """Emit pools of 1, 2, 4, ... cells per side, as one row for each image."""
    emit.only("X")
    x = emit.input("X")
    _check_known_sizes(emit, x)
    kind, rows = emit.attr("pooling_type"), list[SSAValue]()
    for level in range(emit.attr("pyramid_height")):
        cells = 2**level
        sizes = [-(-side // cells) for side in shape_of(x.type)[2:]]
        pads = [
            (s * cells - side + 1) // 2 for s, side in zip(sizes, shape_of(x.type)[2:], strict=True)
        ]
        options = {"kernel_size": sizes, "strides": sizes, "paddings": pads, "pooling_type": kind}
        rows.append(emit.matrix(emit(Pool2d, x, **options), 1))
    return emit.results(Out=emit(Concat, rows, axis=1))


@translates("polygon_box_transform")
def polygon_box_transform(emit: Emitter) -> Written:
    """Convert offsets from pixels, x and y in turn, to points in an image four times as large."""
    emit.only("Input")
    x = emit.input("Input")
    _check_known_sizes(emit, x)
    _, geometry, height, width = shape_of(x.type)
    rows, columns = np.mgrid[:height, :width] * 4
    places = np.tile(np.stack([columns, rows]), (geometry // 2, 1, 1))[None]
    return emit.results(Output=emit(Subtract, emit.array(places, dtype_of(x.type)), x))


@translates("mean_iou")
def mean_iou(emit: Emitter) -> Written:
    """Emit the mean IoU over the classes that occur, and wrong and correct counts per class."""
    emit.only("Predictions", "Labels", "InWrongs", "InCorrects", "InMeanIou")
    count = emit.attr("num_classes")
    found, wanted = (
        emit.reshape(emit(Cast, emit.input(slot), dtype="int64"), -1)
        for slot in ("Predictions", "Labels")
    )
    same = emit.reshape(emit(Cast, emit(Equal, found, wanted), dtype="float32"), -1, 1)
    is_found, is_wanted = (emit(OneHot, value, depth=count) for value in (found, wanted))
    right = emit(Sum, emit(Multiply, is_found, same), axis=(0,))
    every = emit(Sum, emit(Add, is_found, is_wanted), axis=(0,))
    wrong = emit(Subtract, every, emit.scale(right, 2.0))
    # add the counts of earlier batches
    for number in emit.inputs("InWrongs"):
        wrong = emit(Add, wrong, emit(Cast, number, dtype="float32"))
    for number in emit.inputs("InCorrects"):
        right = emit(Add, right, emit(Cast, number, dtype="float32"))
    either = emit(Add, right, wrong)
    shares = emit(Divide, right, emit(Maximum, either, emit(FullLike, either, value=1.0)))
    there = emit(GreaterThan, either, emit(FullLike, either, value=0.0))
    mean = emit(Divide, emit(Sum, shares), emit(Sum, emit(Cast, there, dtype="float32")))
    for number in emit.inputs("InMeanIou"):
        mean = emit(Add, mean, emit.reshape(number))
    return emit.results(
        OutMeanIou=emit.reshape(mean, 1),
        OutWrong=emit(Cast, wrong, dtype="int32"),
        OutCorrect=emit(Cast, right, dtype="int32"),
    )


# Updates -----------------------------------------------------------------------------------------


def _proximal(emit: Emitter, moved: SSAValue, rate: SSAValue) -> SSAValue:
    """Apply the l1 and l2 penalties to a parameter after a step."""
    l1, l2 = emit.attr("l1"), emit.attr("l2")
    if l1 > 0:
        left = emit(Subtract, emit(Abs, moved), emit.scale(rate, l1))
        left = emit(Maximum, left, emit(FullLike, left, value=0.0))
        moved = emit(Multiply, emit(Sign, moved), left)
    return emit(Divide, moved, emit.scale(rate, l2, 1.0))


@translates("proximal_gd")
def proximal_gd(emit: Emitter) -> Written:
    emit.only("Param", "Grad", "LearningRate")
    param, grad, rate = (emit.input(slot) for slot in ("Param", "Grad", "LearningRate"))
    moved = emit(Subtract, param, emit(Multiply, grad, rate))
    return emit.results(ParamOut=_proximal(emit, moved, rate))


@translates("proximal_adagrad")
def proximal_adagrad(emit: Emitter) -> Written:
    emit.only("Param", "Moment", "Grad", "LearningRate")
    param, moment, grad = (emit.input(slot) for slot in ("Param", "Moment", "Grad"))
    rate = emit.input("LearningRate")
    moment = emit(Add, moment, emit(Square, grad))
    step = emit(Divide, emit(Multiply, grad, rate), emit(Sqrt, moment))
    moved = _proximal(emit, emit(Subtract, param, step), rate)
    return emit.results(ParamOut=moved, MomentOut=moment)
