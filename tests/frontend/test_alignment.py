"""CTC, edit distances and masks as scripts call them, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.nn.functional.alignment import ctc_greedy_decoder, edit_distance, warpctc
from graphopt_tests.frontend.programs import fresh, run

F = nn.functional


@pytest.mark.exhaustive
def test_ctc_reductions() -> None:
    """The mean divides by label lengths, so an empty label makes it infinite."""
    feed = {
        "x": np.random.default_rng(1).standard_normal((5, 2, 3)).astype("float32"),
        "y": np.array([[1, 2], [2, 1]], "int32"),
        "t": np.array([5, 4], "int64"),
        "n": np.array([2, 1], "int64"),
        "e": np.array([2, 0], "int64"),
    }
    with fresh():
        x, y, t, n, e = (static.data(k, list(v.shape), str(v.dtype)) for k, v in feed.items())
        losses = F.ctc_loss(x, y, t, n, reduction="none")
        mean, total = nn.CTCLoss()(x, y, t, n), F.ctc_loss(x, y, t, n, reduction="sum")
        empty = nn.CTCLoss()(x, y, t, e)
        each, mean_, total_, empty_ = run([losses, mean, total, empty], **feed)
    np.testing.assert_allclose(mean_, (each / [2, 1]).mean(), rtol=1e-6)
    np.testing.assert_allclose(total_, each.sum(), rtol=1e-6)
    assert np.isinf(empty_)


@pytest.mark.exhaustive
def test_norm_by_times_scales_the_gradient_alone() -> None:
    """Each sequence's gradient is divided by its length."""
    with fresh():
        x = static.data("x", [4, 2, 3], "float32")
        x.stop_gradient = False
        y, t = static.data("y", [2, 1], "int32"), static.data("t", [2], "int64")
        n = paddle.to_tensor(np.array([1, 1]))
        losses = [F.ctc_loss(x, y, t, n, 0, "sum", flag) for flag in (False, True)]
        gradients = [static.gradients([loss], [x])[0] for loss in losses]
        logits = np.random.default_rng(2).standard_normal((4, 2, 3)).astype("float32")
        feed = {"x": logits, "y": np.array([[1], [2]], "int32"), "t": np.array([4, 2])}
        plain, scaled, a, b = run([*losses, *gradients], **feed)
    assert plain == scaled
    np.testing.assert_allclose(a / np.array([4, 2])[:, None], b, rtol=1e-6)
    assert not b[2:, 1].any()


def test_labels_that_are_no_class_give_nan() -> None:
    """An invalid label gives nan, never another label's loss; later labels do not count."""
    feed = {
        "x": np.zeros((4, 3, 3), "float32"),
        "y": np.array([[1, 9], [9, 1], [-1, 1]], "int32"),
        "h": np.array([[0.5], [1.0], [2.0]], "float32"),
        "c": np.array([[0], [3], [-1]]),
    }
    with fresh():
        x, y, h, c = (static.data(k, list(v.shape), str(v.dtype)) for k, v in feed.items())
        times, lengths = (
            paddle.to_tensor(np.array([4, 4, 4])),
            paddle.to_tensor(np.array([1, 2, 1])),
        )
        ctc = F.ctc_loss(x, y, times, lengths, reduction="none")
        tree = F.hsigmoid_loss(h, c, 3, paddle.to_tensor(np.ones((2, 1), "float32")))
        found = run([ctc, tree], **feed)
    assert np.isnan(found[0]).tolist() == [False, True, True]
    assert np.isnan(found[1][:, 0]).tolist() == [False, True, True]


@pytest.mark.exhaustive
def test_padded_logits_of_a_further_axis() -> None:
    """Axes of size one are dropped: the numbers are those of 1.8.5."""
    scores = np.random.RandomState(0).randn(5, 2, 4).astype("float32")
    feed: dict[str, Any] = {"x": scores[..., None], "a": np.array([5, 4]), "b": np.array([3, 2])}
    feed["y"] = np.array([[1, 2, 1], [2, 2, 0]], "int32")
    with fresh():
        x, a, b, y = (static.data(k, list(v.shape), str(v.dtype)) for k, v in feed.items())
        (found,) = run([warpctc(x, y, 0, False, a, b)], **feed)
    np.testing.assert_allclose(found, [[6.273013], [3.834154]], 1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_loss_of_a_transducer(reduction: str) -> None:
    """Rows have different lengths, and fastemit scales the labels' gradient, as in 2.6.2."""
    scores = np.random.RandomState(0).randn(2, 4, 3, 5).astype("float32")
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    feed = {"x": scores, "y": np.array([[1, 2], [3, 1]], "int32")}
    feed |= {"t": np.array([4, 3], "int32"), "n": np.array([2, 1], "int32")}
    with fresh():
        x, y, t, n = (static.data(k, list(v.shape), str(v.dtype)) for k, v in feed.items())
        x.stop_gradient = False
        loss = paddle.nn.RNNTLoss(0, 0.1, reduction)(x, y, t, n)
        (slope,) = static.gradients([loss], [x])
        found, gradient = run([loss, slope], **feed)
    wanted = {"none": [8.551046, 6.455884], "mean": 7.503465, "sum": 15.00693}[reduction]
    np.testing.assert_allclose(found, wanted, 1e-6)
    parts = gradient[1, 0, :2, [0, 3]] * (2 if reduction == "mean" else 1)
    np.testing.assert_allclose(
        parts, [[-0.96135134, -0.03864881], [-0.04251369, 0.0]], 1e-5, atol=1e-7
    )
    assert not gradient[1, 3].any()
    assert not gradient[1, :, 2].any()


def test_greedy_decoding_and_distance() -> None:
    """Decoding drops repetitions and blanks of the likeliest path; edit_distance takes it."""
    path = np.array([[1, 1, 0, 2, 2], [3, 0, 3, 1, 1]])
    with fresh():
        x = static.data("x", [2, 5, 4], "float32")
        length = static.data("l", [2, 1], "int64")
        tokens, count = ctc_greedy_decoder(x, 0, length, padding_value=-1)
        label = paddle.to_tensor(np.array([[1, 2, 2], [3, 3, 3]]))
        distance, number = edit_distance(tokens, label, False, input_length=count)
        feed = {"x": np.eye(4, dtype="float32")[path], "l": np.array([[5], [3]])}
        found = run([tokens, count, distance, number], **feed)
    assert found[0].tolist() == [[1, 2, -1, -1, -1], [3, 3, -1, -1, -1]]
    assert [a.tolist() for a in found[1:]] == [[[2], [2]], [[1.0], [1.0]], [2]]


@pytest.mark.parametrize("given", [False, True], ids=["largest", "fed"])
def test_columns_of_a_mask_from_data(given: bool) -> None:
    """Without maxlen a mask has as many columns as the largest length; maxlen may be fed."""
    feed = {"l": np.array([1, 3]), **({"m": np.array([4])} if given else {})}
    with fresh():
        lengths = static.data("l", [2], "int64")
        mask = F.sequence_mask(lengths, static.data("m", [1], "int64") if given else None)
        assert mask.shape == (2, -1)
        executor = static.Executor(paddle.CPUPlace())
        (found,) = executor.run(static.default_main_program(), feed=feed, fetch_list=[mask])
    np.testing.assert_array_equal(found, np.arange(4 if given else 3) < feed["l"][:, None])


def test_errors_say_what_to_do() -> None:
    """Errors for ragged rows, unknown lengths and wrong shapes say how to mend the call."""
    with fresh():
        x, y = static.data("x", [4, 2, 3], "float32"), static.data("y", [2, 2], "int32")
        lengths = static.data("l", [2], "int64")
        with pytest.raises(UnsupportedError, match=r"warpctc.*input_length.*pad them"):
            warpctc(x, y)
        with pytest.raises(ProgramError, match=r"label \[batch, length\].*\[2, -1\].*\[3, 2\]"):
            F.ctc_loss(x, static.data("z", [3, 2], "int32"), lengths, lengths)
        with pytest.raises(ProgramError, match="the blank 3 is none of 3 classes"):
            F.ctc_loss(x, y, lengths, lengths, blank=3)
        with pytest.raises(UnsupportedError, match="ignored_tokens"):
            edit_distance(y, y, ignored_tokens=[0])
        with pytest.raises(ValueError, match=r"gather_tree\(\).*time, batch, beams"):
            F.gather_tree(y, y)
        with pytest.raises(ValueError, match="num_classes >= 2"):
            F.hsigmoid_loss(x, paddle.cast(y, "int64"), 1, x)
