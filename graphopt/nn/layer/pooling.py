"""Pools as layers; the functions have the formulas."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import lazy
from graphopt.nn.functional import pooling as functional
from graphopt.nn.layer.layers import Layer


class _Pool(Layer):
    """A function with fixed arguments."""

    function: Any

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        # layers of users read these
        if "output_size" in arguments:
            self.__dict__.update({f"_{name}": value for name, value in arguments.items()})
        else:
            named = {"kernel_size": "ksize", "divisor_override": "divisor"}
            self.__dict__.update({named.get(n, n): value for n, value in arguments.items()})

    def forward(self, x: Any) -> Any:
        return type(self).function(x, **self._arguments)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._arguments.items())


class MaxPool1D(_Pool):
    """The maximum of each window of sequences (paddle.nn.MaxPool1D)."""

    function = staticmethod(functional.max_pool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            name=name,
        )


class MaxPool2D(_Pool):
    """The maximum of each window of images (paddle.nn.MaxPool2D)."""

    function = staticmethod(functional.max_pool2d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )


class AvgPool1D(_Pool):
    """The average of each window of sequences (paddle.nn.AvgPool1D)."""

    function = staticmethod(functional.avg_pool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            exclusive=exclusive,
            ceil_mode=ceil_mode,
            name=name,
        )


class AvgPool2D(_Pool):
    """The average of each window of images (paddle.nn.AvgPool2D)."""

    function = staticmethod(functional.avg_pool2d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            exclusive=exclusive,
            divisor_override=divisor_override,
            data_format=data_format,
            name=name,
        )


class AdaptiveAvgPool1D(_Pool):
    """Averages of as many windows as output_size says (paddle.nn.AdaptiveAvgPool1D)."""

    function = staticmethod(functional.adaptive_avg_pool1d)

    def __init__(self, output_size: Any, name: str | None = None) -> None:
        super().__init__(output_size=output_size, name=name)


class AdaptiveAvgPool2D(_Pool):
    """Averages of as many windows as output_size says (paddle.nn.AdaptiveAvgPool2D)."""

    function = staticmethod(functional.adaptive_avg_pool2d)

    def __init__(
        self, output_size: Any, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(output_size=output_size, data_format=data_format, name=name)


class AdaptiveMaxPool1D(_Pool):
    """Maxima of as many windows as output_size says (paddle.nn.AdaptiveMaxPool1D)."""

    function = staticmethod(functional.adaptive_max_pool1d)

    def __init__(
        self, output_size: Any, return_mask: bool = False, name: str | None = None
    ) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)


class AdaptiveMaxPool2D(_Pool):
    """Maxima of as many windows as output_size says (paddle.nn.AdaptiveMaxPool2D)."""

    function = staticmethod(functional.adaptive_max_pool2d)

    def __init__(
        self, output_size: Any, return_mask: bool = False, name: str | None = None
    ) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)


class MaxPool3D(_Pool):
    """The maximum of each window of volumes (paddle.nn.MaxPool3D)."""

    function = staticmethod(functional.max_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            return_mask=return_mask,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )


class AvgPool3D(_Pool):
    """The average of each window of volumes (paddle.nn.AvgPool3D)."""

    function = staticmethod(functional.avg_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            exclusive=exclusive,
            divisor_override=divisor_override,
            data_format=data_format,
            name=name,
        )


class AdaptiveAvgPool3D(_Pool):
    """Averages of as many windows as output_size says (paddle.nn.AdaptiveAvgPool3D)."""

    function = staticmethod(functional.adaptive_avg_pool3d)

    def __init__(
        self, output_size: Any, data_format: str = "NCDHW", name: str | None = None
    ) -> None:
        super().__init__(output_size=output_size, data_format=data_format, name=name)


class AdaptiveMaxPool3D(_Pool):
    """Maxima of as many windows as output_size says (paddle.nn.AdaptiveMaxPool3D)."""

    function = staticmethod(functional.adaptive_max_pool3d)

    def __init__(
        self, output_size: Any, return_mask: bool = False, name: str | None = None
    ) -> None:
        super().__init__(output_size=output_size, return_mask=return_mask, name=name)


lazy.join_package(globals())
