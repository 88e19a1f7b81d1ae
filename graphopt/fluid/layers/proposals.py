"""Selection of boxes, and training to find them (paddle.fluid.layers.detection).

The number of selected boxes depends on the data: programs with `multiclass_nms` and its kind run op
by op (see `graphopt.tensor.data_sized`). Without a selected box there are no rows, where Paddle 1.8
has a row with the number -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.fluid.layers.detection import box_coder, sides_of, to_centres
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.activation import softmax
from graphopt.nn.functional.input import one_hot
from graphopt.tensor.creation import assign, full_like
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, concat, reshape, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, exp, minimum, multiply, scale, subtract, sum
from graphopt.tensor.search import argmax, where
from graphopt.vision.ops.boxes import yolo_loss


def multiclass_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    name: str | None = None,
) -> Variable:
    """Select for each class the boxes that no better one covers, as rows.

    A row is (class, score, x, y, x, y). Boxes are [n, m, 4], scores [n, classes, m]. Of the boxes
    above `score_threshold` the best `nms_top_k` of each class are considered, and the best
    `keep_top_k` of an image kept (-1: all). Paddle page: fluid.layers.multiclass_nms.
    """
    attrs = _attrs(
        "multiclass_nms",
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        nms_threshold=nms_threshold,
        normalized=normalized,
        nms_eta=nms_eta,
        background_label=background_label,
    )
    return _multiclass((bboxes, scores), attrs, "multiclass_nms", name)[0]


def multiclass_nms2(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    return_index: bool = False,
    name: str | None = None,
) -> Any:
    """Select boxes as `multiclass_nms` does (Paddle page: fluid.contrib.multiclass_nms2).

    With `return_index`, also return the index of each row's box, int32 [rows, 1].
    """
    function = "multiclass_nms2"
    attrs = _attrs(
        function,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        nms_threshold=nms_threshold,
        normalized=normalized,
        nms_eta=nms_eta,
        background_label=background_label,
    )
    out, index = _multiclass((bboxes, scores), attrs, function, name)
    return (out, index) if return_index else out


def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    name: str | None = None,
) -> Any:
    """Select boxes as `multiclass_nms`, but lower the scores of all overlapping boxes at once.

    A box loses score by its overlap with better boxes, and is kept if it ends above
    `post_threshold`. With `return_index`, also return the index of each row's box, int32 [rows, 1].
    Paddle page: fluid.layers.matrix_nms.
    """
    function = "matrix_nms"
    attrs = _attrs(
        function,
        score_threshold=score_threshold,
        post_threshold=post_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        use_gaussian=use_gaussian,
        gaussian_sigma=gaussian_sigma,
        background_label=background_label,
        normalized=normalized,
    )
    out, index = _emit_choice(function, "RoisNum", (bboxes, scores), attrs, function, name)
    return (out, index) if return_index else out


_COUNTS = ("nms_top_k", "keep_top_k", "background_label")
_FLAGS = ("normalized", "use_gaussian")


def _attrs(function: str, **given: Any) -> dict[str, Any]:
    """Check the counts, flags and thresholds of an operator that selects boxes."""

    def check(name: str) -> Any:
        if name in _COUNTS:
            return arguments.integer
        return arguments.flag if name in _FLAGS else arguments.number

    return {name: check(name)(value, name, function) for name, value in given.items()}


def _multiclass(
    boxes: Sequence[Variable], attrs: dict[str, Any], function: str, name: str | None
) -> tuple[Variable, Variable]:
    return _emit_choice("multiclass_nms3", "NmsRoisNum", boxes, attrs, function, name)


def _emit_choice(
    type: str,
    number: str,
    boxes: Sequence[Variable],
    attrs: dict[str, Any],
    function: str,
    name: str | None,
) -> tuple[Variable, Variable]:
    """Emit a selection of boxes; return its rows and their box indices.

    The number of rows of each image is their sequence length.
    """
    slots = zip(("BBoxes", "Scores"), ("bboxes", "scores"), boxes, strict=True)
    inputs = {slot: arguments.variable(value, known, function) for slot, known, value in slots}
    if type == "multiclass_nms3" and len(inputs["Scores"].shape) == 2:
        # one list of the boxes of all images; in 1.8 the boxes carry their numbers
        slot = "BBoxes" if levels_of(inputs["BBoxes"]) else "Scores"
        lengths = of_one_level(inputs[slot], function, slot.lower())
        inputs["RoisNum"] = cast(lengths, "int32")
    helper = LayerHelper(function, name)
    made = helper.emit_all(type, inputs, attrs, ("Out", "Index", number), stop_gradient=True)
    lengths = [made[2].name]
    return note(made[0], lengths), note(made[1], lengths)


def detection_output(
    loc: Variable,
    scores: Variable,
    prior_box: Variable,
    prior_box_var: Any,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
    return_index: bool = False,
) -> Any:
    """Decode the boxes of SSD and select detections by `multiclass_nms`.

    `loc` [n, m, 4] are offsets from the priors [m, 4], `scores` [n, m, classes] logits. With
    `return_index`, also return the index of each row's box, int32 [rows, 1]. Paddle page:
    fluid.layers.detection_output.
    """
    boxes = box_coder(prior_box, prior_box_var, loc, "decode_center_size")
    marks = transpose(softmax(arguments.variable(scores, "scores", "detection_output")), [0, 2, 1])
    attrs = _attrs(
        "detection_output",
        background_label=background_label,
        nms_threshold=nms_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        score_threshold=score_threshold,
        nms_eta=nms_eta,
    )
    out, index = _multiclass((boxes, marks), attrs, "detection_output", None)
    return (out, index) if return_index else out


def box_decoder_and_assign(
    prior_box: Variable,
    prior_box_var: Variable,
    target_box: Variable,
    box_score: Variable,
    box_clip: float,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Decode boxes [n, 4 classes] from offsets to priors [n, 4], and select the best of each row.

    `target_box` [n, 4 classes] are the offsets for each class, to be multiplied by `prior_box_var`
    [4]; the offsets of sizes are then at most `box_clip`. The second result [n, 4] is the box of
    the class with the largest score of `box_score` [n, classes], except for class 0, the
    background; without another class it is the prior. Corners are pixels. Paddle page:
    fluid.layers.box_decoder_and_assign.
    """
    function = "box_decoder_and_assign"
    arguments.variable(prior_box, "prior_box", function)
    spread = reshape(arguments.variable(prior_box_var, "prior_box_var", function), [1, 1, 4])
    classes = arguments.variable(box_score, "box_score", function).shape[-1]
    offsets = reshape(arguments.variable(target_box, "target_box", function), [-1, classes, 4])
    right, down, wide, tall = sides_of(multiply(offsets, spread))
    x, y, width, height = to_centres(unsqueeze(prior_box, [1]), 1.0)
    middle = add(multiply(right, width), x), add(multiply(down, height), y)
    limit = full_like(wide, arguments.number(box_clip, "box_clip", function))
    half = [
        scale(multiply(exp(minimum(share, limit)), side), 0.5)
        for share, side in ((wide, width), (tall, height))
    ]
    low = [subtract(m, h) for m, h in zip(middle, half, strict=True)]
    high = [scale(add(m, h), 1.0, -1.0) for m, h in zip(middle, half, strict=True)]
    boxes = concat([*low, *high], 2)
    flat = reshape(boxes, [-1, 4 * classes])
    if classes == 1:
        return flat, assign(prior_box)
    best = scale(argmax(slice_(box_score, [1], [1], [classes]), 1), 1.0, 1.0)
    chosen = unsqueeze(cast(one_hot(best, classes), "bool"), [2])
    return flat, sum(where(chosen, boxes, full_like(boxes, 0.0)), 1)


yolov3_loss = yolo_loss
