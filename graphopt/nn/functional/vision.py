"""Padding, resizing, sampling and rearrangement of images (paddle.nn.functional)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import has_variable, size_of
from graphopt.frontend.sizes import sizes as sizes_of
from graphopt.ir.program import Variable
from graphopt.nn.functional.antialias import resize
from graphopt.nn.functional.padding import pad_by
from graphopt.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from graphopt.nn.functional.window import is_channels_last
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, concat, reshape, squeeze, unsqueeze
from graphopt.tensor.manipulation import slice as slice_

_MODES = ("constant", "reflect", "replicate", "circular")


def pad(
    x: Variable,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Add elements before and after dimensions (paddle.nn.functional.pad).

    `pad` has (before, after) for the last spatial dimension, then for the one before it, and so
    on; a list of two for every dimension, in constant mode, starts at the first instead. It may be
    an integer Variable; then only the run knows the sizes.
    """
    rank = len(arguments.variable(x, "x", "pad").shape)
    arguments.choice(mode, "mode", "pad", _MODES)
    if isinstance(pad, Variable):
        return pad_by(x, pad, mode, arguments.number(value, "value", "pad"), data_format)
    amounts = arguments.integers(pad, "pad", "pad")
    if mode == "constant" and len(amounts) == 2 * rank:
        attrs = {"paddings": amounts, "pad_value": arguments.number(value, "value", "pad")}
        return emit("pad", {"X": x}, attrs, name=name)
    last = data_format in ("NLC", "NHWC", "NDHWC")
    axes = range(1 if last or rank == 2 else 2, rank - 1 if last else rank)
    amounts = amounts * 2 * len(axes) if len(amounts) == 1 else amounts
    if len(amounts) % 2 or len(amounts) > 2 * len(axes):
        raise ValueError(
            f"pad(): 'pad' should have two numbers for each spatial dimension of "
            f"{list(x.shape)} ({data_format}), found {amounts}"
        )
    if mode == "constant":
        pairs = [0] * (2 * rank)
        for at, axis in enumerate(reversed(axes[-(len(amounts) // 2) :])):
            pairs[2 * axis : 2 * axis + 2] = amounts[2 * at : 2 * at + 2]
        attrs = {"paddings": pairs, "pad_value": arguments.number(value, "value", "pad")}
        return emit("pad", {"X": x}, attrs, name=name)
    # the operator pads volumes only: lower ranks get axes of size 1
    added = [1 if last else 2] * (5 - rank)
    volume = unsqueeze(x, added) if added else x
    attrs = {
        "paddings": amounts + [0] * (6 - len(amounts)),
        "mode": mode,
        "value": arguments.number(value, "value", "pad"),
        "data_format": "NDHWC" if last else "NCDHW",
    }
    out = emit("pad3d", {"X": volume}, attrs, name=name)
    return squeeze(out, [added[0] + i for i in range(len(added))]) if added else out


def zeropad2d(
    x: Variable, padding: Any, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Add zeros left, right, above and below images (paddle.nn.functional.zeropad2d)."""
    return pad(x, padding, "constant", 0.0, data_format, name)


_RANK_OF_MODE = {
    "nearest": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "bicubic": (4,),
    "trilinear": (5,),
    "area": (3, 4, 5),
}


def interpolate(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
    *,
    antialias: bool = False,
) -> Variable:
    """Resize images to a size or by a factor (paddle.nn.functional.interpolate).

    `align_corners` aligns the centers of the corner pixels. Otherwise, `align_mode` 0 takes
    pixels as areas and 1 as points. Raises ValueError when neither or both of `size` and
    `scale_factor` are given or the mode does not fit the rank. Sizes and scales may be Variables,
    but not with `antialias`, which averages where bilinear and bicubic images become smaller.
    """
    mode = str(mode).lower()
    arguments.choice(mode, "mode", "interpolate", tuple(_RANK_OF_MODE))
    rank = len(arguments.variable(x, "x", "interpolate").shape)
    if rank not in _RANK_OF_MODE[mode]:
        raise ValueError(f"interpolate(): '{mode}' takes rank {_RANK_OF_MODE[mode]}, found {rank}")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate(): give either 'size' or 'scale_factor'")
    if align_mode not in (0, 1):
        raise ValueError(f"interpolate(): 'align_mode' should be 0 or 1, found {align_mode}")
    if align_corners and mode in ("nearest", "area"):
        raise ValueError(f"interpolate(): align_corners does not go with '{mode}'")
    last = data_format in ("NLC", "NWC", "NHWC", "NDHWC")
    inputs: dict[str, Any] = {"X": x}
    if has_variable(size):
        dims = sizes_of(size, "size", "interpolate", "OutSize", "SizeTensor")
        size = None
        inputs |= dims.inputs
    if has_variable(scale_factor):
        inputs["Scale"] = scale_factor
        scale_factor = None
    sizes = [] if size is None else arguments.pair(size, "size", "interpolate", rank - 2)
    if arguments.flag(antialias, "antialias", "interpolate"):
        scales = [] if scale_factor is None else _scales(scale_factor, rank - 2)
        known = sizes or ([] if not scales else _scaled_sizes(x, scales, last))
        return resize(x, known, scales, mode, align_corners=align_corners, channels_last=last)
    if mode == "area":
        return _area(x, sizes or _scaled_sizes(x, scale_factor, last), data_format, name)
    attrs: dict[str, Any] = {
        "interp_method": mode,
        "align_corners": arguments.flag(align_corners, "align_corners", "interpolate"),
        "align_mode": arguments.integer(align_mode, "align_mode", "interpolate"),
        "data_layout": "NHWC" if last else "NCHW",
        "scale": [] if scale_factor is None else _scales(scale_factor, rank - 2),
        **dict(zip(("out_w", "out_h", "out_d"), sizes[::-1], strict=False)),
    }
    return emit(f"{mode}_interp_v2", inputs, attrs, name=name)


def _scales(scale_factor: Any, spatial: int) -> list[float]:
    given = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * spatial
    scales = [arguments.number(scale, "scale_factor", "interpolate") for scale in given]
    if len(scales) != spatial or min(scales) <= 0:
        raise ValueError(f"interpolate(): 'scale_factor' should be {spatial} numbers above 0")
    return scales


def _scaled_sizes(x: Variable, scale_factor: Any, last: bool) -> list[int]:
    spatial = x.shape[1:-1] if last else x.shape[2:]
    scales = _scales(scale_factor, len(spatial))
    return [int(dim * scale) for dim, scale in zip(spatial, scales, strict=True)]


def _area(x: Variable, sizes: list[int], data_format: str, name: str | None) -> Variable:
    """Average over windows, as many as the sizes."""
    if len(sizes) == 1:
        return adaptive_avg_pool1d(x, sizes[0], name)
    if len(sizes) == 2:
        return adaptive_avg_pool2d(x, sizes, data_format, name)
    return adaptive_avg_pool3d(x, sizes, data_format, name)


def upsample(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Resize images as `interpolate` does (paddle.nn.functional.upsample)."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)


def _known_channels(x: Any, axis: int, function: str) -> int:
    """Return the size of the channel axis; raise ValueError when it is known only in a run."""
    count = arguments.variable(x, "x", function).shape[axis]
    if count < 0:
        raise ValueError(
            f"{function}(): the number of channels must be known when the program is built, found "
            f"{list(x.shape)}"
        )
    return count


@one_layer("pixel_shuffle")
def pixel_shuffle(
    x: Variable, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Rearrange [n, c * r * r, h, w] to [n, c, h * r, w * r] (nn.functional.pixel_shuffle)."""
    r = arguments.integer(upscale_factor, "upscale_factor", "pixel_shuffle")
    arguments.at_least(1, [r], "upscale_factor", "pixel_shuffle")
    last = is_channels_last(data_format, "pixel_shuffle", ("NCHW", "NHWC"))
    c = _known_channels(x, 3 if last else 1, "pixel_shuffle")
    image = transpose(x, [0, 3, 1, 2]) if last else x
    h, w = size_of(image, 2), size_of(image, 3)
    if c % (r * r):
        raise ValueError(f"pixel_shuffle(): {c} channels are not a multiple of {r} * {r}")
    apart = reshape(image, [-1, c // (r * r), r, r, h, w])
    if last:
        return reshape(transpose(apart, [0, 4, 2, 5, 3, 1]), [-1, h * r, w * r, c // (r * r)], name)
    return reshape(transpose(apart, [0, 1, 4, 2, 5, 3]), [-1, c // (r * r), h * r, w * r], name)


def pixel_unshuffle(
    x: Variable, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Rearrange [n, c, h * r, w * r] to [n, c * r * r, h, w] (nn.functional.pixel_unshuffle)."""
    r = arguments.integer(downscale_factor, "downscale_factor", "pixel_unshuffle")
    arguments.at_least(1, [r], "downscale_factor", "pixel_unshuffle")
    last = is_channels_last(data_format, "pixel_unshuffle", ("NCHW", "NHWC"))
    c = _known_channels(x, 3 if last else 1, "pixel_unshuffle")
    image = transpose(x, [0, 3, 1, 2]) if last else x
    h, w = size_of(image, 2), size_of(image, 3)
    apart = transpose(reshape(image, [-1, c, h // r, r, w // r, r]), [0, 1, 3, 5, 2, 4])
    out = reshape(apart, [-1, c * r * r, h // r, w // r], name)
    return transpose(out, [0, 2, 3, 1]) if last else out


def channel_shuffle(
    x: Variable, groups: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Interleave the channels of `groups` groups (paddle.nn.functional.channel_shuffle)."""
    last = is_channels_last(data_format, "channel_shuffle", ("NCHW", "NHWC"))
    axis = 3 if last else 1
    arguments.at_least(1, [groups], "groups", "channel_shuffle")
    channels = _known_channels(x, axis, "channel_shuffle")
    rest = [size_of(x, at) for at in (1, 2, 3)]
    split = [groups, channels // groups]
    apart = [*rest[: axis - 1], *split, *rest[axis:]]
    order = list(range(5))
    order[axis], order[axis + 1] = order[axis + 1], order[axis]
    return reshape(transpose(reshape(x, [-1, *apart]), order), [-1, *rest], name)


def temporal_shift(
    x: Variable,
    seg_num: int,
    shift_ratio: float = 0.25,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Shift the first channels from the previous frame, the second from the next frame.

    x has [n * seg_num, c, h, w]; a share `shift_ratio` of the channels moves each way. Paddle page:
    paddle.nn.functional.temporal_shift.
    """
    last = is_channels_last(data_format, "temporal_shift", ("NCHW", "NHWC"))
    frames = arguments.integer(seg_num, "seg_num", "temporal_shift")
    axis = 4 if last else 2
    channels = _known_channels(x, axis - 1, "temporal_shift")
    sizes = [size_of(x, at) for at in (1, 2, 3)]
    first = int(channels * shift_ratio)
    second = int(channels * 2 * shift_ratio)
    videos = reshape(x, [-1, frames, *sizes])

    def part(low: int, high: int, start: int) -> Variable:
        """Slice channels low to high, shifted so that frame `start` is first; zeros outside."""
        zeros = [0] * 10
        zeros[2], zeros[3] = max(-start, 0), max(start, 0)
        channel = slice_(videos, [axis], [low], [high])
        return slice_(pad(channel, zeros), [1], [max(start, 0)], [frames + max(start, 0)])

    parts = [part(0, first, -1), part(first, second, 1), part(second, channels, 0)]
    return reshape(concat(parts, axis), [-1, *sizes], name)


def unfold(
    x: Variable,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Extract the windows of images as columns [n, c * kh * kw, windows] (functional.unfold).

    Four paddings are top, left, bottom and right.
    """
    arguments.variable(x, "x", "unfold")
    around = arguments.integers(paddings, "paddings", "unfold")
    around = around if len(around) == 4 else arguments.pair(paddings, "paddings", "unfold") * 2
    attrs = {
        "kernel_sizes": arguments.pair(kernel_sizes, "kernel_sizes", "unfold"),
        "strides": arguments.pair(strides, "strides", "unfold"),
        "paddings": around,
        "dilations": arguments.pair(dilations, "dilations", "unfold"),
    }
    return emit("unfold", {"X": x}, attrs, name=name, out="Y")


def fold(
    x: Variable,
    output_sizes: Any,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Sum the windows of `unfold` into images [n, c, h, w] (paddle.nn.functional.fold).

    Four paddings are top, left, bottom and right.
    """
    arguments.variable(x, "x", "fold")
    around = arguments.integers(paddings, "paddings", "fold")
    around = around if len(around) == 4 else arguments.pair(paddings, "paddings", "fold") * 2
    attrs = {
        "output_sizes": arguments.pair(output_sizes, "output_sizes", "fold"),
        "kernel_sizes": arguments.pair(kernel_sizes, "kernel_sizes", "fold"),
        "strides": arguments.pair(strides, "strides", "fold"),
        "paddings": around,
        "dilations": arguments.pair(dilations, "dilations", "fold"),
    }
    return emit("fold", {"X": x}, attrs, name=name, out="Y")


def grid_sample(
    x: Variable,
    grid: Variable,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Variable:
    """Sample images at points [n, h, w, 2] of the square from -1 to 1 (functional.grid_sample).

    Points are (column, row); for volumes, [n, d, h, w, 3], they are (column, row, depth).
    """
    inputs = {
        "X": arguments.variable(x, "x", "grid_sample"),
        "Grid": arguments.variable(grid, "grid", "grid_sample"),
    }
    modes, paddings = ("bilinear", "nearest"), ("zeros", "border", "reflection")
    attrs = {
        "mode": arguments.choice(mode, "mode", "grid_sample", modes),
        "padding_mode": arguments.choice(padding_mode, "padding_mode", "grid_sample", paddings),
        "align_corners": arguments.flag(align_corners, "align_corners", "grid_sample"),
    }
    return emit("grid_sampler", inputs, attrs, layer="grid_sample", name=name, out="Output")


def affine_grid(
    theta: Variable, out_shape: Any, align_corners: bool = True, name: str | None = None
) -> Variable:
    """Transform the grid of an image by matrices [n, 2, 3] (paddle.nn.functional.affine_grid).

    The sizes of the image, [n, c, h, w], may be a Variable or contain Variables.
    """
    inputs = {"Theta": arguments.variable(theta, "theta", "affine_grid")}
    dims = sizes_of(out_shape, "out_shape", "affine_grid", "OutputShape", "OutputShape")
    for slot, given in dims.inputs.items():
        if isinstance(given, list):
            given = concat([reshape(cast(size, "int32"), [1]) for size in given])
        inputs[slot] = given
    attrs = {
        "output_shape": dims.value,
        "align_corners": arguments.flag(align_corners, "align_corners", "affine_grid"),
    }
    return emit("affine_grid", inputs, attrs, name=name, out="Output")


lazy.join_package(globals())
