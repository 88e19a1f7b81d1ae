"""The lengths of fed sequences, declared in a program that was read."""

from __future__ import annotations

from graphopt.ir.program import Program


def declare_lengths(program: Program) -> None:
    """Give a program with operators on sequences the variables through which lengths are fed.

    Operators are looked up only for a program that is fed sequences.
    """
    block = program.global_block()
    fed = [name for op in block.ops if op.type == "feed" for name in op.output_arg_names]
    if any(name in block.vars and block.vars[name].lod_level for name in fed):
        from graphopt.ir.translate.operators import sequences

        sequences.declare_lengths(program)
