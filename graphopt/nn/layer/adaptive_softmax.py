"""A softmax over many classes, rare ones in clusters with fewer weights (arXiv:1609.04309)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import log_softmax
from graphopt.nn.functional.common import linear
from graphopt.nn.functional.sampled_classes import adaptive_log_softmax_with_loss
from graphopt.nn.layer.layers import Layer
from graphopt.tensor.manipulation import concat, split
from graphopt.tensor.math import add
from graphopt.tensor.search import argmax


class AdaptiveLogSoftmaxWithLoss(Layer):
    """The log-probability of each label and the loss (paddle.nn.AdaptiveLogSoftmaxWithLoss).

    Classes below `cutoffs[0]` have columns of the head; the classes between two cutoffs are a
    cluster, whose inner size is `in_features` over a power of `div_value`. Raises ValueError when
    the cutoffs do not grow from 1 to at most n_classes - 1.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        weight_attr: Any = None,
        bias_attr: Any = None,
        div_value: float = 4.0,
        head_bias: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        size = arguments.integer(in_features, "in_features", kind)
        bounds = [0, *arguments.integers(cutoffs, "cutoffs", kind), n_classes]
        if len(bounds) < 3 or any(low >= high for low, high in pairwise(bounds)):
            raise ValueError(
                f"{kind}(): 'cutoffs' should grow between 0 and {n_classes}, found {list(cutoffs)}"
            )
        self.cutoffs = bounds[1:]
        self.n_classes = n_classes
        clusters = len(self.cutoffs) - 1
        self.head_size = self.cutoffs[0] + clusters
        self.head_weight: Any = self.create_parameter([size, self.head_size], weight_attr)
        self.head_bias: Any = None
        if head_bias:
            self.head_bias = self.create_parameter([self.head_size], bias_attr, is_bias=True)
        self.tail_weights: list[list[Any]] = []
        for i in range(clusters):
            inner = int(size // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            shapes = ([size, inner], [inner, classes])
            self.tail_weights.append([self.create_parameter(s, weight_attr) for s in shapes])

    def forward(self, input: Any, label: Any) -> Any:
        return adaptive_log_softmax_with_loss(
            input, label, self.head_weight, self.tail_weights, self.cutoffs, self.head_bias
        )

    def log_prob(self, input: Any) -> Variable:
        """Compute the log-probability of every class for each row, [n, n_classes]."""
        head = log_softmax(linear(input, self.head_weight, self.head_bias), -1)
        sizes = [self.cutoffs[0], *[1] * len(self.tail_weights)]
        first, *clusters = split(head, sizes, -1)
        parts = [first]
        for cluster, (inner, outer) in zip(clusters, self.tail_weights, strict=True):
            parts.append(add(log_softmax(linear(linear(input, inner), outer), -1), cluster))
        return concat(parts, -1)

    def predict(self, input: Any) -> Variable:
        """Find the likeliest class of each row, [n]."""
        return argmax(self.log_prob(input), -1)
