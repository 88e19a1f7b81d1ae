"""One legacy operator into `pd` ops, by a row of `table.py` or a case of `special.py`.

`translate` is used for whole programs (by the parser) and for single operators as scripts append
them (by shape inference), so both agree by construction.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef, VarResultDef
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import GraphoptError, ProgramError, UnsupportedError
from graphopt.ir.dialect.definition import attr_kinds, definition
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.shape import Concat, Reshape
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.attributes import check_read, noting
from graphopt.ir.translate.operators.builder import OpBuilder
from graphopt.ir.translate.operators.properties import names_variables, row_attrs
from graphopt.ir.translate.operators.registry import SPECIAL
from graphopt.ir.translate.operators.table import BY_TYPE, TENSOR_PROPERTIES, Row


class Translator(OpBuilder):
    """Appends the translation of operators to a block of `pd` ops."""

    def translate(self, op: Operator) -> dict[str, SSAValue]:
        """Append `op` and return the values of the variable names it writes.

        Raises ProgramError, with the operator and the user's line, when the operands do not fit,
        and UnsupportedError when the type is unknown.
        """
        with errors_of(op):
            noted = noting(op)
            written = self._dispatch(noted)
            check_read(noted)
            return written

    def _dispatch(self, op: Operator) -> dict[str, SSAValue]:
        special = SPECIAL.get(op.type)
        if special is not None:
            return special(self, op)
        row = BY_TYPE.get(op.type)
        if row is None:
            raise UnsupportedError(f"operator type '{op.type}' has no translation")
        return self.by_row(op, row)

    def by_row(self, op: Operator, row: Row, *operands: Any, **attrs: Any) -> dict[str, SSAValue]:
        """Translate by a table row; `operands` and `attrs` replace those of the row."""
        _refuse_other_inputs(op, row)
        given = operands or [self.operand(op, row, i) for i in range(len(row.inputs))]
        merged = {**row_attrs(op, row), **attrs}
        tensors = self.tensor_properties(op, row)
        return self.results(op, row, self.emit_late(row.op, op, given, merged, tensors))

    def operand(self, op: Operator, row: Row, index: int) -> Any:
        """The value of the row's `index`-th slot in the form that the op's field wants."""
        names = [name for name in op.input(row.inputs[index]) if name != EMPTY]
        field = definition(row.op).operands[index][1]
        if isinstance(field, VarOperandDef):
            return [self.read(name) for name in names]
        if not names:
            if isinstance(field, OptOperandDef):
                return None
            raise ProgramError(f"operator {op.type} needs an input '{row.inputs[index]}'")
        return self.read(names[0])

    def tensor_properties(self, op: Operator, row: Row) -> dict[str, SSAValue]:
        """The properties that tensors give, by input slots or by attributes that name variables."""
        found: dict[str, SSAValue] = {}
        for slot, name in TENSOR_PROPERTIES.get(op.type, {}).items():
            names = [n for n in op.input(slot) if n != EMPTY]
            if names and name not in found:
                found[name] = self.joined(op, names)
        for name in attr_kinds(row.op):
            legacy_name = row.renamed.get(name, name)
            if names_variables(op, legacy_name):
                value = op.attrs[legacy_name]
                found[name] = self.joined(op, [value] if isinstance(value, str) else value)
        return found

    def joined(self, op: Operator, names: Sequence[str]) -> SSAValue:
        """One vector of the elements of several tensors; the tensor itself when it is alone."""
        values = [self.read(name) for name in names]
        if len(values) == 1:
            return values[0]
        parts: list[SSAValue] = []
        for value in values:
            if dtype_of(value.type) != "int64":
                value = self.emit(Cast, op, value, dtype="int64").results[0]
            if shape_of(value.type) != (1,):
                value = self.emit(Reshape, op, value, shape=(1,)).results[0]
            parts.append(value)
        return self.emit(Concat, op, parts, axis=0).results[0]

    def results(self, op: Operator, row: Row, made: PdOp) -> dict[str, SSAValue]:
        """The names in the row's output slots with the results of the op made for it."""
        written: dict[str, SSAValue] = {}
        fields = definition(row.op).results
        if isinstance(fields[0][1], VarResultDef):
            names = [name for slot in row.outputs for name in op.output(slot)]
            return dict(zip(names, made.results, strict=True))
        # an optional result, which is the last one, may be absent
        for slot, result in zip(row.outputs, made.results, strict=False):
            for name in op.output(slot):
                if name != EMPTY:
                    written[name] = result
        return written


# What translations raise for an operator of a file that lacks a slot, or has an attribute of a kind
# that Paddle would not have written.
_MALFORMED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(StopIteration, TypeError, ValueError, VerifyException),
)


@contextmanager
def errors_of(op: Operator) -> Generator[None]:
    """Errors in here name the operator; of one that was loaded they say that it is malformed."""
    try:
        yield
    except (ProgramError, UnsupportedError) as error:
        raise located(error, op) from None
    except GraphoptError:
        raise
    except _MALFORMED as error:
        if isinstance(error, ZeroDivisionError) and not op.is_loaded:
            text = "one of its sizes, steps or numbers of parts is 0; they start at 1"
            raise located(ProgramError(text), op) from None
        if not op.is_loaded:
            raise
        raise _malformed(error, op) from error


def _malformed(error: Exception, op: Operator) -> Exception:
    """The error for an operator of a file that is not as its type wants it."""
    slots = ", ".join(f"{slot}={names}" for slot, names in op.inputs.items())
    problem = f"operator {op.type} is malformed: {type(error).__name__}: {str(error)[:200]}"
    return located(ProgramError(f"{problem} (inputs {slots[:200] or 'none'})"), op)


def located(error: ProgramError | UnsupportedError, op: Operator) -> Exception:
    """The error with the operator and the user's line, unless an operator inside `op` is there."""
    if "[operator " in str(error):
        return error
    outputs = ", ".join(op.output_arg_names)
    where = f", at {op.location}" if op.location else ""
    return type(error)(f"{error} [operator {op.type} -> {outputs}{where}]")


def _refuse_other_inputs(op: Operator, row: Row) -> None:
    """A slot that the row does not know may carry meaning: refuse rather than ignore it."""
    known = (*row.inputs, *TENSOR_PROPERTIES.get(op.type, {}))
    for slot, names in op.inputs.items():
        if slot not in known and any(name != EMPTY for name in names):
            raise UnsupportedError(
                f"operator {op.type} takes '{slot}' from a tensor ({', '.join(names)}); "
                "only constants are supported there"
            )
