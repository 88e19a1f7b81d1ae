"""The emitter of rules for ONNX's operators: ops, constants, and known elements of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from graphopt.errors import OpenSizeError, UnsupportedError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import Scan, Yield
from graphopt.ir.dialect.ops.creation import Arange, AssignValue, Full, FullLike
from graphopt.ir.dialect.ops.math import Add, Cast, LogicalOr, Scale
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Reshape,
    ShapeOf,
    Slice,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of, tensor
from graphopt.ir.dtypes import DType
from graphopt.ir.translate.onnx.naming import OPSET, element_type
from graphopt.ir.translate.operators.emitter import Emitter

END = 2**31 - 1
"""An end past the end of any axis, for Slice."""
# Integers up to this one are exact as floats.
_EXACT = 2**53


class OnnxEmitter(Emitter):
    """Translation of one node: `emit(Add, x, y)` is a value."""

    @property
    def opset(self) -> int:
        """The version of the operator."""
        return self.op.attrs.get(OPSET, 13)

    @property
    def used(self) -> list[bool]:
        """True for each result of the node that has a name."""
        return [name != "@EMPTY@" for name in self.op.output("Out")]

    def refuse(self, problem: str) -> UnsupportedError:
        """Build the error for an unsupported use of the operator."""
        return UnsupportedError(f"{self.op.type}: {problem}")

    def element_type(self, number: int) -> DType:
        """Map an ONNX element type to its dtype; UnsupportedError if the dialect has none."""
        found = element_type(number)
        if not isinstance(found, DType):
            raise self.refuse(f"graphopt has no type for {found}; use another one")
        return found

    def open(self, problem: str, value: SSAValue | None = None) -> OpenSizeError:
        """Build the error for unknown sizes, or for unknown elements of `value`."""
        error = OpenSizeError(
            f"{self.op.type}: {problem}; run the model, or, for convert and explain, store these "
            "values as constants of the model or set the sizes with --dim"
        )
        error.values = () if value is None else (value,)
        return error

    # Values that are known -------------------------------------------------------------------

    def known_elements(self, value: SSAValue) -> tuple[Any, ...] | None:
        """Return the elements of a value in order; None if they depend on the run."""
        return known_numbers(value)

    def numbers(self, value: SSAValue, what: str) -> tuple[Any, ...]:
        """Return the elements of a value; OpenSizeError if they depend on the run."""
        found = self.known_elements(value)
        if found is None:
            raise self.open(f"the values of the {what} must be known, but depend on feeds", value)
        return found

    def sizes(
        self,
        value: SSAValue,
        what: str = "the sizes of its input",
        along: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """Return the shape of a value; OpenSizeError if a size, or one `along` axes, is open."""
        shape = shape_of(value.type)
        if UNKNOWN in (shape if along is None else [shape[axis] for axis in along]):
            raise self.open(f"{what} {list(shape)} are open, but must be known")
        return shape

    def check_bound(self, what: str, *counts: int, most: int = 1 << 20) -> None:
        """Raise UnsupportedError if the product of `counts` is larger than `most`."""
        if math.prod(counts) > most:
            raise self.refuse(f"{math.prod(counts)} {what}; at most {most} are supported")

    # Constants -------------------------------------------------------------------------------

    def constant(
        self, values: Any, dtype: DType | str, shape: Sequence[int] | None = None
    ) -> SSAValue:
        """Emit a constant tensor of these numbers."""
        array = np.asarray(values)
        found = tuple(array.shape if shape is None else shape)
        flat = array.ravel().tolist()
        if array.dtype.kind in "iu" and any(abs(number) > _EXACT for number in flat):
            # attributes are floats, which would lose digits
            high, low = ([number >> 32 for number in flat], [number % 2**32 for number in flat])
            parts = [
                self(AssignValue, shape=found, values=part, dtype=dtype) for part in (high, low)
            ]
            return self(Add, self(Scale, parts[0], scale=float(2**32)), parts[1])
        if len(flat) > 1 and len(set(flat)) == 1 and not isinstance(flat[0], complex):
            return self(Full, shape=found, value=float(flat[0]), dtype=dtype)
        return self(AssignValue, shape=found, values=tuple(flat), dtype=dtype)

    def number(self, value: float, like: SSAValue) -> SSAValue:
        """Emit a 0-D constant in the dtype of `like`."""
        return self(Full, shape=(), value=float(value), dtype=dtype_of(like.type))

    def fill_like(self, like: SSAValue, value: float, dtype: DType | str | None = None) -> SSAValue:
        """Emit a tensor of one number in the shape of `like`, by default in its dtype."""
        wanted = dtype_of(like.type) if dtype is None else dtype
        return self(FullLike, like, value=float(value), dtype=wanted)

    def zeros(self, shape: Sequence[int], x: SSAValue, axis: int) -> SSAValue:
        """Emit zeros in the dtype of `x`; a -1 in `shape` is the size of `x` along `axis`."""
        size, kind = shape_of(x.type)[axis], dtype_of(x.type)
        known = tuple(size if each == UNKNOWN else each for each in shape)
        if UNKNOWN not in known:
            return self(Full, shape=known, value=0.0, dtype=kind)
        own = self(Slice, self.shape(x), axes=(0,), starts=(axis,), ends=(axis + 1,))
        parts = [own if each == UNKNOWN else self.constant([each], "int64") for each in shape]
        attrs = {"value": 0.0, "dtype": kind}
        return self.dynamic(Full, [], attrs, {"shape": self(Concat, parts, axis=0)})[0]

    # Ops with a region -----------------------------------------------------------------------

    def scan(
        self,
        memories: Sequence[SSAValue],
        sequences: Sequence[SSAValue],
        step: Callable[..., Sequence[SSAValue]],
        *,
        is_back: bool = False,
    ) -> Sequence[SSAValue]:
        """Emit a `pd.scan` over sequences along their first axis, from the end if `is_back`.

        `step` emits the body: it is called with the memories and an item of each sequence, and
        returns the next memories, then the items of the results.
        """
        items = [tensor(shape_of(s.type)[1:], dtype_of(s.type)) for s in sequences]
        body = Block(arg_types=[*(m.type for m in memories), *items])
        outer, self.builder.block = self.builder.block, body
        values = step(*body.args)
        body.add_op(Yield.make(values))
        self.builder.block = outer
        length = shape_of(sequences[0].type)[0]
        types = [
            tensor((length, *shape_of(v.type)), dtype_of(v.type)) for v in values[len(memories) :]
        ]
        made = Scan.build_with([memories, sequences], types, [body], reverse=is_back)
        return self.builder.place(made, self.op).results

    # Ops that many rules need ----------------------------------------------------------------

    def cast(self, x: SSAValue, dtype: DType | str) -> SSAValue:
        """Cast `x` to a dtype, unless it has it already."""
        return x if dtype_of(x.type) == dtype else self(Cast, x, dtype=dtype)

    def shape(self, x: SSAValue) -> SSAValue:
        """Emit the shape of `x` as int64, ONNX's dtype for shapes."""
        return self(Cast, self(ShapeOf, x), dtype="int64")

    def size(self, x: SSAValue, axis: int) -> SSAValue | int:
        """Return the size of `x` along an axis; a 0-D value if the size is open."""
        if shape_of(x.type)[axis] != UNKNOWN:
            return shape_of(x.type)[axis]
        return self.element(self.shape(x), axis)

    def element(self, x: SSAValue, at: int) -> SSAValue:
        """Take one element along the first axis."""
        return self(Slice, x, axes=(0,), starts=(at,), ends=(at + 1,), decrease_axis=(0,))

    def numbers_to(self, length: SSAValue | int) -> SSAValue:
        """Emit 0, 1, 2, ... below a length, as int64."""
        if isinstance(length, int):
            return self(Arange, start=0.0, end=float(length))
        return self.emit_with_tensor(Arange, [], "end", length)

    def transpose(self, x: SSAValue, perm: Sequence[int]) -> SSAValue:
        """Permute the axes of `x`; the identity needs no op."""
        return (
            x
            if list(perm) == list(range(rank_of(x.type)))
            else self(Transpose, x, perm=tuple(perm))
        )

    def unsqueeze(self, x: SSAValue, *axes: int) -> SSAValue:
        """Insert axes of size 1 at these positions of `x`."""
        return self(Unsqueeze, x, axis=axes)

    def squeeze(self, x: SSAValue, *axes: int) -> SSAValue:
        """Remove these axes of `x`, which have size 1."""
        return self(Squeeze, x, axis=axes)

    def to_shape(self, x: SSAValue, shape: SSAValue | Sequence[int]) -> SSAValue:
        """Reshape `x` to a known shape or a shape tensor; 0 keeps a size."""
        if isinstance(shape, SSAValue):
            return self.dynamic(Reshape, [x], {}, {"shape": shape})[0]
        return x if tuple(shape) == shape_of(x.type) else self(Reshape, x, shape=tuple(shape))

    def expand(self, x: SSAValue, shape: SSAValue | Sequence[int]) -> SSAValue:
        """Broadcast `x` to a shape, in which -1 keeps a size."""
        if isinstance(shape, SSAValue):
            return self.dynamic(Expand, [x], {}, {"shape": shape})[0]
        return x if tuple(shape) == shape_of(x.type) else self(Expand, x, shape=tuple(shape))

    def as_shaped(self, x: SSAValue, like: SSAValue) -> SSAValue:
        """Reshape `x` to the shape of `like`, which has as many elements."""
        if shape_of(x.type) == shape_of(like.type) and UNKNOWN not in shape_of(x.type):
            return x
        if rank_of(x.type) == rank_of(like.type):
            return x
        return self.to_shape(x, self(ShapeOf, like))

    def either(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Emit the logical or of two conditions."""
        return self(LogicalOr, x, y)

    def plus(self, x: SSAValue, number: float) -> SSAValue:
        """Add a number to `x`; 0 needs no op."""
        return x if number == 0 else self(Scale, x, bias=number)

    def one_of(self, text: str, options: Sequence[str]) -> str:
        """Return `text` if it is one of the options; raise UnsupportedError otherwise."""
        if text not in options:
            raise self.refuse(f"expected one of {', '.join(options)}, found {text!r}")
        return text

    def axis(self, axis: int, rank: int) -> int:
        """Normalize an axis to count from the front; UnsupportedError if it is out of range."""
        if not -rank <= axis < max(rank, 1):
            raise self.refuse(f"axis {axis} is out of range for a tensor with {rank} dimensions")
        return axis % rank if rank else 0

    def emit_with_tensor(
        self,
        op_class: type[PdOp],
        operands: Sequence[Any],
        name: str,
        value: SSAValue,
        **attrs: Any,
    ) -> SSAValue:
        """Emit an op with a tensor for one of its attributes; return the first result."""
        return self.dynamic(op_class, operands, attrs, {name: value})[0]


def rank(value: SSAValue) -> int:
    """Return the number of dimensions of a value."""
    return rank_of(value.type)


def dtype(value: SSAValue) -> DType:
    """Return the element type of a value."""
    return dtype_of(value.type)


def shape(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a value, with -1 for open sizes."""
    return shape_of(value.type)
