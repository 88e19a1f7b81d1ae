"""One legacy operator into `pd` ops, by a row of `table.py` or a case of `special.py`.

`translate` is used for whole programs (by the parser) and for single operators as scripts append
them (by shape inference), so both agree by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef, VarResultDef
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import GraphoptError, ProgramError, UnsupportedError
from graphopt.ir.legacy.properties import (
    constant_property,
    make_late,
    row_attrs,
    tensor_properties,
)
from graphopt.ir.legacy.special import SPECIAL
from graphopt.ir.legacy.table import BY_TYPE, TENSOR_PROPERTIES, Row
from graphopt.ir.op import PdOp, definition
from graphopt.ir.ops.random import RandomOp
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.types import check_size


class Translator:
    """Appends the translation of operators to a block of `pd` ops.

    `read` gives the value of a variable name at this point of the program.
    """

    def __init__(self, block: Block, read: Callable[[str], SSAValue]) -> None:
        self.block = block
        self.read = read
        self.random_ops = 0
        self.trains = False
        """True when gradients are taken of what is translated."""

    def translate(self, op: Operator) -> dict[str, SSAValue]:
        """Append `op` and return the values of the variable names it writes.

        Raises ProgramError, with the operator and the user's line, when the operands do not fit,
        and UnsupportedError when the type is unknown.
        """
        with errors_of(op):
            return self._dispatch(op)

    def _dispatch(self, op: Operator) -> dict[str, SSAValue]:
        special = SPECIAL.get(op.type)
        if special is not None:
            return special(self, op)
        row = BY_TYPE.get(op.type)
        if row is None:
            raise UnsupportedError(f"operator type '{op.type}' has no translation")
        return self.by_row(op, row)

    def by_row(self, op: Operator, row: Row, *operands: Any, **attrs: Any) -> dict[str, SSAValue]:
        """Translate by a table row; `operands` and `attrs` replace what the row would give."""
        _refuse_other_inputs(op, row)
        given = operands or [self.operand(op, row, i) for i in range(len(row.inputs))]
        merged = {**row_attrs(op, row), **attrs}
        tensors = tensor_properties(self, op, row)
        return self.results(op, row, self.emit_late(row.op, op, given, merged, tensors))

    def emit_late(
        self,
        op_class: type[PdOp],
        source: Operator,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        tensors: Mapping[str, SSAValue],
    ) -> PdOp:
        """An op some of whose properties are tensors; the plain op when these are constants."""
        known = {name: constant_property(op_class, name, v) for name, v in tensors.items()}
        late = {name: value for name, value in tensors.items() if known[name] is None}
        merged = {**attrs, **{name: value for name, value in known.items() if value is not None}}
        if not late:
            return self.emit(op_class, source, *operands, **merged)
        if issubclass(op_class, RandomOp) and not merged.get("seed"):
            self.random_ops += 1
            merged["rng_id"] = self.random_ops
        made = make_late(op_class, operands, merged, late)
        return self._placed(made, source)

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

    def emit(
        self, op_class: type[PdOp], source: Operator | None, *operands: Any, **attrs: Any
    ) -> PdOp:
        """Make an op at the end of the block."""
        if issubclass(op_class, RandomOp) and not attrs.get("seed"):
            self.random_ops += 1
            attrs["rng_id"] = self.random_ops
        return self._placed(op_class.make(*operands, **attrs), source)

    def _placed(self, made: PdOp, source: Operator | None) -> PdOp:
        for result in made.results:
            check_size(result.type)
        if source is not None and source.location is not None:
            file, line = source.location
            made.location = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))
        self.block.add_op(made)
        return made

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
