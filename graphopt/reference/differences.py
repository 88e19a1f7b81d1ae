"""The derivative of an op from differences, where no better one is written down.

Central differences in float64 are good to about 1e-8; a kink within that distance is not noticed.
They take two evaluations for each element of each operand, so they are for small operands only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from graphopt.reference.registry import Unsupported
from graphopt.reference.tape import Array, TapeNode, value_of

MOST = 256
"""The most elements of an operand."""
STEP = 1e-6


def by_differences(
    op: Operation,
    function: Callable[..., tuple[Array, ...]],
    operands: Sequence[Array],
    why: str,
) -> tuple[Array, ...]:
    """Compute an op with results as nodes, whose derivatives are differences.

    Raise Unsupported when an operand is too large, or is itself computed by a derivative.
    """
    values = [value_of(operand) for operand in operands]
    if any(v.dtype.kind == "c" for v in values):
        raise Unsupported(op.name, f"its derivative with respect to complex values ({why})")
    if any(isinstance(o, TapeNode) and o.size > MOST for o in operands):
        raise Unsupported(op.name, f"its derivative needs one of {why}, or less than {MOST} values")

    def vjp_of(result: int, position: int) -> Any:
        def vjp(g: Array, out: Array, *arguments: Array) -> Array:
            if isinstance(g, TapeNode) or any(isinstance(a, TapeNode) for a in arguments):
                raise Unsupported(op.name, f"its second derivative needs one of {why}")
            x = values[position]
            gradient = np.zeros(x.size)
            for number in range(x.size):
                step = np.zeros(x.size)
                step[number] = STEP * max(1.0, abs(float(x.ravel()[number])))
                sides: list[Array] = []
                for sign in (1.0, -1.0):
                    moved = list(values)
                    moved[position] = x + sign * step.reshape(x.shape)
                    sides.append(np.asarray(function(*moved)[result], np.float64))
                gradient[number] = np.sum(g * (sides[0] - sides[1])) / (2.0 * step[number])
            return gradient.reshape(x.shape)

        return vjp

    found: list[Array] = []
    for number, result in enumerate(map(np.asarray, function(*values))):
        differentiable = result.dtype.kind == "f"
        vjps = [
            vjp_of(number, i) if isinstance(operand, TapeNode) else None
            for i, operand in enumerate(operands)
        ]
        found.append(TapeNode(result, operands, vjps) if differentiable else result)
    return tuple(found)
