"""The form that follows the host form of a program whose sizes depend on data.

No program of XLA computes such a step as a whole: each op is one, compiled again for each size that
is new. NumPy compiles nothing, so it goes on unless XLA's ops are quicker by more than new sizes
are likely to cost. Where sizes change in each step of a loop, as in a decoder, it always does.
"""

from __future__ import annotations

import time

import jax

from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.host.form import HostForm, has_loops
from graphopt.runtime.state.arrays import Step

GAIN = 0.7
"""XLA's ops take over if they take at most this part of NumPy's time."""


def op_by_op(compiled: Compiled) -> Step | None:
    """The form op by op; None where loops would have XLA compile each of their ops many times."""
    return None if has_loops(compiled) else compiled.by_op().function


def op_by_op_or_host(compiled: Compiled, host: HostForm) -> tuple[Step, str]:
    """The quicker of the two forms for the arguments of the last run, and a line for reports.

    XLA's ops run twice, and are compiled in the first run. Raises what they raise.
    """
    by_op, given = op_by_op(compiled), host.last
    if by_op is None:
        return host, "host: sizes change in a loop, and NumPy compiles nothing for them"
    if given is None:
        return by_op, "op by op: NumPy took too long"

    def seconds(step: Step) -> float:
        began = time.perf_counter()
        jax.block_until_ready(step(*given))
        return time.perf_counter() - began

    with jax.enable_x64(True):
        seconds(by_op)
        ratio = seconds(by_op) / seconds(host)
    host.timed()
    if ratio <= GAIN:
        return by_op, f"op by op: XLA takes {ratio:.2f} of the time of NumPy"
    return host, f"host: op by op, XLA takes {ratio:.2f} of its time"
