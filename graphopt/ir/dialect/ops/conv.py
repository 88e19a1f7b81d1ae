"""Convolutions over two or three spatial dimensions, their transposes, and deformed ones."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp, PureOp
from graphopt.ir.dialect.ops.linear import check_kernel
from graphopt.ir.dialect.traits import Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
)

Pads = tuple[tuple[int, int], ...]


def is_channels_last(data_format: str) -> bool:
    """True for NHWC and its like; ProgramError for an unknown layout."""
    if data_format in ("NCHW", "NCDHW", "AnyLayout"):
        return False
    if data_format in ("NHWC", "NDHWC"):
        return True
    raise ProgramError(f"data_format must be NCHW, NCDHW, NHWC or NDHWC, found '{data_format}'")


def spatial_sizes(shape: Sequence[int], data_format: str) -> tuple[int, ...]:
    """Return the dimensions that are neither batch nor channels."""
    return tuple(shape[1:-1] if is_channels_last(data_format) else shape[2:])


def with_spatial(
    shape: Sequence[int], channels: int, spatial: Sequence[int], data_format: str
) -> tuple[int, ...]:
    """Build the shape of a result with the batch size of `shape`."""
    if is_channels_last(data_format):
        return (shape[0], *spatial, channels)
    return (shape[0], channels, *spatial)


def check_convolution(
    x: Sequence[int], w: Sequence[int], spatial: int, groups: int, own: int, data_format: str
) -> int:
    """Return the number of input channels; raise ProgramError unless it is `groups` * `own`."""
    if len(x) != spatial + 2 or len(w) != spatial + 2:
        raise ProgramError(
            f"conv{spatial}d needs an input and a filter of rank {spatial + 2}, "
            f"found {list(x)} and {list(w)}"
        )
    channels = x[-1] if is_channels_last(data_format) else x[1]
    if groups < 1 or (UNKNOWN not in (channels, own) and channels != own * groups):
        raise ProgramError(
            f"the input has {channels} channels but the filter {list(w)} "
            f"with groups={groups} needs {own * groups}"
        )
    return channels


def explicit_pads(
    paddings: Sequence[int],
    algorithm: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Pads:
    """Compute the padding before and after each spatial dimension.

    `paddings` has one number per dimension or two; SAME puts the odd one after, as Paddle does. An
    unknown size under SAME gets the padding of a size that the stride divides.
    """
    check_steps("kernel size", [1 if size == UNKNOWN else size for size in kernel], len(kernel))
    check_steps("stride", strides, len(kernel))
    check_steps("dilation", dilations, len(kernel))
    if algorithm == "VALID":
        return tuple((0, 0) for _ in kernel)
    if algorithm == "SAME":
        pads: list[tuple[int, int]] = []
        for size, k, stride in zip(sizes, kernel, strides, strict=True):
            known = stride if size == UNKNOWN else size
            total = max((-(-known // stride) - 1) * stride + k - known, 0)
            pads.append((total // 2, total - total // 2))
        return tuple(pads)
    return given_pads(paddings, len(kernel))


def given_pads(paddings: Sequence[int], count: int) -> Pads:
    """Pair the padding before and after each of `count` dimensions, from one number each or two."""
    if len(paddings) == count:
        return tuple((p, p) for p in paddings)
    if len(paddings) == 2 * count:
        return tuple((paddings[2 * i], paddings[2 * i + 1]) for i in range(count))
    raise ProgramError(f"paddings must have {count} or {2 * count} numbers")


def check_steps(what: str, values: Sequence[int], count: int) -> None:
    """Raise ProgramError unless there are `count` windows, strides or dilations, each above 0."""
    if any(value < 1 for value in values):
        raise ProgramError(f"each {what} should be at least 1, found {list(values)}")
    if len(values) != count:
        raise ProgramError(f"there should be {count} of '{what}', found {list(values)}")


def used_dilations(dilations: Sequence[int], algorithm: str) -> tuple[int, ...]:
    """Return the effective dilations: under SAME, Paddle takes all of them for 1."""
    return (1,) * len(dilations) if algorithm == "SAME" else tuple(dilations)


def window_output(
    size: int,
    window: int,
    stride: int,
    pads: tuple[int, int],
    ceil: bool,
    *,
    may_pass_end: bool = False,
) -> int:
    """Count the windows that fit in a padded dimension.

    With `may_pass_end`, a window may be larger than the dimension if the stride is larger than what
    is missing: Paddle's division rounds towards 0, and its pools cut such a window.
    """
    if size == UNKNOWN:
        return UNKNOWN
    room = size + sum(pads) - window
    steps = room + (stride - 1 if ceil else 0)
    count = (-(-steps // stride) if steps < 0 and may_pass_end else steps // stride) + 1
    if count < 1:
        raise ProgramError(
            f"a window of {window} does not fit a dimension of {size} padded by {pads}"
        )
    return count


def filter_sizes(shape: Sequence[int], filter_format: str) -> tuple[int, ...]:
    """Reorder filter sizes to [out, in / groups, height, width].

    Raises ProgramError for an unknown layout.
    """
    if filter_format == "OIHW":
        return tuple(shape)
    if filter_format == "HWIO" and len(shape) == 4:
        return (shape[3], shape[2], *shape[:2])
    raise ProgramError(f"filter_format must be OIHW, or HWIO of rank 4, found '{filter_format}'")


def check_algorithm(
    algorithm: str,
    filter: Sequence[int],
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None:
    """Raise ProgramError unless the algorithm fits a filter [out, in / groups, height, width]."""
    outs, own, *kernel = filter
    one = (1, UNKNOWN)
    meets_all = all(stride == 1 for stride in strides)
    fits = {
        "": True,
        "shifts": own in one,
        "matmul": groups == 1 and all(size in one for size in kernel),
        "im2col": groups == 1,
        "channels": groups == 1,
        "groups": groups > 1,
        "winograd": groups == 1
        and all(size in (3, UNKNOWN) for size in kernel)
        and meets_all
        and all(dilation == 1 for dilation in dilations),
        "patches": groups == 1,
        "rows": groups == 1 and meets_all,
        "planes": len(kernel) == 3,
    }
    if algorithm not in fits:
        raise ProgramError(f"algorithm must be one of {list(fits)}, found '{algorithm}'")
    if not fits[algorithm] or (len(kernel) != 2 and algorithm not in ("", "planes")):
        raise ProgramError(
            f"the algorithm '{algorithm}' is not for {outs} filters {[own, *kernel]} "
            f"in {groups} groups"
        )


class Conv2dBase(PureOp, ABC):
    """Cross-correlation of a batch of images with filters [out, in / groups, height, width].

    Volumes have a depth before the height; the number of strides is the number of dimensions.
    `algorithm` selects how to compute it, empty for the backend's default; filters may also be
    stored as [height, width, in / groups, out] (`filter_format` HWIO). Where `kernel` names a
    library, `algorithm` selects only how to compute the gradient of the filter. Passes set all
    three.
    """

    traits = traits_def(Rowwise())
    input = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    out = result_def(TENSOR)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT", of=("EXPLICIT", "SAME", "VALID"))
    dilations = integers((1, 1))
    groups = integer(1)
    data_format = string("NCHW", of=("NCHW", "NHWC"))
    algorithm = string("")
    filter_format = string("OIHW")
    kernel = string("")

    @staticmethod
    def infer(
        input: Tensor,
        filter: Tensor,
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        dilations: Sequence[int],
        groups: int,
        data_format: str,
        algorithm: str = "",
        filter_format: str = "OIHW",
        kernel: str = "",
    ) -> Tensor:
        same_dtype(input, filter)
        check_kernel(kernel)
        if kernel and len(strides) != 2:
            raise ProgramError(f"the kernel '{kernel}' is for images")
        x, w = shape_of(input), filter_sizes(shape_of(filter), filter_format)
        check_convolution(x, w, len(strides), groups, (*w, 1, 1)[1], data_format)
        check_algorithm(algorithm, w, groups, strides, dilations)
        if w[0] != UNKNOWN and w[0] % groups:
            raise ProgramError(f"{w[0]} output channels cannot be split in {groups} groups")
        positions, spatial = w[2:], spatial_sizes(x, data_format)
        dilations = used_dilations(dilations, padding_algorithm)
        pads = explicit_pads(paddings, padding_algorithm, spatial, positions, strides, dilations)
        out = [
            UNKNOWN if k == UNKNOWN else window_output(size, d * (k - 1) + 1, stride, pad, False)
            for size, d, k, stride, pad in zip(
                spatial, dilations, positions, strides, pads, strict=True
            )
        ]
        return like(input, shape=with_spatial(x, w[0], out, data_format))


@irdl_op_definition
class Conv2d(Conv2dBase):
    """Two-dimensional convolution. Paddle: conv2d."""

    name = "pd.conv2d"


@irdl_op_definition
class DepthwiseConv2d(Conv2dBase):
    """Convolution with one group per input channel, of relu(input) on request.

    Paddle: depthwise_conv2d.
    """

    name = "pd.depthwise_conv2d"
    fuse_relu_before_depthwise_conv = flag(False)


@irdl_op_definition
class Conv3d(Conv2dBase):
    """Three-dimensional convolution. Paddle: conv3d."""

    name = "pd.conv3d"
    strides = integers((1, 1, 1))
    paddings = integers((0, 0, 0))
    dilations = integers((1, 1, 1))
    data_format = string("NCDHW", of=("NCDHW", "NDHWC"))


def transposed_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_size: Sequence[int],
) -> tuple[int, ...]:
    """Compute the result's spatial sizes; `output_size` selects among the possible ones."""
    extra = output_padding or (0,) * len(sizes)
    if len(extra) != len(sizes) or len(output_size) not in (0, len(sizes)):
        raise ProgramError(
            f"output_padding {list(output_padding)} and output_size {list(output_size)} should "
            f"have a number for each of {len(sizes)} dimensions, or none"
        )
    least = [
        UNKNOWN if UNKNOWN in (size, k) else (size - 1) * s - sum(pad) + d * (k - 1) + 1
        for size, k, s, pad, d in zip(sizes, kernel, strides, pads, dilations, strict=True)
    ]
    if not output_size:
        return tuple(
            UNKNOWN if size == UNKNOWN else size + more
            for size, more in zip(least, extra, strict=True)
        )
    for low, want, stride in zip(least, output_size, strides, strict=True):
        if low != UNKNOWN and not low <= want < low + stride:
            raise ProgramError(
                f"output_size {list(output_size)} must be from {least} to less than a stride above"
            )
    return tuple(output_size)


class ConvTransposeBase(OpaqueOp, ABC):
    """The transpose of a convolution, with filters [in, out / groups, height, width]."""

    input = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    out = result_def(TENSOR)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT", of=("EXPLICIT", "SAME", "VALID"))
    dilations = integers((1, 1))
    groups = integer(1)
    output_padding = integers(())
    output_size = integers(())
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(
        input: Tensor,
        filter: Tensor,
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        dilations: Sequence[int],
        groups: int,
        output_padding: Sequence[int],
        output_size: Sequence[int],
        data_format: str,
    ) -> Tensor:
        same_dtype(input, filter)
        x, w = shape_of(input), shape_of(filter)
        inputs = (*w, 1)[0]
        if groups < 1 or (inputs != UNKNOWN and inputs % groups):
            raise ProgramError(f"{inputs} input channels cannot be split in {groups} groups")
        own = UNKNOWN if inputs == UNKNOWN else inputs // groups
        check_convolution(x, w, len(strides), groups, own, data_format)
        sizes, kernel = spatial_sizes(x, data_format), w[2:]
        dilations = used_dilations(dilations, padding_algorithm)
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
        out = transposed_sizes(sizes, kernel, strides, pads, dilations, output_padding, output_size)
        channels = UNKNOWN if w[1] == UNKNOWN else w[1] * groups
        return like(input, shape=with_spatial(x, channels, out, data_format))


@irdl_op_definition
class Conv2dTranspose(ConvTransposeBase):
    """Transposed convolution of images. Paddle: conv2d_transpose."""

    name = "pd.conv2d_transpose"


@irdl_op_definition
class Conv3dTranspose(ConvTransposeBase):
    """Transposed convolution of volumes. Paddle: conv3d_transpose."""

    name = "pd.conv3d_transpose"
    strides = integers((1, 1, 1))
    paddings = integers((0, 0, 0))
    dilations = integers((1, 1, 1))
    data_format = string("NCDHW", of=("NCDHW", "NDHWC"))


@irdl_op_definition
class DeformableConv(OpaqueOp):
    """Convolution with window positions moved by offsets, and weighted by a mask if present.

    The offsets [n, 2 * deformable_groups * kh * kw, h, w] hold rows and columns in turn. Paddle:
    deformable_conv, deformable_conv_v1 (without a mask).
    """

    name = "pd.deformable_conv"
    x = operand_def(TENSOR)
    offset = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    mask = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    dilations = integers((1, 1))
    deformable_groups = integer(1)
    groups = integer(1)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        offset: Tensor,
        filter: Tensor,
        mask: Tensor | None,
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
        deformable_groups: int,
        groups: int,
    ) -> Tensor:
        same_dtype(x, offset, filter, *([] if mask is None else [mask]))
        out = Conv2d.infer(x, filter, strides, paddings, "EXPLICIT", dilations, groups, "NCHW")
        places = product((deformable_groups, *shape_of(filter)[2:]))
        pairs_of = product((2, places))
        for what, value, channels in (("offset", offset, pairs_of), ("mask", mask, places)):
            if value is None:
                continue
            wanted = (shape_of(x)[0], channels, *shape_of(out)[2:])
            pairs = zip(shape_of(value), wanted, strict=False)
            if rank_of(value) != 4 or any(UNKNOWN not in p and p[0] != p[1] for p in pairs):
                raise ProgramError(f"'{what}' should be {list(wanted)}, found {show(value)}")
        return out
