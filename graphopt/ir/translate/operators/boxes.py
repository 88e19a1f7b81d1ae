"""Legacy operators on boxes that a row of `table.py` cannot describe."""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.proposals import DistributeFpnProposals, MulticlassNms
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation


def _multiclass_nms(make: Maker) -> Written:
    """The older operators give no numbers of rows, and the first no indices."""
    make.only("BBoxes", "Scores")
    names = ("score_threshold", "nms_top_k", "keep_top_k", "nms_threshold", "normalized", "nms_eta")
    attrs = {n: make.op.attrs[n] for n in (*names, "background_label") if n in make.op.attrs}
    made = make.all(MulticlassNms, make.input("BBoxes"), make.input("Scores"), None, **attrs)
    if make.op.type == "multiclass_nms":
        return make.results(Out=made[0])
    return make.results(Out=made[0], Index=made[1])


def _distribute(make: Maker) -> Written:
    make.only("FpnRois", "RoisNum")
    rois, number = make.input("FpnRois"), make.optional("RoisNum")
    if number is None:
        raise UnsupportedError(
            "distribute_fpn_proposals without 'RoisNum': sequences of boxes (LoD) are not supported"
        )
    attrs = {
        name: make.op.attrs[name]
        for name in ("min_level", "max_level", "refer_level", "refer_scale", "pixel_offset")
        if name in make.op.attrs
    }
    made = make.all(DistributeFpnProposals, rois, number, **attrs)
    levels = (len(made) - 1) // 2
    written = make.results(MultiFpnRois=made[:levels], RestoreIndex=made[levels])
    if make.op.output("MultiLevelRoIsNum"):
        written |= make.results(MultiLevelRoIsNum=made[levels + 1 :])
    return written


BOXES: Mapping[str, Translation] = {
    "multiclass_nms": translation(_multiclass_nms),
    "multiclass_nms2": translation(_multiclass_nms),
    "distribute_fpn_proposals": translation(_distribute),
}
