"""Translation validation: one rewrite's old ops against its new ones, in the interpreter.

Both are functions of the values at their boundary. They are evaluated on ordinary numbers and on
hard cases, in float64 and in the declared precision, and compared as strictly as the pass's class
of numerics requires:

- bit-exact: the same bits (any NaN equals another), on all inputs, in both precisions;
- reassociating: close to each other; NaN comes out in the same places. On the numbers of
  `MAY_DIFFER` nothing is compared, and on moderate and large ones float64 alone, which does not
  overflow on the way;
- approximate: the same with a wider tolerance.

In a program with gradients, the gradients of old and new values are compared too, on the same
numbers. Rewrites of large values are compared on fewer kinds of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.ops.creation import AssignValue, Full, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import ShapeOf
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numbers, Numerics, kinds_compared
from graphopt.passes.engine.validation import (
    FAILED,
    VALIDATED,
    Instance,
    Verdict,
)
from graphopt.reference.boundary import MANY, SHARED, Round, as_used, bind_values, rounds, sizes
from graphopt.reference.interpreter import Precision, evaluate_ops, supports
from graphopt.reference.pullback import TracedOps
from graphopt.reference.registry import Unsupported

Array = np.ndarray[Any, Any]
# the sizes tried for unknown dimensions
SIZES = (3, 1, 4)
# the numbers of earlier ops to include, for a rewrite that may depend on them
DEPTHS = (0, 1, 2, 3, 5, 8, 21)
LARGEST, LARGE = 1 << 24, 1 << 20
# the tolerances by class: relative to the largest element in float64, and in units of the dtype
LOOSE = {Numerics.REASSOCIATING: (1e-9, 64.0), Numerics.APPROXIMATE: (1e-2, 1e5)}
UNIT = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.3e-16}
GRADIENT = 1e-7
# the kinds of numbers for which large values are compared
FEW = frozenset({Numbers.ORDINARY, Numbers.NAN}) | SHARED
_SHAPE_ONLY = (Full, AssignValue, FullLike, ShapeOf)


class NotSeen(Exception):
    """The reason why an instance cannot be validated."""


def validate_instance(instance: Instance) -> Verdict:
    if not instance.values:
        return Verdict(VALIDATED, "the old values have no reader")
    message = ""
    for depth in DEPTHS[:1] if instance.complete else DEPTHS:
        message = _compare(instance, depth)
        if not message:
            return Verdict(VALIDATED)
    return Verdict(FAILED, message)


def _compare(instance: Instance, depth: int) -> str:
    """Describe the first difference of old and new values, from `depth` ops above; "" for none."""
    ops, leaves = _functions(instance, depth)
    for op in ops:
        if not supports(op):
            raise NotSeen(f"the reference interpreter has no rule for {op.name}")
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
            difference = _compare_at(instance, ops, leaves, size, elements)
        except (ValueError, IndexError, AssertionError) as error:
            # unrelated sizes got one number, or integers used as indices are out of range
            problem = f"no inputs fit: {error}".splitlines()[0]
            continue
        except Unsupported as error:
            raise NotSeen(str(error)) from None
        if difference:
            return difference
        compared += 1
    if not compared:
        raise NotSeen(problem)
    return ""


def _functions(instance: Instance, depth: int) -> tuple[list[Operation], list[SSAValue]]:
    """Collect the ops that compute old and new values, in order, and their leaves."""
    inside = {*instance.old, *(instance.new or ())}
    if depth:
        ends = instance.values if instance.new is not None else [(v, v) for _, v in instance.values]
        inside |= {value.op for pair in ends for value in pair if isinstance(value, OpResult)}
        for _ in range(depth - 1):
            inside |= set(_producers(inside, instance))
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
            elif op in inside or _is_constant(op) or (instance.new is None and _is_new(op)):
                waiting.append((value, True))
                waiting += [(read, False) for read in values_read(op)]
            else:
                leaves[value] = None

    for old, new in instance.values:
        visit(old)
        visit(new)
    return list(ops), list(leaves)


def _producers(ops: Iterable[Operation], instance: Instance) -> Iterator[Operation]:
    whole = instance.new is not None
    for op in ops:
        for value in values_read(op):
            if isinstance(value, OpResult) and not (whole and _is_named_by_grad(value)):
                yield value.op


def _is_named_by_grad(value: SSAValue) -> bool:
    """True for a value that a `pd.grad` differentiates by or stops at: it must be present."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, Grad) and (value in op.wrt or value in op.no_grad):
            return True
    return False


def _is_constant(op: Operation, depth: int = 8) -> bool:
    """True for an op whose elements depend on no input: a rewrite may rest on their values."""
    if isinstance(op, _SHAPE_ONLY):
        return True
    owners = [value.owner for value in op.operands]
    return bool(owners and depth) and all(
        isinstance(owner, Operation) and _is_constant(owner, depth - 1) for owner in owners
    )


def _is_new(op: Operation) -> bool:
    """True for an op that, so far, only other new ops read."""
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
    return sum(int(np.prod(sizes(value, size), dtype=float)) for value in (*leaves, *results))


def _compare_at(
    instance: Instance,
    ops: Sequence[Operation],
    leaves: Sequence[SSAValue],
    size: int,
    elements: int,
) -> str:
    now = dict.fromkeys(instance.same.get(value, value) for value in leaves)
    wrt = [value for value in now if dtype_of(value.type).is_floating]
    pairs = [
        pair
        for pair in instance.values
        if dtype_of(pair[0].type).is_floating and _is_differentiated(pair[0])
    ]
    kinds = kinds_compared(instance.numerics)
    if elements > LARGE:
        kinds = tuple(kind for kind in kinds if kind in FEW)
    for filling in rounds(leaves, kinds, size, elements):
        double = _bind_leaves(instance, leaves, filling, size, wide=True)
        bindings: dict[Precision, dict[SSAValue, Array]] = {"float64": double}
        if not _is_wide(instance, filling, elements):
            bindings["declared"] = _bind_leaves(instance, leaves, filling, size, wide=False)
        message = _values_differ(instance, ops, filling, bindings)
        if not message and wrt and pairs and _has_gradients(filling, elements):
            message = _gradients_differ(instance, ops, leaves, filling, double, wrt, pairs)
        if message:
            return message
    return ""


def _is_wide(instance: Instance, filling: Round, elements: int) -> bool:
    """True for numbers on which values are compared in float64 alone."""
    if elements > LARGE and not filling.is_ordinary:
        return True
    # in another order, other intermediate values overflow or cancel
    return filling.is_large and instance.numerics is not Numerics.BIT_EXACT


def _has_gradients(filling: Round, elements: int) -> bool:
    """True for numbers on which gradients are compared: all, or some where they are many."""
    some = not SHARED.isdisjoint(filling.kinds)
    return elements <= MANY or some or (filling.is_ordinary and elements <= LARGE)


def _bind_leaves(
    instance: Instance, leaves: Sequence[SSAValue], filling: Round, size: int, *, wide: bool
) -> dict[SSAValue, Array]:
    """Make arrays for the leaves: one array for a value and its copy."""
    mine = list(dict.fromkeys(instance.same.get(value, value) for value in leaves))
    found = bind_values(mine, filling, size, wide=wide)
    for value in leaves:
        now = instance.same.get(value, value)
        if now is not value:
            found[now] = found[value] = as_used(value, found[now])
    return found


def _values_differ(
    instance: Instance,
    ops: Sequence[Operation],
    filling: Round,
    bindings: Mapping[Precision, Mapping[SSAValue, Array]],
) -> str:
    """Compare values on these numbers in each given precision; describe the first difference."""
    for precision, given in bindings.items():
        try:
            found = {**given, **evaluate_ops(ops, given, precision=precision)}
        except (Unsupported, ValueError, IndexError):
            if filling.is_ordinary:
                raise
            continue  # integers used as indices are out of range
        largest = _largest(found.values()) if filling.is_large else 0.0
        for old, new in instance.values:
            message = difference(
                found[old],
                found[new],
                instance.numerics,
                dtype_of(old.type),
                precision,
                least=largest,
            )
            if message:
                return f"{_name(old)}, on {filling.words()} in {_words(precision)}: {message}"
    return ""


def _largest(arrays: Iterable[Array]) -> float:
    """Find the largest finite absolute value of all arrays."""
    return max(
        (
            float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
            for array in arrays
            if array.dtype.kind in "fc"
        ),
        default=0.0,
    )


def _name(value: SSAValue) -> str:
    if isinstance(value.owner, Operation):
        return show_op(value.owner)
    return f"%{value.name_hint}" if value.name_hint else "an argument"


def _words(precision: Precision) -> str:
    return "float64" if precision == "float64" else "the declared precision"


def difference(
    old: Array,
    new: Array,
    numerics: Numerics,
    dtype: DType,
    precision: Precision,
    *,
    least: float = 0.0,
) -> str:
    """Describe the first difference in words; "" without one.

    Where bits may differ, the tolerance is a part of the largest element, or of `least`.
    """
    if old.shape != new.shape:
        return f"the shape {list(old.shape)} becomes {list(new.shape)}"
    if dtype.is_complex:
        parts = ((old.real, new.real), (old.imag, new.imag))
        double = DType("float64")
        messages = (difference(a, b, numerics, double, precision, least=least) for a, b in parts)
        return next(filter(None, messages), "")
    if not dtype.is_floating or numerics is Numerics.BIT_EXACT:
        wrong = ~_same_bits(old, new)
    else:
        wrong = ~_close(old, new, _tolerance(numerics, dtype, precision), least)
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


def _tolerance(numerics: Numerics, dtype: DType, precision: Precision) -> float:
    wide, units = LOOSE[numerics]
    return wide if precision == "float64" else units * UNIT[dtype]


def _close(old: Array, new: Array, tolerance: float, least: float) -> Array:
    """True where numbers agree up to a part of the largest, with NaN and infinities alike."""
    old, new = old.astype(np.float64), new.astype(np.float64)
    scale = np.max(np.abs(old), initial=least, where=np.isfinite(old))
    with np.errstate(invalid="ignore"):
        near = np.abs(old - new) <= tolerance * scale
    return near | (old == new) | (np.isnan(old) & np.isnan(new))


def _gradients_differ(
    instance: Instance,
    ops: Sequence[Operation],
    leaves: Sequence[SSAValue],
    filling: Round,
    bindings: Mapping[SSAValue, Array],
    wrt: Sequence[SSAValue],
    pairs: Sequence[tuple[SSAValue, SSAValue]],
) -> str:
    """Compare the derivatives that a `pd.grad` of the program may go through."""
    before = {instance.same[value]: value for value in leaves if value in instance.same}
    old_wrt = [before.get(value, value) for value in wrt]
    generator = np.random.default_rng(2)
    try:
        traced = TracedOps(ops, bindings, list(dict.fromkeys([*old_wrt, *wrt])))
    except (Unsupported, ProgramError, ValueError, IndexError):
        return ""
    for old, new in pairs:
        try:
            seed = generator.normal(size=traced.env[old].shape)
            wanted = traced.gradients(old, seed, old_wrt)
            found = traced.gradients(new, seed, wrt)
        except (Unsupported, ProgramError, ValueError, IndexError):
            continue
        least = max(1.0, _largest(bindings.values())) if filling.is_large else 1.0
        for leaf, a, b in zip(wrt, wanted, found, strict=True):
            if not _close(a, b, GRADIENT, least).all():
                name = f"its gradient with respect to {_name(leaf)} changes"
                return f"{_name(old)}, on {filling.words()}: {name}"
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
