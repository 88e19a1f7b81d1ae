"""Legacy operators on boxes that a row of `table.py` cannot describe."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.data_sized import Nonzero
from graphopt.ir.dialect.ops.matching import BipartiteMatch, MineHardExamples, TargetAssign
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.proposals import DistributeFpnProposals, MulticlassNms
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sequences import SLOT


@translates("multiclass_nms", "multiclass_nms2")
def multiclass_nms(emit: Emitter) -> Written:
    """The older operators give no numbers of rows, and the first no indices."""
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
    """The numbers of rows of each image; None where all belong to one."""
    found = emit.optional(slot)
    return None if found is None else emit.reshaped(found, -1)


@translates("bipartite_match")
def bipartite_match(emit: Emitter) -> Written:
    emit.only("DistMat", SLOT)
    attrs = {
        "match_type": emit.attr("match_type", "bipartite"),
        "dist_threshold": emit.attr("dist_threshold", 0.5),
    }
    made = emit.all(BipartiteMatch, emit.input("DistMat"), _lengths(emit), **attrs)
    return emit.results(ColToRowMatchIndices=made[0], ColToRowMatchDist=made[1])


@translates("target_assign")
def target_assign(emit: Emitter) -> Written:
    emit.only("X", "MatchIndices", "NegIndices", "NegLengths", SLOT)
    operands = (emit.input("X"), _lengths(emit), emit.input("MatchIndices"))
    negative = (emit.optional("NegIndices"), _lengths(emit, "NegLengths"))
    value = float(emit.attr("mismatch_value", 0.0))
    out, weight = emit.all(TargetAssign, *operands, *negative, mismatch_value=value)
    return emit.results(Out=out, OutWeight=weight)


@translates("mine_hard_examples")
def mine_hard_examples(emit: Emitter) -> Written:
    """Paddle's operator has the numbers of the negatives, image after image."""
    emit.only("ClsLoss", "LocLoss", "MatchIndices", "MatchDist")
    attrs = {
        "neg_pos_ratio": emit.attr("neg_pos_ratio", 1.0),
        "neg_dist_threshold": emit.attr("neg_dist_threshold", 0.5),
        "sample_size": emit.attr("sample_size", 0),
        "mining_type": emit.attr("mining_type", "max_negative"),
    }
    operands = (emit.input("ClsLoss"), emit.optional("LocLoss"))
    negatives, left = emit.all(
        MineHardExamples, *operands, emit.input("MatchIndices"), emit.input("MatchDist"), **attrs
    )
    written = emit.results(Negatives=negatives, UpdatedMatchIndices=left)
    if emit.op.output("NegIndices"):
        places = emit(Slice, emit(Nonzero, negatives), axes=(1,), starts=(1,), ends=(2,))
        written |= emit.results(NegIndices=emit(Cast, places, dtype="int32"))
    return written
