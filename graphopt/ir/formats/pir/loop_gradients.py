"""The gradients of loops in saved PIR programs as legacy's `while_grad`.

PIR writes the gradient of a loop as a second loop. The first pushes what its body computes to a
stack, and the second pops it, last first, and computes the gradients of the body's operators; it
carries the gradients of what the first carries, and sums of those of what the first reads from
around. Such a pair is recognised whole, and the second loop becomes one operator: the derivative of
the first. Other loops are kept unchanged, and a program with one cannot run.
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
# The operators of the second loop's body that are not gradients: sums, and their initial values.
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

    `targets` has for each value that the second carries what it is the gradient of: a result of the
    first, or a value that the first reads from around.
    """

    forward: PirOp
    backward: PirOp
    targets: tuple[int, ...]


class LoopGradients:
    """The pairs of a program, and the stacks that are between them.

    `pairs` are by `id` of the second loop. `made` has the legacy operator of each first loop, by
    its `id`, once it was made.
    """

    def __init__(self, block: PirBlock, links: Links) -> None:
        self.pairs: dict[int, Pair] = {}
        self.made: dict[int, Operator] = {}
        self._zeros: dict[int, int] = {}
        """The value that zeros were made like, by the id of the zeros."""
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
        """True if a stack operator only serves loops that are recognised."""
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
        """The values whose gradients the second loop computes; None when that is unclear."""
        carried = second.operands[1:]
        if len(carried) != len(second.results) or len(first.operands) - 1 != len(first.results):
            return None
        found = [self._zeros.get(value, links.gradient_of.get(value)) for value in carried]
        # A gradient that no operator gave is where differentiation starts; types and order show it.
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
        """True if a value is the zeros that the sum of a gradient begins with."""
        return value in self._zeros


def _note(links: Links, first: PirOp, second: PirOp, targets: tuple[int, ...]) -> None:
    """Note the gradients before and after the second loop, with the values they belong to."""
    results = [result.id for result in first.results]
    for position, target in enumerate(targets):
        value = target
        if target in results:
            links.gradient_of.setdefault(second.operands[1 + position], target)
            value = first.operands[1 + results.index(target)]
        links.add(second.results[position].id, value)


def _own(loop: PirOp, name: str) -> Iterator[int]:
    """The stacks that a loop's body itself pushes to or pops from."""
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
