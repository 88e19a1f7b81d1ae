"""Frames of signals and their sums, and messages along edges, with numbers of Paddle 3.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import signal, static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh, run

A = np.arange(8, dtype="float32")
C = np.arange(24, dtype="float32").reshape(2, 4, 3)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("function", "given", "wanted", "gradient"),
    [
        (
            lambda x: signal.frame(x, 4, 2),
            A,
            [[0, 2, 4], [1, 3, 5], [2, 4, 6], [3, 5, 7]],
            [1, 1, 2, 2, 2, 2, 1, 1],
        ),
        (
            lambda x: signal.frame(x, 4, 2, axis=0),
            A,
            [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]],
            [1, 1, 2, 2, 2, 2, 1, 1],
        ),
        (
            lambda x: signal.frame(x, 2, 1, axis=0),
            C[0, :3],
            [[[0, 1, 2], [3, 4, 5]], [[3, 4, 5], [6, 7, 8]]],
            [[1, 1, 1], [2, 2, 2], [1, 1, 1]],
        ),
        (
            lambda x: signal.overlap_add(x, 2),
            C,
            [[0, 3, 7, 13, 9, 15, 8, 11], [12, 15, 31, 37, 33, 39, 20, 23]],
            np.ones((2, 4, 3)),
        ),
        (
            lambda x: signal.overlap_add(x, 1, axis=0),
            C[0],
            [0, 4, 12, 21, 18, 11],
            np.ones((4, 3)),
        ),
    ],
)
def test_frames_and_their_sum(function: Any, given: Any, wanted: Any, gradient: Any) -> None:
    """Frames run along the last axis or the first, and their sums have gradients."""
    with fresh():
        x = static.data("x", list(given.shape), "float32")
        x.stop_gradient = False
        out = function(x)
        found = run([out, static.gradients([out], [x])[0]], x=given)
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], gradient)


def test_a_batch_of_any_size() -> None:
    """Frames that do not overlap add up to the signal."""
    with fresh():
        x = static.data("x", [None, 8], "float32")
        parts = signal.frame(x, 2, 2)
        found = run([parts, signal.overlap_add(parts, 2)], x=np.stack([A, A + 1]))
    assert found[0].shape == (2, 2, 4)
    np.testing.assert_array_equal(found[1], [A, A + 1])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: signal.frame(x, 9, 1),
        lambda x: signal.frame(x, 2, 0),
        lambda x: signal.frame(x, 2, 1, axis=1),
        lambda x: signal.overlap_add(x, 9),
        lambda x: signal.overlap_add(x, 1, axis=1),
    ],
)
def test_frames_that_do_not_fit(wrong: Any) -> None:
    with fresh(), pytest.raises(ValueError):
        wrong(static.data("x", [4, 8], "float32"))


@pytest.mark.parametrize(
    ("kind", "wanted"), [("ADD", [[5, 7], [2, 4]]), ("MUL", [[6, 12], [0, 3]])]
)
def test_messages_along_edges(kind: str, wanted: Any) -> None:
    """The row at an edge's start is combined with the row at its end."""
    rows = np.array([[0, 1], [2, 3], [3, 4]], "float32")
    edges = {"s": np.array([1, 0]), "d": np.array([2, 1])}
    with fresh():
        x = static.data("x", [3, 2], "float32")
        slots = {slot: static.data(name, [2], "int64") for slot, name in EDGES.items()}
        out = x.block.create_var("out", dtype="float32")
        ends = {"x": x, "y": x, **slots}
        x.block.append_op("graph_send_uv", ends, {"out": out}, {"message_op": kind})
        found = run([out], x=rows, **edges)[0]
        flat = static.data("flat", [3], "float32")
        with pytest.raises(ProgramError, match="one rank"):
            x.block.append_op("graph_send_uv", ends | {"y": flat}, {"out": out}, {})
    np.testing.assert_array_equal(found, wanted)


EDGES = {"src_index": "s", "dst_index": "d"}


EDGE_SLOTS = {"Src_index": "s", "Dst_index": "d"}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kind", "attrs", "wanted"),
    [
        ("graph_send_recv", {"reduce_op": "MEAN"}, [[2.5, 3.5], [0, 1], [0, 0]]),
        ("graph_send_recv", {"reduce_op": "MAX", "out_size": [2]}, [[3, 4], [0, 1]]),
        ("graph_send_ue_recv", {"message_op": "MUL"}, [[0, 0], [0, 2], [0, 0]]),
        ("graph_send_ue_recv", {"reduce_op": "MIN"}, [[2, 3], [2, 3], [0, 0]]),
    ],
)
@pytest.mark.parametrize("rows", [3, None])
def test_messages_that_nodes_receive(
    rows: int | None, kind: str, attrs: dict[str, Any], wanted: Any
) -> None:
    """Nodes without edges get zeros, as in send_u_recv and send_ue_recv of Paddle 2.6.2."""
    given = np.array([[0, 1], [2, 3], [3, 4]], "float32")
    edges = {"s": np.array([1, 0, 2]), "d": np.array([0, 1, 0])}
    with fresh():
        x = static.data("x", [rows, 2], "float32")
        slots = {slot: static.data(name, [3], "int64") for slot, name in EDGE_SLOTS.items()}
        out = x.block.create_var("out", dtype="float32")
        own = {"Y": static.data("w", [3], "float32")} if kind == "graph_send_ue_recv" else {}
        x.block.append_op(kind, {"X": x, **own, **slots}, {"Out": out}, attrs)
        feed = {"w": np.array([0, 2, 0], "float32")} if own else {}
        (found,) = run([out], x=given, **edges, **feed)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("SUM", [[2, 4], [0, 0], [4, 5]]), ("MEAN", [[1, 2], [0, 0], [4, 5]])],
)
def test_segments(kind: str, wanted: Any) -> None:
    """The largest segment number decides the number of rows, as in Paddle's segment_sum."""
    rows = np.array([[0, 1], [2, 3], [4, 5]], "float32")
    with fresh():
        x, ids = static.data("x", [3, 2], "float32"), static.data("ids", [3], "int32")
        out = x.block.create_var("out", dtype="float32")
        attrs = {"pooltype": kind}
        x.block.append_op("segment_pool", {"X": x, "SegmentIds": ids}, {"Out": out}, attrs)
        (found,) = run([out], x=rows, ids=np.array([0, 0, 2], "int32"))
    np.testing.assert_array_equal(found, wanted)
