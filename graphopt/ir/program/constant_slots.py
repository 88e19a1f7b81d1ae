"""Inputs of operators that get no gradient in Paddle, though the derivative exists.

They are targets of losses, weights and boxes: what computes them is not trained through these
operators.
"""

from __future__ import annotations

from collections.abc import Mapping

CONSTANT_SLOTS: Mapping[str, frozenset[str]] = {
    type: frozenset(slots.split())
    for type, slots in {
        "bce_loss": "Label",
        "box_clip": "Input ImInfo",
        "box_coder": "PriorBox PriorBoxVar TargetBox",
        "cross_entropy": "Label",
        "cross_entropy2": "Label",
        "hinge_loss": "Labels",
        "iou_similarity": "X Y",
        "kldiv_loss": "Target",
        "label_smooth": "PriorDist",
        "lerp": "Weight",
        "log_loss": "Labels",
        "margin_rank_loss": "Label",
        "modified_huber_loss": "Y",
        "rank_attention": "X",
        "rank_loss": "Label",
        "sigmoid_cross_entropy_with_logits": "Label pos_weight",
        "softmax_with_cross_entropy": "Label",
        "teacher_student_sigmoid_loss": "Label",
        "yolo_box": "X ImgSize",
    }.items()
}
