"""Padding, resizing and rearranging images as layers; the functions have the formulas."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.nn.functional import vision as functional
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.of_functions import Upsample


class _Pad(Layer):
    """Elements around the spatial dimensions; one number counts for every side."""

    spatial: int

    def __init__(
        self, padding: Any, mode: str, value: float, data_format: str, name: str | None
    ) -> None:
        super().__init__()
        amounts = arguments.integers(padding, "padding", type(self).__name__)
        self._pad = amounts * 2 * self.spatial if len(amounts) == 1 else amounts
        self._mode, self._value = mode, value
        self._data_format, self._name = data_format, name

    def forward(self, x: Any) -> Any:
        return functional.pad(x, self._pad, self._mode, self._value, self._data_format, self._name)

    def extra_repr(self) -> str:
        return f"padding={self._pad}, mode={self._mode}, value={self._value}"


class Pad1D(_Pad):
    """Elements around sequences [n, c, l] (paddle.nn.Pad1D)."""

    spatial = 1

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class Pad2D(_Pad):
    """Elements around images [n, c, h, w] (paddle.nn.Pad2D)."""

    spatial = 2

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class ZeroPad2D(Pad2D):
    """Zeros around images (paddle.nn.ZeroPad2D)."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(padding, "constant", 0.0, data_format, name)


class Pad3D(_Pad):
    """Elements around volumes [n, c, d, h, w] (paddle.nn.Pad3D)."""

    spatial = 3

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format, name)


class UpsamplingNearest2D(Upsample):
    """Images in another size, each pixel the nearest one (paddle.nn.UpsamplingNearest2D)."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "nearest", False, 0, data_format, name)


class UpsamplingBilinear2D(Upsample):
    """Images in another size, with the corners aligned (paddle.nn.UpsamplingBilinear2D)."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", True, 0, data_format, name)


class ZeroPad1D(Pad1D):
    """Zeros around sequences (paddle.nn.ZeroPad1D)."""

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None) -> None:
        super().__init__(padding, "constant", 0.0, data_format, name)


class ZeroPad3D(Pad3D):
    """Zeros around volumes (paddle.nn.ZeroPad3D)."""

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(padding, "constant", 0.0, data_format, name)


lazy.join_package(globals())
