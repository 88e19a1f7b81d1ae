"""The algorithm of each convolution on CPUs, where XLA's own is not the fastest.

The rules come from measurements on x86 with XLA 0.10, in images with the channels last:

- filters of one input channel: multiplications and additions of the whole image (10 to 60 times as
  fast)
- a few channels of large images: the same (0.1 to 0.9 of the time)
- groups of channels: one after the other (0.1 to 0.9 of the time, and a hundredth in training),
  groups of few channels a few at a time (0.3 to 0.8 of that)
- filters of one position: a matrix product
- small images: one matrix product with all elements under the filter
- larger images, filters of 3 x 3, nothing differentiated: the algorithm of Winograd
- gradients of filters that sum over many positions, where XLA is slow: with strides, one product
  with all elements under the filter; without strides, a product for each row of the filter
- volumes: images whose channels are the channels of all planes under a filter (0.1 to 0.6 of the
  time, and a hundredth to a quarter in training)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.differentiated import differentiated_ops
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    filter_sizes,
    spatial_sizes,
)
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, product, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, choose

# for the first layer of a network: the most numbers of a filter, the most filters, and the fewest
# positions of the result; with 48 or 64 filters XLA takes less time
MET, FILTERS, WIDE = 3 * 3 * 3, 32, 32 * 32
# up to this many positions of the result, one matrix product takes 0.6 to 0.8 of XLA's time
SMALL = 7 * 7
# with fewer channels, the matrices are too thin
CHANNELS = 16
# with fewer channels or fewer tiles of 4 x 4 positions, the transforms of Winograd's algorithm take
# longer than its products save
WINOGRAD_CHANNELS, WINOGRAD_TILES, SIDE = 64, 49, 4
# if the gradient of a filter sums over this many positions of the batch, a product per row of the
# filter takes 0.4 to 0.8 of XLA's time; with fewer channels or positions it is slower
PLACES, GRADIENT_CHANNELS = 5000, 32
# the assumed size of an unknown batch
BATCH = 8
# each position of a filter is read separately; beyond this many, XLA's algorithm is as fast
POSITIONS = 7 * 7


@dataclass(frozen=True)
class ChooseConvolution(RewritePass):
    """Give convolutions of images and volumes the algorithm that is the fastest on CPUs."""

    name = "choose-convolution"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, trained = RewriteLog(self.name, self.numerics), differentiated_ops(module)
        for op in list(module.walk()):
            if isinstance(op, (Conv2d, Conv3d, DepthwiseConv2d)) and not op.attr("algorithm"):
                choose(op, _algorithm(op, trained=op in trained), log)
        return log.outcomes


def _algorithm(op: PdOp, *, trained: bool) -> str | Reason:
    """Choose the algorithm of a convolution, or return the reason to leave it to XLA."""
    dtype = dtype_of(op.operands[0].type)
    if dtype not in ("float32", "float64"):
        text = f"the images have the dtype {dtype}, for which no algorithm was measured"
        return Reason("half-precision", text)
    filter_shape = shape_of(op.operands[1].type)
    outs, own, *kernel = filter_sizes(filter_shape, op.attr("filter_format"))
    if UNKNOWN in filter_shape:
        return Reason("unknown-filter", "the sizes of the filter are not known")
    groups, positions = op.attr("groups"), product(kernel)
    if isinstance(op, Conv3d):
        return _for_volumes(kernel, groups)
    if groups > 1 and own > 1:
        return "groups"
    if groups > 1 and positions > POSITIONS:
        text = f"the filters have {positions} positions; shifted copies pay up to {POSITIONS}"
        return Reason("large-filter", text)
    if groups > 1:
        return "shifts"
    if positions == 1:
        return "matmul"
    return _for_size(op, own, outs, positions, trained=trained)


def _for_volumes(kernel: Sequence[int], groups: int) -> str | Reason:
    """Choose the algorithm for filters of a depth, a height and a width."""
    if groups > 1 or kernel[0] == 1 or product(kernel[1:]) == 1:
        text = f"no algorithm was measured for groups = {groups} and filters of the size {kernel}"
        return Reason("other-volumes", text)
    return "planes"


def _for_size(op: PdOp, own: int, outs: int, positions: int, *, trained: bool) -> str | Reason:
    """Choose the algorithm for a filter of several positions, in one group."""
    channels = min(own, outs)
    places = spatial_sizes(shape_of(op.results[0].type), op.attr("data_format"))
    is_wide = UNKNOWN in places or product(places) >= WIDE
    if not trained and is_wide and own > 1 and own * positions <= MET and outs <= FILTERS:
        return "channels"
    if channels < CHANNELS or positions > POSITIONS:
        text = f"the filters have {channels} channels and {positions} positions"
        return Reason("thin-matrices", f"{text}, for which a matrix product does not pay")
    if UNKNOWN not in places and product(places) <= SMALL:
        return "im2col"
    if trained and any(stride > 1 for stride in op.attr("strides")):
        return "patches"
    if UNKNOWN in places:
        return Reason("unknown-size", "the size of the result is not known")
    if trained and channels >= GRADIENT_CHANNELS and _many(op, places):
        return "rows"
    if not trained and channels >= WINOGRAD_CHANNELS and _takes_winograd(op, places):
        return "winograd"
    return Reason("large-image", "XLA's own convolution is the fastest for images of this size")


def _many(op: PdOp, places: Sequence[int]) -> bool:
    """True where the gradient of the filter sums over many places."""
    batch = shape_of(op.operands[0].type)[0]
    return (BATCH if batch == UNKNOWN else batch) * product(places) >= PLACES


def _takes_winograd(op: PdOp, places: Sequence[int]) -> bool:
    """True for filters of 3 x 3 without strides and dilations, at enough positions."""
    _, _, *kernel = filter_sizes(shape_of(op.operands[1].type), op.attr("filter_format"))
    tiles = product([-(-place // SIDE) for place in places])
    batch = shape_of(op.operands[0].type)[0]
    meets_neighbours = all(step == 1 for step in (*op.attr("strides"), *op.attr("dilations")))
    return kernel == [3, 3] and meets_neighbours and batch * tiles >= WINOGRAD_TILES
