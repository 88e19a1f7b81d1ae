"""A program compiled for the sizes of its feeds, where it leaves them open and they matter.

Passes for a platform choose by sizes: how a convolution is computed, in which order matrices are
multiplied. What NumPy computes needs none of that, so a program is compiled with its open sizes
first, and once more for each set of sizes that XLA compiles a form for.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakSet

from graphopt.errors import GraphoptError
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.known import Arguments
from graphopt.runtime.disk.summaries import compiled_or_known
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.step_state import StepState


class Sized(NamedTuple):
    """A program for the sizes of its feeds, the types of its arguments, and its state.

    The state may be laid out in another way than that of the program with open sizes.
    """

    compiled: Compiled
    replicated: Replicated
    arguments: Arguments
    state: StepState


def compile_for_sizes(
    compiled: Compiled, replicated: Replicated, arguments: Arguments, shared: WeakSet[Prepare]
) -> Sized | None:
    """The program for arguments of these types; None where it would be the same.

    Programs for several sizes have the same prepared values, where these are alike: those in
    `shared`.
    """
    if not compiled.wants_sizes or replicated.name != "alone" or compiled.calls_python:
        return None
    fed = dict(zip([port.name for port in compiled.plan.feeds], arguments[2], strict=True))
    compilation = compiled.compilation.for_feeds(fed)
    if compilation is None:
        return None
    version = compilation.program.version
    try:
        made = compiled_or_known(compilation)
    except GraphoptError:  # the form with open sizes says what is wrong
        return None
    plan = made.plan
    same = [port.name for port in plan.feeds] == [*fed] and len(plan.fetches) == len(
        compiled.plan.fetches
    )
    if not same or not plan.sizes_are_known or compilation.program.version != version:
        return None
    if (prepare := made.prepare) is not None:
        made.prepare = next((each for each in shared if each.is_like(prepare)), prepare)
        shared.add(made.prepare)
    _note_both(compiled, made)
    found = made.map_replicas(1, even=True)
    updated = tuple(map(found.type_of, plan.updated))
    read_only = tuple(map(found.type_of, (*plan.read_only, *plan.prepared)))
    return Sized(made, found, (updated, read_only, *arguments[2:]), StepState(made, found))


def _note_both(compiled: Compiled, made: Compiled) -> None:
    """Have a later process know the program with open sizes where it knows that for some."""
    note, own = compiled.note, made.note
    if note is None:
        return

    def both(_: Compiled) -> None:
        note(compiled)
        if own is not None:
            own(made)

    made.note = both
