"""The default programs, to which layers append, and the guard that replaces them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from graphopt.ir.program.program import Program

_main_program = Program()
_startup_program = Program()
_first = _main_program


def default_main_program() -> Program:
    """Return the program that layers append to."""
    return _main_program


def default_startup_program() -> Program:
    """Return the program that initializes parameters."""
    return _startup_program


def switch_main_program(program: Program) -> Program:
    """Let layers append to another program; return the previous one."""
    global _main_program
    _check_program(program)
    previous, _main_program = _main_program, program
    return previous


def switch_startup_program(program: Program) -> Program:
    """Let another program initialize parameters; return the previous one."""
    global _startup_program
    _check_program(program)
    previous, _startup_program = _startup_program, program
    return previous


def is_first_program() -> bool:
    """True where layers append to the program of the process, not to one of `program_guard`."""
    return _main_program is _first


def _check_program(program: object) -> None:
    if program is not None and not isinstance(program, Program):
        raise TypeError(f"program_guard takes Programs, got {type(program).__name__}")


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Generator[None]:
    """Make these the default programs inside the block (paddle.static.program_guard)."""
    global _main_program, _startup_program
    for program in (main_program, startup_program):
        _check_program(program)
    saved = _main_program, _startup_program
    _main_program = main_program
    if startup_program is not None:
        _startup_program = startup_program
    try:
        yield
    finally:
        _main_program, _startup_program = saved
