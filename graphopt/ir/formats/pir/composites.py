"""PIR operators that become several legacy operators, or whose tensors legacy has as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.registry import imports
from graphopt.ir.formats.pir.rows import base_name, row_of
from graphopt.ir.formats.pir_json.records import PirOp, PirType
from graphopt.ir.program import GRAD_SUFFIX

_NULL = PirType("NULL")

# Operators that Paddle 3 computes in float32 for integer operands. The file declares integer
# results, and legacy's operators refuse integers.
FLOATING = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "digamma", "erf"),
    *("erfinv", "exp", "expm1", "lgamma", "log", "log10", "log1p", "log2", "logit", "logsigmoid"),
    *("reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "stanh", "tan", "tanh"),
)


def cast_to(importer: Importer, op: PirOp, name: str, source: PirType, dtype: str | None) -> str:
    """Return the variable `name`, or a copy of it cast to `dtype`."""
    if dtype is None or source.dtype in (None, dtype):
        return name
    made = importer.new(f"{name}.{dtype}", PirType("dtensor", dtype, source.dims))
    codes = {"in_dtype": as_dtype(source.dtype).code, "out_dtype": as_dtype(dtype).code}
    importer.emit("cast", {"X": [name]}, {"Out": [made]}, codes, source=op)
    return made


@imports(*(f"pd_op.{name}" for name in FLOATING))
def floating(importer: Importer, op: PirOp) -> None:
    row = row_of(op.name.partition(".")[2])
    if row is None or not op.results:
        importer.opaque(op)
        return
    wanted = op.results[0].type.dtype
    if wanted is None or not as_dtype(wanted).is_differentiable:
        wanted = "float32"
    kept = {value: importer.named[value] for value in op.operands if value in importer.named}
    for value, name in kept.items():
        source = importer.types.get(value, _NULL)
        if source.dtype is not None and not as_dtype(source.dtype).is_differentiable:
            importer.named[value] = cast_to(importer, op, name, source, wanted)
    importer.by_row(op, row)
    importer.named.update(kept)


def _emit(
    importer: Importer,
    op: PirOp,
    type_: str,
    inputs: Mapping[str, str],
    like: PirType,
    **attrs: Any,
) -> str:
    """Emit an operator with one new result variable; return the variable."""
    name = importer.new(f"{base_name(op.name.partition('.')[2])}_{op.results[0].id}.{type_}", like)
    importer.emit(
        type_, {slot: [n] for slot, n in inputs.items()}, {"Out": [name]}, attrs, source=op
    )
    return name


def _into(
    importer: Importer,
    op: PirOp,
    type_: str,
    inputs: Mapping[str, str],
    result: int = 0,
    **attrs: Any,
) -> None:
    """Emit the operator that computes a result of the file's operator."""
    importer.same_names(op)
    outputs = {"Out": importer.results(op, result)}
    importer.emit(type_, {slot: [n] for slot, n in inputs.items()}, outputs, attrs, source=op)


def _operand(importer: Importer, op: PirOp, index: int, dtype: str | None) -> str:
    """Return an operand, cast to the element type of the computation."""
    value = op.operands[index]
    return cast_to(importer, op, importer.value(value), importer.types.get(value, _NULL), dtype)


@imports("pd_op.scale")
def scale(importer: Importer, op: PirOp) -> None:
    """Import `scale`; a tensor factor becomes a product, before or after the bias."""
    row = row_of("scale")
    if row is None or len(op.operands) < 2 or importer.constant(op.operands[1]) is not None:
        if row is not None:
            importer.by_row(op, row)
        return
    like = importer.types.get(op.operands[0], _NULL)
    x, factor = importer.value(op.operands[0]), _operand(importer, op, 1, like.dtype)
    bias, after = float(op.attribute("bias", 0.0)), op.attribute("bias_after_scale", True)
    plain: dict[str, Any] = {"scale": 1.0, "bias": bias, "bias_after_scale": True}
    if after:
        x = _emit(importer, op, "elementwise_mul", {"X": x, "Y": factor}, like, axis=-1)
        _into(importer, op, "scale", {"X": x}, **plain)
    else:
        x = _emit(importer, op, "scale", {"X": x}, like, **plain)
        _into(importer, op, "elementwise_mul", {"X": x, "Y": factor}, axis=-1)


@imports("pd_op.clip")
def clip(importer: Importer, op: PirOp) -> None:
    """Import `clip`; tensor bounds become a maximum and a minimum."""
    row = row_of("clip")
    bounds = [importer.constant(value) for value in op.operands[1:3]]
    if row is None or len(bounds) < 2 or None not in bounds:
        if row is not None:
            importer.by_row(op, row)
        return
    like = importer.types.get(op.operands[0], _NULL)
    x, low = importer.value(op.operands[0]), _operand(importer, op, 1, like.dtype)
    x = _emit(importer, op, "elementwise_max", {"X": x, "Y": low}, like, axis=-1)
    high = _operand(importer, op, 2, like.dtype)
    _into(importer, op, "elementwise_min", {"X": x, "Y": high}, axis=-1)


@imports("pd_op.masked_fill")
def masked_fill(importer: Importer, op: PirOp) -> None:
    if len(op.operands) != 3:
        importer.opaque(op)
        return
    x, mask = importer.value(op.operands[0]), importer.value(op.operands[1])
    value = _operand(importer, op, 2, importer.types.get(op.operands[0], _NULL).dtype)
    _into(importer, op, "where", {"Condition": mask, "X": value, "Y": x})


@imports("pd_op.round")
def import_round(importer: Importer, op: PirOp) -> None:
    """Import `round`; for decimal places, round the number times a power of ten, as Paddle does."""
    decimals, row = op.attribute("decimals", 0), row_of("round")
    if row is None or not decimals or not isinstance(decimals, int) or abs(decimals) > 30:
        if row is None or decimals:
            importer.opaque(op)
        else:
            importer.by_row(op, row)
        return
    like = importer.types.get(op.operands[0], _NULL)
    plain: dict[str, Any] = {"bias": 0.0, "bias_after_scale": True}
    x = importer.value(op.operands[0])
    x = _emit(importer, op, "scale", {"X": x}, like, scale=10.0**decimals, **plain)
    x = _emit(importer, op, "round", {"X": x}, like)
    _into(importer, op, "scale", {"X": x}, scale=10.0**-decimals, **plain)


@imports("pd_op.median")
def median(importer: Importer, op: PirOp) -> None:
    """Import `median` as legacy's `nanmedian`, with NaN where any element is NaN."""
    type_, axes = op.results[0].type, op.attribute("axis", [])
    if op.attribute("mode", "avg") != "avg" or not isinstance(axes, list):
        importer.opaque(op)
        return
    x, kept = importer.value(op.operands[0]), bool(op.attribute("keepdim", False))
    out = _emit(importer, op, "nanmedian", {"X": x}, type_, axis=axes, keepdim=kept)
    flags = PirType("dtensor", "bool", importer.types.get(op.operands[0], _NULL).dims)
    missing = _emit(importer, op, "isnan_v2", {"X": x}, flags)
    reduced: dict[str, Any] = {
        "dim": axes,
        "keep_dim": kept,
        "reduce_all": not axes,
        "out_dtype": -1,
    }
    flags = PirType("dtensor", "bool", type_.dims)
    missing = _emit(importer, op, "reduce_any", {"X": missing}, flags, **reduced)
    nan = _emit(importer, op, "fill_any_like", {"X": out}, type_, value=float("nan"), dtype=-1)
    _into(importer, op, "where", {"Condition": missing, "X": nan, "Y": out})


@imports("pd_op.sigmoid_cross_entropy_with_logits")
def weighted_entropy(importer: Importer, op: PirOp) -> None:
    """Import a weighted cross entropy: (1 - label) · x + weight · log(1 + exp(-x))."""
    row = row_of("sigmoid_cross_entropy_with_logits")
    if row is None or len(op.operands) < 3 or not importer.is_there(op.operands[2]):
        if row is not None:
            importer.by_row(op, row)
        return
    if op.attribute("normalize") or op.attribute("ignore_index", -100) != -100:
        importer.opaque(op)
        return
    like = op.results[0].type
    x, label, weight = (importer.value(value) for value in op.operands[:3])
    other: dict[str, Any] = {"scale": -1.0, "bias_after_scale": True}
    rest = _emit(importer, op, "scale", {"X": label}, like, bias=1.0, **other)
    rest = _emit(importer, op, "elementwise_mul", {"X": rest, "Y": x}, like, axis=-1)
    negative = _emit(importer, op, "scale", {"X": x}, like, bias=0.0, **other)
    term = _emit(importer, op, "softplus", {"X": negative}, like, beta=1.0, threshold=20.0)
    term = _emit(importer, op, "elementwise_mul", {"X": term, "Y": weight}, like, axis=-1)
    _into(importer, op, "elementwise_add", {"X": rest, "Y": term}, axis=-1)


@imports("pd_op.rms_norm")
def rms_norm(importer: Importer, op: PirOp) -> None:
    """Import `rms_norm`: rows over their root mean square, in float32 or more as in Paddle."""
    like = importer.types.get(op.operands[0], _NULL) if op.operands else _NULL
    given = op.attribute("normalized_shape")
    sizes = cast("list[Any]", given) if isinstance(given, list) else []
    if not sizes or len(like.dims) < len(sizes):
        importer.opaque(op)
        return
    wide = "float64" if like.dtype == "float64" else "float32"
    rank, type_ = len(like.dims), PirType("dtensor", wide, like.dims)
    dims = list(range(rank - len(sizes), rank))
    rows = PirType("dtensor", wide, (*like.dims[: dims[0]], *(1 for _ in dims)))
    x = _operand(importer, op, 0, wide)
    square = _emit(importer, op, "square", {"X": x}, type_)
    reduced = {"dim": dims, "keep_dim": True, "reduce_all": False, "out_dtype": -1}
    mean = _emit(importer, op, "reduce_mean", {"X": square}, rows, **reduced)
    epsilon = float(op.attribute("epsilon", 1e-5))
    moved = {"scale": 1.0, "bias": epsilon, "bias_after_scale": True}
    mean = _emit(importer, op, "scale", {"X": mean}, rows, **moved)
    root = _emit(importer, op, "rsqrt", {"X": mean}, rows)
    out = _emit(importer, op, "elementwise_mul", {"X": x, "Y": root}, type_, axis=-1)
    if len(op.operands) > 1 and importer.is_there(op.operands[1]):
        factor = _operand(importer, op, 1, wide)
        out = _emit(importer, op, "elementwise_mul", {"X": out, "Y": factor}, type_, axis=-1)
    codes = {"in_dtype": as_dtype(wide).code, "out_dtype": as_dtype(like.dtype or wide).code}
    _into(importer, op, "cast", {"X": out}, **codes)
    if len(op.results) > 1 and op.results[1].is_there:
        shape = [int(dim) for dim in op.results[1].type.dims]
        _into(importer, op, "reshape2", {"X": root}, 1, shape=shape)


@imports("pd_op.swiglu")
def swiglu(importer: Importer, op: PirOp) -> None:
    """Import `swiglu`: silu(x) · y; with one operand its halves are x and y."""
    first, *rest = op.operands
    type_ = op.results[0].type
    if rest and importer.is_there(rest[0]):
        x, y = importer.value(first), importer.value(rest[0])
    else:
        x, y = (importer.new(f"swiglu_{op.results[0].id}.{half}", type_) for half in ("x", "y"))
        halves = {"num": 2, "axis": -1}
        importer.emit("split", {"X": [importer.value(first)]}, {"Out": [x, y]}, halves, source=op)
    gate = _emit(importer, op, "silu", {"X": x}, type_)
    _into(importer, op, "elementwise_mul", {"X": gate, "Y": y}, axis=-1)


@imports("pd_op.linear_v2")
def linear(importer: Importer, op: PirOp) -> None:
    """Import `linear_v2`: x · w + b; with `transpose_weight` the rows of w are the outputs."""
    like = op.results[0].type
    x, weight, bias = (importer.value(value) for value in op.operands[:3])
    product = _emit(
        importer, op, "matmul_v2", {"X": x, "Y": weight}, like, **_transposed_attributes(op)
    )
    importer.products[op.results[0].id] = product
    _into(importer, op, "elementwise_add", {"X": product, "Y": bias}, axis=-1)


@imports("pd_op.linear_v2_grad")
def linear_gradient(importer: Importer, op: PirOp) -> None:
    """Import the gradient of `linear_v2`: of its sum, then of the product in it."""
    link = importer.links.of(op)
    product = None if link is None else importer.products.get(link.forward.results[0].id)
    if product is None:
        importer.opaque(op)
        return
    x, weight, bias, gradient = (importer.value(value) for value in op.operands[:4])
    inner = importer.new(f"{product}{GRAD_SUFFIX}", importer.types.get(op.operands[3], _NULL))
    outputs = {"X@GRAD": [inner]}
    if op.results[2].is_there:
        outputs["Y@GRAD"] = importer.results(op, 2)
    inputs = {"X": [product], "Y": [bias], "Out@GRAD": [gradient]}
    importer.emit("elementwise_add_grad", inputs, outputs, {"axis": -1}, source=op)
    found = {"X@GRAD": 0, "Y@GRAD": 1}
    outputs = {slot: importer.results(op, i) for slot, i in found.items() if op.results[i].is_there}
    inputs = {"X": [x], "Y": [weight], "Out@GRAD": [inner]}
    importer.emit("matmul_v2_grad", inputs, outputs, _transposed_attributes(op), source=op)


def _transposed_attributes(op: PirOp) -> dict[str, Any]:
    return {"trans_x": False, "trans_y": bool(op.attribute("transpose_weight", False))}
