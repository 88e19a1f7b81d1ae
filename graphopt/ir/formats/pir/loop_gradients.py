"""The gradients of loops in saved PIR programs as legacy's `while_grad`.

PIR writes the gradient of a loop as a second loop. The first loop pushes values of its body to a
stack. The second loop pops them, last first, and computes the gradients of the body's operators; it
carries the gradients of the first loop's carried values, and the summed gradients of the outer
values that the first loop reads. Such a pair is recognized as a whole, and the second loop becomes
one operator: the derivative of the first. Any other gradient loop is kept unchanged, and its
program cannot run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphopt.ir.formats.pir.constants import constant_of
from graphopt.ir.formats.pir.inplace import operators
from graphopt.ir.formats.pir.links import Links
from graphopt.ir.formats.pir.rows import base_name, row_of
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp
from graphopt.ir.program import Operator

STACK_OPERATORS = ("cf.stack_create", "cf.tuple_push", "cf.tuple_pop", "cf.has_elements")
# The operators of the second loop's body that are no gradients: sums, and their initial values.
_BESIDES = frozenset(
    (
        *STACK_OPERATORS,
        *("cf.yield", "builtin.combine", "builtin.split", "builtin.slice"),
        *("pd_op.add_n", "pd_op.full", "pd_op.full_like", "pd_op.full_int_array", "pd_op.while"),
    )
)


@dataclass(frozen=True)
class Pair:
    """A loop and the loop that is its gradient.

    `targets` has, for each value that the second loop carries, the value whose gradient it is: a
    result of the first loop, or an outer value that the first loop reads.
    """

    forward: PirOp
    backward: PirOp
    targets: tuple[int, ...]


class LoopGradients:
    """The pairs of a program, and the stacks between them.

    `pairs` are by `id` of the second loop. `made` has the legacy operator of each first loop that
    was imported, by the `id` of the loop.
    """

    def __init__(self, block: PirBlock, links: Links) -> None:
        self.pairs: dict[int, Pair] = {}
        self.made: dict[int, Operator] = {}
        self._zeros: dict[int, int] = {}
        """The operand of the `full_like` that made zeros, by the id of the zeros."""
        self._values: set[int] = set()
        everything = list(operators(block))
        constants = {r.id: constant_of(op) for op in everything for r in op.results[:1]}
        for op in everything:
            if op.name == "pd_op.full_like" and len(op.operands) > 1 and op.results:
                filled = constants.get(op.operands[1])
                if filled is not None and filled.as_list() == [0]:
                    self._zeros[op.results[0].id] = op.operands[0]
        self._find(everything, links)

    def is_known(self, op: PirOp) -> bool:
        """Return whether a stack operator belongs to a recognized pair of loops."""
        values = {*op.operands, *(result.id for result in op.results)}
        return bool(self._values & values)

    def _find(self, everything: list[PirOp], links: Links) -> None:
        stacks = [op for op in everything if op.name == "cf.stack_create" and len(op.results) == 3]
        loops = [op for op in everything if op.name == "pd_op.while" and op.regions]
        pushing = {inlet: loop for loop in loops for inlet in _own(loop, "cf.tuple_push")}
        popping = {outlet: loop for loop in loops for outlet in _own(loop, "cf.tuple_pop")}
        for stack in stacks:
            values = [result.id for result in stack.results]
            first, second = pushing.get(values[1]), popping.get(values[2])
            if first is None or second is None or not _is_derivative(second):
                continue
            targets = self._targets(first, second, links)
            if targets is not None:
                self.pairs[id(second)] = Pair(first, second, targets)
                self._values.update(values)
                _note(links, first, second, targets)

    def _targets(self, first: PirOp, second: PirOp, links: Links) -> tuple[int, ...] | None:
        """Find the values whose gradients the second loop computes; None when unclear."""
        carried = second.operands[1:]
        if len(carried) != len(second.results) or len(first.operands) - 1 != len(first.results):
            return None
        found = [self._zeros.get(value, links.gradient_of.get(value)) for value in carried]
        # Differentiation starts at a gradient that no operator computed; type and order show it.
        left = [result for result in first.results if result.id not in found]
        targets: list[int] = []
        for result, target in zip(second.results, found, strict=True):
            if target is None:
                like = next((r for r in left if r.type == result.type), None)
                if like is None:
                    return None
                left.remove(like)
                target = like.id
            targets.append(target)
        return tuple(targets) if len(set(targets)) == len(targets) else None

    def is_zero(self, value: int) -> bool:
        """True for zeros that the sum of a gradient begins with."""
        return value in self._zeros


def _note(links: Links, first: PirOp, second: PirOp, targets: tuple[int, ...]) -> None:
    """Link the values before and after the second loop to the values whose gradients they are."""
    results = [result.id for result in first.results]
    for position, target in enumerate(targets):
        value = target
        if target in results:
            links.gradient_of.setdefault(second.operands[1 + position], target)
            value = first.operands[1 + results.index(target)]
        links.add(second.results[position].id, value)


def _own(loop: PirOp, name: str) -> Iterator[int]:
    """Yield the stacks that a loop's own body pushes to or pops from."""
    for block in loop.regions[0][:1]:
        for op in block.ops:
            if op.name == name and op.operands:
                yield op.operands[0]


def _is_derivative(loop: PirOp) -> bool:
    """True if a loop computes only gradients and their sums."""
    for region in loop.regions:
        for block in region:
            for op in operators(block):
                row = row_of(op.name.partition(".")[2])
                if not (row is not None and row.forward) and base_name(op.name) not in _BESIDES:
                    return False
    return True
