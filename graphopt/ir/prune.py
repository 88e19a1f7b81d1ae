"""Pruning: the part of a program that given fetches and the parameter updates need."""

from __future__ import annotations

from collections.abc import Iterable

from graphopt.ir.program import OpRole, Program


def prune(program: Program, fetches: Iterable[str]) -> Program:
    """A copy without the operators that reach neither a fetch nor an optimizer operator.

    Optimizer operators are always kept, as Paddle does: fetching only a forward value still
    trains (SEMANTICS 2, rule 12).
    """
    twin = program.clone()
    twin.lr_schedulers = dict(program.lr_schedulers)
    block = twin.global_block()
    needed = set(fetches)
    kept = []
    for op in reversed(block.ops):
        if op.role & OpRole.OPTIMIZE or needed.intersection(op.output_arg_names):
            needed.update(op.input_arg_names)
            kept.append(op)
    block.ops = kept[::-1]
    twin.touch()
    return twin
