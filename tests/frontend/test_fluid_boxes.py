"""paddle.fluid: boxes whose number depends on the data, and training to find boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh, run

layers = fluid.layers
# two boxes that have almost everything in common, and one apart
BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], "float32")
SCORES = np.array([[[0.0, 0.0, 0.0], [0.6, 0.9, 0.3]]], "float32")


def boxes_and_scores() -> tuple[Any, Any]:
    """Declare variables for BOXES and SCORES."""
    return fluid.data("boxes", [1, 3, 4]), fluid.data("scores", [1, 2, 3])


def test_the_best_box_of_those_that_cover_each_other() -> None:
    """Class 0 is the background; the worse of two overlapping boxes is dropped."""
    with fresh():
        found = layers.multiclass_nms(*boxes_and_scores(), 0.1, 10, 10, nms_threshold=0.5)
        (rows,) = run(found, boxes=BOXES, scores=SCORES)
    wanted = [[1, 0.9, *BOXES[0, 1]], [1, 0.3, *BOXES[0, 2]]]
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)


def test_scores_sink_with_what_better_boxes_cover() -> None:
    """Better boxes lower the scores of the boxes they cover; only scores below the limit go."""
    with fresh():
        found = layers.matrix_nms(*boxes_and_scores(), 0.1, 0.05, 10, 10, return_index=True)
        rows, index = run(*found, boxes=BOXES, scores=SCORES)
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.3, 0.6 * 0.1], rtol=1e-5)
    assert index.ravel().tolist() == [1, 2, 0]


def test_boxes_that_follow_each_other_are_merged() -> None:
    """Neighbors that overlap merge, weighted by scores, which add; an image is a sequence."""
    with fresh():
        boxes, scores = fluid.data("boxes", [1, 3, 4]), fluid.data("scores", [1, 1, 3])
        found = layers.locality_aware_nms(boxes, scores, 0.1, 10, 10)
        assert found.lod_level == 1
        (rows,) = run(found, boxes=BOXES, scores=SCORES[:, 1:])
    merged = (BOXES[0, 0] * 0.6 + BOXES[0, 1] * 0.9) / 1.5
    np.testing.assert_allclose(rows, [[0, 1.5, *merged], [0, 0.3, *BOXES[0, 2]]], rtol=1e-6)


def test_what_retinanet_finds() -> None:
    """Zero offsets give the anchors, whose corners are pixels; the best row is first."""
    with fresh():
        offsets, scores = fluid.data("offsets", [1, 2, 4]), fluid.data("scores", [1, 2, 3])
        anchors, info = fluid.data("anchors", [2, 4]), fluid.data("info", [1, 3])
        found = layers.retinanet_detection_output([offsets], [scores], [anchors], info, 0.3)
        boxes = np.array([[0, 0, 9, 9], [10, 10, 19, 29]], "float32")
        marks = np.array([[[0.1, 0.5, 0], [0.0, 0, 0.7]]], "float32")
        size = np.array([[40, 40, 1]], "float32")
        zeros = np.zeros((1, 2, 4), "float32")
        (rows,) = run(found, offsets=zeros, scores=marks, anchors=boxes, info=size)
    wanted = [[3, 0.7, *boxes[1]], [2, 0.5, *boxes[0]], [1, 0.1, *boxes[0]]]
    np.testing.assert_allclose(rows, wanted, rtol=1e-5)


def test_what_ssd_finds() -> None:
    """Zero offsets give the priors; scores are softmaxed."""
    with fresh():
        loc, logits = fluid.data("loc", [1, 3, 4]), fluid.data("logits", [1, 3, 2])
        priors = fluid.data("priors", [3, 4])
        found, index = layers.detection_output(
            loc, logits, priors, [0.1, 0.1, 0.2, 0.2], nms_threshold=0.5, return_index=True
        )
        logits_of = np.log(np.array([[[0.4, 0.6], [0.1, 0.9], [0.7, 0.3]]], "float32"))
        zeros = np.zeros((1, 3, 4), "float32")
        rows, places = run(found, index, loc=zeros, logits=logits_of, priors=BOXES[0])
    wanted = [[1, 0.9, *BOXES[0, 1]], [1, 0.3, *BOXES[0, 2]]]
    np.testing.assert_allclose(rows, wanted, rtol=1e-5)
    assert places.ravel().tolist() == [1, 2]


@pytest.mark.exhaustive
def test_training_to_find_a_box() -> None:
    """The loss of one image with one box falls, and the box's cell becomes confident."""
    with fresh():
        start = fluid.initializer.Constant(0.0)
        out = layers.create_parameter([1, 14, 2, 2], "float32", default_initializer=start)
        box, label = fluid.data("box", [1, 1, 4]), fluid.data("label", [1, 1], "int32")
        loss = layers.yolov3_loss(out, box, label, [10, 13, 30, 30], [0, 1], 2, 0.7, 32)
        fluid.optimizer.Adam(0.05).minimize(layers.mean(loss))
        feed = {
            "box": np.array([[[0.7, 0.2, 0.45, 0.5]]], "float32"),
            "label": np.array([[1]], "int32"),
        }
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        losses: list[float] = []
        value = np.zeros(0)
        for _ in range(100):
            lost, value = exe.run(feed=feed, fetch_list=[loss, out])
            losses.append(float(lost[0]))
    assert losses[-1] < losses[0] / 2
    sure = value.reshape(2, 7, 2, 2)[:, 4]
    # the second anchor suits, in the cell of the upper right quarter
    assert np.unravel_index(sure.argmax(), sure.shape) == (1, 0, 1)
    assert (sure > 0).sum() == 1


def test_the_box_of_the_best_class() -> None:
    """A zero offset gives the prior; the background is never chosen, and the clip bounds sizes."""
    with fresh():
        prior, variance = fluid.data("prior", [1, 4]), fluid.data("variance", [4])
        offsets, scores = fluid.data("offsets", [1, 8]), fluid.data("scores", [1, 2])
        found = layers.box_decoder_and_assign(prior, variance, offsets, scores, np.log(2.0))
        flat, best = run(
            *found,
            prior=np.array([[2, 2, 5, 5]], "float32"),
            variance=np.ones(4, "float32"),
            offsets=np.array([[0, 0, 0, 0, 1, 0, 99, 0]], "float32"),
            scores=np.array([[0.9, 0.1]], "float32"),
        )
    np.testing.assert_allclose(flat, [[2, 2, 5, 5, 4, 2, 11, 5]], rtol=1e-6)
    np.testing.assert_allclose(best, [[4, 2, 11, 5]], rtol=1e-6)


def test_mean_of_what_classes_have_in_common() -> None:
    """Class 0 shares 1 of 2, class 1 two of 3; an absent class does not count."""
    with fresh():
        found, wanted = fluid.data("found", [4], "int32"), fluid.data("wanted", [4], "int32")
        classes = np.array([0, 1, 1, 1], "int32"), np.array([0, 0, 1, 1], "int32")
        iou = layers.mean_iou(found, wanted, 3)
        mean, wrong, right = run(*iou, found=classes[0], wanted=classes[1])
    np.testing.assert_allclose(mean, [(1 / 2 + 2 / 3) / 2], rtol=1e-6)
    assert (wrong.tolist(), right.tolist()) == ([1, 1, 0], [1, 2, 0])


def test_decoded_boxes_keep_the_sequences_of_their_priors() -> None:
    """With axis 1 boxes keep the priors' sequences, which separate the images, as in 1.8.5."""
    numbers = np.random.RandomState(0)
    low, high = numbers.rand(5, 2) * 10, numbers.rand(5, 2) * 10 + 12
    priors = np.concatenate([low, high], 1).astype("float32")
    with fresh() as main:
        prior = fluid.data("prior", [None, 4], lod_level=1)
        offsets, scores = fluid.data("offsets", [None, 2, 4]), fluid.data("scores", [None, 2])
        decoded = layers.box_coder(
            prior, [0.1, 0.1, 0.2, 0.2], offsets, "decode_center_size", False, axis=1
        )
        chosen = layers.multiclass_nms(decoded, scores, 0.2, 10, 5, 0.4)
        feed = {
            "prior": fluid.create_lod_tensor(priors, [[2, 3]], fluid.CPUPlace()),
            "offsets": numbers.randn(5, 2, 4).astype("float32"),
            "scores": numbers.rand(5, 2).astype("float32"),
        }
        (rows,) = fluid.Executor().run(main, feed, [chosen], return_numpy=False)
    assert rows.recursive_sequence_lengths() == [[1, 1]]
    expected = [
        [1, 0.6048, 0.0931, 8.648, 17.4342, 17.2488],
        [1, 0.4143, 9.0987, 0.9262, 19.181, 19.3898],
    ]
    np.testing.assert_allclose(rows, expected, atol=1e-4)


@pytest.mark.exhaustive
def test_the_derivative_of_boxes_that_share_a_cell() -> None:
    """Each box has its loss; the derivative is the last one's, as in 1.8.5."""
    with fresh():
        x = fluid.data("x", [1, 14, 2, 2])
        x.stop_gradient = False
        box, label = fluid.data("box", [1, 3, 4]), fluid.data("label", [1, 3], "int32")
        loss = layers.yolov3_loss(x, box, label, [10, 13, 30, 30], [0, 1], 2, 0.7, 32)
        found, back = run(
            loss,
            *fluid.gradients(loss, x),
            x=np.random.RandomState(0).randn(1, 14, 2, 2).astype("float32"),
            box=np.array([[[0.7, 0.2, 0.45, 0.5], [0.6, 0.3, 0.5, 0.4], [0.2] * 4]], "float32"),
            label=np.array([[1, 0, 0]], "int32"),
        )
    np.testing.assert_allclose(found, [37.477131], rtol=1e-6)
    np.testing.assert_allclose(np.abs(back).sum(), 17.208973, rtol=1e-5)
    expected = [1.10333, -0.86178, 1.8, -1.8, -0.6078, -0.52799, 0.20994]
    np.testing.assert_allclose(back[0, 7:, 0, 1], expected, atol=1e-5)
