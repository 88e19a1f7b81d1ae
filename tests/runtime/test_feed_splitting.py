"""The split of feeds into parts for the replicas, without running a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt import fluid
from graphopt.errors import FeedError, FeedSizeError
from graphopt.ir.program import Program
from graphopt.runtime.feeds.feed import single_feed
from graphopt.runtime.feeds.split import SplitFeed, split_feed


def program() -> Program:
    """Declare variables of every kind that a feed may name."""
    made = Program()
    block = made.global_block()
    for name, shape, dtype in (
        ("x", [-1, 2], "float32"),
        ("y", [-1], "int64"),
        ("fixed", [4, 1], "float32"),
        ("label", [-1, 1], "float32"),
        ("number", [], "float32"),
        ("loss@GRAD", [], "float32"),
        ("old_loss@GRAD", [1], "float32"),
    ):
        block.create_var(name, shape, dtype)
    block.create_var("w", [1, 3], "float32", persistable=True)
    block.create_var("rate", [1], "float32", persistable=True)
    return made


def sizes(parts: SplitFeed) -> list[int]:
    """Return the number of rows of x for each replica."""
    if parts.whole is not None:
        return [len(parts.whole["x"]) // parts.count] * parts.count
    return [len(chunk["x"]) for chunk in parts.chunks]


def split(feed: Any, count: int, *, training: bool = True) -> SplitFeed:
    return split_feed(program(), feed, count, training=training)


def x(rows: int) -> np.ndarray[Any, Any]:
    return np.arange(2 * rows, dtype="float32").reshape(rows, 2)


def test_no_rows_are_no_rows_for_each_device() -> None:
    parts = split({"x": x(0)}, 2)
    assert parts.count == 2
    assert sizes(parts) == [0, 0]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("devices", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", range(1, 13))
def test_chunks_follow_the_ceil_rule(rows: int, devices: int, training: bool) -> None:
    """Chunks of ceil(B / D) rows in order; too few chunks are an error in training only."""
    step = -(-rows // devices)
    chunks = [x(rows)[i : i + step] for i in range(0, rows, step)]
    if training and len(chunks) < devices:
        with pytest.raises(FeedSizeError, match="less than the count"):
            split({"x": x(rows)}, devices)
        return
    parts = split({"x": x(rows)}, devices, training=training)
    assert parts.count == len(chunks)
    assert sizes(parts) == [len(chunk) for chunk in chunks]
    if parts.whole is not None:
        np.testing.assert_array_equal(parts.whole["x"], x(rows))
    else:
        for part, chunk in zip(parts.chunks, chunks, strict=True):
            np.testing.assert_array_equal(part["x"], chunk)


@pytest.mark.parametrize(
    ("devices", "rows", "wanted"),
    [
        (2, 3, [2, 1]),
        (3, 7, [3, 3, 1]),
        (4, 10, [3, 3, 3, 1]),
        (4, 5, None),
        (4, 6, None),
        (4, 9, None),
        (3, 4, None),
        (2, 1, None),
        (4, 3, None),
    ],
)
def test_the_recorded_table(devices: int, rows: int, wanted: list[int] | None) -> None:
    """The numbers of rows equal those observed in Paddle; None is its error in training graphs."""
    if wanted is None:
        with pytest.raises(RuntimeError):
            split({"x": x(rows)}, devices)
    else:
        assert sizes(split({"x": x(rows)}, devices)) == wanted


def test_inference_runs_on_fewer_devices() -> None:
    """In inference, too few chunks leave devices out."""
    assert sizes(split({"x": x(5)}, 4, training=False)) == [2, 2, 1]
    assert sizes(split({"x": x(1)}, 2, training=False)) == [1]
    assert sizes(split({"x": x(3)}, 4, training=False)) == [1, 1, 1]
    assert sizes(split({"x": x(0)}, 4, training=False)) == [0, 0, 0, 0]


@given(st.integers(0, 40), st.integers(1, 9), st.booleans())
def test_no_row_is_lost_or_repeated(rows: int, devices: int, training: bool) -> None:
    """The concatenated chunks equal the feed."""
    try:
        parts = split({"x": x(rows)}, devices, training=training)
    except FeedSizeError:
        assert training and sum(1 for _ in range(0, rows, max(-(-rows // devices), 1))) < devices
        return
    whole = parts.whole
    joined = whole["x"] if whole is not None else np.concatenate([c["x"] for c in parts.chunks])
    np.testing.assert_array_equal(joined, x(rows))


def test_each_feed_is_split_by_its_own_rows() -> None:
    """As in Paddle, feeds are split separately; a feed with too few rows is named."""
    parts = split({"x": x(4), "y": np.arange(3)}, 2)
    assert [chunk["x"].tolist() for chunk in parts.chunks] == [x(4)[:2].tolist(), x(4)[2:].tolist()]
    assert [chunk["y"].tolist() for chunk in parts.chunks] == [[0, 1], [2]]
    assert parts.samples == {"x": 4, "y": 3}
    assert split({"x": x(6), "y": np.arange(2)}, 2).whole is not None
    with pytest.raises(FeedSizeError, match=r"number\(1\) of samples\[y\]"):
        split({"x": x(4), "y": np.arange(1)}, 2)
    with pytest.raises(
        FeedError, match=r"different numbers of devices: x 4 \(on 2\), y 3 \(on 3\)"
    ):
        split({"x": x(4), "y": np.arange(3)}, 3, training=False)


@pytest.mark.parametrize("declared", [False, True], ids=["unread", "read"])
def test_sequences_are_not_cut(declared: bool) -> None:
    """Rows stay with their sequence, also when no operator reads the lengths."""
    made = program()
    made.global_block().create_var("s", [-1], "int64", lod_level=1)
    if declared:
        made.global_block().create_var("s@lens", [-1], "int64")
    fed = fluid.create_lod_tensor(np.arange(7), [[2, 1, 3, 1]])
    for feed in ({"s": fed, "y": np.arange(4)}, {"s": (np.arange(7), [2, 1, 3, 1])}):
        parts = split_feed(made, feed, 2, training=True)
        assert [chunk["s"].tolist() for chunk in parts.chunks] == [[0, 1, 2], [3, 4, 5, 6]]
        lengths = [chunk["s@lens"].tolist() for chunk in parts.chunks if declared]
        assert lengths == ([[2, 1], [3, 1]] if declared else [])
        assert parts.samples["s"] == 4
    with pytest.raises(FeedSizeError, match=r"number\(2\) of samples\[s\]"):
        split_feed(made, {"s": fed}, 3, training=True)


def test_outer_sequences_stay_together() -> None:
    """With two levels the outer one is split: here 2, 1 and 1 sequences."""
    made = program()
    for name, level in (("s", 2), ("s@lens0", 0), ("s@lens", 0)):
        made.global_block().create_var(name, [-1], "int64", lod_level=level)
    fed = fluid.create_lod_tensor(np.arange(7), [[2, 1, 1], [1, 1, 2, 3]])
    parts = split_feed(made, {"s": fed, "y": np.arange(3)}, 2, training=True)
    first, second = ({name: part.tolist() for name, part in c.items()} for c in parts.chunks)
    assert first == {"s": [0, 1, 2, 3], "s@lens0": [2, 1], "s@lens": [1, 1, 2], "y": [0, 1]}
    assert second == {"s": [4, 5, 6], "s@lens0": [1], "s@lens": [3], "y": [2]}


@pytest.mark.parametrize(
    ("rows", "devices", "shown"), [(4, 2, r"\[2, 1\]"), (9, 2, r"\[5, 1\]"), (7, 2, r"\[3, 1\]")]
)
def test_declared_sizes_count_per_device(rows: int, devices: int, shown: str) -> None:
    """A variable declared [4, 1] needs 8 rows on two devices."""
    feed = {"fixed": np.zeros((rows, 1), "float32")}
    with pytest.raises(FeedError, match=rf"'fixed' should have dimensions = 2.*{shown} on each"):
        split(feed, devices)
    assert split({"fixed": np.zeros((8, 1), "float32")}, 2).count == 2


@pytest.mark.parametrize("name", ["fixed", "label"])
def test_last_axes_of_one_element_may_be_left_out(name: str) -> None:
    """Labels [n] are rows of one label each, on one device and on two."""
    labels = np.arange(8, dtype="float32")
    parts = split({name: labels}, 2)
    assert parts.whole is not None
    np.testing.assert_array_equal(parts.whole[name], labels[:, None])
    np.testing.assert_array_equal(
        single_feed(program(), {name: labels[:4]})[name], labels[:4, None]
    )


def test_other_lower_ranks_are_refused() -> None:
    """Other lower ranks, which Paddle accepts, are refused; scalars have no rows to split."""
    for feed in ({"x": np.zeros(4, "float32")}, {"x": np.float32(1)}, {"y": np.int64(1)}):
        with pytest.raises(FeedError, match="should have dimensions"):
            split(feed, 2)


@pytest.mark.parametrize("uneven", [False, True])
def test_persistable_feeds(uneven: bool) -> None:
    """One row goes to every device; as many rows as devices give one to each."""
    batch = {"x": x(3 if uneven else 4)}
    one, two = np.ones((1, 3), "float32"), np.arange(6, dtype="float32").reshape(2, 3)
    for fed in (one, two):
        parts = split({**batch, "w": fed}, 2)
        wanted = np.broadcast_to(fed, (2, 3))
        if uneven:
            found = np.concatenate([chunk["w"] for chunk in parts.chunks])
        else:
            assert parts.whole is not None
            found = parts.whole["w"]
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(FeedError, match=r"'w'.*does not match the count of devices 2"):
        split({**batch, "w": np.zeros((3, 3), "float32")}, 2)
    with pytest.raises(FeedError, match="should have dimensions"):
        split({**batch, "w": np.zeros((2, 4), "float32")}, 2)


@pytest.mark.parametrize("name", ["loss@GRAD", "old_loss@GRAD"])
def test_loss_gradients_are_one_number_for_each_device(name: str) -> None:
    """The loss may have shape [] or [1], and the batch other row counts."""
    feed = {"x": x(4), name: np.array([1, 2], "float32")}
    parts = split(feed, 2)
    assert parts.whole is not None
    np.testing.assert_array_equal(parts.whole[name], [1, 2])
    assert [chunk[name].tolist() for chunk in split({**feed, "x": x(3)}, 2).chunks] == [[1], [2]]
    for wrong in ([1.0], [1.0, 2.0, 3.0], [[1.0], [2.0]], 1.0):
        with pytest.raises(FeedError, match=r"gradient of the loss should have the shape \[2\]"):
            split({**feed, name: np.array(wrong, "float32")}, 2)
    assert split({"x": x(4), name: np.ones(1, "float32")}, 1).count == 1


def test_numbers_go_to_every_device() -> None:
    """A scalar variable, unless a gradient, takes one number, or one for each device."""
    for fed in (3.0, np.float32(3), np.array([3, 3], "float32")):
        parts = split({"x": x(4), "number": fed}, 2)
        assert parts.whole is not None
        np.testing.assert_array_equal(parts.whole["number"], [3, 3])
    with pytest.raises(FeedError, match="number"):
        split({"x": x(4), "number": np.zeros(3, "float32")}, 2)


def test_list_feeds_keep_their_sizes() -> None:
    """Element i is for device i; equal shapes travel as one array."""
    parts = split([{"x": x(1)}, {"x": x(3)}], 2)
    assert sizes(parts) == [1, 3]
    even = split([{"x": x(2)}, {"x": x(2) + 1}], 2)
    assert even.whole is not None and even.whole["x"].shape == (4, 2)
    assert split(({"x": x(2)}, {"x": x(2)}), 2).count == 2
    for elements in ([{"x": x(1)}], [{"x": x(1)}] * 3, [{"x": x(1)}, {}]):
        with pytest.raises(FeedError, match="feed data number"):
            split(elements, 2)
        assert split([*elements, {}], 3, training=False).count == len([e for e in elements if e])
    with pytest.raises(FeedError, match="the same names"):
        split([{"x": x(1)}, {"y": np.zeros(1, "int64")}], 2)
    with pytest.raises(TypeError, match="Each element of feed list should be a dict"):
        split([{"x": x(1)}, x(1)], 2)


def test_list_feeds_of_state_and_numbers() -> None:
    """State and loss gradients in a list are per device."""
    feed = [
        {"x": x(1), "w": np.full((1, 3), i, "float32"), "loss@GRAD": np.array([i], "float32")}
        for i in range(2)
    ]
    whole = split(feed, 2).whole
    assert whole is not None
    np.testing.assert_array_equal(whole["w"], [[0] * 3, [1] * 3])
    np.testing.assert_array_equal(whole["loss@GRAD"], [0, 1])


def test_nothing_is_cast() -> None:
    """Arrays must have exactly the declared dtype; lists and numbers take it."""
    for feed in ({"x": x(2).astype("float64")}, {"y": np.zeros(2, "int32")}):
        with pytest.raises(FeedError, match="The data type of fed Variable"):
            split(feed, 1)
        with pytest.raises(FeedError, match=r"astype"):
            single_feed(program(), feed)
    assert single_feed(program(), {"x": [[1, 2]], "y": [3]})["x"].dtype == np.float32
    assert single_feed(program(), {"number": 2.5})["number"].shape == ()
    assert single_feed(program(), {"rate": 2.5, "y": 1})["rate"].shape == (1,)
    with pytest.raises(FeedError, match="not an array"):
        single_feed(program(), {"x": [[1, 2], [3]]})


def test_the_callers_feed_is_left_alone() -> None:
    """Unknown names give a warning, and stay in the dict."""
    feed = {"x": x(2), "zzz": x(2)}
    with pytest.warns(UserWarning, match="zzz is not found in program"):
        assert list(single_feed(program(), feed)) == ["x"]
    with pytest.warns(UserWarning, match="zzz"):
        split(feed, 2)
    assert list(feed) == ["x", "zzz"]
