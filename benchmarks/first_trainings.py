"""The networks that first_result.py trains, built by functions that Paddle 2.6 has, too.

Each makes the operators of its loss in the default program. It returns the loss, the optimizer, and
a function from a NumPy generator to the feed of a step. `build` adds the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle import nn, static
from paddle.nn import functional as F

Feed = dict[str, Any]


class Training(NamedTuple):
    """A loss, the optimizer that minimizes it, and a function that makes the feed of a step."""

    loss: Any
    optimizer: Any
    feed: Callable[[np.random.Generator], Feed]
    scaled: Any = None
    """The optimizer with loss scaling, which has initial values to set."""


def _half(optimizer: Any) -> tuple[Any, Any]:
    """Wrap an optimizer for half precision with a dynamic scale, over two batches.

    Returns it and the wrapper that scales the loss.
    """
    lists = static.amp.AutoMixedPrecisionLists(custom_white_list={"matmul_v2", "mul"})
    scaled = static.amp.decorate(
        optimizer, lists, init_loss_scaling=1024.0, use_dynamic_loss_scaling=True
    )
    merging = paddle.incubate.optimizer.GradientMergeOptimizer(scaled, k_steps=2, avg=True)
    return merging, scaled


def _encoder(width: int, heads: int, layers: int, words: int, length: int) -> Any:
    """Build a sentence classifier: an encoder with dropout, and the loss of its first word."""
    tokens = static.data("tokens", [None, length], "int64")
    label = static.data("label", [None, 1], "int64")
    places = paddle.arange(length, dtype="int64").unsqueeze(0)
    hidden = nn.Embedding(words, width)(tokens) + nn.Embedding(length, width)(places)
    hidden = F.dropout(nn.LayerNorm(width)(hidden), 0.1)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, activation="gelu")
    hidden = nn.TransformerEncoder(layer, layers)(hidden)
    scores = nn.Linear(width, 10)(F.dropout(hidden[:, 0], 0.1))
    return paddle.mean(F.cross_entropy(scores, label))


def _words(rows: int, words: int, length: int) -> Callable[[np.random.Generator], Feed]:
    def feed(chance: np.random.Generator) -> Feed:
        tokens = chance.integers(0, words, (rows, length))
        return {"tokens": tokens, "label": tokens[:, :1] % 10}

    return feed


def encoder() -> Training:
    """Build two small Transformer layers: half precision, merged gradients, a clipped norm."""
    loss = _encoder(64, 4, 2, 100, 16)
    clip = nn.ClipGradByGlobalNorm(1.0)
    optimizer, scaled = _half(paddle.optimizer.AdamW(1e-3, grad_clip=clip))
    return Training(loss, optimizer, _words(8, 100, 16), scaled)


def bert_mini() -> Training:
    """Build four layers of width 256: half precision, merged gradients, a clipped norm."""
    loss = _encoder(256, 4, 4, 1000, 32)
    clip = nn.ClipGradByGlobalNorm(1.0)
    optimizer, scaled = _half(paddle.optimizer.AdamW(1e-4, grad_clip=clip))
    return Training(loss, optimizer, _words(4, 1000, 32), scaled)


def texts() -> Training:
    """Draw sentences padded to the longest of their batch: almost each batch has another length."""
    tokens = static.data("tokens", [None, None], "int64")
    mask = static.data("mask", [None, None], "float32")
    label = static.data("label", [None, 1], "int64")
    places = paddle.arange(paddle.shape(tokens)[1])
    hidden = nn.Embedding(2000, 128)(tokens) + nn.Embedding(512, 128)(places)
    hidden = F.dropout(nn.LayerNorm(128)(hidden), 0.1)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1)
    hidden = nn.TransformerEncoder(layer, 4)(hidden, (mask.unsqueeze([1, 2]) - 1) * 1e4)
    loss = paddle.mean(F.cross_entropy(nn.Linear(128, 5)(hidden[:, 0]), label))

    def feed(chance: np.random.Generator) -> Feed:
        shape = 16, int(chance.integers(16, 96))
        lengths = chance.integers(8, shape[1] + 1, (16, 1))
        return {
            "tokens": chance.integers(0, 2000, shape),
            "mask": (np.arange(shape[1]) < lengths).astype("float32"),
            "label": chance.integers(0, 5, (16, 1)),
        }

    return Training(loss, paddle.optimizer.AdamW(1e-3), feed)


def resnet18() -> Training:
    """Build ResNet-18 on small images."""
    image = static.data("image", [None, 3, 32, 32], "float32")
    label = static.data("label", [None, 1], "int64")
    scores = paddle.vision.models.resnet18(num_classes=10)(image)
    loss = paddle.mean(F.cross_entropy(scores, label))

    def feed(chance: np.random.Generator) -> Feed:
        pictures = chance.standard_normal((4, 3, 32, 32)).astype("float32")
        return {"image": pictures, "label": chance.integers(0, 10, (4, 1))}

    return Training(loss, paddle.optimizer.Momentum(0.01, 0.9, weight_decay=1e-4), feed)


def bi_lstm() -> Training:
    """Build an LSTM that reads sentences in both directions."""
    tokens = static.data("tokens", [None, 20], "int64")
    label = static.data("label", [None, 1], "int64")
    hidden, _ = nn.LSTM(32, 32, direction="bidirect")(nn.Embedding(100, 32)(tokens))
    scores = nn.Linear(64, 10)(F.dropout(paddle.max(hidden, axis=1), 0.2))
    loss = paddle.mean(F.cross_entropy(scores, label))
    optimizer = paddle.optimizer.Adam(1e-3, grad_clip=nn.ClipGradByGlobalNorm(5.0))
    return Training(loss, optimizer, _words(8, 100, 20))


def deepfm() -> Training:
    """Build DeepFM: clicks by factorized features and a deep part."""
    fields, width = 20, 8
    features = static.data("features", [None, fields], "int64")
    label = static.data("label", [None, 1], "float32")
    first = paddle.sum(nn.Embedding(1000, 1)(features), axis=1)
    vectors = nn.Embedding(1000, width)(features)
    summed = paddle.square(paddle.sum(vectors, axis=1))
    second = 0.5 * paddle.sum(summed - paddle.sum(paddle.square(vectors), 1), 1, keepdim=True)
    deep = paddle.reshape(vectors, [-1, fields * width])
    for size in (64, 64, 32):
        deep = F.dropout(F.relu(nn.Linear(deep.shape[-1], size)(deep)), 0.2)
    score = first + second + nn.Linear(32, 1)(deep)
    loss = paddle.mean(F.binary_cross_entropy_with_logits(score, label))

    def feed(chance: np.random.Generator) -> Feed:
        rows = chance.integers(0, 1000, (32, fields))
        return {"features": rows, "label": (rows[:, :1] % 2).astype("float32")}

    return Training(loss, paddle.optimizer.Adam(1e-3), feed)


def critic() -> Training:
    """Build the half of a convolutional GAN that judges the other half's images."""
    noise = static.data("noise", [None, 16], "float32")
    real = static.data("real", [None, 1, 16, 16], "float32")
    made = F.relu(nn.BatchNorm1D(8 * 16)(nn.Linear(16, 8 * 16)(noise)))
    made = nn.Conv2DTranspose(8, 8, 4, stride=2, padding=1)(made.reshape([-1, 8, 4, 4]))
    made = nn.Conv2DTranspose(8, 1, 4, stride=2, padding=1)(F.relu(nn.BatchNorm2D(8)(made)))
    layers = [nn.Conv2D(1, 8, 4, 2, 1), nn.Conv2D(8, 16, 4, 2, 1), nn.Linear(16 * 16, 1)]

    def judged(picture: Any) -> Any:
        hidden = F.dropout(F.leaky_relu(layers[0](picture), 0.2), 0.3)
        hidden = F.dropout(F.leaky_relu(layers[1](hidden), 0.2), 0.3)
        return layers[2](hidden.flatten(1))

    one, other = judged(real), judged(paddle.tanh(made))
    loss = paddle.mean(F.softplus(-one)) + paddle.mean(F.softplus(other))

    def feed(chance: np.random.Generator) -> Feed:
        drawn = chance.standard_normal((8, 16)), chance.standard_normal((8, 1, 16, 16))
        return dict(zip(("noise", "real"), [each.astype("float32") for each in drawn], strict=True))

    return Training(loss, paddle.optimizer.Adam(2e-4, beta1=0.5), feed)


NETWORKS = {
    network.__name__: network
    for network in (resnet18, bert_mini, encoder, texts, bi_lstm, deepfm, critic)
}


def begin(name: str, seed: int | None) -> Callable[[np.random.Generator], Any]:
    """Return a function that runs a step of a network on a new feed, and returns the loss.

    The startup program has run by then.
    """
    paddle.enable_static()
    if seed is not None:
        paddle.seed(seed)
    training = NETWORKS[name]()
    training.optimizer.minimize(training.loss)
    place = paddle.CPUPlace()
    exe = static.Executor(place)
    exe.run(static.default_startup_program())
    if training.scaled is not None:
        training.scaled.amp_init(place)
    return lambda chance: exe.run(feed=training.feed(chance), fetch_list=[training.loss])[0]
