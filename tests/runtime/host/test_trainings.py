"""Training steps in the host form: the numbers, the next form, and trainings without one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.nn import functional as F
from graphopt.runtime.compile import compiled as compiled_program
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.state import generator
from graphopt.runtime.steps import facts, forms, policy
from graphopt_tests.runtime.nets import Net, build, close, parameter, value

Array = np.ndarray[Any, Any]
Made = tuple[Any, Any]


@pytest.fixture(autouse=True)
def _first(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let programs of any size begin in the host form, and run background work at once."""
    monkeypatch.setattr(policy, "TINY", 0)
    monkeypatch.setattr(policy, "SMALL", 0)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(compiled_program, "SECONDS", 60.0)
    yield
    paddle.set_flags({TIER: "full"})


def images() -> Made:
    """Build convolutions in groups and with strides, batch norms, pools and a dropout."""
    x = static.data("x", [None, 4, 9, 8], "float32")
    y = static.data("y", [None, 1], "int64")
    hidden = F.relu(static.nn.batch_norm(static.nn.conv2d(x, 8, 3, stride=2, padding=1)))
    hidden = static.nn.conv2d(hidden, 8, 3, padding=1, groups=8) + hidden
    hidden = F.max_pool2d(F.gelu(nn.Conv2D(8, 6, 3, padding=2, dilation=2, groups=2)(hidden)), 2)
    hidden = F.avg_pool2d(hidden, 3, stride=1, padding=1)
    scores = static.nn.fc(F.dropout(hidden, 0.3), 5)
    loss = paddle.mean(F.cross_entropy(scores, y))
    paddle.optimizer.Momentum(0.05, 0.9, weight_decay=0.01).minimize(loss)
    return loss, scores


def texts() -> Made:
    """Build an encoder over words with a mask."""
    x = static.data("x", [None, None], "int64")
    y = static.data("y", [None, 1], "int64")
    words = nn.Embedding(20, 16, padding_idx=0)(x)
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.2, activation="gelu")
    mask = paddle.unsqueeze((x == 0).astype("float32") * -1e4, [1, 2])
    hidden = nn.LayerNorm(16)(nn.TransformerEncoder(layer, 2)(words, mask))
    pooled = F.dropout(hidden.mean(axis=1), 0.4, training=False, mode="downscale_in_infer")
    scores = static.nn.fc(pooled, 5, activation="tanh")
    loss = paddle.mean(F.cross_entropy(scores, y, label_smoothing=0.1))
    clip = nn.ClipGradByGlobalNorm(0.5)
    paddle.optimizer.Momentum(0.05, 0.9, grad_clip=clip).minimize(loss)
    return loss, scores


def recurrent() -> Made:
    """Build recurrent layers over words, with one weight used twice."""
    x = static.data("x", [None, None], "int64")
    y = static.data("y", [None, 1], "int64")
    hidden, _ = nn.GRU(8, 6, direction="bidirect")(nn.Embedding(20, 8)(x))
    weight = parameter("twice", np.eye(12) + 0.1)
    hidden = paddle.matmul(paddle.matmul(hidden, weight), weight, transpose_y=True)
    scores = static.nn.fc(paddle.max(hidden, axis=1), 5)
    loss = paddle.mean(F.cross_entropy(scores, y, reduction="none"))
    paddle.optimizer.Adagrad(0.05).minimize(loss)
    return loss, scores


def half(dtype: str) -> Made:
    """Build layers in half precision, with a loss scale that overflows at first."""
    x = static.data("x", [None, 8], "float32")
    y = static.data("y", [None, 1], "int64")
    hidden = x
    for _ in range(2):
        hidden = F.layer_norm(F.gelu(static.nn.fc(hidden, 12)) * 3.0, [12])
    scores = static.nn.fc(F.dropout(hidden, 0.2), 5)
    loss = paddle.mean(F.cross_entropy(scores, y))
    scaled = static.amp.decorate(
        paddle.optimizer.Momentum(0.05, grad_clip=nn.ClipGradByGlobalNorm(1.0)),
        init_loss_scaling=2.0**24,
        decr_every_n_nan_or_inf=1,
        use_dynamic_loss_scaling=dtype == "float16",
        dtype=dtype,
    )
    paddle.incubate.optimizer.GradientMergeOptimizer(scaled, k_steps=2).minimize(loss)
    return loss, scaled.get_loss_scaling() if dtype == "float16" else scores


def float16() -> Made:
    return half("float16")


def bfloat16() -> Made:
    return half("bfloat16")


def feed(make: Callable[[], Made], step: int = 0) -> dict[str, Array]:
    """Draw the feeds of a step; each step's texts have another length."""
    random, rows = np.random.default_rng(step), 5
    x = random.integers(0, 20, (rows, 3 + step % 3))
    if make is images:
        x = random.normal(size=(rows, 4, 9, 8)).astype("float32")
    elif make in (float16, bfloat16):
        x = random.normal(size=(rows, 8)).astype("float32")
    return {"x": x, "y": random.integers(0, 5, (rows, 1))}


def trained(make: Callable[[], Made], tier: str, *, seed: int = 0, runs: int = 4) -> list[Any]:
    """Train for some steps in forms of this tier; return losses and parameters."""
    paddle.set_flags({TIER: tier, "FLAGS_graphopt_buckets": "off"})
    try:
        with static.scope_guard(static.Scope()):
            generator.default_generator()._step = 0
            net = started(make, seed)
            found = [net.run(feed(make, step), net.loss)[0] for step in range(runs)]
            assert form_of(net).startswith(tier if tier != "auto" else ("host", "full"))
            return found + [value(each.name) for each in net.main.all_parameters()]
    finally:
        paddle.set_flags({"FLAGS_graphopt_buckets": "auto"})


def started(make: Callable[[], Made], seed: int = 0) -> Net:
    """Build a net with the same initial numbers, whatever the seed of its training."""
    net = build(make, 3)
    net.main.random_seed = seed
    return net


def form_of(net: Net) -> str:
    return [text for text in net.executor.stats["tiers"] if "startup" not in text][-1]


@pytest.mark.parametrize("make", [images, texts, recurrent])
def test_the_numbers_are_those_of_the_full_form(make: Callable[[], Made]) -> None:
    """Losses and parameters of some steps agree, with the same dropout masks."""
    for found, wanted in zip(trained(make, "host"), trained(make, "full"), strict=True):
        close(found, wanted, 2e-4)


@pytest.mark.parametrize("make", [float16, bfloat16])
def test_half_precision_overflows_where_the_full_form_does(make: Callable[[], Made]) -> None:
    """Both forms skip updates in the same steps, and lower the loss scale."""
    runs: dict[str, list[Array]] = {}
    for tier in ("host", "full"):
        paddle.set_flags({TIER: tier})
        with static.scope_guard(static.Scope()):
            generator.default_generator()._step = 0
            net = started(make)
            runs[tier] = [
                np.asarray(one, "float64").reshape(-1)
                for step in range(12)
                for one in net.executor.run(
                    net.main, feed=feed(make, step), fetch_list=[net.loss, net.out]
                )
            ]
            assert form_of(net).startswith(tier)
    for found, wanted in zip(runs["host"], runs["full"], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)
    if make is float16:
        scales = [float(one[0]) for one in runs["host"][1::2]]
        assert scales[-1] < scales[0] / 16 and scales == [
            float(one[0]) for one in runs["full"][1::2]
        ]


def test_the_full_form_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The full form continues from the state that NumPy trained."""
    monkeypatch.setattr(policy, "PATIENCE", 0.0)
    for found, wanted in zip(trained(images, "auto"), trained(images, "full"), strict=True):
        close(found, wanted, 2e-4)


def test_a_seed_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a seed, the full form follows after a fixed number of runs, whatever is ready."""
    monkeypatch.setattr(policy, "SEEDED_MOST", 2)
    runs: list[list[bytes]] = []
    for works in (True, False):
        monkeypatch.setattr(forms, "submit", lambda work, works=works: works and work.work())
        runs.append([each.tobytes() for each in trained(images, "auto", seed=5)])
    assert runs[0] == runs[1]


def test_a_seed_lets_no_time_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a seed, a step has no time limit."""
    net = started(images, 5)
    monkeypatch.setattr(compiled_program, "SECONDS", 0.0)
    monkeypatch.setattr(compiled_program, "PER_OP", 0.0)
    monkeypatch.setattr(facts, "SHARE", np.inf)
    paddle.set_flags({TIER: "auto"})
    net.run(feed(images), net.loss)
    assert form_of(net).startswith("host: it trains from a seed")


def test_threads_train_one_after_the_other() -> None:
    """When two threads train one weight, no step is lost: each loss occurs once."""

    def make() -> Made:
        x = static.data("x", [4], "float32")
        loss = paddle.sum(x * parameter("w", np.zeros(4)))
        paddle.optimizer.SGD(1.0).minimize(loss)
        return loss, loss

    net, found = build(make), list[float]()
    paddle.set_flags({TIER: "host"})
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def train() -> None:
        for _ in range(200):
            found.append(float(net.run({"x": np.ones(4, "float32")}, net.loss)[0]))

    try:
        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sorted(found, reverse=True) == [-4.0 * step for step in range(400)]


@pytest.mark.parametrize("what", ["large", "recomputed", "a loop", "drawn"])
def test_trainings_without_a_host_form(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large products, XLA's draws, recomputed operators and loops have no host form."""

    def make() -> Made:
        x = static.data("x", [None, 8], "float32")
        hidden = static.nn.fc(x, 8)
        if what == "a loop":
            count = paddle.full([1], 0, "int64")
            _, hidden = static.nn.while_loop(
                lambda i, _: paddle.less_than(i, paddle.full([1], 3, "int64")),
                lambda i, each: (i + 1, paddle.tanh(each)),
                [count, hidden],
            )
        if what == "drawn":
            hidden = hidden * paddle.bernoulli(paddle.full([8], 0.5))
        middle = F.relu(hidden)
        loss = paddle.mean(static.nn.fc(middle, 4))
        optimizer = paddle.optimizer.SGD(0.1)
        if what == "recomputed":
            optimizer = paddle.incubate.optimizer.RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints([middle])
        optimizer.minimize(loss)
        return loss, hidden

    net = build(make)
    paddle.set_flags({TIER: "auto"})
    rows = 4 if what == "large" else 2
    if what == "large":
        net.executor.run(net.main, feed={"x": np.ones((2, 8), "float32")}, fetch_list=[net.loss])
        assert form_of(net).startswith("host")
        monkeypatch.setattr(facts, "SHARE", 0.0)
    net.run({"x": np.ones((rows, 8), "float32")}, net.loss)
    assert not form_of(net).startswith("host")
