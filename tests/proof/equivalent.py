"""Mutants that no program distinguishes from the right pass, each with the reason."""

from __future__ import annotations

_TYPES = "only tells the type checker what holds for every op that comes here"
_ORDERS = "both holes take any value and nothing that is checked or built tells them apart"
_BETWEEN = "the pattern has only such ops between a projection and the product"
_PARTS = "a part of the stand-in's batch or time is smaller than it, and no layout is"
_SPEED = "only saves a search that finds nothing"
_AGAIN = "only saves doing again what gives the same"

EQUIVALENT: dict[str, str] = {
    # the matcher
    "matching._with_inputs: always `sum((not _plausible(hole, value) for hole, value in pairs)) <= "
    "match.may_miss`": _SPEED,
    "matching._plausible: returns True, not `hole.producers is None or type(value.owner) in "
    "hole.producers`": _SPEED,
    "matching._with_inputs: always `all((isinstance(hole, Value) for hole in "
    "order[len(op.operands):]))`": "no pattern draws an op at an operand that may be absent",
    "matching._bind: without `and isinstance(producer, PdOp)`": "a block has a region for its "
    "parent, never the block of the reader",
    "fusion._read_alike: returns False, not `all((value in known for op in made for value in "
    "op.operands))`": "the validator looks at more ops than it needs to",
    "matching._find_near_miss: always `isinstance(before, PdOp)`": "no node takes what is no op",
    "matching._bind: without `and index == 0`": "no optional node is used by a side result",
    "matching._bind: always `match.may_miss`": "`miss` asks the same",
    "fusion._is_before: never `outer is block.last_op`": _SPEED,
    # clean-ups
    "fold_constants.FoldConstants.rewrite: without `or not isinstance(op, PdOp)`": _TYPES,
    "fold_constants._compute: without `or isinstance(op, RegionOp)`": "`Known` has no rule for "
    "ops with regions",
    "fold_constants._compute: without `or UNKNOWN in shape`": "`Known` refuses open sizes as well",
    "recognise_gelu.RecogniseGelu.rewrite: without `and isinstance(op, PdOp)`": _TYPES,
    "recognise_gelu._sources: without `and v not in seen`": _AGAIN,
    "recognise_gelu._last_first: without `and len(found) < len(ops)`": _SPEED,
    "drop_dropout._drop: without `and testing`": "in training p is 0 here, so that 1 - p is 1",
    "reassociate_matmul._joins: without `and result not in kept`": "the gradient that keeps a "
    "value is a second use of it",
    "fuse_all_optimizer_ops._fuse: always `len(updates) > 1`": "what reads the result of an update "
    "comes after it",
    "grouping._early_reader: without `and reader is not None`": "every reader is in "
    "the block or inside an op of it",
    "grouping.waits_for: each, not `isinstance(value.owner, Operation)`": "an argument has no op "
    "in its block",
    # groups
    "group_borders.members: without `or not isinstance(op, PdOp)`": _TYPES,
    "group_borders.ends: each, not `isinstance(v.owner, Operation)`": _TYPES,
    "group_borders._returned_as: without `and isinstance(function, FuncOp)`": _TYPES,
    "group_growth.Growth._comes_back: always `min((self.place[member] for member in node)) < "
    "end`": _SPEED,
    "group_growth.Growth.readers: always `found is None`": _AGAIN,
    "group_growth.Growth._all_readers: always `reader is not None`": _TYPES,
    "group_growth.restore_order: each, not `isinstance(v.owner, Operation)`": _TYPES,
    "group_growth.restore_order: always `ops != list(placed)`": _AGAIN,
    "kept_values.choose_kept: each, not `isinstance(unit, SSAValue)`": "whoever reads these inputs "
    "looks for values in them",
    "kept_values.choose_kept: without `or 0`": _TYPES,
    "kept_values.Flow.before: each, not `other not in found`": _AGAIN,
    "kept_values._cheapest: without `and isinstance(unit, PdOp)`": _TYPES,
    "min_cut.source_side: never `flow >= UNCUT`": "each value of a group may be kept, so that some "
    "cut is finite",
    "fusion_groups.Grouping._price: without `and isinstance(reader, PdOp)`": _TYPES,
    "fusion_groups.Grouping._readers: each, not `reader is not None`": _TYPES,
    "fold_batch_norm._Folded._check_bias: without `or len(shape) != rank`": "a sum has the rank of "
    "its operand of the highest rank, so the bias has no more dimensions",
    # kernels of groups
    "choose_group_kernel._choose: without `and isinstance(op, PdOp)`": _TYPES,
    "choose_group_kernel._parts: without `and isinstance(op, PdOp)`": _TYPES,
    # Transformers
    "transformer_parts.ScaledPart.factor: without `or 0.0`": _TYPES,
    "fused_attention.Attention._layouts: without `or shape_of(start.type)[-1] == UNKNOWN`": "then "
    "there is no element to trace, and a layout without elements is none",
    "fused_attention.Attention._joins: without `and found is not None`": "to NumPy no array equals "
    "None",
    "fused_attention.Attention._check_rows: without `or not isinstance(owner, PdOp)`": _TYPES,
    "head_layout.trace: without `and isinstance(op, PdOp)`": _TYPES,
    "head_layout.trace: never `not isinstance(op, PdOp) or not isinstance(value, OpResult) or "
    "type(op) not in _STEPS`": _BETWEEN,
    "head_layout.trace: without `or not isinstance(op, PdOp)`": _BETWEEN,
    "head_layout.trace: without `or not isinstance(value, OpResult)`": _BETWEEN,
    "head_layout.trace: without `or type(op) not in _STEPS`": _BETWEEN,
    "head_layout._rows_lead: without `and even`": "rows in another order stay so, and no layout "
    "has them",
    "head_layout._split: never `not _has_known_size(op, axis, array)`": _PARTS,
    "head_layout._unbind: always `_has_known_size(op, axis, array)`": _PARTS,
    "transformer_parts.check_residual: without `and len(a) == len(b)`": "linear layers keep the "
    "rank of what they read",
    # kernels of oneDNN
    "pack_filters.PackFilters.rewrite: without `and packed`": _AGAIN,
    "pack_filters.PackFilters.rewrite: without `and prepare is not None`": _TYPES,
    # patterns
    "fuse-dot-product-attention `scores`: either order": "each other order has the same reason "
    "against it as the first one",
    "fused-attention `out_matmul`: either order": "joined heads have three dimensions, and the "
    "second operand of a linear layer has two",
    "fused-attention `weighted_sum`: either order": "the layout is asked of the second operand, "
    "which no softmax may have made",
    "fuse-elewise-add-act `add`: either order": _ORDERS,
    "fuse-gemm-epilogue `matmul`: either order": _ORDERS,
    "fuse-resunit `conv`: either order": _ORDERS,
    "fuse-conv-epilogue `convolution`: either order": _ORDERS,
}
