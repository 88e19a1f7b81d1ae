"""The number of iterations of a loop whose counter and bound follow from the program."""

from __future__ import annotations

from graphopt.ir.dialect.known import Known
from graphopt.ir.dialect.ops.control import While

# A loop that runs longer than this is not followed to its end.
MOST_TRIPS = 2048


def count_trips(loop: While, known: Known) -> int | None:
    """The number of iterations of a loop, None when it depends on the run or exceeds MOST_TRIPS."""
    going = known.truth(loop.condition)
    arguments = loop.body.block.args
    state = [known.array(value) for value in loop.carried]
    trips = 0
    while going and trips < MOST_TRIPS:
        trips += 1
        inner = Known(dict(zip(arguments, state, strict=True)), known)
        condition, *values = loop.yielded()
        going = inner.truth(condition)
        if going is None:
            return None
        state = [
            None if old is None else inner.array(value)
            for old, value in zip(state, values, strict=True)
        ]
    return None if going is None or going else trips
