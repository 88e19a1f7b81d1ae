"""Matching of boxes with the objects that they should find, for training.

Objects are rows of all images, one image after another; `lengths` say how many each image has, and
without them all rows belong to one image. Numbers of objects count from the first one of an image.
"""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, rank_of, shape_of, show

BIPARTITE, PER_PREDICTION = "bipartite", "per_prediction"


def _images(lengths: Tensor | None) -> int:
    if lengths is not None and rank_of(lengths) != 1:
        raise ProgramError(f"lengths should have one number for each image, found {show(lengths)}")
    return 1 if lengths is None else shape_of(lengths)[0]


@irdl_op_definition
class BipartiteMatch(OpaqueOp):
    """A greedy matching of boxes with objects, nearest pair first, each of them once.

    The operand is the nearness [objects, boxes]. Results: the index of the object of each box,
    int32 [images, boxes], -1 for none, and the nearness of the pair, 0 for none. With the
    `match_type` per_prediction a box without an object takes the nearest object whose nearness is
    `dist_threshold` or more. Paddle: bipartite_match.
    """

    name = "pd.bipartite_match"
    dist = operand_def(TENSOR)
    lengths = opt_operand_def(TENSOR)
    indices = result_def(TENSOR)
    matched_dist = result_def(TENSOR)
    match_type = string(BIPARTITE, of=(BIPARTITE, PER_PREDICTION))
    dist_threshold = number(0.5)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(dist: Tensor, lengths: Tensor | None, match_type: str) -> tuple[Tensor, Tensor]:
        if rank_of(dist) != 2 or match_type not in (BIPARTITE, PER_PREDICTION):
            raise ProgramError(
                f"bipartite_match takes [objects, boxes] and the type {BIPARTITE} or "
                f"{PER_PREDICTION}, found {show(dist)} and '{match_type}'"
            )
        shape = (_images(lengths), shape_of(dist)[1])
        return like(dist, shape=shape, dtype="int32"), like(dist, shape=shape)


@irdl_op_definition
class TargetAssign(OpaqueOp):
    """The rows of matched objects, `mismatch_value` for boxes without one, and their weights.

    x is [objects, boxes or 1, k], or [objects, k]; match_indices [images, boxes] give [images,
    boxes, k], and weights [images, boxes, 1], 1 where a box has an object. The boxes of
    neg_indices, whose lengths count the boxes of each image, have the weight 1 too, with
    `mismatch_value`. Paddle: target_assign.
    """

    name = "pd.target_assign"
    x = operand_def(TENSOR)
    lengths = opt_operand_def(TENSOR)
    match_indices = operand_def(TENSOR)
    neg_indices = opt_operand_def(TENSOR)
    neg_lengths = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    out_weight = result_def(TENSOR)
    mismatch_value = number(0.0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        lengths: Tensor | None,
        match_indices: Tensor,
        neg_indices: Tensor | None,
        neg_lengths: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        check_integer("match_indices", match_indices)
        _images(lengths)
        if rank_of(x) not in (2, 3) or rank_of(match_indices) != 2:
            raise ProgramError(
                f"target_assign takes [objects, boxes, k] and [images, boxes], found {show(x)} and "
                f"{show(match_indices)}"
            )
        if (neg_indices is None) != (neg_lengths is None):
            raise ProgramError("target_assign needs the lengths of 'neg_indices'")
        shape = shape_of(match_indices)
        out = like(x, shape=(*shape, shape_of(x)[-1]))
        return out, like(x, shape=(*shape, 1), dtype="float32")


@irdl_op_definition
class MineHardExamples(OpaqueOp):
    """The boxes without an object that train as negatives, int32 [images, boxes] of 0 and 1.

    With the `mining_type` max_negative, they are the boxes with the largest losses among the boxes
    whose match_dist is below `neg_dist_threshold`: `neg_pos_ratio` for each box with an object.
    With hard_example they are among the `sample_size` boxes with the largest losses; boxes with an
    object that are not among these lose it. The second result has the object indices that are left.
    Paddle: mine_hard_examples.
    """

    name = "pd.mine_hard_examples"
    cls_loss = operand_def(TENSOR)
    loc_loss = opt_operand_def(TENSOR)
    match_indices = operand_def(TENSOR)
    match_dist = operand_def(TENSOR)
    negatives = result_def(TENSOR)
    updated_match_indices = result_def(TENSOR)
    neg_pos_ratio = number(1.0)
    neg_dist_threshold = number(0.5)
    sample_size = integer(0)
    mining_type = string("max_negative", of=("max_negative", "hard_example"))

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        cls_loss: Tensor,
        loc_loss: Tensor | None,
        match_indices: Tensor,
        match_dist: Tensor,
        mining_type: str,
    ) -> tuple[Tensor, Tensor]:
        check_integer("match_indices", match_indices)
        given = [x for x in (cls_loss, loc_loss, match_dist) if x is not None]
        if any(rank_of(x) != 2 for x in (*given, match_indices)):
            shown = ", ".join(show(x) for x in (*given, match_indices))
            raise ProgramError(f"mine_hard_examples takes matrices [images, boxes], found {shown}")
        if mining_type not in ("max_negative", "hard_example"):
            raise ProgramError(f"unknown mining_type '{mining_type}'")
        shape = [max(sizes) for sizes in zip(*(shape_of(x) for x in given), strict=True)]
        made = like(match_indices, shape=[UNKNOWN if d < 0 else d for d in shape])
        return made, made
