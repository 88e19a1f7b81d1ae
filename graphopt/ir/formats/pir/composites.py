"""PIR operators that legacy has as several, or only with constants where PIR has tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.rows import base_name, row_of
from graphopt.ir.formats.pir_json.records import PirOp, PirType
from graphopt.ir.program import GRAD_SUFFIX

_NULL = PirType("NULL")

# Of integers Paddle 3 gives these in float32, which the file does not say: it declares the results
# as integers. Legacy's operators refuse integers.
FLOATING = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "digamma", "erf"),
    *("erfinv", "exp", "expm1", "lgamma", "log", "log10", "log1p", "log2", "logit", "logsigmoid"),
    *("reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "stanh", "tan", "tanh"),
)


def cast_to(self: Importer, op: PirOp, name: str, source: PirType, dtype: str | None) -> str:
    """The variable, or one with its values in another element type."""
    if dtype is None or source.dtype in (None, dtype):
        return name
    made = self.new(f"{name}.{dtype}", PirType("dtensor", dtype, source.dims))
    codes = {"in_dtype": as_dtype(source.dtype).code, "out_dtype": as_dtype(dtype).code}
    self.emit("cast", {"X": [name]}, {"Out": [made]}, codes, source=op)
    return made


def _floating(self: Importer, op: PirOp) -> None:
    row = row_of(op.name.partition(".")[2])
    if row is None or not op.results:
        self.opaque(op)
        return
    wanted = op.results[0].type.dtype
    if wanted is None or not as_dtype(wanted).is_differentiable:
        wanted = "float32"
    kept = {value: self.named[value] for value in op.operands if value in self.named}
    for value, name in kept.items():
        source = self.types.get(value, _NULL)
        if source.dtype is not None and not as_dtype(source.dtype).is_differentiable:
            self.named[value] = cast_to(self, op, name, source, wanted)
    self.by_row(op, row)
    self.named.update(kept)


def _emit(
    self: Importer, op: PirOp, type_: str, inputs: Mapping[str, str], like: PirType, **attrs: Any
) -> str:
    """An operator with one result of its own, between those of the file."""
    name = self.new(f"{base_name(op.name.partition('.')[2])}_{op.results[0].id}.{type_}", like)
    self.emit(type_, {slot: [n] for slot, n in inputs.items()}, {"Out": [name]}, attrs, source=op)
    return name


def _into(
    self: Importer, op: PirOp, type_: str, inputs: Mapping[str, str], result: int = 0, **attrs: Any
) -> None:
    """The operator that gives a result of the file's operator."""
    self.same_names(op)
    outputs = {"Out": self.results(op, result)}
    self.emit(type_, {slot: [n] for slot, n in inputs.items()}, outputs, attrs, source=op)


def _operand(self: Importer, op: PirOp, index: int, dtype: str | None) -> str:
    """An operand in the element type of the computation."""
    value = op.operands[index]
    return cast_to(self, op, self.value(value), self.types.get(value, _NULL), dtype)


def _scale(self: Importer, op: PirOp) -> None:
    """By a tensor it is a product, before or after the bias."""
    row = row_of("scale")
    if row is None or len(op.operands) < 2 or self.constant(op.operands[1]) is not None:
        if row is not None:
            self.by_row(op, row)
        return
    like = self.types.get(op.operands[0], _NULL)
    x, factor = self.value(op.operands[0]), _operand(self, op, 1, like.dtype)
    bias, after = float(op.attribute("bias", 0.0)), op.attribute("bias_after_scale", True)
    plain: dict[str, Any] = {"scale": 1.0, "bias": bias, "bias_after_scale": True}
    if after:
        x = _emit(self, op, "elementwise_mul", {"X": x, "Y": factor}, like, axis=-1)
        _into(self, op, "scale", {"X": x}, **plain)
    else:
        x = _emit(self, op, "scale", {"X": x}, like, **plain)
        _into(self, op, "elementwise_mul", {"X": x, "Y": factor}, axis=-1)


def _clip(self: Importer, op: PirOp) -> None:
    """Between tensors it is a maximum and a minimum."""
    row = row_of("clip")
    bounds = [self.constant(value) for value in op.operands[1:3]]
    if row is None or len(bounds) < 2 or None not in bounds:
        if row is not None:
            self.by_row(op, row)
        return
    like = self.types.get(op.operands[0], _NULL)
    x, low = self.value(op.operands[0]), _operand(self, op, 1, like.dtype)
    x = _emit(self, op, "elementwise_max", {"X": x, "Y": low}, like, axis=-1)
    high = _operand(self, op, 2, like.dtype)
    _into(self, op, "elementwise_min", {"X": x, "Y": high}, axis=-1)


def _masked_fill(self: Importer, op: PirOp) -> None:
    if len(op.operands) != 3:
        self.opaque(op)
        return
    x, mask = self.value(op.operands[0]), self.value(op.operands[1])
    value = _operand(self, op, 2, self.types.get(op.operands[0], _NULL).dtype)
    _into(self, op, "where", {"Condition": mask, "X": value, "Y": x})


def _round(self: Importer, op: PirOp) -> None:
    """To decimal places, as Paddle does it: the number times a power of ten is rounded."""
    decimals, row = op.attribute("decimals", 0), row_of("round")
    if row is None or not decimals or not isinstance(decimals, int) or abs(decimals) > 30:
        if row is None or decimals:
            self.opaque(op)
        else:
            self.by_row(op, row)
        return
    like = self.types.get(op.operands[0], _NULL)
    plain: dict[str, Any] = {"bias": 0.0, "bias_after_scale": True}
    x = self.value(op.operands[0])
    x = _emit(self, op, "scale", {"X": x}, like, scale=10.0**decimals, **plain)
    x = _emit(self, op, "round", {"X": x}, like)
    _into(self, op, "scale", {"X": x}, scale=10.0**-decimals, **plain)


def _median(self: Importer, op: PirOp) -> None:
    """Unlike legacy's `nanmedian` it is NaN where any element is."""
    type_, axes = op.results[0].type, op.attribute("axis", [])
    if op.attribute("mode", "avg") != "avg" or not isinstance(axes, list):
        self.opaque(op)
        return
    x, kept = self.value(op.operands[0]), bool(op.attribute("keepdim", False))
    out = _emit(self, op, "nanmedian", {"X": x}, type_, axis=axes, keepdim=kept)
    flags = PirType("dtensor", "bool", self.types.get(op.operands[0], _NULL).dims)
    missing = _emit(self, op, "isnan_v2", {"X": x}, flags)
    reduced: dict[str, Any] = {
        "dim": axes,
        "keep_dim": kept,
        "reduce_all": not axes,
        "out_dtype": -1,
    }
    flags = PirType("dtensor", "bool", type_.dims)
    missing = _emit(self, op, "reduce_any", {"X": missing}, flags, **reduced)
    nan = _emit(self, op, "fill_any_like", {"X": out}, type_, value=float("nan"), dtype=-1)
    _into(self, op, "where", {"Condition": missing, "X": nan, "Y": out})


def _weighted_entropy(self: Importer, op: PirOp) -> None:
    """With weights: (1 - label) · x + weight · log(1 + exp(-x))."""
    row = row_of("sigmoid_cross_entropy_with_logits")
    if row is None or len(op.operands) < 3 or not self.is_there(op.operands[2]):
        if row is not None:
            self.by_row(op, row)
        return
    if op.attribute("normalize") or op.attribute("ignore_index", -100) != -100:
        self.opaque(op)
        return
    like = op.results[0].type
    x, label, weight = (self.value(value) for value in op.operands[:3])
    other: dict[str, Any] = {"scale": -1.0, "bias_after_scale": True}
    rest = _emit(self, op, "scale", {"X": label}, like, bias=1.0, **other)
    rest = _emit(self, op, "elementwise_mul", {"X": rest, "Y": x}, like, axis=-1)
    negative = _emit(self, op, "scale", {"X": x}, like, bias=0.0, **other)
    term = _emit(self, op, "softplus", {"X": negative}, like, beta=1.0, threshold=20.0)
    term = _emit(self, op, "elementwise_mul", {"X": term, "Y": weight}, like, axis=-1)
    _into(self, op, "elementwise_add", {"X": rest, "Y": term}, axis=-1)


def _rms_norm(self: Importer, op: PirOp) -> None:
    """Each row over the root of its mean square, computed in 32 bits as Paddle does."""
    like = self.types.get(op.operands[0], _NULL) if op.operands else _NULL
    given = op.attribute("normalized_shape")
    sizes = cast("list[Any]", given) if isinstance(given, list) else []
    if not sizes or len(like.dims) < len(sizes):
        self.opaque(op)
        return
    wide = "float64" if like.dtype == "float64" else "float32"
    rank, type_ = len(like.dims), PirType("dtensor", wide, like.dims)
    dims = list(range(rank - len(sizes), rank))
    rows = PirType("dtensor", wide, (*like.dims[: dims[0]], *(1 for _ in dims)))
    x = _operand(self, op, 0, wide)
    square = _emit(self, op, "square", {"X": x}, type_)
    reduced = {"dim": dims, "keep_dim": True, "reduce_all": False, "out_dtype": -1}
    mean = _emit(self, op, "reduce_mean", {"X": square}, rows, **reduced)
    epsilon = float(op.attribute("epsilon", 1e-5))
    moved = {"scale": 1.0, "bias": epsilon, "bias_after_scale": True}
    mean = _emit(self, op, "scale", {"X": mean}, rows, **moved)
    root = _emit(self, op, "rsqrt", {"X": mean}, rows)
    out = _emit(self, op, "elementwise_mul", {"X": x, "Y": root}, type_, axis=-1)
    if len(op.operands) > 1 and self.is_there(op.operands[1]):
        factor = _operand(self, op, 1, wide)
        out = _emit(self, op, "elementwise_mul", {"X": out, "Y": factor}, type_, axis=-1)
    codes = {"in_dtype": as_dtype(wide).code, "out_dtype": as_dtype(like.dtype or wide).code}
    _into(self, op, "cast", {"X": out}, **codes)
    if len(op.results) > 1 and op.results[1].is_there:
        shape = [int(dim) for dim in op.results[1].type.dims]
        _into(self, op, "reshape2", {"X": root}, 1, shape=shape)


def _swiglu(self: Importer, op: PirOp) -> None:
    """silu(x) · y; with one operand its halves are x and y."""
    first, *rest = op.operands
    type_ = op.results[0].type
    if rest and self.is_there(rest[0]):
        x, y = self.value(first), self.value(rest[0])
    else:
        x, y = (self.new(f"swiglu_{op.results[0].id}.{half}", type_) for half in ("x", "y"))
        halves = {"num": 2, "axis": -1}
        self.emit("split", {"X": [self.value(first)]}, {"Out": [x, y]}, halves, source=op)
    gate = _emit(self, op, "silu", {"X": x}, type_)
    _into(self, op, "elementwise_mul", {"X": gate, "Y": y}, axis=-1)


def _linear(self: Importer, op: PirOp) -> None:
    """x · w + b; with `transpose_weight` the rows of w are the outputs."""
    like = op.results[0].type
    x, weight, bias = (self.value(value) for value in op.operands[:3])
    product = _emit(self, op, "matmul_v2", {"X": x, "Y": weight}, like, **_transposed(op))
    self.products[op.results[0].id] = product
    _into(self, op, "elementwise_add", {"X": product, "Y": bias}, axis=-1)


def _linear_gradient(self: Importer, op: PirOp) -> None:
    """The gradient of the sum, and of the product in it."""
    link = self.links.of(op)
    product = None if link is None else self.products.get(link.forward.results[0].id)
    if product is None:
        self.opaque(op)
        return
    x, weight, bias, gradient = (self.value(value) for value in op.operands[:4])
    inner = self.new(f"{product}{GRAD_SUFFIX}", self.types.get(op.operands[3], _NULL))
    outputs = {"X@GRAD": [inner]}
    if op.results[2].is_there:
        outputs["Y@GRAD"] = self.results(op, 2)
    inputs = {"X": [product], "Y": [bias], "Out@GRAD": [gradient]}
    self.emit("elementwise_add_grad", inputs, outputs, {"axis": -1}, source=op)
    found = {"X@GRAD": 0, "Y@GRAD": 1}
    outputs = {slot: self.results(op, i) for slot, i in found.items() if op.results[i].is_there}
    inputs = {"X": [x], "Y": [weight], "Out@GRAD": [inner]}
    self.emit("matmul_v2_grad", inputs, outputs, _transposed(op), source=op)


def _transposed(op: PirOp) -> dict[str, Any]:
    return {"trans_x": False, "trans_y": bool(op.attribute("transpose_weight", False))}


COMPOSITES: Mapping[str, Callable[[Importer, PirOp], None]] = {
    "pd_op.scale": _scale,
    "pd_op.clip": _clip,
    "pd_op.masked_fill": _masked_fill,
    "pd_op.round": _round,
    "pd_op.median": _median,
    "pd_op.sigmoid_cross_entropy_with_logits": _weighted_entropy,
    "pd_op.rms_norm": _rms_norm,
    "pd_op.swiglu": _swiglu,
    "pd_op.linear_v2": _linear,
    "pd_op.linear_v2_grad": _linear_gradient,
    **dict.fromkeys((f"pd_op.{name}" for name in FLOATING), _floating),
}
