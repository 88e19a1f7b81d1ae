"""Derivatives inside a branch that go through operators around it.

The path of a `pd.grad` is in its own block. So the ops around the branch on the path from the
differentiated inputs to the values that the branch uses are cloned into the branch. The clones
compute the same values, and values without another user are then computed in the branch only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, SSAValue
from xdsl.traits import is_side_effect_free

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import inner_ops, values_read


def bring_in(grad: Grad, blocks: Sequence[Block]) -> None:
    """Clone the ops on the path of `grad` from the `blocks` around it into its own block.

    The outermost of the `blocks` comes first. Raises UnsupportedError where the same values cannot
    be computed again, and for a parameter that another branch or step has changed since its value
    was used.
    """
    inside = grad.parent
    assert inside is not None
    around = [op for block in blocks for op in block.ops if isinstance(op, PdOp)]
    own = ops_before(grad)
    active = active_values(grad, around)
    made_around = {result for op in around for result in op.results}
    used = dict.fromkeys(v for op in (*own, grad) for v in values_read(op))
    path = _path_to([v for v in used if v in active and v in made_around], around, active)
    in_loop = any(block.args for block in (*blocks[1:], inside))
    copies: dict[SSAValue, SSAValue] = {}
    first = inside.first_op
    assert first is not None
    for op in path:
        _check_repeatable(op, in_loop=in_loop)
        copy = op.clone(copies)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
        inside.insert_op_before(copy, first)
        copies.update(zip(op.results, copy.results, strict=True))
    for op in _and_inner(own, grad):
        for index, value in enumerate(op.operands):
            if value in copies:
                op.operands[index] = copies[value]
    _check_reached(grad, blocks[0])


def _path_to(wanted: Sequence[SSAValue], ops: Sequence[PdOp], active: set[SSAValue]) -> list[PdOp]:
    """Find the ops on the paths from active values to `wanted`, in program order."""
    needed = set(wanted)
    path: list[PdOp] = []
    for op in reversed(ops):
        inputs = [value for value in values_read(op) if value in active]
        if inputs and needed.intersection(op.results):
            needed.update(inputs)
            path.append(op)
    return path[::-1]


def _and_inner(ops: Sequence[PdOp], grad: Grad) -> Iterator[PdOp]:
    for op in (*ops, grad):
        yield op
        yield from (inner for inner in inner_ops(op) if isinstance(inner, PdOp))


def _check_repeatable(op: PdOp, *, in_loop: bool) -> None:
    inner = [op, *inner_ops(op)]
    why = None
    if any(isinstance(each, Grad) for each in inner):
        why = "is a derivative itself"
    elif not is_side_effect_free(op):
        why = "has effects of its own"
    elif in_loop and any(map(draws, inner)):
        why = "draws other random numbers in each step of a loop"
    if why is not None:
        raise UnsupportedError(
            f"a derivative inside a branch or loop flows through {op.name} outside of the branch "
            f"or loop, and {op.name} {why}; take the derivative outside, or compute {op.name} "
            "inside"
        )


def _check_reached(grad: Grad, outermost: Block) -> None:
    """Raise UnsupportedError for a changed parameter whose old value the targets depend on."""
    region = ops_before(grad)
    reached: set[SSAValue] = set(grad.of)
    for op in path_of(grad, region, active_values(grad, region)):
        reached.update(values_read(op))
    parameters: Sequence[int] = grad.attr("parameters")
    for index in parameters:
        value = grad.wrt[index]
        if value not in reached and value.owner is not outermost:
            raise UnsupportedError(
                "a derivative inside a branch or loop is taken with respect to "
                f"'{value.name_hint}', which was changed after its value was used outside; compute "
                "the whole network inside"
            )
