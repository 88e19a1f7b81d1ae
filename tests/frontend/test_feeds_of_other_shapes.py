"""Variables of `fluid.layers.data` take feeds of other shapes, as in Paddle 1.8.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from graphopt import fluid, static
from graphopt.errors import FeedError
from graphopt.ir.program import Variable
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
HALVES = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype("float32")


def executor() -> fluid.Executor:
    made = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        made.run(fluid.default_startup_program())
    return made


def declared(shape: Sequence[int]) -> Variable:
    return layers.data("x", shape, append_batch_size=False)


@pytest.mark.parametrize(
    ("shape", "fed", "layer", "found", "total"),
    [
        ([-1, 32, 1], (8, 16, 1), lambda x: layers.reduce_sum(x, 1), (8, 1), 8128),
        ([-1, 1, 4, 4], (3, 16), lambda x: layers.fc(x, 2, param_attr=HALVES), (3, 2), 1128),
        (
            [-1, 1, 4, 4],
            (3, 1, 6, 6),
            lambda x: layers.conv2d(x, 2, 3, param_attr=HALVES),
            (3, 2, 4, 4),
            23112,
        ),
        ([-1, 1], (32,), layers.reduce_sum, (1,), 496),
        ([-1, 10, 1], (10, 1), lambda x: layers.scale(x, 2.0), (10, 1), 90),
        ([-1], (32, 1), lambda x: layers.scale(x, 2.0), (32, 1), 992),
        ([4, 3], (5, 3), lambda x: layers.scale(x, 2.0), (5, 3), 210),
        ([4, 3], (3, 4), lambda x: layers.reshape(x, [4, 3]), (4, 3), 66),
        ([-1, 4], (4,), layers.softmax, (4,), 1),
        ([-1, 1], (4,), lambda x: layers.scale(x, 2.0), (4,), 12),
        ([-1, 3, 1], (3, 1), lambda x: layers.scale(x, 2.0), (3, 1), 6),
        # as in the step of a decoder, whose caches grow
        ([-1, 1], (6,), lambda x: layers.concat([x, x], 0), (12,), 30),
    ],
)
def test_operators_compute_with_the_shape_that_is_fed(
    shape: Sequence[int],
    fed: Sequence[int],
    layer: Callable[[Variable], Variable],
    found: Any,
    total: float,
) -> None:
    """The shapes and sums are those of Paddle 1.8.5."""
    with fresh():
        out = layer(declared(shape))
        (value,) = executor().run(feed={"x": numbers(*fed)}, fetch_list=[out])
    assert value.shape == found
    assert value.sum() == pytest.approx(total)


def test_beside_sequences_that_are_padded() -> None:
    """A program that could run in buckets of lengths runs without them."""
    with fresh():
        words = layers.data("words", [1], lod_level=1)
        out = layers.sequence_pool(words, "sum"), layers.scale(declared([-1, 1]), 2.0)
        rows = fluid.create_lod_tensor(numbers(5, 1), [[2, 3]], fluid.CPUPlace())
        for _ in range(2):
            total, doubled = executor().run(
                feed={"words": rows, "x": numbers(3)}, fetch_list=list(out)
            )
    assert (total.ravel().tolist(), doubled.tolist()) == ([1, 9], [0, 2, 4])


def test_lengths_share_what_is_compiled() -> None:
    """Feeds of other lengths cause one more compilation in all."""
    with fresh():
        out, exe = layers.reduce_sum(declared([-1, 32, 1]), 1), executor()
        for rows, length in ((8, 32), (8, 16), (4, 12), (8, 32)):
            (value,) = exe.run(feed={"x": numbers(rows, length, 1)}, fetch_list=[out])
            np.testing.assert_allclose(value, numbers(rows, length, 1).sum(1))
        assert exe.stats["compiled_programs"] == 2


def test_a_test_program_takes_them_too_and_training_goes_on() -> None:
    with fresh():
        x = declared([-1, 1, 4, 4])
        loss = layers.mean(layers.fc(x, 1, param_attr=HALVES))
        test = fluid.default_main_program().clone(for_test=True)
        fluid.optimizer.SGD(0.01).minimize(loss)
        exe, feed = executor(), {"x": numbers(3, 16) / 48}
        losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(2)]
        (after,) = exe.run(test, feed=feed, fetch_list=[loss])
        whole = {"x": (numbers(3, 16) / 48).reshape(3, 1, 4, 4)}
        (same,) = exe.run(test, feed=whole, fetch_list=[loss])
    assert losses[0] > losses[1] > after.item()
    np.testing.assert_array_equal(after, same)


def test_operators_compute_with_the_dtype_that_is_fed() -> None:
    with fresh():
        x = declared([-1, 2])
        places, doubled = layers.where(x), layers.scale(x, 2.0)
        exe = executor()
        marks = np.array([[True, False], [False, True]])
        (found,) = exe.run(feed={"x": marks}, fetch_list=[places])
        assert found.tolist() == [[0, 0], [1, 1]]
        (found,) = exe.run(feed={"x": np.ones((1, 2))}, fetch_list=[doubled])
        assert (found.dtype, found.tolist()) == ("float64", [[2, 2]])
        columns = exe.run(feed={"x": marks}, fetch_list=[*layers.nonzero(x, as_tuple=True)])
        assert [column.tolist() for column in columns] == [[[0], [1]], [[0], [1]]]
    with fresh():
        layers.fc(declared([-1, 2]), 2)
        exe = executor()
        with pytest.raises(FeedError, match=r"'x' \[1, 2\] float64 instead of .* float32.*mul"):
            exe.run(feed={"x": np.ones((1, 2))}, fetch_list=[])


def test_sizes_that_are_declared_without_a_dtype() -> None:
    """Sizes are declared as float32, the default of `layers.data`, and fed as integers."""
    with fresh():
        x = layers.data("x", [2, 6], append_batch_size=False)
        size = layers.data("size", [2], append_batch_size=False)
        outs = [layers.reshape(x, size), layers.expand(x, size), layers.crop_tensor(x, size)]
        feed = {"x": numbers(2, 6), "size": np.array([2, 6], "int32")}
        shapes = [value.shape for value in executor().run(feed=feed, fetch_list=outs)]
    assert shapes == [(2, 6), (4, 36), (2, 6)]


def test_an_operator_that_cannot_compute_with_it_says_what_was_fed() -> None:
    words = r"'x' \[3, 16\] float32 instead of \[-1, 1, 4, 4\].*conv2d.*at .*test_feeds_of_other"
    with fresh():
        out = layers.conv2d(declared([-1, 1, 4, 4]), 2, 3)
        with pytest.raises(FeedError, match=words):
            executor().run(feed={"x": numbers(3, 16)}, fetch_list=[out])


@pytest.mark.parametrize("rows", [4, 5], ids=["equal parts", "unequal parts"])
@pytest.mark.parametrize("places", [1, 2])
def test_devices_take_them_as_well(places: int, rows: int) -> None:
    """A batch is split by rows; each device may also get its own dict."""
    with fresh():
        out = layers.reduce_sum(declared([-1, 3, 1]), 1)
        compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
            places=[fluid.CPUPlace()] * places
        )
        for length in (3, 5, 7):
            array = numbers(rows, length, 1)
            parts = np.array_split(array, places)
            for feed in ({"x": array}, [{"x": part} for part in parts]):
                (value,) = executor().run(compiled, feed=feed, fetch_list=[out])
                np.testing.assert_allclose(value, array.sum(1))


def test_devices_with_other_ranks_are_refused() -> None:
    with fresh():
        out = layers.scale(declared([-1, 3]), 2.0)
        compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
            places=[fluid.CPUPlace()] * 2
        )
        feed = [{"x": numbers(2, 3)}, {"x": numbers(2, 3, 1)}]
        with pytest.raises(FeedError, match="arrays of different ranks"):
            executor().run(compiled, feed=feed, fetch_list=[out])


def test_other_variables_want_the_declared_shape() -> None:
    with fresh():
        out = layers.scale(fluid.data("x", [-1, 4]), 2.0)
        with pytest.raises(FeedError, match="received fed shape"):
            executor().run(feed={"x": numbers(3, 5)}, fetch_list=[out])


def test_a_variable_without_a_shape_is_fed() -> None:
    """A script may feed and add two tensors that `create_tensor` makes."""
    with fresh() as main:
        a, b = (layers.create_tensor("int64", name) for name in "ab")
        total = layers.sum([a, b])
        feed = {"a": np.array([3, 2]), "b": np.array([1, 1])}
        fetched = executor().run(main, feed=feed, fetch_list=[a, b, total])
        assert [found.tolist() for found in fetched] == [[3, 2], [1, 1], [4, 3]]
        with pytest.raises(FeedError, match="Need feed data for variable a"):
            executor().run(main, fetch_list=[total])


def test_a_variable_that_nothing_writes_is_empty() -> None:
    """Scripts fetch the count of a metric without passing it to the metric."""
    with fresh() as main:
        x = layers.data("x", [2])
        count = layers.create_tensor("int64")
        found, total = executor().run(
            main, feed={"x": numbers(1, 2)}, fetch_list=[count, layers.reduce_sum(x)]
        )
    assert (found.shape, found.dtype, total.tolist()) == ((0,), "int64", [1.0])


def test_a_number_is_one_row() -> None:
    with fresh() as main:
        doubled = layers.scale(layers.data("x", [1]), 2.0)
        for number in (3.0, np.float32(3.0), np.array(3.0, "float32")):
            (found,) = executor().run(main, feed={"x": number}, fetch_list=[doubled])
            assert found.tolist() == [[6.0]]


def test_a_feed_of_none_is_refused() -> None:
    """NumPy would convert None to NaN, which a variable without axes would take."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [], "float32")
        out = x * 2
    with pytest.raises(FeedError, match="the feed of 'x' is None"):
        static.Executor().run(main, {"x": None}, [out])
