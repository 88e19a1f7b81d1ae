"""The CTC loss and the hierarchical sigmoid as layers."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.nn.functional.hierarchical import hsigmoid_loss
from graphopt.nn.layer.layers import Layer


class HSigmoidLoss(Layer):
    """The cost of finding labels in a tree of classes (paddle.nn.HSigmoidLoss).

    The default tree has `num_classes` - 1 inner nodes; with `is_custom`, where `num_classes` is the
    number of inner nodes, each call passes the paths (see nn.functional.hsigmoid_loss).
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._classes = arguments.integer(num_classes, "num_classes", "HSigmoidLoss")
        if num_classes < 2 and not is_custom:
            raise ValueError("num_classes must not be less than 2 with default tree")
        size = arguments.integer(feature_size, "feature_size", "HSigmoidLoss")
        self._is_custom, self._is_sparse, self._name = is_custom, is_sparse, name
        nodes = num_classes if is_custom else num_classes - 1
        self.weight: Any = self.create_parameter([nodes, size], weight_attr)
        self.bias: Any = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(self, input: Any, label: Any, path_table: Any = None, path_code: Any = None) -> Any:
        if self._is_custom and (path_table is None or path_code is None):
            raise ValueError("HSigmoidLoss(): a custom tree needs 'path_table' and 'path_code'")
        return hsigmoid_loss(
            input,
            label,
            self._classes,
            self.weight,
            self.bias,
            path_table,
            path_code,
            self._is_sparse,
            self._name,
        )
