"""Maxima and averages over windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.nn.functional.window import is_channels_last, padding_attrs
from graphopt.tensor.manipulation import squeeze, unsqueeze
from graphopt.tensor.math import scale


def indexed_pool(
    x: Any, function: str, attrs: dict[str, Any], name: str | None
) -> tuple[Variable, Variable]:
    """Pool images or volumes with channels second; return the maxima and their int32 indices."""
    arguments.variable(x, "x", function)
    kind = f"max_pool{len(attrs['ksize'])}d_with_index"
    helper = LayerHelper(function, name)
    shared = {"global_pooling": False}
    out, mask = helper.emit_all(kind, {"X": x}, {**shared, **attrs}, ("Out", "Mask"))
    mask.stop_gradient = True
    return out, mask


def check_layout(data_format: str, function: str) -> None:
    """Raise ValueError unless the channels are second."""
    if not data_format.startswith("NC"):
        raise ValueError(
            f"{function}(): return_mask=True needs channels second, but received {data_format}"
        )


def _of_rows(window: dict[str, Any]) -> dict[str, Any]:
    """Convert the windows of sequences to windows of images of height 1."""
    wide = {key: [1, *window[key]] for key in ("ksize", "strides") if key in window}
    if "paddings" in window:
        wide["paddings"] = [*[0] * len(window["paddings"]), *window["paddings"]]
    return {**window, **wide}


def indexed_pool1d(
    x: Any, function: str, window: dict[str, Any], name: str | None
) -> tuple[Variable, Variable]:
    """Pool sequences, as images of height 1."""
    arguments.variable(x, "x", function)
    out, mask = indexed_pool(unsqueeze(x, [2]), function, _of_rows(window), name)
    places = squeeze(mask, [2])
    places.stop_gradient = True
    return squeeze(out, [2]), places


_IMAGES = ("NCHW", "NHWC")
_VOLUMES = ("NCDHW", "NDHWC")


def _pool(x: Any, function: str, kind: str, name: str | None, **attrs: Any) -> Variable:
    shared = {"pooling_type": kind, "global_pooling": False, "use_cudnn": True}
    arguments.variable(x, "x", function)
    type = f"pool{len(attrs['ksize'])}d"
    return emit(type, {"X": x}, {**shared, **attrs}, layer=type, name=name)


def _window(
    function: str,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    spatial: int,
    last: bool,
) -> dict[str, Any]:
    """Compute the attributes of a window; its stride is by default its kernel."""
    kernel = arguments.pair(kernel_size, "kernel_size", function, spatial)
    strides = kernel if stride is None else arguments.pair(stride, "stride", function, spatial)
    ceil = arguments.flag(ceil_mode, "ceil_mode", function)
    window = padding_attrs(padding, spatial, last, function)
    if window["padding_algorithm"] == "VALID" and ceil:
        raise ValueError(f"{function}(): ceil_mode must be False with padding='VALID'")
    return {"ksize": kernel, "strides": list(strides), "ceil_mode": ceil, **window}


def max_pool2d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Take the maximum of each window of images [n, c, h, w] (nn.functional.max_pool2d).

    With `return_mask` the int32 indices of the maxima in h * w come second.
    """
    last = is_channels_last(data_format, "max_pool2d", _IMAGES)
    window = _window("max_pool2d", kernel_size, stride, padding, ceil_mode, 2, last)
    if return_mask:
        check_layout(data_format, "max_pool2d")
        return indexed_pool(x, "max_pool2d", window, name)
    return _pool(x, "max_pool2d", "max", name, data_format=data_format, **window)


def avg_pool2d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Average each window of images (paddle.nn.functional.avg_pool2d).

    With `exclusive` padding does not count. `divisor_override` divides by another number than the
    size of the window.
    """
    formats, window = _IMAGES, (kernel_size, stride, padding, ceil_mode)
    divisor = divisor_override
    return _average(x, "avg_pool2d", formats, window, exclusive, divisor, data_format, name)


def max_pool3d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """Take the maximum of each window of volumes [n, c, d, h, w] (nn.functional.max_pool3d)."""
    last = is_channels_last(data_format, "max_pool3d", _VOLUMES)
    window = _window("max_pool3d", kernel_size, stride, padding, ceil_mode, 3, last)
    if return_mask:
        check_layout(data_format, "max_pool3d")
        return indexed_pool(x, "max_pool3d", window, name)
    return _pool(x, "max_pool3d", "max", name, data_format=data_format, **window)


def avg_pool3d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Average each window of volumes; see `avg_pool2d` (nn.functional.avg_pool3d)."""
    formats, window = _VOLUMES, (kernel_size, stride, padding, ceil_mode)
    divisor = divisor_override
    return _average(x, "avg_pool3d", formats, window, exclusive, divisor, data_format, name)


def _average(
    x: Any,
    function: str,
    formats: tuple[str, str],
    given: tuple[Any, Any, Any, bool],
    exclusive: bool,
    divisor: float | None,
    data_format: str,
    name: str | None,
) -> Variable:
    last = is_channels_last(data_format, function, formats)
    window = _window(function, *given, len(data_format) - 2, last)
    exclusive = arguments.flag(exclusive, "exclusive", function)
    out = _pool(x, function, "avg", name, exclusive=exclusive, data_format=data_format, **window)
    if divisor is None:
        return out
    size = math.prod(window["ksize"])
    return scale(out, size / arguments.number(divisor, "divisor_override", function))


def _pool1d(
    x: Any,
    function: str,
    kind: str,
    window: dict[str, Any],
    name: str | None,
    **attrs: Any,
) -> Variable:
    """Pool a sequence as images of height 1."""
    arguments.variable(x, "x", function)
    image, wide = unsqueeze(x, [2]), {**_of_rows(window), **attrs}
    return squeeze(_pool(image, function, kind, name, **wide, data_format="NCHW"), [2])


def max_pool1d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """Take the maximum of each window of sequences [n, c, l] (nn.functional.max_pool1d)."""
    window = _window("max_pool1d", kernel_size, stride, padding, ceil_mode, 1, False)
    if return_mask:
        return indexed_pool1d(x, "max_pool1d", window, name)
    return _pool1d(x, "max_pool1d", "max", window, name)


def avg_pool1d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """Average each window of sequences [n, c, l] (paddle.nn.functional.avg_pool1d)."""
    window = _window("avg_pool1d", kernel_size, stride, padding, ceil_mode, 1, False)
    exclusive = arguments.flag(exclusive, "exclusive", "avg_pool1d")
    return _pool1d(x, "avg_pool1d", "avg", window, name, exclusive=exclusive)


def _adaptive(
    x: Any,
    output_size: Any,
    data_format: str,
    function: str,
    kind: str,
    formats: tuple[str, str] = _IMAGES,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    last, rank = is_channels_last(data_format, function, formats), len(data_format) - 2
    shape = arguments.variable(x, "x", function).shape
    spatial = shape[1:-1] if last else shape[2:]
    given = arguments.constant(output_size, "output_size", function)
    several = isinstance(given, (list, tuple)) or np.size(given) > 1
    sizes = list(given) if several else [given] * rank
    kept = [own if size is None else size for size, own in zip(sizes, spatial, strict=False)]
    kernel = arguments.pair(kept, "output_size", function, rank)
    asked = [size for size, given in zip(kernel, sizes, strict=True) if given is not None]
    arguments.at_least(1, asked, "output_size", function)
    if return_mask:
        return indexed_pool(x, function, {"ksize": kernel, "adaptive": True}, name)
    return _pool(x, function, kind, name, ksize=kernel, adaptive=True, data_format=data_format)


def adaptive_avg_pool3d(
    x: Variable, output_size: Any, data_format: str = "NCDHW", name: str | None = None
) -> Variable:
    """Average `output_size` windows of volumes (nn.functional.adaptive_avg_pool3d)."""
    return _adaptive(x, output_size, data_format, "adaptive_avg_pool3d", "avg", _VOLUMES)


def adaptive_max_pool3d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """Take maxima of `output_size` windows of volumes (functional.adaptive_max_pool3d)."""
    function = "adaptive_max_pool3d"
    return _adaptive(x, output_size, "NCDHW", function, "max", _VOLUMES, return_mask, name)


def adaptive_avg_pool2d(
    x: Variable, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Average `output_size` windows of images (nn.functional.adaptive_avg_pool2d).

    None in `output_size` keeps that dimension.
    """
    return _adaptive(x, output_size, data_format, "adaptive_avg_pool2d", "avg")


def adaptive_max_pool2d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """Take maxima of `output_size` windows of images (functional.adaptive_max_pool2d)."""
    function = "adaptive_max_pool2d"
    return _adaptive(x, output_size, "NCHW", function, "max", _IMAGES, return_mask, name)


def adaptive_avg_pool1d(x: Variable, output_size: Any, name: str | None = None) -> Variable:
    """Average `output_size` windows of [n, c, l] (nn.functional.adaptive_avg_pool1d)."""
    window = {"ksize": arguments.pair(output_size, "output_size", "adaptive_avg_pool1d", 1)}
    return _pool1d(x, "adaptive_avg_pool1d", "avg", window, name, adaptive=True)


def adaptive_max_pool1d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """Take maxima of `output_size` windows of [n, c, l] (functional.adaptive_max_pool1d)."""
    window = {"ksize": arguments.pair(output_size, "output_size", "adaptive_max_pool1d", 1)}
    if return_mask:
        return indexed_pool1d(x, "adaptive_max_pool1d", {**window, "adaptive": True}, name)
    return _pool1d(x, "adaptive_max_pool1d", "max", window, name, adaptive=True)


lazy.join_package(globals())
