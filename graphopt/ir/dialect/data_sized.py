"""Ops that make a program run op by op: tensor elements decide their sizes, axes or counts.

XLA fixes all sizes when it compiles. By then a value computed from shapes and constants is a
number: `gives_numbers` decides which ops may compute it. Passes, reports and the lowering, which
computes such values while it traces, share this definition. Types do not decide everything: whether
the branches of a `pd.if` have one shape may be known only for the fed sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from graphopt.ir.dialect.ops.base import DataSizedOp, PureOp
from graphopt.ir.dialect.ops.control import If, While
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import ShapeOf
from graphopt.ir.dialect.signature import FEED, main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, product, shape_of

MOST_NUMBERS = 16
"""The most elements of a feed that can become a constant."""


@dataclass(frozen=True)
class DataSized:
    """An op that needs data, the part of it that does, the value that decides it, and a remedy.

    The value is the feed, the state or the result from which the deciding operand is computed.
    """

    op: Operation
    what: str
    value: SSAValue
    fix: str


def data_sized(module: ModuleOp) -> Iterator[DataSized]:
    """Find the ops that make a program run op by op, in program order."""
    known: set[SSAValue] = set()
    for op in module.walk():
        if gives_numbers(op) and (isinstance(op, ShapeOf) or known.issuperset(op.operands)):
            known.update(op.results)
        found = _find_data_operand(op, known)
        if found is not None:
            what, value, fix = found
            yield DataSized(op, what, _source(value, known), fix)


def deciding_feeds(module: ModuleOp) -> tuple[str, ...]:
    """Find the short integer feeds that alone decide sizes; empty if another value does.

    With these feeds as constants a program need not run op by op.
    """
    function = main_function(module)
    ports = dict(zip(function.body.block.args, signature_of(module).arguments, strict=True))
    names: list[str] = []
    for found in data_sized(module):
        port = ports.get(found.value) if isinstance(found.value, BlockArgument) else None
        if port is None or port.kind != FEED or not _is_few_numbers(found.value):
            return ()
        names.append(port.name)
    return tuple(dict.fromkeys(names))


def _is_few_numbers(value: SSAValue) -> bool:
    return is_short(value) and not dtype_of(value.type).is_differentiable


def is_short(value: SSAValue) -> bool:
    """True for a value of a few elements, which may be a constant once it is fed."""
    shape = shape_of(value.type)
    return UNKNOWN not in shape and product(shape) <= MOST_NUMBERS


def _find_data_operand(op: Operation, known: set[SSAValue]) -> tuple[str, SSAValue, str] | None:
    """Find the part of an op that needs data, its deciding operand and a remedy; None if none."""
    if isinstance(op, Dynamic):
        named = zip(op.attr("dynamic"), op.values, strict=True)
        name, value = next((pair for pair in named if pair[1] not in known), ("", None))
        fix = f"give '{name}' as a number, or compute it from the shape of a tensor"
        return None if value is None else (f"'{name}' of {op.attr('op')}", value, fix)
    if isinstance(op, DataSizedOp):
        value = op.deciding_operand()
        fix = "use an op whose result has a fixed size, or pad to one"
        return None if value is None else (f"the size of {op.name}", value, fix)
    if isinstance(op, If) and op.condition not in known and _differ(op):
        return "which of two shapes a branch has", op.condition, "let both branches give one shape"
    if isinstance(op, While) and (value := _changing(op)) is not None:
        fix = "let the variables of the loop keep their shapes"
        return "the shape of a loop variable", value, fix
    return None


def _source(value: SSAValue, known: set[SSAValue]) -> SSAValue:
    """Trace a data-dependent value back to the value that its computation starts from."""
    while value not in known and isinstance(op := value.owner, Operation):
        if isinstance(op, DataSizedOp) or not gives_numbers(op):
            break
        value = next(operand for operand in op.operands if operand not in known)
    return value


def gives_numbers(op: Operation) -> bool:
    """True for an op whose results are numbers at compile time if its operands are.

    For a `pd.shape` the operand's shape is enough.
    """
    return isinstance(op, PureOp) and not (
        isinstance(op, (Grad, Dynamic)) or draws(op) or op.regions
    )


def _differ(op: If) -> bool:
    """Return whether the branches yield different shapes, whatever is fed."""
    return any(
        _is_other(shape_of(yes.type), shape_of(no.type))
        for yes, no in zip(op.yielded_values(0), op.yielded_values(1), strict=True)
    )


def _changing(op: While) -> SSAValue | None:
    """Find the initial value of a loop variable whose shape changes, whatever is fed."""
    for first, argument in zip(op.carried, op.body.block.args, strict=True):
        sizes = zip(shape_of(first.type), shape_of(argument.type), strict=False)
        if any(size != UNKNOWN and inside == UNKNOWN for size, inside in sizes):
            return first
    return None


def _is_other(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    pairs = zip(one, two, strict=False)
    return len(one) != len(two) or any(UNKNOWN not in pair and pair[0] != pair[1] for pair in pairs)
