"""x / 2 * (1 + tanh(...)) and x / 2 * (1 + erf(...)), written out in several ops -> gelu.

There are many ways to write the formula, so the ops are not matched one by one: the ops between x
and the result are expanded to a polynomial of x and of the tanh or erf, which is compared with
gelu's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import constant
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Gelu, Tanh
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.math import (
    Add,
    Divide,
    ElementwisePow,
    Erf,
    Multiply,
    Pow,
    Scale,
    Square,
    Subtract,
)
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.naming import how_used, show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.rewrite import (
    RewriteLog,
    RewritePass,
    insert,
    replace,
)

_CURVES = frozenset({Tanh, Erf})
# the coefficient of x^i t^j, by (i, j); t is the tanh or erf
Polynomial = Mapping[tuple[int, int], float]
X: Polynomial = {(1, 0): 1.0}
T: Polynomial = {(0, 1): 1.0}

ROOT = math.sqrt(2 / math.pi)
CUBIC = {(1, 0): ROOT, (3, 0): 0.044715 * ROOT}
"""The argument of tanh in gelu; `LINEAR` is the argument of erf."""
LINEAR = {(1, 0): math.sqrt(0.5)}
RESULT = {(1, 0): 0.5, (1, 1): 0.5}

# The length of the longest chain of ops that spells gelu, with some to spare.
_FARTHEST = 8
_HIGHEST = 4
# The tolerance for written constants, in epsilons of the dtype: 0.797885 is off by five.
_ROUNDINGS = 8
_EPSILON = {"float64": 2.0**-52}


class Written(NamedTuple):
    """A gelu, or nearly one: x, the last op, and polynomials of the argument and the result."""

    x: SSAValue
    root: PdOp
    inner: Polynomial
    outer: Polynomial
    ops: tuple[PdOp, ...]
    """The ops between x and the result, last one first."""


@dataclass(frozen=True)
class RecogniseGelu(RewritePass):
    """Replace a gelu that is written in several ops by one op."""

    name = "recognise-gelu"
    numerics = Numerics.APPROXIMATE  # constants are written with 6 to 10 digits

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if isinstance(op, PdOp) and type(op) in _CURVES:
                written = [*written_around(op)]
                right = [each for each in written if _other_numbers(op, each) is None]
                for found in (right or written)[:1]:
                    _rewrite(op, found, log)
        return log.outcomes


def _rewrite(curve: PdOp, found: Written, log: RewriteLog) -> None:
    reason = _other_numbers(curve, found) or _needed_elsewhere(found)
    if reason is not None:
        log.declined(found.root, reason)
        return
    root = found.root
    if not log.allow(root):
        return
    log.applied(root, *found.ops[1:])
    old = root.results[0]
    new = insert(Gelu.make(found.x, approximate=isinstance(curve, Tanh)), root, old)
    if replace(root, {old: new}, log, *found.ops[1:]):
        for op in found.ops[1:]:
            op.detach()
            op.erase()


def _other_numbers(curve: PdOp, found: Written) -> Reason | None:
    """Return the reason that the coefficients differ from gelu's beyond rounding, else None."""
    is_tanh = isinstance(curve, Tanh)
    name, inner = ("tanh", CUBIC) if is_tanh else ("erf", LINEAR)
    dtype = f"{dtype_of(found.x.type)}"
    most = _ROUNDINGS * _EPSILON.get(dtype, 2.0**-23)
    if _is_near(found.inner, inner, most) and _is_near(found.outer, RESULT, most):
        return None
    text = f"the formula is {_show(found.outer, name)} with {name} of {_show(found.inner, name)}; "
    text += f"gelu has {_show(RESULT, name)} and {_show(inner, name)}"
    text += ", to the digits of float64" if dtype == "float64" else ""
    return Reason("other-numbers", text, "use the numbers of gelu, or call gelu")


def _needed_elsewhere(found: Written) -> Reason | None:
    """Return the reason that another op or a derivative reads an intermediate value, else None."""
    inside = set(found.ops)
    for op in found.ops[1:]:
        uses = op.results[0].uses
        other = next((use for use in uses if use.operation not in inside), None)
        if other is not None:
            user = how_used(other.operation, other.index)
            text = f"the result of {show_op(op)}, inside the formula, is {user}"
            return Reason("used-elsewhere", text, "give the other reader a copy of the op")
    return None


def written_around(curve: PdOp) -> Iterator[Written]:
    """Find formulas around a tanh or erf that have gelu's monomials, with any coefficients."""
    argument, value = curve.operands[0], curve.results[0]
    powers = set(CUBIC if isinstance(curve, Tanh) else LINEAR)
    for x in _sources(argument):
        below = _Expansion({x: X})
        inner = below.of(argument)
        if inner is None or set(inner) != powers:
            continue
        last, around = value, _Expansion({x: X, value: T})
        for _ in range(_FARTHEST):
            users = (use.operation for use in last.uses)
            user = next((op for op in users if isinstance(op, _ELEMENTWISE)), None)
            if user is None:
                break
            last = user.results[0]
            outer = around.of(last)
            if outer is not None and set(outer) == set(RESULT) and last.type == x.type:
                ops = {*below.ops, curve, *around.ops}
                yield Written(x, user, inner, outer, _last_first(user, ops))


def _last_first(root: PdOp, ops: Set[PdOp]) -> tuple[PdOp, ...]:
    """Sort the ops last first, so that each comes before the producers of its operands."""
    found = [root]
    at = root.prev_op
    while len(found) < len(ops) and at is not None:
        if at in ops:
            assert isinstance(at, PdOp)
            found.append(at)
        at = at.prev_op
    return tuple(found)


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value and the values it is computed from by elementwise ops, nearest first."""
    seen, level = dict.fromkeys([value]), [value]
    for _ in range(_FARTHEST):
        above = [v for at in level if isinstance(at.owner, _ELEMENTWISE) for v in at.owner.operands]
        level = [v for v in dict.fromkeys(above) if v not in seen and constant(v) is None]
        seen.update(dict.fromkeys(level))
    yield from seen


class _Expansion:
    """Values as polynomials of x and t, and the ops that compute them."""

    def __init__(self, known: Mapping[SSAValue, Polynomial]) -> None:
        self.known = dict(known)
        self.ops: set[PdOp] = set()

    def of(self, value: SSAValue, left: int = _FARTHEST) -> Polynomial | None:
        """Expand a value to a polynomial of low degree, over at most `left` ops; else None."""
        if value in self.known:
            return self.known[value]
        number, op = constant(value), value.owner
        if number is not None:
            if isinstance(op, FullLike):  # it reads a size, perhaps of an inner value
                self.ops.add(op)
            return {(0, 0): number}
        if not isinstance(op, _ELEMENTWISE) or not left:
            return None
        parts: list[Polynomial] = []
        for operand in op.operands:
            part = self.of(operand, left - 1)
            if part is None:
                return None
            parts.append(part)
        found = _combine_polynomials(op, parts)
        if found is None or any(sum(powers) > _HIGHEST for powers in found):
            return None
        self.ops.add(op)
        self.known[value] = found
        return found


def _combine_polynomials(op: PdOp, parts: list[Polynomial]) -> Polynomial | None:
    """Apply an op to the polynomials of its operands; None if the result is no polynomial."""
    first, last = parts[0], parts[-1]
    match op:
        case Scale():
            scale, bias = op.attr("scale"), op.attr("bias")
            moved = bias if op.attr("bias_after_scale") else bias * scale
            return _sum(_times(first, {(0, 0): scale}), {(0, 0): moved})
        case Add():
            return _sum(first, last)
        case Subtract():
            return _sum(first, _times(last, {(0, 0): -1.0}))
        case Multiply():
            return _times(first, last)
        case Divide():
            divisor = _number(last)
            return _times(first, {(0, 0): 1 / divisor}) if divisor else None
        case Square():
            return _times(first, first)
        case _:
            power = op.attr("factor") if isinstance(op, Pow) else _number(last)
            return _power(first, power)


_ELEMENTWISE: tuple[type[PdOp], ...] = (
    Scale, Add, Subtract, Multiply, Divide, Square, Pow, ElementwisePow,
)  # fmt: skip


def _number(polynomial: Polynomial) -> float | None:
    return polynomial[0, 0] if set(polynomial) == {(0, 0)} else None


def _power(polynomial: Polynomial, power: float | None) -> Polynomial | None:
    if power not in (1, 2, 3):
        return None
    result = polynomial
    for _ in range(int(power) - 1):
        result = _times(result, polynomial)
    return result


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    found = {powers: a.get(powers, 0.0) + b.get(powers, 0.0) for powers in {**a, **b}}
    return {powers: factor for powers, factor in found.items() if factor != 0}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for (i, j), factor in a.items():
        for (k, n), other in b.items():
            found = _sum(found, {(i + k, j + n): factor * other})
    return found


def _is_near(found: Polynomial, wanted: Polynomial, most: float) -> bool:
    return all(math.isclose(found[at], wanted[at], rel_tol=most) for at in wanted)


def _show(polynomial: Polynomial, curve: str) -> str:
    """Format a polynomial in mathematical notation."""

    def term(powers: tuple[int, int], factor: float) -> str:
        names = zip(("x", curve), powers, strict=True)
        shown = (name if power == 1 else f"{name}^{power}" for name, power in names if power)
        return " ".join((f"{factor:.9g}", *shown))

    return " + ".join(term(*item) for item in sorted(polynomial.items()))
