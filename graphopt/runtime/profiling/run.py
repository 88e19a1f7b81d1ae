"""Profiling a program: compiled once more with the numbers of its ops, and run on copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.numbers import ops_by_number
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.locations import numbered
from graphopt.passes.engine.naming import source_line
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.disk.known import types_of
from graphopt.runtime.profiling.instructions import InstructionOps, Instructions
from graphopt.runtime.profiling.memory import Memory, memory_in
from graphopt.runtime.profiling.names import names_are_kept, variable_of
from graphopt.runtime.profiling.peak import peak_flops
from graphopt.runtime.profiling.profile import Profile
from graphopt.runtime.profiling.recording import Recording, record
from graphopt.runtime.profiling.rows import InstructionEvent, OpTime
from graphopt.runtime.profiling.spread import IDLE, spread
from graphopt.runtime.runners.runner import write_learning_rates
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.settings.progress import announced
from graphopt.runtime.state.arrays import Feeds, HostArray
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.executable import Executable
from graphopt.runtime.steps.forms import Form

_WARM_UP = 2


def profiled(
    compilation: Compilation,
    state: Mapping[str, HostArray],
    feeds: Feeds,
    steps: int = 5,
) -> Profile:
    """Compile a program for one device and run it under JAX's profiler.

    It trains `state`, which has a value for each variable that a step reads, by name.
    Raises ValueError for a number of steps below 1, UnsupportedError for a program that XLA cannot
    compile as a whole or whose device has no events by instruction, and as `compile_program`.
    """
    if steps < 1:
        raise ValueError(f"steps should be 1 or more, found {steps}")
    alone = replace(compilation, data_parallel=False, places=compilation.places[:1])
    compiled = compile_program(alone)
    if compiled.wants_sizes and (sized := alone.for_feeds(feeds)) is not None:
        compiled = compile_program(sized)
    scope = Scope()
    for name, array in state.items():
        scope.var(name).put(array)
    if alone.program.lr_schedulers:
        write_learning_rates(alone.program, scope)
    if compiled.is_startup:
        raise UnsupportedError("a startup program runs op by op; profile the program that trains")
    executable = Executable(compiled, compiled.mapped(1, even=True), "it is profiled")
    types = types_of(executable.arguments(feeds, scope))
    with announced(lambda: "compiling a program with the numbers of its ops"):
        try:
            with numbered(compiled.module) as ops, names_are_kept(), jax.enable_x64(True):
                made = executable.replicated.function.lower(*types).compile(compiled.options())
        except NeedsData as error:
            raise UnsupportedError(f"the program runs op by op, as {error}") from None

    executable.form = Form(FULL, made, executable.prepare, executable.replicated.donates)

    def step() -> None:
        fetches = executable(feeds, scope)
        for fetch in fetches:
            np.asarray(fetch)
        if not fetches:  # the call has returned before the step is over
            jax.block_until_ready(executable.arguments(feeds, scope)[0])

    for _ in range(_WARM_UP):
        step()
    instructions = Instructions.of(executable.hlo())
    shapes = {name: np.shape(feed) for name, feed in feeds.items()}
    memory = memory_in(made, instructions, compiled, shapes, ops)
    return _profile(record(step, steps), instructions, compiled.module, memory)


def _profile(
    recording: Recording, instructions: Instructions, module: ModuleOp, memory: Memory
) -> Profile:
    """The profile of what was recorded."""
    count, ops = len(recording.steps), ops_by_number(module)
    times = spread(recording.steps, recording.instructions, instructions.is_control)
    by_part: defaultdict[InstructionOps, float] = defaultdict(float)
    other = 0.0
    for name, time in times.items():
        shares = instructions.shares(name)
        for part, share in shares.items():
            by_part[part] += time * share
        if name != IDLE and not shares:
            other += time
    flops = instructions.flops()
    scale = 1e-9 / count

    def row(number: int) -> OpTime:
        forward, gradient = (InstructionOps(number, is_gradient) for is_gradient in (False, True))
        return OpTime(
            ops[number].name,
            variable_of(ops[number]),
            source_line(ops[number].location),
            by_part[forward] * scale,
            by_part[gradient] * scale,
            flops[forward] + flops[gradient],
            number,
        )

    rows = [row(number) for number in sorted({part.number for part in by_part})]
    return Profile(
        tuple(sorted(rows, key=lambda row: -row.seconds)),
        sum(step.end - step.start for step in recording.steps) * scale,
        times.get(IDLE, 0.0) * scale,
        other * scale,
        count,
        peak_flops(),
        _events(recording, instructions, ops),
        module,
        memory,
    )


def _events(
    recording: Recording, instructions: Instructions, ops: Sequence[Operation]
) -> tuple[InstructionEvent, ...]:
    start = recording.steps[0].start
    found: list[InstructionEvent] = []
    for span in recording.instructions:
        shares = instructions.shares(span.name)
        largest = max(shares, key=lambda part: shares[part], default=None)
        op = None if largest is None else ops[largest.number]
        label = "" if op is None else f"{op.name} {variable_of(op)}".rstrip()
        line = "" if op is None else source_line(op.location)
        found.append(InstructionEvent(label, line, span.name, span.start - start, span.end - start))
    return tuple(found)
