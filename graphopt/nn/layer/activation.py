"""Activation functions as layers; the formulas are in the functions' docstrings."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.initializers.fill import Constant
from graphopt.nn.functional import activation as functional
from graphopt.nn.layer.layers import Layer


class PReLU(Layer):
    """x where positive, a trained weight times x elsewhere (paddle.nn.PReLU).

    There is one weight, or one per channel with `num_parameters` channels.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._data_format, self._name = data_format, name
        self._weight: Any = self.create_parameter(
            [num_parameters], weight_attr, default_initializer=Constant(init)
        )

    def forward(self, x: Any) -> Any:
        return functional.prelu(x, self._weight, self._data_format, self._name)


class Softmax2D(Layer):
    """softmax over the channels of images [c, h, w] or [n, c, h, w] (paddle.nn.Softmax2D)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def forward(self, x: Any) -> Any:
        rank = len(arguments.variable(x, "x", "Softmax2D").shape)
        if rank not in (3, 4):
            raise ValueError(f"Softmax2D: expected an input of rank 3 or 4, but got {rank}")
        return functional.softmax(x, axis=-3, name=self._name)


lazy.join_package(globals())
