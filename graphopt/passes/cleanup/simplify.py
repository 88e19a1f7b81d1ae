"""Identities that hold bit for bit, in every dtype that they accept.

Each rule says why it is exact. Rules that only look exact are absent: x + 0 (it makes +0 of -0),
x * 0 (infinities), two scales by 0.5 and 2 (the product may be denormal in between).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu
from graphopt.ir.dialect.ops.creation import AssignValue, Full, FullLike
from graphopt.ir.dialect.ops.math import Cast, Divide, LogicalNot, Multiply, Scale, Subtract
from graphopt.ir.dialect.ops.shape import Concat, Reshape, Squeeze, Transpose, Unsqueeze
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.passes.cleanup.fold_identity import IDENTITIES, is_identity
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace

# the replacement of an op: an existing value, or a new op
Simpler = SSAValue | PdOp | None

# By dtype, the dtypes that hold all its values; a cast through one of them changes nothing.
_FLOATS = frozenset({"float32", "float64"})
_HALVES = _FLOATS | {"float16", "bfloat16"}
_WIDER: Mapping[str, frozenset[str]] = {
    "bool": _HALVES | {"uint8", "int8", "int16", "int32", "int64"},
    "uint8": _HALVES | {"int16", "int32", "int64"},
    "int8": _HALVES | {"int16", "int32", "int64"},
    "int16": _FLOATS | {"int32", "int64"},
    "int32": frozenset({"int64", "float64"}),
    "float16": _FLOATS,
    "bfloat16": _FLOATS,
    "float32": frozenset({"float64"}),
    "complex64": frozenset({"complex128"}),
}


@dataclass(frozen=True)
class Simplify(RewritePass):
    """Replace ops by simpler ones that give the same bits, in one walk."""

    name = "simplify"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, kept = RewriteLog(self.name, self.numerics), differentiated_values(module)
        for op in list(module.walk()):
            if type(op) not in _CANDIDATES or op.results[0] in kept:
                continue
            assert isinstance(op, PdOp)
            found = simpler(op, kept)
            if found is None or not log.allow(op):
                continue
            log.applied(op)
            value = _settle_result(found, op, kept) if isinstance(found, PdOp) else found
            replace(op, {op.results[0]: value}, log)
        return log.outcomes


def _settle_result(made: PdOp, op: PdOp, kept: set[SSAValue]) -> SSAValue:
    """Insert a new op before `op`, simplify it as far as possible, and return the result."""
    assert op.parent is not None
    while True:
        made.location = op.location
        op.parent.insert_op_before(made, op)
        further = simpler(made, kept)
        if further is None:
            return made.results[0]
        made.detach()
        made.erase()
        if not isinstance(further, PdOp):
            return further
        made = further


def simpler(op: PdOp, kept: set[SSAValue]) -> Simpler:
    """Find a simpler value or op with the same bits as `op`'s result; None if there is none."""
    if is_identity(op):
        return op.operands[0]
    rule = _RULES.get(type(op))
    found = rule(op) if rule is not None else None
    if found is None:
        return None
    # a rule must not look through a value with respect to which gradients are taken
    passed = op.operands[0].owner
    if isinstance(passed, PdOp) and any(result in kept for result in passed.results):
        return None
    if len(op.operands) > 1 and op.operands[1] in kept:
        return None
    kind = found.results[0].type if isinstance(found, PdOp) else found.type
    return found if kind == op.results[0].type else None


def is_constant(value: SSAValue, number: float) -> bool:
    """True for a tensor that is `number` everywhere."""
    op = value.owner
    if isinstance(op, (Full, FullLike)):
        return op.attr("value") == number
    return isinstance(op, AssignValue) and all(v == number for v in op.attr("values"))


def _times(op: PdOp) -> Simpler:
    """Fold x * 1 and 1 * x: multiplication by one is exact."""
    x, y = op.operands
    if is_constant(y, 1):
        return x
    return y if is_constant(x, 1) else None


def _by_one(op: PdOp) -> Simpler:
    """Fold x / 1: exact. Integers divide to floating point, so their type changes and they stay."""
    return op.operands[0] if is_constant(op.operands[1], 1) else None


def _minus(op: PdOp) -> Simpler:
    """Fold x - 0: exact, negative zero included; not x + 0, and not x - (-0)."""
    x, y = op.operands
    return x if is_constant(y, 0) and not _is_negative(y) else None


def _is_negative(value: SSAValue) -> bool:
    owner = value.owner
    assert isinstance(owner, PdOp)
    numbers = owner.attr("values") if isinstance(owner, AssignValue) else (owner.attr("value"),)
    return any(str(number).startswith("-") for number in numbers)


def _scale_of_scale(op: PdOp) -> Simpler:
    """Merge two scales without bias, one of them by -1: a change of sign commutes with rounding."""
    inner = op.operands[0].owner
    if not isinstance(inner, Scale) or not dtype_of(op.results[0].type).is_floating:
        return None
    if op.attr("bias") != 0 or inner.attr("bias") != 0:
        return None
    outer_factor, factor = op.attr("scale"), inner.attr("scale")
    if -1 not in (outer_factor, factor):
        return None
    return Scale.make(inner.operands[0], scale=outer_factor * factor)


def _cast(op: PdOp) -> Simpler:
    """Merge two casts if the type between holds every value of the first type."""
    inner = op.operands[0].owner
    if not isinstance(inner, Cast):
        return None
    first, second, last = (
        dtype_of(v.type) for v in (inner.operands[0], inner.results[0], op.results[0])
    )
    if second not in _WIDER.get(first, ()):
        return None
    if first == last:
        return inner.operands[0]
    if _both_ways_alike(first, second, last):
        return Cast.make(inner.operands[0], dtype=last)
    return None


def _both_ways_alike(first: DType, second: DType, last: DType) -> bool:
    """Return whether the direct cast from `first` to `last` equals the cast through `second`.

    Rounding starts from the same real number; casts of infinities and NaN to integers may differ.
    """
    if last == "bool":
        return True
    if second.is_floating and not last.is_floating:
        # out of range, a float becomes the least number and an integer wraps around
        return last in _WIDER.get(first, ())  # so `first` is no float
    return not (first.is_complex or last.is_complex)


def _transpose(op: PdOp) -> Simpler:
    """Merge two transposes into one; elements only move."""
    inner = op.operands[0].owner
    if not isinstance(inner, Transpose):
        return None
    rank = len(shape_of(op.results[0].type))
    before, after = ([axis % rank for axis in o.attr("perm")] for o in (inner, op))
    perm = [before[axis] for axis in after]
    return Transpose.make(inner.operands[0], perm=perm)


def _reshape(op: PdOp) -> Simpler:
    """Fold a reshape to the same shape, and merge two reshapes; elements keep their order."""
    out = shape_of(op.results[0].type)
    x = op.operands[0]
    if x.type == op.results[0].type and list(out).count(UNKNOWN) < 2:
        return x
    inner = x.owner
    if not isinstance(inner, (Reshape, Squeeze, Unsqueeze)):
        return None
    source = inner.operands[0]
    if isinstance(inner, Squeeze) and UNKNOWN in shape_of(source.type):
        return None  # it also checks at run time that a size is 1
    if source.type == op.results[0].type and list(out).count(UNKNOWN) < 2:
        return source
    if 0 in op.attr("shape") or 0 in out:
        return None  # copies a dimension of the value between
    return Reshape.make(source, shape=op.attr("shape"))


def _not(op: PdOp) -> Simpler:
    """Fold not not x, for booleans."""
    inner = op.operands[0].owner
    return inner.operands[0] if isinstance(inner, LogicalNot) else None


def _relu(op: PdOp) -> Simpler:
    """Fold relu(relu(x)): maximum with zero is idempotent, and so is its derivative."""
    inner = op.operands[0].owner
    return inner.results[0] if isinstance(inner, Relu) else None


def _concat(op: PdOp) -> Simpler:
    """Fold a concat of one tensor."""
    return op.operands[0] if len(op.operands) == 1 else None


_RULES: Mapping[type[Any], Callable[[PdOp], Simpler]] = {
    Multiply: _times,
    Divide: _by_one,
    Subtract: _minus,
    Scale: _scale_of_scale,
    Cast: _cast,
    Transpose: _transpose,
    Reshape: _reshape,
    LogicalNot: _not,
    Relu: _relu,
    Concat: _concat,
}
_CANDIDATES = frozenset({*_RULES, *IDENTITIES})
