"""Ops on a block of rows, [rows, columns], inside of a kernel.

A block may have columns past the end of a row, where the language of the kernel needs a power of
two: rules that combine the elements of a row mask them. Elementwise ops need no rule here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule
from graphopt.ir.dialect.ops.activation import LogSoftmax, Softmax
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.reduce import Max, Mean, Min, Sum
from graphopt.ir.dialect.ops.shape import Expand
from graphopt.ir.dialect.traits import keeps_order
from graphopt.ir.dialect.types import dtype_of
from graphopt.lowering.call import Call
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.ops.activation import floor_shifted
from graphopt.lowering.ops.base import in_kernel, wide

Array = jax.Array
Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class Line:
    """The columns of a block; the first `length` belong to the row, the others are padding."""

    length: int
    columns: int

    def among(self, x: Array, neutral: float) -> Array:
        """Replace the columns past the end by `neutral`."""
        if self.length == self.columns:
            return x
        return jnp.where(self.numbers() < self.length, x, np.asarray(neutral, x.dtype))

    def numbers(self) -> Array:
        """Return the indices of the columns, [1, columns]."""
        return lax.broadcasted_iota(np.int32, (1, self.columns), 1)

    def sum(self, x: Array) -> Array:
        """Sum each row, [rows, 1]."""
        return jnp.sum(self.among(x, 0.0), 1, keepdims=True)

    def mean(self, x: Array) -> Array:
        """Average each row, [rows, 1]."""
        return self.sum(x) / np.asarray(self.length, x.dtype)

    def max(self, x: Array) -> Array:
        """Compute the maximum of each row, [rows, 1]."""
        return jnp.max(self.among(x, -np.inf), 1, keepdims=True)


def compute(op: PdOp, operands: Sequence[Array], line: Line) -> Arrays:
    """Compute an op on a block of rows; the results have their declared dtypes."""
    rule = RULES.get(type(op))
    if rule is not None:
        arrays = iter(operands)
        grouped = [[next(arrays) for _ in group] for group in op.operand_groups()]
        values = bind_groups(type(op), grouped) | op.attr_values() | {"line": line}
        found = call_rule(rule, values)
    else:
        with in_kernel():
            found = tuple(operands) if keeps_order(op) else Call.of(op, ALONE)(operands, None)
    results = found if isinstance(found, tuple) else (found,)
    types = [dtype_of(result.type).numpy for result in op.results]
    return tuple(x.astype(dtype) for x, dtype in zip(results, types, strict=True))


def _softmax(x: Array, line: Line) -> Array:
    values = wide(x)
    exponential = line.among(lax.exp(floor_shifted(values - line.max(values))), 0.0)
    return exponential / jnp.sum(exponential, 1, keepdims=True)


def _log_softmax(x: Array, line: Line) -> Array:
    values = wide(x)
    shifted = values - line.max(values)
    return floor_shifted(shifted) - lax.log(line.sum(lax.exp(shifted)))


def _layer_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, line: Line
) -> Arrays:
    values = wide(x)
    mean = line.mean(values)
    variance = line.mean(lax.square(values - mean))
    out = (values - mean) * lax.rsqrt(variance + np.asarray(epsilon, values.dtype))
    if scale is not None:
        out = out * scale.astype(out.dtype)
    if bias is not None:
        out = out + bias.astype(out.dtype)
    return out, mean, variance


def _cross_entropy(
    logits: Array, label: Array, soft_label: bool, ignore_index: int, line: Line
) -> Arrays:
    values = wide(logits)
    shifted = values - line.max(values)
    log_sum = lax.log(line.sum(lax.exp(shifted)))
    scores = floor_shifted(shifted) - log_sum
    if soft_label:
        return lax.exp(scores), -line.sum(wide(label) * scores)
    chosen = jnp.where(line.numbers() == label, shifted, np.asarray(0, shifted.dtype))
    loss = log_sum - floor_shifted(jnp.sum(chosen, 1, keepdims=True))
    known = (label >= 0) & (label < line.length)
    loss = jnp.where(known, loss, np.asarray(np.nan, loss.dtype))
    return lax.exp(scores), jnp.where(label == ignore_index, np.asarray(0, loss.dtype), loss)


RULES: dict[type[PdOp], Callable[..., Any]] = {
    Mean: lambda x, line: line.mean(wide(x)),
    Sum: lambda x, line: line.sum(wide(x)),
    Max: lambda x, line: line.max(x),
    Min: lambda x, line: -line.max(-x),
    Softmax: _softmax,
    LogSoftmax: _log_softmax,
    LayerNorm: _layer_norm,
    CrossEntropyWithSoftmax: _cross_entropy,
    Expand: lambda x: x,
}
