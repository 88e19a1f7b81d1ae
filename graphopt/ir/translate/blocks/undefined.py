"""Variables that Paddle's compiler of Python code leaves undefined on one path.

A Python variable that only one branch sets, or that a loop sets first, gets one marker number,
whatever its shape. It must not be read, so zeros of the right type replace it.
"""

from __future__ import annotations

import math
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.ops.creation import AssignValue
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of

_NUMBER = 1.77113e27


def is_undefined(value: SSAValue) -> bool:
    """True for the constant that marks an undefined value, and for a copy of it."""
    source = value.owner
    while isinstance(source, Assign):
        source = source.x.owner
    if not isinstance(source, AssignValue):
        return False
    numbers = source.attr("values")
    return len(numbers) == 1 and math.isclose(numbers[0], _NUMBER, rel_tol=1e-6)


def number_of(value: SSAValue) -> float | None:
    """Return the number in a constant of one element, 0 for an undefined marker; else None.

    Paddle 3 marks undefined values with a plain zero. After broadcasting, the number is the same
    for every operator that could read it at all.
    """
    if is_undefined(value):
        return 0.0
    found = KnownValues().array(value)
    return float(found.reshape(())) if found is not None and found.size == 1 else None


def zeros_like(value: SSAValue) -> dict[str, Any]:
    """Build the attributes of a zero `pd.full` of this type, with 1 for unknown dimensions."""
    shape = [1 if dim == UNKNOWN else dim for dim in shape_of(value.type)]
    return {"shape": shape, "value": 0.0, "dtype": dtype_of(value.type)}
