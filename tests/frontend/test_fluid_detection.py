"""paddle.fluid: training to detect objects, a sequence of objects for each image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
CPU = fluid.CPUPlace()
OBJECTS = [[0.1, 0.1, 0.5, 0.5], [0.4, 0.4, 0.9, 0.9], [0.5, 0.1, 0.9, 0.4]]
PRIORS = [[0.1, 0.1, 0.4, 0.5], [0.5, 0.5, 0.9, 0.9], [0.5, 0.0, 0.9, 0.5], [0.0, 0.1, 0.5, 0.6]]


@pytest.mark.parametrize(
    ("crowd", "rois", "classes"),
    [
        (0, [[0.5, 0.5, 4.5, 4.5], [0, 0, 5, 5], [1, 1, 10, 10], [30, 30, 40, 40]], [1, 1, 0, 0]),
        (1, [[0, 0, 5, 5], [1, 1, 10, 10], [30, 30, 40, 40]], [1, 0, 0]),
    ],
)
def test_the_first_boxes_of_a_cascade_have_the_size_of_objects(
    crowd: int, rois: Any, classes: Any
) -> None:
    """As many boxes as there are objects are in the objects' scale, as in Paddle 1.8.5."""
    boxes = [[1, 1, 9, 9], [2, 2, 20, 20], [30, 30, 40, 40], [0, 0, 5, 5]]
    with fresh():
        given = [fluid.data(name, [None, 4], lod_level=1) for name in ("boxes", "objects")]
        kinds = [fluid.data(name, [None, 1], "int32", lod_level=1) for name in ("kinds", "crowd")]
        info = fluid.data("info", [None, 3])
        made = layers.generate_proposal_labels(
            *(given[0], *kinds, given[1], info, 8),
            class_nums=3,
            use_random=False,
            is_cascade_rcnn=True,
        )
        feed = {
            "boxes": sequences(boxes, [4]),
            "objects": sequences([[1, 1, 9, 9], [30, 30, 40, 40]], [2]),
            "kinds": sequences([[1], [2]], [2], "int32"),
            "crowd": sequences([[crowd], [0]], [2], "int32"),
            "info": np.array([[64, 64, 0.5]], "float32"),
        }
        found = fluid.Executor(CPU).run(feed=feed, fetch_list=list(made), return_numpy=False)
    np.testing.assert_allclose(np.array(found[0]), rois)
    assert np.array(found[1]).ravel().tolist() == classes


def sequences(values: Any, lengths: list[int], dtype: str = "float32") -> Any:
    return fluid.create_lod_tensor(np.array(values, dtype), [lengths], CPU)


def ssd(match_type: str, normalize: bool) -> tuple[Any, Any]:
    """Build the summed loss of two images, and the loss; offsets and scores are parameters."""
    places = layers.create_parameter([1, 4, 4], "float32", "places")
    marks = layers.create_parameter([1, 4, 3], "float32", "marks")
    box = fluid.data("box", [None, 4], lod_level=1)
    label = fluid.data("label", [None, 1], "int32", lod_level=1)
    loss = layers.ssd_loss(
        layers.concat([places, layers.scale(places, 2.0)]),
        layers.concat([marks, layers.scale(marks, -1.0)]),
        *(box, label, fluid.data("priors", [4, 4])),
        match_type=match_type,
        normalize=normalize,
    )
    return layers.reduce_sum(loss), loss


# as Paddle 1.8.5 has them
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("match_type", "normalize", "wanted"),
    [
        ("bipartite", True, [[1.61249, 1.72734], [1.41235, 1.31667], [1.25747, 1.16648]]),
        pytest.param(
            *(
                "per_prediction",
                False,
                [[5.27748, 5.18203], [3.02948, 3.52278], [2.04823, 2.74508]],
            ),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_training_of_ssd(match_type: str, normalize: bool, wanted: list[list[float]]) -> None:
    """Three steps of training run, each as one XLA program."""
    draw = np.random.RandomState(3)
    feed = {
        "box": sequences(OBJECTS, [2, 1]),
        "label": sequences([[1], [2], [1]], [2, 1], "int32"),
        "priors": np.array(PRIORS, "float32"),
    }
    with fresh():
        total, loss = ssd(match_type, normalize)
        fluid.optimizer.SGD(0.5).minimize(total)
        exe = fluid.Executor(CPU)
        exe.run(fluid.default_startup_program())
        for name, shape in (("marks", (1, 4, 3)), ("places", (1, 4, 4))):
            value = (draw.randn(*shape) * 0.3).astype("float32")
            fluid.global_scope().find_var(name).get_tensor().set(value, CPU)
        found = [exe.run(feed=feed, fetch_list=[loss])[0].ravel() for _ in wanted]
        assert exe.stats["op_by_op"] == 0
    np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_the_heads_of_several_feature_maps() -> None:
    """Prior sizes grow from 20 to 90 percent; a map of side s has s² pixels with priors."""
    with fresh():
        image = fluid.data("image", [None, 3, 16, 16])
        maps = [fluid.data(f"map{side}", [None, 4, side, side]) for side in (4, 2, 1)]
        places, marks, priors, spread = layers.multi_box_head(
            *(maps, image, 16, 5, [[2.0], [2.0, 3.0], [2.0]]), min_ratio=20, max_ratio=90
        )
        count = 16 * 4 + 4 * 6 + 4
        assert [each.shape[1:] for each in (places, marks)] == [(count, 4), (count, 5)]
        assert priors.shape == spread.shape == (count, 4)
        assert len(fluid.default_main_program().all_parameters()) == 2 * 2 * len(maps)
        exe = fluid.Executor(CPU)
        exe.run(fluid.default_startup_program())
        (boxes,) = exe.run(
            feed={"image": np.zeros((1, 3, 16, 16), "float32")}
            | {each.name: np.zeros((1, 4, *each.shape[2:]), "float32") for each in maps},
            fetch_list=[priors],
        )
    # the smallest priors of the three maps are 10, 20 and 90 percent of the image
    assert (boxes[[0, 64, 88], 2] - boxes[[0, 64, 88], 0]).tolist() == pytest.approx(
        [0.1, 0.2, 0.9]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_sizes": [1.0] * 2}, "'max_sizes' must have one item for each of the 2 inputs"),
        ({"min_sizes": [1.0], "max_sizes": [2.0, 3.0]}, "'min_sizes' must have one item"),
        ({"min_sizes": [1.0] * 2, "max_sizes": [2.0] * 2, "steps": [1.0]}, "'step_w' must have"),
    ],
)
def test_a_list_that_does_not_fit(arguments: dict[str, Any], message: str) -> None:
    with fresh():
        image = fluid.data("image", [None, 3, 16, 16])
        maps = [fluid.data(f"map{side}", [None, 4, side, side]) for side in (4, 2)]
        with pytest.raises(ValueError, match=message):
            layers.multi_box_head(maps, image, 16, 5, [[2.0], [2.0]], **arguments)


def test_negatives_have_the_value_of_no_object() -> None:
    with fresh():
        x = fluid.data("x", [None, 1], lod_level=1)
        matches = fluid.data("matches", [2, 3], "int32")
        negatives = fluid.data("negatives", [None, 1], "int32", lod_level=1)
        outs = layers.target_assign(x, matches, negatives, mismatch_value=9)
        feed = {
            "x": sequences([[5], [6], [7]], [1, 2]),
            "matches": np.array([[-1, 0, -1], [1, -1, 0]], "int32"),
            "negatives": sequences([[0], [1]], [1, 1], "int32"),
        }
        out, weight = fluid.Executor(CPU).run(feed=feed, fetch_list=list(outs))
    assert out[..., 0].tolist() == [[9, 5, 9], [7, 9, 6]]
    assert weight[..., 0].tolist() == [[1, 1, 0], [1, 1, 1]]


def test_negatives_of_an_operator_that_a_script_appends() -> None:
    """Detectors of faces and key points append it; the numbers are those of Paddle 2.6.2."""
    with fresh():
        names = {"ClsLoss": "float32", "MatchIndices": "int32", "MatchDist": "float32"}
        given = {slot: fluid.data(slot, [None, 5], dtype) for slot, dtype in names.items()}
        x = fluid.data("x", [None, 1], lod_level=1)
        block = fluid.default_main_program().global_block()
        mined = [block.create_var(name=name, dtype="int32") for name in ("negatives", "matches")]
        block.append_op(
            "mine_hard_examples",
            given,
            {"NegIndices": mined[0], "UpdatedMatchIndices": mined[1]},
            {"neg_pos_ratio": 1.5, "neg_dist_threshold": 0.5, "mining_type": "max_negative"},
        )
        _, weight = layers.target_assign(x, mined[1], mined[0], mismatch_value=9)
        feed = {
            "ClsLoss": np.array([[1, 5, 3, 9, 2], [4, 2, 8, 1, 3]], "float32"),
            "MatchIndices": np.array([[0, -1, -1, -1, 1], [-1, -1, 0, -1, -1]], "int32"),
            "MatchDist": np.array([[9, 1, 2, 6, 8], [1, 2, 7, 3, 4]], "float32") / 10,
            "x": sequences([[5], [6], [7]], [2, 1]),
        }
        exe = fluid.Executor(CPU)
        found = exe.run(feed=feed, fetch_list=[*mined, weight], return_numpy=False)
    assert np.array(found[0]).tolist() == [[1], [2], [0]]
    assert found[0].recursive_sequence_lengths() == [[2, 1]]
    assert np.array_equal(np.array(found[1]), feed["MatchIndices"])
    assert np.array(found[2])[..., 0].tolist() == [[1, 1, 1, 0, 1], [1, 0, 1, 0, 0]]


@pytest.mark.exhaustive
def test_the_stages_of_faster_rcnn() -> None:
    """Proposals, the boxes of each pyramid level, and both losses train the network."""
    draw = np.random.RandomState(0)
    with fresh():
        fluid.default_startup_program().random_seed = 1
        features = fluid.data("features", [2, 4, 4, 4])
        info = fluid.data("info", [2, 3])
        objects = fluid.data("objects", [None, 4], lod_level=1)
        kinds = fluid.data("kinds", [None, 1], "int32", lod_level=1)
        crowd = fluid.data("crowd", [None, 1], "int32", lod_level=1)
        anchors, spread = layers.anchor_generator(
            features, [16.0, 32.0], [1.0], [1.0] * 4, [16.0, 16.0]
        )
        marks, offsets = layers.conv2d(features, 2, 1), layers.conv2d(features, 8, 1)
        boxes, _, ends = layers.generate_proposals(
            *(layers.sigmoid(marks), offsets, info, anchors, spread),
            post_nms_top_n=6,
            return_rois_num=True,
        )
        flat = [layers.reshape(each, [-1, 4]) for each in (anchors, spread)]
        logits, places, labels, targets, weights = layers.rpn_target_assign(
            layers.reshape(layers.transpose(offsets, [0, 2, 3, 1]), [2, -1, 4]),
            layers.reshape(layers.transpose(marks, [0, 2, 3, 1]), [2, -1, 1]),
            *(*flat, objects, crowd, info, 8),
            use_random=False,
        )
        first = layers.sigmoid_cross_entropy_with_logits(logits, layers.cast(labels, "float32"))
        first = layers.reduce_sum(first) + layers.reduce_sum(
            layers.smooth_l1(places, targets, weights, weights)
        )
        rois, classes, *_ = layers.generate_proposal_labels(
            *(boxes, kinds, crowd, objects, info, 8), class_nums=3, use_random=True
        )
        levels, restore = layers.distribute_fpn_proposals(rois, 2, 3, 3, 24)
        pooled = [layers.roi_align(features, level, 2, 2, 1 / 16) for level in levels]
        rows = layers.gather(layers.concat(pooled), layers.reshape(restore, [-1]))
        scores = layers.fc(rows, 3)
        second = layers.softmax_with_cross_entropy(scores, layers.cast(classes, "int64"))
        loss = layers.reduce_mean(second) + first
        fluid.optimizer.Adam(0.02).minimize(loss)
        best = layers.collect_fpn_proposals([boxes], [layers.reduce_sum(boxes, 1)], 2, 2, 5)
        exe = fluid.Executor(CPU)
        exe.run(fluid.default_startup_program())
        feed = {
            "features": draw.rand(2, 4, 4, 4).astype("float32"),
            "info": np.array([[64, 64, 1], [60, 50, 1]], "float32"),
            "objects": sequences([[2, 2, 30, 30], [20, 10, 60, 50], [8, 8, 40, 40]], [2, 1]),
            "kinds": sequences([[1], [2], [1]], [2, 1], "int32"),
            "crowd": sequences([[0]] * 3, [2, 1], "int32"),
        }
        fetches = [loss, boxes, ends, rois, best]
        runs = [exe.run(feed=feed, fetch_list=fetches, return_numpy=False) for _ in range(6)]
    values = [float(np.array(run[0]).ravel()[0]) for run in runs]
    assert values[-1] < values[0] * 0.8
    _, proposed, limits, chosen, kept = runs[-1]
    (counts,) = proposed.recursive_sequence_lengths()
    assert np.cumsum(counts).tolist() == np.array(limits).tolist()
    assert sum(chosen.recursive_sequence_lengths()[0]) == len(np.array(chosen)) > 3
    assert sum(kept.recursive_sequence_lengths()[0]) == len(np.array(kept)) == 5
