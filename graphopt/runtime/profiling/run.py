"""Profiling of a program: compile it with the numbers of its ops, and run it on copies.

Each moment of a step is shared equally by all instructions that ran then.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.numbers import ops_by_number
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.locations import number_ops
from graphopt.passes.engine.naming import source_line
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.disk.known import types_of
from graphopt.runtime.profiling.instructions import InstructionOps, Instructions
from graphopt.runtime.profiling.memory import Memory, memory_in
from graphopt.runtime.profiling.peak import ProductForm, peaks, seconds_at
from graphopt.runtime.profiling.profile import Profile
from graphopt.runtime.profiling.recording import InstructionSpan, Recording, record
from graphopt.runtime.profiling.rows import InstructionEvent, OpTime, keep_names, variable_of
from graphopt.runtime.runners.runner import write_learning_rates
from graphopt.runtime.settings.flags import FULL
from graphopt.runtime.settings.progress import announce
from graphopt.runtime.state.arrays import Feeds, HostArray
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.executable import Executable
from graphopt.runtime.steps.forms import Form

IDLE = ""
"""The name for time in which no instruction ran."""


def spread_time(
    steps: Sequence[InstructionSpan], spans: Sequence[InstructionSpan], leads: Callable[[str], bool]
) -> Mapping[str, float]:
    """Map names to nanoseconds, which sum to the time of all steps; `IDLE` for no instruction.

    An instruction that only runs others, such as a loop, gets the moments in which none of them
    ran.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for step in steps:
        inside = [span for span in spans if max(span.start, step.start) < min(span.end, step.end)]
        _add_step(found, step, inside, leads)
    return found


def _add_step(
    found: defaultdict[str, float],
    step: InstructionSpan,
    spans: Sequence[InstructionSpan],
    leads: Callable[[str], bool],
) -> None:
    starts = [(max(span.start, step.start), 1, span.name) for span in spans]
    ends = [(min(span.end, step.end), -1, span.name) for span in spans]
    working, leading = Counter[str](), Counter[str]()
    now = step.start
    # at equal times starts come first, so that no count is negative
    for moment, change, name in sorted([*starts, *ends], key=lambda each: (each[0], -each[1])):
        _give(found, moment - now, working or leading)
        now, group = moment, leading if leads(name) else working
        group[name] += change
        if not group[name]:
            del group[name]
    _give(found, step.end - now, Counter())


def _give(found: defaultdict[str, float], time: float, running: Mapping[str, int]) -> None:
    if not running:
        found[IDLE] += time
    total = sum(running.values())
    for name, count in running.items():
        found[name] += time * count / total


_WARM_UP = 2
# without the profiler: the seconds in which a step is measured, and the most measurements
_ENOUGH, _MOST = 0.3, 100


def profile_compilation(
    compilation: Compilation,
    state: Mapping[str, HostArray],
    feeds: Feeds,
    steps: int = 5,
) -> Profile:
    """Compile a program for one device and run it under JAX's profiler.

    It trains `state`, which has a value for each variable that a step reads, by name. Raise
    ValueError for a number of steps below 1, UnsupportedError for a program that XLA cannot compile
    as a whole or whose device has no events by instruction, and the errors of `compile_program`.
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
    executable = Executable(compiled, compiled.map_replicas(1, even=True), "it is profiled")
    types = types_of(executable.arguments(feeds, scope))
    with announce(lambda: "compiling a program with the numbers of its ops"):
        try:
            with number_ops(compiled.module) as ops, keep_names(), jax.enable_x64(True):
                made = executable.replicated.function.lower(*types).compile(compiled.options())
        except NeedsData as error:
            raise UnsupportedError(f"the program runs op by op, as {error}") from None

    executable.form = Form(FULL, made, compiled.prepare, executable.replicated.donates)

    def step() -> None:
        fetches = executable(feeds, scope)
        for fetch in fetches:
            np.asarray(fetch)
        if not fetches:  # the call has returned before the step has ended
            jax.block_until_ready(executable.arguments(feeds, scope)[0])

    for _ in range(_WARM_UP):
        step()
    instructions = Instructions.of(executable.hlo())
    shapes = {name: np.shape(feed) for name, feed in feeds.items()}
    memory = memory_in(made, instructions, compiled, shapes, ops)
    seconds = _median_seconds(step, steps)
    return _profile(record(step, steps), seconds, instructions, compiled.module, memory)


def _median_seconds(step: Callable[[], None], least: int) -> float:
    """Measure a step without the profiler, whose overhead exceeds a small program's time."""
    found: list[float] = []
    end = time.perf_counter() + _ENOUGH
    while len(found) < least or (time.perf_counter() < end and len(found) < _MOST):
        start = time.perf_counter()
        step()
        found.append(time.perf_counter() - start)
    return median(found)


def _profile(
    recording: Recording,
    measured: float,
    instructions: Instructions,
    module: ModuleOp,
    memory: Memory,
) -> Profile:
    """Build the profile of a recording; `measured` is the time of a step without the profiler."""
    count, ops = len(recording.steps), ops_by_number(module)
    times = spread_time(recording.steps, recording.instructions, instructions.is_control)
    by_part: defaultdict[InstructionOps, float] = defaultdict(float)
    other = 0.0
    for name, spent in times.items():
        shares = instructions.shares(name)
        for part, share in shares.items():
            by_part[part] += spent * share
        if name != IDLE and not shares:
            other += spent
    flops = instructions.flops()
    scale = 1e-9 / count

    def seconds_of(number: int) -> tuple[float, float]:
        forward, gradient = (
            by_part[InstructionOps(number, each)] * scale for each in (False, True)
        )
        return forward, gradient

    def flops_of(number: int) -> Counter[ProductForm]:
        none = Counter[ProductForm]()
        return sum((flops.get(InstructionOps(number, each), none) for each in (False, True)), none)

    numbers = sorted({part.number for part in by_part})
    work = {number: (flops_of(number), sum(seconds_of(number))) for number in numbers}
    best = peaks([*work.values()])
    rows = [
        OpTime(
            ops[number].name,
            variable_of(ops[number]),
            source_line(ops[number].location),
            *seconds_of(number),
            work[number][0].total(),
            number,
            seconds_at(work[number][0], best),
        )
        for number in numbers
    ]
    computing = sum(row.seconds for row in rows) + other * scale
    whole = max(measured, computing)
    return Profile(
        tuple(sorted(rows, key=lambda row: -row.seconds)),
        whole,
        whole - computing,
        other * scale,
        count,
        {str(form): rate for form, rate in sorted(best.items())},
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
