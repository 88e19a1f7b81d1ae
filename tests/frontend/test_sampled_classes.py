"""Noise-contrastive estimation: `static.nn.nce`, and the operator by its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.frontend.test_composed_operators import run

DRAW = np.random.RandomState(0)
ROWS, WEIGHT, BIAS = (DRAW.randn(*shape).astype("float32") for shape in ((4, 3), (20, 3), (20,)))
CLASSES = np.array([[1, 7], [3, 3], [0, 19], [8, 2]])


def logits(ids: Any) -> Any:
    return (ROWS[:, None] * WEIGHT[ids]).sum(-1) + BIAS[ids]


def test_the_cost_of_named_classes() -> None:
    others = np.tile([0, 1, 2], (4, 1))
    sample_weight = np.array([1, 2, 0.5, 1], "float32")
    inputs = {
        "Input": ROWS,
        "Label": CLASSES,
        "Weight": WEIGHT,
        "Bias": BIAS,
        "SampleWeight": sample_weight,
    }
    attrs = {
        "num_total_classes": 20,
        "num_neg_samples": 3,
        "custom_neg_classes": [0, 1, 2],
    }
    cost, out, ids = run("nce", inputs, "Cost SampleLogits SampleLabels", attrs)
    np.testing.assert_array_equal(ids, np.concatenate([CLASSES, others], 1))
    wanted = 1 / (1 + np.exp(-logits(ids)))
    np.testing.assert_allclose(out, wanted, 1e-5)
    expected = 3 / 20
    right = -np.log(wanted[:, :2] / (wanted[:, :2] + expected)).sum(1)
    wrong = -np.log(expected / (wanted[:, 2:] + expected)).sum(1)
    np.testing.assert_allclose(cost[:, 0], (right + wrong) * sample_weight, 1e-5)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_classes_are_drawn_as_their_sampler_says(sampler: str) -> None:
    chances = {
        "uniform": np.full(5, 0.2),
        "log_uniform": np.log((np.arange(5) + 2) / (np.arange(5) + 1)) / np.log(6),
        "custom_dist": np.array([0.5, 0, 0.25, 0.25, 0]),
    }[sampler]
    inputs = {
        "Input": np.zeros((500, 2), "float32"),
        "Label": np.zeros((500, 1), "int64"),
        "Weight": np.zeros((5, 2), "float32"),
    }
    if sampler == "custom_dist":
        inputs["CustomDistProbs"] = chances.astype("float32")
    kind = ["uniform", "log_uniform", "custom_dist"].index(sampler)
    attrs = {"num_total_classes": 5, "num_neg_samples": 8, "sampler": kind, "seed": 3}
    (ids,) = run("nce", inputs, "SampleLabels", attrs)
    shares = np.bincount(ids[:, 1:].reshape(-1), minlength=5) / ids[:, 1:].size
    np.testing.assert_allclose(shares, chances, atol=0.03)


def test_a_layer_learns() -> None:
    with fresh():
        x = static.data("x", [None, 3])
        y = static.data("y", [None, 1], "int64")
        loss = paddle.mean(static.nn.nce(x, y, 20, num_neg_samples=4, sampler="log_uniform"))
        paddle.optimizer.Adam(0.1).minimize(loss)
        exe = static.Executor()
        exe.run(static.default_startup_program())
        feed = {"x": ROWS, "y": CLASSES[:, :1]}
        losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(30)]
    assert losses[-1] < losses[0] / 2


def test_probabilities_are_one_for_each_class() -> None:
    with fresh(), pytest.raises(ValueError, match="should have 20 probabilities"):
        x, y = static.data("x", [4, 3]), static.data("y", [4, 1], "int64")
        static.nn.nce(x, y, 20, sampler="custom_dist", custom_dist=[1.0])
