"""Activation functions as layers; the functions have the formulas."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.initializers.fill import Constant
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


class LogSigmoid(_Plain):
    """log(sigmoid(x)) (paddle.nn.LogSigmoid)."""

    function = staticmethod(functional.log_sigmoid)


class Mish(_Plain):
    """x * tanh(softplus(x)) (paddle.nn.Mish)."""

    function = staticmethod(functional.mish)


class Softsign(_Plain):
    """x / (1 + |x|) (paddle.nn.Softsign)."""

    function = staticmethod(functional.softsign)


class Tanhshrink(_Plain):
    """x - tanh(x) (paddle.nn.Tanhshrink)."""

    function = staticmethod(functional.tanhshrink)


class GELU(Layer):
    """x * Phi(x) (paddle.nn.GELU)."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._approximate, self._name = approximate, name

    def forward(self, x: Any) -> Any:
        return functional.gelu(x, self._approximate, self._name)


class _Numbers(Layer):
    """A function with arguments, given in the order in which it takes them after x."""

    function: Any

    def __init__(self, *values: float, name: str | None = None) -> None:
        super().__init__()
        self._values, self._name = values, name

    def forward(self, x: Any) -> Any:
        return type(self).function(x, *self._values, name=self._name)


class LeakyReLU(_Numbers):
    """x where positive, negative_slope * x elsewhere (paddle.nn.LeakyReLU)."""

    function = staticmethod(functional.leaky_relu)

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(negative_slope, name=name)


class ELU(_Numbers):
    """x where positive, alpha * (exp(x) - 1) elsewhere (paddle.nn.ELU)."""

    function = staticmethod(functional.elu)

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(alpha, name=name)


class CELU(_Numbers):
    """x where positive, alpha * (exp(x / alpha) - 1) elsewhere (paddle.nn.CELU)."""

    function = staticmethod(functional.celu)

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(alpha, name=name)


class SELU(_Numbers):
    """scale * elu(x, alpha) (paddle.nn.SELU)."""

    function = staticmethod(functional.selu)

    def __init__(
        self,
        scale: float = 1.0507009873554805,
        alpha: float = 1.6732632423543772,
        name: str | None = None,
    ) -> None:
        super().__init__(scale, alpha, name=name)


class Softplus(_Numbers):
    """log(1 + exp(beta * x)) / beta; x where beta * x > threshold (paddle.nn.Softplus)."""

    function = staticmethod(functional.softplus)

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__(beta, threshold, name=name)


class Softshrink(_Numbers):
    """x moved towards 0 by the threshold, 0 within it (paddle.nn.Softshrink)."""

    function = staticmethod(functional.softshrink)

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold, name=name)


class Hardshrink(_Numbers):
    """x, but 0 within the threshold (paddle.nn.Hardshrink)."""

    function = staticmethod(functional.hardshrink)

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold, name=name)


class Hardtanh(_Numbers):
    """x kept in [min, max] (paddle.nn.Hardtanh)."""

    function = staticmethod(functional.hardtanh)

    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:
        super().__init__(min, max, name=name)


class ThresholdedReLU(_Numbers):
    """x above the threshold, `value` elsewhere (paddle.nn.ThresholdedReLU)."""

    function = staticmethod(functional.thresholded_relu)

    def __init__(self, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> None:
        super().__init__(threshold, value, name=name)


class Maxout(_Numbers):
    """The largest of every `groups` neighbours along an axis (paddle.nn.Maxout)."""

    function = staticmethod(functional.maxout)

    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__(groups, axis, name=name)


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


class RReLU(Layer):
    """x where positive, elsewhere x times a random slope (paddle.nn.RReLU)."""

    def __init__(
        self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None
    ) -> None:
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x: Any) -> Any:
        return functional.rrelu(x, self._lower, self._upper, self.training, self._name)

    def extra_repr(self) -> str:
        return f"lower={self._lower}, upper={self._upper}"


lazy.join_package(globals())
