"""The matcher: every match of a pattern that ends with one op.

A tolerant search also returns the matches with one flaw, and names the flaw. Fusions and `explain`
use the same search, so an explanation agrees with the decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.pattern import Hole, Match, Node, Result, Value


def matches(root: Node, op: PdOp, *, tolerant: bool = False) -> Iterator[Match]:
    """Yield every match of the pattern that ends with `op`, in any order.

    A `tolerant` search also yields matches with one flaw.
    """
    hole: Hole = root
    while isinstance(hole, Node):
        yield from _with_node(hole, op, Match(tolerant=tolerant))
        if not hole.optional:
            break
        hole = hole.stand_in()


def _with_node(node: Node, op: PdOp, match: Match) -> Iterator[Match]:
    """Bind a node to an op, and its operands in every matching way."""
    if node in match.ops:
        if match.ops[node] is op:
            yield match
        return
    if type(op) not in node.types or op in match.ops.values():
        return
    bound = match.copy()
    bound.ops[node] = op
    yield from _with_inputs(node, op, bound)


def _with_inputs(node: Node, op: PdOp, match: Match) -> Iterator[Match]:
    """Bind the operands of `op` to the operand patterns of `node`, in each order it accepts."""
    for order in node.orders:
        if all(isinstance(hole, Value) for hole in order[len(op.operands) :]):
            pairs = list(zip(order, op.operands, strict=False))
            # each implausible operand costs one flaw of the match
            if sum(not _plausible(hole, value) for hole, value in pairs) <= match.may_miss:
                yield from _with_operands(pairs, op, match)


def _plausible(hole: Hole, value: SSAValue) -> bool:
    """False when the producer of a value rules out that the value fills this hole."""
    return hole.producers is None or type(value.owner) in hole.producers


def _with_operands(
    pairs: Sequence[tuple[Hole, SSAValue]], user: PdOp, match: Match
) -> Iterator[Match]:
    if not pairs:
        yield match
        return
    (hole, value), *rest = pairs
    for bound in _bind(hole, value, user, match):
        yield from _with_operands(rest, user, bound)


def _bind(hole: Hole, value: SSAValue, user: PdOp, match: Match) -> Iterator[Match]:
    if isinstance(hole, Value):
        if match.values.get(hole, value) is value:
            bound = match.copy()
            bound.values[hole] = value
            yield bound
        else:
            text = f"`{hole.name}` is two different values, and the pattern needs one"
            yield from match.miss("other-value", text, "use one value in both places")
        return
    node, index = (hole.node, hole.index) if isinstance(hole, Result) else (hole, 0)
    producer = value.owner
    if (
        isinstance(producer, PdOp)
        and producer.parent is user.parent
        and index < len(producer.results)
        and value is producer.results[index]
    ):
        yield from _with_node(node, producer, match)
    if node.optional and index == 0:
        yield from _bind(node.stand_in(), value, user, match)
    elif match.may_miss:
        yield from _find_near_miss(node, index, value, user, match)


def _find_near_miss(
    node: Node, index: int, value: SSAValue, user: PdOp, match: Match
) -> Iterator[Match]:
    """Yield the match with one wrong node, the rest of it being right.

    If nothing below the node matches, most of the pattern is missing: not a near miss.
    """
    producer = value.owner
    wanted = f"`{node.name}` should be {node.expected}"
    needs_more = any(not isinstance(operand, Value) for operand in node.operands)
    if not isinstance(producer, PdOp):
        name = f" %{value.name_hint}" if value.name_hint else ""
        text = f"{wanted}, found the argument{name}"
        yield from match.miss("not-computed", text, f"compute this value by {node.expected}")
    elif producer.parent is not user.parent:
        if not needs_more:
            text = f"`{node.name}` is computed outside of the branch or loop that reads it"
            fix = "move both ops to the same side of the branch or loop"
            yield from match.miss("other-block", text, fix)
    elif value is not producer.results[min(index, len(producer.results) - 1)]:
        if not needs_more:
            text = f"a side result of `{node.name}` is read, not the first result"
            yield from match.miss("other-result", text, "read the first result")
    elif type(producer) not in node.types:  # else the flaw is deeper, as searched before
        before = producer.operands[0].owner if producer.operands else None
        if isinstance(before, PdOp):
            text = f"{show_op(producer)} stands between `{node.name}` and {show_op(user)}"
            fix = "remove the op between, or move it before or after the pattern"
            for flawed in match.miss("op-between", text, fix):
                yield from _with_node(node, before, flawed)
        text = f"{wanted}, found {show_op(producer)}"
        for flawed in match.miss("other-op", text, f"compute this value by {node.expected}"):
            yield from _with_inputs(node, producer, flawed)
