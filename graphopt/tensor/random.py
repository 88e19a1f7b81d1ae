"""Tensors of random numbers (paddle.*).

With a `seed` other than 0, every run gives the same numbers; otherwise they come from the
generator that `paddle.seed` sets. `Program.random_seed` counts for initializers and dropout only.
"""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.mode import get_default_dtype
from graphopt.frontend.sizes import sizes
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import add, exp, multiply, scale


def _float_dtype(dtype: Any, function: str) -> DType:
    found = get_default_dtype() if dtype is None else arguments.dtype(dtype, "dtype", function)
    if not found.is_floating:
        raise TypeError(
            f"{function}(): the argument 'dtype' must be a floating-point type, found {found}"
        )
    return found


def _draw(
    type: str, function: str, shape: Any, dtype: Any, name: str | None, seed: int, **attrs: Any
) -> Variable:
    helper = LayerHelper(function, name)
    dims = sizes(shape, "shape", function, "ShapeTensor", "ShapeTensorList")
    attributes = {
        "shape": dims.value,
        "dtype": _float_dtype(dtype, function).code,
        "seed": arguments.integer(seed, "seed", function),
        **attrs,
    }
    return helper.emit(type, dims.inputs, attributes, stop_gradient=True)


def uniform(
    shape: Any,
    dtype: Any = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Draw uniform numbers from [min, max) (paddle.uniform). Dimensions may be Variables."""
    low, high = arguments.number(min, "min", "uniform"), arguments.number(max, "max", "uniform")
    return _draw("uniform_random", "uniform", shape, dtype, name, seed, min=low, max=high)


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Draw uniform numbers from [0, 1) (paddle.rand)."""
    return uniform(shape, dtype, 0.0, 1.0, name=name)


def gaussian(
    shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """Draw normal numbers with this mean and standard deviation (paddle.tensor.random.gaussian)."""
    center = arguments.number(mean, "mean", "gaussian")
    spread = arguments.number(std, "std", "gaussian")
    return _draw("gaussian_random", "gaussian", shape, dtype, name, seed, mean=center, std=spread)


def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Draw numbers of the standard normal distribution (paddle.randn)."""
    return gaussian(shape, dtype=dtype, name=name)


def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Draw numbers of the standard normal distribution (paddle.standard_normal)."""
    return gaussian(shape, dtype=dtype, name=name)


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Variable:
    """Draw normal numbers; `mean` and `std` are numbers, or Variables of the result's shape.

    `shape` is needed when both are numbers. Paddle page: paddle.normal.
    """
    if isinstance(mean, Variable):
        noise = standard_normal(mean.shape, mean.dtype)
        spread = multiply(noise, std) if isinstance(std, Variable) else scale(noise, std)
        return add(spread, mean, name)
    if isinstance(std, Variable):
        return scale(multiply(standard_normal(std.shape, std.dtype), std), 1.0, mean, name=name)
    if shape is None:
        raise ValueError("normal(): 'shape' is needed when 'mean' and 'std' are numbers")
    return gaussian(shape, mean, std, name=name)


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Any = (1,),
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """Draw integers from [low, high); `randint(n)` starts at 0 (paddle.randint).

    Raises ValueError unless low < high.
    """
    return integers_between(low, high, shape, dtype, name)


def integers_between(
    low: int, high: int | None, shape: Any, dtype: Any, name: str | None, seed: int = 0
) -> Variable:
    """Draw integers as `randint` does; a `seed` other than 0 fixes the numbers of every run."""
    first = arguments.integer(low, "low", "randint")
    bounds = (0, first) if high is None else (first, arguments.integer(high, "high", "randint"))
    if bounds[0] >= bounds[1]:
        raise ValueError(f"randint's low must less then high, but received {bounds}")
    dims = sizes(shape, "shape", "randint", "ShapeTensor", "ShapeTensorList")
    attrs = {
        "shape": dims.value,
        "low": bounds[0],
        "high": bounds[1],
        "seed": arguments.integer(seed, "seed", "randint"),
        "dtype": arguments.dtype(dtype or "int64", "dtype", "randint").code,
    }
    return emit("randint", dims.inputs, attrs, name=name, stop_gradient=True)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Variable:
    """Shuffle the integers below n (paddle.randperm). Raises ValueError for n below 1."""
    count = arguments.integer(n, "n", "randperm")
    if count < 1:
        raise ValueError(f"randperm(): 'n' should be greater than 0, found {count}")
    code = arguments.dtype(dtype, "dtype", "randperm").code
    return emit("randperm", {}, {"n": count, "dtype": code, "seed": 0}, stop_gradient=True)


def bernoulli(x: Variable, name: str | None = None) -> Variable:
    """Draw 1 with probability x, else 0 (paddle.bernoulli)."""
    arguments.variable(x, "x", "bernoulli")
    return emit("bernoulli", {"X": x}, name=name, stop_gradient=True)


def multinomial(
    x: Variable, num_samples: int = 1, replacement: bool = False, name: str | None = None
) -> Variable:
    """Draw class indices by the weights in the last axis, int64 (paddle.multinomial)."""
    arguments.variable(x, "x", "multinomial")
    attrs = {
        "num_samples": arguments.integer(num_samples, "num_samples", "multinomial"),
        "replacement": arguments.flag(replacement, "replacement", "multinomial"),
    }
    return emit("multinomial", {"X": x}, attrs, name=name, stop_gradient=True)


def poisson(x: Variable, name: str | None = None) -> Variable:
    """Draw counts of the Poisson distribution with rates x, in the dtype of x (paddle.poisson)."""
    inputs = {"X": arguments.variable(x, "x", "poisson")}
    return emit("poisson", inputs, name=name, stop_gradient=True)


def standard_gamma(x: Variable, name: str | None = None) -> Variable:
    """Draw numbers of the gamma distribution with shapes x and rate 1 (paddle.standard_gamma)."""
    inputs = {"x": arguments.variable(x, "x", "standard_gamma")}
    return emit("standard_gamma", inputs, name=name, out="out", stop_gradient=True)


def binomial(count: Variable, prob: Variable, name: str | None = None) -> Variable:
    """Draw the number of successes in `count` tries of probability `prob`, int64 (binomial)."""
    inputs = {
        "count": arguments.variable(count, "count", "binomial"),
        "prob": arguments.variable(prob, "prob", "binomial"),
    }
    return emit("binomial", inputs, name=name, out="out", stop_gradient=True)


def log_normal(
    mean: Any = 1.0, std: Any = 2.0, shape: Any = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Draw exp of normal numbers with this mean and standard deviation (paddle.log_normal)."""
    if dtype is not None and not isinstance(mean, Variable) and not isinstance(std, Variable):
        return exp(gaussian(shape if shape is not None else [], mean, std, dtype=dtype), name)
    return exp(normal(mean, std, shape), name)


def randint_like(
    x: Variable,
    low: int = 0,
    high: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """Draw integers from [low, high) in the shape of x (paddle.randint_like).

    Without `dtype` they have the dtype of x. All sizes of x must be known.
    """
    shape = list(arguments.variable(x, "x", "randint_like").shape)
    target = x.dtype if dtype is None else arguments.dtype(dtype, "dtype", "randint_like")
    made = cast(randint(low, high, shape, "int64", name), target)
    made.stop_gradient = True
    return made


lazy.join_package(globals())
