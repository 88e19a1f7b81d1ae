"""The conversion of a profile to the data of a report."""

from __future__ import annotations

from graphopt.report.graph import OpMeasured
from graphopt.report.measured import MeasuredStep, StepMeasured
from graphopt.runtime.profiling.profile import Profile, peak_words


def measured_step(profile: Profile) -> MeasuredStep:
    """Convert a profile to the time and memory of a step and of its ops, by op number.

    It includes ops that took no time, but have bytes at the peak.
    """
    held = {each.number: each.bytes for each in profile.memory.held}
    ops = {number: OpMeasured(0.0, 0.0, 0, count) for number, count in held.items()}
    for row in profile.rows:
        if row.number is not None:
            count = held.get(row.number, 0)
            ops[row.number] = OpMeasured(row.seconds, row.gradient, row.flops, count, row.at_peak)
    memory = profile.memory
    step = StepMeasured(
        profile.seconds,
        profile.idle,
        profile.other,
        profile.steps,
        peak_words(profile.peaks),
        memory.peak,
        memory.state,
        memory.feeds,
    )
    return MeasuredStep(profile.module, step, ops)
