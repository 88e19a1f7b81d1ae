"""Translation validation: one rewrite's old ops against its new ones, in the interpreter.

Both are functions of the values at their boundary. They are evaluated on ordinary numbers and on
those that rewrites trip over, in float64 and in the declared precision, and compared as strictly as
the pass's class of numerics says:

- bit-exact: the same bits (any NaN is like another), on all inputs, in both precisions;
- reassociating: close to each other on numbers of ordinary size, with zeros of both signs and NaN
  among them; NaN comes out in the same places. Where the order of sums or products changes,
  overflow and infinities may appear at other places, so nothing is asked there;
- approximate: the same with a wider tolerance.

In a program with gradients those of the old values are compared with those of the new ones too.
Rewrites of large values are compared on fewer kinds of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import DType
from graphopt.ir.ops.control import Yield
from graphopt.ir.ops.creation import AssignValue, Full, FullLike
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.shape import ShapeOf
from graphopt.ir.regions import values_read
from graphopt.ir.types import UNKNOWN, dtype_of, shape_of
from graphopt.passes.instance import FAILED, NOT_VALIDATED, VALIDATED, Instance, Verdict
from graphopt.passes.naming import show_op
from graphopt.passes.numerics import Numerics
from graphopt.testing.reference.boundary import KINDS, NAN, ORDINARY, WITH_ORDER, bound
from graphopt.testing.reference.interpreter import Precision, evaluate_ops, supports
from graphopt.testing.reference.pullback import pull_back_ops
from graphopt.testing.reference.registry import Unsupported

Array = np.ndarray[Any, Any]
# sizes that unknown dimensions get
SIZES = (3, 1, 4)
# how far back an instance is looked at that may rest on the ops before it
DEPTHS = (0, 1, 2, 3, 5, 8, 21)
LARGEST, LARGE = 1 << 24, 1 << 20
# by class, relative to the largest element: in float64, and in units of the declared dtype
LOOSE = {Numerics.REASSOCIATING: (1e-9, 64.0), Numerics.APPROXIMATE: (1e-2, 1e5)}
UNIT = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.3e-16}
GRADIENT = 1e-7
_SHAPE_ONLY = (Full, AssignValue, FullLike, ShapeOf)


class _NotSeen(Exception):
    """Why an instance cannot be validated."""


def validator() -> Any:
    """The validator that `graphopt.passes.instance.validating` takes."""
    return validate


def validate(instance: Instance) -> Verdict:
    """Compare the old values of a rewrite with the new ones."""
    if not instance.values:
        return Verdict(VALIDATED, "nothing reads the old values")
    difference = ""
    try:
        for depth in DEPTHS[:1] if instance.complete else DEPTHS:
            difference = _compare(instance, depth)
            if not difference:
                return Verdict(VALIDATED)
    except _NotSeen as why:
        return Verdict(NOT_VALIDATED, str(why))
    except Exception as error:  # a mistake in the interpreter must not stop the optimizer
        name = type(error).__name__
        return Verdict(NOT_VALIDATED, f"the reference interpreter failed: {name}: {error}")
    return Verdict(FAILED, difference)


def _compare(instance: Instance, depth: int) -> str:
    """Where old and new values differ as functions of what is `depth` ops above; "" if nowhere."""
    ops, leaves = _functions(instance, depth)
    for op in ops:
        if not supports(op):
            raise _NotSeen(f"the reference interpreter has no rule for {op.name}")
    unknown = any(UNKNOWN in shape_of(value.type) for value in leaves)
    compared, problem = 0, ""
    for size in SIZES if unknown else SIZES[:1]:
        elements = _elements(ops, leaves, size)
        if elements > LARGEST:
            problem = "its values are too large to be interpreted"
            continue
        if compared and elements > LARGE:
            continue
        try:
            difference = _compare_at(instance, ops, leaves, size, elements > LARGE)
        except (ValueError, IndexError, AssertionError) as error:
            # sizes that have nothing to do with each other got the same number, or integers that
            # are positions are out of range
            problem = f"no inputs fit: {error}".splitlines()[0]
            continue
        except Unsupported as error:
            raise _NotSeen(str(error)) from None
        if difference:
            return difference
        compared += 1
    if not compared:
        raise _NotSeen(problem)
    return ""


def _functions(instance: Instance, depth: int) -> tuple[list[Operation], list[SSAValue]]:
    """The ops that compute old and new values, in order, and the values that they start from."""
    inside = set(instance.old)
    if depth:
        inside |= {new.owner for _, new in instance.values if isinstance(new, OpResult)}
        for _ in range(depth - 1):
            inside |= set(_producers(inside))
    ops: dict[Operation, None] = {}
    leaves: dict[SSAValue, None] = {}

    def visit(value: SSAValue) -> None:
        waiting: list[tuple[SSAValue, bool]] = [(value, False)]
        while waiting:
            value, ready = waiting.pop()
            op = value.owner
            if not isinstance(op, Operation):
                leaves[value] = None
            elif op in ops or ready:
                ops[op] = None
            elif op in inside or _is_constant(op) or _is_new(op):
                waiting.append((value, True))
                waiting += [(read, False) for read in values_read(op)]
            else:
                leaves[value] = None

    for old, new in instance.values:
        visit(old)
        visit(new)
    return list(ops), list(leaves)


def _producers(ops: Iterable[Operation]) -> Iterator[Operation]:
    for op in ops:
        for value in values_read(op):
            if isinstance(value, OpResult):
                yield value.op


def _is_constant(op: Operation, depth: int = 8) -> bool:
    """True for an op whose elements depend on no input: a rewrite may rest on their values."""
    if isinstance(op, _SHAPE_ONLY):
        return True
    owners = [value.owner for value in op.operands]
    return bool(owners and depth) and all(
        isinstance(owner, Operation) and _is_constant(owner, depth - 1) for owner in owners
    )


def _is_new(op: Operation) -> bool:
    """True for an op that only other new ones read, so far."""
    waiting, seen = [op], {op}
    while waiting:
        for result in waiting.pop().results:
            for use in result.uses:
                if isinstance(use.operation, ReturnOp) or len(seen) > 64:
                    return False
                if use.operation.results and use.operation not in seen:
                    seen.add(use.operation)
                    waiting.append(use.operation)
                elif not use.operation.results:
                    return False
    return True


def _elements(ops: Sequence[Operation], leaves: Sequence[SSAValue], size: int) -> int:
    results = [result for op in ops for result in op.results]
    return sum(
        int(np.prod([size if dim == UNKNOWN else dim for dim in shape_of(value.type)], dtype=float))
        for value in (*leaves, *results)
    )


def _compare_at(
    instance: Instance,
    ops: Sequence[Operation],
    leaves: Sequence[SSAValue],
    size: int,
    large: bool,
) -> str:
    kinds = KINDS if instance.numerics is Numerics.BIT_EXACT else WITH_ORDER
    for number, kind in enumerate((ORDINARY, NAN) if large else kinds):
        for precision in ("float64", "declared"):
            bindings = bound(leaves, kind, size, seed=number, wide=precision == "float64")
            try:
                found = {**bindings, **evaluate_ops(ops, bindings, precision=precision)}
            except (Unsupported, ValueError, IndexError):
                if kind == ORDINARY:
                    raise
                continue  # integers that are positions are out of range
            for old, new in instance.values:
                dtype = dtype_of(old.type)
                told = _difference(found[old], found[new], instance.numerics, dtype, precision)
                if told:
                    return f"{_name(old)}, on {kind} in {_words(precision)}: {told}"
    return _gradients_differ(instance, ops, leaves, size)


def _name(value: SSAValue) -> str:
    return show_op(value.owner) if isinstance(value.owner, Operation) else str(value.name_hint)


def _words(precision: Precision) -> str:
    return "float64" if precision == "float64" else "the declared precision"


def _difference(
    old: Array, new: Array, numerics: Numerics, dtype: DType, precision: Precision
) -> str:
    """What differs most, in words; "" when nothing does."""
    if old.shape != new.shape:
        return f"the shape {list(old.shape)} becomes {list(new.shape)}"
    if dtype.is_complex:
        parts = ((old.real, new.real), (old.imag, new.imag))
        double = DType("float64")
        told = (_difference(a, b, numerics, double, precision) for a, b in parts)
        return next(filter(None, told), "")
    if not dtype.is_floating or numerics is Numerics.BIT_EXACT:
        wrong = ~_same_bits(old, new)
    else:
        wrong = ~_close(old, new, *_tolerance(numerics, dtype, precision))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f" at {list(place)}" if place else ""
    return f"{_number(old[place])}{where} becomes {_number(new[place])}"


def _number(value: Any) -> str:
    return f"{float(value):.9g}" if np.asarray(value).dtype.kind not in "biu" else str(value)


def _same_bits(old: Array, new: Array) -> Array:
    if old.dtype.kind in "biu":
        return old == new
    old, new = old.astype(np.float64), new.astype(np.float64)
    both_nan = np.isnan(old) & np.isnan(new)
    return both_nan | ((old == new) & (np.signbit(old) == np.signbit(new)))


def _tolerance(numerics: Numerics, dtype: DType, precision: Precision) -> tuple[float, float]:
    wide, units = LOOSE[numerics]
    return (wide if precision == "float64" else units * UNIT[dtype]), 0.0


def _close(old: Array, new: Array, tolerance: float, least: float) -> Array:
    """Equal up to a part of the largest element; NaN and infinities in the same places."""
    old, new = old.astype(np.float64), new.astype(np.float64)
    scale = np.max(np.abs(old), initial=least, where=np.isfinite(old))
    with np.errstate(invalid="ignore"):
        near = np.abs(old - new) <= tolerance * scale
    return near | (old == new) | (np.isnan(old) & np.isnan(new))


def _gradients_differ(
    instance: Instance, ops: Sequence[Operation], leaves: Sequence[SSAValue], size: int
) -> str:
    """Where the derivatives differ that a `pd.grad` of the program may go through."""
    wrt = [value for value in leaves if dtype_of(value.type).is_floating]
    pairs = [
        pair
        for pair in instance.values
        if dtype_of(pair[0].type).is_floating and _is_differentiated(pair[0])
    ]
    if not wrt or not pairs:
        return ""
    bindings = bound(leaves, ORDINARY, size, seed=1, wide=True)
    generator = np.random.default_rng(2)
    for old, new in pairs:
        try:
            value = {**bindings, **evaluate_ops(ops, bindings, precision="float64")}[old]
            seed = generator.normal(size=value.shape)
            wanted = pull_back_ops(ops, bindings, old, seed, wrt)
            found = pull_back_ops(ops, bindings, new, seed, wrt)
        except (Unsupported, ProgramError):
            continue
        for leaf, a, b in zip(wrt, wanted, found, strict=True):
            if not _close(a, b, GRADIENT, 1.0).all():
                return f"{_name(old)}: its gradient with respect to {_name(leaf)} changes"
    return ""


def _is_differentiated(value: SSAValue) -> bool:
    """True when a `pd.grad` of the program goes through this value."""
    waiting, seen = [value], {value}
    while waiting:
        for use in waiting.pop().uses:
            op: Operation | None = use.operation
            if isinstance(op, Grad) and use.index < len(op.of):
                return True
            if isinstance(op, Yield):
                op = op.parent_op()
            found = [] if op is None else [result for result in op.results if result not in seen]
            seen.update(found)
            waiting += found
    return False
