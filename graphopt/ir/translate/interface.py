"""Inputs and outputs of a program without feed and fetch operators: whole training programs.

Inference models declare theirs. The inputs of a training program are its data variables; the
outputs are its loss and every other unread result, such as an accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphopt.ir.program import EMPTY, GRAD_SUFFIX, Operator, OpRole, Program, VarKind
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.gradients.types import is_zero

_FILLS = ("fill_constant", "fill_any_like", "full", "full_like")
_LOSS_ROLE = 256
# Operators whose outputs are aliases of other variables.
_BOOKKEEPING = ("coalesce_tensor",)


def data_names(program: Program) -> list[str]:
    """List the variables that have to be fed, in the order of their declaration."""
    ops = [op for block in program.blocks for op in block.ops]
    read = {name for op in ops for name in op.input_arg_names}
    written = {name for op in ops for name in op.output_arg_names}
    return [
        name
        for name, variable in program.global_block().vars.items()
        if name in read
        and name not in written
        and not variable.persistable
        and variable.kind == VarKind.DENSE_TENSOR
        and name != EMPTY
    ]


def output_names(program: Program) -> list[str]:
    """List the losses, then the unread results of forward operators."""
    losses = list(dict.fromkeys(_losses(program)))
    if not losses and _is_startup(program):
        return []
    return list(dict.fromkeys([*losses, *_unread(program)]))


def _is_startup(program: Program) -> bool:
    """True for a program that only gives values to persistable variables."""
    block = program.global_block()
    names = [name for op in block.ops for name in op.output_arg_names if name != EMPTY]
    return not data_names(program) and any(
        (variable := block.find_var(name)) is not None and variable.persistable for name in names
    )


def _losses(program: Program) -> Iterator[str]:
    """Find the losses: variables whose gradient is set to a constant, or targets of `pd_grad`."""
    ops = program.global_block().ops
    forward = {name: op for op in ops if not _is_gradient(op) for name in op.output_arg_names}
    for op in ops:
        if op.type == GRAD_TYPE:
            yield from op.input("Y")
    seeds = {
        name: op
        for op in ops
        if op.type in _FILLS and not is_zero(op)
        for name in op.output_arg_names
    }
    named = [
        name
        for name in seeds
        if name.endswith(GRAD_SUFFIX) and name.removesuffix(GRAD_SUFFIX) in forward
    ]
    marked = [name for name in named if seeds[name].role & _LOSS_ROLE]
    if named:
        yield from (name.removesuffix(GRAD_SUFFIX) for name in marked or named)
        return
    yield from _find_seeded_losses(ops, seeds)


def _find_seeded_losses(ops: list[Operator], seeds: dict[str, Operator]) -> Iterator[str]:
    """Find losses by structure: outputs whose gradient operators read a constant cotangent."""
    for op in ops:
        if not _is_gradient(op):
            continue
        for slot, names in op.inputs.items():
            if not slot.endswith(GRAD_SUFFIX):
                continue
            for name in names:
                found = _target(op, slot.removesuffix(GRAD_SUFFIX), seeds.get(name), ops)
                if found is not None:
                    yield found


def _target(grad: Operator, slot: str, seed: Operator | None, ops: list[Operator]) -> str | None:
    """Find the forward output in `slot` whose gradient is `seed`; None if it is no seed."""
    if seed is None:
        return None
    if seed.type in ("fill_any_like", "full_like"):
        (source,) = seed.input("X") or [None]
        return source
    given = grad.input(slot)
    if given:
        return given[0]
    # a gradient operator that does not read the output: find its forward operator
    kind = grad.type.removesuffix("_grad")
    wanted = {s: n for s, n in grad.inputs.items() if not s.endswith(GRAD_SUFFIX)}
    for op in ops:
        if op.type == kind and all(op.inputs.get(s, n) == n for s, n in wanted.items()):
            return next(iter(op.output(slot)), None)
    return None


def _is_gradient(op: Operator) -> bool:
    return op.type.endswith(("_grad", "_grad2", "_grad_grad")) or op.type == GRAD_TYPE


def _unread(program: Program) -> Iterator[str]:
    """Find the main output of each forward operator whose outputs are neither read nor kept."""
    from graphopt.ir.translate.operators.table import BY_TYPE

    block = program.global_block()
    read = {name for each in program.blocks for op in each.ops for name in op.input_arg_names}
    backward = int(OpRole.BACKWARD) | int(OpRole.OPTIMIZE) | int(OpRole.LR_SCHEDULE)
    for op in block.ops:
        outputs = [name for name in op.output_arg_names if name != EMPTY]
        if _is_gradient(op) or op.role & backward or op.type in _BOOKKEEPING:
            continue
        if not read.isdisjoint(outputs):
            continue
        row = BY_TYPE.get(op.type)
        slots = row.outputs if row is not None else tuple(op.outputs)
        name = next((name for slot in slots for name in op.output(slot) if name != EMPTY), None)
        variable = block.find_var(name) if name is not None else None
        if variable is None or variable.persistable or variable.kind != VarKind.DENSE_TENSOR:
            continue
        if not variable.name.endswith(GRAD_SUFFIX):
            yield variable.name
