"""Layers of two tensors: distances and bilinear maps."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.nn.functional.common import bilinear
from graphopt.nn.functional.margin import pairwise_distance
from graphopt.nn.layer.layers import Layer


class PairwiseDistance(Layer):
    """The p-norm of x - y along the last axis (paddle.nn.PairwiseDistance)."""

    def __init__(
        self,
        p: float = 2.0,
        epsilon: float = 1e-6,
        keepdim: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p, self.epsilon, self.keepdim, self.name = p, epsilon, keepdim, name

    def forward(self, x: Any, y: Any) -> Any:
        return pairwise_distance(x, y, self.p, self.epsilon, self.keepdim, self.name)

    def extra_repr(self) -> str:
        return f"p={self.p}"


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
        return bilinear(x1, x2, self.weight, self.bias, self._name)

    def extra_repr(self) -> str:
        out, in1, in2 = self.weight.shape
        return f"in1_features={in1}, in2_features={in2}, out_features={out}, dtype={self._dtype!s}"
