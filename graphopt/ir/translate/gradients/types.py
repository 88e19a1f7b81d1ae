"""Facts about Paddle's gradient operators that their types do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphopt.ir.operators import row_of
from graphopt.ir.program import Operator
from graphopt.ir.translate.gradients.versions import VersionedName, Versions


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Attributes that do not change what an operator computes.
HINTS = _words(
    "op_role op_role_var op_namescope op_callstack op_device with_quant_attr use_mkldnn "
    "use_cudnn use_quantizer mkldnn_data_type is_test sub_block skip_eager_deletion_vars "
    "in_dtype out_dtype dtype workspace_size_MB exhaustive_search"
)


def same_attributes(a: Operator, b: Operator) -> bool:
    """True if two operators agree on the attributes that both have."""
    names = a.attrs.keys() & b.attrs.keys() - HINTS
    return all(a.attrs[name] == b.attrs[name] for name in names)


# Gradients of another type ------------------------------------------------------------------------

Transpose = Callable[[Operator, Operator], bool]


def _same_scale(forward: Operator, op: Operator) -> bool:
    if forward.input("ScaleTensor") or op.input("ScaleTensor"):
        return False
    factors = [float(o.attrs.get("scale", 1.0)) for o in (forward, op)]
    return factors[0] == factors[1] and not float(op.attrs.get("bias", 0.0))


def _keeps(forward: Operator, op: Operator) -> bool:
    """True for an `assign` or a `scale` by 1: the gradient of a sum."""
    plain = not op.input("ScaleTensor") and not float(op.attrs.get("bias", 0.0))
    return op.type == "assign" or (plain and float(op.attrs.get("scale", 1.0)) == 1.0)


def _casts_back(forward: Operator, op: Operator) -> bool:
    return op.attrs.get("out_dtype") == forward.attrs.get("in_dtype")


def _same_axis(forward: Operator, op: Operator) -> bool:
    tensors = [*forward.input("AxisTensor"), *op.input("AxisTensor")]
    return not tensors and forward.attrs.get("axis", 0) == op.attrs.get("axis", 0)


def _same_mask(forward: Operator, op: Operator) -> bool:
    return forward.input("Mask") == op.input("Mask")


# (forward type, type of the operator that computes its gradient) -> test of whether it does
TRANSPOSES: Mapping[tuple[str, str], Transpose] = {
    ("scale", "scale"): _same_scale,
    ("sum", "scale"): _keeps,
    ("sum", "assign"): _keeps,
    ("assign", "assign"): _keeps,
    ("cast", "cast"): _casts_back,
    ("split", "concat"): _same_axis,
    ("unbind", "stack"): _same_axis,
    ("flip", "flip"): same_attributes,
    ("reverse", "reverse"): same_attributes,
    ("conj", "conj"): same_attributes,
    ("as_complex", "as_real"): same_attributes,
    ("as_real", "as_complex"): same_attributes,
    ("select_input", "select_output"): _same_mask,
}


def is_linear(op: Operator) -> bool:
    """True when the derivative of its gradient is the operator itself."""
    return row_of(op.type).derivative == "linear"


def needs_shapes_only(op: Operator) -> bool:
    """True when its gradient needs nothing but the shapes of its inputs."""
    return row_of(op.type).derivative in ("linear", "shape")


def is_zero(op: Operator) -> bool:
    """True for an operator that only gives zeros."""
    if op.type in ("fill_zeros_like", "fill_zeros_like2"):
        return True
    if op.type not in ("fill_any_like", "fill_constant") or op.input("ValueTensor"):
        return False
    text: Any = op.attrs.get("str_value") or op.attrs.get("value", 0.0)
    try:
        return float(text) == 0.0
    except ValueError:
        return False


SUMS = ("sum", "grad_add", "elementwise_add", "assign")


def summands(versions: Versions, at: int) -> Sequence[VersionedName]:
    """Return the values that a sum adds, or the source of a copy; empty for other operators."""
    op = versions.ops[at]
    if op.type not in SUMS or (op.type == "elementwise_add" and op.attrs.get("axis", -1) != -1):
        return ()
    return [v for p, v in versions.reads[at].items() if p.slot in ("X", "Y")]
