"""Buckets of recurrent networks, batch statistics and metrics give the unpadded numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import fluid, nn, static
from graphopt.buckets import Buckets, multiples_of, powers_of_two
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.nn.functional.alignment import edit_distance
from graphopt.passes.padding.dims import CannotPad
from graphopt.passes.padding.mask import mask_padding
from graphopt_tests.runtime.bucket_runs import Built, Feed, assert_same

BUCKETS = Buckets(
    {"batch": powers_of_two(2), "time": multiples_of(4)},
    {"x": ("batch", "time", None), "s": ("time", "batch", None)},
)


def trained(outputs: list[Any], *wrt: Any) -> list[Any]:
    """Return a loss of all outputs, minimized by SGD, with outputs and gradients."""
    loss = sum((paddle.mean(out * out) for out in outputs), start=paddle.zeros([]))
    gradients = static.gradients([loss], list(wrt)) if wrt else []
    paddle.optimizer.SGD(0.5).minimize(loss)
    return [loss, *outputs, *gradients]


def sequences(**feeds: Callable[[Any, int, int], Any]) -> Callable[[Any, int, int], Feed]:
    """Build a feed of x [rows, length, 3], and others."""

    def feed(generator: Any, rows: int, length: int) -> Feed:
        x = generator.normal(size=(rows, length, 3)).astype("float32")
        return {"x": x} | {name: make(generator, rows, length) for name, make in feeds.items()}

    return feed


def lengths(generator: Any, rows: int, length: int) -> Any:
    """Draw lengths up to the number of steps plus one, which counts as all."""
    return generator.integers(1, length + 2, rows)


def short_lengths(generator: Any, rows: int, length: int) -> Any:
    """Draw lengths in int32."""
    return lengths(generator, rows, length).astype("int32")


def data() -> Any:
    x = static.data("x", [None, None, 3], "float32")
    x.stop_gradient = False
    return x


def network(kind: str, **given: Any) -> Callable[[], Built]:
    """Build a network of nn over x, and layers on its last step."""

    def build() -> Built:
        x = data()
        out, state = getattr(nn, kind)(3, 4, **given)(x)
        states = list(state) if isinstance(state, tuple) else [state]
        last = out[:, -1]
        return trained([out, *states, last, nn.Linear(out.shape[-1], 2)(last)], x), sequences()

    return build


def with_lengths() -> Built:
    """Build two bidirectional layers on sequences that end early."""
    x, ends = data(), static.data("ends", [None], "int64")
    out, (h, c) = nn.LSTM(3, 4, 2, "bidirect")(x, sequence_length=ends)
    # the length of a vector of zeros has no derivative
    norm = paddle.sqrt(paddle.sum(out[:, :1] * out[:, :1], -1))
    return trained([out, h, c, norm], x), sequences(ends=lengths)


def own_lengths() -> Built:
    """Build a cell that computes its own outputs past the lengths."""
    x, ends = data(), static.data("ends", [None], "int32")
    out, state = nn.RNN(nn.GRUCell(3, 4), is_reverse=True)(x, sequence_length=ends)
    return trained([out, state], x), sequences(ends=short_lengths)


def backwards() -> Built:
    """Build a walk from the last step, which reverses its inputs and outputs."""
    x = data()
    out, state = nn.RNN(nn.SimpleRNNCell(3, 4), is_reverse=True)(x)
    return trained([out, state], x), sequences()


def with_states() -> Built:
    """Build a network with fed initial states, time first."""
    s, h = static.data("s", [None, None, 3], "float32"), static.data("h", [1, None, 4], "float32")
    h.stop_gradient = False
    out, state = nn.GRU(3, 4, time_major=True)(s, h)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        return {
            "s": generator.normal(size=(length, rows, 3)).astype("float32"),
            "h": generator.normal(size=(1, rows, 4)).astype("float32"),
        }

    return trained([out, state], h), feed


def walk() -> Built:
    """Build a hand-written step whose memory grows without bound."""
    x = data()
    steps = paddle.transpose(x, [1, 0, 2])
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        now = rnn.step_input(steps)
        memory = rnn.memory(shape=[-1, 3], batch_ref=steps, init_value=1.0)
        new = memory * 2.0 + now
        rnn.update_memory(memory, new)
        rnn.step_output(new)
    out = rnn()
    scores = nn.Linear(3, 2)(out[-1] / 32.0)
    return trained([out / 8.0, scores, F.tanh(1.0 / out)], x), sequences()


def stack() -> Built:
    """Build bidirectional layers.lstm, with walks from both ends."""
    x = data()
    steps = paddle.transpose(x, [1, 0, 2])
    zeros = paddle.unsqueeze(paddle.sum(x, [1, 2]) * 0.0, [0, 2])
    first = paddle.expand(zeros, [4, -1, 4])
    out, h, c = fluid.layers.lstm(steps, first, first, 0, 4, 2, is_bidirec=True)
    return trained([out, h, c], x), sequences()


def cells() -> Built:
    """Build fluid.layers.rnn from the end."""
    x = data()
    out, state = fluid.layers.rnn(fluid.layers.GRUCell(4), x, is_reverse=True)
    return trained([out, state], x), sequences()


def normalised() -> Built:
    """Build batch norms over rows and steps, whose running statistics are state."""
    x, image = data(), static.data("image", [None, 2, 3, 3], "float32")
    steps = nn.BatchNorm1D(3, momentum=0.7, data_format="NLC")(x)
    out = static.nn.batch_norm(image, act="relu", momentum=0.5)
    fixed = static.nn.batch_norm(image, use_global_stats=True)
    scores = static.nn.batch_norm(nn.Linear(18, 4)(paddle.flatten(out, 1)))

    def pixels(generator: Any, rows: int, length: int) -> Any:
        return generator.normal(3.0, 2.0, (rows, 2, 3, 3)).astype("float32")

    weight = static.default_main_program().all_parameters()[0]
    return trained([steps * 2, out, fixed, scores * scores], x, weight), sequences(image=pixels)


def metrics() -> Built:
    """Build counts of correct predictions, in all and in this batch."""
    x, answer = static.data("image", [None, 3], "float32"), static.data("answer", [None, 1])
    label = paddle.cast(answer, "int64")
    scores = F.softmax(nn.Linear(3, 3)(x))
    right, all_ = (paddle.zeros([1], "int32") for _ in range(2))
    share = static.accuracy(scores, label, 1, right, all_)
    second = static.accuracy(scores, label, 2)
    pair = F.softmax(nn.Linear(3, 2)(x))
    area, recent, _ = static.auc(pair, paddle.cast(label > 0, "int64"), num_thresholds=31)
    loss = F.cross_entropy(scores, label, use_softmax=False)
    paddle.optimizer.SGD(0.5).minimize(loss)
    tokens = [static.data(name, [None, 4], "int64") for name in ("a", "b")]
    ends = [static.data(name, [None], "int64") for name in ("a_end", "b_end")]
    distance, count = edit_distance(*tokens, False, None, *ends)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        return {
            "image": generator.normal(size=(rows, 3)).astype("float32"),
            "answer": generator.integers(0, 3, (rows, 1)).astype("float32"),
            **{name: generator.integers(0, 3, (rows, 4)) for name in ("a", "b")},
            **{name: generator.integers(1, 5, rows) for name in ("a_end", "b_end")},
        }

    found = [loss, share, second, right, all_, area, recent]
    return [*found, distance, count, paddle.mean(distance)], feed


def branches() -> Built:
    """Build a data-dependent loop, then a branch."""
    x, k = static.data("image", [None, 3], "float32"), static.data("k", [None, 1], "int64")
    step = nn.Linear(3, 3)
    longest, i = paddle.max(k), paddle.full([], 0, "int64")
    _, h = static.nn.while_loop(
        lambda i, h: i < longest, lambda i, h: [i + 1, paddle.tanh(step(h))], [i, step(x)]
    )
    out = static.nn.cond(paddle.sum(h) > 0, lambda: h * 2, lambda: h * paddle.mean(h))

    def feed(generator: Any, rows: int, length: int) -> Feed:
        x = generator.normal(size=(rows, 3)).astype("float32")
        return {"image": x, "k": generator.integers(0, 4, (rows, 1))}

    return trained([h, out]), feed


NETWORKS = {
    "lstm": network("LSTM"),
    "lstm-layers": network("LSTM", num_layers=2, direction="bidirect"),
    "lstm-projected": network("LSTM", proj_size=2),
    "gru": network("GRU", direction="bidirect"),
    "rnn": network("SimpleRNN", num_layers=2, activation="relu"),
    "lengths": with_lengths,
    "own-lengths": own_lengths,
    "backwards": backwards,
    "states": with_states,
    "walk": walk,
    "stack": stack,
    "cells": cells,
}
AXES = {**BUCKETS.axes, "ends": ("batch",), "h": (None, "batch", None)}


OTHERS = {"normalised": normalised, "metrics": metrics, "if": branches}
# one of each kind; the rest take long
OF_EACH_KIND = ("walk", "lengths", *OTHERS)


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.exhaustive if name in OF_EACH_KIND else pytest.mark.slow]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks_of(name)) for name in (*NETWORKS, *OTHERS)],
)
def test_results_are_those_of_the_feed(name: str) -> None:
    stats = assert_same((NETWORKS | OTHERS)[name], Buckets(BUCKETS.sizes, AXES))
    assert stats["compiled_shapes"] <= 4


def plain(*shape: int) -> Any:
    """Declare a feed that is not padded."""
    return static.data("z", [None, *shape], "float32")


def joined(x: Any) -> Any:
    return paddle.flip(paddle.reshape(x, [-1, 3]), [0])


def two_walks(x: Any) -> Any:
    rnn = fluid.layers.StaticRNN()
    steps = paddle.transpose(x, [1, 0, 2])
    with rnn.step():
        rnn.step_output(paddle.mean(rnn.step_input(steps)) + rnn.step_input(plain(3)))
    return rnn()


def grows(x: Any) -> Any:
    """Build a loop whose value is another feed first, then has the rows of x."""
    i, rows = paddle.full([], 0, "int64"), paddle.mean(x, 1)
    return static.nn.while_loop(
        lambda i, h: i < 2, lambda i, h: [i + 1, rows * 2.0], [i, plain(3)]
    )[1]


def lstm(x: Any) -> Any:
    return nn.LSTM(3, 4)(x, sequence_length=static.data("lens", [None], "int64"))[0]


def accuracy(x: Any) -> Any:
    return static.accuracy(paddle.mean(x, 1), static.data("label", [None, 1], "int64"))


def channels(x: Any) -> Any:
    """Build statistics of each step, whose number of parameters is unknown."""
    mean, variance = (static.data(name, [None], "float32") for name in ("mean", "variance"))
    return F.batch_norm(x, mean, variance, training=True)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda x: x[:, 1:3], "counts-rows: pd.slice"),
        (lambda x: x[:, -2:-1], "counts-rows: pd.slice"),
        (joined, "joined-rows: pd.flip"),
        (lambda x: joined(x)[-1], "joined-rows"),
        (lstm, "different-padding: pd.rnn"),
        (lambda x: nn.LSTM(3, 4)(x, (plain(2, 4), plain(2, 4)))[0], "different-padding: pd.rnn"),
        (two_walks, "different-padding: pd.scan"),
        (grows, "different-padding: pd.while"),
        (
            lambda x: static.nn.cond(
                paddle.sum(x) > 0, lambda: paddle.mean(x, 1), lambda: plain(3)
            ),
            "different-padding: pd.if",
        ),
        (
            lambda x: static.nn.cond(paddle.sum(x) > 0, lambda: x[:, :2], lambda: x),
            "counts-rows: pd.slice",
        ),
        (accuracy, "different-padding: pd.accuracy"),
        (channels, "padded-axis: pd.batch_norm"),
    ],
)
def test_refusals_name_the_op(use: Any, reason: str) -> None:
    with static.program_guard(static.Program(), static.Program()):
        x = data()
        out = use(x)
        main = static.default_main_program()
        feeds = tuple(v.name for v in main.list_vars() if v.is_data)
        axes = {name: (None,) * len(main.global_block().var(name).shape) for name in feeds}
        axes["x"] = (("batch",), ("time",), None)
        module = parse_program(main, feeds, (out.name,))
        before = str(module)
        with pytest.raises(CannotPad) as caught:
            mask_padding(module, axes)
    found = caught.value.reason
    assert f"{found.name}: {found.text}".startswith(reason)
    assert str(module) == before
