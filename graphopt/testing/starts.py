"""Calls of ops whose operands fit together in a way that random draws would hardly find.

A row has the operand types by field, as MLIR writes them (None: absent, a tuple: several), and the
properties without which they do not fit; the other properties are varied from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphopt.ir.dialect.types import Tensor, tensor

ELEMENTS = {"f32": "float32", "c64": "complex64", "i64": "int64", "i32": "int32", "i1": "bool"}


@dataclass(frozen=True)
class Start:
    """Operand types by field, and property values."""

    operands: tuple[tuple[Tensor, ...], ...]
    attrs: Mapping[str, Any]


def start(*operands: str | tuple[str, ...] | None, **attrs: Any) -> Start:
    """Make a row of the table."""
    groups = [(each,) if isinstance(each, str) else each or () for each in operands]
    return Start(tuple(tuple(map(_type, group)) for group in groups), attrs)


def _type(text: str) -> Tensor:
    """Parse a tensor type such as `2x3xf32`."""
    *sizes, element = text.split("x")
    return tensor(map(int, sizes), ELEMENTS[element])


_MATRIX, _TABLE = ("2x3xf32",) * 2, ("4x2xf32", "1xf32")

STARTS: Mapping[str, Start] = {
    "pd.all_gather": start("6xf32", (), parts=1, sizes=(2, 3), ranks=(2,)),
    "pd.as_complex": start("3x2xf32"),
    "pd.conv2d_transpose": start("1x2x3x3xf32", "2x2x3x3xf32"),
    "pd.conv3d_transpose": start("1x1x2x2x1xf32", "1x2x2x1x2xf32"),
    "pd.deformable_conv": start("1x1x3x3xf32", "1x2x3x3xf32", "1x1x1x1xf32", "1x1x3x3xf32"),
    "pd.detection_map": start("7x6xf32", "2xi64", "4x6xf32", "2xi64", (), class_num=4),
    "pd.generate_mask_labels": start(
        *("2x3xf32", "3x1xi32", "3x1xi32", "10x2xf32", "5x4xf32", "5x1xi32"),
        *("2xi64", "3xi64", "3xi64", "2xi64"),
        num_classes=3,
        resolution=6,
    ),
    "pd.generate_proposal_labels": start(
        *("5x4xf32", "3x1xi32", "3x1xi32", "3x4xf32", "2x3xf32", "2xi64", "2xi64"),
        batch_size_per_im=3,
        class_nums=3,
        use_random=False,
    ),
    "pd.generate_proposals": start(
        "1x1x1x2xf32", "1x4x1x2xf32", "1x2xf32", "1x2x1x4xf32", "1x2x1x4xf32"
    ),
    "pd.locality_aware_nms": start(
        "1x5x4xf32", "1x1x5xf32", score_threshold=0.1, nms_top_k=10, keep_top_k=10
    ),
    "pd.matrix_nms": start(
        "1x4x4xf32", "1x3x4xf32", score_threshold=0.1, nms_top_k=10, keep_top_k=10
    ),
    "pd.rpn_target_assign": start(
        *("5x4xf32", "3x4xf32", None, "3x1xi32", "2x3xf32", "2xi64"),
        rpn_batch_size_per_im=3,
        use_random=False,
    ),
    "pd.retinanet_detection_output": start(
        ("1x2x4xf32", "1x1x4xf32"), ("1x2x2xf32", "1x1x2xf32"), ("2x4xf32", "1x4xf32"), "1x3xf32"
    ),
    "pd.collect_fpn_proposals": start(
        ("3x4xf32", "1x4xf32"), ("3x1xf32", "1x1xf32"), ("2xi32", "2xi32"), post_nms_top_n=3
    ),
    "pd.roi_align": start("2x4x4x4xf32", "2x4xf32", "2xi32"),
    "pd.roi_pool": start("2x4x4x4xf32", "2x4xf32", "2xi32"),
    "pd.prroi_pool": start("2x4x4x4xf32", "2x4xf32", "2xi32"),
    "pd.psroi_pool": start(
        "1x4x4x4xf32", "1x4xf32", "1xi32", output_channels=1, pooled_height=2, pooled_width=2
    ),
    "pd.deformable_psroi_pooling": start(
        "1x2x5x6xf32", "2x4xf32", "1xi32", "2x2x1x1xf32", output_dim=2
    ),
    "pd.roi_perspective_transform": start(
        "1x2x5x6xf32", "2x8xf32", "1xi32", transformed_height=3, transformed_width=3
    ),
    "pd.yolo_box": start(
        *("1x6x1x1xf32", "1x2xi32"),
        anchors=(16, 32),
        class_num=1,
        conf_thresh=0.4,
        downsample_ratio=32,
    ),
    "pd.yolo_loss": start(
        *("1x6x1x1xf32", "1x1x4xf32", "1x1xi32", None),
        anchors=(16, 32),
        anchor_mask=(0,),
        class_num=1,
        ignore_thresh=0.7,
        downsample_ratio=32,
    ),
    "pd.fused_conv2d_add_act": start("1x4x5x2xf32", "3x2x2x3xf32", "3xf32", None),
    "pd.fused_elemwise_add_activation": start(
        "2x3xf32", "3xf32", functor_list=("relu", "elementwise_add")
    ),
    "pd.vjp": start(
        ("2x3xf32",), ("2x3xf32",), op="pd.square", groups=(1,), attrs={}, ins=(0,), outs=(0,)
    ),
    "pd.einsum": start(("2x3xf32", "3x4xf32"), equation="ij,jk->ik"),
    "pd.hsigmoid_loss": start(
        "3x2xf32", "4x2xf32", "3x1xi64", None, None, "4x1xf32", num_classes=5
    ),
    "pd.auc": start("4x2xf32", "4x1xi64", "1x5xi64", "1x5xi64", num_thresholds=4, slide_steps=0),
    "pd.chunk_eval": start("5x1xi64", "5x1xi64", "3xi64", num_chunk_types=2),
    "pd.cvm": start("3x4xf32", "3x2xf32"),
    "pd.data_norm": start("3x2xf32", "2xf32", "2xf32", "2xf32", None, None),
    "pd.warpctc": start("4x2x3xf32", "2x2xi32", "2xi64", "2xi64"),
    "pd.warprnnt": start("2x4x3x4xf32", "2x2xi32", "2xi32", "2xi32"),
    "pd.match_matrix_tensor": start("3x2xf32", "2xi64", "4x3xf32", "2xi64", "2x2x3xf32"),
    "pd.rnn": start(
        "3x2x2xf32",
        ("1x2x3xf32", "1x2x3xf32"),
        ("12x2xf32", "12x3xf32", "12xf32", "12xf32"),
        None,
        mode="LSTM",
        input_size=2,
        hidden_size=3,
    ),
    "pd.gru_unit": start("2x9xf32", "2x3xf32", "3x9xf32", "1x9xf32"),
    "pd.lstm_unit": start("2x12xf32", "2x3xf32"),
    "pd.sequence_conv": start("5x2xf32", "3xi64", "6x3xf32", None, context_length=3),
    "pd.sequence_lstm": start(
        "5x8xf32", "3xi64", "2x8xf32", "1x8xf32", None, None, use_peepholes=False
    ),
    "pd.sequence_lstmp": start(
        "5x8xf32", "3xi64", "2x8xf32", "2x2xf32", "1x8xf32", None, None, use_peepholes=False
    ),
    "pd.sequence_gru": start("5x6xf32", "3xi64", "2x6xf32", "1x6xf32", "3x2xf32"),
    "pd.sequence_slice": start("5x2xf32", "3xi64", "3xi64", "3xi64"),
    "pd.sequence_edit_distance": start("5x1xi64", "7x1xi64", "3xi64", "3xi64"),
    "pd.array_write": start("2x3xf32", "1xi64", "3xf32"),
    "pd.beam_search": start(
        "4x1xi64", "4x1xf32", "4x3xi64", "4x3xf32", ("2xi64",), beam_size=2, end_id=0
    ),
    "pd.linear_chain_crf": start("5x3xf32", "5x3xf32", "5x1xi64", "3xi64"),
    "pd.crf_decoding": start("5x3xf32", "5x3xf32", "3xi64", None),
    "pd.viterbi_decode": start("2x3x3xf32", "3x3xf32", "2xi64"),
    "pd.fused_attention": start(
        *("2x3x4xf32", (), ("4x4xf32",) * 3, ("4xf32",) * 3, "2x1x3x3xf32"),
        *("4x4xf32", "4xf32", "4xf32", "4xf32", (), (), None),
        num_heads=2,
        norm="post",
    ),
    "pd.tree_conv": start("2x5x2xf32", "2x4x2xi32", "2x3x2x3xf32"),
    "pd.fused_adam_": start(
        *(_MATRIX, _MATRIX, "1xf32", _MATRIX, _MATRIX, ("1xf32",) * 2, ("1xf32",) * 2, ())
    ),
    "pd.average_accumulates": start(
        *("2x3xf32", "2x3xf32", "2x3xf32", "2x3xf32", "1xi64", "1xi64", "1xi64"),
        max_average_window=9,
    ),
    "pd.rprop": start("5xf32", "5xf32", "5xf32", "5xf32", "2xf32", "2xf32"),
    "pd.sgd_rows": start(*_TABLE, ("3xi64",), ("3x2xf32",), padding=(-1,)),
    "pd.adagrad_rows": start(*_TABLE, "4x2xf32", ("3xi64",), ("3x2xf32",), padding=(-1,)),
    **dict.fromkeys(
        ("pd.adam_rows", "pd.adamw_rows"),
        start(
            *(*_TABLE, "4x2xf32", "4x2xf32", "1xf32", "1xf32", ("3xi64",), ("3x2xf32",)),
            padding=(-1,),
        ),
    ),
    "pd.unpool3d": start("1x1x2x2x2xf32", "1x1x2x2x2xi32", output_size=(4, 4, 4)),
    "pd.fold": start("2x8x6xf32", output_sizes=(3, 4), kernel_sizes=(2, 2)),
    "pd.affine_grid": start("1x2x3xf32", output_shape=(1, 1, 2, 2)),
    "pd.grid_sample": start("1x2x2x2xf32", "1x1x3x2xf32"),
}
