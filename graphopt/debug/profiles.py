"""Profiling the programs of a file or script, on the inputs that they have or on random ones."""

from __future__ import annotations

from dataclasses import replace

from graphopt.debug.program_source import Inputs, Subject, complete
from graphopt.runtime.profiling.profile import Profile
from graphopt.runtime.profiling.run import profile_compilation
from graphopt.runtime.settings.strategies import BuildStrategy


def is_fed(subject: Subject) -> bool:
    """True for a program of operators that has feeds, unlike a startup program."""
    return subject.compilation is not None and bool(subject.compilation.feeds)


def profile_of(
    subject: Subject, strategy: BuildStrategy | None, inputs: Inputs, steps: int = 5
) -> tuple[Profile, list[str]]:
    """Profile a program that is fed; also return the names of its random inputs.

    The strategy is for a program without one. Raises as `complete` and `profiled`.
    """
    compilation = subject.compilation
    assert compilation is not None
    arrays, made_up = complete(subject, inputs)
    if strategy is not None and compilation.strategy is None:
        compilation = replace(compilation, strategy=strategy)
    feeds = {name: arrays.pop(name) for name in compilation.feeds}
    return profile_compilation(compilation, arrays, feeds, steps), made_up
