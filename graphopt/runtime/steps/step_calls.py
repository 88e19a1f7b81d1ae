"""Calls of steps whose results are noted, whatever interrupts them.

A step takes the buffers of the old state, so its results are the only state there is. Python
raises what handlers of signals raise, and what `PyThreadState_SetAsyncExc` sets, between two
instructions. So between the step and the note of its results there may be none.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import nullcontext

import jax
import numpy as np

from graphopt.runtime.state.arrays import Array, Arrays, FedArrays, HostArray, Results, Step
from graphopt.runtime.state.aside import aside
from graphopt.runtime.steps.scratch import Scratch

_JITTED = type(jax.jit(lambda: None))


class StepCalls:
    """Calls of the function of a step, one after the other.

    The first call of a compiled function goes through Python code of JAX, and so does the first one
    with feeds of another kind. If it takes buffers, it is made on a thread of its own. Each later
    one is a call of C. Calls of a function that `is_wide` are made in `jax.enable_x64(True)`.
    """

    def __init__(self, function: Step) -> None:
        self.function = function
        self.is_wide = _is_wide(function)
        self.scratch = Scratch(function)
        # the same as a function of C, by the kinds of feeds with which it has been called
        self._direct: dict[Hashable, Step] = {}

    def __call__(
        self,
        updated: Arrays,
        read_only: Arrays,
        fed: FedArrays,
        key: HostArray,
        noted: list[Results],
    ) -> None:
        """Run one step and append its results to `noted`; raises what it raises.

        After an interrupt `noted` has the results of a step that has run.
        """
        scratch = self.scratch
        if scratch.keeps:
            with scratch:
                self._call(updated, read_only, scratch.fed(fed), key, noted)
        else:
            self._call(updated, read_only, fed, key, noted)

    def _call(
        self,
        updated: Arrays,
        read_only: Arrays,
        fed: FedArrays,
        key: HostArray,
        noted: list[Results],
    ) -> None:
        kinds = _kinds(fed)
        direct = self._direct.get(kinds)
        if direct is not None:
            # one call of C runs it and notes its results
            noted.extend(map(direct, (updated,), (read_only,), (fed,), (key,)))
            return

        def step() -> Results:
            # the thread of the call has settings of its own
            with jax.enable_x64(True) if self.is_wide else nullcontext():
                return self.function(updated, read_only, fed, key)

        if updated:
            aside(step, noted)
        else:
            noted.append(step())
        direct = _direct(self.function)
        if direct is not None:
            self._direct[kinds] = direct


def _is_wide(function: Step) -> bool:
    """False for a compiled function without arguments and results of 64-bit numbers."""
    if not isinstance(function, jax.stages.Compiled):
        return True
    types = jax.tree.leaves((function.in_avals, function.out_info))
    return any(each.dtype.itemsize > 4 for each in types)


def _direct(function: Step) -> Step | None:
    """The function of C that a compiled function of JAX is after its first call, None without one.

    JAX has no public name for it. Without it each call is made on a thread of its own.
    """
    inner = getattr(function, "_call", None)
    return inner if type(inner) is _JITTED else None


def _kinds(fed: FedArrays) -> Hashable:
    """All by which JAX distinguishes feeds, but for shapes and dtypes, which a step fixes."""
    types = tuple(map(type, fed))
    if types.count(np.ndarray) == len(types):
        return types
    return tuple([_kind(array) for array in fed])


def _kind(array: Array | list[Array]) -> Hashable:
    if isinstance(array, list):
        return tuple(map(_kind, array))
    if isinstance(array, jax.Array):
        return array.sharding, array.committed, array.weak_type
    return type(array)
