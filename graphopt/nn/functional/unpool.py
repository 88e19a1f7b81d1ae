"""The inverses of pools that return indices, and pools of p-norms."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.nn.functional.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
from graphopt.tensor.manipulation import squeeze, unsqueeze
from graphopt.tensor.math import pow, scale


def _output_size(
    function: str,
    spatial: tuple[int, ...],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    output_size: Any,
) -> list[int]:
    """Return the requested spatial sizes, or by default sizes that pool to the ones of x."""
    sizes = zip(spatial, kernel, stride, padding, strict=True)
    default = [(size - 1) * step + width - 2 * pad for size, width, step, pad in sizes]
    if output_size is None:
        return default
    wanted = arguments.integers(output_size, "output_size", function)
    wanted = wanted[2:] if len(wanted) == len(spatial) + 2 else wanted
    if len(wanted) != len(spatial):
        raise ValueError(
            f"{function}(): 'output_size' should have {len(spatial)} numbers, found {output_size}"
        )
    for size, usual, step in zip(wanted, default, stride, strict=True):
        if not usual - step < size < usual + step:
            raise ValueError(
                f"{function}(): 'output_size' {wanted} should be less than the stride {stride} "
                f"away from {default}"
            )
    return wanted


def _unpool(
    function: str,
    x: Variable,
    indices: Variable,
    window: tuple[Any, Any, Any],
    output_size: Any,
    spatial: int,
    name: str | None,
) -> Variable:
    shape = arguments.variable(x, "x", function).shape
    arguments.variable(indices, "indices", function)
    if len(shape) != spatial + 2 or -1 in shape[2:]:
        raise ValueError(
            f"{function}(): 'x' should have rank {spatial + 2} and known sizes, found {list(shape)}"
        )
    kernel_size, stride, padding = window
    kernel = arguments.pair(kernel_size, "kernel_size", function, spatial)
    steps = kernel if stride is None else arguments.pair(stride, "stride", function, spatial)
    pads = arguments.pair(padding, "padding", function, spatial)
    sizes = _output_size(function, shape[2:], kernel, list(steps), pads, output_size)
    attrs = {
        "unpooling_type": "max",
        "ksize": kernel,
        "strides": list(steps),
        "paddings": pads,
        "output_size": sizes,
    }
    inputs, kind = {"X": x, "Indices": indices}, "unpool3d" if spatial == 3 else "unpool"
    return emit(kind, inputs, attrs, layer=function, name=name)


def max_unpool1d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCL",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Scatter x to the indices from max_pool1d in sequences, with zeros elsewhere.

    Paddle page: paddle.nn.functional.max_unpool1d.
    """
    function = "max_unpool1d"
    arguments.choice(data_format, "data_format", function, ("NCL",))
    kernel = arguments.pair(kernel_size, "kernel_size", function, 1)
    steps = kernel if stride is None else arguments.pair(stride, "stride", function, 1)
    window = ([1, *kernel], [1, *steps], [0, *arguments.pair(padding, "padding", function, 1)])
    arguments.variable(x, "x", function)
    arguments.variable(indices, "indices", function)
    if output_size is not None:
        wanted = arguments.integers(output_size, "output_size", function)
        output_size = [1, wanted[-1]]
    images = unsqueeze(x, [2]), unsqueeze(indices, [2])
    return squeeze(_unpool(function, *images, window, output_size, 2, None), [2], name)


def max_unpool2d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCHW",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Scatter x to the indices from max_pool2d in images, with zeros elsewhere.

    Paddle page: paddle.nn.functional.max_unpool2d.
    """
    function, window = "max_unpool2d", (kernel_size, stride, padding)
    arguments.choice(data_format, "data_format", function, ("NCHW",))
    return _unpool(function, x, indices, window, output_size, 2, name)


def max_unpool3d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCDHW",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """Scatter x to the indices from max_pool3d in volumes, with zeros elsewhere.

    Paddle page: paddle.nn.functional.max_unpool3d.
    """
    function, window = "max_unpool3d", (kernel_size, stride, padding)
    arguments.choice(data_format, "data_format", function, ("NCDHW",))
    return _unpool(function, x, indices, window, output_size, 3, name)


def lp_pool1d(
    x: Variable,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """Compute (sum of x ** norm_type) ** (1 / norm_type) over windows of sequences.

    An infinite type takes the maximum. Paddle page: paddle.nn.functional.lp_pool1d.
    """
    arguments.choice(data_format, "data_format", "lp_pool1d", ("NCL",))
    order = arguments.number(norm_type, "norm_type", "lp_pool1d")
    if math.isinf(order):
        return max_pool1d(x, kernel_size, stride, padding, False, ceil_mode, name)
    kernel = arguments.pair(kernel_size, "kernel_size", "lp_pool1d", 1)
    powers = pow(x, order)
    if ceil_mode:
        powers = _fill_windows("lp_pool1d", powers, kernel, stride, padding, False)
    average = avg_pool1d(powers, kernel, stride, padding, False)
    return _root(average, order, kernel[0], name)


def lp_pool2d(
    x: Variable,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Compute (sum of x ** norm_type) ** (1 / norm_type) over windows of images.

    An infinite type takes the maximum. Paddle page: paddle.nn.functional.lp_pool2d.
    """
    order = arguments.number(norm_type, "norm_type", "lp_pool2d")
    if math.isinf(order):
        out = max_pool2d(x, kernel_size, stride, padding, False, ceil_mode, data_format, name)
        assert isinstance(out, Variable)
        return out
    kernel = arguments.pair(kernel_size, "kernel_size", "lp_pool2d")
    arguments.at_least(1, kernel, "kernel_size", "lp_pool2d")
    window = (kernel, stride, padding, False, False, None, data_format)
    powers = pow(x, order)
    if ceil_mode:
        powers = _fill_windows("lp_pool2d", powers, kernel, stride, padding, data_format == "NHWC")
    return _root(avg_pool2d(powers, *window), order, kernel[0] * kernel[1], name)


def _fill_windows(
    function: str, x: Variable, kernel: list[int], stride: Any, padding: Any, last: bool
) -> Variable:
    """Pad x with zeros at the end until the last window is complete."""
    rank = len(kernel)
    sizes = x.shape[1:-1] if last else x.shape[2:]
    steps = kernel if stride is None else arguments.pair(stride, "stride", function, rank)
    pads = arguments.pair(padding, "padding", function, rank)
    if -1 in sizes:
        raise ValueError(f"{function}(): ceil_mode needs known sizes, found {list(x.shape)}")
    around = [0] * (2 * len(x.shape))
    for i, (size, width, step, edge) in enumerate(zip(sizes, kernel, steps, pads, strict=True)):
        missing = -(size + 2 * edge - width) % step
        around[2 * (i + (1 if last else 2)) + 1] = missing
    return emit("pad", {"X": x}, {"paddings": around, "pad_value": 0.0})


def _root(average: Variable, order: float, size: int, name: str | None) -> Variable:
    return pow(scale(average, float(size)), 1.0 / order, name)
