"""Pruning of a program to the part that given fetches and the parameter updates need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from graphopt.errors import ProgramError
from graphopt.ir.program import Operator, Program
from graphopt.ir.program.array_parts import array_of
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.program.gradients_on_demand import derivative_with, way_of
from graphopt.ir.program.kinds import LENGTHS
from graphopt.ir.program.sub_blocks import names_in, sub_blocks, upstream
from graphopt.ir.translate.operators.updates import updates_parameters


def prune(
    program: Program,
    fetches: Iterable[str],
    feeds: Iterable[str] = (),
    updates: Collection[Operator] | None = None,
) -> Program:
    """Copy a program without operators that reach neither a fetch nor an optimizer operator.

    Optimizer operators are kept, as in Paddle: fetching only a forward value still trains. With
    `updates`, which may be empty, only these are kept. Fed variables are not computed. Raises
    ProgramError if a needed gradient goes through operators that a feed leaves out.
    """
    fed = frozenset(feeds)
    needed = set(map(array_of, fetches)) - fed
    block = program.global_block()
    on_demand = {
        derivative_with(block, name)
        for name in needed
        if name in block.vars and block.vars[name].computed_on_demand
    }
    kept: list[bool] = []
    for op in reversed(block.ops):
        is_root = updates_parameters(op) if updates is None else op in updates
        kept.append(is_root or op in on_demand or not needed.isdisjoint(op.output_arg_names))
        if kept[-1]:
            needed |= set(op.input_arg_names) - fed
            for inner in sub_blocks(op):
                needed |= set(names_in(inner, written=False)) - fed
    kept.reverse()
    _check_gradients([op for op, keep in zip(block.ops, kept, strict=True) if keep], fed)
    twin = program.clone()
    twin.lr_schedulers = dict(program.lr_schedulers)
    block = twin.global_block()
    block.ops = [op for op, keep in zip(block.ops, kept, strict=True) if keep]
    twin.touch()
    return twin


def _check_gradients(kept: Sequence[Operator], fed: frozenset[str]) -> None:
    """Raise ProgramError if a variable is fed between a loss and a variable of its gradient.

    The gradient would be 0 there, as if the loss did not depend on the variable.
    """
    for op in kept:
        if op.type != GRAD_TYPE:
            continue
        for name in sorted(fed.intersection(way_of(op).values)):
            ops = op.block.ops
            cut = upstream(ops[: ops.index(op)], {name}).intersection(op.input("X")) - {name}
            if cut:
                raise ProgramError(
                    f"'{name}' is fed and not computed, but the gradient of '{min(cut)}' flows "
                    f"through the operators that compute '{name}': feed the inputs of these "
                    "operators instead, or run only the forward part, with "
                    "program.clone(for_test=True)"
                )


def keep_used(program: Program, names: Iterable[str]) -> None:
    """Drop the variables that no operator reads or writes, except the named ones.

    Dropped variables are neither saved nor initialized with the program.
    """
    used = set(names)
    for each in program.blocks:
        for op in each.ops:
            used.update(op.input_arg_names, op.output_arg_names)
    used.update([f"{name}{LENGTHS}" for name in used])
    for each in program.blocks:
        each.vars = {name: v for name, v in each.vars.items() if name in used}
    schedulers = program.lr_schedulers
    program.lr_schedulers = {name: s for name, s in schedulers.items() if name in used}
    program.touch()
