"""Saved operators on images: sizes by direction or in tensors, resizing, padding."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.known import KnownValues, known_numbers
from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.ops.creation import AssignValue
from graphopt.ir.dialect.ops.math import Cast, Multiply
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Concat, ShapeOf, Slice
from graphopt.ir.dialect.ops.vision import Interpolate, resized_sizes
from graphopt.ir.dialect.size_rules import amounts, own_sizes
from graphopt.ir.dialect.sums import Size, SymbolicSum
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.ir.program import EMPTY
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.properties import row_attrs
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.ir.translate.releases import saved_by_paddle_2


@translates(*(t for t in BY_TYPE if t.endswith("_interp_v2")))
def interpolate_v2(emit: Emitter) -> Written:
    """Translate an interpolation; its size is in attributes or tensors, its mode in the type.

    As in Paddle, SizeTensor takes precedence over all others. With a scale, OutSize is the size and
    the scale decides the ratio; without a scale the attributes are the size. A tensor takes
    precedence over `scale`.
    """
    op, row, x = emit.op, emit.row, emit.input("X")
    size = [emit.attr(name) for name in ("out_d", "out_h", "out_w")]
    size = size[5 - rank_of(x.type) :]
    # one tensor holds all sizes, or each size has a tensor of its own
    pieces = [name for name in op.input("SizeTensor") if name != EMPTY]
    given = pieces or [name for name in op.input("OutSize") if name != EMPTY]
    like = _find_measured_images(emit.read(given[0])) if len(given) == 1 else None
    tensors: dict[str, SSAValue] = {}
    if given and like is None:
        tensors["size"] = emit.join_elements(given)
    scale = emit.several("scale") if op.attrs.get("scale") else ()
    factors = [name for name in op.input("Scale") if name != EMPTY]
    if pieces:
        scale = ()
    elif factors:
        tensors["scale"] = emit.join_elements(factors)
    mode = op.type.removesuffix("_interp_v2")
    attrs = {
        **row_attrs(op, row),
        "size": size if min(size) > 0 and not (scale or "scale" in tensors) else (),
        "scale": scale,
        "single_scale": saved_by_paddle_2(op),
        "mode": "linear" if mode in ("bilinear", "trilinear") else mode,
    }
    return emit.results(Out=emit.dynamic(row.op, [x, like], attrs, tensors)[0])


_METHODS = ("nearest", "bilinear", "trilinear", "linear", "bicubic")


@translates(*(f"{method}_interp" for method in _METHODS))
def interpolate(emit: Emitter) -> Written:
    """Translate the older interpolation, whose scale is one number that only decides the size.

    A tensor may have the size or the scale. For uint8 the result loses its fractions.
    """
    emit.only_constants_besides("X", "OutSize", "SizeTensor", "Scale")
    x, method = emit.input("X"), emit.op.type.removesuffix("_interp")
    layout, shape = emit.attr("data_layout"), shape_of(x.type)
    spatial = shape[1:-1] if is_channels_last(layout) else shape[2:]
    names = ("out_d", "out_h", "out_w")[-len(spatial) :]
    size = [emit.attr(name) for name in names]
    scale = float(emit.op.attrs.get("scale") or 0.0)
    wanted = _wanted_size(emit, x, is_channels_last(layout), len(spatial))
    scaled = wanted is None and scale > 0
    is_open = scaled and UNKNOWN in spatial
    if scaled:
        size = resized_sizes(spatial, (), [scale], single=True)
    attrs = {
        "size": () if wanted is not None or is_open else size,
        "scale": (scale,) if is_open else (),
        "single_scale": is_open,
        "spaced_by_size": is_open,
        "mode": "linear" if method in ("bilinear", "trilinear") else method,
        "align_corners": emit.attr("align_corners"),
        "align_mode": emit.attr("align_mode"),
        "data_layout": layout,
    }
    tensors = {} if wanted is None else {"size": wanted}
    whole = dtype_of(x.type) == "uint8"
    pixels = emit(Cast, x, dtype="float32") if whole else x
    out = emit.dynamic(Interpolate, [pixels, None], attrs, tensors)[0]
    return emit.results(Out=emit.like(out, x))


def _wanted_size(emit: Emitter, x: SSAValue, last: bool, rank: int) -> SSAValue | None:
    """Emit the size of the result as a tensor if a tensor decides it; None otherwise."""
    given = emit.op.input("OutSize") or emit.op.input("SizeTensor")
    if given:
        return emit.join_elements(given)
    factor = emit.optional("Scale")
    if factor is None:
        return None
    first = 1 if last else 2
    own = emit(Slice, emit(ShapeOf, x), axes=(0,), starts=(first,), ends=(first + rank,))
    # as in Paddle: a float32 product, truncated
    large = emit(Multiply, emit(Cast, own, dtype="float32"), emit.reshape(factor, 1))
    return emit(Cast, large, dtype="int64")


@translates("unpool", "unpool3d")
def unpool(emit: Emitter) -> Written:
    """Translate unpooling; in Paddle 1 the size of the result follows from the pooling windows."""
    if any(emit.several("output_size")):
        return emit.by_row()
    shape = shape_of(emit.input("X").type)[2:]
    if UNKNOWN in shape:
        raise ProgramError(
            f"{emit.op.type} of images of unknown sizes {list(shape)} needs the attribute "
            "'output_size'"
        )
    windows = zip(*(emit.several(name) for name in ("ksize", "strides", "paddings")), strict=True)
    size = tuple(
        (count - 1) * int(stride) - 2 * int(pad) + int(width)
        for count, (width, stride, pad) in zip(shape, windows, strict=True)
    )
    return emit.by_row(output_size=size)


@translates("pad3d")
def pad3d(emit: Emitter) -> Written:
    """Translate pad3d: two numbers for width, then height, then depth, perhaps in tensors."""
    emit.only_constants_besides("X", "Paddings")
    last = emit.op.attrs.get("data_format") == "NDHWC"
    attrs = {"mode": emit.attr("mode"), "value": emit.attr("value")}
    names = [name for name in emit.op.input("Paddings") if name != EMPTY]
    given = emit.reshape(emit(Cast, emit.join_elements(names), dtype="int64"), 6) if names else None
    numbers = known_numbers(given) if given is not None else emit.op.attr("paddings")
    if numbers is not None:
        spatial = [[int(n) for n in numbers[2 * at : 2 * at + 2]] for at in (2, 1, 0)]
        pairs = [[0, 0], *spatial]
        pairs.insert(4 if last else 1, [0, 0])
        flat = [number for pair in pairs for number in pair]
        return emit.results(Out=emit(Pad, emit.input("X"), paddings=flat, **attrs))
    parts = [
        emit(Slice, given, axes=(0,), starts=(2 * at,), ends=(2 * at + 2,)) for at in (2, 1, 0)
    ]
    nothing = emit(AssignValue, shape=(2,), values=(0, 0), dtype="int64")
    parts = [nothing, *parts]
    parts.insert(4 if last else 1, nothing)
    tensors = {"paddings": emit(Concat, parts, axis=0)}
    return emit.results(Out=emit.dynamic(Pad, [emit.input("X")], attrs, tensors)[0])


@translates("pad2d")
def pad2d(emit: Emitter) -> Written:
    """Translate pad2d: rows above and below, then columns left and right."""
    emit.only_constants_besides("X", "Paddings")
    mode = emit.attr("mode")
    last = is_channels_last(emit.attr("data_format"))
    attrs = {
        "mode": "replicate" if mode == "edge" else mode,
        "value": emit.attr("pad_value"),
    }
    given = emit.optional("Paddings")
    if given is not None:
        amounts = emit.reshape(emit(Cast, given, dtype="int64"), 4)
        none = [emit(AssignValue, shape=(n,), values=(0,) * n, dtype="int64") for n in (2, 4)]
        parts = [none[0], amounts, none[0]] if last else [none[1], amounts]
        tensors = {"paddings": emit(Concat, parts, axis=0)}
        return emit.results(Out=emit.dynamic(Pad, [emit.input("X")], attrs, tensors)[0])
    pads = list(emit.attr("paddings"))
    flat = [0, 0, *pads, 0, 0] if last else [0, 0, 0, 0, *pads]
    return emit.results(Out=emit(Pad, emit.input("X"), paddings=flat, **attrs))


def _find_measured_images(value: SSAValue) -> SSAValue | None:
    """Find the images y whose open height and width, `shape(y)[2:]`, are in this value."""
    elements = KnownValues().elements(value)
    wanted = [] if elements is None else amounts(elements)
    for size in wanted:
        only = size.only if isinstance(size, SymbolicSum) else None
        if isinstance(only, Size):
            images = only.value
            return images if list(own_sizes(images)[2:]) == wanted else None
    return None
