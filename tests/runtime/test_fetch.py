"""Fetch lists: their forms, the possible fetches, and the merging of several devices' values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, FetchError
from graphopt.ir.program import Variable
from graphopt.runtime.feeds.fetch import merge_replicas
from graphopt_tests.frontend.programs import fresh, run, start
from graphopt_tests.runtime.nets import (
    build,
    close,
    fc_mean,
    regression,
    regression_feed,
    rows,
    value,
)

FEED = rows(0, 1, 2, 3)


def test_forms_of_a_fetch_list() -> None:
    """A list may have variables, names, a bare name, nested lists and duplicates."""
    net = fc_mean(train=False)
    name = net.loss.name
    for fetch in (net.loss, name, [net.loss], [name], (name,), [[name]]):
        close(net.executor.run(net.main, FEED, fetch)[0], 3.0)
    out, loss, again = net.run(FEED, [net.out, name, net.out])
    close(loss, 3.0)
    close(out, [[0], [2], [4], [6]])
    close(again, out)
    assert again is not out


def test_wrong_forms() -> None:
    """The message names the mistake and its position."""
    net = fc_mean(train=False)
    for wrong in ({"a": net.loss}, 3):
        with pytest.raises(TypeError, match="fetch_list type only should be list or tuple"):
            net.run(FEED, wrong)
    with pytest.raises(TypeError, match=r"Require fetch_list\[1\]'s type"):
        net.run(FEED, [net.loss, 3])


def test_a_feed_in_another_byte_order() -> None:
    """The dtype has the right name, so the message names the byte order."""
    net = fc_mean(train=False)
    ((name, value),) = FEED.items()
    words = r"are float32 in a byte order that is not native \('>f4'\); .*astype\('float32'\)"
    with pytest.raises(FeedError, match=words):
        net.run({name: value.astype(">f4")}, net.loss)


def test_a_misspelt_name() -> None:
    """The message suggests the nearest fetchable variable."""
    net = fc_mean()
    with pytest.raises(FetchError, match=f"; did you mean '{net.loss.name}'"):
        net.run(FEED, [net.loss.name.replace("0", "9", 1)])


def test_a_variable_of_another_program() -> None:
    """The message says whose it is, and suggests no similar name of this program."""
    net, other = fc_mean(), static.Program()
    with static.program_guard(other):
        far = static.data("far", [None, 4])
        near = paddle.mean(far)
    with pytest.raises(FetchError, match=r"\(far\): it is a variable of another program; run that"):
        net.run(FEED, far)
    with pytest.raises(FetchError, match=r"another program, made at .*test_fetch.py:\d+; run"):
        net.run(FEED, [net.loss, [near]])
    with pytest.raises(FetchError, match="; a variable of another program needs that one"):
        net.run(FEED, "far")


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_unknown_names(devices: int) -> None:
    """The error is a KeyError and RuntimeError with the name and a readable message."""
    net = fc_mean()
    program = net.parallel(devices) if devices else None
    with pytest.raises(FetchError, match=r"Cannot find fetched variable\(nope\)") as caught:
        net.run(FEED, "nope", program)
    assert isinstance(caught.value, KeyError) and isinstance(caught.value, RuntimeError)
    assert not str(caught.value).startswith(("'", '"'))
    close(value("w"), [[2.0]])


@pytest.mark.parametrize("devices", [0, 2])
def test_parameters_have_the_new_value(devices: int) -> None:
    """Parameters are fetched after the run's updates, without disturbing donation."""
    net = fc_mean()
    program = net.parallel(devices) if devices else None
    for step in range(1, 4):
        (found,) = net.run(FEED, "w", program)
        close(found, np.full((max(devices, 1), 1), 2 - 0.15 * step))
    close(value("w"), [[1.55]])


def test_values_without_operators() -> None:
    """Feeds and state can be fetched though no operator computes them."""
    net = fc_mean(train=False)
    x, rate = net.run(FEED, ["X", "w"])
    np.testing.assert_array_equal(x, FEED["X"])
    close(rate, [[2.0]])


def test_gradients_of_intermediates() -> None:
    """`X@GRAD` of any intermediate can be fetched, also if the program does not compute it."""
    net = fc_mean()
    name = f"{net.out.name}@GRAD"
    close(net.run(FEED, name)[0], np.full((4, 1), 0.25))
    close(net.run(FEED, name, net.parallel(2))[0], np.full((4, 1), 0.25))
    close(net.run(rows(1, 2, 3), name, net.parallel(2))[0], [[0.25], [0.25], [0.5]])


def test_shapes_of_merged_values() -> None:
    """Scalars become a vector; other values are concatenated on axis 0."""
    net = regression()
    fetch = (net.loss, net.out, "w", "b", "learning_rate_0")
    found = net.run(regression_feed(4), fetch, net.parallel(2))
    assert [a.shape for a in found] == [(2,), (4, 2), (6, 2), (4,), (2,)]
    found = net.run(regression_feed(4), fetch, net.parallel(1))
    assert [a.shape for a in found] == [(1,), (4, 2), (3, 2), (2,), (1,)]
    plain = static.CompiledProgram(net.main)
    found = net.run(regression_feed(4), fetch, plain)
    assert [a.shape for a in found] == [(), (4, 2), (3, 2), (2,), ()]
    nested = net.run(regression_feed(4), fetch, plain, return_merged=False)
    assert [len(item) for item in nested] == [1] * 5


@pytest.mark.exhaustive
@settings(max_examples=8)
@given(devices=st.integers(1, 3), count=st.integers(1, 7), data=st.data())
def test_merged_is_unmerged_put_together(devices: int, count: int, data: st.DataObject) -> None:
    """Merging concatenates every variable of an inference program, at even and uneven rows."""
    net = fc_mean(train=False)
    program = net.parallel(devices)
    names = [v.name for v in net.main.list_vars()]
    fetch = data.draw(st.lists(st.sampled_from(names), min_size=1))
    feed = rows(*range(count))
    merged = net.run(feed, fetch, program)
    parts = net.run(feed, fetch, program, return_merged=False)
    for whole, pieces in zip(merged, parts, strict=True):
        assert all(isinstance(piece, np.ndarray) for piece in pieces)
        joined = np.stack(pieces) if not pieces[0].shape else np.concatenate(pieces)
        np.testing.assert_array_equal(whole, joined)


def test_shapes_that_cannot_be_merged() -> None:
    """Different trailing dimensions need return_merged=False; rows may differ."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("X", [None, 1], "float32")
        return paddle.mean(x), paddle.transpose(x, [1, 0])

    net = build(make)
    program = net.parallel(2)
    with pytest.raises(FeedError, match=rf"'{net.out.name}'.*return_merged = False"):
        net.run(rows(1, 2, 3), net.out, program)
    pieces = net.run(rows(1, 2, 3), net.out, program, return_merged=False)[0]
    assert [piece.shape for piece in pieces] == [(1, 2), (1, 1)]


def test_merge_replicas() -> None:
    """Dtypes are kept, and scalars are stacked."""
    assert merge_replicas("n", [np.int64(2**40), np.int64(3)]).tolist() == [2**40, 3]
    assert merge_replicas("v", [np.zeros((1, 2), "int8"), np.zeros((2, 2), "int8")]).shape == (3, 2)
    with pytest.raises(ValueError, match="'v'"):
        merge_replicas("v", [np.zeros((1, 2)), np.zeros((1, 3))])
    with pytest.raises(ValueError, match="'v'"):
        merge_replicas("v", [np.zeros((1, 2)), np.zeros(2)])


@pytest.mark.parametrize("devices", [0, 2])
def test_tensors_instead_of_arrays(devices: int) -> None:
    """With return_numpy=False, later steps do not change a result."""
    net = fc_mean()
    program = net.parallel(devices) if devices else None
    results: list[Any] = [net.run(FEED, "w", program, return_numpy=False)[0] for _ in range(3)]
    found = [float(np.array(tensor).ravel()[0]) for tensor in results]
    close(found, [1.85, 1.7, 1.55])
    assert results[0].shape() == [max(devices, 1), 1]


def test_a_slot_that_is_not_computed_is_named() -> None:
    """Workspaces of Paddle's kernels have no value here, and the error names them."""
    with fresh() as (main, _):
        paddle.nn.LSTM(2, 2)(static.data("x", [1, 2, 2], "float32"))
        (op,) = (op for op in main.global_block().ops if op.type == "rnn")
        start()
        with pytest.raises(FetchError, match=r"slot Reserve of operator rnn at .*test_fetch.py"):
            run(op.output("Reserve"), x=np.ones([1, 2, 2], "float32"))
