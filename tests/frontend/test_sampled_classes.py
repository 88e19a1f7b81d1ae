"""Noise-contrastive estimation: `static.nn.nce`, and the operator by its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
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
        # as in Paddle 1.8.5, which never draws the last class
        "log_uniform": np.append(np.log(np.arange(2, 6) / np.arange(1, 5)) / np.log(5), 0),
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


NAMED = {"uniform": 0, "log_uniform": 1, "custom_dist": 2}


@pytest.mark.parametrize(
    ("sampler", "wanted"),
    [
        ("uniform", [2.724916, 5.744404, 1.8127649]),
        ("log_uniform", [2.218646, 4.953149, 1.7745783]),
        ("custom_dist", [2.7358074, 6.7212086, 1.9421804]),
    ],
)
def test_costs_with_the_chances_of_each_sampler(sampler: str, wanted: list[float]) -> None:
    """The numbers are those of Paddle 1.8.5, with samples drawn in this order."""
    draw = np.random.RandomState(0)
    rows, weight, bias = (
        np.round(draw.randn(*shape), 2).astype("float32") for shape in ((3, 4), (10, 4), (10,))
    )
    chances = np.array([0.1, 0.05, 0.15, 0.1, 0.2, 0.05, 0.05, 0.1, 0.1, 0.1], "float32")
    inputs = {
        "Input": rows,
        "Label": np.array([[1, 7], [3, 3], [0, 9]]),
        "Weight": weight,
        "Bias": bias,
        "SampleWeight": np.array([1, 2, 0.5], "float32"),
    }
    if sampler == "custom_dist":
        inputs["CustomDistProbs"] = chances
        inputs["CustomDistAlias"] = np.arange(10, dtype="int32")
        inputs["CustomDistAliasProbs"] = np.ones(10, "float32")
    attrs = {"num_total_classes": 10, "num_neg_samples": 3, "sampler": NAMED[sampler]}
    cost, ids = run("nce", inputs, "Cost SampleLabels", {**attrs, "custom_neg_classes": [0, 2, 5]})
    np.testing.assert_allclose(cost[:, 0], wanted, 1e-6)
    assert ids[:, 2:].tolist() == [[0, 2, 5]] * 3


def test_a_log_uniform_sampler_needs_two_classes() -> None:
    inputs = {name: np.zeros((1, 1), "float32") for name in ("Input", "Weight")}
    inputs["Label"] = np.zeros((1, 1), "int64")
    attrs = {"num_total_classes": 1, "num_neg_samples": 1, "sampler": 1}
    with pytest.raises(ProgramError, match="log_uniform needs 2 classes"):
        run("nce", inputs, "Cost", attrs)


@pytest.mark.exhaustive
def test_a_layer_learns() -> None:
    with fresh():
        x = static.data("x", [None, 3])
        y = static.data("y", [None, 1], "int64")
        loss = paddle.mean(static.nn.nce(x, y, 20, num_neg_samples=4, sampler="log_uniform"))
        paddle.optimizer.Adam(0.1).minimize(loss)
        exe = static.Executor()
        exe.run(static.default_startup_program())
        feed = {"x": ROWS, "y": CLASSES[:, :1]}
        losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(60)]
    assert losses[-1] < losses[0] / 2


def test_probabilities_are_one_for_each_class() -> None:
    with fresh(), pytest.raises(ValueError, match="should have 20 probabilities"):
        x, y = static.data("x", [4, 3]), static.data("y", [4, 1], "int64")
        static.nn.nce(x, y, 20, sampler="custom_dist", custom_dist=[1.0])
