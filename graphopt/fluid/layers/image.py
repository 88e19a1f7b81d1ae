"""Images: resizing, sampling, channels (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import activate
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.frontend.sizes import has_variable, sizes
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.norm import local_response_norm
from graphopt.nn.functional.vision import affine_grid as _affine_grid
from graphopt.nn.functional.vision import grid_sample
from graphopt.nn.functional.vision import pixel_shuffle as _pixel_shuffle
from graphopt.nn.functional.vision import temporal_shift as _temporal_shift
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import reshape

_METHODS = {"BILINEAR": "bilinear", "TRILINEAR": "trilinear", "NEAREST": "nearest"}
_METHODS |= {"LINEAR": "linear", "BICUBIC": "bicubic"}
_FORMATS = {1: ("NCHW", "NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def image_resize(
    input: Variable,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Resize images to a size, or by a factor (fluid.layers.image_resize).

    `resample` is BILINEAR, TRILINEAR, BICUBIC, LINEAR or NEAREST. By default the centers of the
    corner pixels meet, and otherwise pixels count as points. `out_shape` overrides `scale`, and
    `actual_shape`, a Variable, overrides both. `out_shape` may be a Variable or a list with
    Variables, `scale` a Variable.
    """
    function = "image_resize"
    method = _METHODS[arguments.choice(str(resample).upper(), "resample", function, [*_METHODS])]
    spatial = len(arguments.variable(input, "input", function).shape) - 2
    if (
        spatial != {"linear": 1, "bicubic": 2, "trilinear": 3}.get(method, spatial)
        or not 1 <= spatial <= 3
    ):
        raise ValueError(f"{function}(): '{resample}' does not go with {list(input.shape)}")
    # as in Paddle, the default format is also accepted for volumes
    if not (spatial == 3 and data_format == "NCHW"):
        arguments.choice(data_format, "data_format", function, _FORMATS[spatial])
    if out_shape is None and scale is None:
        raise ValueError(f"{function}(): one of 'out_shape' and 'scale' must not be None")
    if isinstance(out_shape, (list, tuple)) and len(out_shape) != spatial:
        raise ValueError(
            f"{function}(): 'out_shape' should have {spatial} sizes, found {out_shape}"
        )
    attrs: dict[str, Any] = {
        "interp_method": method,
        "align_corners": arguments.flag(align_corners, "align_corners", function),
        "align_mode": arguments.integer(align_mode, "align_mode", function),
        "data_layout": "NHWC" if data_format in ("NHWC", "NDHWC", "NWC") else "NCHW",
    }
    if align_mode not in (0, 1):
        raise ValueError(f"{function}(): 'align_mode' can only be 0 or 1, found {align_mode}")
    inputs: dict[str, Any] = {"X": input}
    if actual_shape is not None:
        inputs["OutSize"] = arguments.variable(actual_shape, "actual_shape", function)
    elif has_variable(out_shape):
        inputs |= sizes(out_shape, "out_shape", function, "OutSize", "SizeTensor").inputs
    elif out_shape is not None:
        wanted = arguments.pair(out_shape, "out_shape", function, spatial)
        attrs |= dict(zip(("out_d", "out_h", "out_w")[-spatial:], wanted, strict=True))
    elif isinstance(scale, Variable):
        inputs["Scale"] = scale
    else:
        attrs["scale"] = arguments.number(scale, "scale", function)
        if attrs["scale"] <= 0:
            raise ValueError(f"{function}(): 'scale' should be greater than zero, found {scale}")
    return emit(f"{method}_interp", inputs, attrs, name=name)


interpolate = image_resize


def resize_bilinear(
    input: Variable,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Resize images between their four neighbors; see `image_resize` (resize_bilinear)."""
    options = ("BILINEAR", actual_shape, align_corners, align_mode, data_format)
    return image_resize(input, out_shape, scale, name, *options)


def resize_trilinear(
    input: Variable,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """Resize volumes between their eight neighbors; see `image_resize` (resize_trilinear)."""
    options = ("TRILINEAR", actual_shape, align_corners, align_mode, data_format)
    return image_resize(input, out_shape, scale, name, *options)


def resize_nearest(
    input: Variable,
    out_shape: Any = None,
    scale: Any = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Resize images by the nearest pixel; see `image_resize` (fluid.layers.resize_nearest)."""
    options = ("NEAREST", actual_shape, align_corners, 1, data_format)
    return image_resize(input, out_shape, scale, name, *options)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Resize images [n, c, h, w] to a shorter side of `out_short_len` (image_resize_short)."""
    shape = arguments.variable(input, "input", "image_resize_short").shape
    if len(shape) != 4 or min(shape[2:]) < 1:
        raise ValueError(
            f"image_resize_short(): 'input' should be [n, c, h, w] of known size, found {[*shape]}"
        )
    sizes, short = list(shape[2:]), shape[2:].index(min(shape[2:]))
    ratio = arguments.integer(out_short_len, "out_short_len", "image_resize_short") / sizes[short]
    sizes[short], sizes[1 - short] = out_short_len, int(sizes[1 - short] * ratio + 0.5)
    return image_resize(input, sizes, resample=resample)


@one_layer("grid_sampler")
def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """Sample x [n, c, h, w] at a grid [n, h, w, 2] in [-1, 1] (fluid.layers.grid_sampler).

    Values are interpolated between four neighbors, with zeros outside; -1 and 1 are the centers of
    the corner pixels.
    """
    return grid_sample(x, grid, "bilinear", "zeros", True, name)


def affine_grid(theta: Variable, out_shape: Any, name: str | None = None) -> Variable:
    """Compute the positions of the pixels of images [n, c, h, w] under 2x3 matrices (affine_grid).

    `out_shape` is the shape of the images.
    """
    return _affine_grid(theta, out_shape, True, name)


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Rearrange [n, c * r * r, h, w] to [n, c, h * r, w * r] (fluid.layers.pixel_shuffle)."""
    return _pixel_shuffle(x, upscale_factor)


def temporal_shift(
    x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None
) -> Variable:
    """Shift parts of the channels one step back and forth in time (layers.temporal_shift)."""
    return _temporal_shift(x, seg_num, shift_ratio, name)


@one_layer("shuffle_channel")
def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """Interleave the channels of `group` groups of [n, c, h, w] (layers.shuffle_channel)."""
    groups = arguments.integer(group, "group", "shuffle_channel")
    _, channels, height, width = _image(x, "shuffle_channel")
    if groups < 1 or channels % groups:
        raise ValueError(f"shuffle_channel(): {channels} channels are not {groups} groups")
    apart = reshape(x, [-1, groups, channels // groups, height, width])
    return reshape(transpose(apart, [0, 2, 1, 3, 4]), [-1, channels, height, width], name)


def _image(x: Any, function: str) -> tuple[int, int, int, int]:
    """Check for a batch of images with known dimensions but the first, and return them."""
    shape = arguments.variable(x, "x", function).shape
    if len(shape) != 4 or min(shape[1:]) < 1:
        raise ValueError(f"{function}(): expected [n, c, h, w] of known size, found {list(shape)}")
    return shape[0], shape[1], shape[2], shape[3]


@one_layer("space_to_depth")
def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Move blocks of pixels of [n, c, h, w] to channels: [n, c * b * b, h / b, w / b].

    The result has the order of Paddle's operator. Paddle page: fluid.layers.space_to_depth.
    """
    b = arguments.integer(blocksize, "blocksize", "space_to_depth")
    _, channels, height, width = _image(x, "space_to_depth")
    if b < 2 or height % b or width % b or channels % (b * b):
        raise ValueError(
            f"space_to_depth(): 'blocksize' {b} should be above 1 and divide the height and width "
            f"of {list(x.shape)}, and its square the channels"
        )
    # Paddle writes larger images with fewer channels, and then reshapes them
    apart = reshape(x, [-1, b, b, channels // (b * b), height, width])
    moved = transpose(apart, [0, 3, 4, 1, 5, 2])
    return reshape(moved, [-1, channels * b * b, height // b, width // b], name)


@one_layer("affine_channel")
def affine_channel(
    x: Variable,
    scale: Variable | None = None,
    bias: Variable | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Variable:
    """Compute x * scale + bias with one scale and bias [c] per channel (affine_channel)."""
    arguments.choice(data_layout, "data_layout", "affine_channel", ("NCHW", "NHWC"))
    rank = len(arguments.variable(x, "x", "affine_channel").shape)
    axis = 1 if data_layout == "NCHW" and rank > 1 else rank - 1
    factor = arguments.variable(scale, "scale", "affine_channel")
    shift = arguments.variable(bias, "bias", "affine_channel")
    out = emit("elementwise_mul", {"X": x, "Y": factor}, {"axis": axis})
    return activate(emit("elementwise_add", {"X": out, "Y": shift}, {"axis": axis}, name=name), act)


@one_layer("lrn", 1)
def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Divide x by (k + alpha * the sum of squares over n neighboring channels)^beta (lrn)."""
    arguments.choice(data_format, "data_format", "lrn", ("NCHW", "NHWC"))
    size = arguments.integer(n, "n", "lrn")
    if len(arguments.variable(input, "input", "lrn").shape) != 4:
        raise ValueError(f"lrn(): 'input' should have rank 4, found {list(input.shape)}")
    if size < 1 or size % 2 == 0:
        raise ValueError(f"lrn(): 'n' should be odd, found {size}")
    # the newer function divides the sum by the number of channels
    factor = arguments.number(alpha, "alpha", "lrn") * size
    return local_response_norm(input, size, factor, beta, k, data_format, name)


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """Average the channel products of two images over pixels: [n, cx, cy] (layers.fsp_matrix)."""
    (_, _, h, w), (_, _, *size) = _image(x, "fsp_matrix"), _image(y, "fsp_matrix")
    if size != [h, w]:
        raise ValueError(f"fsp_matrix(): x is {h} by {w} pixels, y {size[0]} by {size[1]}")
    return emit("fsp", {"X": x, "Y": y}, layer="fsp_matrix")


def add_position_encoding(
    input: Variable, alpha: float, beta: float, name: str | None = None
) -> Variable:
    """Compute alpha * input [n, t, d] + beta * sines and cosines of the position in t.

    Sequences [rows, d] (lod_level 1) have the positions of their own rows. The wavelengths go from
    2 pi to 10000 * 2 pi over half of d; the sines come first.
    Paddle page: fluid.layers.add_position_encoding.
    """
    function = "add_position_encoding"
    shape = arguments.variable(input, "input", function).shape
    if len(shape) not in (2, 3) or shape[-1] < 1 or shape[-1] % 2:
        raise ValueError(
            f"{function}(): 'input' should be [n, t, d], or sequences [rows, d], with d known and "
            f"even, found {list(shape)}"
        )
    attrs = {
        "alpha": arguments.number(alpha, "alpha", function),
        "beta": arguments.number(beta, "beta", function),
    }
    if len(shape) == 3:
        return emit(function, {"X": input}, attrs, name=name)
    lengths = of_one_level(input, function, "input")
    made = emit(function, {"X": input, SLOT: lengths}, attrs, name=name)
    return note(made, levels_of(input))
