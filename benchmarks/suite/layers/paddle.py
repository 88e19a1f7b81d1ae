"""Layers in Paddle's static API, for Paddle and for graphopt: the module `paddle` is either.

They record their parameters in the order of creation, which all engines share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Variable = Any


class Layers:
    """The layers of one of the two modules."""

    def __init__(self, paddle: Any, *, testing: bool, low: str = "") -> None:
        self.paddle = paddle
        self.testing, self.low = testing, low
        self.nn, self.F = paddle.nn, paddle.nn.functional
        self.parameters: list[Variable] = []

    def inputs(self, feed: Mapping[str, Any], *, split: bool = False) -> dict[str, Variable]:
        """Declare a variable for each fed array; with `split` each device gets some of its rows."""

        def shape(array: Any) -> list[int | None]:
            return [None if split else len(array), *array.shape[1:]]

        data = self.paddle.static.data
        return {name: data(name, shape(array), array.dtype.name) for name, array in feed.items()}

    def parameter(self, shape: list[int], deviation: float) -> Variable:
        """Create a parameter of normal numbers."""
        normal = self.nn.initializer.Normal(0.0, deviation)
        made = self.paddle.static.create_parameter(shape, "float32", default_initializer=normal)
        self.parameters.append(made)
        return made

    def made(self, layer: Any, *names: str) -> Any:
        """Record the named parameters of a new layer, and return it."""
        self.parameters += [getattr(layer, name) for name in names]
        return layer

    def lower(self, *values: Variable) -> list[Variable]:
        """Cast the operands of a product to the dtype in which it is computed."""
        return [self.paddle.cast(x, self.low) for x in values] if self.low else list(values)

    def wide(self, x: Variable) -> Variable:
        """Cast the result of a product to float32."""
        return self.paddle.cast(x, "float32") if self.low else x

    def linear(self, x: Variable, width: int, activation: str | None = None) -> Variable:
        """Apply a linear layer to the last axis."""
        layer = self.made(self.nn.Linear(x.shape[-1], width), "weight", "bias")
        y = self.wide(self.F.linear(*self.lower(x, layer.weight, layer.bias)))
        return getattr(self.F, activation)(y) if activation else y

    def conv_bn(
        self,
        x: Variable,
        width: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        act: str | None = "relu",
    ) -> Variable:
        """Apply a convolution that keeps or halves the size of the image, and a batch norm."""
        edge = kernel // 2
        conv = self.nn.Conv2D(
            x.shape[1], width, kernel, stride, edge, groups=groups, bias_attr=False
        )
        x, weight = self.lower(x, self.made(conv, "weight").weight)
        h = self.wide(self.F.conv2d(x, weight, None, stride, edge, groups=groups))
        norm = self.made(self.nn.BatchNorm2D(width), "weight", "bias", "_mean", "_variance")
        if self.testing:
            norm.eval()
        ends = {"relu": self.F.relu, "relu6": self.F.relu6, None: lambda y: y}
        return ends[act](norm(h))

    def relu_sum(self, x: Variable, y: Variable) -> Variable:
        """Compute relu(x + y), the end of a residual block."""
        return self.F.relu(self.paddle.add(x, y))

    def add(self, x: Variable, y: Variable) -> Variable:
        """Compute x + y."""
        return self.paddle.add(x, y)

    def max_pool(self, x: Variable) -> Variable:
        """Take the maximum of 3 x 3 windows with stride 2."""
        return self.F.max_pool2d(x, 3, 2, 1)

    def average(self, x: Variable) -> Variable:
        """Average each channel: [n, channels]."""
        return self.paddle.mean(x, axis=[2, 3])

    def embedding(self, ids: Variable, words: int, width: int, *, sparse: bool = False) -> Variable:
        """Look up the rows of a table."""
        attr = self.paddle.ParamAttr(initializer=self.nn.initializer.Normal(0.0, 0.02))
        table = self.nn.Embedding(words, width, sparse=sparse, weight_attr=attr)
        return self.made(table, "weight")(ids)

    def flat(self, x: Variable) -> Variable:
        """Flatten to [n, -1]."""
        return self.paddle.flatten(x, 1)

    def positions(self, x: Variable) -> Variable:
        """Add a learned vector for each position to [batch, length, width]."""
        return self.paddle.add(x, self.parameter(list(x.shape[1:]), 0.02))

    def patches(self, x: Variable, size: int, width: int) -> Variable:
        """Split images into patches: [batch, patches, width]."""
        conv = self.made(self.nn.Conv2D(x.shape[1], width, size, size), "weight", "bias")
        x, weight = self.lower(x, conv.weight)
        squares = self.F.conv2d(x, weight, *self.lower(conv.bias), stride=size)
        return self.paddle.transpose(self.paddle.flatten(self.wide(squares), 2), [0, 2, 1])

    def with_token(self, x: Variable) -> Variable:
        """Prepend a learned vector: [batch, length + 1, width]."""
        token = self.parameter([1, 1, x.shape[-1]], 0.02)
        rows = self.paddle.expand(token, [x.shape[0], 1, x.shape[-1]])
        return self.paddle.concat([rows, x], axis=1)

    def first(self, x: Variable) -> Variable:
        """Take the first row of each [batch, length, width]."""
        return x[:, 0]

    def attention(self, q: Variable, k: Variable, v: Variable, *, causal: bool = False) -> Variable:
        """Compute softmax(q k' / sqrt(width)) v on [batch, heads, length, width]."""
        q, k, v = self.lower(q, k, v)
        scores = self.paddle.matmul(q, k, transpose_y=True)
        scores = self.paddle.scale(scores, float(q.shape[-1]) ** -0.5)
        if causal:
            hidden = self.paddle.full([q.shape[2], k.shape[2]], -1e4, scores.dtype)
            scores = self.paddle.add(scores, self.paddle.triu(hidden, 1))
        return self.wide(self.paddle.matmul(self.F.softmax(scores), v))

    def encoder(
        self, x: Variable, heads: int, *, first: bool = False, causal: bool = False
    ) -> Variable:
        """Apply a Transformer encoder layer to [batch, length, width], norm last or first."""
        batch, length, width = x.shape
        given, x = x, self.norm(x) if first else x

        def split(h: Variable) -> Variable:
            h = self.paddle.reshape(h, [batch, length, heads, width // heads])
            return self.paddle.transpose(h, [0, 2, 1, 3])

        q, k, v = (split(self.linear(x, width)) for _ in range(3))
        mixed = self.paddle.transpose(self.attention(q, k, v, causal=causal), [0, 2, 1, 3])
        mixed = self.linear(self.paddle.reshape(mixed, [batch, length, width]), width)
        added = self.paddle.add(given, mixed)
        x = self.norm(added)
        inner = self.F.gelu(self.linear(x, 4 * width))
        if first:
            return self.paddle.add(added, self.linear(inner, width))
        return self.norm(self.paddle.add(x, self.linear(inner, width)))

    def norm(self, x: Variable) -> Variable:
        """Apply layer norm to the last axis."""
        return self.made(self.nn.LayerNorm(x.shape[-1]), "weight", "bias")(x)

    def mean_squares(self, parameters: list[Variable]) -> Variable:
        """Sum the means of squares."""
        return self.paddle.add_n([self.paddle.mean(w * w) for w in parameters])

    def loss(self, kind: str, values: Variable, label: Variable | None) -> Variable:
        """Map the values of a model to its loss, or to the result of inference."""
        if kind == "cross_entropy":
            return self.paddle.mean(self.F.cross_entropy(values, label))
        if kind == "mean_square":
            return self.paddle.mean(values * values)
        return self.paddle.mean(values) if kind == "mean" else values

    def optimizer(self, kind: str, rate: float) -> Any:
        """Create the optimizer of a workload."""
        made = self.paddle.optimizer
        return {
            "sgd": lambda: made.SGD(rate),
            "momentum": lambda: made.Momentum(rate, 0.9),
            "adam": lambda: made.Adam(rate),
            "adamw": lambda: made.AdamW(rate, weight_decay=0.01),
            "lazy_adam": lambda: made.Adam(rate, lazy_mode=True),
        }[kind]()
