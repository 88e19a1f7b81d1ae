"""Names that Paddle 3 adopted from other libraries, for functions that it already had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.program import Variable
from graphopt.tensor import activation
from graphopt.tensor.complexes import as_complex, as_real
from graphopt.tensor.data_sized import nonzero
from graphopt.tensor.linalg import bmm, transpose
from graphopt.tensor.logic import bitwise_not
from graphopt.tensor.manipulation import reshape, slice
from graphopt.tensor.math import add, as_float, divide, scale, sum
from graphopt.tensor.positions import put_along_axis
from graphopt.tensor.random import rand, randn
from graphopt.tensor.ranges import arange
from graphopt.tensor.rearrange import swapaxes
from graphopt.tensor.search import sort

bitwise_invert = bitwise_not
sigmoid = activation.sigmoid
swapdims = swapaxes
view_as_complex = as_complex
view_as_real = as_real


def true_divide(
    x: Variable, y: Variable, name: str | None = None, *, rounding_mode: str | None = None
) -> Variable:
    """Compute x / y; unlike `divide`, integers give float32 (paddle.true_divide, paddle.div).

    With a rounding mode it is `divide`.
    """
    if rounding_mode is not None:
        return divide(x, y, name, rounding_mode=rounding_mode)
    return divide(as_float(x, "true_divide"), as_float(y, "true_divide"), name)


def argwhere(input: Variable) -> Variable:
    """Find the indices of the elements other than 0, one row each (paddle.argwhere)."""
    found = nonzero(input)
    assert isinstance(found, Variable)
    return found


def permute(input: Variable, *dims: Any) -> Variable:
    """Permute the axes to an order, a list or separate arguments (paddle.permute)."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    return transpose(input, list(order))


def matrix_transpose(x: Variable, name: str | None = None) -> Variable:
    """Exchange the last two axes (paddle.matrix_transpose).

    Raises ValueError for fewer than two axes.
    """
    rank = len(arguments.variable(x, "x", "matrix_transpose").shape)
    if rank < 2:
        raise ValueError(f"matrix_transpose(): 'x' should have 2 axes or more, found {rank}")
    return swapaxes(x, -1, -2, name)


def ravel(input: Variable) -> Variable:
    """Flatten the elements to one vector (paddle.ravel)."""
    return reshape(arguments.variable(input, "input", "ravel"), [-1])


def msort(input: Variable) -> Variable:
    """Sort a tensor along its first axis (paddle.msort)."""
    return sort(input, 0)


def narrow(input: Variable, dim: int, start: int, length: int) -> Variable:
    """Slice `length` elements from `start` on along one axis (paddle.narrow).

    Raises ValueError when they are outside a known size.
    """
    function = "narrow"
    arguments.variable(input, "input", function)
    axis = arguments.integer(dim, "dim", function)
    first = arguments.integer(start, "start", function)
    count = arguments.integer(length, "length", function)
    size = input.shape[axis]
    if first < 0:
        first += size
    if count < 0 or first < 0 or -1 < size < first + count:
        raise ValueError(f"narrow(): {count} elements from {start} are not in an axis of {size}")
    return slice(input, [axis], [first], [first + count])


def softmax(input: Variable, dim: int | None = None, dtype: Any = None) -> Variable:
    """Compute the softmax along an axis (paddle.softmax).

    Without `dim`, that is the first axis for a rank of 0, 1 or 3, else the second.
    """
    rank = len(arguments.variable(input, "input", "softmax").shape)
    axis = dim if dim is not None else 0 if rank in (0, 1, 3) else 1
    return activation.softmax(input, axis, dtype)


def range(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None
) -> Variable:
    """Create numbers from start to end, both included (paddle.range); `range(n)` starts at 0.

    `dtype` is by default the default dtype.
    """
    if end is None:
        start, end = 0, start
    low, high, by = (
        arguments.number(value, what, "range")
        for what, value in (("start", start), ("end", end), ("step", step))
    )
    if by == 0 or (high - low) / by < 0:
        raise ValueError(f"range(): steps of {by} do not lead from {low} to {high}")
    count = int((high - low) / by) + 1
    return arange(low, low + count * by, by, dtype or get_default_dtype(), name)


def rand_like(input: Variable, name: str | None = None, *, dtype: Any = None) -> Variable:
    """Draw uniform numbers from [0, 1) in the shape of another tensor (paddle.rand_like)."""
    like = arguments.variable(input, "input", "rand_like")
    return rand(_sizes(like), dtype or like.dtype, name)


def randn_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Draw standard normal numbers in the shape of another tensor (paddle.randn_like)."""
    like = arguments.variable(x, "x", "randn_like")
    return randn(_sizes(like), dtype or like.dtype, name)


def _sizes(like: Variable) -> Any:
    """Return the sizes of a tensor, as a tensor if the run decides one of them."""
    from graphopt.tensor.attribute import shape

    return shape(like) if -1 in like.shape else list(like.shape)


def broadcast_shapes(*shapes: Sequence[int]) -> list[int]:
    """Compute the shape that tensors of these shapes broadcast to (paddle.broadcast_shapes).

    Raises ValueError when they do not fit.
    """
    return list(np.broadcast_shapes(*(tuple(shape) for shape in shapes)))


def baddbmm(
    input: Variable,
    x: Variable,
    y: Variable,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Compute beta * input + alpha * (x @ y) for each matrix of a batch (paddle.baddbmm)."""
    product = scale(bmm(x, y), arguments.number(alpha, "alpha", "baddbmm"))
    return add(scale(input, arguments.number(beta, "beta", "baddbmm")), product, name)


def scatter_add(input: Variable, dim: int, index: Variable, src: Variable) -> Variable:
    """Add elements to a tensor by their index along an axis (paddle.scatter_add)."""
    return put_along_axis(input, index, src, dim, "add", True, False)


_REDUCTIONS = {"sum": "add", "prod": "multiply", "mean": "mean", "amin": "amin", "amax": "amax"}


def scatter_reduce(
    input: Variable,
    dim: int,
    index: Variable,
    src: Variable,
    reduce: str,
    *,
    include_self: bool = True,
) -> Variable:
    """Combine elements with a tensor by their index along an axis (paddle.scatter_reduce)."""
    kind = arguments.choice(reduce, "reduce", "scatter_reduce", tuple(_REDUCTIONS))
    return put_along_axis(input, index, src, dim, _REDUCTIONS[kind], include_self, False)


def reduce_as(x: Variable, target: Variable, name: str | None = None) -> Variable:
    """Sum x over the axes along which `target` would broadcast to it (paddle.reduce_as)."""
    wanted = arguments.variable(target, "target", "reduce_as").shape
    rank = len(arguments.variable(x, "x", "reduce_as").shape)
    if -1 in wanted:
        return emit("reduce_as", {"x": x, "target": target}, name=name, out="out")
    outer = [*np.arange(rank - len(wanted)).tolist()]
    inner = [len(outer) + i for i, size in enumerate(wanted) if size == 1]
    added = sum(x, inner, keepdim=True) if inner else x
    return sum(added, outer, name=name) if outer else added
