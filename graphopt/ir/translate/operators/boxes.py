"""Legacy operators on boxes that a row of `table.py` cannot describe."""

from __future__ import annotations

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.detection.proposals import DistributeFpnProposals, MulticlassNms
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


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
