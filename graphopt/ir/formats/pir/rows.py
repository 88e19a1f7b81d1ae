"""The tables of `forward_rows.py` and `gradient_rows.py`, parsed, omitted fields filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphopt.ir.formats.pir.forward_rows import FORWARD
from graphopt.ir.formats.pir.gradient_rows import GRADIENT

GRAD = "_grad"


class Operand(NamedTuple):
    """The place of an operand in the legacy operator: a slot, or an attribute for a constant."""

    slot: str = ""
    attribute: str = ""


@dataclass(frozen=True)
class PirRow:
    """One PIR operator and its legacy form; a result of no slot is ""."""

    type: str
    operands: tuple[Operand, ...]
    results: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """PIR attribute -> legacy attribute."""
    forward: str = ""
    """For a gradient the PIR name of its forward operator."""


# Attributes that legacy calls otherwise, in an operator and in its gradient.
_REDUCED = "axis=dim keepdim=keep_dim dtype=out_dtype"
_INTERPOLATIONS = ("bicubic", "bilinear", "linear", "nearest", "trilinear")
_INTERP = "data_format=data_layout"
RENAMED: Mapping[str, str] = {
    "addmm": "alpha=Alpha beta=Beta",
    "batch_norm": "data_format=data_layout",
    "sync_batch_norm": "data_format=data_layout",
    "group_norm": "data_format=data_layout",
    "cast": "dtype=out_dtype",
    "coalesce_tensor": "size_of_dtype=user_defined_size_of_dtype",
    "collect_fpn_proposals": "post_nms_topn=post_nms_topN",
    "cross": "axis=dim",
    "dropout": "mode=dropout_implementation",
    "eigvalsh": "uplo=UPLO",
    "embedding": "sparse=is_sparse",
    "generate_proposals": "pre_nms_top_n=pre_nms_topN post_nms_top_n=post_nms_topN",
    "increment": "value=step",
    "index_select": "axis=dim",
    "leaky_relu": "negative_slope=alpha",
    "lu": "pivot=pivots",
    "matmul": "transpose_x=trans_x transpose_y=trans_y",
    "max_pool2d_with_index": "kernel_size=ksize",
    "max_pool3d_with_index": "kernel_size=ksize",
    "mish": "lambda=threshold",
    "nms": "threshold=iou_threshold",
    "multihead_matmul": ("transpose_q=transpose_Q transpose_k=transpose_K transpose_v=transpose_V"),
    "pad3d": "pad_value=value",
    "pool3d": "kernel_size=ksize",
    "pow": "y=factor",
    "put_along_axis": "axis=Axis reduce=Reduce include_self=Include_self",
    "repeat_interleave": "repeats=Repeats axis=dim",
    "repeat_interleave_with_tensor_index": "axis=dim",
    "softshrink": "threshold=lambda",
    "take_along_axis": "axis=Axis",
    "transpose": "perm=axis",
    "unpool": "padding=paddings",
    **dict.fromkeys(("all", "any", "amax", "amin", "max", "min", "mean", "prod", "sum"), _REDUCED),
    **{f"{how}_interp": _INTERP for how in _INTERPOLATIONS},
}

# Attributes that came after legacy; with another value than this the operator has no legacy form.
NEWER: Mapping[str, Mapping[str, Any]] = {
    "adam": {"amsgrad": False},
    "adamw": {"amsgrad": False},
    "cumprod": {"exclusive": False, "reverse": False},
    "kldiv_loss": {"log_target": False},
    "max_pool2d_with_index": {"ceil_mode": False},
    "max_pool3d_with_index": {"ceil_mode": False},
    "nanmedian": {"mode": "avg"},
    "repeat_interleave": {"output_size": -1},
    "repeat_interleave_with_tensor_index": {"output_size": -1},
    "round": {"decimals": 0},
    "thresholded_relu": {"value": 0.0},
}


def row_of(name: str) -> PirRow | None:
    """The row of a PIR operator, without its dialect, None when there is none.

    A trailing underscore means that the operator writes in place, and nothing else, unless the
    tables have a name with it.
    """
    return ROWS.get(name) or ROWS.get(name.removesuffix("_"))


def base_name(name: str) -> str:
    """The name without the mark of operators that write in place."""
    return name.removesuffix("_")


def _rows() -> dict[str, PirRow]:
    rows: dict[str, PirRow] = {}
    for signature, names in FORWARD.items():
        for name, legacy in map(_names, names.split()):
            rows[name] = _row(signature, legacy, name)
    for signature, names in GRADIENT.items():
        for name in names.split():
            rows[name + GRAD] = _row(signature, rows[name].type + GRAD, name, name)
    return rows


def _row(signature: str, legacy: str, name: str, forward: str = "") -> PirRow:
    operands, results = (side.split() for side in signature.split("->"))
    # the layer that made the operator
    renamed = {"struct_name": "op_namescope"}
    renamed |= dict(map(_names, RENAMED.get(base_name(name), "").split()))
    slots = tuple("" if slot == "-" else slot for slot in results)
    return PirRow(legacy, tuple(map(_operand, operands)), slots, renamed, forward)


def _names(text: str) -> tuple[str, str]:
    name, _, other = text.partition("=")
    return name, other or name


def _operand(text: str) -> Operand:
    if text == "-":
        return Operand()
    attribute, equals, slot = text.partition("=")
    return Operand(slot, attribute) if equals else Operand(text)


ROWS: Mapping[str, PirRow] = _rows()
