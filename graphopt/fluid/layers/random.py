"""Random tensors with the arguments of 1.8 (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.fluid.layers.tensor import like_batch
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import sizes
from graphopt.ir.program import Variable, default_main_program
from graphopt.tensor.logic import less_equal
from graphopt.tensor.manipulation import cast, gather
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, cumsum, scale, sum
from graphopt.tensor.random import gaussian, uniform
from graphopt.tensor.ranges import arange


def _common(type: str, dtype: Any, seed: int) -> dict[str, Any]:
    """Build the keyword arguments of a draw; raise TypeError unless the dtype is floating-point."""
    given = arguments.integer(seed, "seed", type)
    element = arguments.dtype(dtype, "dtype", type)
    if not element.is_floating:
        raise TypeError(f"{type}(): 'dtype' must be floating-point, found {element}")
    return {"dtype": element.code, "seed": given or default_main_program().random_seed}


def _draw(type: str, shape: Any, dtype: Any, seed: int, name: str | None, **attrs: Any) -> Variable:
    common = _common(type, dtype, seed)
    dims = sizes(shape, "shape", type, "ShapeTensor", "ShapeTensorList")
    if not dims.inputs and (not dims.value or min(dims.value) < 1):
        raise ValueError(
            f"{type}(): the dimensions of 'shape' should be above 0, found {dims.value}"
        )
    return emit(type, dims.inputs, {**common, "shape": dims.value, **attrs}, name=name)


def _runs(shape: Any) -> bool:
    """True for a shape with a Variable, which is known only when the program runs."""
    return isinstance(shape, Variable) or any(isinstance(size, Variable) for size in shape)


def uniform_random(
    shape: Any,
    dtype: Any = "float32",
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Draw uniform numbers from [min, max) (fluid.layers.uniform_random).

    Dimensions may be Variables.
    """
    low, high = (
        arguments.number(value, what, "uniform_random")
        for what, value in (("min", min), ("max", max))
    )
    if _runs(shape):
        return uniform(shape, dtype, low, high, seed, name)
    return _draw("uniform_random", shape, dtype, seed, name, min=low, max=high)


def gaussian_random(
    shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Draw normal numbers with a mean and a standard deviation (fluid.layers.gaussian_random).

    Dimensions may be Variables.
    """
    centre = arguments.number(mean, "mean", "gaussian_random")
    spread = arguments.number(std, "std", "gaussian_random")
    if _runs(shape):
        return gaussian(shape, centre, spread, seed, dtype, name)
    return _draw("gaussian_random", shape, dtype, seed, name, mean=centre, std=spread)


def _draw_like(
    type: str,
    input: Variable,
    shape: Any,
    axes: tuple[int, int],
    dtype: Any,
    seed: int,
    **attrs: Any,
) -> Variable:
    """Draw as `_draw`; dimension `axes[1]` has the size of the input's `axes[0]` at run time."""
    sizes = like_batch(input, shape, *axes, f"{type}_batch_size_like")
    if min(sizes, default=1) > 0:
        return _draw(type, sizes, dtype, seed, None, **attrs)
    places = {"shape": sizes, "input_dim_idx": axes[0], "output_dim_idx": axes[1]}
    values = {**_common(type, dtype, seed), **places, **attrs}
    return emit(f"{type}_batch_size_like", {"Input": input}, values)


def uniform_random_batch_size_like(
    input: Variable,
    shape: Any,
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Variable:
    """Draw as `uniform_random`, with one dimension as large as one of the input.

    Paddle page: fluid.layers.uniform_random_batch_size_like.
    """
    axes = input_dim_idx, output_dim_idx
    return _draw_like("uniform_random", input, shape, axes, dtype, seed, min=min, max=max)


def gaussian_random_batch_size_like(
    input: Variable,
    shape: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
) -> Variable:
    """Draw as `gaussian_random`, with one dimension as large as one of the input.

    Paddle page: fluid.layers.gaussian_random_batch_size_like.
    """
    axes = input_dim_idx, output_dim_idx
    return _draw_like("gaussian_random", input, shape, axes, dtype, seed, mean=mean, std=std)


@one_layer("sampling_id")
def sampling_id(
    x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "float32"
) -> Variable:
    """Draw a class from each row of probabilities [n, c], int64 [n].

    The draw is the first class at which the cumulative sum exceeds a uniform number from [min,
    max). `dtype` has no effect. Paddle page: fluid.layers.sampling_id.
    """
    arguments.variable(x, "x", "sampling_id")
    level = uniform_random_batch_size_like(x, [-1, 1], x.dtype, min=min, max=max, seed=seed)
    passed = cast(less_equal(cumsum(x, 1), level), "int64")
    # rounding may leave the last sum below 1
    kept = slice_(passed, [1], [0], [x.shape[1] - 1])
    drawn = sum(kept, 1)
    drawn.stop_gradient = True
    return drawn


def random_crop(x: Variable, shape: Any, seed: Any = None) -> Variable:
    """Crop a block of `shape` from the last dimensions of x, at a random place (random_crop).

    The place is drawn once for all instances in the leading dimensions.
    """
    have = arguments.variable(x, "x", "random_crop").shape
    wanted = arguments.shape(shape, "random_crop")
    first = len(have) - len(wanted)
    sizes = list(have[first:])
    if min(sizes, default=1) < 0:
        raise UnsupportedError(
            f"random_crop(): the dimensions {sizes} must be known when the program is built; "
            "declare them, or crop outside and feed it"
        )
    if first < 0 or any(not 0 < w <= h for w, h in zip(wanted, sizes, strict=True)):
        raise ValueError(f"random_crop(): a block {wanted} does not fit into {list(have)}")
    number = seed if isinstance(seed, int) else 0
    for axis, (size, part) in enumerate(zip(sizes, wanted, strict=True), start=first):
        if size > part:
            x = _cut(x, axis, size, part, number)
    return x


def _cut(x: Variable, axis: int, size: int, part: int, seed: int) -> Variable:
    """Gather `part` consecutive elements of an axis from a random one on."""
    level = uniform_random([1], "float32", 0.0, 1.0, seed)
    start = cast(scale(level, float(size - part + 1)), "int64")
    return gather(x, add(arange(0, part, 1, "int64"), start), axis)
