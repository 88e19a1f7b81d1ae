"""Reductions, whose results have at least one dimension (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import vector
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable


def _reduce(
    type: str, input: Any, dim: Any, keep_dim: bool, name: str | None, **attrs: Any
) -> Variable:
    x = arguments.variable(input, "input", type)
    dims = arguments.axes(dim, type, "dim")
    keep = arguments.flag(keep_dim, "keep_dim", type)
    # a full reduction has shape [1], as if an axis of size 1 were kept
    whole = not dims or len({d % max(len(x.shape), 1) for d in dims}) == len(x.shape)
    shared = {"dim": dims or [0], "keep_dim": keep, "reduce_all": whole}
    return vector(emit(type, {"X": x}, {**shared, **attrs}, name=name))


@one_layer("reduce_sum")
def reduce_sum(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Sum over `dim`, by default all axes, in the dtype of the input (fluid.layers.reduce_sum)."""
    code = arguments.variable(input, "input", "reduce_sum").dtype.code
    return _reduce("reduce_sum", input, dim, keep_dim, name, in_dtype=code, out_dtype=code)


@one_layer("reduce_mean")
def reduce_mean(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Compute the mean over `dim`, by default all axes (fluid.layers.reduce_mean)."""
    return _reduce("reduce_mean", input, dim, keep_dim, name)


@one_layer("reduce_max")
def reduce_max(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Compute the maximum over `dim`, by default all axes (fluid.layers.reduce_max)."""
    return _reduce("reduce_max", input, dim, keep_dim, name)


@one_layer("reduce_min")
def reduce_min(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Compute the minimum over `dim`, by default all axes (fluid.layers.reduce_min)."""
    return _reduce("reduce_min", input, dim, keep_dim, name)


@one_layer("reduce_prod")
def reduce_prod(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Compute the product over `dim`, by default all axes (fluid.layers.reduce_prod)."""
    return _reduce("reduce_prod", input, dim, keep_dim, name)


@one_layer("reduce_all")
def reduce_all(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Test whether every element over `dim` is true (fluid.layers.reduce_all)."""
    return _reduce("reduce_all", input, dim, keep_dim, name)


@one_layer("reduce_any")
def reduce_any(
    input: Variable, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> Variable:
    """Test whether any element over `dim` is true (fluid.layers.reduce_any)."""
    return _reduce("reduce_any", input, dim, keep_dim, name)


@one_layer("mean")
def mean(x: Variable, name: str | None = None) -> Variable:
    """Compute the mean of all elements, of shape [1] (fluid.layers.mean)."""
    return vector(emit("mean", {"X": arguments.variable(x, "x", "mean")}, name=name))


def _test(type: str, x: Any) -> Variable:
    x = arguments.variable(x, "x", type)
    return emit(type, {"X": x}, stop_gradient=True)


def isfinite(x: Variable) -> Variable:
    """Test whether all elements are finite, bool of shape [1] (fluid.layers.isfinite)."""
    return _test("isfinite", x)


def has_inf(x: Variable) -> Variable:
    """Test whether any element is infinite, bool of shape [1] (fluid.layers.has_inf)."""
    return _test("isinf", x)


def has_nan(x: Variable) -> Variable:
    """Test whether any element is nan, bool of shape [1] (fluid.layers.has_nan)."""
    return _test("isnan", x)
