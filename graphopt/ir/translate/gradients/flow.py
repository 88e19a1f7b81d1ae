"""The terms of each gradient of a saved program: contributions of operators, and seeds.

The gradient of a value is the sum of its readers' contributions. Programs build these sums with
`sum` operators, in one or several steps; here every gradient is traced back to its terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphopt.ir.program import Operator, is_gradient
from graphopt.ir.translate.gradients.explicit import GradientLink, find_disguised, find_link
from graphopt.ir.translate.gradients.types import is_zero, summands
from graphopt.ir.translate.gradients.versions import OpPosition, VersionedName, Versions


class Contribution(NamedTuple):
    """The gradient that the operator `at` computes for an input of its forward operator."""

    at: int
    place: OpPosition


class Seed(NamedTuple):
    """A gradient that no gradient operator computes: the start of a derivative."""

    value: VersionedName


Terms = frozenset[Contribution | Seed]
NOTHING: Terms = frozenset()


class GradientFlow:
    """The links of a list of operators, and the terms of the gradients that they pass on.

    Raises UnsupportedError for a gradient operator without a forward operator.
    """

    def __init__(self, ops: Sequence[Operator]) -> None:
        self.ops = ops
        self.versions = Versions(ops)
        self.links: dict[int, GradientLink] = {}
        self.zeros: set[VersionedName] = set()
        self.pure: dict[VersionedName, tuple[VersionedName, Terms]] = {}
        """For each sum of contributions only: the value whose gradient it is, and its terms."""
        self.sums: dict[VersionedName, int] = {}
        taken: dict[int, set[OpPosition]] = {}
        for at, op in enumerate(ops):
            writes = self.versions.writes[at]
            if is_gradient(op):
                link = find_link(self.versions, at, self.owner)
            else:
                claimed = taken.get(self._forward_of(at), set())
                link = find_disguised(self.versions, at, self.owner, claimed)
                if link is not None:
                    taken.setdefault(link.forward, set()).update(link.results)
            if link is not None:
                self._enter(link)
            elif is_zero(op):
                self.zeros.update(writes.values())
            elif writes and summands(self.versions, at):
                self._enter_sum(at, next(iter(writes.values())))

    def _forward_of(self, at: int) -> int:
        for value in self.versions.reads[at].values():
            owner = self.owner(value)
            if owner is not None:
                return self.versions.producer.get(owner, -1)
        return -1

    def owner(self, gradient: VersionedName) -> VersionedName | None:
        """Return the value that a gradient belongs to by its terms; None if unknown."""
        return self.pure[gradient][0] if gradient in self.pure else None

    def _enter(self, link: GradientLink) -> None:
        self.links[link.at] = link
        for place, gradient in link.results.items():
            value = self.versions.reads[link.forward][place]
            self.pure[gradient] = value, frozenset([Contribution(link.at, place)])

    def _enter_sum(self, at: int, result: VersionedName) -> None:
        parts = [v for v in summands(self.versions, at) if v not in self.zeros]
        owners = {self.owner(part) for part in parts}
        if not any(part in self.pure for part in parts):
            return
        self.sums[result] = at
        terms = [self.pure[part][1] for part in parts if part in self.pure]
        together = frozenset[Contribution | Seed]().union(*terms)
        (owner, *others) = owners
        if owner is not None and not others and len(together) == sum(map(len, terms)):
            self.pure[result] = owner, together

    def terms(self, gradient: VersionedName, of: VersionedName) -> Terms:
        """Find the terms of a value's gradient; a gradient without known terms is a seed."""
        if gradient in self.zeros:
            return NOTHING
        if gradient in self.pure:
            owner, found = self.pure[gradient]
            return found if owner == of else frozenset([Seed(gradient)])
        if gradient not in self.sums:
            return frozenset([Seed(gradient)])
        parts = [self.terms(p, of) for p in summands(self.versions, self.sums[gradient])]
        together = NOTHING.union(*parts)
        if len(together) != sum(map(len, parts)):
            return frozenset([Seed(gradient)])
        return together

    def sums_in(self, gradient: VersionedName) -> set[int]:
        """Collect the sums that a gradient was built with, as far as `terms` follows them."""
        if gradient not in self.sums:
            return set()
        at = self.sums[gradient]
        return {at}.union(*(self.sums_in(part) for part in summands(self.versions, at)))
