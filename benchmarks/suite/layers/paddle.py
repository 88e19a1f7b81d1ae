"""Layers in Paddle's static API, for Paddle and for graphopt: the module `paddle` is either.

They remember their parameters in the order in which they made them, which all engines share.
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
        """A variable for each array that is fed; with `split` each device gets some of its rows."""

        def shape(array: Any) -> list[int | None]:
            return [None if split else len(array), *array.shape[1:]]

        data = self.paddle.static.data
        return {name: data(name, shape(array), array.dtype.name) for name, array in feed.items()}

    def parameter(self, shape: list[int], deviation: float) -> Variable:
        """A parameter of normal numbers."""
        normal = self.nn.initializer.Normal(0.0, deviation)
        made = self.paddle.static.create_parameter(shape, "float32", default_initializer=normal)
        self.parameters.append(made)
        return made

    def made(self, layer: Any, *names: str) -> Any:
        """A new layer, of which the parameters of these names are remembered."""
        self.parameters += [getattr(layer, name) for name in names]
        return layer

    def lower(self, *values: Variable) -> list[Variable]:
        """Operands of a product, in the dtype in which it is computed."""
        return [self.paddle.cast(x, self.low) for x in values] if self.low else list(values)

    def wide(self, x: Variable) -> Variable:
        """The result of a product in float32."""
        return self.paddle.cast(x, "float32") if self.low else x

    def linear(self, x: Variable, width: int, activation: str | None = None) -> Variable:
        """A linear layer on the last axis."""
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
        """A convolution that keeps the size of the picture, or halves it, and a batch norm."""
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
        """What ends a residual block."""
        return self.F.relu(self.paddle.add(x, y))

    def add(self, x: Variable, y: Variable) -> Variable:
        """x + y"""
        return self.paddle.add(x, y)

    def max_pool(self, x: Variable) -> Variable:
        """The largest of three by three, at every second place."""
        return self.F.max_pool2d(x, 3, 2, 1)

    def average(self, x: Variable) -> Variable:
        """The mean of each channel: [n, channels]."""
        return self.paddle.mean(x, axis=[2, 3])

    def embedding(self, ids: Variable, words: int, width: int, *, sparse: bool = False) -> Variable:
        """The rows of a table."""
        attr = self.paddle.ParamAttr(initializer=self.nn.initializer.Normal(0.0, 0.02))
        table = self.nn.Embedding(words, width, sparse=sparse, weight_attr=attr)
        return self.made(table, "weight")(ids)

    def flat(self, x: Variable) -> Variable:
        """[n, everything else]"""
        return self.paddle.flatten(x, 1)

    def positions(self, x: Variable) -> Variable:
        """What is learned of each position is added to [batch, length, width]."""
        return self.paddle.add(x, self.parameter(list(x.shape[1:]), 0.02))

    def patches(self, x: Variable, size: int, width: int) -> Variable:
        """Squares of pictures as [batch, squares, width]."""
        conv = self.made(self.nn.Conv2D(x.shape[1], width, size, size), "weight", "bias")
        x, weight = self.lower(x, conv.weight)
        squares = self.F.conv2d(x, weight, *self.lower(conv.bias), stride=size)
        return self.paddle.transpose(self.paddle.flatten(self.wide(squares), 2), [0, 2, 1])

    def with_token(self, x: Variable) -> Variable:
        """[batch, length + 1, width] with a learned vector in front."""
        token = self.parameter([1, 1, x.shape[-1]], 0.02)
        rows = self.paddle.expand(token, [x.shape[0], 1, x.shape[-1]])
        return self.paddle.concat([rows, x], axis=1)

    def first(self, x: Variable) -> Variable:
        """The first of each [batch, length, width]."""
        return x[:, 0]

    def attention(self, q: Variable, k: Variable, v: Variable, *, causal: bool = False) -> Variable:
        """softmax(q k' / sqrt(width)) v on [batch, heads, length, width]."""
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
        """A layer of a Transformer encoder on [batch, length, width], norm last or first."""
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
        """Layer norm of the last axis."""
        return self.made(self.nn.LayerNorm(x.shape[-1]), "weight", "bias")(x)

    def mean_squares(self, parameters: list[Variable]) -> Variable:
        """The sum of the means of squares."""
        return self.paddle.add_n([self.paddle.mean(w * w) for w in parameters])

    def loss(self, kind: str, values: Variable, label: Variable | None) -> Variable:
        """From the values of a model to its loss, or to what inference returns."""
        if kind == "cross_entropy":
            return self.paddle.mean(self.F.cross_entropy(values, label))
        if kind == "mean_square":
            return self.paddle.mean(values * values)
        return self.paddle.mean(values) if kind == "mean" else values

    def optimizer(self, kind: str, rate: float) -> Any:
        """The optimizer of a workload."""
        made = self.paddle.optimizer
        return {
            "sgd": lambda: made.SGD(rate),
            "momentum": lambda: made.Momentum(rate, 0.9),
            "adam": lambda: made.Adam(rate),
            "adamw": lambda: made.AdamW(rate, weight_decay=0.01),
            "lazy_adam": lambda: made.Adam(rate, lazy_mode=True),
        }[kind]()
