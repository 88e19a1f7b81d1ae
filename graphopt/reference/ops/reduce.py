"""Reductions over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import reduce as ops
from graphopt.reference.derivatives import held, kept_shape, with_gradient
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, value_of


def axes_of(x: Array, axis: Any) -> tuple[int, ...]:
    """The axes that an attribute names, all for none."""
    if not len(axis) or not x.ndim:
        return tuple(range(x.ndim))
    return tuple(sorted({a % x.ndim for a in axis}))


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
    """An extreme whose gradient goes, undivided, to each element that is equal to it."""

    def whole(x: Array, axis: Any, keepdim: bool) -> Array:
        axes = axes_of(x, axis)
        full = kept_shape(x.shape, axes)
        out = function(value_of(x), axis=axes, keepdims=keepdim)
        equal = value_of(x) == np.reshape(out, full)
        return with_gradient(out, x, lambda g: np.reshape(g, full) * equal)

    return whole


def _ties_share(function: Any) -> Any:
    return lambda x, axis, keepdim: function(x, axis=axes_of(x, axis), keepdims=keepdim)


rule(ops.Max)(_ties_all(np.max))
rule(ops.Min)(_ties_all(np.min))
rule(ops.Amax)(_ties_share(np.max))
rule(ops.Amin)(_ties_share(np.min))


@rule(ops.Prod)
def prod(x: Array, axis: Any, keepdim: bool) -> Array:
    return np.prod(x, axis=axes_of(x, axis), keepdims=keepdim)


@rule(ops.All)
def all_(x: Array, axis: Any, keepdim: bool) -> Array:
    return np.all(x, axis=axes_of(x, axis), keepdims=keepdim)


@rule(ops.Any)
def any_(x: Array, axis: Any, keepdim: bool) -> Array:
    return np.any(x, axis=axes_of(x, axis), keepdims=keepdim)


@rule(ops.Logsumexp)
def logsumexp(x: Array, axis: Any, keepdim: bool) -> Array:
    axes = axes_of(x, axis)
    top = np.max(held(x), axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return total if keepdim else np.squeeze(total, axes)


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
        return np.sqrt(np.sum(x * x, axis=axes, keepdims=keepdim))
    return np.power(np.sum(np.power(size, porder), axis=axes, keepdims=keepdim), 1.0 / porder)


@rule(ops.SquaredL2Norm)
def squared_l2_norm(x: Array) -> Array:
    return np.reshape(np.sum(x * x), (1,))


@rule(ops.ClipByNorm)
def clip_by_norm(x: Array, max_norm: float) -> Array:
    norm = np.sqrt(np.sum(x * x))
    return np.where(norm > max_norm, x * (max_norm / norm), x)


@rule(ops.Numel)
def numel(x: Array) -> Array:
    return np.asarray(x.size)


def _where_first(x: Array, axis: int, keepdim: bool, flatten: bool, function: Any) -> Array:
    x = value_of(x)
    if flatten or not x.ndim:
        found = function(x.ravel())
        return np.reshape(found, (1,) * x.ndim) if keepdim else np.asarray(found)
    return function(x, axis=axis, keepdims=keepdim)


@rule(ops.Argmax)
def argmax(x: Array, axis: int, keepdim: bool, flatten: bool) -> Array:
    return _where_first(x, axis, keepdim, flatten, np.argmax)


@rule(ops.Argmin)
def argmin(x: Array, axis: int, keepdim: bool, flatten: bool) -> Array:
    return _where_first(x, axis, keepdim, flatten, np.argmin)
