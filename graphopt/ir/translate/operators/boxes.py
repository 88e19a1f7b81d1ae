"""Legacy operators on boxes that a row cannot describe."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.detection.assignment import GenerateProposalLabels, RpnTargetAssign
from graphopt.ir.dialect.ops.detection.average_precision import KINDS, DetectionMap
from graphopt.ir.dialect.ops.detection.masks import GenerateMaskLabels
from graphopt.ir.dialect.ops.detection.matching import (
    BipartiteMatch,
    MineHardExamples,
    TargetAssign,
)
from graphopt.ir.dialect.ops.detection.proposals import (
    DistributeFpnProposals,
    GenerateProposals,
    LocalityAwareNms,
    MulticlassNms,
    RetinanetDetectionOutput,
)
from graphopt.ir.dialect.ops.detection.warped import DeformablePsroiPool
from graphopt.ir.dialect.ops.dynamic import Nonzero, RepeatInterleave
from graphopt.ir.dialect.ops.elementary import Floor
from graphopt.ir.dialect.ops.math import Cast, Divide, Maximum, Minimum
from graphopt.ir.dialect.ops.reduce import Cumsum, Sum
from graphopt.ir.dialect.ops.shape import Concat, Slice
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of, show
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# the slot with the sequence lengths of the state from earlier batches
_STATES = "StateLengths"


@translates("multiclass_nms", "multiclass_nms2")
def multiclass_nms(emit: Emitter) -> Written:
    """Translate the older operators, without row counts; the first gives no indices either."""
    emit.only("BBoxes", "Scores")
    names = ("score_threshold", "nms_top_k", "keep_top_k", "nms_threshold", "normalized", "nms_eta")
    attrs = {n: emit.op.attrs[n] for n in (*names, "background_label") if n in emit.op.attrs}
    made = emit.all(MulticlassNms, emit.input("BBoxes"), emit.input("Scores"), None, **attrs)
    if emit.op.type == "multiclass_nms":
        return emit.results(Out=made[0])
    return emit.results(Out=made[0], Index=made[1])


@translates("distribute_fpn_proposals")
def distribute_fpn_proposals(emit: Emitter) -> Written:
    emit.only("FpnRois", "RoisNum")
    rois, number = emit.input("FpnRois"), emit.optional("RoisNum")
    if number is None:
        raise UnsupportedError(
            "distribute_fpn_proposals without 'RoisNum': sequences of boxes (LoD) are not supported"
        )
    attrs = {
        name: emit.op.attrs[name]
        for name in ("min_level", "max_level", "refer_level", "refer_scale", "pixel_offset")
        if name in emit.op.attrs
    }
    made = emit.all(DistributeFpnProposals, rois, number, **attrs)
    levels = (len(made) - 1) // 2
    written = emit.results(MultiFpnRois=made[:levels], RestoreIndex=made[levels])
    if emit.op.output("MultiLevelRoIsNum"):
        written |= emit.results(MultiLevelRoIsNum=made[levels + 1 :])
    return written


def _lengths(emit: Emitter, slot: str = SLOT) -> SSAValue | None:
    """Return the number of rows of each image; None if all rows belong to one image."""
    found = emit.optional(slot)
    return None if found is None else emit.reshape(found, -1)


@translates("deformable_psroi_pooling")
def deformable_psroi_pooling(emit: Emitter) -> Written:
    """Translate deformable_psroi_pooling, which reads offsets unless `no_trans`."""
    emit.only("Input", "ROIs", "Trans", "RoisNum")
    still = emit.attr("no_trans")
    size = emit.attr("pooled_height"), emit.attr("pooled_width")
    out, counts = emit.all(
        DeformablePsroiPool,
        emit.input("Input"),
        emit.input("ROIs"),
        _needed_lengths(emit, "RoisNum"),
        None if still else emit.input("Trans"),
        spatial_scale=emit.attr("spatial_scale"),
        output_dim=emit.attr("output_dim"),
        group_size=tuple(emit.several("group_size")) or (1, 1),
        pooled_height=size[0],
        pooled_width=size[1],
        part_size=tuple(emit.several("part_size")) or size,
        sample_per_part=emit.attr("sample_per_part"),
        trans_std=emit.attr("trans_std"),
    )
    return emit.results(Output=out, TopCount=emit.like(counts, out))


@translates("bipartite_match")
def bipartite_match(emit: Emitter) -> Written:
    emit.only("DistMat", SLOT)
    attrs = {
        "match_type": emit.attr("match_type"),
        "dist_threshold": emit.attr("dist_threshold"),
    }
    made = emit.all(BipartiteMatch, emit.input("DistMat"), _lengths(emit), **attrs)
    return emit.results(ColToRowMatchIndices=made[0], ColToRowMatchDist=made[1])


@translates("target_assign")
def target_assign(emit: Emitter) -> Written:
    emit.only("X", "MatchIndices", "NegIndices", "NegLengths", SLOT)
    operands = (emit.input("X"), _lengths(emit), emit.input("MatchIndices"))
    negative = (emit.optional("NegIndices"), _lengths(emit, "NegLengths"))
    value = float(emit.attr("mismatch_value"))
    out, weight = emit.all(TargetAssign, *operands, *negative, mismatch_value=value)
    return emit.results(Out=out, OutWeight=weight)


@translates("mine_hard_examples")
def mine_hard_examples(emit: Emitter) -> Written:
    """Translate mine_hard_examples; Paddle gives the indices of negatives, image by image."""
    emit.only("ClsLoss", "LocLoss", "MatchIndices", "MatchDist")
    attrs = {
        "neg_pos_ratio": emit.attr("neg_pos_ratio"),
        "neg_dist_threshold": emit.attr("neg_dist_threshold"),
        "sample_size": emit.attr("sample_size"),
        "mining_type": emit.attr("mining_type"),
    }
    operands = (emit.input("ClsLoss"), emit.optional("LocLoss"))
    negatives, left = emit.all(
        MineHardExamples, *operands, emit.input("MatchIndices"), emit.input("MatchDist"), **attrs
    )
    written = emit.results(Negatives=negatives, UpdatedMatchIndices=left)
    if emit.op.output("NegIndices"):
        places = emit(Slice, emit(Nonzero, negatives), axes=(1,), starts=(1,), ends=(2,))
        written |= emit.results(NegIndices=emit(Cast, places, dtype="int32"))
    if emit.op.output("OutLengths"):
        counts = emit(Sum, emit(Cast, negatives, dtype="int64"), axis=(1,))
        written |= emit.results(OutLengths=counts)
    return written


@translates("detection_map")
def detection_map(emit: Emitter) -> Written:
    """Translate detection_map.

    One slot has the lengths of detections and labels, another the lengths of the states.
    """
    emit.only("DetectRes", "Label", "HasState", "PosCount", "TruePos", "FalsePos", SLOT, _STATES)
    own = [emit.reshape(value, -1) for value in emit.inputs(SLOT)]
    if len(own) != 2:
        raise UnsupportedError(
            "operator detection_map of a saved program is not supported: the lengths of its inputs "
            "are unknown"
        )
    state = [value for slot in ("HasState", "PosCount") for value in emit.inputs(slot)]
    for slot, lengths in zip(("TruePos", "FalsePos"), emit.inputs(_STATES), strict=False):
        state += [emit.input(slot), emit.reshape(lengths, -1)]
    attrs = {
        "class_num": emit.attr("class_num"),
        "background_label": emit.attr("background_label"),
        "overlap_threshold": emit.attr("overlap_threshold"),
        "evaluate_difficult": emit.attr("evaluate_difficult"),
        "ap_type": emit.choice("ap_type", KINDS),
    }
    operands = emit.input("DetectRes"), own[0], emit.input("Label"), own[1], state
    mean, counts, right, rights, wrong, wrongs = emit.all(DetectionMap, *operands, **attrs)
    return emit.results(
        MAP=mean,
        AccumPosCount=counts,
        AccumTruePos=right,
        AccumFalsePos=wrong,
        OutLengths=[rights, wrongs],
    )


@translates("box_clip")
def box_clip(emit: Emitter) -> Written:
    """Clip boxes to their image: boxes of one image, of a batch, or sequences of boxes.

    The limits are the size of the resized image by its scale, rounded as in C, less 1.
    """
    emit.only("Input", "ImInfo", SLOT)
    boxes, images, lengths = emit.input("Input"), emit.input("ImInfo"), _lengths(emit)
    rank = rank_of(boxes.type)
    if rank < 2 or shape_of(boxes.type)[-1] not in (4, UNKNOWN):
        raise ProgramError(f"box_clip needs boxes of 4 numbers, found {show(boxes.type)}")
    if lengths is not None:
        images = emit(RepeatInterleave, images, lengths, axis=0)
    elif rank == 2:
        if shape_of(images.type)[0] not in (1, UNKNOWN):
            raise UnsupportedError(
                f"box_clip of {show(boxes.type)}: boxes of several images need lengths (LoD); "
                "reshape the boxes to [n, m, 4]"
            )
        images = emit.reshape(images, 1, 3)
    height, width, ratio = (
        emit(Slice, images, axes=(1,), starts=(at,), ends=(at + 1,)) for at in range(3)
    )
    ends = [
        emit.scale(emit(Floor, emit.scale(emit(Divide, side, ratio), 1.0, 0.5)), 1.0, -1.0)
        for side in (width, height)
    ]
    limits = emit.reshape(emit(Concat, [*ends, *ends], axis=1), -1, *(1,) * (rank - 2), 4)
    cut = emit(Minimum, boxes, limits)
    return emit.results(Output=emit(Maximum, cut, emit(FullLike, cut, value=0.0)))


@translates("generate_proposals")
def generate_proposals(emit: Emitter) -> Written:
    """Translate the older generate_proposals.

    Its images have a scale; it also gives the positions at which the boxes of each image end.
    """
    emit.only("Scores", "BboxDeltas", "ImInfo", "Anchors", "Variances")
    names = {"pre_nms_topN": "pre_nms_top_n", "post_nms_topN": "post_nms_top_n"}
    given = (*names, "nms_thresh", "min_size", "eta")
    attrs = {names.get(n, n): emit.op.attrs[n] for n in given if n in emit.op.attrs}
    operands = [emit.input(s) for s in ("Scores", "BboxDeltas", "ImInfo", "Anchors", "Variances")]
    boxes, marks, counts = emit.all(GenerateProposals, *operands, pixel_offset=True, **attrs)
    ends = emit(Cast, emit(Cumsum, counts, axis=0), dtype="int64")
    written = emit.results(RpnRois=boxes, RpnRoiProbs=marks, RpnRoisLod=ends)
    return written | emit.results(RpnRoisNum=counts)


@translates("rpn_target_assign", "retinanet_target_assign")
def rpn_target_assign(emit: Emitter) -> Written:
    """Translate target assignment; RetinaNet trains on all anchors, with their objects' classes."""
    emit.only("Anchor", "GtBoxes", "GtLabels", "IsCrowd", "ImInfo", SLOT)
    operands = (emit.input("Anchor"), emit.input("GtBoxes"), emit.optional("GtLabels"))
    if emit.op.type == "rpn_target_assign":
        attrs = {
            "rpn_batch_size_per_im": emit.attr("rpn_batch_size_per_im"),
            "rpn_straddle_thresh": emit.attr("rpn_straddle_thresh"),
            "rpn_fg_fraction": emit.attr("rpn_fg_fraction"),
            "rpn_positive_overlap": emit.attr("rpn_positive_overlap"),
            "rpn_negative_overlap": emit.attr("rpn_negative_overlap"),
            "use_random": emit.attr("use_random"),
        }
    else:
        attrs = {
            "rpn_batch_size_per_im": 0,
            "rpn_straddle_thresh": -1.0,
            "rpn_positive_overlap": emit.attr("positive_overlap"),
            "rpn_negative_overlap": emit.attr("negative_overlap"),
            "use_random": False,
        }
    rest = (emit.input("IsCrowd"), emit.input("ImInfo"), _needed_lengths(emit))
    places, marks, labels, offsets, weights, own, all_ = emit.all(
        RpnTargetAssign, *operands, *rest, **attrs
    )
    found = emit.reshape(emit.scale(emit(Cast, own, dtype="int32"), 1.0, 1.0), -1, 1)
    return emit.results(
        LocationIndex=places,
        ScoreIndex=marks,
        TargetLabel=labels,
        TargetBBox=offsets,
        BBoxInsideWeight=weights,
        ForegroundNumber=found,
        OutLengths=[own, all_],
    )


@translates("generate_proposal_labels")
def generate_proposal_labels(emit: Emitter) -> Written:
    slots = ("RpnRois", "GtClasses", "IsCrowd", "GtBoxes", "ImInfo")
    emit.only(*slots, SLOT, "RoiLengths", "MaxOverlap")
    names = (
        *("batch_size_per_im", "fg_fraction", "fg_thresh", "bg_thresh_hi", "bg_thresh_lo"),
        *("bbox_reg_weights", "class_nums", "use_random", "is_cls_agnostic", "is_cascade_rcnn"),
    )
    lengths = _needed_lengths(emit, "RoiLengths"), _needed_lengths(emit)
    *made, counts = emit.all(
        GenerateProposalLabels,
        *(emit.input(slot) for slot in slots),
        *lengths,
        emit.optional("MaxOverlap"),
        **{name: emit.attr(name) for name in names},
    )
    outs = (
        *("Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights"),
        "MaxOverlapWithGT",
    )
    return emit.results(**dict(zip(outs, made, strict=True)), OutLengths=counts)


@translates("generate_mask_labels")
def generate_mask_labels(emit: Emitter) -> Written:
    slots = ("ImInfo", "GtClasses", "IsCrowd", "GtSegms", "Rois", "LabelsInt32")
    counts = (SLOT, "PolygonLengths", "PointLengths", "RoiLengths")
    emit.only(*slots, *counts)
    *made, found = emit.all(
        GenerateMaskLabels,
        *(emit.input(slot) for slot in slots),
        *(_needed_lengths(emit, slot) for slot in counts),
        num_classes=emit.attr("num_classes"),
        resolution=emit.attr("resolution"),
    )
    outs = ("MaskRois", "RoiHasMaskInt32", "MaskInt32")
    return emit.results(**dict(zip(outs, made, strict=True)), OutLengths=found)


def _needed_lengths(emit: Emitter, slot: str = SLOT) -> SSAValue:
    """Return the number of rows of each image; UnsupportedError for an operator of a file."""
    found = _lengths(emit, slot)
    if found is None:
        raise UnsupportedError(
            f"operator {emit.op.type} of a saved program is not supported: the number of boxes of "
            "each image is unknown"
        )
    return found


@translates("locality_aware_nms")
def locality_aware_nms(emit: Emitter) -> Written:
    emit.only("BBoxes", "Scores")
    if emit.attr("background_label") == 0:
        raise UnsupportedError(
            "operator locality_aware_nms with no class other than the background is not supported"
        )
    names = ("score_threshold", "nms_top_k", "keep_top_k", "nms_threshold", "normalized", "nms_eta")
    attrs = {name: emit.op.attrs[name] for name in names if name in emit.op.attrs}
    out, counts = emit.all(LocalityAwareNms, emit.input("BBoxes"), emit.input("Scores"), **attrs)
    return emit.results(Out=out, OutNumber=counts)


@translates("retinanet_detection_output")
def retinanet_detection_output(emit: Emitter) -> Written:
    emit.only("BBoxes", "Scores", "Anchors", "ImInfo")
    names = ("score_threshold", "nms_top_k", "keep_top_k", "nms_threshold", "nms_eta")
    attrs = {name: emit.op.attrs[name] for name in names if name in emit.op.attrs}
    maps = [emit.inputs(slot) for slot in ("BBoxes", "Scores", "Anchors")]
    out, counts = emit.all(RetinanetDetectionOutput, *maps, emit.input("ImInfo"), **attrs)
    return emit.results(Out=out, OutNumber=counts)
