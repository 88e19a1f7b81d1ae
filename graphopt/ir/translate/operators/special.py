"""Legacy operators of which a row of `table.py` cannot say all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.constants import known_numbers, measured
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.ops.activation import Hardswish, Hardtanh
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.ops.rearrange import Pad, RepeatInterleave
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.ops.shape import Expand, Flatten, Squeeze
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import EMPTY
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.fused import aligned
from graphopt.ir.translate.operators.properties import row_attrs
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sparse import is_sparse_lookup, sparse_embedding
from graphopt.ir.translate.operators.table import BY_TYPE


@translates("mul")
def mul(emit: Emitter) -> Written:
    """Paddle's `mul` flattens both operands to matrices; here only the contracted axes are."""
    x, y = emit.input("X"), emit.input("Y")
    x_axes, y_axes = emit.attr("x_num_col_dims", 1), emit.attr("y_num_col_dims", 1)
    if not 0 < x_axes < rank_of(x.type) or not 0 < y_axes < rank_of(y.type):
        raise ProgramError(
            f"mul splits x {list(shape_of(x.type))} after {x_axes} and "
            f"y {list(shape_of(y.type))} after {y_axes} dimensions, which must leave some on "
            "each side"
        )
    x, tail = emit.matrix(x, x_axes), shape_of(y.type)[y_axes:]
    if y_axes > 1:
        y = emit(Flatten, y, start_axis=0, stop_axis=y_axes - 1)
    if len(tail) > 1:
        y = emit(Flatten, y, start_axis=1)
    out = emit(Matmul, x, y)
    if len(tail) > 1:
        out = emit.reshaped(out, *(0,) * x_axes, *tail)
    return emit.results(Out=out)


_COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")


@translates(*(t for t in BY_TYPE if t.startswith("elementwise_")), *_COMPARISONS)
def elementwise(emit: Emitter) -> Written:
    """`axis` says where y's dimensions start in x."""
    x, y = aligned(emit, emit.input("X"), emit.input("Y"), emit.attr("axis", -1))
    return emit.by_row(x, y)


@translates(*(t for t in BY_TYPE if t.startswith("reduce_")), "logsumexp", "frobenius_norm")
def reduction(emit: Emitter) -> Written:
    """`reduce_all` wins over the axes; `out_dtype` is -1 when it is not given."""
    row, given = emit.row, emit.op.attrs
    attrs: dict[str, Any] = {}
    axes = emit.several(row.renamed.get("axis", "axis"))
    attrs["axis"] = () if given.get("reduce_all") else axes
    out_dtype = given.get("out_dtype", -1)
    if "dtype" in attr_kinds(row.op):
        attrs["dtype"] = None if out_dtype in (-1, None) else out_dtype
    return emit.by_row(**attrs)


@translates("p_norm")
def p_norm(emit: Emitter) -> Written:
    """`asvector` means all axes, else there is one."""
    axis = () if emit.attr("asvector", False) else (emit.attr("axis", -1),)
    return emit.by_row(axis=axis)


@translates("isclose", "allclose")
def close(emit: Emitter) -> Written:
    """The tolerances are stored as text."""
    names = (name for name in ("rtol", "atol") if name in emit.op.attrs)
    given: dict[str, Any] = {name: float(emit.op.attrs[name]) for name in names}
    return emit.by_row(**given)


@translates("fill_constant")
def fill_constant(emit: Emitter) -> Written:
    """Large and special values are stored as text in `str_value`."""
    text = emit.op.attrs.get("str_value") or ""
    value = emit.op.attrs.get("value", 0.0)
    if text:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    given = emit.optional("ValueTensor")
    if given is None:
        return emit.by_row(value=value)
    cast = emit(Cast, emit.reshaped(given), dtype=emit.op.attrs.get("dtype", "float32"))
    attrs = {"shape": emit.op.attrs.get("shape", ())}
    made = emit.late(Expand, [cast], attrs, emit.tensor_properties(emit.row))
    return emit.results(Out=made[0])


@translates("empty")
def empty(emit: Emitter) -> Written:
    """Memory that nothing was written to: zeros."""
    return emit.by_row(value=0.0)


@translates("fill_any_like")
def fill_any_like(emit: Emitter) -> Written:
    dtype = emit.op.attrs.get("dtype", -1)
    return emit.by_row(dtype=None if dtype in (-1, None) else dtype)


@translates("assign_value")
def assign_value(emit: Emitter) -> Written:
    """The values are in one of several attributes, by dtype."""
    dtype = as_dtype(emit.op.attr("dtype"))
    lists = [v for name, v in emit.op.attrs.items() if name.endswith("values") and v]
    values = lists[0] if lists else ()
    made = emit(AssignValue, shape=emit.op.attr("shape"), values=values, dtype=dtype)
    return emit.results(Out=made)


@translates("lookup_table")
def lookup_table(emit: Emitter) -> Written:
    """The first version of the operator wants ids with a trailing 1 and drops it."""
    ids = emit.input("Ids")
    if shape_of(ids.type)[-1:] == (1,):
        ids = emit(Squeeze, ids, axis=(-1,))
    return _looked_up(emit, ids)


@translates("lookup_table_v2")
def lookup_table_v2(emit: Emitter) -> Written:
    return _looked_up(emit, emit.input("Ids"))


def _looked_up(emit: Emitter, ids: SSAValue) -> Written:
    table, padding = emit.input("W"), emit.attr("padding_idx", -1)
    if emit.builder.trains and padding != -1 and is_sparse_lookup(emit.op):
        return emit.results(Out=sparse_embedding(emit, ids, table, padding))
    return emit.results(Out=emit(Embedding, ids, table, padding_idx=padding))


@translates("swish")
def swish(emit: Emitter) -> Written:
    """With beta 1 it is the silu that fusions know."""
    plain = emit.attr("beta", 1.0) == 1.0
    return emit.by_row(row=BY_TYPE["silu" if plain else "swish"])


@translates("relu6")
def relu6(emit: Emitter) -> Written:
    """The bound may be another one than 6."""
    bound = emit.attr("threshold", 6.0)
    if bound == 6.0:
        return emit.by_row()
    return emit.results(Out=emit(Hardtanh, emit.input("X"), t_min=0.0, t_max=bound))


_HARD_SWISH = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}


@translates("hard_swish")
def hard_swish(emit: Emitter) -> Written:
    if any(emit.attr(name, usual) != usual for name, usual in _HARD_SWISH.items()):
        raise UnsupportedError(
            "hard_swish with other constants than threshold 6, scale 6, offset 3"
        )
    return emit.results(Out=emit(Hardswish, emit.input("X")))


@translates("batch_norm", "sync_batch_norm")
def batch_norm(emit: Emitter) -> Written:
    """Batch norm. If the moving statistics only pass through, their names keep their values."""
    sync = {"sync": True} if emit.op.type == "sync_batch_norm" else {}
    written = emit.by_row(row=BY_TYPE["batch_norm"], **sync)
    norm = written[emit.op.output("Y")[0]].owner
    if isinstance(norm, BatchNorm) and norm.keeps_statistics:
        written |= emit.results(MeanOut=norm.mean, VarianceOut=norm.variance)
    return written


@translates("sequence_mask")
def sequence_mask(emit: Emitter) -> Written:
    """Without a number of columns there are as many as the largest length."""
    x, given = emit.input("X"), emit.optional("MaxLenTensor")
    tensors: dict[str, SSAValue] = {}
    if given is not None:
        tensors["max_len"] = given
    elif emit.attr("maxlen", -1) < 0:
        tensors["max_len"] = emit(Max, x)
    made = emit.late(emit.row.op, [x], row_attrs(emit.op, emit.row), tensors)
    return emit.results(Y=made[0])


@translates(*(t for t in BY_TYPE if t.endswith("_interp_v2")))
def interpolate(emit: Emitter) -> Written:
    """The size is in three attributes, or in tensors; the mode is in the type."""
    op, row, x = emit.op, emit.row, emit.input("X")
    size = [emit.attr(name, -1) for name in ("out_d", "out_h", "out_w")]
    size = size[5 - rank_of(x.type) :]
    # one tensor has all sizes, or each has a tensor of its own; Paddle looks there first
    given = [name for slot in ("SizeTensor", "OutSize") for name in op.input(slot)]
    like = measured(emit.read(given[0])) if len(given) == 1 else None
    tensors: dict[str, SSAValue] = {}
    if given and like is None:
        tensors["size"] = emit.joined(given)
    factors = [name for name in op.input("Scale") if name != EMPTY]
    if factors and not given:
        tensors["scale"] = emit.joined(factors)
    mode = op.type.removesuffix("_interp_v2")
    attrs = {
        **row_attrs(op, row),
        "size": size if min(size) > 0 else (),
        "scale": emit.several("scale") if op.attrs.get("scale") else (),
        "mode": "linear" if mode in ("bilinear", "trilinear") else mode,
    }
    return emit.results(Out=emit.late(row.op, [x, like], attrs, tensors)[0])


@translates("pad3d")
def pad3d(emit: Emitter) -> Written:
    """Two numbers for width, then height, then depth."""
    paddings = [int(n) for name in emit.op.input("Paddings") for n in _constants(emit, name)]
    paddings = paddings or emit.op.attr("paddings")
    spatial = [paddings[2 * at : 2 * at + 2] for at in (2, 1, 0)]
    pairs = [[0, 0], *spatial]
    pairs.insert(4 if emit.op.attrs.get("data_format") == "NDHWC" else 1, [0, 0])
    flat = [number for pair in pairs for number in pair]
    attrs = {"mode": emit.attr("mode", "constant"), "value": emit.op.attrs.get("value", 0.0)}
    return emit.results(Out=emit(Pad, emit.input("X"), paddings=flat, **attrs))


def _constants(emit: Emitter, name: str) -> Sequence[float]:
    """The elements of a tensor that must be fixed; UnsupportedError when a run decides them."""
    numbers = known_numbers(emit.read(name))
    if numbers is None:
        raise UnsupportedError(
            f"operator {emit.op.type} takes the variable {name}, whose value is not known before "
            "the program runs"
        )
    return numbers


@translates("set_value")
def set_value(emit: Emitter) -> Written:
    """The value is a tensor or listed in the attributes."""
    attrs = emit.op.attrs
    if attrs.get("none_axes"):
        raise UnsupportedError("set_value with new axes (None) in the index")
    target = emit.input("Input")
    if emit.inputs("ValueTensor"):
        return emit.by_row()
    listed = next((v for n, v in attrs.items() if n.endswith("values") and v), ())
    shape, dtype = attrs.get("shape") or (len(listed),), dtype_of(target.type)
    return emit.by_row(target, emit(AssignValue, shape=shape, values=listed, dtype=dtype))


@translates("repeat_interleave")
def repeat_interleave(emit: Emitter) -> Written:
    """One number for all slices is an attribute, one for each a tensor."""
    if emit.inputs("RepeatsTensor"):
        return emit.by_row()
    repeats, axis = emit.attr("Repeats", 1), emit.attr("dim", 0)
    return emit.results(Out=emit(RepeatInterleave, emit.input("X"), repeats=repeats, axis=axis))


@translates("range", "linspace", "logspace")
def spaced(emit: Emitter) -> Written:
    """The bounds are attributes or tensors."""
    tensors, attrs = emit.tensor_properties(emit.row), row_attrs(emit.op, emit.row)
    if tensors:
        usual = dtype_of(next(iter(tensors.values())).type)
        attrs["dtype"] = emit.op.attrs.get("dtype", usual)
    return emit.results(Out=emit.late(emit.row.op, (), attrs, tensors)[0])


@translates(GRAD_TYPE)
def derivative(emit: Emitter) -> Written:
    """The derivative; every target gets an explicit cotangent (ones unless one is given)."""
    targets, op = emit.inputs("Y"), emit.op
    given = op.input("YGrad") or [EMPTY] * len(targets)
    cotangents = [
        emit.read(name) if name != EMPTY else emit(FullLike, target, value=1.0)
        for name, target in zip(given, targets, strict=True)
    ]
    parameters = op.attrs.get("parameters", ())
    operands = (targets, emit.inputs("X"), cotangents, emit.inputs("NoGrad"))
    return emit.results(XGrad=emit.all(Grad, *operands, parameters=parameters))
