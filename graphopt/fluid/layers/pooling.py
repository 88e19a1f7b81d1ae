"""Pools with the arguments of 1.8 (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.nn.functional.window import is_channels_last, padding_attrs

_KINDS = ("max", "avg")


def _pool(
    input: Any,
    kind: str,
    sizes: tuple[Any, Any, Any],
    whole: tuple[bool, bool, bool],
    use_cudnn: Any,
    name: str | None,
    formats: tuple[str, str],
    data_format: str,
) -> Variable:
    spatial = len(formats[0]) - 2
    function = f"pool{spatial}d"
    (size, stride, padding), (global_pooling, ceil_mode, exclusive) = sizes, whole
    arguments.variable(input, "input", function)
    arguments.flag(use_cudnn, "use_cudnn", function)
    last = is_channels_last(data_format, function, formats)
    if not arguments.flag(global_pooling, "global_pooling", function) and size == -1:
        raise ValueError(f"{function}(): 'pool_size' must be set unless 'global_pooling' is True")
    if ceil_mode and isinstance(padding, str) and padding.upper() == "VALID":
        raise ValueError(
            f"{function}(): 'ceil_mode' adds windows at the end, which 'pool_padding' \"VALID\" "
            "leaves out; set 'ceil_mode' to False, or give numbers for the padding"
        )
    attrs = {
        "pooling_type": arguments.choice(kind, "pool_type", function, _KINDS),
        "ksize": arguments.pair(size, "pool_size", function, spatial),
        "strides": arguments.pair(stride, "pool_stride", function, spatial),
        "global_pooling": global_pooling,
        "ceil_mode": arguments.flag(ceil_mode, "ceil_mode", function),
        "exclusive": arguments.flag(exclusive, "exclusive", function),
        "data_format": data_format,
        **padding_attrs(padding, spatial, last, function),
    }
    return emit(function, {"X": input}, attrs, name=name)


def pool2d(
    input: Variable,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Pool windows of images by the maximum or average (fluid.layers.pool2d).

    The stride is 1 by default. `global_pooling` takes the whole image, whatever the size, stride
    and padding. With `exclusive` padding does not count in averages. `use_cudnn` has no effect.
    """
    sizes, whole = (pool_size, pool_stride, pool_padding), (global_pooling, ceil_mode, exclusive)
    return _pool(input, pool_type, sizes, whole, use_cudnn, name, ("NCHW", "NHWC"), data_format)


def pool3d(
    input: Variable,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """Pool windows of volumes by the maximum or average; see `pool2d` (fluid.layers.pool3d)."""
    sizes, whole = (pool_size, pool_stride, pool_padding), (global_pooling, ceil_mode, exclusive)
    return _pool(input, pool_type, sizes, whole, use_cudnn, name, ("NCDHW", "NDHWC"), data_format)


def _adaptive(
    input: Any, pool_size: Any, kind: str, require_index: bool, name: str | None, spatial: int
) -> Variable:
    function = f"adaptive_pool{spatial}d"
    arguments.variable(input, "input", function)
    if arguments.flag(require_index, "require_index", function):
        raise UnsupportedError(f"{function}(require_index=True) is not supported")
    attrs = {
        "pooling_type": arguments.choice(kind, "pool_type", function, _KINDS),
        "ksize": arguments.pair(pool_size, "pool_size", function, spatial),
        "adaptive": True,
    }
    return emit(f"pool{spatial}d", {"X": input}, attrs, layer=f"pool{spatial}d", name=name)


def adaptive_pool2d(
    input: Variable,
    pool_size: Any,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Variable:
    """Pool images to as many windows as `pool_size` (fluid.layers.adaptive_pool2d).

    Raises UnsupportedError for `require_index`.
    """
    return _adaptive(input, pool_size, pool_type, require_index, name, 2)


def adaptive_pool3d(
    input: Variable,
    pool_size: Any,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Variable:
    """Pool volumes to as many windows as `pool_size` (fluid.layers.adaptive_pool3d).

    Raises UnsupportedError for `require_index`.
    """
    return _adaptive(input, pool_size, pool_type, require_index, name, 3)
