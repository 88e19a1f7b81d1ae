"""The inverses of pools, and pools of p-norms, as layers."""

from __future__ import annotations

from typing import Any

from graphopt.nn.functional import unpool as functional
from graphopt.nn.layer.pooling import _Pool


class _MaxUnPool(_Pool):
    """A function of pooled tensors and places with fixed arguments."""

    def forward(self, x: Any, indices: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self).function(x, indices, **self._arguments)


class MaxUnPool1D(_MaxUnPool):
    """Sequences from their maxima and the places of these (paddle.nn.MaxUnPool1D)."""

    function = staticmethod(functional.max_unpool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCL",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
            name=name,
        )


class MaxUnPool2D(_MaxUnPool):
    """Images from their maxima and the places of these (paddle.nn.MaxUnPool2D)."""

    function = staticmethod(functional.max_unpool2d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCHW",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
            name=name,
        )


class MaxUnPool3D(_MaxUnPool):
    """Volumes from their maxima and the places of these (paddle.nn.MaxUnPool3D)."""

    function = staticmethod(functional.max_unpool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCDHW",
        output_size: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            data_format=data_format,
            output_size=output_size,
            name=name,
        )


class LPPool1D(_Pool):
    """The p-norm of each window of sequences (paddle.nn.LPPool1D)."""

    function = staticmethod(functional.lp_pool1d)

    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(
            norm_type=norm_type,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )


class LPPool2D(_Pool):
    """The p-norm of each window of images (paddle.nn.LPPool2D)."""

    function = staticmethod(functional.lp_pool2d)

    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            norm_type=norm_type,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            data_format=data_format,
            name=name,
        )
