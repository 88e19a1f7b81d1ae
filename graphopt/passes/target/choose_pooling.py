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
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, change

# every position of a window is read separately; beyond this many XLA's algorithm is as fast
POSITIONS = {"max": 7 * 7, "avg": 3 * 3}


@dataclass(frozen=True)
class ChoosePooling(RewritePass):
    """Shift the whole image for each position of a window, where that is the fastest on CPUs."""

    name = "choose-pooling"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if isinstance(op, (Pool2d, Pool3d)) and not op.attr("algorithm"):
                _choose(op, log)
        return log.outcomes


def _choose(op: PoolBase, log: RewriteLog) -> None:
    reason = _refusal(op)
    if reason is not None:
        log.declined(op, reason)
    else:
        change(op, {"algorithm": "shifts"}, log)


def _refusal(op: PoolBase) -> Reason | None:
    """The reason to leave a pool to XLA, None otherwise."""
    dtype = dtype_of(op.operands[0].type)
    if not dtype.is_floating:
        return Reason("whole-numbers", f"it is in {dtype!s}, which has no derivative")
    windows = _windows(op)
    if windows is None:
        return Reason("uneven", "its windows are not known to be of one size")
    if product(windows) > POSITIONS[op.attr("pooling_type")]:
        return Reason("large-window", f"its windows have {product(windows)} positions")
    return None


def _windows(op: PoolBase) -> Sequence[int] | None:
    """The size of the windows; None where they are not all alike."""
    kernel: Sequence[int] = op.attr("kernel_size")
    if not (op.attr("global_pooling") or op.attr("adaptive")):
        return kernel
    sizes = spatial_sizes(shape_of(op.operands[0].type), op.attr("data_format"))
    counts = [1] * len(kernel) if op.attr("global_pooling") else kernel
    pairs = [(size, size if n < 0 else n) for size, n in zip(sizes, counts, strict=True)]
    if any(size == UNKNOWN or not n or size % n for size, n in pairs):
        return None
    return [size // n for size, n in pairs]
