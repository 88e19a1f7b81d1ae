"""Metrics over many batches: fluid.metrics, average and evaluator, with the numbers of 1.8.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh

metrics = fluid.metrics


def batches() -> list[tuple[Any, Any]]:
    """Return probabilities of 1, and labels, as they were fed to 1.8.5."""
    numbers = np.random.RandomState(3)
    return [
        (numbers.rand(64, 1).astype("float32"), (numbers.rand(64, 1) > 0.5).astype("int64"))
        for _ in range(4)
    ]


def test_binary_classes() -> None:
    precision, recall, auc = metrics.Precision(), metrics.Recall("r"), metrics.Auc("auc")
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    assert [m.eval() for m in (precision, recall, auc)] == [0.0, 0.0, 0.0]
    for probabilities, labels in batches():
        for metric in (precision, recall, both):
            metric.update(probabilities, labels)
        auc.update(np.concatenate([1 - probabilities, probabilities], 1), labels)
    assert precision.eval() == 0.4961832061068702
    assert recall.eval() == 0.5284552845528455
    assert both.eval() == [precision.eval(), recall.eval()]
    assert auc.eval() == pytest.approx(0.5154654930007947, rel=1e-12)
    assert precision.get_config() == {"name": "Precision", "states": {"tp": 65, "fp": 66}}
    assert str(recall) == "r"
    for metric in (precision, auc):
        metric.reset()
    assert precision.eval() == 0.0
    assert auc.eval() > 0.5  # its counts stay


def test_means() -> None:
    accuracy, average = metrics.Accuracy(), fluid.average.WeightedAverage()
    for i in range(4):
        value = np.array([0.25 * i], "float32")
        accuracy.update(value, 8 + i)
        average.add(value, 8 + i)
    np.testing.assert_allclose(accuracy.eval(), [0.40789473], rtol=1e-6)
    np.testing.assert_array_equal(accuracy.eval(), average.eval())
    accuracy.reset()
    accuracy.update(0.5, 2)
    accuracy.update(1, 2)
    assert accuracy.eval() == 0.75


def test_sequences() -> None:
    distance, chunks = metrics.EditDistance("e"), metrics.ChunkEvaluator()
    assert chunks.eval() == (0, 0, 0)
    for i in range(4):
        distance.update(np.array([[0.0], [2.0], [1.0]], "float32") * i, 3)
        chunks.update(np.array([10]), np.array([8 + i]), np.array([5]))
    assert distance.eval() == (1.5, 0.5)
    np.testing.assert_allclose(np.ravel(chunks.eval()), [0.5, 0.52631579, 0.51282051], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: metrics.Accuracy().update("a", 1), ValueError, "'value' must be a number"),
        (lambda: metrics.Accuracy().update(1.0, "a"), ValueError, "'weight' must be a number"),
        (lambda: metrics.Accuracy().update(1.0, -1), ValueError, "can not be negative"),
        (lambda: metrics.Accuracy().eval(), ValueError, "no data in Accuracy"),
        (lambda: metrics.EditDistance("e").eval(), ValueError, "no data in EditDistance"),
        (lambda: metrics.Precision().update([1], [1]), ValueError, "'preds' must be a numpy"),
        (lambda: metrics.CompositeMetric().add_metric(3), ValueError, "inherit from MetricBase"),
        (lambda: metrics.MetricBase(None).eval(), NotImplementedError, "please extend it"),
        (lambda: fluid.average.WeightedAverage().eval(), ValueError, "no data to be averaged"),
    ],
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.exhaustive
def test_evaluators_keep_their_state_in_the_program() -> None:
    place = fluid.CPUPlace()
    tags = np.array([0, 1, 2, 3, 4, 0, 1], "int64").reshape(-1, 1)
    with fresh() as main:
        x, y = (fluid.data(name, [None, 1], "int64", lod_level=1) for name in "xy")
        chunks = fluid.evaluator.ChunkEvaluator(x, y, "IOB", 2)
        distance = fluid.evaluator.EditDistance(x, y)
        exe = fluid.Executor(place)
        for _ in range(2):
            chunks.reset(exe)
            distance.reset(exe)
            last: list[Any] = []
            for i in range(2):
                labels = np.array([0, 1, 2, 2 + i, 4, 0, 0], "int64").reshape(-1, 1)
                arrays = {"x": tags, "y": labels}
                lengths = [[3, 2, 2]]
                feed = {n: fluid.create_lod_tensor(a, lengths, place) for n, a in arrays.items()}
                last = exe.run(main, feed, chunks.metrics + distance.metrics)
        scores = [*chunks.eval(exe), *distance.eval(exe)]
        names = [state.name for state in chunks.states]
    np.testing.assert_allclose(np.ravel(scores), [0.75, 0.6, 2 / 3, 0.25, 0.5], rtol=1e-6)
    np.testing.assert_allclose(np.ravel(last), [0.75, 0.6, 2 / 3, 0.5, 1], rtol=1e-6)
    assert names[:2] == ["chunk_eval_0_0_num_infer_chunks", "chunk_eval_0_1_num_label_chunks"]


def test_counts_of_accuracy_are_vectors() -> None:
    with fresh() as main:
        scores = fluid.data("scores", [None, 2])
        label = fluid.data("label", [None, 1], "int64")
        right, rows = (fluid.layers.create_tensor("int64") for _ in range(2))
        share = fluid.layers.accuracy(scores, label, correct=right, total=rows)
        assert share.name == "accuracy_0.tmp_0"
        feed = {
            "scores": np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], "float32"),
            "label": np.array([[1], [1], [1]]),
        }
        found = fluid.Executor().run(main, feed, [right, rows, share.name])
    assert [value.shape for value in found] == [(1,)] * 3
    assert [value[0] for value in found] == [2, 3, np.float32(2 / 3)]
