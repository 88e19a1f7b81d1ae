"""Failures of a run in NumPy: an op's own errors, as opposed to interrupts.

A signal handler, or another thread, may raise any exception between any two instructions. Such an
exception is for the caller of the run. So an op that fails is computed once more, and only an error
that recurs is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from graphopt.errors import comes_again
from graphopt.runtime.state.uninterrupted import Uninterrupted

T = TypeVar("T")


class HostFailure(Exception):
    """A run in NumPy that ends without results."""


class GivenUp(HostFailure):
    """A run that takes too long."""


class OpError(HostFailure):
    """An op that NumPy fails to compute; the cause is its error."""


def fails_again(call: Callable[[], Any], error: Exception) -> bool:
    """Return whether `call`, which raised this error, raises such an error again.

    Signal handlers wait meanwhile; their exceptions are raised here.
    """
    with Uninterrupted():
        is_own = comes_again(call, error)
    return is_own


def compute_or_raise(call: Callable[[], T]) -> T:
    """Call a function; OpError for an error of its own, interrupts pass unchanged."""
    try:
        return call()
    except HostFailure:
        raise
    except Exception as error:
        if fails_again(call, error):
            raise OpError(str(error)) from error
        raise
