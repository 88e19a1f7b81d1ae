"""Padded axes of images: convolutions, pools and resizing, which change the sizes.

Where a window reaches beyond the data, the operand becomes 0 there, as a convolution pads with 0;
for a max pool it becomes minus infinity. The sizes of results are extents (`dims.Extent`) of the
sizes of the feeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import (
    Conv2dBase,
    ConvTransposeBase,
    explicit_pads,
    filter_sizes,
    is_channels_last,
    used_dilations,
)
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.pool import PoolBase
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.vision import Interpolate
from graphopt.ir.dialect.types import UNKNOWN, shape_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, scale_dim, windows
from graphopt.passes.padding.rules import (
    Carried,
    Mask,
    Padded,
    RealRows,
    carry,
    check_free,
    input_axes,
)
from graphopt.passes.padding.statistics import mean_of_rows


@dataclass(frozen=True)
class ImageWindow:
    """A window along one axis: its span, its stride, and the padding before and after."""

    span: int
    stride: int
    before: int
    after: int
    ceil: bool = False

    @property
    def _reach(self) -> int:
        """The most rows from the end of the data to the start of the last window."""
        return self.after - self.span + (self.stride - 1 if self.ceil else 0)

    def count(self, dim: Dim) -> Dim:
        """Compute the number of windows along a padded dimension."""
        return windows(dim, self.before + self._reach + self.stride, self.stride)

    def may_be_empty(self) -> bool:
        """True if the last window covers no data at some sizes."""
        return self._reach >= 0


def _spatial(axes: Axes, data_format: str) -> range:
    """Return the axes of height and width; raise CannotPad when the channels are padded."""
    last = is_channels_last(data_format)
    check_free(axes, (len(axes) - 1 if last else 1,), "the axis of the channels")
    return range(1, len(axes) - 1) if last else range(2, len(axes))


def _windows(op: PdOp, axes: Axes, spatial: range, kernel: Sequence[int]) -> dict[int, ImageWindow]:
    """Build the window of each spatial axis that is padded."""
    if UNKNOWN in kernel:
        raise CannotPad("unknown-window", "the windows have an unknown size")
    algorithm, strides = op.attr("padding_algorithm"), op.attr("strides")
    if algorithm == "SAME" and any(
        stride > 1 and axes[at] is not None for at, stride in zip(spatial, strides, strict=True)
    ):
        raise CannotPad("padding-by-size", "SAME pads images of each size differently")
    pools = isinstance(op, PoolBase)
    own = (1,) * len(kernel) if pools else op.attr("dilations")
    ceil = pools and op.attr("ceil_mode")
    dilations = used_dilations(own, algorithm)
    sizes = [shape_of(op.operands[0].type)[at] for at in spatial]
    pads = explicit_pads(op.attr("paddings"), algorithm, sizes, kernel, strides, dilations)
    return {
        at: ImageWindow(dilation * (size - 1) + 1, stride, *pad, ceil)
        for at, size, stride, pad, dilation in zip(
            spatial, kernel, strides, pads, dilations, strict=True
        )
        if axes[at] is not None
    }


def _replace_axes(axes: Axes, new: dict[int, Dim]) -> Axes:
    return tuple(new.get(at, dim) for at, dim in enumerate(axes))


@carry.register(Conv2dBase)
def _(op: Conv2dBase, padded: Padded) -> Carried:
    axes = input_axes(op, padded)
    spatial = _spatial(axes, op.attr("data_format"))
    kernel = filter_sizes(shape_of(op.operands[1].type), op.attr("filter_format"))[2:]
    found = _windows(op, axes, spatial, kernel)
    sizes = {at: window.count(dim) for at, window in found.items() if (dim := axes[at])}
    return Carried((_replace_axes(axes, sizes),), _masks(found))


def _masks(found: dict[int, ImageWindow]) -> tuple[Mask, ...]:
    """Mask the axes whose last windows reach beyond the data."""
    reached = tuple(at for at, window in found.items() if window.after > 0)
    return (Mask(0, reached, 0.0),) if reached else ()


@carry.register(PoolBase)
def _(op: PoolBase, padded: Padded) -> Carried:
    axes, is_mean = padded.of(op.operands[0]), op.attr("pooling_type") == "avg"
    spatial = _spatial(axes, op.attr("data_format"))
    reduced = tuple(at for at in spatial if axes[at] is not None)
    kernel: Sequence[int] = op.attr("kernel_size")
    if op.attr("global_pooling") or (op.attr("adaptive") and set(kernel) == {1}):
        result = tuple(None if at in spatial else dim for at, dim in enumerate(axes))
        if not reduced:
            return Carried((result,))
        if is_mean:
            return mean_of_rows(result, axes, spatial, keepdim=True)
        return Carried((result,), (Mask(0, reduced, -inf),))
    if not reduced:
        return Carried((axes,))
    if op.attr("adaptive"):
        raise CannotPad(
            "windows-by-size", "the size of the windows depends on the size of the data"
        )
    ceil = op.attr("ceil_mode")
    found = _windows(op, axes, spatial, kernel)
    sizes = {at: window.count(dim) for at, window in found.items() if (dim := axes[at])}
    reaches = ceil or any(window.after for window in found.values())
    if is_mean and (ceil or (op.attr("exclusive") and reaches)):
        raise CannotPad(
            "counts-rows", "the op divides by the number of data elements in each window"
        )
    if not is_mean and any(window.may_be_empty() for window in found.values()):
        raise CannotPad("empty-window", "the last window may cover no data")
    fill = 0.0 if is_mean else -inf
    masks = (Mask(0, reduced, fill),) if reaches else ()
    return Carried((_replace_axes(axes, sizes),), masks)


@carry.register(ConvTransposeBase)
def _(op: ConvTransposeBase, padded: Padded) -> Carried:
    axes = input_axes(op, padded)
    spatial = _spatial(axes, op.attr("data_format"))
    kernel = shape_of(op.operands[1].type)[2:]
    found = _windows(op, axes, spatial, kernel)
    if found and op.attr("output_size"):
        raise CannotPad("fixed-size", "the size of the result is fixed")
    extra = op.attr("output_padding") or (0,) * len(kernel)
    sizes: dict[int, Dim] = {}
    reached: list[int] = []
    for at, window in found.items():
        dim = axes[at]
        assert dim is not None
        # the first padded row adds its part `stride` rows after the part of the last data row
        rest = window.span - window.stride - window.before - window.after + extra[at - spatial[0]]
        sizes[at] = scale_dim(dim, window.stride, rest)
        if rest + window.before > 0:
            reached.append(at)
    masks = (Mask(0, tuple(reached), 0.0),) if reached else ()
    return Carried((_replace_axes(axes, sizes),), masks)


@carry.register(Interpolate)
def _(op: Interpolate, padded: Padded) -> Carried:
    axes = input_axes(op, padded)
    spatial = _spatial(axes, op.attr("data_layout"))
    reduced = tuple(at for at in spatial if axes[at] is not None)
    if not reduced:
        return Carried((axes,))
    if len(op.operands) > 1 or op.attr("size"):
        raise CannotPad("fixed-size", "the size of the result is fixed")
    scales: Sequence[float] = op.attr("scale")
    scales = scales if len(scales) == len(spatial) else tuple(scales) * len(spatial)
    factors = {at: int(scales[at - spatial[0]]) for at in reduced}
    if any(factors[at] != scales[at - spatial[0]] for at in reduced):
        raise CannotPad("scale-rounds", "a scale is not a whole number")
    if op.attr("align_corners"):
        raise CannotPad("scale-by-size", "align_corners treats images of each size differently")
    sizes = {at: scale_dim(dim, factors[at], 0) for at in reduced if (dim := axes[at])}
    result = (_replace_axes(axes, sizes),)
    if op.attr("mode") == "nearest":
        return Carried(result)
    return Carried(result, write=lambda op, real: _with_edges(op, real, axes, reduced))


def _with_edges(
    op: Interpolate, real: RealRows, axes: Axes, padded: Sequence[int]
) -> Sequence[SSAValue]:
    """Resize images whose last data row is repeated, like the edge of images without padding."""
    new, x = Before(op), op.operands[0]
    for at in padded:
        dim = axes[at]
        assert dim is not None
        number = new(Cumsum.make(new(Cast.make(real.mask(dim, 1, 0), dtype="int64")), axis=0))
        x = new(Gather.make(x, new(Scale.make(number, bias=-1.0)), axis=at))
    return [new(Interpolate.make(x, **op.attr_values()))]
