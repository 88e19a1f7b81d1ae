"""Gradients of values between a loss and its parameters, computed on demand.

A derivative is one operator, `pd_grad`, which writes the gradients of parameters, or the gradients
that `gradients` returns. Paddle also has a variable `X@GRAD` for every other value on the path.
Here these are only declared: the derivative computes one from the moment that an operator reads it
or a run fetches it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from graphopt.ir.program import undo
from graphopt.ir.program.gradient_types import BEFORE_LOOP, GRAD_TYPE
from graphopt.ir.program.kinds import GRAD_SUFFIX
from graphopt.ir.program.program import Block, Operator, Variable
from graphopt.ir.program.sub_blocks import names_in, sub_blocks


@dataclass(frozen=True)
class Way:
    """The values that a derivative goes through, and the values where it stops, nearest first."""

    values: Collection[str]
    stops: Collection[str]


def way_of(derivative: Operator) -> Way:
    """Find the values before a derivative that its targets depend on, and where it stops."""
    block = derivative.block
    values = dict.fromkeys(derivative.input("Y"))
    stops: dict[str, None] = {}
    blocked = set(derivative.input("NoGrad"))
    for op in reversed(block.ops[: block.ops.index(derivative)]):
        if not any(name in values for name in op.output_arg_names):
            continue
        for name in _read_by(op):
            if name in blocked or not _has_gradient(block, name):
                stops.setdefault(name)
            else:
                values.setdefault(name)
    made = {name for op in block.ops if any(op.input_arg_names) for name in op.output_arg_names}
    return Way(values, [name for name in stops if name in made and is_float(block, name)])


def off_the_path(derivative: Operator) -> list[str]:
    """List the inputs of a derivative on which its targets do not depend at all.

    A new derivative has none: an operator was renamed or removed since.
    """
    behind = set(derivative.input("Y"))
    for op in reversed(_in_front(derivative)):
        if not behind.isdisjoint(op.output_arg_names):
            behind.update(_read_by(op))
    return [name for name in derivative.input("X") if name not in behind]


def _in_front(op: Operator) -> list[Operator]:
    """List the operators before `op`, also in the enclosing blocks, outermost first."""
    block, parent = op.block, op.block.parent
    around = None
    if parent is not None:
        around = next((other for other in parent.ops if block in sub_blocks(other)), None)
    outer = [] if around is None else _in_front(around)
    return [*outer, *takewhile(lambda other: other is not op, block.ops)]


def declare_gradients(derivative: Operator) -> None:
    """Declare the gradients of all values that a derivative of the global block goes through.

    Gradients that are already declared belong to an earlier derivative.
    """
    block = derivative.block
    if block.idx != 0:
        return
    for name in way_of(derivative).values:
        source = block.vars.get(name)
        if source is not None and source.grad_name not in block.vars:
            made = block.create_var(source.grad_name, source.shape, source.dtype)
            made.computed_on_demand = True


def derivative_with(block: Block, gradient: str) -> Operator | None:
    """Find the first derivative of a block that can compute a gradient without a producer."""
    source = gradient.removesuffix(GRAD_SUFFIX)
    derivatives = (op for op in block.ops if op.type == GRAD_TYPE)
    return next((op for op in derivatives if source in way_of(op).values), None)


def with_gradients(derivative: Operator, gradients: Sequence[str]) -> Operator:
    """Copy a derivative so that it computes these gradients, too.

    As in Paddle, the gradient of a variable that a loop changes in place is the gradient of its
    first value.
    """
    sources = [name.removesuffix(GRAD_SUFFIX) for name in gradients]
    looped = _changed_by_loops(derivative)
    before = [*derivative.attrs.get(BEFORE_LOOP, ()), *(n for n in sources if n in looped)]
    attrs = {**derivative.attrs, BEFORE_LOOP: before} if before else derivative.attrs
    stops = [*derivative.input("NoGrad"), *way_of(derivative).stops]
    inputs = {
        **derivative.inputs,
        "X": [*derivative.input("X"), *sources],
        "NoGrad": list(dict.fromkeys(stops)),
    }
    outputs = {**derivative.outputs, "XGrad": [*derivative.output("XGrad"), *gradients]}
    op = derivative
    return Operator(op.block, op.type, inputs, outputs, attrs, op.location)


def compute_gradients(block: Block, names: Iterable[str]) -> None:
    """Let derivatives compute the gradients among `names` that are only declared."""
    for name in names:
        variable = block.find_var(name) if name.endswith(GRAD_SUFFIX) else None
        if variable is not None and variable.computed_on_demand:
            _compute(variable)


def _compute(gradient: Variable) -> None:
    derivative = derivative_with(gradient.block, gradient.name)
    if derivative is None:
        return
    made = with_gradients(derivative, [gradient.name])
    undo.note_attributes(derivative, "inputs", "outputs", "attrs")
    undo.note_attributes(gradient, "computed_on_demand")
    derivative.inputs, derivative.outputs = made.inputs, made.outputs
    derivative.attrs = made.attrs
    gradient.computed_on_demand = False
    gradient.block.program.touch()


def carried_variables(op: Operator) -> set[str]:
    """Return the variables that a loop changes in place."""
    return set(op.input("X")) & set(op.output("Out")) if op.type == "while" else set()


def _changed_by_loops(derivative: Operator) -> set[str]:
    """Collect the variables that loops before a derivative change in place."""
    ops = derivative.block.ops
    return {name for op in ops[: ops.index(derivative)] for name in carried_variables(op)}


def _read_by(op: Operator) -> list[str]:
    """List the names that an operator reads, also in its blocks.

    They include its outputs if it has a sub-block: a branch that is not taken, and a loop, keep the
    old values of their outputs.
    """
    inside = [name for block in sub_blocks(op) for name in names_in(block, written=False)]
    kept = op.output_arg_names if "sub_block" in op.attrs else []
    return [*op.input_arg_names, *inside, *kept]


def _has_gradient(block: Block, name: str) -> bool:
    variable = block.find_var(name)
    return variable is not None and not variable.stop_gradient and is_float(block, name)


def is_float(block: Block, name: str) -> bool:
    """True for a variable whose type has derivatives."""
    variable = block.find_var(name)
    return variable is not None and variable.has_type and variable.dtype.is_differentiable
