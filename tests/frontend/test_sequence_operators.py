"""Operators on sequences, appended to a block by type, with Paddle's lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.fluid.layer_helper import LayerHelper
from graphopt.ir.program import Operator, Program
from graphopt.ir.translate.operators.sequences import declare_lengths
from graphopt_tests.frontend.test_fluid import fresh

ROWS = np.arange(12, dtype="float32").reshape(6, 2)
TOKENS = np.array([[1], [2], [2], [3], [1], [2]], "int32")


def run(
    type: str, inputs: dict[str, Any], outs: str, attrs: dict[str, Any] | None = None
) -> list[tuple[Any, Any]]:
    """Run one operator; return its outputs and their lengths. Inputs with lengths are pairs."""
    with fresh():
        given: dict[str, Any] = {}
        feed: dict[str, Any] = {}
        for slot, value in inputs.items():
            rows, lengths = value if isinstance(value, tuple) else (value, None)
            shape = [None, *rows.shape[1:]] if lengths else list(rows.shape)
            given[slot] = fluid.data(slot, shape, rows.dtype.name, lod_level=len(lengths or ()))
            place = fluid.CPUPlace()
            feed[slot] = fluid.create_lod_tensor(rows, lengths, place) if lengths else rows
        block = fluid.default_main_program().current_block()
        made = {slot: block.create_var(slot, dtype="float32") for slot in outs.split()}
        block.append_op(type=type, inputs=given, outputs=made, attrs=attrs)
        exe = fluid.Executor(fluid.CPUPlace())
        found = exe.run(feed=feed, fetch_list=list(made.values()), return_numpy=False)
        return [(np.array(value), value.recursive_sequence_lengths()) for value in found]


@pytest.mark.parametrize(
    ("type", "inputs", "attrs", "rows", "lengths"),
    [
        (
            "sequence_softmax",
            {"X": (ROWS[:, :1] * 0, [[2, 4]])},
            {},
            [[0.5]] * 2 + [[0.25]] * 4,
            [[2, 4]],
        ),
        ("sequence_erase", {"X": (TOKENS, [[3, 3]])}, {"tokens": [2]}, [[1], [3], [1]], [[1, 2]]),
        ("sequence_reshape", {"X": (ROWS, [[2, 4]])}, {"new_dim": 4}, ROWS.reshape(3, 4), [[1, 2]]),
        (
            "sequence_pool",
            {"X": (ROWS, [[1, 1], [2, 4]])},
            {"pooltype": "LAST"},
            ROWS[[1, 5]],
            [[1, 1]],
        ),
        (
            "sequence_expand_as",
            {"X": ROWS[:2], "Y": (TOKENS, [[1, 5]])},
            {},
            ROWS[[0, 1, 1, 1, 1, 1]],
            [[1, 5]],
        ),
        (
            "sequence_slice",
            {"X": (ROWS, [[2, 4]]), "Offset": np.array([[1], [0]]), "Length": np.array([[1], [2]])},
            {},
            ROWS[[1, 2, 3]],
            [[1, 2]],
        ),
        (
            "sequence_unpad",
            {"X": ROWS.reshape(2, 3, 2), "Length": np.array([1, 2])},
            {},
            ROWS[[0, 3, 4]],
            [[1, 2]],
        ),
        ("lod_reset", {"X": ROWS}, {"target_lod": [0, 2, 6]}, ROWS, [[2, 4]]),
        (
            "sequence_expand",
            {"X": ROWS[:2], "Y": (ROWS[:4], [[2], [1, 3]])},
            {"ref_level": 1},
            ROWS[[0, 1, 1, 1]],
            [],
        ),
        ("scale", {"X": (ROWS, [[2, 4]])}, {"scale": 2.0}, ROWS * 2, [[2, 4]]),
        (
            "lod_reset",
            {"X": (ROWS, [[2, 4]])},
            {"target_lod": [0, 1, 3, 4, 5, 6, 6], "append": True},
            ROWS,
            [[2, 4], [1, 2, 1, 1, 1, 0]],
        ),
        ("lod_reset", {"X": ROWS, "Y": (TOKENS, [[3, 3]])}, {}, ROWS, [[3, 3]]),
    ],
)
def test_results_are_sequences(
    type: str, inputs: dict[str, Any], attrs: Any, rows: Any, lengths: Any
) -> None:
    ((found, own),) = run(type, inputs, "Out", attrs)
    np.testing.assert_allclose(found, rows)
    assert own == lengths


def test_sequences_of_several_inputs_are_joined() -> None:
    with fresh():
        x = fluid.data("x", [None, 2], "float32", lod_level=1)
        out = fluid.default_main_program().current_block().create_var("out", dtype="float32")
        LayerHelper("own").append_op("sequence_concat", {"X": [x, x]}, {"Out": [out]})
        fed = fluid.create_lod_tensor(ROWS, [[2, 4]], fluid.CPUPlace())
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"x": fed}, fetch_list=[out], return_numpy=False)
    assert found.recursive_sequence_lengths() == [[4, 8]]


def test_boxes_are_cut_at_their_own_image() -> None:
    boxes = np.array([[-1, 2, 9, 9], [1, 1, 9, 3], [0, 0, 9, 9]], "float32")
    sizes = np.array([[5, 8, 1.0], [4, 6, 1.0]], "float32")
    ((found, lengths),) = run("box_clip", {"Input": (boxes, [[1, 2]]), "ImInfo": sizes}, "Output")
    np.testing.assert_array_equal(found, [[0, 2, 7, 4], [1, 1, 5, 3], [0, 0, 5, 3]])
    assert lengths == [[1, 2]]


def test_the_sides_of_images_are_rounded_as_in_c() -> None:
    """45 / 2 is 23 and 51 / 2 is 26 (Paddle 1.8.5); a row may hold several boxes."""
    boxes, sizes = np.array([[-3, 2, 30, 40], [5, 6, 70, 90]], "float32"), [[45, 51, 2.0]]
    info = np.array(sizes * 2, "float32")
    ((found, _),) = run("box_clip", {"Input": (boxes, [[1, 1]]), "ImInfo": info}, "Output")
    np.testing.assert_array_equal(found, [[0, 2, 25, 22], [5, 6, 25, 22]])
    pairs = np.stack([boxes, boxes], 1)
    ((found, _),) = run("box_clip", {"Input": (pairs, [[1, 1]]), "ImInfo": info}, "Output")
    np.testing.assert_array_equal(found, [[[0, 2, 25, 22]] * 2, [[5, 6, 25, 22]] * 2])


def test_boxes_without_lengths_belong_to_one_image() -> None:
    boxes, info = np.array([[-3, 2, 30, 40]], "float32"), np.array([[40, 20, 1.0]], "float32")
    ((found, _),) = run("box_clip", {"Input": boxes, "ImInfo": info}, "Output")
    np.testing.assert_array_equal(found, [[0, 2, 19, 39]])
    ((found, _),) = run("box_clip", {"Input": boxes[None], "ImInfo": info}, "Output")
    np.testing.assert_array_equal(found, [[[0, 2, 19, 39]]])
    with pytest.raises(UnsupportedError, match="several images need lengths"):
        run("box_clip", {"Input": boxes, "ImInfo": np.tile(info, (2, 1))}, "Output")
    with pytest.raises(ProgramError, match="boxes of 4 numbers"):
        run("box_clip", {"Input": boxes[:, :3], "ImInfo": info}, "Output")


def test_the_layer_is_one_operator() -> None:
    with fresh():
        boxes = fluid.data("boxes", [None, 4], lod_level=1)
        fluid.layers.box_clip(boxes, fluid.data("info", [None, 3]))
        assert [op.type for op in boxes.block.ops] == ["box_clip"]


@pytest.mark.parametrize("type", ["multiclass_nms", "multiclass_nms2"])
def test_boxes_that_are_kept_are_sequences(type: str) -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6]]] * 2, "float32")
    scores = np.array([[[0, 0], [0.9, 0.8]], [[0, 0], [0.1, 0.7]]], "float32")
    attrs = {
        "score_threshold": 0.5,
        "nms_top_k": 2,
        "keep_top_k": 2,
        "nms_threshold": 0.5,
        "background_label": 0,
    }
    outs = "Out" if type == "multiclass_nms" else "Out Index"
    found = run(type, {"BBoxes": boxes, "Scores": scores}, outs, attrs)
    assert [lengths for _, lengths in found] == [[[2, 1]]] * len(outs.split())
    np.testing.assert_allclose(found[0][0][:, 1], [0.9, 0.8, 0.7])


def test_pooled_boxes_of_several_images() -> None:
    image = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    boxes = np.array([[0, 0, 3, 3], [0, 0, 3, 3]], "float32")
    attrs = {"pooled_height": 1, "pooled_width": 1, "spatial_scale": 1.0, "sampling_ratio": -1}
    ((found, _),) = run("roi_align", {"X": image, "ROIs": (boxes, [[1, 1]])}, "Out", attrs)
    np.testing.assert_allclose(found[1] - found[0], 16, 1e-6)


def test_an_operator_without_sequences_is_itself() -> None:
    with fresh():
        x = fluid.data("x", [2, 3], "float32")
        out = fluid.default_main_program().current_block().create_var("out", dtype="float32")
        made = LayerHelper("own").append_op("relu", {"X": x}, {"Out": out})
    assert made.type == "relu"


def test_rows_of_a_file_have_the_lengths_of_their_place() -> None:
    """An operator reads the lengths of its rows at its position, not later ones."""
    program = Program()
    block = program.global_block()
    for name in ("x", "y"):
        block.create_var(name, (-1, 2), "float32", lod_level=1).is_data = True
    block.create_var("before")
    block.create_var("after")
    for type, inputs, out, attrs in (
        ("sequence_pool", {"X": ["x"]}, "before", {"pooltype": "SUM"}),
        ("lod_reset", {"X": ["x"], "Y": ["y"]}, "x", {}),
        ("sequence_pool", {"X": ["x"]}, "after", {"pooltype": "SUM"}),
    ):
        block.ops.append(Operator(block, type, inputs, {"Out": [out]}, attrs))
    declare_lengths(program, ("x", "y"))
    feed = {
        "x": fluid.create_lod_tensor(ROWS, [[2, 4]], fluid.CPUPlace()),
        "y": fluid.create_lod_tensor(ROWS, [[5, 1]], fluid.CPUPlace()),
    }
    found = fluid.Executor(fluid.CPUPlace()).run(program, feed, ["before", "after"])
    for pooled, ends in zip(found, (2, 5), strict=True):
        np.testing.assert_allclose(pooled, [ROWS[:ends].sum(0), ROWS[ends:].sum(0)])
