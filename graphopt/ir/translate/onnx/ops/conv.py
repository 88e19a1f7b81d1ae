"""Convolutions, transposed and deformable ones included."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import conv as ops
from graphopt.ir.dialect.ops.activation import Silu
from graphopt.ir.dialect.ops.math import Add, FloorDivide, Maximum, Multiply, Subtract
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Concat, Slice, Stack
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, rank, shape
from graphopt.ir.translate.onnx.registry import reads

Pairs = tuple[tuple[int, int], ...]
_AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def window_pads(
    emit: OnnxEmitter,
    x: SSAValue,
    auto_pad: str,
    pads: Sequence[int] | None,
    windows: Sequence[int],
    strides: Sequence[int],
) -> Pairs:
    """Compute the padding before and after each spatial dimension."""
    kind, count = emit.one_of(auto_pad, _AUTO), len(windows)
    if kind == "VALID":
        return ((0, 0),) * count
    if kind == "NOTSET":
        given = tuple(pads or (0,) * (2 * count))
        if len(given) != 2 * count:
            raise emit.refuse(f"{len(given)} numbers of padding for {count} dimensions")
        return tuple(zip(given[:count], given[count:], strict=True))
    found: list[tuple[int, int]] = []
    sizes = emit.sizes(x, along=[2 + i for i in range(count) if strides[i] != 1])[2:]
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        # with a stride of 1, the padding does not depend on the size
        last = 0 if stride == 1 else (-(-size // stride) - 1) * stride - size + 1
        total = max(last + window - 1, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if kind == "SAME_UPPER" else (more, less))
    return tuple(found)


def same_padded(
    emit: OnnxEmitter,
    x: SSAValue,
    auto_pad: str,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    value: float = 0.0,
) -> tuple[SSAValue, str]:
    """Pad `x` if open sizes decide its padding; return it with the remaining `auto_pad`."""
    count = rank(x) - 2
    steps, apart = tuple(strides or (1,) * count), tuple(dilations or (1,) * count)
    is_open = any(
        size == UNKNOWN and step != 1 for size, step in zip(shape(x)[2:], steps, strict=True)
    )
    if not is_open or not auto_pad.startswith("SAME"):
        return x, auto_pad
    wide = [d * (k - 1) + 1 for k, d in zip(kernel, apart, strict=True)]
    step, window, two, zero = (
        emit.constant(numbers, "int64") for numbers in (steps, wide, (2,) * count, (0,) * count)
    )
    sizes = emit(Slice, emit.shape(x), axes=(0,), starts=(2,), ends=(2 + count,))
    # the last window begins at the last step within x
    start = emit(FloorDivide, emit.plus(sizes, -1), step)
    total = emit(Subtract, emit(Add, emit(Multiply, start, step), window), sizes)
    total = emit(Maximum, total, zero)
    less = emit(FloorDivide, total, two)
    sides = [less, emit(Subtract, total, less)]
    if auto_pad == "SAME_LOWER":
        sides.reverse()
    pairs = emit.reshape(emit(Stack, sides, axis=1), 2 * count)
    around = emit(Concat, [emit.constant((0,) * 4, "int64"), pairs], axis=0)
    padded = emit.dynamic(Pad, [x], {"value": value}, {"paddings": around})[0]
    return padded, "VALID"


def flat(pads: Pairs) -> tuple[int, ...]:
    """Flatten padding as ops have it: one number per dimension if both sides are equal."""
    if all(before == after for before, after in pads):
        return tuple(before for before, _ in pads)
    return tuple(number for pair in pads for number in pair)


def as_images(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    """Reshape signals [n, c, length] to images of one row."""
    return emit.unsqueeze(x, 2)


def in_images(values: Sequence[int], neutral: int) -> tuple[int, ...]:
    """Extend the numbers for a signal's axis to an image of one row: `neutral` comes first."""
    return (neutral, *values)


def with_bias(emit: OnnxEmitter, out: SSAValue, bias: SSAValue | None) -> SSAValue:
    """Add the bias of each channel, if there is one."""
    return out if bias is None else emit(Add, out, emit.along(bias, rank(out), 1))


@reads("Conv")
def conv(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    bias: SSAValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    out = convolve(emit, x, filter, auto_pad, dilations, group, pads, strides)
    return with_bias(emit, out, bias)


def convolve(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    auto_pad: str,
    dilations: Sequence[int] | None,
    group: int,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> SSAValue:
    """Emit a convolution without a bias over one, two or three dimensions."""
    count = rank(x) - 2
    if count not in (1, 2, 3):
        raise emit.refuse(f"{count} spatial dimensions are not supported, only 1 to 3")
    steps, apart = tuple(strides or (1,) * count), tuple(dilations or (1,) * count)
    kernel = emit.sizes(filter, "the sizes of its filter")[2:]
    windows = [d * (k - 1) + 1 for k, d in zip(kernel, apart, strict=True)]
    x, auto_pad = same_padded(emit, x, auto_pad, kernel, steps, apart)
    around = window_pads(emit, x, auto_pad, pads, windows, steps)
    if count == 1:
        x, filter = as_images(emit, x), as_images(emit, filter)
        steps, apart, around = in_images(steps, 1), in_images(apart, 1), ((0, 0), *around)
    channels = shape(x)[1]
    depthwise = count < 3 and group > 1 and group == channels and shape(filter)[1] == 1
    op_class = ops.Conv3d if count == 3 else ops.DepthwiseConv2d if depthwise else ops.Conv2d
    attrs = {"strides": steps, "paddings": flat(around), "dilations": apart, "groups": group}
    out = emit(op_class, x, filter, **attrs)
    return emit.squeeze(out, 2) if count == 1 else out


@reads("ConvTranspose")
def conv_transpose(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    bias: SSAValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    """Emit a transposed convolution.

    If the op does not support the padding (unequal sides, negative, or a large `output_padding`),
    emit the op without padding and crop or pad its result.
    """
    count = rank(x) - 2
    if count not in (1, 2, 3):
        raise emit.refuse(f"{count} spatial dimensions are not supported, only 1 to 3")
    steps, apart = tuple(strides or (1,) * count), tuple(dilations or (1,) * count)
    extra = tuple(output_padding or (0,) * count)
    kernel = emit.sizes(filter, "the sizes of its filter")[2:]
    windows = [d * (k - 1) + 1 for k, d in zip(kernel, apart, strict=True)]
    around = _transposed_pads(emit, x, auto_pad, pads, windows, steps, extra, output_shape)
    if count == 1:
        x, filter = as_images(emit, x), as_images(emit, filter)
        steps, apart = in_images(steps, 1), in_images(apart, 1)
        extra, around = in_images(extra, 0), ((0, 0), *around)
    op_class = ops.Conv3dTranspose if count == 3 else ops.Conv2dTranspose
    attrs = {"strides": steps, "dilations": apart, "groups": group}
    even = all(before == after >= 0 for before, after in around)
    if even and all(a < max(s, d) for a, s, d in zip(extra, steps, apart, strict=True)):
        if any(extra):
            attrs["output_padding"] = extra
        out = emit(op_class, x, filter, paddings=flat(around), **attrs)
    else:
        out = emit(op_class, x, filter, **attrs, paddings=(0,) * len(steps))
        cut = [(-before, more - after) for (before, after), more in zip(around, extra, strict=True)]
        out = emit(Pad, out, paddings=(0, 0, 0, 0, *(n for pair in cut for n in pair)))
    return with_bias(emit, emit.squeeze(out, 2) if count == 1 else out, bias)


def _transposed_pads(
    emit: OnnxEmitter,
    x: SSAValue,
    auto_pad: str,
    pads: Sequence[int] | None,
    windows: Sequence[int],
    strides: Sequence[int],
    extra: Sequence[int],
    output_shape: Sequence[int] | None,
) -> Pairs:
    """Compute the number of elements to crop before and after each dimension; negative to pad."""
    kind, count = emit.one_of(auto_pad, _AUTO), len(windows)
    if output_shape is None and kind in ("NOTSET", "VALID"):
        return window_pads(emit, x, kind, pads, windows, strides)
    found: list[tuple[int, int]] = []
    for i, (stride, window, more) in enumerate(zip(strides, windows, extra, strict=True)):
        if output_shape is None and kind.startswith("SAME"):
            total = window - stride + more
        else:
            size = emit.sizes(x, along=(2 + i,))[2 + i]
            wanted = list(output_shape or ())[-count:][i]
            total = stride * (size - 1) + more + window - wanted
        less = total // 2
        found.append((less, total - less) if kind == "SAME_UPPER" else (total - less, less))
    return tuple(found)


@reads("DeformConv")
def deform_conv(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    offset: SSAValue,
    bias: SSAValue | None = None,
    mask: SSAValue | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    around = window_pads(emit, x, "NOTSET", pads, (1,) * (rank(x) - 2), ())
    if any(before != after for before, after in around):
        raise emit.refuse("the padding differs before and after; put a Pad before the node")
    out = emit(
        ops.DeformableConv,
        *(x, offset, filter, mask),
        strides=tuple(strides or (1, 1)),
        paddings=flat(around),
        dilations=tuple(dilations or (1, 1)),
        deformable_groups=offset_group,
        groups=group,
    )
    return with_bias(emit, out, bias)


@reads("CausalConvWithState")
def causal_conv_with_state(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    bias: SSAValue | None = None,
    past: SSAValue | None = None,
    *,
    activation: str = "none",
) -> Sequence[SSAValue]:
    """Emit a depthwise convolution over past and new steps; the last steps are the new state."""
    kind = emit.one_of(activation, ("none", "silu", "swish"))
    channels, _, length = emit.sizes(filter, "the sizes of its filter")
    if past is None:
        steps = emit(Pad, x, paddings=(0, 0, 0, 0, length - 1, 0))
    else:
        steps = emit(Concat, [past, x], axis=2)
    out = convolve(emit, steps, filter, "NOTSET", None, channels, None, None)
    out = with_bias(emit, out, bias)
    kept = (
        {"starts": (1 - length,), "ends": (END,)} if length > 1 else {"starts": (0,), "ends": (0,)}
    )
    present = emit(Slice, steps, axes=(2,), **kept)
    return [out if kind == "none" else emit(Silu, out), present]
