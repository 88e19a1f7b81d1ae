"""Calls of steps whose results are recorded, whatever interrupts them.

A step takes the buffers of the old state, so its results are the only state. Python raises
exceptions of signal handlers, and those set by `PyThreadState_SetAsyncExc`, between two
instructions. So there must be no instruction between the step and the record of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import TypeAlias

import jax

from graphopt.runtime.state.arrays import Array, Arrays, FedArrays, HostArray, Results, Step
from graphopt.runtime.state.aside import aside
from graphopt.runtime.steps.scratch import scratch_of

NotedCall: TypeAlias = "Callable[[Arrays, Arrays, FedArrays, HostArray, list[Results]], None]"
_JITTED = type(jax.jit(lambda: None))


def noted_call(function: Step) -> NotedCall:
    """Build a call of a step that appends its results to a list; it raises the step's errors.

    After an interrupt the list has the results if the step has run. The first call of a compiled
    function, and the first with feeds of another kind, runs Python code of JAX. If it takes
    buffers, it is made on a separate thread. Each later one is a single call of C. A function that
    `is_wide` is called in `jax.enable_x64(True)`.
    """
    # the C functions for the kinds of feeds seen so far
    direct: dict[Hashable, Step] = {}
    scratch, wide = scratch_of(function), is_wide(function)

    def call(
        updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray, noted: list[Results]
    ) -> None:
        # for NumPy feeds, which are most, the types alone identify the kind
        known = direct.get(tuple(map(type, fed))) or direct.get(_kinds(fed))
        if known is not None:
            # one C call runs the step and appends its results
            noted.extend(map(known, (updated,), (read_only,), (fed,), (key,)))
            return

        def step() -> Results:
            # settings of JAX are local to a thread
            with jax.enable_x64(True) if wide else nullcontext():
                return function(updated, read_only, fed, key)

        if updated:
            aside(step, noted)
        else:
            noted.append(step())
        if (found := _direct(function)) is not None:
            direct[_kinds(fed)] = found

    if scratch is None:
        return call

    def call_in_scratch(
        updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray, noted: list[Results]
    ) -> None:
        with scratch:
            call(updated, read_only, scratch.place_feeds(fed), key, noted)

    return call_in_scratch


def is_wide(function: Step) -> bool:
    """Return False for a compiled function without 64-bit arguments and results."""
    if not isinstance(function, jax.stages.Compiled):
        return True
    types = jax.tree.leaves((function.in_avals, function.out_info))
    return any(each.dtype.itemsize > 4 for each in types)


def _direct(function: Step) -> Step | None:
    """Return the C function of a compiled JAX function after its first call, None without one.

    JAX has no public name for it. Without it, each call is made on a separate thread.
    """
    inner = getattr(function, "_call", None)
    return inner if type(inner) is _JITTED else None


def _kinds(fed: FedArrays) -> Hashable:
    """List all by which JAX distinguishes feeds, except shapes and dtypes, which a step fixes."""
    return tuple(map(_kind, fed))


def _kind(array: Array | list[Array]) -> Hashable:
    if isinstance(array, list):
        return tuple(map(_kind, array))
    if isinstance(array, jax.Array):
        return array.sharding, array.committed, array.weak_type
    return type(array)
