"""Activation functions as layers; the functions say what each computes."""

from __future__ import annotations

from typing import Any

from graphopt.nn.functional import activation as functional
from graphopt.nn.layer.layers import Layer


class _Plain(Layer):
    """A function without arguments."""

    function: Any

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def forward(self, x: Any) -> Any:
        return type(self).function(x, name=self._name)


class ReLU(_Plain):
    """max(x, 0) (paddle.nn.ReLU)."""

    function = staticmethod(functional.relu)


class ReLU6(_Plain):
    """min(max(x, 0), 6) (paddle.nn.ReLU6)."""

    function = staticmethod(functional.relu6)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x)) (paddle.nn.Sigmoid)."""

    function = staticmethod(functional.sigmoid)


class Tanh(_Plain):
    """Hyperbolic tangent (paddle.nn.Tanh)."""

    function = staticmethod(functional.tanh)


class Silu(_Plain):
    """x * sigmoid(x) (paddle.nn.Silu)."""

    function = staticmethod(functional.silu)


class Swish(_Plain):
    """x * sigmoid(x) (paddle.nn.Swish)."""

    function = staticmethod(functional.swish)


class Hardswish(_Plain):
    """x * relu6(x + 3) / 6 (paddle.nn.Hardswish)."""

    function = staticmethod(functional.hardswish)


class Hardsigmoid(_Plain):
    """min(max(x / 6 + 0.5, 0), 1) (paddle.nn.Hardsigmoid)."""

    function = staticmethod(functional.hardsigmoid)


class GELU(Layer):
    """x * Phi(x) (paddle.nn.GELU)."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._approximate, self._name = approximate, name

    def forward(self, x: Any) -> Any:
        return functional.gelu(x, self._approximate, self._name)


class LeakyReLU(Layer):
    """x where positive, negative_slope * x elsewhere (paddle.nn.LeakyReLU)."""

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__()
        self._negative_slope, self._name = negative_slope, name

    def forward(self, x: Any) -> Any:
        return functional.leaky_relu(x, self._negative_slope, self._name)


class _AlongAxis(Layer):
    """A function along one axis."""

    function: Any

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis, self._name = axis, name

    def forward(self, x: Any) -> Any:
        return type(self).function(x, axis=self._axis, name=self._name)


class Softmax(_AlongAxis):
    """exp(x) over its sum along `axis` (paddle.nn.Softmax)."""

    function = staticmethod(functional.softmax)


class LogSoftmax(_AlongAxis):
    """log(softmax(x)) along `axis` (paddle.nn.LogSoftmax)."""

    function = staticmethod(functional.log_softmax)


class GLU(_AlongAxis):
    """One half of x times the sigmoid of the other (paddle.nn.GLU)."""

    function = staticmethod(functional.glu)
