"""Find the forward operator of each gradient operator of a PIR program.

The file does not name it. A gradient operator reads some operands and results of its forward
operator, so these identify it. Where it reads only the gradient of the result (`transpose_grad`),
the types and attributes do, and then all candidates have the same derivative.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphopt.ir.formats.pir.inplace import operators
from graphopt.ir.formats.pir.rows import GRAD, PirRow, base_name, row_of
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp, PirType
from graphopt.ir.program import GRAD_SUFFIX

# Only the last of many operators of one type on one value are candidates.
_MOST_CANDIDATES = 64


@dataclass(frozen=True)
class ForwardLink:
    """A forward operator, and its values by legacy slot."""

    forward: PirOp
    slots: Mapping[str, int]


class Links:
    """The links of a program, by `id` of a gradient operator, and facts derived from them.

    `gradient_of` maps a value to the value whose gradient, or a part of it, it is; `parts` counts
    the parts of a value's gradient.
    """

    def __init__(self, block: PirBlock) -> None:
        self.by_op: dict[int, ForwardLink] = {}
        self.gradient_of: dict[int, int] = {}
        self.parts: dict[int, int] = defaultdict(int)
        self._types: dict[int, PirType] = {}
        self._elements: dict[int, tuple[int, ...]] = {}
        self._done: set[int] = set()
        self._lists: dict[tuple[int, ...], int] = {}
        self._same: dict[int, int] = {}
        self._candidates: dict[object, list[PirOp]] = defaultdict(list)
        for op in operators(block):
            self._note(op)

    def of(self, op: PirOp) -> ForwardLink | None:
        """Return the link of a gradient operator; None when its forward operator is not found."""
        return self.by_op.get(id(op))

    def _note(self, op: PirOp) -> None:
        self._types.update((result.id, result.type) for result in op.results)
        if op.name == "builtin.combine" and op.results:
            number = op.results[0].id
            self._elements[number] = op.operands
            self._same[number] = self._lists.setdefault(op.operands, number)
        dialect, _, name = op.name.partition(".")
        row = row_of(name) if dialect == "pd_op" else None
        if row is None:
            if op.name == "builtin.split" and op.operands:
                self._split(op)
            return
        if row.forward:
            self._link(op, row)
        elif base_name(name) == "add_n":
            self._sum(op)
        for key in self._keys(op, row, base_name(name).removesuffix(GRAD)):
            if not row.forward:
                self._candidates[key].append(op)

    def _keys(self, op: PirOp, row: PirRow, name: str) -> Iterator[object]:
        """Yield keys that lead a gradient operator to its forward operator, most specific first."""
        if row.forward:
            for slot, value in _slots(op, row):
                if slot.endswith(GRAD_SUFFIX) and value in self.gradient_of:
                    of = self.gradient_of[value]
                    yield name, slot.removesuffix(GRAD_SUFFIX), self._identity(of)
        for slot, value in _slots(op, row):
            if not slot.endswith(GRAD_SUFFIX):
                yield name, slot, self._identity(value)
        yield name

    def _identity(self, value: int) -> int:
        """Map lists of the same values to one id, as the file may build a list again."""
        return self._same.get(value, value)

    def _link(self, op: PirOp, row: PirRow) -> None:
        forward_row = row_of(row.forward)
        if forward_row is None:
            return
        own = dict(_slots(op, row))
        for key in self._keys(op, row, row.forward):
            last = self._candidates.get(key, [])[: -_MOST_CANDIDATES - 1 : -1]
            # operators without a gradient operator first
            for forward in sorted(last, key=lambda found: id(found) in self._done):
                slots = dict(_slots(forward, forward_row))
                if self._fits(op, own, forward, slots):
                    self._link_gradient(op, ForwardLink(forward, slots), own)
                    return

    def _fits(
        self, op: PirOp, own: Mapping[str, int], forward: PirOp, slots: Mapping[str, int]
    ) -> bool:
        for slot, value in own.items():
            plain = slot.removesuffix(GRAD_SUFFIX)
            if plain not in slots:
                continue
            if plain != slot:
                if not _alike(self._types.get(value), self._types.get(slots[plain])):
                    return False
            elif self._identity(value) != self._identity(slots[plain]):
                return False
        same = op.attributes.keys() & forward.attributes.keys()
        return all(op.attributes[name] == forward.attributes[name] for name in same)

    def _link_gradient(self, op: PirOp, link: ForwardLink, own: Mapping[str, int]) -> None:
        self.by_op[id(op)] = link
        self._done.add(id(link.forward))
        results = {result.id for result in op.results}
        for slot, value in own.items():
            plain = slot.removesuffix(GRAD_SUFFIX)
            if plain == slot or plain not in link.slots:
                continue
            if value in results:
                self.add(value, link.slots[plain])
            else:  # differentiation starts at a gradient that no gradient operator computed
                self.gradient_of.setdefault(value, link.slots[plain])

    def add(self, value: int, of: int) -> None:
        """Record a value as the gradient of another, or as a part of it."""
        self.gradient_of[value] = of
        self.parts[of] += 1

    def _split(self, op: PirOp) -> None:
        """Record the results of splitting a list's gradient as the gradients of its elements."""
        of = self.gradient_of.get(op.operands[0])
        for result, element in zip(op.results, self._elements.get(of or 0, ()), strict=False):
            self.add(result.id, element)

    def _sum(self, op: PirOp) -> None:
        """Record the sum of all parts of one gradient as that gradient."""
        parts = self._elements.get(op.operands[0] if op.operands else 0, ())
        of = {self.gradient_of.get(part) for part in parts}
        whole = of.pop() if len(of) == 1 else None
        if whole is not None and op.results:
            self.gradient_of[op.results[0].id] = whole


def _alike(one: PirType | None, other: PirType | None) -> bool:
    """True for types of one value: a gradient may have dimensions that the value leaves open."""
    if one is None or other is None:
        return False
    if (one.kind, one.dtype, len(one.dims)) != (other.kind, other.dtype, len(other.dims)):
        return False
    if not all(a == b or -1 in (a, b) for a, b in zip(one.dims, other.dims, strict=True)):
        return False
    return len(one.elements) == len(other.elements) and all(
        map(_alike, one.elements, other.elements)
    )


def _slots(op: PirOp, row: PirRow) -> Iterator[tuple[str, int]]:
    """Yield the slot and the value id of each operand and result that is present."""
    for operand, value in zip(row.operands, op.operands, strict=False):
        if operand.slot and value and not operand.attribute:
            yield operand.slot.partition(">")[0], value
    for slot, result in zip(row.results, op.results, strict=False):
        if slot and result.is_there:
            yield slot, result.id
