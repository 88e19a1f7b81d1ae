"""The ops that groups may have, and the values that end a group: each refusal has a name."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of, segment_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.ops.fused import FusedGemmEpilogue
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import FETCH, result_port
from graphopt.ir.dialect.types import dtype_of, rank_of
from graphopt.passes.engine.fusion import Reason
from graphopt.passes.target.group_costs import GroupKind, kind_of

Paths = Mapping[Operation, frozenset[Operation]]

NO_KIND = Reason("no-kind", "the cost model has no figures for the op, so the op joins no group")
HIDDEN = Reason(
    "hidden-product",
    "the op computes both an activation and the product that its derivative needs",
    "set fuse_gemm_epilogue = False, so that a group can compute the activation again",
)
OTHER_FLAG = Reason(
    "not-elementwise",
    "the op is not elementwise, and enable_auto_fusion groups elementwise and similar ops only",
    "set build_cinn_pass = True",
)
DRAWS = Reason("draws", "the op draws random numbers, which a group would draw again")
COMMUNICATES = Reason("communicates", "the op combines values of all devices")
SIZES = Reason("sizes", "the op may compute sizes, which the compiler must know")
GRADIENT = Reason(
    "reads-gradient",
    "the op depends on a gradient, and other passes look for gradients outside of groups",
)
RECOMPUTED = Reason(
    "recomputed",
    "memory_optimize already lets the derivative compute the op again",
    "set memory_optimize = False",
)
SECOND = Reason("second-derivative", "a derivative of a derivative goes through the op")
STATE = Reason(
    "state", "the result of the op becomes state, which groups accept only from batch norms"
)
FETCHED = Reason(
    "fetched", "the result of the op is fetched, so the op ends a group", "do not fetch the result"
)
DIFFERENTIATED = Reason(
    "differentiated", "a derivative is taken with respect to the result of the op"
)


def derivative_paths(block: Block) -> Paths:
    """Map each op of the block to the derivatives that go through it."""
    found: dict[Operation, set[Operation]] = {op: set() for op in block.ops}
    for grad in block.ops:
        if isinstance(grad, Grad):
            region = ops_before(grad)
            for op in path_of(grad, region, active_values(grad, region)):
                found[op].add(grad)
    return {op: frozenset(grads) for op, grads in found.items()}


def members(
    block: Block, paths: Paths, *, reductions: bool
) -> tuple[dict[PdOp, GroupKind], dict[Operation, Reason]]:
    """Select the ops that groups may have, with their kinds, and the reasons against others.

    Without `reductions` these are elementwise and similar ops only. The ends of blocks and
    derivatives have no reason.
    """
    kinds: dict[PdOp, GroupKind] = {}
    refused: dict[Operation, Reason] = {}
    after: set[Operation] = set()
    for op in block.ops:
        if isinstance(op, Grad) or any(value.owner in after for value in values_read(op)):
            after.add(op)
        if isinstance(op, (Grad, ReturnOp)) or not isinstance(op, PdOp):
            continue
        kind = kind_of(op)
        reason = GRADIENT if op in after else _refusal(op, paths)
        if reason is not None:
            refused[op] = reason
        elif kind is None:
            refused[op] = HIDDEN if isinstance(op, FusedGemmEpilogue) else NO_KIND
        elif not (kind.always or reductions):
            refused[op] = OTHER_FLAG
        else:
            kinds[op] = kind
    return kinds, refused


def _refusal(op: PdOp, paths: Paths) -> Reason | None:
    """Return the reason why an op is in no group, whatever its kind; else None."""
    if any(paths[grad] for grad in paths[op]) or any(_is_second(grad, paths) for grad in paths[op]):
        return SECOND
    if segment_of(op) is not None:
        return RECOMPUTED
    if draws(op):
        return DRAWS
    if "sync" in op.attr_values() and op.attr("sync"):
        return COMMUNICATES
    if not is_side_effect_free(op):
        return NO_KIND
    if all(not dtype_of(r.type).is_differentiable and rank_of(r.type) <= 1 for r in op.results):
        return SIZES
    if not isinstance(op, BatchNormBase) and "state" in _returned_as(op):
        return STATE
    return None


def _is_second(grad: Operation, paths: Paths) -> bool:
    """True for a derivative of another derivative."""
    return any(grad in through for op, through in paths.items() if isinstance(op, Grad))


def ends(block: Block) -> dict[Operation, Reason]:
    """Map the ops whose results must leave their group to the reason."""
    found: dict[Operation, Reason] = {}
    for op in block.ops:
        if "fetch" in _returned_as(op):
            found[op] = FETCHED
        if isinstance(op, Grad):
            protected = (*op.wrt, *op.no_grad)
            owners = {v.owner for v in protected if isinstance(v.owner, Operation)}
            found.update(dict.fromkeys(owners, DIFFERENTIATED))
    return found


def _returned_as(op: Operation) -> set[str]:
    """Collect the uses of an op's results outside of the program: "fetch" and "state"."""
    found: set[str] = set()
    for result in op.results:
        for use in result.uses:
            function = use.operation.parent_op()
            if isinstance(use.operation, ReturnOp) and isinstance(function, FuncOp):
                kind = result_port(function, use.index).kind
                found.add("fetch" if kind == FETCH else "state")
    return found
