"""Normalization layers."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr
from graphopt.nn.functional.norm import batch_norm, layer_norm, normalise_batch
from graphopt.nn.layer.layers import Layer, with_defaults


class _BatchNorm(Layer):
    """The parameters of a batch normalization: weight, bias, running mean and variance."""

    def make_parameters(
        self,
        channels: int,
        weight_attr: Any,
        bias_attr: Any,
        mean_name: str | None = None,
        variance_name: str | None = None,
        dtype: Any = None,
    ) -> None:
        """Create the parameters in Paddle's order, which their names depend on."""
        size = [arguments.integer(channels, "num_features", type(self).__name__)]
        self.weight: Any = self.create_parameter(
            size, weight_attr, dtype, default_initializer=Constant(1.0)
        )
        self.bias: Any = self.create_parameter(size, bias_attr, dtype, is_bias=True)
        self._mean: Any = self._statistic(size, mean_name, 0.0, dtype)
        self._variance: Any = self._statistic(size, variance_name, 1.0, dtype)

    def _statistic(self, size: list[int], name: str | None, value: float, dtype: Any) -> Any:
        attr = ParamAttr(name=name, initializer=Constant(value), trainable=False)
        return self.create_parameter(size, attr, dtype)


class BatchNorm(_BatchNorm):
    """Batch normalization with an activation, in the older form (paddle.nn.BatchNorm).

    It uses the running statistics with `is_test`, `use_global_stats`, or after `eval()`. `in_place`
    and `do_model_average_for_mean_and_var` have no effect.
    """

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(dtype=dtype)
        self.make_parameters(
            num_channels,
            param_attr,
            bias_attr,
            moving_mean_name,
            moving_variance_name,
            self._dtype,
        )
        arguments.choice(data_layout, "data_layout", "BatchNorm", ("NCHW", "NHWC"))
        self._act, self._is_test = act, is_test
        self._attrs = {
            "momentum": momentum,
            "epsilon": epsilon,
            "data_layout": data_layout,
            "use_global_stats": use_global_stats,
            "trainable_statistics": trainable_statistics,
        }
        # user layers read these
        self.__dict__.update({f"_{name}": value for name, value in self._attrs.items()})
        self._param_attr, self._bias_attr = param_attr, bias_attr

    def forward(self, input: Any) -> Any:
        helper = LayerHelper("batch_norm", self._full_name)
        attrs = {**self._attrs, "is_test": self._is_test or not self.training}
        out = normalise_batch(
            helper,
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            attrs,
            reserves=True,
        )
        return helper.append_activation(out, self._act)


class _BatchNormBase(_BatchNorm):
    """Batch normalization over inputs of certain ranks."""

    ranks: tuple[int, ...]
    formats: tuple[str, ...]

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name_scope=name)
        self.make_parameters(num_features, weight_attr, bias_attr)
        # user layers read these
        self._num_features, self._name = num_features, name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self._data_format = arguments.choice(
            data_format, "data_format", type(self).__name__, self.formats
        )
        self._momentum, self._epsilon = momentum, epsilon
        self._use_global_stats = use_global_stats

    def forward(self, input: Any) -> Any:
        kind = type(self).__name__
        rank = len(arguments.variable(input, "input", kind).shape)
        if rank not in self.ranks:
            raise ValueError(f"{kind}: expected an input of rank {self.ranks}, but got {rank}")
        return batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_format,
            self._use_global_stats,
        )

    def extra_repr(self) -> str:
        return (
            f"num_features={self._mean.shape[0]}, momentum={self._momentum}, "
            f"epsilon={self._epsilon}, data_format={self._data_format}"
        )


@with_defaults(data_format="NCL")
class BatchNorm1D(_BatchNormBase):
    """Batch normalization of [n, c] or [n, c, l] (paddle.nn.BatchNorm1D)."""

    ranks = (2, 3)
    formats = ("NCL", "NC", "NLC")


@with_defaults(data_format="NCHW")
class BatchNorm2D(_BatchNormBase):
    """Batch normalization of images [n, c, h, w] (paddle.nn.BatchNorm2D)."""

    ranks = (4,)
    formats = ("NCHW", "NHWC")


@with_defaults(data_format="NCDHW")
class BatchNorm3D(_BatchNormBase):
    """Batch normalization of volumes [n, c, d, h, w] (paddle.nn.BatchNorm3D)."""

    ranks = (5,)
    formats = ("NCDHW", "NDHWC")


class LayerNorm(Layer):
    """Normalization over the last axes, of sizes `normalized_shape` (paddle.nn.LayerNorm).

    The weight starts at 1, the bias at 0; both are 1-D.
    """

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._shape = arguments.integers(normalized_shape, "normalized_shape", "LayerNorm")
        self._epsilon = epsilon
        size = [math.prod(self._shape)]
        self.weight: Any = self.create_parameter(
            size, weight_attr, default_initializer=Constant(1.0)
        )
        self.bias: Any = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._shape}, epsilon={self._epsilon}"


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all replicas together (paddle.nn.SyncBatchNorm).

    On one replica it is batch normalization.
    """

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.make_parameters(num_features, weight_attr, bias_attr)
        formats = ("NC", "NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC")
        self._data_format = arguments.choice(data_format, "data_format", "SyncBatchNorm", formats)
        self._momentum, self._epsilon = momentum, epsilon

    def forward(self, x: Any) -> Any:
        attrs = {
            "momentum": self._momentum,
            "epsilon": self._epsilon,
            "is_test": not self.training,
            "data_layout": "NCHW" if self._data_format.startswith("NC") else "NHWC",
            "use_global_stats": False,
            "trainable_statistics": False,
        }
        helper = LayerHelper("sync_batch_norm", self._full_name)
        statistics = (self._mean, self._variance, self.weight, self.bias)
        return normalise_batch(helper, x, *statistics, attrs, "sync_batch_norm")

    def extra_repr(self) -> str:
        return (
            f"num_features={self._mean.shape[0]}, momentum={self._momentum}, "
            f"epsilon={self._epsilon}, data_format={self._data_format}"
        )

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """Convert each BatchNorm1D, 2D and 3D in a layer to SyncBatchNorm; keep the parameters."""
        made = layer
        if isinstance(layer, _BatchNormBase):
            made = cls.__new__(cls)
            made.__dict__.update(layer.__dict__)
        for name, inner in list(layer.named_children()):
            converted = cls.convert_sync_batchnorm(inner)
            if converted is not inner:
                made.add_sublayer(name, converted)
        return made


lazy.join_package(globals())
