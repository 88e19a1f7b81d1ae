"""Names of the parts of a compiled program: Paddle's names and the user's lines.

JAX would name the functions of this package that traced an op, by the absolute paths of the machine
on which it traced. Programs written to files instead have the variable that an op writes, and the
line of the script, so that the same program gives the same bytes everywhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import jax
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.numbers import numbers_of, ops_by_number

_FOR_FILES = ContextVar("_FOR_FILES", default=False)
_NUMBERS: ContextVar[Mapping[Operation, int] | None] = ContextVar("_NUMBERS", default=None)
_NUMBER = re.compile(r"\bpd\.(\w+)#(\d+)")


@contextmanager
def for_files() -> Generator[None]:
    """Give the ops lowered inside the block locations that hold on every machine."""
    token = _FOR_FILES.set(True)
    limit = jax.config.jax_traceback_in_locations_limit  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        yield
    finally:
        jax.config.update("jax_traceback_in_locations_limit", limit)
        _FOR_FILES.reset(token)


@contextmanager
def number_ops(module: ModuleOp) -> Generator[tuple[Operation, ...]]:
    """Name the parts of each op after its number, so that `number_in` finds them."""
    token = _NUMBERS.set(numbers_of(module))
    try:
        yield ops_by_number(module)
    finally:
        _NUMBERS.reset(token)


def number_in(name: str) -> tuple[int, bool] | None:
    """Parse the number of the op that a part of a compiled program belongs to, from its name.

    The flag is True for a part of the op's derivative.
    """
    found = _NUMBER.findall(name)
    if not found:
        return None
    op, number = found[-1]
    return int(number), op.endswith("_grad") or "transpose(" in name


def scope_of(op: Operation) -> str:
    """Compose the name under which the parts of an op appear in the compiled program."""
    if (number := _number_of(op)) is not None:
        return f"{op.name}#{number}"
    if not _FOR_FILES.get():
        return op.name
    words = [op.name]
    hint = next((result.name_hint for result in op.results if result.name_hint), None)
    if hint:
        words.insert(0, f"{hint} =")
    if isinstance(op.location, FileLineColLoc):
        words.append(f"at {_relative(op.location.filename.data)}:{op.location.line.data}")
    return " ".join(words)


def gradient_scope_of(op: Operation) -> str:
    """Compose the name of the parts of an op's derivative."""
    number = _number_of(op)
    return f"{op.name}_grad" if number is None else f"{op.name}_grad#{number}"


def _number_of(op: Operation) -> int | None:
    numbers = _NUMBERS.get()
    return None if numbers is None else numbers.get(op)


def _relative(file: str) -> str:
    """Shorten a source path relative to the script's folder; to its file name if outside."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script:
        folder = os.path.join(os.path.dirname(os.path.abspath(script)), "")
        if os.path.abspath(file).startswith(folder):
            return os.path.abspath(file).removeprefix(folder).replace(os.sep, "/")
    return file.replace("\\", "/").rpartition("/")[2]
