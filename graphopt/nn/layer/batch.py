"""Tensors with as many rows as another one, even if the number is known only in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.ir.program import Variable
from graphopt.tensor.creation import full, full_like
from graphopt.tensor.manipulation import expand, unsqueeze
from graphopt.tensor.math import sum


def batch_filled(
    batch_ref: Variable, batch_axis: int, value: float, sizes: Sequence[int], dtype: Any
) -> Variable:
    """Fill a tensor [batch, *sizes] with a number; `batch_ref` has the rows on `batch_axis`."""
    if batch_ref.shape[batch_axis] >= 0:
        return full([batch_ref.shape[batch_axis], *sizes], value, dtype)
    # the batch size is known only at run time
    others = [axis for axis in range(len(batch_ref.shape)) if axis != batch_axis]
    rows = full_like(sum(batch_ref, others) if others else batch_ref, value, dtype)
    for _ in sizes:
        rows = unsqueeze(rows, -1)
    return expand(rows, [-1, *sizes])
