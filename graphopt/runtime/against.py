"""Another program to compare a compiled one with: its module for the same places and strategy."""

from __future__ import annotations

from dataclasses import replace

from graphopt.ir.formats.graph_check import column_names
from graphopt.ir.program import Program
from graphopt.ir.translate.interface import data_names, output_names
from graphopt.report.stages import Other
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.explain import Snapshot


def other_for(against: Program | Snapshot, like: Compilation, title: str = "the other") -> Other:
    """A program as it would be compiled where another one runs; a CompiledProgram by its strategy.

    Its feeds are its data variables; its fetches those of the other that it has too, or else its
    outputs. TypeError for anything but a Program or CompiledProgram.
    """
    program = against if isinstance(against, Program) else getattr(against, "_program", None)
    if not isinstance(program, Program):
        raise TypeError(f"expected a Program or CompiledProgram, got {type(against).__name__}")
    feeds = tuple(column_names(program, "feed") or data_names(program))
    block = program.global_block()
    shared = [name for name in like.fetches if block.has_var(name)]
    fetches = tuple(shared or column_names(program, "fetch") or output_names(program))
    if isinstance(against, Program):
        made = replace(like, program=program, feeds=feeds, fetches=fetches)
    else:
        made = against._compilation(feeds, fetches)
    return Other(title, made.parsed, made.pass_context())
