"""The ends of a run in NumPy that are its own, as an error of an op; what interrupts it is not.

A handler of a signal, or another thread, may raise any exception between any two instructions. Such
an exception is for the caller of the run. So an op that fails is computed once more, and only an
error that comes again is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from graphopt.errors import comes_again
from graphopt.runtime.state.uninterrupted import Uninterrupted

T = TypeVar("T")


class HostFailure(Exception):
    """A run in NumPy does not end with results."""


class GivenUp(HostFailure):
    """It takes too long."""


class OpError(HostFailure):
    """NumPy does not compute an op: the cause says why."""


def fails_again(call: Callable[[], Any], error: Exception) -> bool:
    """True if the call, which raised this error, raises such an error again.

    Handlers of signals wait meanwhile; what they raise is raised here.
    """
    with Uninterrupted():
        is_own = comes_again(call, error)
    return is_own


def compute_or_raise(call: Callable[[], T]) -> T:
    """The result of a call; OpError for an error of its own, and whatever interrupts it."""
    try:
        return call()
    except HostFailure:
        raise
    except Exception as error:
        if fails_again(call, error):
            raise OpError(str(error)) from error
        raise
