"""Linear maps, embeddings, dropout and flattening as layers."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.nn.functional import common as functional
from graphopt.nn.functional.input import embedding, table_padding
from graphopt.nn.layer.layers import Layer
from graphopt.tensor.manipulation import flatten
from graphopt.tensor.stacking import unflatten


class Identity(Layer):
    """The input itself; arguments are ignored (paddle.nn.Identity)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Layer):
    """x @ weight + bias, weight [in_features, out_features] (paddle.nn.Linear).

    The weight starts from XavierUniform, the bias at 0; `bias_attr=False` leaves it out.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        sizes = [
            arguments.integer(in_features, "in_features", "Linear"),
            arguments.integer(out_features, "out_features", "Linear"),
        ]
        self.name = name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr  # layers of users read these
        self.weight: Any = self.create_parameter(sizes, weight_attr)
        self.bias: Any = self.create_parameter(sizes[1:], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return functional.linear(input, self.weight, self.bias, self.name)

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"in_features={rows}, out_features={columns}, dtype={self._dtype!s}"


class Embedding(Layer):
    """Rows of a table [num_embeddings, embedding_dim] by number (paddle.nn.Embedding).

    Row `padding_idx` reads as zeros and gets no gradient; `sparse` is that of
    `nn.functional.embedding`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise ValueError("Embedding(): num_embeddings and embedding_dim must be greater than 0")
        table_padding(padding_idx, num_embeddings, "Embedding")
        self._padding_idx, self._sparse, self._name = padding_idx, sparse, name
        # layers of users read these
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim
        self._size, self._weight_attr = [num_embeddings, embedding_dim], weight_attr
        self.weight: Any = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x: Any) -> Any:
        return embedding(x, self.weight, self._padding_idx, self._sparse, self._name)

    def extra_repr(self) -> str:
        rows, width = self.weight.shape
        return f"{rows}, {width}, padding_idx={self._padding_idx}"


class Dropout(Layer):
    """Zero each element (or slices along `axis`) with probability p in training.

    Paddle page: paddle.nn.Dropout.
    """

    def __init__(
        self,
        p: float = 0.5,
        axis: Any = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input: Any) -> Any:
        return functional.dropout(input, self.p, self.axis, self.training, self.mode, self.name)

    def extra_repr(self) -> str:
        return f"p={self.p}, axis={self.axis}, mode={self.mode}"


class Dropout2D(Layer):
    """Zero whole channels of images in training (paddle.nn.Dropout2D)."""

    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.p, self.data_format, self.name = p, data_format, name

    def forward(self, input: Any) -> Any:
        return functional.dropout2d(input, self.p, self.training, self.data_format, self.name)


class Dropout3D(Layer):
    """Zero whole channels of volumes in training (paddle.nn.Dropout3D)."""

    def __init__(self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.p, self.data_format, self.name = p, data_format, name

    def forward(self, input: Any) -> Any:
        return functional.dropout3d(input, self.p, self.training, self.data_format, self.name)


class AlphaDropout(Layer):
    """Dropout that keeps the mean and variance of selu's results (paddle.nn.AlphaDropout)."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p, self.name = p, name

    def forward(self, input: Any) -> Any:
        return functional.alpha_dropout(input, self.p, self.training, self.name)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class FeatureAlphaDropout(Layer):
    """As `AlphaDropout`, for whole channels (paddle.nn.FeatureAlphaDropout)."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p, self.name = p, name

    def forward(self, input: Any) -> Any:
        return functional.feature_alpha_dropout(input, self.p, self.training, self.name)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Unflatten(Layer):
    """One axis taken apart in several (paddle.nn.Unflatten)."""

    def __init__(self, axis: int, shape: Any, name: str | None = None) -> None:
        super().__init__()
        self.axis, self.shape, self.name = axis, shape, name

    def forward(self, input: Any) -> Any:
        return unflatten(input, self.axis, self.shape, self.name)

    def extra_repr(self) -> str:
        return f"axis={self.axis}, shape={self.shape}"


class Flatten(Layer):
    """The axes from start to stop joined into one (paddle.nn.Flatten)."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Any) -> Any:
        return flatten(input, self.start_axis, self.stop_axis)


class CosineSimilarity(Layer):
    """The cosine of the angle between two tensors along `axis` (paddle.nn.CosineSimilarity)."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        return functional.cosine_similarity(x1, x2, self._axis, self._eps)


lazy.join_package(globals())
