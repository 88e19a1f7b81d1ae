"""Layers by tags, trees, corners and hashes, with numbers of 1.8.5 or computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import OperandError, ProgramError, UnsupportedError
from graphopt_tests.frontend.test_fluid import fresh

DRAW = np.random.RandomState(0)
layers, contrib = fluid.layers, fluid.contrib.layers


def ragged(rows: Any, lengths: list[int]) -> Any:
    return fluid.create_lod_tensor(np.asarray(rows), [lengths], fluid.CPUPlace())


def fetched(feed: dict[str, Any], *wanted: Any) -> list[Any]:
    exe = fluid.Executor()
    if fluid.default_startup_program().global_block().ops:
        exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(wanted), return_numpy=False)


def test_rows_are_hashed() -> None:
    with fresh():
        x = fluid.data("x", [None, 1], "int32")
        hashed = layers.hash(x, 10000, 2)
        (found,) = fetched({"x": np.array([[5], [8]], "int32")}, hashed)
        with pytest.raises(ProgramError, match="needs 'num_hash' and 'mod_by' above 0"):
            layers.hash(x, 0)
    assert hashed.shape == (-1, 2, 1)
    assert np.asarray(found).tolist() == [[[3481], [7475]], [[1719], [5986]]]


@pytest.mark.parametrize(
    ("tag", "rows", "lengths", "weights"),
    [(1, [0, 1, 3, 4], [2, 2], [[1], [1]]), (9, None, [1], [[0]])],
    ids=["some", "none"],
)
def test_sequences_with_a_tag(tag: int, rows: Any, lengths: list[int], weights: Any) -> None:
    """If no sequence has the tag, the result is one row of the default value without gradient."""
    given = np.arange(10, dtype="float32").reshape(5, 2)
    with fresh():
        x, tags = fluid.data("x", [None, 2], lod_level=1), fluid.data("t", [None, 1], "int64", 1)
        x.stop_gradient = False
        wanted = fluid.data("w", [None], "int64")
        out, weight = layers.filter_by_instag(x, tags, wanted, True, 7)
        (slope,) = fluid.gradients(layers.reduce_sum(out * out), [x])
        feed = {"x": ragged(given, [2, 1, 2]), "w": np.array([tag])}
        feed["t"] = ragged([[1], [2], [3], [1]], [2, 1, 1])
        found = fetched(feed, out, weight, slope)
    assert found[0].recursive_sequence_lengths() == [lengths]
    expected = np.full((1, 2), 7.0) if rows is None else given[rows]
    np.testing.assert_array_equal(np.asarray(found[0]), expected)
    assert np.asarray(found[1]).tolist() == weights
    gradient = np.zeros_like(given)
    gradient[rows or []] = 2 * given[rows or []]
    np.testing.assert_array_equal(np.asarray(found[2]), gradient)


def test_rows_with_a_tag() -> None:
    with fresh():
        x, tags = fluid.data("x", [None, 2]), fluid.data("t", [None, 1], "int64", 1)
        out, _ = layers.filter_by_instag(x, tags, fluid.data("w", [None], "int64"), False)
        given = np.arange(6, dtype="float32").reshape(3, 2)
        feed = {"x": given, "t": ragged([[1], [2], [3], [5]], [2, 1, 1]), "w": np.array([2, 5])}
        (found,) = fetched(feed, out)
        with pytest.raises(OperandError, match="'tags' should be an integer tensor"):
            layers.filter_by_instag(x, x, x, False)
    np.testing.assert_array_equal(np.asarray(found), given[[0, 2]])
    assert found.recursive_sequence_lengths() == [[1, 1]]


def test_quadrangles_of_images() -> None:
    """The first quadrangle is a square of its image; the second takes every second pixel."""
    image = DRAW.randn(2, 1, 6, 6).astype("float32")
    corners = np.array([[2, 2, 6, 2, 6, 6, 2, 6], [0, 0, 8, 0, 8, 8, 0, 8]], "float32")
    with fresh():
        x, rois = fluid.data("x", [None, 1, 6, 6]), fluid.data("r", [None, 8], lod_level=1)
        made = layers.roi_perspective_transform(x, rois, 3, 3, 0.5)
        found = fetched({"x": image, "r": ragged(corners, [1, 1])}, *made)
        with pytest.raises(
            UnsupportedError, match="the number of boxes in each of -1 images is unknown"
        ):
            layers.roi_perspective_transform(x, fluid.data("q", [None, 8]), 3, 3)
    out, mask, matrix = (np.asarray(each) for each in found)
    np.testing.assert_allclose(out[0], image[0, :, 1:4, 1:4], 1e-4, 1e-5)
    np.testing.assert_allclose(out[1], image[1, :, 0:5:2, 0:5:2], 1e-4, 1e-5)
    assert mask.shape == (2, 1, 3, 3)
    assert mask.all()
    np.testing.assert_allclose(matrix[1], [2, 0, 0, 0, 2, 0, 0, 0, 1], atol=1e-5)


@pytest.mark.parametrize("still", [True, False])
def test_cells_at_offsets(still: bool) -> None:
    """A box of 4 by 4 pixels has two by two cells of one point, moved by half a box or not."""
    image = DRAW.randn(1, 1, 6, 8).astype("float32")
    with fresh():
        x, rois = fluid.data("x", [None, 1, 6, 8]), fluid.data("r", [None, 4], lod_level=1)
        moves = fluid.data("t", [None, 2, 2, 2])
        pooled = layers.deformable_roi_pooling(
            x, rois, moves, still, pooled_height=2, pooled_width=2, trans_std=0.5
        )
        feed = {"x": image, "r": ragged(np.array([[1, 1, 4, 4]], "float32"), [1])}
        feed["t"] = np.ones((1, 2, 2, 2), "float32") * np.array([1, 0], "float32")[:, None, None]
        (found,) = fetched(feed, pooled)
    # points are half a pixel before the cells
    columns = [0, 1, 2, 3] if still else [2, 3, 4, 5]
    wanted = image[0, 0, :4, columns].T.reshape(2, 2, 2, 2).mean((1, 3))
    np.testing.assert_allclose(np.asarray(found)[0, 0], wanted, 1e-5, 1e-6)


def _pooled_slopes(
    move: Any, parts: tuple[int, int], size: tuple[int, int], image: Any
) -> tuple[list[Any], Any]:
    """Return a sum of squares' gradients for images and offsets, and the sum as a function."""
    feed = {"x": image, "t": np.asarray(move).reshape(1, 2, *parts)}
    with fresh():
        x = fluid.data("x", [1, *image.shape[1:]], "float64")
        rois = fluid.data("r", [None, 4], "float64", lod_level=1)
        moves = fluid.data("t", [None, 2, *parts], "float64")
        x.stop_gradient = moves.stop_gradient = False
        pooled = layers.deformable_roi_pooling(
            *(x, rois, moves, False, 1.0, (1, 1)), *size, part_size=parts, trans_std=0.5
        )
        total = layers.reduce_sum(pooled * pooled)
        slopes = fluid.gradients(total, [x, moves])
        exe, main = fluid.Executor(), fluid.default_main_program()
    feed["r"] = ragged(np.array([[1.0, 1, 4, 4]]), [1])

    def at(**changed: Any) -> float:
        return float(np.sum(exe.run(main, {**feed, **changed}, [total])[0]))

    return exe.run(main, feed, slopes), at


def test_slopes_of_offsets_at_pixels() -> None:
    """A point on a column has no slope along the row, but between pixels it has, as in 1.8.5."""
    image = np.random.RandomState(3).randn(1, 1, 5, 6)
    found, _ = _pooled_slopes([0.25, 0.4], (1, 1), (1, 1), image)
    # the corner of the box, half a pixel outside, moves by an eighth and a fifth of it
    between = 0.7 * image[0, 0, 1, 1] + 0.3 * image[0, 0, 2, 1]
    slope = 2 * between * (image[0, 0, 2, 1] - image[0, 0, 1, 1]) * 4 * 0.5
    expected = np.zeros_like(image)
    expected[0, 0, 1:3, 1] = 2 * between * np.array([0.7, 0.3])
    np.testing.assert_allclose(found[0], expected, atol=1e-12)
    np.testing.assert_allclose(found[1].ravel(), [0, slope], atol=1e-12)


@pytest.mark.exhaustive
def test_slopes_of_parts_that_are_no_square() -> None:
    """The gradient is the result's; 1.8.5's backward kernel uses the offsets of other cells."""
    draw = np.random.RandomState(4)
    image, moves = draw.randn(1, 1, 7, 8), draw.rand(1, 2, 1, 3)
    found, at = _pooled_slopes(moves, (1, 3), (2, 3), image)
    for name, given, slope in (("x", image, found[0]), ("t", moves, found[1])):
        for place in np.argwhere(np.abs(slope) > 1e-3)[:6]:
            step = np.zeros_like(given)
            step[tuple(place)] = 1e-6
            risen = at(**{name: given + step}) - at(**{name: given - step})
            np.testing.assert_allclose(slope[tuple(place)], risen / 2e-6, 1e-5, 1e-7)


@pytest.mark.exhaustive
def test_texts_side_by_side() -> None:
    x, y = DRAW.randn(3, 2).astype("float32"), DRAW.randn(4, 2).astype("float32")
    weight = DRAW.randn(2, 2, 2).astype("float32")
    with fresh() as main:
        given = fluid.data("x", [None, 2], lod_level=1), fluid.data("y", [None, 2], lod_level=1)
        initial = fluid.initializer.NumpyArrayInitializer(weight)
        attr = fluid.ParamAttr("w", initializer=initial)
        out, _ = contrib.match_matrix_tensor(*given, 2, param_attr=attr)
        (slope,) = fluid.gradients(layers.reduce_sum(out), [main.global_block().var("w")])
        feed = {"x": ragged(x, [2, 1]), "y": ragged(y, [1, 3])}
        found, gradient = fetched(feed, out, slope)
    pairs = np.concatenate(
        [
            np.einsum("kd,dce,le->ckl", x[:2], weight, y[:1]).ravel(),
            np.einsum("kd,dce,le->ckl", x[2:], weight, y[1:]).ravel(),
        ]
    )
    np.testing.assert_allclose(np.asarray(found)[:, 0], pairs, 1e-5, 1e-6)
    assert found.recursive_sequence_lengths() == [[4, 6]]
    sums = np.outer(x[:2].sum(0), y[:1].sum(0)) + np.outer(x[2:].sum(0), y[1:].sum(0))
    np.testing.assert_allclose(np.asarray(gradient), np.repeat(sums[:, None], 2, 1), 1e-5, 1e-6)


def test_a_convolution_on_a_tree() -> None:
    """Node 1 has the children 2 and 3; the fourth node is not in the tree."""
    nodes = DRAW.randn(1, 4, 2).astype("float32")
    weight = DRAW.randn(2, 3, 3, 1).astype("float32")
    with fresh():
        x = fluid.data("x", [None, 4, 2])
        edges = fluid.data("e", [None, 3, 2], "int32")
        initial = fluid.initializer.NumpyArrayInitializer(weight)
        attr = fluid.ParamAttr("w", initializer=initial)
        out = contrib.tree_conv(x, edges, 3, 1, 2, None, attr, False)
        feed = {"x": nodes, "e": np.array([[[1, 2], [1, 3], [0, 0]]], "int32")}
        (found,) = fetched(feed, out)
        with pytest.raises(ProgramError, match="'max_depth' above 0"):
            contrib.tree_conv(x, edges, 3, max_depth=0)
    right, left, top = np.moveaxis(weight[..., 0], 1, 0)
    one, two, three, _ = nodes[0]
    root = one @ top + two @ (left + top) / 2 + three @ (right / 2 + left / 4 + top / 2)
    wanted = np.stack([root, two @ top, three @ top, np.zeros(3)])
    np.testing.assert_allclose(np.asarray(found)[0, ..., 0], wanted, 1e-5, 1e-6)


def test_slopes_of_nodes_for_several_outputs() -> None:
    """The gradient is the result's, linear in the nodes; 1.8.5 mixes filters and outputs."""
    draw = np.random.RandomState(5)
    nodes, weight = draw.randn(1, 3, 2).astype("float32"), draw.randn(2, 3, 2, 2).astype("float32")
    with fresh():
        x, edges = fluid.data("x", [None, 3, 2]), fluid.data("e", [None, 2, 2], "int32")
        x.stop_gradient = False
        attr = fluid.ParamAttr("w", initializer=fluid.initializer.NumpyArrayInitializer(weight))
        out = contrib.tree_conv(x, edges, 2, 2, 2, None, attr, False)
        share = fluid.data("s", [None, 3, 2, 2])
        (slope,) = fluid.gradients(layers.reduce_sum(out * share), [x])
        feed = {"x": nodes, "e": np.array([[[1, 2], [1, 3]]], "int32")}
        feed["s"] = draw.randn(1, 3, 2, 2).astype("float32")
        (found,) = fetched(feed, slope)
    right, left, top = np.moveaxis(weight, 1, 0)
    wanted = np.einsum("nof,dof->nd", feed["s"][0], top)
    below = [(left + top) / 2, right / 2 + left / 4 + top / 2]
    wanted[1] += np.einsum("of,dof->d", feed["s"][0, 0], below[0])
    wanted[2] += np.einsum("of,dof->d", feed["s"][0, 0], below[1])
    np.testing.assert_allclose(np.asarray(found)[0], wanted, 1e-5, 1e-6)
