"""Operator attributes: between the kinds that a ProgramDesc stores and plain Python values.

Reading is exact, since every stored attribute names its kind. Writing has to choose one for values
that no file gave: by a table where Paddle's operators insist, else by the type of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.protobuf.message import INT32, INT64, UNKNOWN, Message, decode
from graphopt.ir.formats.protobuf.schema import ATTRIBUTE, ATTRIBUTE_KIND, SCALAR
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import AttrKind, Block, Operator, Variable

# Where the message of each kind has its value; the names in the plural are lists.
_FIELD = {
    AttrKind.INT: "i",
    AttrKind.FLOAT: "f",
    AttrKind.STRING: "s",
    AttrKind.INTS: "ints",
    AttrKind.FLOATS: "floats",
    AttrKind.STRINGS: "strings",
    AttrKind.BOOLEAN: "b",
    AttrKind.BOOLEANS: "bools",
    AttrKind.BLOCK: "block_idx",
    AttrKind.LONG: "l",
    AttrKind.BLOCKS: "blocks_idx",
    AttrKind.LONGS: "longs",
    AttrKind.FLOAT64S: "float64s",
    AttrKind.VAR: "var_name",
    AttrKind.VARS: "vars_name",
    AttrKind.FLOAT64: "float64",
    AttrKind.SCALAR: "scalar",
    AttrKind.SCALARS: "scalars",
}
_LISTS = {row.name for row in ATTRIBUTE.fields if row.repeated}
_SCALAR_FIELD = {1: "b", 2: "i", 3: "r", 4: "c"}


class Attribute(NamedTuple):
    """A decoded attribute; `value` is a Python bool, int, float, complex, str or a list of one."""

    name: str
    kind: int
    value: Any


def read_attribute(wire: WireReader, start: int, stop: int) -> Attribute:
    """The attribute in bytes `start`..`stop`; FormatError when its kind and value disagree."""

    def scalar(start: int, stop: int) -> Any:
        return _read_scalar(wire, start, stop)

    message = decode(wire, ATTRIBUTE, start, stop, {"scalar": scalar, "scalars": scalar})
    name, kind = message.pop("name"), message.pop("type")
    expected = _FIELD[kind]
    message.pop(UNKNOWN, None)
    if expected in _LISTS:
        message.setdefault(expected, [])
    if list(message) != [expected]:
        raise wire.error(
            start,
            f"expected attribute {quote(name)} of kind {ATTRIBUTE_KIND.meanings[kind]} to have its "
            f"value in '{expected}', found {', '.join(map(repr, message)) or 'no value'}",
        )
    return Attribute(name, kind, message[expected])


def _read_scalar(wire: WireReader, start: int, stop: int) -> Any:
    message = decode(wire, SCALAR, start, stop)
    expected = _SCALAR_FIELD[message["type"]]
    if expected not in message:
        raise wire.error(start, f"expected the scalar to have its value in '{expected}'")
    value = message[expected]
    return complex(value["r"], value["i"]) if expected == "c" else value


def attribute_message(op: Operator, name: str) -> Message:
    """The message of an attribute, of the remembered kind while that still fits the value.

    Raises ProgramError, naming operator and attribute, for a value that no kind can hold.
    """
    value = _plain(op.attrs[name])
    remembered, usual = op.attr_kinds.get(name), _table_kind(op.type, name)
    kinds = (kind for kind in (remembered, usual) if kind is not None and _FITS[kind](value))
    kind = next(kinds, _value_kind(value))
    if kind is None:
        raise ProgramError(
            f"attribute '{name}' of operator {op.type} has the value {quote(value)}, which "
            "no saved program can hold; use a bool, int, float or str, or a list of one"
        )
    convert = _scalar if kind in (AttrKind.SCALAR, AttrKind.SCALARS) else _stored
    many = isinstance(value, list)
    stored = [convert(item) for item in cast(list[Any], value)] if many else convert(value)
    return {"name": name, "type": kind, _FIELD[kind]: stored}


def _stored(value: Any) -> Any:
    """Blocks as their indices, variables as their names, other values unchanged."""
    if isinstance(value, Block):
        return value.idx
    return value.name if isinstance(value, Variable) else value


def _scalar(value: Any) -> Message:
    if isinstance(value, bool):
        return {"type": 1, "b": value}
    if isinstance(value, int):
        return {"type": 2, "i": value}
    if isinstance(value, float):
        return {"type": 3, "r": value}
    return {"type": 4, "c": {"r": value.real, "i": value.imag}}


def _plain(value: Any) -> Any:
    """A value as the front end may give it, in the types that files have."""
    if isinstance(value, DType):
        return value.code
    if isinstance(value, np.generic | np.ndarray):
        return cast(np.generic, value).tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    return value


# The kinds of attributes whose values do not show it: a whole number may be a FLOAT, a list empty.
# First by name, as nearly every operator has it, then for single operators.
_NAMED_KINDS = {
    AttrKind.FLOAT: """Alpha Beta Scale_in Scale_in_eltwise Scale_out Scale_x Scale_y alpha
        attn_dropout_rate batch_size beta beta1 beta2 bg_thresh_hi bg_thresh_lo bias box_clip coeff
        conf_thresh constant decay delta diag_val dist_threshold dropout1_rate dropout2_rate
        dropout_prob dropout_rate eps epsilon eta factor fg_fraction fg_thresh fuse_alpha fuse_beta
        fuse_brelu_threshold gaussian_sigma iou_aware_factor l1 l2 lambda lars_coeff
        lars_weight_decay ln1_epsilon ln2_epsilon ln_epsilon lr_power lr_ratio margin1
        margin2 margin3 max max_norm mean min min_size momentum mu negative_overlap nms_eta
        nms_thresh nms_threshold offset pad_value padding_value porder positive_overlap
        post_threshold pre_ln_epsilon rcond regularization_coeff rescale_grad rho
        rpn_fg_fraction rpn_negative_overlap rpn_positive_overlap rpn_straddle_thresh scale scale_a
        scale_b scale_out scale_x scale_x_y score_threshold shift_ratio sigma slope smooth
        soft_max_lower_bound soft_max_up_bound spatial_scale std step step_h step_w
        summary_decay_rate t_max t_min temperature threshold tol value weight_decay""",
    AttrKind.FLOATS: """Scale_weights anchor_sizes aspect_ratios bbox_reg_weights fixed_ratios
        fixed_sizes fp32_values max_sizes min_sizes scale_y variance variances""",
    AttrKind.FLOAT64S: "fp64_values",
    AttrKind.INTS: "bool_values int32_values",
    AttrKind.LONG: "min_row_size_to_use_multithread mod_by padding_idx seek summarize",
    AttrKind.LONGS: """concated_ranks concated_shapes decrease_axes height_sections int64_values
        none_axes shifts steps""",
    AttrKind.STRINGS: """backward_skip_vars epmap ex_states op_callstack op_role_var
        skip_eager_deletion_vars states table_names""",
    AttrKind.BLOCK: "sub_block",
    AttrKind.BLOCKS: "blocks",
    AttrKind.SCALARS: "values",
}
_OPERATOR_KINDS = {
    "anchor_generator stride": AttrKind.FLOATS,
    "arg_max axis": AttrKind.LONG,
    "arg_min axis": AttrKind.LONG,
    "as_strided dims": AttrKind.LONGS,
    "as_strided offset": AttrKind.LONG,
    "as_strided stride": AttrKind.LONGS,
    "ctc_align padding_value": AttrKind.INT,
    "data shape": AttrKind.LONGS,
    "diag_embed offset": AttrKind.INT,
    "diag_v2 offset": AttrKind.INT,
    "diagonal offset": AttrKind.INT,
    "dist p": AttrKind.FLOAT,
    "dpsgd clip": AttrKind.FLOAT,
    "eye num_columns": AttrKind.LONG,
    "eye num_rows": AttrKind.LONG,
    "fill value": AttrKind.FLOATS,
    "fill_constant shape": AttrKind.LONGS,
    "fill_diagonal offset": AttrKind.INT,
    "gaussian_random shape": AttrKind.LONGS,
    "bicubic_interp_v2 scale": AttrKind.FLOATS,
    "bilinear_interp_v2 scale": AttrKind.FLOATS,
    "histogram bins": AttrKind.LONG,
    "histogram max": AttrKind.INT,
    "histogram min": AttrKind.INT,
    "lars_momentum lars_weight_decay": AttrKind.FLOATS,
    "linear_interp_v2 scale": AttrKind.FLOATS,
    "lrn k": AttrKind.FLOAT,
    "nearest_interp_v2 scale": AttrKind.FLOATS,
    "nll_loss ignore_index": AttrKind.LONG,
    "print summarize": AttrKind.INT,
    "randint shape": AttrKind.LONGS,
    "reduce_all dim": AttrKind.LONGS,
    "reduce_amax dim": AttrKind.LONGS,
    "reduce_amin dim": AttrKind.LONGS,
    "reduce_any dim": AttrKind.LONGS,
    "renorm p": AttrKind.FLOAT,
    "roll axis": AttrKind.LONGS,
    "rrelu lower": AttrKind.FLOAT,
    "rrelu upper": AttrKind.FLOAT,
    "sequence_enumerate pad_value": AttrKind.INT,
    "set_value axes": AttrKind.LONGS,
    "set_value ends": AttrKind.LONGS,
    "set_value shape": AttrKind.LONGS,
    "set_value starts": AttrKind.LONGS,
    "trace offset": AttrKind.INT,
    "trilinear_interp_v2 scale": AttrKind.FLOATS,
    "uniform_random shape": AttrKind.LONGS,
}
_KIND_OF_NAME = {name: kind for kind, names in _NAMED_KINDS.items() for name in names.split()}


def _table_kind(op_type: str, name: str) -> int | None:
    forward = op_type.removesuffix("_grad")
    return _OPERATOR_KINDS.get(f"{forward} {name}", _KIND_OF_NAME.get(name))


def _value_kind(value: Any) -> int | None:
    """The first kind that holds such a value."""
    return next((kind for kind, fits in _FITS.items() if fits(value)), None)


_Test: TypeAlias = Callable[[Any], bool]


def _is(*types: type) -> _Test:
    return lambda value: isinstance(value, types)


def _integer(low: int, high: int) -> _Test:
    return lambda value: isinstance(value, int) and low <= value <= high


def _list_of(fits: _Test) -> _Test:
    return lambda value: isinstance(value, list) and all(map(fits, cast(list[Any], value)))


_is_int, _is_long = _integer(INT32.low, INT32.high), _integer(INT64.low, INT64.high)
_is_variable = _is(Variable, str)


def _is_real(value: Any) -> bool:
    return isinstance(value, float) or (_is_long(value) and not isinstance(value, bool))


def _is_block(value: Any) -> bool:
    return isinstance(value, Block) or _is_int(value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, float | complex) or _is_long(value)


# Whether a value can be stored as a kind; the order is the one that `_value_kind` tries.
_FITS: dict[int, _Test] = {
    AttrKind.BOOLEAN: _is(bool),
    AttrKind.INT: _is_int,
    AttrKind.LONG: _is_long,
    AttrKind.FLOAT: _is_real,
    AttrKind.STRING: _is(str),
    AttrKind.BLOCK: _is_block,
    AttrKind.VAR: _is_variable,
    AttrKind.FLOAT64: _is_real,
    AttrKind.SCALAR: _is_scalar,
    AttrKind.BOOLEANS: lambda value: bool(value) and _list_of(_is(bool))(value),
    AttrKind.INTS: _list_of(_is_int),
    AttrKind.LONGS: _list_of(_is_long),
    AttrKind.FLOATS: _list_of(_is_real),
    AttrKind.STRINGS: _list_of(_is(str)),
    AttrKind.BLOCKS: _list_of(_is_block),
    AttrKind.VARS: _list_of(_is_variable),
    AttrKind.FLOAT64S: _list_of(_is_real),
    AttrKind.SCALARS: _list_of(_is_scalar),
}
