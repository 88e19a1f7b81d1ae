"""memory_optimize: activations are not kept for the derivative but recomputed.

The ops that a derivative goes through are cut into segments. Values that cross a cut are kept;
values inside a segment are recomputed from its inputs when the derivative reaches it. The last
segment is kept, because its derivative is taken first. The number of segments is the one that keeps
the fewest bytes, near the square root of the number of ops for a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.data_sized import data_sized
from graphopt.ir.dialect.differentiated import (
    active_values,
    mark_segment,
    ops_before,
    path_of,
    segment_of,
)
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp, PureOp
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass

# The assumed size of an unknown dimension; most are the batch, which all values have.
USUAL_SIZE = 32
SHORTEST = 4
"""Fewer ops than this between parameters and loss are not worth a segment."""


IN_A_REGION = Reason(
    "other-block",
    "the derivative is inside a branch or loop",
    "take the derivative outside of the branch or loop",
)
SECOND = Reason(
    "second-derivative", "the derivative goes through another one and is computed all at once"
)
OP_BY_OP = Reason(
    "op-by-op", "the data decide the size of a value, so that every op is compiled alone"
)


@dataclass(frozen=True)
class RecomputeActivations(RewritePass):
    """Mark the ops that each derivative recomputes: `pd.recompute` is the number of the segment."""

    name = "recompute-activations"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, number = RewriteLog(self.name), 0
        by_op = next(data_sized(module), None) is not None
        for grad in [op for op in module.walk() if isinstance(op, Grad)]:
            region = ops_before(grad)
            path = path_of(grad, region, active_values(grad, region))
            reason = OP_BY_OP if by_op else _refusal(grad, path)
            if reason is not None:
                log.declined(grad, reason)
                continue
            for segment in segments(path):
                ops = [op for op in segment if can_repeat(op) and segment_of(op) is None]
                if not ops or not log.allow(ops[-1]):
                    continue
                log.applied(ops[-1], *ops[:-1])
                for op in ops:
                    mark_segment(op, number)
                number += 1
        return log.outcomes


def _refusal(grad: Grad, path: Sequence[PdOp]) -> Reason | None:
    """Return the reason why a derivative recomputes nothing, else None."""
    if not isinstance(grad.parent_op(), FuncOp):
        return IN_A_REGION
    if any(isinstance(op, Grad) for op in path):
        return SECOND
    if len(path) < SHORTEST:
        text = f"the number of differentiated ops is {len(path)}, and {SHORTEST} are needed"
        return Reason("too-short", text)
    return None


def can_repeat(op: PdOp) -> bool:
    """True for an op that gives the same results again and has no other effect.

    Random ops do: their key follows from the op. Ops that communicate with other replicas would do
    so twice.
    """
    if isinstance(op, Dynamic):
        return True
    several = isinstance(op, (AllReduce, DataSizedOp, RegionOp)) or (
        "sync" in op.attr_values() and op.attr("sync")
    )
    return isinstance(op, PureOp) and not several


def size_of(value: SSAValue) -> int:
    """Estimate the bytes of a value."""
    size = dtype_of(value.type).numpy.itemsize
    for dim in shape_of(value.type):
        size *= USUAL_SIZE if dim == UNKNOWN else dim
    return size


@dataclass
class Chain:
    """The ops of a path with their results, and the values alive after each of them."""

    ops: Sequence[PdOp]
    made: list[int] = field(default_factory=list[int])
    """The bytes of each op's results."""
    crossing: list[int] = field(default_factory=list[int])
    """The bytes kept alive by a cut after each op."""

    def __post_init__(self) -> None:
        last: dict[SSAValue, int] = {}
        inside = {result for op in self.ops for result in op.results}
        for position, op in enumerate(self.ops):
            last |= {value: position for value in op.operands if value in inside}
        alive, ends = 0, [0] * len(self.ops)
        for position, op in enumerate(self.ops):
            used = [size_of(r) for r in op.results if r in last]
            self.made.append(sum(used))
            alive += sum(used)
            for result in op.results:
                if result in last:
                    ends[last[result]] += size_of(result)
            alive -= ends[position]
            self.crossing.append(alive)

    def cuts(self, budget: float) -> list[int]:
        """Choose positions to cut after, so that about `budget` bytes are computed between cuts.

        Each is the cheapest cut of the second half of its segment, the last one of equal ones.
        """
        found: list[int] = []
        begin, made = 0, 0
        candidates: list[int] = []
        for position, size in enumerate(self.made):
            made += size
            if 2 * made >= budget and position < len(self.ops) - 1:
                candidates.append(position)
            if made >= budget and candidates:
                best = min(reversed(candidates), key=lambda p: self.crossing[p])
                found.append(best)
                begin, candidates = best + 1, []
                made = sum(self.made[begin : position + 1])
        return found

    def peak(self, cuts: Sequence[int]) -> int:
        """Estimate the largest number of live bytes with these cuts."""
        bounds = [0, *(cut + 1 for cut in cuts), len(self.ops)]
        inner = max(sum(self.made[a:b]) for a, b in pairwise(bounds))
        return sum(self.crossing[cut] for cut in cuts) + inner


def segments(path: Sequence[PdOp]) -> list[Sequence[PdOp]]:
    """Split a path into the parts to recompute, in program order; empty when that saves nothing.

    The numbers of parts that are tried grow by a quarter, so that long paths take little time.
    """
    chain = Chain(path)
    total, parts = sum(chain.made), 1.0
    choices: list[list[int]] = []
    while parts <= len(path):
        choices.append(chain.cuts(total / parts))
        parts *= 1.25
    cuts = min(choices, key=chain.peak)
    starts = [0, *(cut + 1 for cut in cuts)]
    return [path[a:b] for a, b in pairwise(starts)]
