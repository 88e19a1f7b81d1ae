"""Exceptions of Python functions that a step calls: raised when the step is over."""

from __future__ import annotations

from typing import Any

import jax

from graphopt.errors import CallbackError, CheckError
from graphopt.ir.dialect.op import PdOp
from graphopt.lowering.host import CallingRun
from graphopt.passes.engine.naming import source_line


def finish(run: CallingRun, results: Any) -> None:
    """Wait for a step, and raise what its functions raised.

    CheckError for asserts, CallbackError for others; what interrupted them unchanged.
    """
    jax.block_until_ready(results)
    jax.effects_barrier()
    others = [one for one in run.raised if not isinstance(one[1], CheckError)]
    if others:
        key, error = others[0]
        if not isinstance(error, Exception) or _of_a_handler(error):
            raise error
        raise CallbackError(_told(run.callers[key], error)) from error
    if run.raised:
        raise CheckError("\n".join(dict.fromkeys(str(error) for _, error in run.raised)))


def _of_a_handler(error: Exception) -> bool:
    """True if a handler of a signal raised the error: its frame was given the frame before it.

    A function cannot be called again to see whether its error comes again.
    """
    trace, before = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        values = [*frame.f_locals.values()]
        values += [one for value in values if isinstance(value, tuple) for one in value]
        if before is not None and any(value is before for value in values):
            return True
        trace, before = trace.tb_next, frame
    return False


def _told(op: PdOp, error: Exception) -> str:
    """The message for an exception: which op of which line, and for what variables."""
    names = op.attr("variables" if "variables" in op.attr_values() else "variable")
    names = [names] if isinstance(names, str) else names
    shown = ", ".join(f"'{name}'" for name in names)
    line = source_line(op.location)
    where = f" (made at {line})" if line else ""
    return (
        f"{op.name} of {shown}{where} called a Python function that raised "
        f"{type(error).__name__}: {error}\nThe step stored nothing: parameters and optimizer state "
        "are as they were before it"
    )
