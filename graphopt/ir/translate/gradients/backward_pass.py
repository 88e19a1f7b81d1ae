"""One backward pass of a saved program, matched to the forward pass that it differentiates.

A match needs each operator on the path to be differentiated once, with the sum of all contributions
of its readers. Where the pass leaves a contribution out on purpose, no gradient flows through the
values from there on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graphopt.ir.operators import row_of
from graphopt.ir.program import GRAD_SUFFIX, Block
from graphopt.ir.program.gradient_types import forward_type
from graphopt.ir.translate.gradients.explicit import GradientLink
from graphopt.ir.translate.gradients.flow import NOTHING, Contribution, GradientFlow, Seed, Terms
from graphopt.ir.translate.gradients.versions import OpPosition, VersionedName
from graphopt.ir.translate.operators.updates import updates_parameters

# derivatives that depend on inputs at most by the piece of a piecewise linear function
_BY_PIECE = ("linear", "shape", "piecewise")


@dataclass(frozen=True)
class Raised:
    """One derivative: targets with their cotangents, and the gradients by their values."""

    at: int
    targets: Sequence[tuple[VersionedName, VersionedName]]
    wrt: Sequence[tuple[VersionedName, Sequence[VersionedName]]]
    no_grad: Sequence[VersionedName]
    parameters: Sequence[int]


@dataclass(frozen=True)
class Surroundings:
    """The context of a backward pass; `wanted` are values needed at the end.

    With `inside`, for a loop or branch, a name in a gradient operator means its value when the
    forward operator read it.
    """

    flow: GradientFlow
    block: Block
    wanted: Collection[VersionedName]
    inside: bool


class NotStandard(Exception):
    """The backward pass is not the derivative of a forward pass."""


class BackwardPass:
    """One backward pass: a set of gradient operators."""

    def __init__(self, around: Surroundings, members: Sequence[int]) -> None:
        self.around, self.flow, self.versions = around, around.flow, around.flow.versions
        self.ops = self.flow.ops
        self.links = [self.flow.links[at] for at in members]
        self.by_forward: dict[int, list[GradientLink]] = {}
        for link in self.links:
            self.by_forward.setdefault(link.forward, []).append(link)
        self.members = set(members)
        self.is_second = any(link.forward in self.flow.links for link in self.links)
        self.total: dict[VersionedName, Terms] = {}
        """For each value, all contributions of this pass to its gradient."""
        self.absorbed = set(members)
        self.stopped: dict[VersionedName, None] = {}
        """Values whose gradients are not propagated to the operators that computed them."""

    def raise_derivative(self) -> tuple[Raised, set[int]]:
        """Match the pass as one derivative; return it with the operators that it replaces.

        Raises NotStandard if the pass computes something different.
        """
        self._check_versions()
        self._collect()
        wrt = self._read_outside()
        self._check_cotangents(set(wrt))
        no_grad = self._stops(set(wrt))
        if self.is_second and (no_grad or any(v in self.versions.producer for v in wrt)):
            raise NotStandard("a second derivative is taken with respect to intermediate values")
        seeds = [
            (value, term.value)
            for value, terms in self.total.items()
            for term in sorted(terms, key=str)
            if isinstance(term, Seed)
        ]
        at = self._position([*wrt, *no_grad, *(v for pair in seeds for v in pair)])
        read = [g for gradients in wrt.values() for g in gradients]
        if len({g.name for g in read}) != len(read):
            raise NotStandard("two versions of a gradient are read")
        for gradient in read:
            if any(i < at and i not in self.absorbed for i in self._readers(gradient)):
                raise NotStandard(f"'{gradient.name}' is read before the last cotangent is known")
        parameters = [i for i, value in enumerate(wrt) if self._updates(value, wrt[value])]
        return Raised(at, seeds, list(wrt.items()), no_grad, parameters), self.absorbed

    def _name(self, at: int) -> str:
        op = self.ops[at]
        return f"{op.type} -> {', '.join(op.output_arg_names)}"

    def _check_versions(self) -> None:
        for link in self.links:
            if link.later and not self.around.inside:
                value = min(link.later.values())
                raise NotStandard(
                    f"{self._name(link.at)} reads the value of '{value.name}' after an update"
                )

    def _collect(self) -> None:
        """Collect the gradient terms of each value, from operators and from outside."""
        for link in self.links:
            reads = self.versions.reads[link.forward]
            for place in link.results:
                term = frozenset([Contribution(link.at, place)])
                self.total[reads[place]] = self.total.get(reads[place], NOTHING) | term
        for forward, links in self.by_forward.items():
            places = [place for link in links for place in link.results]
            same = all(link.cotangents == links[0].cotangents for link in links)
            if len(set(places)) != len(places) or not same:
                raise NotStandard(f"{self.ops[forward].type} is differentiated twice")
        for link in self.links:
            for value, gradient in link.cotangents.items():
                terms = self.flow.terms(gradient, value)
                seeds = frozenset(term for term in terms if isinstance(term, Seed))
                self.total[value] = self.total.get(value, NOTHING) | seeds
                if terms != frozenset([Seed(gradient)]):
                    self.absorbed |= self.flow.sums_in(gradient)

    def _check_cotangents(self, wrt: set[VersionedName]) -> None:
        """Check that each operator is differentiated with all gradients of its results."""
        for link in self.links:
            for value in self.versions.writes[link.forward].values():
                total = self.total.get(value, NOTHING)
                given = link.cotangents.get(value)
                terms = NOTHING if given is None else self.flow.terms(given, value)
                if not terms and total and value not in wrt:
                    self.stopped[value] = None
                elif terms != total:
                    raise NotStandard(
                        f"{self._name(link.at)} reads a part of the gradient of '{value.name}', "
                        f"or another value"
                    )

    def _readers(self, gradient: VersionedName) -> list[int]:
        readers = list(self.versions.readers.get(gradient, ()))
        return [i for i in readers if i not in self.absorbed]

    def _read_outside(self) -> dict[VersionedName, list[VersionedName]]:
        """Map each value to its gradients that are read outside the pass."""
        for gradient, (_, terms) in self.flow.pure.items():
            at = self.flow.sums.get(gradient)
            if at is not None and terms and {getattr(t, "at", -1) for t in terms} <= self.members:
                self.absorbed.add(at)
        wrt: dict[VersionedName, list[VersionedName]] = {}
        for at in sorted(self.absorbed):
            for gradient in self.versions.writes[at].values():
                if not self._readers(gradient) and gradient not in self.around.wanted:
                    continue
                value = self._belongs_to(gradient)
                if value is None or self.flow.terms(gradient, value) != self.total.get(value):
                    raise NotStandard(f"'{gradient.name}', a part of a gradient, is read")
                wrt.setdefault(value, []).append(gradient)
        order = {v: i for i, v in enumerate(self.versions.readers)}
        return dict(sorted(wrt.items(), key=lambda item: order.get(item[0], -1)))

    def _belongs_to(self, gradient: VersionedName) -> VersionedName | None:
        known = self.flow.owner(gradient)
        if known is not None:
            return known
        for link in self.links:
            for value, other in link.cotangents.items():
                if other == gradient:
                    return value
        return None

    # What the derivative would compute ------------------------------------------------------------

    def _stops(self, wrt: set[VersionedName]) -> list[VersionedName]:
        """Find the values to stop at so that the derivative follows the path of this pass."""
        stops = dict(self.stopped)
        while True:
            found = self._missing(wrt, stops)
            if not found:
                return list(stops)
            if found & wrt:
                raise NotStandard(f"the gradient of '{min(found & wrt).name}' omits a reader")
            stops.update(dict.fromkeys(sorted(found)))

    def _missing(
        self, wrt: set[VersionedName], stops: Collection[VersionedName]
    ) -> set[VersionedName]:
        active = self._active(wrt, stops)
        wanted = {v for v, terms in self.total.items() if v in active and _has_seed(terms)}
        found: set[VersionedName] = set()
        for index in range(len(self.ops) - 1, -1, -1):
            outputs = wanted.intersection(self.versions.writes[index].values())
            if index in self.absorbed or not outputs:
                continue
            reads = {p: v for p, v in self._differentiable(index).items() if v in active}
            if not reads:
                continue
            links = self.by_forward.get(index)
            if links is None:
                found |= outputs - wrt
                if outputs & wrt:
                    raise NotStandard(
                        f"'{min(outputs & wrt).name}' depends on other differentiated values, "
                        f"but its gradient does not flow to these values"
                    )
                continue
            places = {place for link in links for place in link.results}
            for place, value in reads.items():
                if place in places:
                    wanted.add(value)
                elif value not in self.total and value in self.versions.producer:
                    found.add(value)
                else:
                    raise NotStandard(
                        f"{self._name(links[0].at)} does not compute the gradient of '{value.name}'"
                    )
        return found

    def _active(
        self, wrt: set[VersionedName], stops: Collection[VersionedName]
    ) -> set[VersionedName]:
        active = set(wrt)
        for index in range(len(self.ops)):
            if index in self.absorbed:
                continue
            if not active.isdisjoint(self._differentiable(index).values()):
                outputs = self.versions.writes[index].values()
                active.update(v for v in outputs if v not in stops and self._is_float(v))
        return active

    def _differentiable(self, index: int) -> dict[OpPosition, VersionedName]:
        """Find the operands that gradients flow to; uses of a shape or sign do not count."""
        op, reads = self.ops[index], self.versions.reads[index]
        if row_of(op.type).derivative == "zero":
            return {}
        forward = forward_type(op.type)
        if forward is not None and row_of(forward).derivative in _BY_PIECE:
            return {p: v for p, v in reads.items() if p.slot.endswith(GRAD_SUFFIX)}
        return {p: v for p, v in reads.items() if self._is_float(v)}

    def _is_float(self, value: VersionedName) -> bool:
        variable = self.around.block.find_var(value.name)
        if variable is None or not variable.has_type:
            return variable is not None
        return variable.dtype.is_differentiable

    def _position(self, values: Iterable[VersionedName]) -> int:
        """Compute the position of the derivative: after all values that it needs."""
        known = [self.versions.producer.get(value, -1) for value in values]
        return max([min(self.members), *(index + 1 for index in known)])

    def _updates(self, value: VersionedName, gradients: Sequence[VersionedName]) -> bool:
        """True for a parameter that an optimizer moves by this gradient."""
        variable = self.around.block.find_var(value.name)
        if variable is None or not variable.persistable:
            return False
        readers = [i for gradient in gradients for i in self._readers(gradient)]
        return leads_to_update(self.flow, readers)


def leads_to_update(flow: GradientFlow, readers: Iterable[int]) -> bool:
    """True if these operators lead to an optimizer, other than through gradient operators."""
    seen: set[int] = set()
    todo = list(readers)
    while todo:
        index = todo.pop()
        if index in seen or index in flow.links:
            continue
        seen.add(index)
        if updates_parameters(flow.ops[index]):
            return True
        for written in flow.versions.writes[index].values():
            todo += flow.versions.readers.get(written, ())
    return False


def _has_seed(terms: Terms) -> bool:
    return any(isinstance(term, Seed) for term in terms)
