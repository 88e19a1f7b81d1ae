"""Batches that do not divide by the number of devices: the mean of the devices' own results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedSizeError
from graphopt.ir.program import Variable
from graphopt_tests.runtime.nets import (
    Net,
    build,
    close,
    fc_mean,
    regression,
    regression_feed,
    rows,
    value,
)

NAMES = ("w", "b")


def parts(feed: dict[str, Any], devices: int) -> list[dict[str, Any]]:
    """Split a feed into chunks as Paddle does."""
    count = len(feed["x"])
    step = -(-count // devices)
    return [{n: a[i : i + step] for n, a in feed.items()} for i in range(0, count, step)]


def mean_gradients(net: Net, chunks: list[dict[str, Any]]) -> list[Any]:
    """Average the gradients that a plain program gives for each chunk."""
    names = [f"{name}@GRAD" for name in NAMES]
    state = {name: value(name) for name in NAMES}
    found: list[list[Any]] = []
    for chunk in chunks:
        found.append(net.run(chunk, names))
        for name, array in state.items():
            slot = static.global_scope().find_var(name)
            assert slot is not None
            slot.get_tensor().set(array)
    return [np.mean(of_all, axis=0) for of_all in zip(*found, strict=True)]


@pytest.mark.every(3)
@pytest.mark.parametrize(("devices", "count"), [(2, 5), (3, 7), (4, 10)])
def test_gradient_is_the_mean_of_the_devices_means(devices: int, count: int) -> None:
    """The gradient is the mean of plain runs of each chunk, not the mean over all rows."""
    net = regression()
    feed = regression_feed(count)
    wanted = mean_gradients(net, parts(feed, devices))
    found = net.run(feed, [f"{name}@GRAD" for name in NAMES], net.parallel(devices))
    for gradient, mean in zip(found, wanted, strict=True):
        close(gradient, np.concatenate([mean] * devices))
    net.start()
    (whole,) = net.run(feed, "w@GRAD")
    assert np.abs(whole - wanted[0]).max() > 1e-4


def test_a_warning_says_that_rows_weigh_differently() -> None:
    """Unequal rows give one warning for a program; equal rows give none."""
    net = regression()
    program = net.parallel(2)
    net.run(regression_feed(4), net.loss, program)
    with pytest.warns(UserWarning, match=r"the 5 rows of '.' are split over 2 devices unequally"):
        net.run(regression_feed(5), net.loss, program)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.run(regression_feed(5), net.loss, program)


def test_list_feeds_of_different_sizes() -> None:
    """Each element is one device's batch, whatever its size."""
    net = regression()
    chunks = [regression_feed(count, seed=count) for count in (1, 4, 2)]
    wanted = mean_gradients(net, chunks)
    found = net.run(chunks, [f"{name}@GRAD" for name in NAMES], net.parallel(3))
    for gradient, mean in zip(found, wanted, strict=True):
        close(gradient, np.concatenate([mean] * 3))


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: paddle.optimizer.SGD(0.1, weight_decay=0.01),
        lambda: paddle.optimizer.Momentum(0.1, 0.9),
        lambda: paddle.optimizer.Adam(0.1),
        lambda: paddle.optimizer.AdamW(0.1, weight_decay=0.1),
        lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
        lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByNorm(0.3)),
        lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByValue(0.2)),
    ],
    ids=["sgd-l2", "momentum", "adam", "adamw", "global-norm", "norm", "value"],
)
def test_even_batches_train_as_one_device(optimizer: Callable[[], Any]) -> None:
    """Clipping and decay see the averaged gradient, so the weights equal one device's."""
    net = regression(optimizer)
    feeds = [regression_feed(4, seed=number) for number in range(3)]
    ends: list[list[Any]] = []
    for program in (None, net.parallel(2)):
        net.start()
        for feed in feeds:
            net.run(feed, (), program)
        ends.append([value(name) for name in NAMES])
    for one, two in zip(*ends, strict=True):
        close(two, one, 1e-6)


@pytest.mark.exhaustive
def test_both_executables_share_the_state() -> None:
    """Even and uneven batches in turn continue from the same parameters and moments."""
    net = regression(lambda: paddle.optimizer.Adam(0.1))
    program = net.parallel(2)
    for count in (4, 3, 4, 5, 4):
        net.run(regression_feed(count), net.loss, program)
    mixed = value("w")
    assert program.stats["mapper"] == "shard_map"
    net.start()
    again = net.parallel(2)
    for count in (4, 3, 4, 5, 4):
        chunks = parts(regression_feed(count), 2)
        net.run(chunks, net.loss, again)
    close(value("w"), mixed, 1e-6)


def test_which_mapper_ran() -> None:
    """`stats` reports SPMD for equal parts, lockstep for others, no mapping on one device."""
    net = fc_mean(train=False)
    for devices, count, mapper, used in (
        (1, 3, "alone", 1),
        (2, 4, "shard_map", 2),
        (2, 3, "lockstep", 2),
        (9, 9, "vmap", 9),
        (4, 3, "shard_map", 3),
        (4, 1, "alone", 1),
        (9, 17, "lockstep", 9),
    ):
        program = net.parallel(devices)
        (out,) = net.run(rows(*range(count)), net.out, program)
        close(out, 2.0 * np.arange(count)[:, None])
        assert (program.stats["mapper"], program.stats["devices"]) == (mapper, used)


def test_too_few_rows_change_nothing() -> None:
    """The error comes before the step."""
    net = fc_mean()
    program = net.parallel(4)
    with pytest.raises(FeedSizeError, match=r"number\(3\) of samples"):
        net.run(rows(*range(5)), net.loss, program)
    close(value("w"), [[2.0]])


def test_operators_that_look_at_the_whole_batch() -> None:
    """Softmax over rows and a sum of squares see only the device's own rows."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 2], "float32")
        out = paddle.nn.functional.softmax(x, axis=0)
        return paddle.sum(paddle.square(x)), out

    net = build(make)
    feed = {"x": regression_feed(5, width=2)["x"]}
    loss, out = net.run(feed, (net.loss, net.out), net.parallel(2))
    chunks = feed["x"][:3].astype("float64"), feed["x"][3:].astype("float64")
    close(loss, [np.square(chunk).sum() for chunk in chunks])
    close(out, np.concatenate([np.exp(c) / np.exp(c).sum(0) for c in chunks]))
