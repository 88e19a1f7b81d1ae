"""Tensors without elements: shapes and numbers of Paddle 3.3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.lowering.ops.detection.assignment import generate_proposal_labels, rpn_target_assign
from graphopt_tests.frontend.programs import fresh, run

F = paddle.nn.functional
vision = paddle.vision.ops
# the function, the shape of x, the shapes of the results
EMPTY: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], list[tuple[int, ...]]]] = {
    "adaptive_max_pool1d": (
        lambda x: F.adaptive_max_pool1d(x, 3, return_mask=True),
        (0, 2, 7),
        [(0, 2, 3), (0, 2, 3)],
    ),
    "grid_sample": (
        lambda x: F.grid_sample(x, paddle.zeros([0, 2, 3, 2])),
        (0, 2, 3, 4),
        [(0, 2, 2, 3)],
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 2, return_mask=True),
        (0, 2, 4, 4),
        [(0, 2, 2, 2), (0, 2, 2, 2)],
    ),
    "nanmedian": (lambda x: paddle.nanmedian(x, 1), (0, 3), [(0,)]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_shapes(name: str) -> None:
    function, shape, wanted = EMPTY[name]
    with fresh():
        made = function(static.data("x", list(shape), "float32"))
        results = [*made] if isinstance(made, (list, tuple)) else [made]
        found = run(results, x=np.zeros(shape, "float32"))
    assert [result.shape for result in found] == wanted


@pytest.mark.parametrize("form", ["numpy", "jax"])
def test_no_image_has_no_proposals(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty batch has no boxes, and no losses."""
    monkeypatch.setenv("FLAGS_graphopt_tier", "host" if form == "numpy" else "full")
    with fresh():
        names = {"scores": (3, 4, 4), "deltas": (12, 4, 4), "sizes": (2,), "cells": (7, 2, 2)}
        feed = {name: np.zeros((0, *shape), "float32") for name, shape in names.items()}
        given = {n: static.data(n, [-1, *shape], "float32") for n, shape in names.items()}
        boxes, labels = static.data("b", [-1, 3, 4]), static.data("l", [-1, 3], "int32")
        anchors = paddle.ones([4, 4, 3, 4])
        proposals = vision.generate_proposals(
            *(given[n] for n in ("scores", "deltas", "sizes")),
            *(anchors, anchors),
            return_rois_num=True,
        )
        loss = vision.yolo_loss(given["cells"], boxes, labels, [10, 13], [0], 2, 0.7, 32)
        feed |= {"b": np.zeros((0, 3, 4), "float32"), "l": np.zeros((0, 3), "int32")}
        found = run([*proposals, loss], **feed)
    assert [result.shape for result in found] == [(0, 4), (0, 1), (0,), (0,)]


def test_no_image_has_no_targets() -> None:
    """The rules that choose boxes image by image take an empty batch."""
    boxes, info = np.zeros((0, 4), "float32"), np.zeros((0, 3), "float32")
    whole = np.zeros(0, "int32")
    key = np.zeros(2, "uint32")
    anchors = np.ones((5, 4), "float32")
    with jax.enable_x64(True):
        sampled = rpn_target_assign(
            *(anchors, boxes, None, whole, info, whole), 256, 0.0, 0.25, 0.7, 0.3, False, key
        )
        labelled = generate_proposal_labels(
            *(boxes, whole, whole, boxes, info, whole, whole, None),
            *(256, 0.25, 0.5, 0.5, 0.0, (0.1, 0.1, 0.2, 0.2), 3, False, False, False, key),
        )
    assert [np.shape(part) for part in sampled[:5]] == [(0,), (0,), (0, 1), (0, 4), (0, 4)]
    assert [np.shape(part) for part in labelled[:3]] == [(0, 4), (0, 1), (0, 12)]


def test_no_samples_have_no_spread() -> None:
    """The standard deviation of no elements is nan."""
    with fresh():
        found = run([paddle.std(paddle.zeros([0, 3]), 0)])
    assert np.isnan(found[0]).all()
