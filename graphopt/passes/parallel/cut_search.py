"""The search for the parameters that pay when they are cut, and for the forms of ops.

For each product it tries the parameter whole, by columns and by rows, and for each op after it to
compute with pieces or to gather values. It goes through the program op by op and keeps, for each
way in which the values that are still read may be cut, the cheapest choices so far. The cost is in
bytes: the bytes that a device sends in a step, and the bytes that it holds between steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, product, shape_of
from graphopt.passes.parallel.cut_forms import CutForm, cut_forms

PRODUCTS = (Matmul, Embedding)
WIDTH = 64
"""The number of candidates that the search keeps after each op, the cheapest ones."""


@dataclass(frozen=True)
class Price:
    """Bytes that a device sends and holds; see docs/explanation/communication.md.

    A size that is open counts as `rows`, and each collective costs `latency` bytes more.
    """

    degree: int
    replicas: int = 1
    rows: int = 256
    latency: int = 0

    def bytes_of(self, type_: Attribute) -> int:
        """Compute the bytes of a value of this type."""
        sizes = [self.rows if size == UNKNOWN else size for size in shape_of(type_)]
        return product(sizes) * dtype_of(type_).numpy.itemsize

    def gather(self, value: SSAValue) -> float:
        """Compute the cost of gathering a value."""
        return self._around(self.bytes_of(value.type)) + self.latency

    def all_reduce(self, value: SSAValue) -> float:
        """Compute the cost of summing a value over the devices of a replica."""
        return 2 * self._around(self.bytes_of(value.type)) + self.latency

    def bytes_held(self, argument: SSAValue, held: int, *, cut: bool) -> float:
        """Compute the bytes held for a parameter, with the sum of its gradient over replicas."""
        own = self.bytes_of(argument.type)
        gradient = own if held > own else 0
        bytes_ = held + 2 * (self.replicas - 1) / self.replicas * gradient
        return bytes_ / self.degree if cut else bytes_

    def _around(self, count: int) -> float:
        return (self.degree - 1) / self.degree * count


# a conversion of a value: gathered (None), cut along an axis, or shared ("shared")
Made = tuple[SSAValue, "int | str | None"]


class Trail(NamedTuple):
    """The choice for one op, and the trail of the ops before it."""

    before: Trail | None
    op: Operation
    form: CutForm | None
    axes: Mapping[SSAValue, int | None]


@dataclass
class Candidate:
    """Choices for the ops so far: their cost, the axes of cuts, and the conversions made.

    An argument without an entry in `axes` is open, any other value without one is whole.
    """

    cost: float = 0.0
    axes: dict[SSAValue, int | None] = field(default_factory=dict[SSAValue, "int | None"])
    made: set[Made] = field(default_factory=set[Made])
    trail: Trail | None = None

    def key(self) -> object:
        """Return a key that is equal for candidates that all later ops see alike."""
        return frozenset(self.axes.items()), frozenset(self.made)


@dataclass(frozen=True)
class Cuts:
    """The axes along which values are cut, the forms of ops that compute with pieces, the cost."""

    axes: Mapping[SSAValue, int]
    forms: Mapping[Operation, CutForm]
    cost: float


class CutSearch:
    """The search in one block.

    `held` maps the arguments that may be cut to the bytes held for each; arguments in `refused`
    stay whole. Gradients go through the values in `active`. With `width` 0 no candidate is dropped.
    """

    def __init__(
        self,
        block: Block,
        price: Price,
        held: Mapping[SSAValue, int],
        active: Collection[SSAValue],
        refused: Collection[SSAValue] = (),
        width: int = WIDTH,
    ) -> None:
        self.price = price
        self.held = held
        self.active = active
        self.refused = refused
        self.width = width
        self.ops = list(block.ops)
        ends = (at for at, op in enumerate(self.ops) if isinstance(op, (Grad, ReturnOp)))
        self.horizon = next(ends)
        """The end of the searched ops; cuts of derivatives and updates follow from theirs."""
        self.last = self._last_uses()
        before = {result for op in self.ops[: self.horizon] for result in op.results}
        later = isinstance(self.ops[self.horizon], Grad)
        self.returned = before.intersection(self.ops[-1].operands if later else ())
        self._forms: dict[Operation, list[CutForm]] = {}

    def _last_uses(self) -> dict[SSAValue, int]:
        found: dict[SSAValue, int] = {}
        for at, op in enumerate(self.ops[: self.horizon + 1]):
            found |= dict.fromkeys(_read(op), at)
        return found

    def forms(self, op: Operation) -> list[CutForm]:
        """List the forms of an op with pieces."""
        if op not in self._forms:
            self._forms[op] = cut_forms(op, self.price.degree) if isinstance(op, PdOp) else []
        return self._forms[op]

    def best(self) -> Cuts:
        """Find the cheapest choices."""
        candidates = [Candidate()]
        for at, op in enumerate(self.ops[: self.horizon]):
            made = [
                self.after(each, op, form) for each in candidates for form in self.ways(each, op)
            ]
            candidates = self._cheapest(made, at) if len(made) > 1 else made
        found = min((self._grow(each) for each in candidates), key=lambda each: each.cost)
        cost = found.cost
        for op in self.ops[self.horizon :]:
            ways = [self.after(found, op, form) for form in self.ways(found, op)]
            # on equal cost, prefer pieces
            found = min(reversed(ways), key=lambda each: each.cost)
        return _cuts(found, cost)

    def ways(self, candidate: Candidate, op: Operation) -> list[CutForm | None]:
        """List whole values (None), and the forms that a piece or a product suggests."""
        axes = candidate.axes
        read = [axes.get(value) for value in op.operands]
        opens = isinstance(op, PRODUCTS) and any(self._is_open(candidate, v) for v in op.operands)
        if isinstance(op, (Grad, ReturnOp)) or not (opens or any(a is not None for a in read)):
            return [None]
        found: list[CutForm | None] = [None]
        for form in self.forms(op):
            fixed = [
                not self._is_open(candidate, value) or wanted is None or value not in self.refused
                for value, wanted in zip(op.operands, form.operands, strict=True)
            ]
            pairs = zip(op.operands, read, form.operands, strict=True)
            suggested = any(
                wanted is not None
                and (now == wanted or (opens and self._is_open(candidate, value)))
                for value, now, wanted in pairs
            )
            if suggested and all(fixed):
                found.append(form)
        return found

    def after(self, candidate: Candidate, op: Operation, form: CutForm | None) -> Candidate:
        """Add one more op to a candidate, in this form; None computes with whole values."""
        cost, axes, made = candidate.cost, dict(candidate.axes), set(candidate.made)
        new: dict[SSAValue, int | None] = {}
        for value, axis in self._wanted_cuts(candidate, op, form):
            if self._is_open(candidate, value) and value not in new:
                new[value] = axes[value] = axis
                cost += self.price.bytes_held(value, self.held[value], cut=axis is not None)
                if axis is not None:
                    continue
            cost += self._conversion(axes.get(value), value, axis, made, shares=form is not None)
        if form is not None:
            for result, axis in zip(op.results, form.results, strict=True):
                if form.partial:
                    cost += self.price.all_reduce(result)
                elif axis is not None:
                    new[result] = axes[result] = axis
                    if result in self.returned:
                        cost += self.price.gather(result)
        elif isinstance(op, Grad):
            for value, result in zip(op.wrt, op.results, strict=True):
                if axes.get(value) is not None:
                    new[result] = axes[result] = axes[value]
        return Candidate(cost, axes, made, Trail(candidate.trail, op, form, new))

    def _wanted_cuts(
        self, candidate: Candidate, op: Operation, form: CutForm | None
    ) -> Iterable[tuple[SSAValue, int | None]]:
        """Pair the values that an op reads with the axes along which they have to be cut."""
        if form is not None:
            return zip(op.operands, form.operands, strict=True)
        if isinstance(op, Grad):
            # `wrt` values keep their cuts; a value that was not read so far is whole
            kept = [v for v in chain(op.wrt, op.no_grad) if candidate.axes.get(v) is not None]
            return [
                (v, None) for v in op.operands if v not in kept or v in (*op.of, *op.cotangents)
            ]
        if isinstance(op, ReturnOp):
            return []
        return [(value, None) for value in _read(op)]

    def _conversion(
        self, now: int | None, value: SSAValue, axis: int | None, made: set[Made], *, shares: bool
    ) -> float:
        """Compute the cost of a value for a reader, and note its conversions in `made`."""
        cost = 0.0
        if now is not None and now != axis:
            cost += self._once((value, None), made, self.price.gather(value))
        if axis is not None and now != axis:
            backward = self.price.gather(value) if value in self.active else 0.0
            cost += self._once((value, axis), made, backward)
        if axis is None and shares and value in self.active:
            cost += self._once((value, "shared"), made, self.price.all_reduce(value))
        return cost

    @staticmethod
    def _once(what: Made, made: set[Made], cost: float) -> float:
        if what in made:
            return 0.0
        made.add(what)
        return cost

    def _is_open(self, candidate: Candidate, value: SSAValue) -> bool:
        return value in self.held and value not in candidate.axes

    def _cheapest(self, candidates: list[Candidate], at: int) -> list[Candidate]:
        """Merge candidates that later ops see alike, and keep the cheapest ones."""
        found: dict[object, Candidate] = {}
        for each in candidates:
            each.axes = {v: a for v, a in each.axes.items() if self.last.get(v, -1) > at}
            each.made = {made for made in each.made if self.last.get(made[0], -1) > at}
            key = each.key()
            if key not in found or each.cost < found[key].cost:
                found[key] = each
        kept = sorted(found.values(), key=lambda each: each.cost)
        return kept[: self.width] if self.width else kept

    def _grow(self, candidate: Candidate) -> Candidate:
        """Restore the axes of a candidate at the horizon, and add the cost of whole values."""
        axes: dict[SSAValue, int | None] = {}
        trail = candidate.trail
        while trail is not None:
            axes |= trail.axes
            trail = trail.before
        cost, made = candidate.cost, set(candidate.made)
        end = self.ops[self.horizon]
        read: Sequence[SSAValue] = list(end.of) if isinstance(end, Grad) else end.operands
        for value in read:
            if isinstance(end, Grad) or value not in self.held:
                cost += self._conversion(axes.get(value), value, None, made, shares=False)
        return Candidate(cost, axes, candidate.made, candidate.trail)


def _read(op: Operation) -> Iterable[SSAValue]:
    return values_read(op) if isinstance(op, PdOp) else op.operands


def _cuts(candidate: Candidate, cost: float) -> Cuts:
    axes: dict[SSAValue, int] = {}
    forms: dict[Operation, CutForm] = {}
    trail = candidate.trail
    while trail is not None:
        axes |= {value: axis for value, axis in trail.axes.items() if axis is not None}
        if trail.form is not None:
            forms[trail.op] = trail.form
        trail = trail.before
    return Cuts(axes, forms, cost)
