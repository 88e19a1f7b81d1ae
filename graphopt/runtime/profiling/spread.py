"""The time of steps, given to what ran in it: each moment in equal parts to all that ran then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from graphopt.runtime.profiling.recording import InstructionSpan

IDLE = ""
"""The name of the time in which no instruction ran."""


def spread(
    steps: Sequence[InstructionSpan], spans: Sequence[InstructionSpan], leads: Callable[[str], bool]
) -> Mapping[str, float]:
    """Nanoseconds by name, which sum to the time of all steps; `IDLE` for none.

    An instruction that only leads to others, such as a loop, has the moments in which none of them
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
    # at one moment starts come first, so that no count is below 0
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
