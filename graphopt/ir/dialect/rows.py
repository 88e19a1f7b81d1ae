"""Tensors as matrices of rows: the ops that compute each row from one row of their operands.

A kernel computes a block of rows at a time. Each of its values has one of four forms: the whole
matrix, whose first axes number the rows; one number for each row; one row shared by all; or one
number. An op has row forms where each row of its results depends only on the same row of its
operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, elementary, math, reduce
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.shape import Expand
from graphopt.ir.dialect.traits import Reduction, keeps_order
from graphopt.ir.dialect.types import (
    Shape,
    dtype_of,
    normalize_axis,
    product,
    shape_of,
)

DTYPES = ("float32", "bfloat16", "float16", "bool", "int32")
"""The dtypes of values in row form; sums are of floating dtypes, and loss labels are integers."""


class MatrixForm(NamedTuple):
    """True where a value has the rows, and where it has the columns, of the matrix."""

    rows: bool
    columns: bool


WHOLE, ROW, COLUMN, ONE = (
    MatrixForm(True, True),
    MatrixForm(True, False),
    MatrixForm(False, True),
    MatrixForm(False, False),
)
"""All elements; one number per row; one row for all rows; one number."""


@dataclass(frozen=True)
class MatrixFrame:
    """The shape of the whole matrix; its first `lead` axes number the rows."""

    shape: Shape
    lead: int

    @property
    def length(self) -> int:
        """The number of elements in a row; UNKNOWN if only the run decides it."""
        return product(self.shape[self.lead :])

    def place(self, shape: Shape) -> MatrixForm | None:
        """Find the form in which an operand broadcasts to the matrix, as in NumPy; else None."""
        if len(shape) > len(self.shape):
            return None
        padded = (1,) * (len(self.shape) - len(shape)) + tuple(shape)
        rows = _covers(padded[: self.lead], self.shape[: self.lead])
        columns = _covers(padded[self.lead :], self.shape[self.lead :])
        return None if rows is None or columns is None else MatrixForm(rows, columns)

    def is_flat(self, shape: Shape) -> bool:
        """True for one number for each row, without axes for the columns."""
        return tuple(shape) == self.shape[: self.lead]


def _covers(part: Shape, whole: Shape) -> bool | None:
    """True for equal sizes, False for ones only, None otherwise."""
    if tuple(part) == tuple(whole):
        return True
    return False if all(size == 1 for size in part) else None


class RowForms(NamedTuple):
    """The forms of the operands and of the results of an op."""

    operands: tuple[MatrixForm, ...]
    results: tuple[MatrixForm, ...]


FUNCTIONS: tuple[type[PdOp], ...] = (
    math.Add, math.Subtract, math.Multiply, math.Divide, math.Maximum, math.Minimum,
    math.Pow, math.Scale, math.Cast, math.Clip, math.Square, math.Abs, math.Exp, math.Log,
    math.Sqrt, math.Rsqrt, math.Where, math.Equal, math.NotEqual, math.LessThan, math.LessEqual,
    math.GreaterThan, math.GreaterEqual, math.LogicalAnd, math.LogicalOr, math.LogicalNot,
    elementary.Reciprocal, elementary.Log1p, activation.Relu, activation.Relu6,
    activation.Sigmoid, activation.Silu, activation.Tanh, activation.Hardsigmoid,
    activation.Hardswish, activation.LeakyRelu, activation.Softplus, activation.Swish,
    activation.Mish,
)  # fmt: skip
"""The elementwise ops that Pallas lowers for GPUs and TPUs; it lacks `erf`, for example."""

SUMMARIES = (reduce.Mean, reduce.Sum, reduce.Max, reduce.Min)
NORMALISERS = (activation.SoftmaxBase, LayerNorm, CrossEntropyWithSoftmax)
"""Ops that read each row several times."""
COMBINING = (*SUMMARIES, *NORMALISERS)


def frame_of(op: Operation) -> MatrixFrame | None:
    """Find the matrix whose rows an op combines; None for an op that does not combine rows."""
    if not isinstance(op, PdOp) or not isinstance(op, COMBINING):
        return None
    shape = tuple(shape_of(op.operands[0].type))
    if isinstance(op, LayerNorm):
        lead = int(op.attr("begin_norm_axis"))
    elif isinstance(op, SUMMARIES):
        trait = op.get_trait(Reduction)
        assert trait is not None
        lead = min(trait.axes(op), default=0)
        if trait.axes(op) != frozenset(range(lead, len(shape))):
            return None
    else:
        if not shape or normalize_axis(op.attr("axis"), len(shape)) != len(shape) - 1:
            return None
        lead = len(shape) - 1
    return MatrixFrame(shape, lead) if lead else None


def forms_of(op: Operation, frame: MatrixFrame) -> RowForms | None:
    """Find the forms in which an op computes rows of this frame; None where it does not."""
    if not isinstance(op, PdOp) or not has_row_dtypes(op):
        return None
    if isinstance(op, COMBINING):
        return _combining(op) if frame_of(op) == frame else None
    if isinstance(op, Expand):
        return _broadcasting(op, frame)
    if keeps_order(op):
        return _view(op, frame)
    if isinstance(op, activation.Gelu):
        return _elementwise(op, frame) if op.attr("approximate") else None
    return _elementwise(op, frame) if isinstance(op, FUNCTIONS) else None


def has_row_dtypes(op: PdOp) -> bool:
    """True for an op whose dtypes row kernels support."""
    values = [*op.operands, *op.results]
    if isinstance(op, COMBINING) and not dtype_of(op.operands[0].type).is_floating:
        return False
    if isinstance(op, CrossEntropyWithSoftmax) and not op.attr("soft_label"):
        values.remove(op.label)
    return all(dtype_of(value.type) in DTYPES for value in values)


def _combining(op: PdOp) -> RowForms | None:
    if isinstance(op, SUMMARIES):
        return RowForms((WHOLE,), (ROW,))
    if isinstance(op, activation.SoftmaxBase):
        return RowForms((WHOLE,), (WHOLE,))
    if isinstance(op, LayerNorm):
        return RowForms((WHOLE, *[COLUMN] * (len(op.operands) - 1)), (WHOLE, ROW, ROW))
    if not op.attr("use_softmax"):
        return None
    return RowForms((WHOLE, WHOLE if op.attr("soft_label") else ROW), (WHOLE, ROW))


def _broadcasting(op: Expand, frame: MatrixFrame) -> RowForms | None:
    placed = frame.place(shape_of(op.operands[0].type))
    whole = tuple(shape_of(op.results[0].type)) == frame.shape
    return RowForms((placed,), (WHOLE,)) if placed is not None and whole else None


def _view(op: PdOp, frame: MatrixFrame) -> RowForms | None:
    """Match a view of one number for each row, with or without unit axes for the columns."""
    shapes = [shape_of(value.type) for value in (*op.operands, *op.results)]
    rows = all(frame.is_flat(shape) or frame.place(shape) == ROW for shape in shapes)
    return RowForms((ROW,), (ROW,)) if rows and len(shapes) == 2 else None


def _elementwise(op: PdOp, frame: MatrixFrame) -> RowForms | None:
    (result,) = op.results
    shape = shape_of(result.type)
    operands = [shape_of(value.type) for value in op.operands]
    if frame.is_flat(shape):
        if all(frame.is_flat(other) or product(other) == 1 for other in operands):
            return RowForms(tuple(ROW if frame.is_flat(s) else ONE for s in operands), (ROW,))
        return None
    placed = [frame.place(other) for other in operands]
    form = frame.place(shape)
    known = [place for place in placed if place is not None]
    if form is None or not form.rows or len(known) < len(placed):
        return None
    return RowForms(tuple(known), (form,))


def forms_in(ops: Sequence[Operation]) -> Mapping[SSAValue, MatrixForm] | None:
    """Find the forms of all values of ops that one row kernel can compute; None if it cannot."""
    frames = {frame for op in ops if (frame := frame_of(op)) is not None}
    if len(frames) != 1:
        return None
    (frame,) = frames
    found: dict[SSAValue, MatrixForm] = {}
    for op in ops:
        forms = forms_of(op, frame)
        if forms is None:
            return None
        pairs = [
            *zip(op.operands, forms.operands, strict=True),
            *zip(op.results, forms.results, strict=True),
        ]
        if any(found.setdefault(value, form) != form for value, form in pairs):
            return None
    return found


def frame_in(ops: Iterable[Operation]) -> MatrixFrame:
    """Return the frame of ops for which `forms_in` found the forms."""
    return next(frame for op in ops if (frame := frame_of(op)) is not None)
