"""Legacy operators of which a row of `table.py` cannot say all: flags, flattening, text, tensors.

Each takes the translator and the operator, and gives the values of the names that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.known import Known, known_numbers
from graphopt.ir.dialect.ops.activation import Hardswish, Hardtanh
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.ops.rearrange import Pad, RepeatInterleave
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.ops.shape import Expand, Flatten, Reshape, Squeeze
from graphopt.ir.dialect.size_rules import amounts, own_sizes
from graphopt.ir.dialect.sums import Sum
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.operators.attention import ATTENTION
from graphopt.ir.translate.operators.boxes import BOXES
from graphopt.ir.translate.operators.callbacks import CALLBACKS
from graphopt.ir.translate.operators.control import CONTROL
from graphopt.ir.translate.operators.first_versions import FIRST_VERSIONS
from graphopt.ir.translate.operators.fused import FUSED, aligned
from graphopt.ir.translate.operators.losses import LOSSES
from graphopt.ir.translate.operators.making import Maker
from graphopt.ir.translate.operators.properties import row_attrs
from graphopt.ir.translate.operators.quantised import QUANTISED
from graphopt.ir.translate.operators.registry import SPECIAL as SPECIAL
from graphopt.ir.translate.operators.scaling import SCALING
from graphopt.ir.translate.operators.sequences import SEQUENCES
from graphopt.ir.translate.operators.shapes import SHAPES
from graphopt.ir.translate.operators.slices import SLICES
from graphopt.ir.translate.operators.sparse import is_sparse_lookup, sparse_embedding
from graphopt.ir.translate.operators.storage import STORAGE
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.ir.translate.operators.tagging import TAGGING
from graphopt.ir.translate.operators.translator import Translator
from graphopt.ir.translate.operators.updates import UPDATES, translate_update


def _mul(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Paddle's `mul` flattens both operands to matrices; here only the contracted axes are."""
    x, y = self.read(op.input("X")[0]), self.read(op.input("Y")[0])
    x_axes = int(op.attrs.get("x_num_col_dims", 1))
    y_axes = int(op.attrs.get("y_num_col_dims", 1))
    if not 0 < x_axes < rank_of(x.type) or not 0 < y_axes < rank_of(y.type):
        raise ProgramError(
            f"mul splits x {list(shape_of(x.type))} after {x_axes} and "
            f"y {list(shape_of(y.type))} after {y_axes} dimensions, which must leave some on "
            "each side"
        )
    if rank_of(x.type) > x_axes + 1:
        x = self.emit(Flatten, op, x, start_axis=x_axes).results[0]
    tail = shape_of(y.type)[y_axes:]
    if y_axes > 1:
        y = self.emit(Flatten, op, y, start_axis=0, stop_axis=y_axes - 1).results[0]
    if len(tail) > 1:
        y = self.emit(Flatten, op, y, start_axis=1).results[0]
    out = self.emit(Matmul, op, x, y).results[0]
    if len(tail) > 1:
        out = self.emit(Reshape, op, out, shape=(0,) * x_axes + tuple(tail)).results[0]
    return {op.output("Out")[0]: out}


_COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")


def _elementwise(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """`axis` says where y's dimensions start in x."""
    x, y = self.read(op.input("X")[0]), self.read(op.input("Y")[0])
    x, y = aligned(Maker(self, op), x, y, int(op.attrs.get("axis", -1)))
    return self.by_row(op, BY_TYPE[op.type], x, y)


def _reduce(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """`reduce_all` wins over the axes; `out_dtype` is -1 when it is not given."""
    row = BY_TYPE[op.type]
    attrs: dict[str, Any] = {}
    dim = op.attrs.get(row.renamed.get("axis", "axis"), ())
    attrs["axis"] = () if op.attrs.get("reduce_all") else dim if _is_list(dim) else (dim,)
    out_dtype = op.attrs.get("out_dtype", -1)
    if "dtype" in attr_kinds(row.op):
        attrs["dtype"] = None if out_dtype in (-1, None) else out_dtype
    return self.by_row(op, row, **attrs)


def _p_norm(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """`asvector` means all axes, else there is one."""
    axis = () if op.attrs.get("asvector") else (op.attrs.get("axis", -1),)
    return self.by_row(op, BY_TYPE[op.type], axis=axis)


def _close(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The tolerances are stored as text."""
    given = {name: float(op.attrs[name]) for name in ("rtol", "atol") if name in op.attrs}
    return self.by_row(op, BY_TYPE[op.type], **given)


def _fill_constant(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Large and special values are stored as text in `str_value`."""
    text = op.attrs.get("str_value") or ""
    value = op.attrs.get("value", 0.0)
    if text:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    row, given = BY_TYPE[op.type], [n for n in op.input("ValueTensor") if n != EMPTY]
    if not given:
        return self.by_row(op, row, value=value)
    number = self.emit(Reshape, op, self.read(given[0]), shape=()).results[0]
    cast = self.emit(Cast, op, number, dtype=op.attrs.get("dtype", "float32")).results[0]
    attrs = {"shape": op.attrs.get("shape", ())}
    made = self.emit_late(Expand, op, [cast], attrs, self.tensor_properties(op, row))
    return self.results(op, row, made)


def _empty(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Memory that nothing was written to: zeros."""
    return self.by_row(op, BY_TYPE[op.type], value=0.0)


def _fill_any_like(self: Translator, op: Operator) -> dict[str, SSAValue]:
    dtype = op.attrs.get("dtype", -1)
    return self.by_row(op, BY_TYPE[op.type], dtype=None if dtype in (-1, None) else dtype)


def _assign_value(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The values are in one of several attributes, by dtype."""
    dtype = as_dtype(op.attr("dtype"))
    lists = [v for name, v in op.attrs.items() if name.endswith("values") and v]
    made = self.emit(
        AssignValue, op, shape=op.attr("shape"), values=lists[0] if lists else (), dtype=dtype
    )
    return {op.output("Out")[0]: made.results[0]}


def _lookup_table(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The first version of the operator wants ids with a trailing 1 and drops it."""
    ids = self.read(op.input("Ids")[0])
    if shape_of(ids.type)[-1:] == (1,):
        ids = self.emit(Squeeze, op, ids, axis=(-1,)).results[0]
    return _looked_up(self, op, ids)


def _lookup_table_v2(self: Translator, op: Operator) -> dict[str, SSAValue]:
    return _looked_up(self, op, self.read(op.input("Ids")[0]))


def _looked_up(self: Translator, op: Operator, ids: SSAValue) -> dict[str, SSAValue]:
    table, padding = self.read(op.input("W")[0]), int(op.attrs.get("padding_idx", -1))
    if self.trains and padding != -1 and is_sparse_lookup(op):
        return {op.output("Out")[0]: sparse_embedding(self, op, ids, table, padding)}
    made = self.emit(Embedding, op, ids, table, padding_idx=padding)
    return {op.output("Out")[0]: made.results[0]}


def _swish(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """With beta 1 it is the silu that fusions know."""
    plain = float(op.attrs.get("beta", 1.0)) == 1.0
    return self.by_row(op, BY_TYPE["silu" if plain else "swish"])


def _relu6(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The bound may be another one than 6."""
    bound = float(op.attrs.get("threshold", 6.0))
    if bound == 6.0:
        return self.by_row(op, BY_TYPE["relu6"])
    made = self.emit(Hardtanh, op, self.read(op.input("X")[0]), t_min=0.0, t_max=bound)
    return {op.output("Out")[0]: made.results[0]}


def _hard_swish(self: Translator, op: Operator) -> dict[str, SSAValue]:
    constants = [float(op.attrs.get(n, d)) for n, d in _HARD_SWISH_DEFAULTS.items()]
    if constants != list(_HARD_SWISH_DEFAULTS.values()):
        raise UnsupportedError(
            "hard_swish with other constants than threshold 6, scale 6, offset 3"
        )
    made = self.emit(Hardswish, op, self.read(op.input("X")[0]))
    return {op.output("Out")[0]: made.results[0]}


_HARD_SWISH_DEFAULTS = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}


def _batch_norm(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Batch norm. If the moving statistics only pass through, their names keep their values."""
    sync = {"sync": True} if op.type == "sync_batch_norm" else {}
    written = self.by_row(op, BY_TYPE["batch_norm"], **sync)
    norm = written[op.output("Y")[0]].owner
    if isinstance(norm, BatchNorm) and norm.keeps_statistics:
        for slot, value in (("MeanOut", norm.mean), ("VarianceOut", norm.variance)):
            written.update(dict.fromkeys(op.output(slot), value))
    return written


def _sequence_mask(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Without a number of columns there are as many as the largest length."""
    row = BY_TYPE[op.type]
    x, given = self.read(op.input("X")[0]), [n for n in op.input("MaxLenTensor") if n != EMPTY]
    tensors: dict[str, SSAValue] = {}
    if given:
        tensors["max_len"] = self.read(given[0])
    elif int(op.attrs.get("maxlen", -1)) < 0:
        tensors["max_len"] = self.emit(Max, op, x).results[0]
    made = self.emit_late(row.op, op, [x], row_attrs(op, row), tensors)
    return self.results(op, row, made)


def _interpolate(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The size is in three attributes, or in tensors; the mode is in the type."""
    row, x = BY_TYPE[op.type], self.read(op.input("X")[0])
    size = [int(op.attrs.get(name, -1)) for name in ("out_d", "out_h", "out_w")]
    size = size[5 - rank_of(x.type) :]
    # one tensor has all sizes, or each has a tensor of its own; Paddle looks there first
    given = [name for slot in ("SizeTensor", "OutSize") for name in op.input(slot)]
    like = _measured(self.read(given[0])) if len(given) == 1 else None
    tensors: dict[str, SSAValue] = {}
    if given and like is None:
        tensors["size"] = self.joined(op, given)
    factors = [name for name in op.input("Scale") if name != EMPTY]
    if factors and not given:
        tensors["scale"] = self.joined(op, factors)
    scale = op.attrs.get("scale") or ()
    mode = op.type.removesuffix("_interp_v2")
    attrs = {
        **row_attrs(op, row),
        "size": size if min(size) > 0 else (),
        "scale": scale if _is_list(scale) else (scale,),
        "mode": "linear" if mode in ("bilinear", "trilinear") else mode,
    }
    return self.results(op, row, self.emit_late(row.op, op, [x, like], attrs, tensors))


def _measured(value: SSAValue) -> SSAValue | None:
    """The images y whose open height and width, `shape(y)[2:]`, are in this value."""
    elements = Known().elements(value)
    wanted = [] if elements is None else amounts(elements)
    for size in wanted:
        images = size.only.value if isinstance(size, Sum) and size.only else None
        if images is not None:
            return images if list(own_sizes(images)[2:]) == wanted else None
    return None


def _pad3d(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Two numbers for width, then height, then depth."""
    paddings = [int(n) for name in op.input("Paddings") for n in _constants(self, op, name)]
    paddings = paddings or op.attr("paddings")
    spatial = [paddings[2 * at : 2 * at + 2] for at in (2, 1, 0)]
    pairs = [[0, 0], *spatial]
    pairs.insert(4 if op.attrs.get("data_format") == "NDHWC" else 1, [0, 0])
    flat = [number for pair in pairs for number in pair]
    attrs = {"mode": op.attrs.get("mode", "constant"), "value": op.attrs.get("value", 0.0)}
    made = self.emit(Pad, op, self.read(op.input("X")[0]), paddings=flat, **attrs)
    return {op.output("Out")[0]: made.results[0]}


def _set_value(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The value is a tensor or listed in the attributes."""
    if op.attrs.get("none_axes"):
        raise UnsupportedError("set_value with new axes (None) in the index")
    row, target = BY_TYPE[op.type], self.read(op.input("Input")[0])
    if any(name != EMPTY for name in op.input("ValueTensor")):
        return self.by_row(op, row)
    listed = next((v for n, v in op.attrs.items() if n.endswith("values") and v), ())
    shape, dtype = op.attrs.get("shape") or (len(listed),), dtype_of(target.type)
    value = self.emit(AssignValue, op, shape=shape, values=listed, dtype=dtype).results[0]
    return self.by_row(op, row, target, value)


def _repeat_interleave(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """One number for all slices is an attribute, one for each a tensor."""
    if any(name != EMPTY for name in op.input("RepeatsTensor")):
        return self.by_row(op, BY_TYPE[op.type])
    x, attrs = self.read(op.input("X")[0]), op.attrs
    made = self.emit(
        RepeatInterleave, op, x, repeats=attrs.get("Repeats", 1), axis=attrs.get("dim", 0)
    )
    return {op.output("Out")[0]: made.results[0]}


def _range(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The bounds are attributes or tensors."""
    row = BY_TYPE[op.type]
    tensors, attrs = self.tensor_properties(op, row), row_attrs(op, row)
    if tensors:
        attrs["dtype"] = op.attrs.get("dtype", dtype_of(next(iter(tensors.values())).type))
    made = self.emit_late(row.op, op, (), attrs, tensors)
    return {op.output("Out")[0]: made.results[0]}


def _constants(self: Translator, op: Operator, name: str) -> Sequence[float]:
    """The elements of a tensor that must be fixed; UnsupportedError when a run decides them."""
    numbers = known_numbers(self.read(name))
    if numbers is None:
        raise UnsupportedError(
            f"operator {op.type} takes the variable {name}, whose value is not known before the "
            "program runs"
        )
    return numbers


def _grad(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The derivative; every target gets an explicit cotangent (ones unless one is given)."""
    targets = [self.read(name) for name in op.input("Y")]
    given = op.input("YGrad")
    cotangents = [
        self.read(name) if name != EMPTY else self.emit(FullLike, op, target, value=1.0).results[0]
        for name, target in zip(given or [EMPTY] * len(targets), targets, strict=True)
    ]
    made = self.emit(
        Grad,
        op,
        targets,
        [self.read(name) for name in op.input("X")],
        cotangents,
        [self.read(name) for name in op.input("NoGrad")],
        parameters=op.attrs.get("parameters", ()),
    )
    names = op.output("XGrad")
    return {n: v for n, v in zip(names, made.results, strict=True) if n != EMPTY}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


SPECIAL.update(
    {
        "mul": _mul,
        "lookup_table": _lookup_table,
        "lookup_table_v2": _lookup_table_v2,
        "fill_constant": _fill_constant,
        "empty": _empty,
        "fill_any_like": _fill_any_like,
        "assign_value": _assign_value,
        "swish": _swish,
        "logsumexp": _reduce,
        "frobenius_norm": _reduce,
        "p_norm": _p_norm,
        "isclose": _close,
        "allclose": _close,
        "hard_swish": _hard_swish,
        "relu6": _relu6,
        "batch_norm": _batch_norm,
        "sync_batch_norm": _batch_norm,
        "sequence_mask": _sequence_mask,
        "pad3d": _pad3d,
        "set_value": _set_value,
        "repeat_interleave": _repeat_interleave,
        "range": _range,
        "linspace": _range,
        "logspace": _range,
        **CONTROL,
        **STORAGE,
        **SCALING,
        GRAD_TYPE: _grad,
        **dict.fromkeys(UPDATES, translate_update),
        **CALLBACKS,
        **SLICES,
        **FIRST_VERSIONS,
        **ATTENTION,
        **BOXES,
        **FUSED,
        **LOSSES,
        **QUANTISED,
        **SEQUENCES,
        **TAGGING,
        **SHAPES,
        **{t: _interpolate for t in BY_TYPE if t.endswith("_interp_v2")},
        **{t: _elementwise for t in BY_TYPE if t.startswith("elementwise_")},
        **dict.fromkeys(_COMPARISONS, _elementwise),
        **{t: _reduce for t in BY_TYPE if t.startswith("reduce_")},
    }
)
