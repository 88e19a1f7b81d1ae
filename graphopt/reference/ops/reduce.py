"""Reductions over axes, and running results along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import reduce as ops
from graphopt.reference.derivatives import hold, kept_shape, with_gradient
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array, value_of


def axes_of(x: Array, axis: Any) -> tuple[int, ...]:
    """Normalize the axes of an attribute; no axes mean all."""
    if not len(axis) or not x.ndim:
        return tuple(range(x.ndim))
    return tuple(sorted({a % x.ndim for a in axis}))


rule_each(
    {
        ops.Prod: lambda x, axis, keepdim: np.prod(x, axis=axes_of(x, axis), keepdims=keepdim),
        ops.All: lambda x, axis, keepdim: np.all(x, axis=axes_of(x, axis), keepdims=keepdim),
        ops.Any: lambda x, axis, keepdim: np.any(x, axis=axes_of(x, axis), keepdims=keepdim),
        ops.SquaredL2Norm: lambda x: np.reshape(np.sum(x * x), (1,)),
        ops.Numel: lambda x: np.asarray(x.size),
        ops.Cummax: lambda x, axis: _running(x, axis, np.greater_equal),
        ops.Cummin: lambda x, axis: _running(x, axis, np.less_equal),
    }
)


@rule(ops.Mean)
def mean(x: Array, axis: Any, keepdim: bool) -> Array:
    axes = axes_of(x, axis)
    count = math.prod(x.shape[a] for a in axes)
    return np.sum(x, axis=axes, keepdims=keepdim) / float(count)


@rule(ops.Sum)
def sum_(x: Array, axis: Any, keepdim: bool, dtypes: Any) -> Array:
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64 if dtypes[0].is_floating else dtypes[0].numpy)
    elif dtypes[0] == "bool" or not dtypes[0].is_differentiable:
        x = np.trunc(value_of(x)).astype(dtypes[0].numpy)
    return np.sum(x, axis=axes_of(x, axis), keepdims=keepdim, dtype=x.dtype)


def _ties_all(function: Any) -> Any:
    """Wrap an extreme so that its whole gradient goes to each element that is equal to it."""

    def whole(x: Array, axis: Any, keepdim: bool) -> Array:
        axes = axes_of(x, axis)
        full = kept_shape(x.shape, axes)
        out = function(value_of(x), axis=axes, keepdims=keepdim)
        equal = value_of(x) == np.reshape(out, full)
        return with_gradient(out, x, lambda g: np.where(equal, np.reshape(g, full), 0.0))

    return whole


def _ties_share(function: Any) -> Any:
    return lambda x, axis, keepdim: function(x, axis=axes_of(x, axis), keepdims=keepdim)


rule(ops.Max)(_ties_all(np.max))


rule(ops.Min)(_ties_all(np.min))


rule(ops.Amax)(_ties_share(np.max))


rule(ops.Amin)(_ties_share(np.min))


@rule(ops.Logsumexp)
def logsumexp(x: Array, axis: Any, keepdim: bool) -> Array:
    axes = axes_of(x, axis)
    top = np.max(hold(x), axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axes)


def _root(total: Array) -> Array:
    """Compute the square root; its derivative at 0 is 0, as in Paddle."""
    flat = np.asarray(value_of(total) == 0)
    return np.where(flat, 0.0, np.sqrt(np.where(flat, 1.0, total)))


@rule(ops.PNorm)
def p_norm(x: Array, axis: Any, keepdim: bool, porder: float) -> Array:
    axes = axes_of(x, axis)
    size = np.abs(x)
    if porder == math.inf:
        return np.max(size, axis=axes, keepdims=keepdim)
    if porder == -math.inf:
        return np.min(size, axis=axes, keepdims=keepdim)
    if porder == 0:
        return np.sum((value_of(x) != 0) * 1.0, axis=axes, keepdims=keepdim)
    if porder == 2:
        return _root(np.sum(x * x, axis=axes, keepdims=keepdim))
    return np.power(np.sum(np.power(size, porder), axis=axes, keepdims=keepdim), 1.0 / porder)


@rule(ops.ClipByNorm)
def clip_by_norm(x: Array, max_norm: float) -> Array:
    norm = _root(np.sum(x * x))
    above = np.asarray(value_of(norm) > max_norm)
    return np.where(above, x * (max_norm / np.where(above, norm, 1.0)), x)


def _where_first(x: Array, axis: int, keepdim: bool, flatten: bool, function: Any) -> Array:
    x = value_of(x)
    if flatten or not x.ndim:
        found = function(x.ravel())
        return np.reshape(found, (1,) * x.ndim) if keepdim else np.asarray(found)
    return function(x, axis=axis, keepdims=keepdim)


def _without_nan(x: Array, number: float) -> Array:
    """Replace NaN by a number, so that NaN is never first."""
    return np.where(np.isnan(x), number, x) if x.dtype.kind == "f" else x


@rule(ops.Argmax)
def argmax(x: Array, axis: int, keepdim: bool, flatten: bool) -> Array:
    return _where_first(_without_nan(x, -np.inf), axis, keepdim, flatten, np.argmax)


@rule(ops.Argmin)
def argmin(x: Array, axis: int, keepdim: bool, flatten: bool) -> Array:
    return _where_first(_without_nan(x, np.inf), axis, keepdim, flatten, np.argmin)


@rule(ops.Cumsum)
def cumsum(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    if flatten:
        x, axis = np.reshape(x, (-1,)), 0
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        axis %= x.ndim
        lead = (slice(None),) * axis
        x = np.concatenate([np.zeros_like(x[(*lead, slice(0, 1))]), x[(*lead, slice(0, -1))]], axis)
    total = np.cumsum(x, axis) + np.zeros((), x.dtype)  # a sum of -0 is 0
    return np.flip(total, axis) if reverse else total


@rule(ops.Cumprod)
def cumprod(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    axis %= x.ndim
    x = np.flip(x, axis) if reverse else x
    lead = (slice(None),) * axis
    parts = [
        np.prod(x[(*lead, slice(0, end if exclusive else end + 1))], axis=axis, keepdims=True)
        for end in range(x.shape[axis])
    ]
    total = np.concatenate(parts, axis) if parts else x
    return np.flip(total, axis) if reverse else total


def _running(x: Array, axis: int, wins: Any) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(value_of(x), axis, 0)
    places = np.zeros(rows.shape, np.int64)
    best = rows[:1].copy()
    for number in range(1, rows.shape[0]):
        new = rows[number]
        better = np.isnan(new) | (wins(new, best[0]) & ~np.isnan(best[0]))
        best[0] = np.where(better, new, best[0])
        places[number] = np.where(better, number, places[number - 1])
    where = np.moveaxis(places, 0, axis)
    return np.take_along_axis(x, where, axis), where


@rule(ops.Logcumsumexp)
def logcumsumexp(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    x = np.reshape(x, (-1,)) if flatten or not x.ndim else x
    rows = np.moveaxis(x, 0 if flatten else axis, 0)
    order = range(rows.shape[0])
    total: Array = np.full(rows.shape[1:], -np.inf)
    parts: list[Array] = []
    for number in reversed(order) if reverse else order:
        more = np.logaddexp(total, rows[number])
        parts.append(total if exclusive else more)
        total = more
    parts = parts[::-1] if reverse else parts
    return np.moveaxis(np.stack(parts), 0, 0 if flatten else axis) if parts else x
