"""Layers that normalize each sample by itself: by groups, instances, or adjacent channels."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant
from graphopt.nn.functional.norm import group_norm, instance_norm, local_response_norm
from graphopt.nn.layer.layers import Layer


class GroupNorm(Layer):
    """Normalization over groups of channels and space (paddle.nn.GroupNorm).

    The scale starts at 1 and the bias at 0; `False` omits one.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_groups = arguments.integer(num_groups, "num_groups", "GroupNorm")
        self._epsilon, self._data_format = epsilon, data_format
        self.weight: Any = self.create_parameter(
            [num_channels], weight_attr, default_initializer=Constant(1.0)
        )
        self.bias: Any = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        scale_and_bias = self.weight, self.bias
        return group_norm(
            input,
            self._num_groups,
            self._epsilon,
            *scale_and_bias,
            self._data_format,
            name=self._full_name,
        )

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, epsilon={self._epsilon}"


class _InstanceNorm(Layer):
    """Normalization of each channel of each sample over space; scale 1 and bias 0 at the start."""

    rank: int

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._epsilon, self._num_features = epsilon, num_features
        self.scale: Any = self.create_parameter(
            [num_features], weight_attr, default_initializer=Constant(1.0)
        )
        self.bias: Any = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        kind = type(self).__name__
        found = len(arguments.variable(input, "input", kind).shape)
        if found not in (self.rank, 2 if self.rank == 3 else self.rank):
            raise ValueError(f"{kind}: expected an input of rank {self.rank}, but got {found}")
        return instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon)

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNorm):
    """Instance normalization of [n, c] or [n, c, l] (paddle.nn.InstanceNorm1D)."""

    rank = 3


class InstanceNorm2D(_InstanceNorm):
    """Instance normalization of images [n, c, h, w] (paddle.nn.InstanceNorm2D)."""

    rank = 4


class InstanceNorm3D(_InstanceNorm):
    """Instance normalization of volumes [n, c, d, h, w] (paddle.nn.InstanceNorm3D)."""

    rank = 5


class LocalResponseNorm(Layer):
    """x over a power of the squares of adjacent channels (paddle.nn.LocalResponseNorm)."""

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._arguments = (size, alpha, beta, k, data_format, name)

    def forward(self, input: Any) -> Any:
        return local_response_norm(input, *self._arguments)
