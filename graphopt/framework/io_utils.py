"""Variables and files in saving and loading (paddle.framework.io_utils)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable
from graphopt.static.variable_files import is_parameter as is_parameter
from graphopt.static.variable_files import is_persistable as is_persistable


def is_belong_to_optimizer(var: Variable) -> bool:
    """True for state that is not a parameter, such as an optimizer's (is_belong_to_optimizer)."""
    return var.persistable and not is_parameter(var) and not var.need_check_feed


def is_pir_fetch_var(value: Any) -> bool:
    """Return False: a program has Operators, and no values of PIR (is_pir_fetch_var)."""
    return False


def get_value(var: Variable, scope: Any = None) -> Any:
    """Read a persistable variable in a scope, as its method (get_value)."""
    return var.get_value(scope)


def set_value(var: Variable, value: Any, scope: Any = None) -> None:
    """Write a persistable variable in a scope, as its method (set_value)."""
    var.set_value(value, scope)


@contextmanager
def _open_buffer(buffer: IO[bytes], mode: str) -> Iterator[IO[bytes]]:
    start = buffer.tell()
    try:
        yield buffer
    except BaseException:
        if "r" in mode:
            buffer.seek(start)
        raise
    if "w" in mode:
        buffer.flush()


def _open_file_buffer(path_or_buffer: Any, mode: str) -> Any:
    """Open a file by its path, or a buffer, for `with`; a failed read restores the position.

    Raises ValueError for a mode of a buffer without `r` and `w`.
    """
    if isinstance(path_or_buffer, str):
        return open(path_or_buffer, mode)
    if "r" not in mode and "w" not in mode:
        raise ValueError(f"Expected 'r' or 'w' in mode but got {mode}")
    return _open_buffer(path_or_buffer, mode)


publish(globals(), __name__)
