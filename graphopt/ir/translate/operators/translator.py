"""Translation of one legacy operator to `pd` ops, by its registered translation or by its row.

`translate` is used for whole programs (by the parser) and for single operators as scripts append
them (by shape inference), so both agree by construction.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches

from xdsl.utils.exceptions import VerifyException

from graphopt.errors import GraphoptError, ProgramError, UnsupportedError
from graphopt.ir.operators import operators
from graphopt.ir.program import Operator
from graphopt.ir.translate.operators.attributes import check_read, noting
from graphopt.ir.translate.operators.builder import OpBuilder
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import TRANSLATIONS, Translation, translation_of
from graphopt.ir.translate.operators.table import BY_TYPE


class Translator(OpBuilder):
    """A builder that appends the translation of operators to a block of `pd` ops."""

    def translate(self, op: Operator) -> Written:
        """Append `op` and return the values of the variable names it writes.

        Raises ProgramError, with the operator and the user's line, when the operands do not fit,
        and UnsupportedError when the type is unknown.
        """
        with errors_of(op):
            noted = noting(op)
            if not op.is_loaded:
                _check_slots(op)
            written = _translation(op.type)(Emitter(self, noted))
            check_read(noted)
            return written


def _check_slots(op: Operator) -> None:
    """Refuse what a script's operator cannot read or write, which would go unnoticed."""
    row = operators().get(op.type)
    if row is None or row.only == "graphopt":
        return
    known = row.slots[1]
    if op.outputs and known and not any(slot in known for slot in op.outputs):
        raise ProgramError(
            f"operator {op.type} has no output '{min(op.outputs)}'; its outputs are "
            f"{', '.join(known)}"
        )
    for marks, slots in zip(row.marked_slots, (op.inputs, op.outputs), strict=True):
        single = {slot.rstrip("?") for slot in marks if "*" not in slot}
        for slot in single.intersection(slots):
            if len(slots[slot]) > 1:
                raise ProgramError(
                    f"operator {op.type} takes one Variable in the slot '{slot}', found "
                    f"{len(slots[slot])}: {', '.join(slots[slot])}"
                )


def _translation(type: str) -> Translation:
    """Return the registered translation of an operator type, or the translation by its row."""
    found = translation_of(type)
    if found is not None:
        return found
    if type in BY_TYPE:
        return Emitter.by_row
    near = get_close_matches(type, {*TRANSLATIONS, *BY_TYPE}, 1, 0.75)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    if type.startswith("onnx.") and not near:
        hint = "; cut the model before it, or write it by other operators"
    raise UnsupportedError(f"operator type '{type}' has no translation{hint}")


# Exceptions of translations for an operator of a file that lacks a slot, or has an attribute of a
# kind that Paddle never writes.
_MALFORMED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(StopIteration, TypeError, ValueError, VerifyException),
)


@contextmanager
def errors_of(op: Operator) -> Generator[None]:
    """Name the operator in errors raised in here; a loaded operator is called malformed."""
    try:
        yield
    except (ProgramError, UnsupportedError) as error:
        raise locate_error(error, op) from None
    except GraphoptError:
        raise
    except _MALFORMED as error:
        if isinstance(error, ZeroDivisionError) and not op.is_loaded:
            text = "one of its sizes, steps or numbers of parts is 0; they start at 1"
            raise locate_error(ProgramError(text), op) from None
        if not op.is_loaded:
            raise
        raise _malformed_error(error, op) from error


def _malformed_error(error: Exception, op: Operator) -> Exception:
    """Build the error for an operator of a file that does not fit its type."""
    slots = ", ".join(f"{slot}={names}" for slot, names in op.inputs.items())
    problem = f"operator {op.type} is malformed: {type(error).__name__}: {str(error)[:200]}"
    return locate_error(ProgramError(f"{problem} (inputs {slots[:200] or 'none'})"), op)


def locate_error(error: ProgramError | UnsupportedError, op: Operator) -> Exception:
    """Add the operator and the user's line to an error, unless it names an inner operator."""
    if "[operator " in str(error):
        return error
    outputs = ", ".join(op.output_arg_names)
    where = f", at {op.location}" if op.location else ""
    named = type(error)(f"{error} [operator {op.type} -> {outputs}{where}]")
    named.__dict__.update(error.__dict__)
    return named
