"""(A B) c -> A (B c): the order of a chain of matrix products with the fewest multiplications.

Only matrices of known shape, and inner products without other readers. The cost is the number of
multiplications. A chain is rewritten when its cost falls; the pass table requires that it halves,
as rounding changes as well. XLA does not do this by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace

# The search for the best order is cubic in the length of a chain.
LONGEST = 32
SIZE_UNKNOWN = "size-unknown"
"""The name of the reason that a size of the program is unknown."""


@dataclass(frozen=True)
class ReassociateMatmul(RewritePass):
    """Compute chains of matrix products in their cheapest order."""

    name = "reassociate-matmul"
    numerics = Numerics.REASSOCIATING
    least_gain: float = 1.0
    """The factor by which the multiplications of a chain must decrease for a rewrite."""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, kept = RewriteLog(self.name, self.numerics), differentiated_values(module)
        for op in reversed([op for op in module.walk() if isinstance(op, Matmul)]):
            if op.parent is not None and not _is_inside(op, kept):
                _reorder(op, log, kept, self.least_gain)
        return log.outcomes


def _joins(op: PdOp, kept: set[SSAValue]) -> bool:
    """True for a product that may be computed in another order with the product that reads it."""
    result = op.results[0]
    return result not in kept and len(list(result.uses)) == 1


def _is_inside(op: Matmul, kept: set[SSAValue]) -> bool:
    """True when this product is part of another product's chain."""
    if not _is_plain(op) or not _joins(op, kept):
        return False
    user = next(iter(op.results[0].uses)).operation
    return isinstance(user, Matmul) and user.parent is op.parent and _is_plain(user)


def _is_plain(op: Matmul) -> bool:
    """True for a product of two matrices, neither of them transposed."""
    plain = not (op.attr("transpose_x") or op.attr("transpose_y"))
    return plain and all(rank_of(value.type) == 2 for value in op.operands)


def _factors(op: Matmul, kept: set[SSAValue], inside: list[Matmul]) -> list[SSAValue]:
    """Collect the factors of the chain that `op` ends; its products are added to `inside`."""
    inside.append(op)
    found: list[SSAValue] = []
    for value in op.operands:
        inner = value.owner
        if isinstance(inner, Matmul) and _is_inside(inner, kept):
            found += _factors(inner, kept, inside)
        else:
            found.append(value)
    return found


def _reorder(op: Matmul, log: RewriteLog, kept: set[SSAValue], least_gain: float) -> None:
    if not _is_plain(op):
        _explain_transposed(op, log)
        return
    inside: list[Matmul] = []
    factors = _factors(op, kept, inside)
    if len(inside) < 2:
        _explain_shared(op, log, kept)
        return
    if len(factors) > LONGEST:
        text = f"the chain has {len(factors)} matrices, and the limit is {LONGEST}"
        log.declined(op, Reason("chain-too-long", text))
        return
    if any(UNKNOWN in shape_of(value.type) for value in factors):
        text = "a size of the matrices is known only when the program runs"
        log.declined(op, Reason(SIZE_UNKNOWN, text, "declare the data with known sizes"))
        return
    sizes = [shape_of(factors[0].type)[0], *(shape_of(value.type)[1] for value in factors)]
    cost, splits = _cheapest(sizes)
    now = sum(map(_cost, inside))
    if cost >= now:
        text = f"no order of the products has fewer than {cost} multiplications"
        log.declined(op, Reason("already-cheapest", text))
        return
    if cost * least_gain >= now:
        text = f"the best order has {cost} multiplications, not far below the present {now}"
        log.declined(op, Reason("little-gain", text))
        return
    if not log.allow(op):
        return
    log.applied(op, *inside[1:])
    rebuilt = _rebuild(op, factors, splits, 0, len(factors) - 1)
    if not replace(op, {op.results[0]: rebuilt}, log, *inside[1:]):
        return
    for product in inside[1:]:
        product.detach()
        product.erase()


def _explain_transposed(op: Matmul, log: RewriteLog) -> None:
    if any(isinstance(value.owner, Matmul) for value in op.operands):
        text = "a factor of the chain is transposed, or is not a matrix"
        log.declined(op, Reason("not-plain", text))


def _explain_shared(op: Matmul, log: RewriteLog, kept: set[SSAValue]) -> None:
    for value in op.operands:
        inner = value.owner
        if isinstance(inner, Matmul) and _is_plain(inner) and not _joins(inner, kept):
            text = (
                "the result of the inner matmul is also fetched, differentiated, or read elsewhere"
            )
            log.declined(op, Reason("product-needed", text))
            return


def _cost(op: Matmul) -> int:
    (rows, inner), (_, columns) = (shape_of(value.type) for value in op.operands)
    return rows * inner * columns


def _cheapest(sizes: list[int]) -> tuple[int, dict[tuple[int, int], int]]:
    """Find the fewest multiplications, and the split of each part of the chain."""
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs[i, j], splits[i, j] = min(
                (costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return costs[0, count - 1], splits


def _rebuild(
    op: Matmul, factors: list[SSAValue], splits: dict[tuple[int, int], int], i: int, j: int
) -> SSAValue:
    """Build the product of the factors from i to j, before `op`."""
    if i == j:
        return factors[i]
    k = splits[i, j]
    left = _rebuild(op, factors, splits, i, k)
    made = Matmul.make(left, _rebuild(op, factors, splits, k + 1, j), location=op.location)
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    return made.results[0]
