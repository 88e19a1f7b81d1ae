"""The algorithm of each pool on CPUs, where XLA's own is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.ops.conv import spatial_sizes
from graphopt.ir.dialect.ops.pool import Pool2d, Pool3d, PoolBase
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, product, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, choose

# each position of a window is read separately; beyond this many, XLA's algorithm is as fast
POSITIONS = {"max": 7 * 7, "avg": 3 * 3}


@dataclass(frozen=True)
class ChoosePooling(RewritePass):
    """Shift the whole image for each position of a window, where that is the fastest on CPUs.

    Averages over large windows that lie side by side are sums of reshaped images.
    """

    name = "choose-pooling"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if isinstance(op, (Pool2d, Pool3d)) and not op.attr("algorithm"):
                choose(op, _algorithm(op), log)
        return log.outcomes


def _algorithm(op: PoolBase) -> str | Reason:
    """Choose the algorithm of a pool, or return the reason to leave it to XLA."""
    dtype = dtype_of(op.operands[0].type)
    if not dtype.is_floating:
        return Reason(
            "whole-numbers", f"the images have the dtype {dtype}, which has no derivative"
        )
    windows = _windows(op)
    if windows is None:
        return Reason("uneven", "the windows are not known to have one size")
    kind = op.attr("pooling_type")
    if product(windows) <= POSITIONS[kind]:
        return "shifts"
    if kind == "avg" and _are_tiles(op, windows):
        return "tiles"
    text = (
        f"the windows have {product(windows)} positions; shifted copies pay up to {POSITIONS[kind]}"
    )
    return Reason("large-window", text)


def _are_tiles(op: PoolBase, windows: Sequence[int]) -> bool:
    """True for windows that are side by side and leave nothing out."""
    sizes = spatial_sizes(shape_of(op.operands[0].type), op.attr("data_format"))
    if any(size == UNKNOWN or size % side for size, side in zip(sizes, windows, strict=True)):
        return False
    if op.attr("global_pooling") or op.attr("adaptive"):
        return True
    own = tuple(op.attr("strides")), set(op.attr("paddings")), op.attr("padding_algorithm")
    return own == (tuple(windows), {0}, "EXPLICIT")


def _windows(op: PoolBase) -> Sequence[int] | None:
    """Return the size of the windows; None where they are not all alike."""
    kernel: Sequence[int] = op.attr("kernel_size")
    if not (op.attr("global_pooling") or op.attr("adaptive")):
        return kernel
    sizes = spatial_sizes(shape_of(op.operands[0].type), op.attr("data_format"))
    counts = [1] * len(kernel) if op.attr("global_pooling") else kernel
    pairs = [(size, size if n < 0 else n) for size, n in zip(sizes, counts, strict=True)]
    if any(size == UNKNOWN or not n or size % n for size, n in pairs):
        return None
    return [size // n for size, n in pairs]
