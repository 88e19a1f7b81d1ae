"""The emitter of translations: inputs of an operator, ops on them, and its named results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import OpResult, SSAValue
from xdsl.irdl import VarOperandDef, VarResultDef

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds, definition
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import (
    Gelu,
    Hardsigmoid,
    Hardswish,
    LeakyRelu,
    Relu6,
    Swish,
)
from graphopt.ir.dialect.ops.creation import AssignValue
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.shape import Concat, Flatten, Reshape, StopGradient
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.ir.operators import operators, row_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.builder import OpBuilder
from graphopt.ir.translate.operators.properties import names_variables, row_attrs
from graphopt.ir.translate.operators.table import BY_TYPE, DialectRow

Written = dict[str, SSAValue]
"""The values that an operator writes, by variable name."""


class Emitter:
    """Translation of one operator: `emit(Add, x, y)` is a value, `emit.results(Out=value)` the end.

    Attributes that an operator lacks have the defaults of its row.
    """

    def __init__(self, builder: OpBuilder, op: Operator) -> None:
        self.builder = builder
        self.op = op

    # Ops --------------------------------------------------------------------------------------

    def __call__(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """Emit an op; return its first result."""
        return self.all(op_class, *operands, **attrs)[0]

    def all(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> Sequence[SSAValue]:
        """Emit an op; return all its results."""
        return self.builder.emit(op_class, self.op, *operands, **attrs).results

    def dynamic(
        self,
        op_class: type[PdOp],
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        tensors: Mapping[str, SSAValue],
    ) -> Sequence[SSAValue]:
        """Emit an op with tensors for some of its attributes; return all its results."""
        return self.builder.emit_dynamic(op_class, self.op, operands, attrs, tensors).results

    # What the operator says -------------------------------------------------------------------

    def before(self) -> Iterator[Operator]:
        """Iterate over the operators of the block before this one."""
        return itertools.takewhile(self._is_other, self.op.block.ops)

    def after(self) -> Iterator[Operator]:
        """Iterate over the operators of the block after this one."""
        return itertools.islice(itertools.dropwhile(self._is_other, self.op.block.ops), 1, None)

    def _is_other(self, op: Operator) -> bool:
        # `self.op` is a copy with other attributes, which shares the slots of the original
        return op.outputs is not self.op.outputs

    def read(self, name: str) -> SSAValue:
        """Read the value of a variable at this point of the program."""
        return self.builder.read(name)

    def inputs(self, slot: str) -> list[SSAValue]:
        """Read the values in a slot."""
        return [self._in(slot, n) for n in self.op.input(slot) if n != EMPTY]

    def _in(self, slot: str, name: str) -> SSAValue:
        """Read a name in a slot; stop its gradient if the slot is a constant in Paddle."""
        value = self.read(name)
        if not self.builder.trains or slot not in row_of(self.op.type).constant:
            return value
        passes_on = dtype_of(value.type).is_differentiable and not self._is_stopped(name, value)
        return self(StopGradient, value) if passes_on else value

    def _is_stopped(self, name: str, value: SSAValue) -> bool:
        """True for an argument, such as fed data, whose variable has no gradient anyway."""
        variable = None if isinstance(value, OpResult) else self.op.block.find_var(name)
        return variable is not None and variable.stop_gradient

    def optional(self, slot: str) -> SSAValue | None:
        """Read the value in a slot; None if the slot is empty."""
        name = next((name for name in self.op.input(slot) if name != EMPTY), None)
        return None if name is None else self._in(slot, name)

    def input(self, slot: str) -> SSAValue:
        """Read the value in a slot; ProgramError if the slot is empty."""
        found = self.optional(slot)
        if found is None:
            raise ProgramError(f"operator {self.op.type} needs an input '{slot}'")
        return found

    def only(self, *slots: str) -> None:
        """Raise UnsupportedError if another slot is filled: it may carry meaning."""
        self._refuse_besides(slots, ", which is not supported")

    def only_constants_besides(self, *slots: str) -> None:
        """Raise UnsupportedError if another slot is filled, as by a size only the run knows."""
        self._refuse_besides(slots, "; only a constant is supported for this input")

    def _refuse_besides(self, slots: Sequence[str], reason: str) -> None:
        for slot, names in self.op.inputs.items():
            if slot not in slots and any(name != EMPTY for name in names):
                raise UnsupportedError(
                    f"operator {self.op.type} takes '{slot}' from a tensor ({', '.join(names)})"
                    f"{reason}"
                )

    def attr(self, name: str) -> Any:
        """Read an attribute in the kind that its row declares, or the default of the row.

        Return None if the row does not list it, or lists it for another release without a default.
        Raises ProgramError if it has to be stated, and for a value of another kind.
        """
        declared = operators()[self.op.type].attributes.get(name)
        if declared is None:
            return None
        value = self.op.attrs.get(name)
        if value is None:
            if declared.kind and declared.stated is None:
                raise ProgramError(f"operator {self.op.type} needs the attribute '{name}'")
            return declared.constant
        try:
            return declared.read(value)
        except (TypeError, ValueError, OverflowError):
            kind = declared.kind or type(declared.default).__name__
            raise ProgramError(
                f"operator {self.op.type}: attribute '{name}' should be of the kind {kind}, found "
                f"{value!r}"
            ) from None

    def several(self, name: str) -> Sequence[Any]:
        """Read an attribute as a sequence, even if it is one element; () if it is not set."""
        value = self.op.attrs.get(name, ())
        return value if _is_list(value) else (value,)

    def choice(self, name: str, options: Sequence[str]) -> str:
        """Read a text attribute; UnsupportedError if it is none of the options."""
        value = self.attr(name)
        if value not in options:
            raise UnsupportedError(
                f"operator {self.op.type}: '{name}' should be one of {', '.join(options)}, found "
                f"{value!r}"
            )
        return value

    def results(self, **values: SSAValue | Sequence[SSAValue]) -> Written:
        """Map the variable names in each output slot to its values; keywords are slots."""
        written: Written = {}
        for slot, value in values.items():
            names = self.op.output(slot)
            found = [value] if isinstance(value, SSAValue) else list(value)
            if names and len(names) != len(found):
                raise ProgramError(
                    f"operator {self.op.type} computes {len(found)} results for '{slot}', but the "
                    f"slot has {len(names)} names"
                )
            written.update((n, v) for n, v in zip(names, found, strict=False) if n != EMPTY)
        return written

    # By a row of the table --------------------------------------------------------------------

    @property
    def row(self) -> DialectRow:
        """The row of operators of this type."""
        return BY_TYPE[self.op.type]

    def by_row(self, *operands: Any, row: DialectRow | None = None, **attrs: Any) -> Written:
        """Translate by a row; `operands` and `attrs` replace the row's own."""
        row = row or self.row
        self.only_constants_besides(*row.inputs, *operators()[self.op.type].tensors)
        given = operands or [self.operand(row, i) for i in range(len(row.inputs))]
        merged = {**row_attrs(self.op, row), **attrs}
        made = self.dynamic(row.op, given, merged, self.tensor_properties(row))
        return self._row_results(row, made)

    def operand(self, row: DialectRow, index: int) -> Any:
        """Read the row's `index`-th slot in the form that the op's operand needs."""
        slot, field = row.inputs[index], definition(row.op).operands[index][1]
        if isinstance(field, VarOperandDef):
            return self.inputs(slot)
        return self.input(slot)

    def tensor_properties(self, row: DialectRow) -> dict[str, SSAValue]:
        """Collect the attributes that are tensors: in slots, or named by attributes."""
        found: dict[str, SSAValue] = {}
        for slot, name in operators()[self.op.type].tensors.items():
            names = [n for n in self.op.input(slot) if n != EMPTY]
            if names and name not in found:
                found[name] = self.join_elements(names)
        for name in attr_kinds(row.op):
            legacy_name = row.renamed.get(name, name)
            if names_variables(self.op, legacy_name):
                value = self.op.attrs[legacy_name]
                found[name] = self.join_elements([value] if isinstance(value, str) else value)
        return found

    def join_elements(self, names: Sequence[str]) -> SSAValue:
        """Join the elements of tensors to one vector; a single vector or scalar is kept."""
        values = [self.read(name) for name in names]
        if len(values) == 1:
            return values[0] if rank_of(values[0].type) < 2 else self.reshape(values[0], -1)
        parts: list[SSAValue] = []
        for value in values:
            if dtype_of(value.type) != "int64":
                value = self(Cast, value, dtype="int64")
            if shape_of(value.type) != (1,):
                value = self.reshape(value, 1)
            parts.append(value)
        return self(Concat, parts, axis=0)

    def _row_results(self, row: DialectRow, made: Sequence[SSAValue]) -> Written:
        """Map the names in the row's output slots to the results of the row's op."""
        fields = definition(row.op).results
        if isinstance(fields[0][1], VarResultDef):
            names = [name for slot in row.outputs for name in self.op.output(slot)]
            return dict(zip(names, made, strict=True))
        written: Written = {}
        # the last result may be optional, and absent
        for slot, result in zip(row.outputs, made, strict=False):
            for name in self.op.output(slot):
                if name != EMPTY:
                    written[name] = result
        return written

    # Arithmetic that many translations need ---------------------------------------------------

    def array(self, values: np.ndarray[Any, Any], dtype: DType | str) -> SSAValue:
        """Emit a constant array of these floating-point numbers."""
        flat = tuple(float(value) for value in values.reshape(-1))
        return self(AssignValue, shape=values.shape, values=flat, dtype=dtype)

    def scale(self, x: SSAValue, factor: float, bias: float = 0.0) -> SSAValue:
        """Emit x * factor + bias; the identity needs no op."""
        return x if (factor, bias) == (1.0, 0.0) else self(Scale, x, scale=factor, bias=bias)

    def like(self, x: SSAValue, other: SSAValue) -> SSAValue:
        """Cast `x` to the dtype of another value."""
        dtype = dtype_of(other.type)
        return x if dtype_of(x.type) == dtype else self(Cast, x, dtype=dtype)

    def matrix(self, x: SSAValue, axis: int) -> SSAValue:
        """Flatten the dimensions of `x` from `axis` on; ProgramError unless 0 < axis < rank."""
        if not 0 < axis < rank_of(x.type):
            raise ProgramError(f"{list(shape_of(x.type))} cannot be split before axis {axis}")
        return self(Flatten, x, start_axis=axis) if axis < rank_of(x.type) - 1 else x

    def reshape(self, x: SSAValue, *shape: int) -> SSAValue:
        """Reshape `x`; 0 keeps a dimension, -1 takes the rest."""
        return self(Reshape, x, shape=shape)

    def along(self, vector: SSAValue, rank: int, axis: int) -> SSAValue:
        """Reshape a vector to `rank` dimensions, which are 1 except along `axis`."""
        return self.reshape(vector, *(-1 if i == axis else 1 for i in range(rank)))

    def activate(self, x: SSAValue, name: str, alpha: float = 0.0, beta: float = 0.0) -> SSAValue:
        """Emit an activation by its name in fused operators; '' is none.

        Raises UnsupportedError for an unknown name.
        """
        if name in ("", "identity", "linear", "none"):
            return x
        if name == "hard_swish":
            return self(Hardswish, x)
        if name == "gelu_tanh":
            return self(Gelu, x, approximate=True)
        if name == "leaky_relu":
            return self(LeakyRelu, x, negative_slope=alpha)
        if name == "hard_sigmoid":
            return self(Hardsigmoid, x, slope=alpha or 0.2, offset=beta or 0.5)
        if name == "swish":
            return self(Swish, x, beta=alpha or 1.0)
        if name == "relu6":
            return self(Relu6, x)
        found = BY_NAME.get(f"pd.{name}") if name in _PLAIN else None
        if found is None:
            raise UnsupportedError(
                f"operator {self.op.type} with the activation {name!r} is not supported"
            )
        return self(found, x)


_PLAIN = frozenset(("relu", "gelu", "sigmoid", "tanh", "sqrt", "silu", "mish", "abs", "square"))


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
