"""Truth values that may be Variables: conditions, `and`, `or`, `not`, chained comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.shapes import UNKNOWN, element_count
from graphopt.ir.program import Variable
from graphopt.ir.program.location import caller_location
from graphopt.jit.conversion.unknown import require_known
from graphopt.tensor.logic import logical_and, logical_not, logical_or
from graphopt.tensor.manipulation import cast

Thunk = Callable[[], Any]


def as_bool(value: Variable) -> Variable:
    """Cast a Variable to bool."""
    return value if value.dtype == "bool" else cast(value, "bool")


def as_flag(value: Variable, statement: str) -> Variable:
    """Convert a condition to a bool Variable; raise UnsupportedError for several elements."""
    if element_count(value.shape) not in (1, UNKNOWN):
        raise UnsupportedError(
            f"{caller_location()}: the condition of this `{statement}` must have one element, "
            f"found a tensor of shape {list(value.shape)}; reduce the condition with paddle.any or "
            "paddle.all, or select elements with paddle.where"
        )
    return as_bool(value)


def all_of(*values: Thunk) -> Any:
    """Evaluate `a and b and c`."""
    return _join_values(values, logical_and, neutral=True)


def any_of(*values: Thunk) -> Any:
    """Evaluate `a or b or c`."""
    return _join_values(values, logical_or, neutral=False)


def _join_values(values: tuple[Thunk, ...], join: Callable[..., Variable], *, neutral: bool) -> Any:
    found = require_known(values[0]())
    for value in values[1:]:
        if not isinstance(found, Variable):
            if bool(found) is not neutral:
                return found
            found = require_known(value())
            continue
        following = require_known(value())
        if isinstance(following, Variable):
            found = join(as_bool(found), as_bool(following))
        elif bool(following) is not neutral:
            return not neutral  # whatever the value of the earlier tensors is
    return found


def negation(value: Any) -> Any:
    """Evaluate `not a`."""
    return logical_not(as_bool(value)) if isinstance(value, Variable) else not value


def comparison(left: Any, *pairs: Callable[..., Any]) -> Any:
    """Evaluate `a < b < c`; `pairs` alternates comparisons and right operands."""
    sides = [left]

    def compare(at: int) -> Any:
        sides.append(pairs[at + 1]())
        return pairs[at](sides[-2], sides[-1])

    return all_of(*(lambda at=at: compare(at) for at in range(0, len(pairs), 2)))
