"""The program of a bundle, from its bytes."""

from __future__ import annotations

from graphopt.ir.formats.graph_check import column_names
from graphopt.ir.formats.lengths import declare_lengths
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.model import read_any_program
from graphopt.ir.program import Program


def program_of(
    data: bytes, source: str, limits: Limits | None = None
) -> tuple[Program, list[str], list[str]]:
    """A program in Paddle's format, with its inputs and outputs; raises as `load_model`."""
    program = read_any_program(data, source, limits)
    declare_lengths(program)
    return program, column_names(program, "feed"), column_names(program, "fetch")
