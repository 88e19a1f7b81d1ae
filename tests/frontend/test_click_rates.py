"""Layers that predict clicks: numbers of Paddle 2.6.2, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh, run, start

Array = np.ndarray[Any, Any]
ROWS = np.array([[1, 2, 3, 4], [0, 5, -1, 0.5]], "float32")
CLICKS = np.array([[1, 0], [3, 2]], "float32")
LOGARITHMS = [[0.6931472, 0.4054651, 3.0, 4.0], [0.0, 1.7917595, -1.0, 0.5]]
SLOPES = [[1.0, 0.0, 6.0, 8.0], [3.0, 2.0, -2.0, 1.0]]


@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize("use_cvm", [True, False])
def test_shows_and_clicks_as_paddle_has_them(use_cvm: bool, tmp_path: Path) -> None:
    """The gradient of shows and clicks is the batch's own; a saved model computes the same."""
    with fresh() as (main, _):
        x, counts = static.data("x", [None, 4]), static.data("c", [None, 2])
        x.stop_gradient = False
        made = static.nn.continuous_value_model(x, counts, use_cvm)
        (slope,) = static.gradients([paddle.sum(made * made)], [x])
        found, gradient = run([made, slope], x=ROWS, c=CLICKS)
        exe = static.Executor()
        static.save_inference_model(str(tmp_path / "m"), [x, counts], [made], exe, program=main)
        program, names, fetches = static.load_inference_model(str(tmp_path / "m"), exe)
        feed = {name: ROWS if name == "x" else CLICKS for name in names}
        (again,) = exe.run(program, feed, fetches)
    wanted = np.array(LOGARITHMS)[:, 0 if use_cvm else 2 :]
    np.testing.assert_allclose(found, wanted, 1e-6)
    np.testing.assert_allclose(gradient, SLOPES, 1e-6)
    np.testing.assert_array_equal(again, found)


def test_each_row_of_a_sequence_gets_the_clicks_of_its_sequence() -> None:
    with fresh():
        x = fluid.layers.data("x", [4], lod_level=1)
        x.stop_gradient = False
        made = fluid.layers.continuous_value_model(x, static.data("c", [None, 2]), False)
        pooled = fluid.layers.sequence_pool(made, "sum")
        (slope,) = static.gradients([paddle.sum(pooled)], [x])
        exe = fluid.Executor()
        rows = fluid.create_lod_tensor(ROWS[[0, 1, 0]], [[2, 1]], fluid.CPUPlace())
        feed = {"x": rows, "c": CLICKS}
        fetched = exe.run(feed=feed, fetch_list=[pooled, slope], return_numpy=False)
    found, gradient = (np.asarray(one) for one in fetched)
    np.testing.assert_allclose(found, [[2.0, 4.5], [3.0, 4.0]])
    np.testing.assert_allclose(gradient[:, :2], CLICKS[[0, 0, 1]])


def sums(batches: int, weight: list[int] | None) -> list[Array]:
    """Return the sums after some batches of one kind."""
    with fresh():
        predicted, label = static.data("p", [None, 1]), static.data("y", [None, 1])
        tag = static.data("w", [None, 1], "int64")
        made = static.ctr_metric_bundle(predicted, label, None if weight is None else tag)
        assert all(one.persistable for one in made)
        start()
        feed: dict[str, Any] = {"p": np.array([[0.2], [0.9], [0.4]], "float32")}
        feed["y"] = np.array([[0], [1], [1]], "float32")
        feed["w"] = np.array([weight or [1]]).reshape(-1, 1)
        found: list[Array] = []
        for _ in range(batches):
            found = run(made, **feed)
    return found


def test_sums_of_batches() -> None:
    found = sums(2, None)
    assert all(one.shape == (1,) for one in found)
    np.testing.assert_allclose(np.ravel(found), [0.82, 1.8, 3.0, 3.7189422, 4.0, 6.0], 1e-6)


def test_a_batch_without_data_adds_no_rows() -> None:
    np.testing.assert_allclose(np.ravel(sums(1, [0, 1]))[3:], [0.0, 2.0, 0.0])


def test_gradients_are_dense_and_merged() -> None:
    """Functions that clips of scripts call on the gradients of embeddings have no effect."""
    with fresh():
        x = static.data("x", [2, 2])
        merged = fluid.layers.merge_selected_rows(x)
        (found,) = run([fluid.layers.get_tensor_from_selected_rows(merged)], x=CLICKS)
    np.testing.assert_array_equal(found, CLICKS)


def test_shapes_that_do_not_fit() -> None:
    with fresh():
        x, narrow = static.data("x", [2, 4]), static.data("n", [2, 1])
        with pytest.raises(ProgramError, match=r"expected rows \[n, d\] and \[n, 2\]"):
            static.nn.continuous_value_model(x, x)
        with pytest.raises(ProgramError, match="rows of 1 columns have no shows and clicks"):
            static.nn.continuous_value_model(narrow, static.data("c", [2, 2]))
        with pytest.raises(ProgramError, match="should have one shape"):
            static.ctr_metric_bundle(x, narrow)
