"""Rank tables of sequences, and loops over their steps as scripts of Paddle 1 write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import FeedError
from graphopt.fluid import layers
from graphopt.fluid.layers.control_flow import (
    array_to_lod_tensor,
    lod_rank_table,
    lod_tensor_to_array,
    max_sequence_len,
    merge_lod_tensor,
    shrink_memory,
    split_lod_tensor,
)
from graphopt_tests.frontend.programs import fresh, start, weight

ROWS = np.arange(10, dtype="float32").reshape(10, 1)
LENGTHS = [[3, 6, 0, 1]]


def sequences(rows: Any = ROWS, lengths: Any = LENGTHS) -> Any:
    return fluid.create_lod_tensor(rows, lengths, fluid.CPUPlace())


def data() -> Any:
    x = fluid.data("x", [None, 1], "float32", lod_level=1)
    x.stop_gradient = False
    return x


@pytest.mark.exhaustive
def test_steps_and_back() -> None:
    """Sequences become steps and back, with an empty sequence, as in Paddle."""
    with fresh():
        x = data()
        table = lod_rank_table(x)
        array = lod_tensor_to_array(x, table)
        back = array_to_lod_tensor(array, table)
        assert back.lod_level == 1
        loss = layers.reduce_sum(back * back)
        (gradient,) = fluid.gradients(loss, x)
        executor = fluid.Executor(fluid.CPUPlace())
        fetches = [array, back, max_sequence_len(table), gradient]
        feed = {"x": sequences()}
        found = executor.run(feed=feed, fetch_list=fetches, return_numpy=False)
    steps = [np.array(step).reshape(-1).tolist() for step in found[0]]
    assert steps == [[3, 0, 9], [4, 1], [5, 2], [6], [7], [8]]
    np.testing.assert_array_equal(np.array(found[1]), ROWS)
    assert found[1].recursive_sequence_lengths() == LENGTHS
    assert np.array(found[2]).tolist() == [6]
    np.testing.assert_array_equal(np.array(found[3]), 2 * ROWS)


def recurrence(w: Any) -> tuple[Any, Any]:
    """Build tanh of the step and the memory times `w`, as a while loop over arrays."""
    x = data()
    table = lod_rank_table(x)
    steps, longest = lod_tensor_to_array(x, table), max_sequence_len(table)
    i = layers.fill_constant([1], "int64", 0)
    first = layers.fill_constant_batch_size_like(layers.array_read(steps, i), [-1, 1], "float32", 0)
    first.stop_gradient = False
    memories = layers.array_write(first, i)
    out = layers.create_array("float32")
    goes_on = layers.less_than(i, longest)
    loop = layers.While(goes_on)
    with loop.block():
        memory = shrink_memory(layers.array_read(memories, i), i, table)
        new = layers.tanh(layers.array_read(steps, i) + memory * w)
        layers.array_write(new, i, out)
        layers.increment(i, in_place=True)
        layers.array_write(new, i, memories)
        layers.less_than(i, longest, cond=goes_on)
    return x, array_to_lod_tensor(out, table)


@pytest.mark.exhaustive
def test_a_loop_over_steps_and_its_gradients() -> None:
    with fresh():
        w = weight("w", [0.5])
        x, out = recurrence(w)
        loss = layers.reduce_sum(out)
        gradients = fluid.gradients(loss, [x, w])
        start()
        executor = fluid.Executor(fluid.CPUPlace())
        feed = {"x": sequences(ROWS / 10)}
        found = executor.run(feed=feed, fetch_list=[out, *gradients], return_numpy=False)
    value, by_x, by_w = np.zeros(10), np.zeros(10), 0.0
    for begin, end in ((0, 3), (3, 9), (9, 10)):
        memory = 0.0
        for row in range(begin, end):
            memory = value[row] = np.tanh(ROWS[row, 0] / 10 + 0.5 * memory)
        later = 0.0
        for row in reversed(range(begin, end)):
            later = by_x[row] = (1 + 0.5 * later) * (1 - value[row] ** 2)
            by_w += later * (value[row - 1] if row > begin else 0.0)
    np.testing.assert_allclose(np.array(found[0])[:, 0], value, rtol=1e-5)
    np.testing.assert_allclose(np.array(found[1])[:, 0], by_x, rtol=1e-5)
    np.testing.assert_allclose(np.array(found[2]), [by_w], rtol=1e-5)


def test_memories_shrink() -> None:
    """A memory keeps the rows, or sequences, of the sequences that have not ended."""
    with fresh():
        x, memory = data(), fluid.data("memory", [None, 2], "float32")
        table = lod_rank_table(x)
        second = layers.fill_constant([1], "int64", 1)
        left = [shrink_memory(memory, second, table), shrink_memory(x, second, table)]
        executor = fluid.Executor(fluid.CPUPlace())
        feed = {"x": sequences(), "memory": np.arange(8, dtype="float32").reshape(4, 2)}
        rows, own = executor.run(feed=feed, fetch_list=left, return_numpy=False)
    np.testing.assert_array_equal(np.array(rows), [[0, 1], [2, 3]])
    np.testing.assert_array_equal(np.array(own), ROWS[:9])
    assert own.recursive_sequence_lengths() == [[3, 6]]


@pytest.mark.every(5)
@pytest.mark.parametrize("of_sequences", [False, True])
def test_rows_and_sequences_are_split_and_merged(of_sequences: bool) -> None:
    with fresh():
        x = data() if of_sequences else fluid.data("x", [None, 1], "float32")
        x.stop_gradient = False
        mask = fluid.data("mask", [None, 1], "bool")
        yes, no = split_lod_tensor(x, mask)
        merged = merge_lod_tensor(yes * 2.0, no, x, mask)
        (gradient,) = fluid.gradients(layers.reduce_sum(merged), x)
        executor = fluid.Executor(fluid.CPUPlace())
        chosen = np.array([False, True, False, True])[:, None]
        feed = {"x": sequences() if of_sequences else ROWS[:4], "mask": chosen}
        found = executor.run(feed=feed, fetch_list=[yes, no, merged, gradient], return_numpy=False)
    taken = np.repeat(chosen, LENGTHS[0], 0) if of_sequences else chosen
    rows = ROWS[: len(taken)]
    np.testing.assert_array_equal(np.array(found[0]), rows[taken[:, 0]])
    np.testing.assert_array_equal(np.array(found[1]), rows[~taken[:, 0]])
    np.testing.assert_array_equal(np.array(found[2]), np.where(taken, 2 * rows, rows))
    np.testing.assert_array_equal(np.array(found[3]), np.where(taken, 2, 1))
    if of_sequences:
        assert found[0].recursive_sequence_lengths() == [[6, 1]]
        assert found[2].recursive_sequence_lengths() == LENGTHS


def test_a_table_is_needed() -> None:
    with fresh():
        x = data()
        with pytest.raises(TypeError, match="which is no rank table; make one with lod_rank_table"):
            max_sequence_len(x)
        with pytest.raises(TypeError, match="which is no rank table"):
            layers.reorder_lod_tensor_by_rank(x, x)


@pytest.mark.parametrize("of_rows", [True, False])
def test_lengths_of_rows_that_were_declared_without(of_rows: bool) -> None:
    """Paddle uses the lengths of the feed; graphopt uses the declaration."""
    with fresh():
        x = fluid.data("x", [None, 1], "float32")
        y = fluid.data("y", [None, 1], "float32", lod_level=1)
        ranked = layers.reorder_lod_tensor_by_rank(x, lod_rank_table(y))
        executor = fluid.Executor(fluid.CPUPlace())
        feed = {"x": ROWS[:4], "y": sequences()}
        if of_rows:
            (found,) = executor.run(feed=feed, fetch_list=[ranked], return_numpy=False)
            np.testing.assert_array_equal(np.array(found), ROWS[[1, 0, 3, 2]])
        else:
            with pytest.raises(FeedError, match=r"reorder_lod_tensor_by_rank\(\) .* lod_level=1"):
                executor.run(feed={**feed, "x": sequences()}, fetch_list=[ranked])
