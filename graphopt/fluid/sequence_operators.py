"""Sequence operators that a script appends by type, rewritten to the layers of the same name.

Paddle's tensors carry the lengths of their sequences. Here operators need slots for them, which the
layers of `paddle.fluid.layers` fill. A row maps slots and attributes to the arguments of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any

from graphopt.frontend.layer_helper import LayerHelper as _Layer
from graphopt.frontend.nest import items_of
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import variable_of
from graphopt.ir.operators import operators
from graphopt.ir.program import Block, Operator, Variable, program_guard
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.creation import assign


@dataclass(frozen=True)
class SequenceLayer:
    """A layer, its arguments by slot and by attribute, and the slots of its results."""

    layer: str
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    attrs: Mapping[str, str] = field(default_factory=dict[str, str])
    lists: tuple[str, ...] = ()
    """The slots that hold a list of variables."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments without a corresponding attribute."""
    makes_lengths: bool = False
    """True when the results are sequences even if no input is."""


def _row(layer: str, slots: str, attrs: str = "", lists: str = "", **more: Any) -> SequenceLayer:
    """Parse a row: `slots` is `Slot=argument ... -> Slot ...`.

    An attribute without `=` has its argument's name.
    """
    inputs, outputs = slots.split("->")
    named = dict(pair.split("=") for pair in inputs.split())
    pairs = (pair.split("=") for pair in attrs.split())
    renamed = {pair[0]: pair[-1] for pair in pairs}
    return SequenceLayer(
        layer, named, tuple(outputs.split()), renamed, tuple(lists.split()), **more
    )


_POOL = "pooled_height pooled_width spatial_scale"
_MATRIX = "score_threshold nms_top_k keep_top_k normalized background_label"
_BOXES = f"{_MATRIX} nms_threshold nms_eta"

_TRAINED = "Anchor=Anchor GtBoxes=GtBoxes IsCrowd=IsCrowd ImInfo=ImInfo"
_ASSIGNED = "-> LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight"

ROWS: Mapping[str, SequenceLayer] = {
    "sequence_pool": _row("sequence_pool", "X=input -> Out", "pooltype=pool_type pad_value"),
    "sequence_expand": _row("sequence_expand", "X=x Y=y -> Out", "ref_level"),
    "sequence_expand_as": _row("sequence_expand_as", "X=x Y=y -> Out"),
    "sequence_concat": _row("sequence_concat", "X=input -> Out", lists="X"),
    "sequence_reshape": _row("sequence_reshape", "X=input -> Out", "new_dim"),
    "sequence_slice": _row("sequence_slice", "X=input Offset=offset Length=length -> Out"),
    "sequence_unpad": _row("sequence_unpad", "X=x Length=length -> Out", makes_lengths=True),
    "lod_reset": _row("lod_reset", "X=x Y=y -> Out", "target_lod append", makes_lengths=True),
    "add_position_encoding": _row("add_position_encoding", "X=input -> Out", "alpha beta"),
    "roi_align": _row(
        "roi_align", "X=input ROIs=rois RoisLod=rois_lod -> Out", f"{_POOL} sampling_ratio"
    ),
    "roi_pool": _row("roi_pool", "X=input ROIs=rois RoisLod=rois_lod -> Out", _POOL),
    "prroi_pool": _row("prroi_pool", "X=input ROIs=rois BatchRoINums=batch_roi_nums -> Out", _POOL),
    "psroi_pool": _row("psroi_pool", "X=input ROIs=rois -> Out", f"{_POOL} output_channels"),
    "multiclass_nms": _row(
        "multiclass_nms", "BBoxes=bboxes Scores=scores -> Out", _BOXES, makes_lengths=True
    ),
    **{
        kind: _row(
            kind,
            "BBoxes=bboxes Scores=scores -> Out Index",
            attrs,
            fixed={"return_index": True},
            makes_lengths=True,
        )
        for kind, attrs in (
            ("multiclass_nms2", _BOXES),
            ("matrix_nms", f"{_MATRIX} post_threshold use_gaussian gaussian_sigma"),
        )
    },
    "generate_proposals": _row(
        "generate_proposals",
        "Scores=scores BboxDeltas=bbox_deltas ImInfo=im_info Anchors=anchors Variances=variances"
        " -> RpnRois RpnRoiProbs",
        "pre_nms_topN=pre_nms_top_n post_nms_topN=post_nms_top_n nms_thresh min_size eta",
        makes_lengths=True,
    ),
    "generate_proposal_labels": _row(
        "generate_proposal_labels",
        "RpnRois=rpn_rois GtClasses=gt_classes IsCrowd=is_crowd GtBoxes=gt_boxes ImInfo=im_info"
        " MaxOverlap=max_overlap"
        " -> Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights MaxOverlapWithGT",
        "batch_size_per_im fg_fraction fg_thresh bg_thresh_hi bg_thresh_lo bbox_reg_weights "
        "class_nums use_random is_cls_agnostic is_cascade_rcnn",
    ),
    "rpn_target_assign": _row(
        "",
        f"{_TRAINED} {_ASSIGNED}",
        "rpn_batch_size_per_im rpn_straddle_thresh rpn_fg_fraction rpn_positive_overlap "
        "rpn_negative_overlap use_random",
    ),
    "retinanet_target_assign": _row(
        "",
        f"{_TRAINED} GtLabels=GtLabels {_ASSIGNED} ForegroundNumber",
        "positive_overlap negative_overlap",
    ),
    "locality_aware_nms": _row(
        "locality_aware_nms", "BBoxes=bboxes Scores=scores -> Out", _BOXES, makes_lengths=True
    ),
    "distribute_fpn_proposals": _row(
        "distribute_fpn_proposals",
        "FpnRois=fpn_rois -> MultiFpnRois RestoreIndex",
        "min_level max_level refer_level refer_scale",
    ),
    "collect_fpn_proposals": _row(
        "collect_fpn_proposals",
        "MultiLevelRois=multi_rois MultiLevelScores=multi_scores -> FpnRois",
        "post_nms_topN=post_nms_top_n",
        "MultiLevelRois MultiLevelScores",
    ),
    "sequence_erase": _row("sequence_erase", "X=x -> Out", "tokens"),
    "box_clip": _row("box_clip", "Input=input ImInfo=im_info -> Output"),
    "box_decoder_and_assign": _row(
        "box_decoder_and_assign",
        "PriorBox=prior_box PriorBoxVar=prior_box_var TargetBox=target_box BoxScore=box_score"
        " -> DecodeBox OutputAssignBox",
        "box_clip",
    ),
    "bipartite_match": _row(
        "bipartite_match",
        "DistMat=dist_matrix -> ColToRowMatchIndices ColToRowMatchDist",
        "match_type dist_threshold",
    ),
    "target_assign": _row(
        "target_assign",
        "X=input MatchIndices=matched_indices NegIndices=negative_indices -> Out OutWeight",
        "mismatch_value",
    ),
    "mine_hard_examples": _row(
        "",
        "ClsLoss=ClsLoss LocLoss=LocLoss MatchIndices=MatchIndices MatchDist=MatchDist"
        " -> NegIndices UpdatedMatchIndices",
        "neg_pos_ratio neg_dist_threshold mining_type sample_size",
        makes_lengths=True,
    ),
    "retinanet_detection_output": _row(
        "retinanet_detection_output",
        "BBoxes=bboxes Scores=scores Anchors=anchors ImInfo=im_info -> Out",
        "score_threshold nms_top_k keep_top_k nms_threshold nms_eta",
        "BBoxes Scores Anchors",
    ),
    "detection_map": _row(
        "detection_map",
        "DetectRes=detect_res Label=label HasState=has_state PosCount=count TruePos=right "
        "FalsePos=wrong -> MAP AccumPosCount AccumTruePos AccumFalsePos",
        "class_num background_label overlap_threshold evaluate_difficult ap_type=ap_version",
    ),
    "edit_distance": _row(
        "edit_distance", "Hyps=input Refs=label -> Out SequenceNum", "normalized"
    ),
    "warpctc": _row("warpctc", "Logits=input Label=label -> Loss", "blank norm_by_times"),
}


@cache
def _layer(name: str) -> Any:
    """Find a function of fluid.layers, or of fluid.contrib.layers."""
    home = "graphopt.fluid.contrib.layers" if name == "multiclass_nms2" else "graphopt.fluid.layers"
    return getattr(import_module(home), name)


def appended_as_layer(
    block: Block, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None
) -> Operator | None:
    """Append the layer that stands for an operator; return its last operator, or None without one.

    None also for an operator with other slots than the row: it has its own lengths, and is to be
    appended unchanged.
    """
    row = ROWS.get(type)
    if row is None:
        return None
    given = {
        slot: [block.find_var(item) if isinstance(item, str) else item for item in items_of(value)]
        for slot, value in (inputs or {}).items()
        if value is not None
    }
    values = [value for values in given.values() for value in values]
    if not given.keys() <= row.inputs.keys():
        return None
    if not all(isinstance(value, Variable) for value in values):
        return None
    if row.makes_lengths:
        if not set(outputs or {}) <= set(row.outputs):
            return None  # its outputs already include the lengths
    elif not any(map(levels_of, values)):
        return None
    with program_guard(block.program):
        _append(type, row, given, outputs or {}, attrs or {})
    return block.ops[-1]


def _append(
    type: str,
    row: SequenceLayer,
    given: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> None:
    """Call the layer of a row, and write its results to the outputs."""
    arguments: dict[str, Any] = {
        row.inputs[slot]: values if slot in row.lists else values[0]
        for slot, values in given.items()
        if values
    }
    # the operator's defaults, which may differ from the layer's
    values = {**operators()[type].defaults, **attrs}
    arguments |= {row.attrs[name]: value for name, value in values.items() if name in row.attrs}
    arguments |= row.fixed
    own = _OWN.get(type)
    made = own(arguments) if own is not None else _layer(row.layer)(**arguments)
    results = made if isinstance(made, (tuple, list)) else (made,)
    for slot, result in zip(row.outputs, results, strict=False):
        for value, target in zip(items_of(result), items_of(outputs.get(slot, ())), strict=False):
            if isinstance(target, Variable):
                assign(value, target)
                note(target, levels_of(value))


def _erase(arguments: dict[str, Any]) -> Variable:
    """Emit `sequence_erase`, which removes numbers from sequences and has no layer."""
    x, levels = arguments["x"], levels_of(arguments["x"])
    inputs = {"X": x, SLOT: variable_of(x, "sequence_erase", "X")}
    attrs = {"tokens": arguments.get("tokens", [])}
    out, lengths = _Layer("sequence_erase").emit_all(
        "sequence_erase", inputs, attrs, ("Out", "OutLengths"), stop_gradient=True
    )
    return note(out, [*levels[:-1], lengths.name])


def _assign_anchors(type: str, given: dict[str, Any]) -> list[Variable]:
    """Emit the selection of anchors to train, of which the layers return only the predictions."""
    row = ROWS[type]
    boxes = given["GtBoxes"]
    attrs = {name: given.pop(name) for name in row.attrs if name in given}
    inputs = {**given, SLOT: variable_of(boxes, type, "GtBoxes")}
    return _Layer(type).emit_all(type, inputs, attrs, row.outputs, stop_gradient=True)


def _mine_boxes(given: dict[str, Any]) -> tuple[Variable, Variable]:
    """Emit the boxes that train as background, a sequence for each image, and the matches."""
    row = ROWS["mine_hard_examples"]
    attrs = {name: given.pop(name) for name in row.attrs if name in given}
    negatives, left, counts = _Layer("mine_hard_examples").emit_all(
        "mine_hard_examples", given, attrs, (*row.outputs, "OutLengths"), stop_gradient=True
    )
    return note(negatives, [counts.name]), left


def _collect(arguments: dict[str, Any]) -> Variable:
    """Collect the best boxes of all levels."""
    count = len(arguments["multi_rois"])
    return _layer("collect_fpn_proposals")(min_level=1, max_level=count, **arguments)


def _average(arguments: dict[str, Any]) -> tuple[Variable, ...]:
    """Compute the mean average precision, and the states that the layer does not return."""
    states = [arguments.pop(name) for name in ("count", "right", "wrong") if name in arguments]
    averages = import_module("graphopt.fluid.layers.average_precision").averages
    return averages(input_states=states or None, **arguments)


def _reset(arguments: dict[str, Any]) -> Variable:
    """Reset the lengths, or with `append` add one more level."""
    added, y = arguments.pop("append", False), arguments.get("y")
    if not arguments.get("target_lod"):
        arguments.pop("target_lod", None)
    if added:
        return _layer("lod_append")(arguments["x"], arguments["target_lod"] if y is None else y)
    return _layer("lod_reset")(**arguments)


_OWN = {
    "sequence_erase": _erase,
    "collect_fpn_proposals": _collect,
    "detection_map": _average,
    "lod_reset": _reset,
    "mine_hard_examples": _mine_boxes,
    "rpn_target_assign": partial(_assign_anchors, "rpn_target_assign"),
    "retinanet_target_assign": partial(_assign_anchors, "retinanet_target_assign"),
}

Block.on_append.instead = appended_as_layer
