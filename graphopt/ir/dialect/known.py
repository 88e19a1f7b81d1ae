"""Values known before a program runs: the elements of small tensors, and sizes.

An element is a number, computed in the value's dtype and so rounded as the program rounds; a sum of
sizes that the data decide (`sums.py`); or unknown.
"""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Arange, AssignValue, Full, FullLike
from graphopt.ir.dialect.ops.elementary import Ceil, Floor
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    GreaterEqual,
    GreaterThan,
    LessEqual,
    LessThan,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Maximum,
    Minimum,
    Multiply,
    NotEqual,
    Scale,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import StridedSlice
from graphopt.ir.dialect.ops.shape import Concat, Expand, ShapeOf, Slice, Stack, Transpose
from graphopt.ir.dialect.size_rules import Elements, Sizes, own_sizes, result_sizes
from graphopt.ir.dialect.sums import Amount, SymbolicSum, quotient
from graphopt.ir.dialect.traits import keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, element_count, shape_of, slice_bounds
from graphopt.ir.dtypes import DType, convert_as_x86

Array = np.ndarray[Any, Any]
# a NumPy scalar of the value's dtype, a sum, or None
Element = Any

# Counters and bounds have one element, and shapes have one for each dimension of a tensor.
MOST_ELEMENTS = 64
# Sums with more terms, or larger factors, are of no use as sizes.
_MOST_TERMS = 16
_LARGEST_FACTOR = 2**31


class KnownValues:
    """The elements and sizes of a module's values, as far as they are known.

    Sizes come from the types, with a symbol of its own for each open axis; `see` refines them and
    must visit the ops in program order. `given` are elements known beforehand, None for values to
    treat as unknown. An instance also knows the elements and sizes that `around`, an outer
    instance, knows.
    """

    def __init__(
        self,
        given: Mapping[SSAValue, Elements | None] | None = None,
        around: KnownValues | None = None,
    ) -> None:
        self._sizes: dict[SSAValue, Sizes] = {} if around is None else around._sizes
        outer = () if around is None else around._elements.maps
        self._elements: ChainMap[SSAValue, Elements | None] = ChainMap(dict(given or {}), *outer)

    def see(self, op: PdOp) -> None:
        """Infer the result sizes of an op and record them."""
        self._sizes |= result_sizes(op, self.sizes, self.elements)

    def sizes(self, value: SSAValue) -> Sizes:
        """Return the sizes of a value, each a number or a symbolic sum."""
        found = self._sizes.get(value)
        return own_sizes(value) if found is None else found

    def elements(self, value: SSAValue) -> Elements | None:
        """Return the elements of a value; None if they are many or their number is unknown."""
        if value not in self._elements:
            self._elements[value] = self._find(value)
        return self._elements[value]

    def array(self, value: SSAValue) -> Array | None:
        """Return a value as an array of its dtype; None if an element is not a known number."""
        found = self.elements(value)
        return None if found is None or found.dtype == object else found

    def truth(self, value: SSAValue) -> bool | None:
        """Return a condition as a Python bool; None if it depends on the run."""
        found = self.array(value)
        return bool(found.reshape(())) if found is not None and found.size == 1 else None

    def note(self, value: SSAValue, elements: Elements) -> None:
        """Record the elements of a value."""
        self._elements[value] = elements

    def _find(self, value: SSAValue) -> Elements | None:
        op, dtype, shape = value.owner, dtype_of(value.type), shape_of(value.type)
        if isinstance(op, ShapeOf):
            return _round_elements(_objects(self.sizes(op.input)), dtype).reshape(shape)
        if UNKNOWN in shape or element_count(shape) > MOST_ELEMENTS:
            return None
        computed = self._compute(op) if isinstance(op, PdOp) else None
        found = None if computed is None else _round_elements(np.asarray(computed), dtype)
        return np.full(shape, None) if found is None else found.reshape(shape)

    def _compute(self, op: PdOp) -> Any:
        """Compute a result's elements by the op's rule, in any shape; None if all are unknown."""
        rule = _RULES.get(type(op), _first if keeps_order(op) else None)
        if rule is None:
            return None
        operands = [self.elements(operand) for operand in op.operands]
        found = [operand for operand in operands if operand is not None]
        with np.errstate(all="ignore"):
            return rule(op, *found) if len(found) == len(operands) else None


def known_numbers(value: SSAValue) -> tuple[Any, ...] | None:
    """Return the elements of a value in order; None if they depend on the run."""
    found = KnownValues().array(value)
    return None if found is None else tuple(found.ravel().tolist())


def constant(value: SSAValue) -> float | None:
    """Return the number that fills a value; None if it is unknown before the run."""
    if isinstance(value.owner, (Full, FullLike)):
        return value.owner.attr("value")
    numbers = known_numbers(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _round_elements(elements: Array, dtype: DType) -> Array:
    """Convert elements to a dtype; symbolic sums and unknown elements stay."""
    if elements.dtype != object:
        return convert_as_x86(elements, dtype)
    found = [_one_held(element, dtype) for element in elements.ravel()]
    is_plain = not any(element is None or isinstance(element, SymbolicSum) for element in found)
    return np.array(found, dtype.numpy) if is_plain else _objects(found)


def _one_held(element: Element, dtype: DType) -> Element:
    if element is None:
        return None
    if isinstance(element, SymbolicSum):
        small = all(abs(factor) < _LARGEST_FACTOR for _, factor in element.terms)
        wide = dtype in ("int32", "int64") and len(element.terms) <= _MOST_TERMS
        return element if small and wide else None
    return _round_elements(np.asarray(element), dtype)[()]


def _objects(elements: Any) -> Array:
    return np.array(list(elements), dtype=object)


def _first(op: PdOp, x: Elements) -> Elements:
    return x


def _full(op: PdOp) -> Array:
    return np.full(op.attr("shape"), op.attr("value"))


def _list_values(op: PdOp) -> Array:
    return np.array(op.attr("values"))


def _concat(op: PdOp, *parts: Elements) -> Elements:
    return np.concatenate(parts, op.attr("axis"))


def _stack(op: PdOp, *parts: Elements) -> Elements:
    return np.stack(parts, op.attr("axis"))


def _slice(op: PdOp, x: Elements) -> Elements:
    cut = [slice(None)] * x.ndim
    for axis, start, end in zip(op.attr("axes"), op.attr("starts"), op.attr("ends"), strict=True):
        cut[axis] = slice(*slice_bounds(x.shape[axis], start, end))
    return x[tuple(cut)]


def _gather(op: PdOp, x: Elements, index: Elements) -> Elements | None:
    axis: int = op.attr("axis")
    if index.dtype == object or ((index < 0) | (index >= x.shape[axis])).any():
        return None
    return np.take(x, index.ravel(), axis)


def _stride(op: PdOp, x: Elements) -> Elements | None:
    """Slice with strides as Python does; a backward slice may end before the first element."""
    cut = [slice(None)] * x.ndim
    names = ("axes", "starts", "ends", "strides")
    for axis, start, end, step in zip(*map(op.attr, names), strict=True):
        last = None if step < 0 and end < -x.shape[axis] else end
        cut[axis] = slice(start, last, step)
    return None if op.attr("decrease_axis") else x[tuple(cut)]


def _transpose(op: PdOp, x: Elements) -> Elements:
    return x.transpose(op.attr("perm"))


def _expand(op: PdOp, x: Elements) -> Elements:
    wide: Elements = np.empty(shape_of(op.results[0].type), x.dtype)
    wide[...] = x
    return wide


def _range(op: PdOp) -> Array:
    start, end, step = (float(op.attr(name)) for name in ("start", "end", "step"))
    return np.arange(start, end, step)


Compute = Callable[..., Any]
Rule = Callable[..., Any]


def _elementwise(compute: Compute, of_sums: Compute | None = None) -> Rule:
    """Make a rule from `compute` on numbers, and `of_sums` where an element is a sum."""

    def rule(op: PdOp, *operands: Elements) -> Any:
        if all(operand.dtype != object for operand in operands):
            return compute(*operands)
        dtypes = [dtype_of(operand.type).numpy for operand in op.operands]

        def one(*elements: Element) -> Element:
            if None in elements:
                return None
            if any(isinstance(element, SymbolicSum) for element in elements):
                return None if of_sums is None else of_sums(*map(_plain, elements))
            return compute(*map(np.asarray, elements, dtypes))

        return np.frompyfunc(one, len(operands), 1)(*operands)

    return rule


def _plain(element: Element) -> Element:
    return element if isinstance(element, SymbolicSum) else int(element)


def _floor_divide(x: Array, y: Array) -> Array | None:
    """Divide integers and round down; None for other dtypes or a divisor of 0."""
    return np.floor_divide(x, y) if x.dtype.kind in "iu" and np.all(y) else None


def _divide(x: Array, y: Array) -> Array | None:
    """Divide; integers round toward zero, with None for a divisor of 0."""
    if x.dtype.kind not in "iu":
        return x / y
    return np.where((x < 0) != (y < 0), -(-x // y), x // y).astype(x.dtype) if np.all(y) else None


def _choose_element(condition: Element, x: Element, y: Element) -> Element:
    """Select one of two elements, which may be sums; None if the condition is a sum."""
    return None if isinstance(condition, SymbolicSum) else x if condition else y


def _divide_sum(x: Amount, y: Amount) -> Amount | None:
    """Divide a sum by a number; None for a symbolic divisor, which may be 0."""
    return None if isinstance(y, SymbolicSum) else quotient(x, y)


def _scale(op: PdOp, x: Elements) -> Any:
    """Scale in the dtype of x; None if an integer dtype cannot hold the factor or the bias."""
    dtype, after = dtype_of(op.operands[0].type).numpy, op.attr("bias_after_scale")
    given = op.attr("scale"), op.attr("bias")
    factor, bias = (np.asarray(number).astype(dtype) for number in given)
    is_whole = dtype.kind in "iu"
    if is_whole and (float(factor), float(bias)) != given:
        return None

    def by(factor: Any, bias: Any) -> Compute:
        def scale(number: Any) -> Any:
            return number * factor + bias if after else (number + bias) * factor

        return scale

    of_sums = by(int(factor), int(bias)) if is_whole else None
    return _elementwise(by(factor, bias), of_sums)(op, x)


_RULES: Mapping[type[PdOp], Rule] = {
    AssignValue: _list_values,
    Full: _full,
    Cast: _first,
    Concat: _concat,
    Stack: _stack,
    Slice: _slice,
    StridedSlice: _stride,
    Transpose: _transpose,
    Expand: _expand,
    Arange: _range,
    Gather: _gather,
    Scale: _scale,
    Add: _elementwise(np.add, operator.add),
    Subtract: _elementwise(np.subtract, operator.sub),
    Multiply: _elementwise(np.multiply, operator.mul),
    FloorDivide: _elementwise(_floor_divide, _divide_sum),
    Divide: _elementwise(_divide),
    Maximum: _elementwise(np.maximum),
    Minimum: _elementwise(np.minimum),
    Floor: _elementwise(np.floor),
    Ceil: _elementwise(np.ceil),
    Where: _elementwise(np.where, _choose_element),
    LessThan: _elementwise(np.less),
    LessEqual: _elementwise(np.less_equal),
    GreaterThan: _elementwise(np.greater),
    GreaterEqual: _elementwise(np.greater_equal),
    Equal: _elementwise(np.equal),
    NotEqual: _elementwise(np.not_equal),
    LogicalAnd: _elementwise(np.logical_and),
    LogicalOr: _elementwise(np.logical_or),
    LogicalNot: _elementwise(np.logical_not),
}
