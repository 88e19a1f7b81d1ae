"""Small networks with fixed weights, for comparisons with trainings in Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import fluid, static

F = paddle.nn.functional


def values(shape: tuple[int, ...], seed: int) -> Any:
    """Draw normal numbers of deviation 0.3."""
    return (np.random.RandomState(seed).randn(*shape) * 0.3).astype("float32")


def attr(name: str, shape: tuple[int, ...], seed: int) -> Any:
    """Return a parameter attribute with these numbers."""
    return paddle.ParamAttr(name, paddle.nn.initializer.Assign(values(shape, seed)))


def fluid_attr(name: str, shape: tuple[int, ...], seed: int) -> Any:
    """Return the same attribute under the names of Paddle 1.8."""
    return fluid.ParamAttr(name, fluid.initializer.NumpyArrayInitializer(values(shape, seed)))


def mlp(x: Any, y: Any) -> Any:
    hidden = static.nn.fc(x, 16, activation="relu", weight_attr=attr("w1", (8, 16), 1))
    logits = static.nn.fc(hidden, 10, weight_attr=attr("w2", (16, 10), 2))
    return paddle.mean(F.cross_entropy(logits, y))


def conv(x: Any, y: Any) -> Any:
    image = paddle.reshape(x, [-1, 2, 2, 2])
    weights = attr("c1", (4, 2, 3, 3), 3)
    made = static.nn.conv2d(image, 4, 3, padding=1, bias_attr=False, param_attr=weights)
    pooled = F.avg_pool2d(static.nn.batch_norm(made, act="relu"), 2)
    logits = static.nn.fc(pooled, 10, weight_attr=attr("w3", (4, 10), 4))
    return paddle.mean(F.softmax_with_cross_entropy(logits, y))


def dropped(x: Any, y: Any) -> Any:
    """Build a convolution with maximum pooling and dropout."""
    image = paddle.reshape(x, [-1, 2, 2, 2])
    made = static.nn.conv2d(image, 4, 3, padding=1, bias_attr=False)
    pooled = F.max_pool2d(static.nn.batch_norm(made, act="relu"), 2)
    logits = static.nn.fc(F.dropout(pooled, 0.5), 10)
    return paddle.mean(F.softmax_with_cross_entropy(logits, y))


def attention(x: Any, y: Any) -> Any:
    """Build attention with operators of every list, casts of the script and several readers."""
    embedded = static.nn.embedding(y, [10, 8])
    rows = paddle.concat([paddle.unsqueeze(x, 1), embedded], 1)
    scores = F.softmax(paddle.matmul(rows, rows, transpose_y=True) * 0.5)
    out = static.nn.layer_norm(paddle.matmul(scores, rows) + rows, begin_norm_axis=2)
    out = F.gelu(static.nn.fc(out, 16, num_flatten_dims=2))
    out = paddle.split(paddle.cast(out, "float32"), 2, axis=-1)[0] + 1.0
    return paddle.mean(paddle.square(static.nn.fc(paddle.sum(paddle.exp(out), axis=1), 1)))


def fluid_mlp(x: Any, y: Any) -> Any:
    layers = fluid.layers
    hidden = layers.fc(x, 16, act="relu", param_attr=fluid_attr("w1", (8, 16), 1))
    made = layers.fc(hidden, 10, act="softmax", param_attr=fluid_attr("w2", (16, 10), 2))
    return layers.mean(layers.cross_entropy(made, y))


def fluid_conv(x: Any, y: Any) -> Any:
    layers = fluid.layers
    image = layers.reshape(x, [-1, 2, 2, 2])
    weights = fluid_attr("c1", (4, 2, 3, 3), 3)
    made = layers.conv2d(image, 4, 3, padding=1, bias_attr=False, param_attr=weights)
    pooled = layers.pool2d(layers.batch_norm(made, act="relu"), 2, "avg")
    logits = layers.fc(pooled, 10, param_attr=fluid_attr("w3", (4, 10), 4))
    return layers.mean(layers.softmax_with_cross_entropy(logits, y))


def batch(step: int) -> dict[str, Any]:
    """Return the feed of a step: one of three batches in turn."""
    rng = np.random.RandomState(0)
    rows = [rng.randn(4, 8).astype("float32") for _ in range(3)]
    labels = [rng.randint(0, 10, (4, 1)) for _ in range(3)]
    return {"x": rows[step % 3], "y": labels[step % 3]}
