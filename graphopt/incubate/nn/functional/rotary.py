"""Positions as rotations of queries and keys (RoFormer, arXiv:2104.09864)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, concat, gather, reshape, split
from graphopt.tensor.math import add, multiply, neg

_FUNCTION = "fused_rotary_position_embedding"


def fused_rotary_position_embedding(
    q: Variable,
    k: Variable | None = None,
    v: Variable | None = None,
    sin: Variable | None = None,
    cos: Variable | None = None,
    position_ids: Variable | None = None,
    use_neox_rotary_style: bool = True,
    time_major: bool = False,
    rotary_emb_base: float = 10000.0,
) -> tuple[Variable, Variable | None, Variable | None]:
    """Rotate q, k and v [batch, length, heads, size] by their positions; None stays None.

    Adjacent elements form the pairs that rotate together; without `use_neox_rotary_style` these are
    the elements i and i + size / 2. `sin` and `cos` are [length, size] or [1, length, 1, size], and
    `position_ids` [batch, length] chooses their rows; without them an angle is position / base **
    (2 i / size). `time_major` tensors are [length, batch, heads, size]. Paddle page:
    paddle.incubate.nn.functional.fused_rotary_position_embedding. Raises ValueError for another
    rank, an odd size, or only one of sin and cos.
    """
    shape = list(arguments.variable(q, "q", _FUNCTION).shape)
    if len(shape) != 4 or shape[-1] % 2 or shape[-1] < 0:
        raise ValueError(
            f"{_FUNCTION}(): 'q' should be [batch, length, heads, an even size], found {shape}"
        )
    if (sin is None) != (cos is None):
        raise ValueError(f"{_FUNCTION}(): 'sin' and 'cos' go together")
    size, steps = shape[-1], shape[0 if time_major else 1]
    if sin is None or cos is None:
        if steps < 0:
            raise ValueError(f"{_FUNCTION}(): give 'sin' and 'cos' where the length is not known")
        tables = [assign(table) for table in _tables(steps, size, rotary_emb_base)]
    else:
        tables = [reshape(table, [-1, size]) for table in (sin, cos)]
    tables = [_place_table(table, q, position_ids, time_major) for table in tables]

    def rotate(x: Variable | None) -> Variable | None:
        if x is None:
            return None
        sines, cosines = (cast(table, x.dtype) for table in tables)
        return add(multiply(x, cosines), multiply(_partner(x, use_neox_rotary_style), sines))

    first = rotate(q)
    assert first is not None
    return first, rotate(k), rotate(v)


def _tables(steps: int, size: int, base: float) -> list[Any]:
    """Compute sines and cosines [steps, size], each angle twice."""
    speeds = 1 / base ** (np.arange(0, size, 2) / size)
    angles = np.repeat(np.arange(steps)[:, None] * speeds, 2, axis=1)
    return [np.sin(angles).astype("float32"), np.cos(angles).astype("float32")]


def _place_table(table: Variable, q: Variable, ids: Variable | None, time_major: bool) -> Variable:
    """Select the rows of a table by `ids`, and reshape it to broadcast to q."""
    size = q.shape[-1]
    if ids is None:
        steps = q.shape[0 if time_major else 1]
        return reshape(table, [steps, 1, 1, size] if time_major else [1, steps, 1, size])
    length = ids.shape[-1]
    rows = reshape(gather(table, reshape(ids, [-1])), [-1, length, 1, size])
    return transpose(rows, [1, 0, 2, 3]) if time_major else rows


def _partner(x: Variable, neighbours: bool) -> Variable:
    """Map each pair (a, b) of elements to (-b, a): a rotation by 90 degrees."""
    size = x.shape[-1]
    if not neighbours:
        low, high = split(x, 2, -1)
        return concat([neg(high), low], -1)
    shape = [0, 0, x.shape[2], size // 2, 2]
    even, odd = split(reshape(x, shape), 2, -1)
    return reshape(concat([neg(odd), even], -1), [0, 0, x.shape[2], size])
