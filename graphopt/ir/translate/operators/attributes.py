"""Meaningful attributes of operators: none is ignored that could change a result.

A translation reads the attributes of its operator through `Attributes`, which notes their names.
Unread attributes must be hints about how to compute, or have Paddle's default value.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any, cast

from graphopt.errors import UnsupportedError
from graphopt.ir.operators import operators
from graphopt.ir.program import Operator


class Attributes(dict[str, Any]):
    """The attributes of one operator: the stated values, and the defaults of its row for the rest.

    `read` has the names of the attributes that were looked at.
    """

    def __init__(self, stated: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__(defaults)
        self.update(stated)
        self.stated = stated.keys()
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def read_silently(self, name: str) -> Any:
        """Return an attribute without noting its name."""
        return super().__getitem__(name)

    def items(self) -> Any:
        self.read.update(self)
        return super().items()


def noting(op: Operator) -> Operator:
    """Copy `op` with its attributes as `Attributes`: current names, and Paddle's defaults."""
    twin = copy(op)
    row = operators().get(op.type)
    if row is None:
        return twin
    renamed, given = row.old_names, op.attrs
    if renamed:
        given = {renamed.get(name, name): value for name, value in given.items()}
    twin.attrs = Attributes(given, row.defaults)
    return twin


def check_read(op: Operator) -> None:
    """Refuse a meaningful attribute that the translation of `op` did not read.

    `op` is a result of `noting`. Raises UnsupportedError with the attribute and its value. An
    attribute that Paddle does not know either is ignored with a warning, as in Paddle; but if a
    script states one with a name close to a known name, it is refused, too.
    """
    row, attributes = operators().get(op.type), op.attrs
    if row is None or not isinstance(attributes, Attributes):
        return
    # graphopt's own operators are not checked; others that Paddle 2.6.2 lacks may be unrecorded
    is_listed = row.only != "graphopt" and bool(row.attributes or not row.only)
    for name in sorted(attributes.stated - attributes.read - HINTS):
        value = attributes.read_silently(name)
        if isinstance(value, tuple):
            value = [*cast(tuple[Any, ...], value)]
        if name in USUAL:
            if value not in USUAL[name]:
                raise UnsupportedError(
                    f"operator {op.type} with {name} = {value!r} is not supported, only with "
                    f"{USUAL[name][0]!r}"
                )
        elif is_listed and name not in row.attributes and not name.endswith(_NOTES):
            _unknown(op, name, value, row.attributes)


def _unknown(op: Operator, name: str, value: Any, known: Iterable[str]) -> None:
    near = get_close_matches(name, list(known), 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    text = f"operator {op.type} has no attribute '{name}' (= {value!r}){hint}"
    if near and not op.is_loaded:
        raise UnsupportedError(text)
    warnings.warn(f"{text}; it is ignored", stacklevel=2)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HINTS = _words(
    # origin and device of an operator
    "op_role op_role_var op_namescope op_callstack op_device force_cpu place_type dst_place_type "
    "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@ "
    # settings of kernels
    "use_mkldnn use_onednn use_cudnn mkldnn_data_type use_quantizer workspace_size_MB "
    "exhaustive_search is_test im2col_step min_row_size_to_use_multithread numeric_stable_mode "
    "multi_precision save_intermediate_out rng_name use_addto force_fp32_output stable "
    # repetitions of other attributes, slots and variables
    "in_dtype infer_flags interp_method num return_index return_inverse return_counts "
    "return_softmax is_forward fix_seed dropout_fix_seed unpooling_type "
    # ignored by Paddle's static kernels, too
    "rescale_grad "
    # tables distributed over servers
    "is_sparse is_distributed remote_prefetch trainer_id epmap table_names height_sections entry "
    "entry_config grad_inplace slot table_class "
    # one buffer for many tensors
    "check_name copy_data persist_output align_size use_align concated_shapes concated_ranks "
    "user_defined_size_of_dtype "
    # notes of quantization tools
    "with_quant_attr skip_quant quantization_type"
)
"""Attributes that change no result."""

# Endings of the attributes that quantization tools add to any operator.
_NOTES = ("_threshold", "_scale", "_bits", "bit_length")

USUAL: Mapping[str, Sequence[Any]] = {
    # parts that oneDNN fuses into an operator, and scales of its integer kernels
    **dict.fromkeys(("fuse_relu", "fuse_brelu", "fuse_with_relu"), (False,)),
    **dict.fromkeys(("fuse_residual_connection", "fuse_relu_before_depthwise_conv"), (False,)),
    **dict.fromkeys((f"fused_reshape_{slot}" for slot in ("X", "Y", "Out")), ([],)),
    **dict.fromkeys((f"fused_transpose_{slot}" for slot in ("X", "Y", "Out")), ([],)),
    "fused_unsqueeze2_axes": ([],),
    **dict.fromkeys(("Scale_in", "Scale_in_eltwise", "Scale_out", "Scale_x", "Scale_y"), (1.0,)),
    **dict.fromkeys(("scale_x", "scale_out", "fused_output_scale"), (1.0,)),
    **dict.fromkeys(("Scale_weights", "scale_y"), ([1.0], 1.0)),
    **dict.fromkeys(("x_data_format", "y_data_format"), ("", "AnyLayout")),
    "fuse_activation": ("",),
    "transpose_Q": (False,),
    "transpose_K": (True,),
    "transpose_V": (False,),
    # values on the diagonal of a random matrix
    "diag_num": (0,),
    "diag_step": (0,),
    "diag_val": (1.0,),
    # lengths of sequences
    "append": (False,),
    "target_lod": ([],),
    "level": (0,),
    # the rest
    "decimals": (0,),
    "ceil_mode": (False,),
    "mode": ("avg",),
    "a": (-2.0,),
    "b": (2.0,),
    "quant_round_type": (0,),
    "quant_max_bound": (0.0,),
    "quant_min_bound": (0.0,),
    "use_global_beta_pow": (False,),
}
"""Attributes that change results, with their supported values."""
