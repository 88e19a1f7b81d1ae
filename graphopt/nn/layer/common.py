"""Linear maps, embeddings, dropout and flattening as layers."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.nn.functional import common as functional
from graphopt.nn.functional.input import embedding, table_padding
from graphopt.nn.layer.layers import Layer


class Identity(Layer):
    """The input itself; arguments are ignored (paddle.nn.Identity)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Layer):
    """x @ weight + bias, weight [in_features, out_features] (paddle.nn.Linear).

    The weight starts from XavierUniform, the bias at 0; `bias_attr=False` omits the bias.
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
        self._weight_attr, self._bias_attr = weight_attr, bias_attr  # user layers read these
        self.weight: Any = self.create_parameter(sizes, weight_attr)
        self.bias: Any = self.create_parameter(sizes[1:], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return functional.linear(input, self.weight, self.bias, self.name)

    def extra_repr(self) -> str:
        rows, columns = self.weight.shape
        return f"in_features={rows}, out_features={columns}, dtype={self._dtype}"


class Embedding(Layer):
    """Rows of a table [num_embeddings, embedding_dim] by index (paddle.nn.Embedding).

    Row `padding_idx` reads as zeros and gets no gradient; `sparse` is as in
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
        # user layers read these
        self._num_embeddings, self._embedding_dim = num_embeddings, embedding_dim
        self._size, self._weight_attr = [num_embeddings, embedding_dim], weight_attr
        self.weight: Any = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x: Any) -> Any:
        return embedding(x, self.weight, self._padding_idx, self._sparse, self._name)

    def extra_repr(self) -> str:
        rows, width = self.weight.shape
        return f"{rows}, {width}, padding_idx={self._padding_idx}"


class Bilinear(Layer):
    """x1 @ weight[k] @ x2 + bias[k] for each of `out_features` k (paddle.nn.Bilinear).

    The weight has the shape [out_features, in1_features, in2_features], the bias
    [1, out_features].
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        given = {"in1": in1_features, "in2": in2_features, "out": out_features}
        sizes = {
            what: arguments.integer(value, f"{what}_features", "Bilinear")
            for what, value in given.items()
        }
        self._name = name
        self.weight: Any = self.create_parameter(
            [sizes["out"], sizes["in1"], sizes["in2"]], weight_attr
        )
        self.bias: Any = self.create_parameter([1, sizes["out"]], bias_attr, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        return functional.bilinear(x1, x2, self.weight, self.bias, self._name)

    def extra_repr(self) -> str:
        out, in1, in2 = self.weight.shape
        return f"in1_features={in1}, in2_features={in2}, out_features={out}, dtype={self._dtype}"


lazy.join_package(globals())
