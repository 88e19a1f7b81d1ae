"""Spectral normalization as a layer."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Normal
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr
from graphopt.nn.layer.layers import Layer


class SpectralNorm(Layer):
    """A weight over its largest singular value as a matrix [dim, the rest].

    `power_iters` steps of the power iteration find the value, from the vectors `weight_u` and
    `weight_v`, which stay unchanged. Paddle page: paddle.nn.SpectralNorm.
    """

    def __init__(
        self,
        weight_shape: Any,
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._shape = arguments.integers(weight_shape, "weight_shape", "SpectralNorm")
        axis = arguments.integer(dim, "dim", "SpectralNorm")
        if math.prod(self._shape) < 1:
            raise ValueError(f"SpectralNorm(): the sizes {self._shape} should be above 0")
        self._attrs = {
            "dim": axis,
            "power_iters": arguments.integer(power_iters, "power_iters", "SpectralNorm"),
            "eps": arguments.number(eps, "eps", "SpectralNorm"),
        }
        height = self._shape[axis]
        self.weight_u: Any = self._vector(height)
        self.weight_v: Any = self._vector(math.prod(self._shape) // height)

    def _vector(self, size: int) -> Any:
        made: Any = self.create_parameter([size], ParamAttr(), default_initializer=Normal(0.0, 1.0))
        made.stop_gradient = True
        return made

    def forward(self, x: Any) -> Any:
        helper = LayerHelper("spectral_norm", self._full_name)
        return normalise_spectrum(helper, x, self.weight_u, self.weight_v, self._attrs)


def normalise_spectrum(
    helper: LayerHelper, weight: Any, u: Any, v: Any, attrs: dict[str, Any]
) -> Any:
    """Emit the spectral_norm operator for these attributes."""
    inputs = {"Weight": arguments.variable(weight, "weight", "spectral_norm"), "U": u, "V": v}
    return helper.emit("spectral_norm", inputs, attrs)
