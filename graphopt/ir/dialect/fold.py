"""Small tensors that follow from a program without running it: loop counters and their bounds.

Where `constants.py` looks for the numbers of a shape, this computes: with the dtypes, and so the
rounding, that the program would have.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.constants import known_numbers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import While
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Equal,
    GreaterEqual,
    GreaterThan,
    LessEqual,
    LessThan,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Multiply,
    NotEqual,
    Scale,
    Subtract,
)
from graphopt.ir.dialect.ops.shape import (
    Concat,
    ShapeOf,
    Slice,
)
from graphopt.ir.dialect.traits import keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, element_count, shape_of
from graphopt.ir.dtypes import DType

Array = np.ndarray[Any, Any]
Known = MutableMapping[SSAValue, Array | None]
"""The values that are known so far, None for those that depend on the run."""

# Counters and bounds have one element; shapes as many as a tensor has dimensions.
MOST_ELEMENTS = 64
# A loop that runs longer than this is not followed to its end.
MOST_TRIPS = 2048

_BINARY: dict[type[Operation], Callable[[Array, Array], Any]] = {
    Add: np.add,
    Subtract: np.subtract,
    Multiply: np.multiply,
    LessThan: np.less,
    LessEqual: np.less_equal,
    GreaterThan: np.greater,
    GreaterEqual: np.greater_equal,
    Equal: np.equal,
    NotEqual: np.not_equal,
    LogicalAnd: np.logical_and,
    LogicalOr: np.logical_or,
}


def fold(value: SSAValue, known: Known) -> Array | None:
    """The value as an array of its own dtype and shape, None when it depends on the run."""
    if value not in known:
        known[value] = None
        shape = shape_of(value.type)
        if UNKNOWN not in shape and element_count(shape) <= MOST_ELEMENTS:
            known[value] = _computed(value, known)
    return known[value]


def truth(value: SSAValue, known: Known) -> bool | None:
    """A condition as a Python bool, None when it depends on the run."""
    found = fold(value, known)
    return bool(found.reshape(())) if found is not None and found.size == 1 else None


def _computed(value: SSAValue, known: Known) -> Array | None:
    op, dtype, shape = value.owner, dtype_of(value.type), shape_of(value.type)
    result: Any = None
    with np.errstate(all="ignore"):
        if isinstance(op, AssignValue):
            result = np.array(op.attr("values"))
        elif isinstance(op, Full):
            result = np.full(shape, op.attr("value"))
        elif isinstance(op, (ShapeOf, Slice, Concat)):
            numbers = known_numbers(value)
            result = None if numbers is None else np.array(numbers)
        elif isinstance(op, Cast) or (isinstance(op, PdOp) and keeps_order(op)):
            result = fold(op.operands[0], known)
        elif isinstance(op, LogicalNot):
            operand = fold(op.operands[0], known)
            result = None if operand is None else np.logical_not(operand)
        elif isinstance(op, Scale):
            result = _scaled(op, fold(op.operands[0], known))
        elif isinstance(op, Operation) and type(op) in _BINARY:
            a, b = (fold(operand, known) for operand in op.operands)
            if a is not None and b is not None:
                result = _BINARY[type(op)](a, b)
    if result is None:
        return None
    array = np.asarray(result)
    if not _holds(dtype, array):
        return None
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy).reshape(shape)


def _holds(dtype: DType, array: Array) -> bool:
    """False for NaN and floats out of the range of an integer dtype: XLA saturates, NumPy wraps."""
    if array.dtype.kind in "biuc" or np.dtype(dtype.numpy).kind not in "iu":
        return True
    limits, whole = np.iinfo(dtype.numpy), np.trunc(array.astype(np.float64))
    return bool(((whole >= limits.min) & (whole < float(limits.max) + 1)).all())


def _scaled(op: Scale, x: Array | None) -> Any:
    """Scale in the dtype of x; with a factor that this dtype cannot hold it is left to the run."""
    if x is None:
        return None
    factor, bias = (np.asarray(op.attr(n)).astype(x.dtype) for n in ("scale", "bias"))
    if (float(factor), float(bias)) != (op.attr("scale"), op.attr("bias")) and x.dtype.kind in "iu":
        return None
    return x * factor + bias if op.attr("bias_after_scale") else (x + bias) * factor


def count_trips(loop: While, known: Known) -> int | None:
    """The number of iterations of a loop, None when it depends on the run or exceeds MOST_TRIPS."""
    going = truth(loop.condition, known)
    arguments = loop.body.block.args
    state = [fold(value, known) for value in loop.carried]
    trips = 0
    while going and trips < MOST_TRIPS:
        trips += 1
        inner: dict[SSAValue, Array | None] = dict(zip(arguments, state, strict=True))
        scope = _Layered(inner, known)
        condition, *values = loop.yielded()
        going = truth(condition, scope)
        if going is None:
            return None
        state = [
            None if old is None else fold(value, scope)
            for old, value in zip(state, values, strict=True)
        ]
    return None if going is None or going else trips


class _Layered(dict[SSAValue, Array | None]):
    """The known values of one iteration: values from outside are looked up, and kept, outside."""

    def __init__(self, inner: dict[SSAValue, Array | None], outer: Known) -> None:
        super().__init__(inner)
        self.outer = outer

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) or value in self.outer

    def __missing__(self, value: SSAValue) -> Array | None:
        return self.outer[value]
