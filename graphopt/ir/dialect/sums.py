"""Symbolic sums: sizes that the data decide, and integers computed from them, as `2·n·t + 1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue


@dataclass(frozen=True)
class Size:
    """The size of an axis of a value, not computed from other sizes."""

    value: SSAValue
    axis: int


@dataclass(frozen=True)
class Broadcast:
    """The size that two or more sizes broadcast to: equal to each of them that is not 1."""

    sizes: frozenset[SymbolicSum]


Factor = Size | Broadcast
# sizes with their exponents
Product = frozenset[tuple[Factor, int]]
_ONE: Product = frozenset()


@dataclass(frozen=True)
class SymbolicSum:
    """A sum of products of sizes, with integer factors other than 0; some term has a size."""

    terms: frozenset[tuple[Product, int]]

    @property
    def only(self) -> Factor | None:
        """The one size that this sum consists of; None for other sums."""
        sizes = [size for powers, _ in self.terms for size, _ in powers]
        return sizes[0] if self == _sum_of(sizes[0]) else None

    def __add__(self, other: Amount) -> Amount:
        return _add_terms([*_terms(self), *_terms(other)])

    def __sub__(self, other: Amount) -> Amount:
        return self + other * -1

    def __mul__(self, other: Amount) -> Amount:
        pairs = ((mine, its) for mine in _terms(self) for its in _terms(other))
        return _add_terms((_join_factors(a, b), m * n) for (a, m), (b, n) in pairs)

    def __rsub__(self, other: int) -> Amount:
        return self * -1 + other

    __radd__ = __add__
    __rmul__ = __mul__


Amount = int | SymbolicSum


def size_of(value: SSAValue, axis: int) -> SymbolicSum:
    """Return the size of an axis as a symbolic sum."""
    return _sum_of(Size(value, axis))


def _sum_of(size: Factor) -> SymbolicSum:
    return SymbolicSum(frozenset({(frozenset({(size, 1)}), 1)}))


def broadcast(amounts: Iterable[Amount]) -> Amount:
    """Broadcast sizes: return a number among them other than 1, else a size composed of all.

    The order does not matter. A broadcast size among them counts as the sizes it is composed of.
    """
    sizes: set[SymbolicSum] = set()
    for amount in amounts:
        if isinstance(amount, SymbolicSum):
            sizes |= broadcast_from(amount)
        elif amount != 1:
            return amount
    if len(sizes) > 1:
        return _sum_of(Broadcast(frozenset(sizes)))
    return sizes.pop() if sizes else 1


def broadcast_from(amount: Amount) -> frozenset[SymbolicSum]:
    """Return the open sizes that broadcast to `amount`; for any other sum, the sum itself."""
    if not isinstance(amount, SymbolicSum):
        return frozenset()
    return amount.only.sizes if isinstance(amount.only, Broadcast) else frozenset({amount})


def product(amounts: Iterable[Amount]) -> Amount:
    """Multiply amounts."""
    total: Amount = 1
    for amount in amounts:
        total = total * amount
    return total


def quotient(amount: Amount, by: Amount) -> Amount | None:
    """Divide without a remainder; None where no quotient is known."""
    divisors = _terms(by)
    if len(divisors) != 1 or by == 0:
        return None
    (below, number), *_ = divisors
    found: list[tuple[Product, int]] = []
    for above, factor in _terms(amount):
        powers = Counter(dict(above))
        powers.subtract(dict(below))
        if factor % number or min(powers.values(), default=0) < 0:
            return None
        found.append((_positive(powers), factor // number))
    return _add_terms(found)


def is_at_least(amount: Amount, number: int) -> bool:
    """True when `amount` is `number` or more for all sizes of 0 or more."""
    terms = dict(_terms(amount))
    least = terms.pop(_ONE, 0)
    return least >= number and all(factor > 0 for factor in terms.values())


def _terms(amount: Amount) -> Collection[tuple[Product, int]]:
    return amount.terms if isinstance(amount, SymbolicSum) else ((_ONE, amount),)


def _add_terms(terms: Iterable[tuple[Product, int]]) -> Amount:
    total: Counter[Product] = Counter()
    for key, factor in terms:
        total[key] += factor
    left = {key: factor for key, factor in total.items() if factor}
    if left.keys() <= {_ONE}:
        return left.get(_ONE, 0)
    return SymbolicSum(frozenset(left.items()))


def _join_factors(a: Product, b: Product) -> Product:
    return _positive(Counter(dict(a)) + Counter(dict(b)))


def _positive(powers: Mapping[Factor, int]) -> Product:
    return frozenset((size, power) for size, power in powers.items() if power)
