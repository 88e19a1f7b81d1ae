"""The networks that open_sizes.py exports, built by layers that Paddle 2.6 has, too.

Each has random parameters. None in the shape of an input is a size that an export may leave open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.vision import models


class Network(NamedTuple):
    """A function that builds a network, and its inputs: a dtype and a shape by the name."""

    build: Callable[[], Any]
    inputs: Mapping[str, tuple[str, list[int | None]]]


class Sequence(nn.Layer):
    """A network of named parts, and a function that computes with them."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, one: Any, other: Any = None) -> Any:
        """Apply the function to one input, or to two."""
        if other is None:
            return self._forward(self, one)
        return self._forward(self, one, other)


# -- words -----------------------------------------------------------------------------------------


def _encode_words(own: Any, tokens: Any) -> Any:
    places = paddle.arange(paddle.shape(tokens)[1], dtype="int64").unsqueeze(0)
    hidden = own.norm(own.words(tokens) + own.places(places))
    return own.scores(own.encoder(hidden)[:, 0])


def encoder() -> nn.Layer:
    """Build a BERT of 4 layers that classifies a sentence."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu")
    return Sequence(
        _encode_words,
        words=nn.Embedding(1000, 256),
        places=nn.Embedding(512, 256),
        norm=nn.LayerNorm(256),
        encoder=nn.TransformerEncoder(layer, 4),
        scores=nn.Linear(256, 10),
    )


def _continue_words(own: Any, tokens: Any) -> Any:
    length = paddle.shape(tokens)[1]
    places = paddle.arange(length, dtype="int64").unsqueeze(0)
    hidden = own.words(tokens) + own.places(places)
    later = paddle.triu(paddle.full([length, length], -1e9), 1)
    for norm, attention, second, up, down in own.blocks:
        normal = norm(hidden)
        heads = attention(normal).reshape([0, 0, 3, 4, 64]).transpose([2, 0, 3, 1, 4])
        query, key, value = heads[0], heads[1], heads[2]
        scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(64) + later
        mixed = paddle.matmul(F.softmax(scores), value).transpose([0, 2, 1, 3])
        hidden = hidden + mixed.reshape([0, 0, 256])
        hidden = hidden + down(F.gelu(up(second(hidden))))
    return own.scores(hidden)


def gpt() -> nn.Layer:
    """Build a decoder of 3 layers, whose mask has the size of its input."""
    network = Sequence(
        _continue_words,
        words=nn.Embedding(1000, 256),
        places=nn.Embedding(512, 256),
        norms=nn.LayerList([nn.LayerNorm(256) for _ in range(3)]),
        attentions=nn.LayerList([nn.Linear(256, 768) for _ in range(3)]),
        seconds=nn.LayerList([nn.LayerNorm(256) for _ in range(3)]),
        ups=nn.LayerList([nn.Linear(256, 1024) for _ in range(3)]),
        downs=nn.LayerList([nn.Linear(1024, 256) for _ in range(3)]),
        scores=nn.Linear(256, 1000),
    )
    names = ("norms", "attentions", "seconds", "ups", "downs")
    network.blocks = list(zip(*(getattr(network, name) for name in names), strict=True))
    return network


def transformer() -> nn.Layer:
    """Build an encoder and a decoder of two layers each."""

    def translate(own: Any, source: Any, target: Any) -> Any:
        return own.scores(own.both(own.words(source), own.words(target)))

    return Sequence(
        translate,
        words=nn.Embedding(1000, 128),
        both=nn.Transformer(128, 4, 2, 2, 512),
        scores=nn.Linear(128, 1000),
    )


def _recurrent(cell: Any, **options: Any) -> nn.Layer:
    def read(own: Any, tokens: Any) -> Any:
        hidden, _ = own.cells(own.words(tokens))
        return own.scores(paddle.max(hidden, axis=1))

    width = 256 if options.get("direction") else 128
    return Sequence(
        read,
        words=nn.Embedding(1000, 64),
        cells=cell(64, 128, **options),
        scores=nn.Linear(width, 10),
    )


def text_cnn() -> nn.Layer:
    """Build convolutions of three widths over a sentence."""

    def read(own: Any, tokens: Any) -> Any:
        words = own.words(tokens).transpose([0, 2, 1])
        found = [paddle.max(F.relu(each(words)), axis=2) for each in own.windows]
        return own.scores(paddle.concat(found, axis=1))

    windows = nn.LayerList([nn.Conv1D(128, 100, width, padding=width // 2) for width in (3, 4, 5)])
    return Sequence(read, words=nn.Embedding(1000, 128), windows=windows, scores=nn.Linear(300, 10))


def tagger() -> nn.Layer:
    """Build a temporal network of dilated convolutions, with a tag for each word."""

    def read(own: Any, tokens: Any) -> Any:
        hidden = own.words(tokens).transpose([0, 2, 1])
        for layer in own.layers_of_time:
            hidden = hidden + F.relu(layer(hidden))
        return F.softmax(own.scores(hidden.transpose([0, 2, 1])))

    layers = [nn.Conv1D(128, 128, 3, padding=2**n, dilation=2**n) for n in range(5)]
    return Sequence(
        read,
        words=nn.Embedding(1000, 128),
        layers_of_time=nn.LayerList(layers),
        scores=nn.Linear(128, 20),
    )


def deepfm() -> nn.Layer:
    """Build DeepFM: clicks by factorized features and a deep part."""

    def judge(own: Any, features: Any) -> Any:
        vectors = own.vectors(features)
        summed = paddle.square(paddle.sum(vectors, axis=1))
        second = 0.5 * paddle.sum(summed - paddle.sum(paddle.square(vectors), 1), 1, keepdim=True)
        first = paddle.sum(own.first(features), axis=1)
        return F.sigmoid(first + second + own.deep(vectors.reshape([-1, 26 * 16])))

    deep = nn.Sequential(
        nn.Linear(416, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1)
    )
    return Sequence(judge, vectors=nn.Embedding(10000, 16), first=nn.Embedding(10000, 1), deep=deep)


# -- pictures --------------------------------------------------------------------------------------


def _convolution(before: int, after: int, stride: int = 1) -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(before, after, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(after), nn.ReLU()
    )


def unet() -> nn.Layer:
    """Build a U-Net: three steps down, three up, with a skip connection at each size."""

    def segment(own: Any, picture: Any) -> Any:
        kept, hidden = [], picture
        for down in own.downs:
            hidden = down(hidden)
            kept.append(hidden)
            hidden = F.max_pool2d(hidden, 2)
        hidden = own.middle(hidden)
        for up, join, old in zip(own.ups, own.joins, reversed(kept), strict=True):
            hidden = join(paddle.concat([up(hidden), old], axis=1))
        return own.scores(hidden)

    pairs = [(3, 16), (16, 32), (32, 64)]
    return Sequence(
        segment,
        downs=nn.LayerList([_convolution(*pair) for pair in pairs]),
        middle=_convolution(64, 128),
        ups=nn.LayerList([nn.Conv2DTranspose(2 * w, w, 2, stride=2) for w in (64, 32, 16)]),
        joins=nn.LayerList([_convolution(2 * w, w) for w in (64, 32, 16)]),
        scores=nn.Conv2D(16, 4, 1),
    )


def segmenter() -> nn.Layer:
    """Build dilated pyramids over MobileNet's first layers, resized to the image."""

    def segment(own: Any, picture: Any) -> Any:
        hidden = own.backbone(picture)
        whole = own.pooled(F.adaptive_avg_pool2d(hidden, 1))
        whole = F.interpolate(whole, paddle.shape(hidden)[2:])
        found = [F.relu(each(hidden)) for each in own.pyramid]
        scores = own.scores(paddle.concat([*found, whole], axis=1))
        return F.interpolate(scores, paddle.shape(picture)[2:], mode="bilinear")

    backbone = models.mobilenet_v2(with_pool=False, num_classes=0).features[:8]
    rates = (1, 2, 4)
    pyramid = [nn.Conv2D(64, 32, 3, padding=rate, dilation=rate) for rate in rates]
    return Sequence(
        segment,
        backbone=backbone,
        pooled=nn.Conv2D(64, 32, 1),
        pyramid=nn.LayerList(pyramid),
        scores=nn.Conv2D(128, 8, 1),
    )


def recognizer() -> nn.Layer:
    """Build a text recognizer: convolutions, and a bidirectional LSTM over the columns."""

    def read(own: Any, picture: Any) -> Any:
        columns = own.convolutions(picture).squeeze(2).transpose([0, 2, 1])
        return F.softmax(own.scores(own.cells(columns)[0]))

    parts = [_convolution(3, 32, 2), _convolution(32, 64), nn.MaxPool2D(2)]
    parts += [_convolution(64, 128), nn.MaxPool2D((8, 1))]
    cells = nn.LSTM(128, 64, direction="bidirect")
    return Sequence(
        read, convolutions=nn.Sequential(*parts), cells=cells, scores=nn.Linear(128, 96)
    )


def super_resolution() -> nn.Layer:
    """Build a network that triples the size of an image, by a pixel shuffle."""
    return nn.Sequential(
        nn.Conv2D(3, 64, 5, padding=2),
        nn.Tanh(),
        nn.Conv2D(64, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2D(32, 27, 3, padding=1),
        nn.PixelShuffle(3),
    )


def autoencoder() -> nn.Layer:
    """Build strided convolutions down, and transposed ones up."""
    down = [_convolution(3, 32, 2), _convolution(32, 64, 2), _convolution(64, 64, 2)]
    up = [nn.Conv2DTranspose(64, 64, 4, 2, 1), nn.ReLU(), nn.Conv2DTranspose(64, 32, 4, 2, 1)]
    return nn.Sequential(*down, *up, nn.ReLU(), nn.Conv2DTranspose(32, 3, 4, 2, 1), nn.Sigmoid())


def vision_transformer() -> nn.Layer:
    """Build an encoder of 4 layers over the patches of an image."""

    def classify(own: Any, picture: Any) -> Any:
        patches = own.patches(picture).flatten(2).transpose([0, 2, 1])
        return own.scores(paddle.mean(own.encoder(patches + own.places), axis=1))

    layer = nn.TransformerEncoderLayer(192, 3, 768, activation="gelu")
    network = Sequence(
        classify,
        patches=nn.Conv2D(3, 192, 16, 16),
        encoder=nn.TransformerEncoder(layer, 4),
        scores=nn.Linear(192, 100),
    )
    network.places = network.create_parameter([1, 49, 192])
    return network


# images of open sizes; `_fixed` has the sizes that a network's last layer fixes
_PICTURE = {"x": ("float32", [None, 3, None, None])}
_WORDS = {"tokens": ("int64", [None, None])}


def _fixed(height: int, width: int | None, channels: int = 3) -> dict[str, Any]:
    return {"x": ("float32", [None, channels, height, width])}


_VISION = (
    *("squeezenet1_0", "squeezenet1_1", "resnet18", "mobilenet_v1", "mobilenet_v2"),
    *("mobilenet_v3_small", "mobilenet_v3_large"),
    *("resnet50", "resnext50_32x4d", "inception_v3", "densenet121"),
)

NETWORKS: dict[str, Network] = {
    "lenet": Network(models.LeNet, _fixed(28, 28, 1)),
    "unet": Network(unet, _PICTURE),
    "segmenter": Network(segmenter, _PICTURE),
    "recognizer": Network(recognizer, _fixed(32, None)),
    "super_resolution": Network(super_resolution, _PICTURE),
    "autoencoder": Network(autoencoder, _PICTURE),
    "vision_transformer": Network(vision_transformer, _fixed(112, 112)),
    "encoder": Network(encoder, _WORDS),
    "gpt": Network(gpt, _WORDS),
    "transformer": Network(
        transformer, {"source": ("int64", [None, None]), "target": ("int64", [None, None])}
    ),
    "lstm": Network(lambda: _recurrent(nn.LSTM), _WORDS),
    "gru": Network(lambda: _recurrent(nn.GRU), _WORDS),
    "lstm_both_ways": Network(lambda: _recurrent(nn.LSTM, direction="bidirect"), _WORDS),
    "text_cnn": Network(text_cnn, _WORDS),
    "tagger": Network(tagger, _WORDS),
    "deepfm": Network(deepfm, {"features": ("int64", [None, 26])}),
    **{name: Network(getattr(models, name), _PICTURE) for name in _VISION},
    # two of its outputs come from layers for this size
    "googlenet": Network(models.googlenet, _fixed(224, 224)),
    # without its three layers of 4,096 units, which hold most of its parameters
    "vgg11": Network(lambda: models.vgg11(num_classes=0), _PICTURE),
}
