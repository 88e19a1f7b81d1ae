"""The steps that have a rival, by flags and by what the program is."""

from __future__ import annotations

import jax

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.known import Arguments, Known
from graphopt.runtime.settings.flags import measures_kernels
from graphopt.runtime.steps.rivals import Outcome, Rival
from graphopt.runtime.steps.tiers import Made, shall_repeat


def rival_of(
    compiled: Compiled,
    replicated: Replicated,
    arguments: Arguments,
    sizes: str,
    form: object,
) -> Rival | None:
    """The rival of a step for arguments of these types; None where there shall be none.

    There is none beside requested kernels, for replicas and for steps that call Python,
    nor where a run shall give the bits of every other run.
    """
    if not (measures_kernels() and compiled.is_kept and replicated.name == "alone"):
        return None
    device = device_of(compiled.compilation.places[0])
    if device.platform != "cpu" or not replicated.donates or compiled.calls_python:
        return None
    if shall_repeat(compiled):
        return None

    def make() -> Made | None:
        # a known program does not import the dialect until then
        from graphopt.runtime.steps.with_kernels import with_kernels

        return with_kernels(compiled, arguments, sizes)

    with jax.enable_x64(True):  # as steps are compiled: the name of what is known depends on it
        known = Known.of(compiled, replicated, arguments)
    return Rival(form, Outcome(known), make)
