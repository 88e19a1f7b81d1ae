"""Maxima over windows of unequal sizes as layers."""

from __future__ import annotations

from typing import Any

from graphopt.nn.functional import fractional_pool as functional
from graphopt.nn.layer.pooling import _Pool


class _FractionalPool(_Pool):
    """A function with fixed arguments."""

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any = None,
        random_u: float | None = None,
        return_mask: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            output_size=output_size,
            kernel_size=kernel_size,
            random_u=random_u,
            return_mask=return_mask,
            name=name,
        )


class FractionalMaxPool2D(_FractionalPool):
    """Maxima over windows that cover images (paddle.nn.FractionalMaxPool2D)."""

    function = staticmethod(functional.fractional_max_pool2d)


class FractionalMaxPool3D(_FractionalPool):
    """Maxima over windows that cover volumes (paddle.nn.FractionalMaxPool3D)."""

    function = staticmethod(functional.fractional_max_pool3d)
