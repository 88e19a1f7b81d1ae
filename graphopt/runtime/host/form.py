"""The host form of an inference step: NumPy computes one op after the other.

XLA takes seconds to compile what NumPy computes in a fraction of one, so the first run with feeds
of new sizes need not wait for it. Rules are those of the reference interpreter, in the precision
that is declared, and quicker ones where that matters (`rules.py`).
"""

from __future__ import annotations

import math
import time
from copy import copy

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import If, RegionOp, While
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import (
    FEED,
    function_signature,
    hashes_dropout,
    main_function,
)
from graphopt.lowering.denormals import flushed_denormals
from graphopt.reference.interpreter import WALKED, supports
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.host.blas_threads import blas_threads
from graphopt.runtime.host.body import NATIVE, Body, Running, Slots
from graphopt.runtime.host.by_lowering import import_lowering, is_lowered
from graphopt.runtime.host.failures import compute_or_raise
from graphopt.runtime.state.arrays import Arrays, FedArrays, HostArray, Results


class HostForm:
    """A step of an inference program in NumPy, which has `spent` so many seconds in all runs.

    A run that takes longer than `price` seconds, as compiling the program does, is given up. `last`
    are the arguments of the last run of a program whose sizes may depend on data, which are needed
    to time another form. The forms for several sizes of one program (`for_sizes`) have one body.
    """

    def __init__(self, compiled: Compiled) -> None:
        main = main_function(compiled.module)
        slots: Slots = {}
        self._body = Body(main.body.block, slots)
        self._slots = len(slots)
        assert main.body.block.last_op is not None
        self._returned = main.body.block.last_op.operands
        plan = compiled.plan
        read_only = (*plan.read_only, *plan.prepared)
        given = {(p.kind, p.name): at for at, p in enumerate((*read_only, *plan.feeds))}
        signature = function_signature(main)
        self._positions = [given[port.kind, port.name] for port in signature.arguments]
        self._place = compiled.compilation.places[0]
        if any(map(is_lowered, main.body.walk())):
            import_lowering(self._place)
        self._hashes = hashes_dropout(compiled.module)
        self.spent = 0.0
        self.price = math.inf
        self._keeps = _may_need_data(compiled.module)
        self.has_loops = _has_loops(compiled.module)
        self.last: tuple[Arrays, Arrays, FedArrays, HostArray] | None = None

    def __call__(
        self, updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray
    ) -> Results:
        """The fetches of one step, which changes no state; HostFailure where there are none."""
        given = compute_or_raise(lambda: [NATIVE.enter(np.asarray(a)) for a in (*read_only, *fed)])
        began = time.thread_time()
        end = began + self.price
        running = Running([None] * self._slots, end, key, self._place, self._hashes)
        with np.errstate(all="ignore"), flushed_denormals(), blas_threads.watch_run():
            values = self._body.run(running, [given[at] for at in self._positions])
        self.spent += time.thread_time() - began
        self.last = (updated, read_only, fed, key) if self._keeps else None
        # copies: a result may be a feed, a parameter, or a part of one
        pairs = [*zip(self._returned, values, strict=True)]
        return compute_or_raise(
            lambda: tuple(np.array(NATIVE.left(*p), order="C") for p in pairs)
        ), ()

    def for_sizes(self, price: float) -> HostForm:
        """A form of its own for more sizes of the program."""
        form = copy(self)
        form.spent, form.price, form.last = 0.0, price, None
        return form

    def release_arguments(self) -> None:
        """The other form has been timed, so that no arguments are needed."""
        self._keeps, self.last = False, None


def has_host_form(compiled: Compiled) -> bool:
    """True for a program that NumPy computes, and that changes no state."""
    plan = compiled.plan
    if plan.written or plan.updated or plan.steps != 1:
        return False
    if compiled.calls_python or any(port.kind != FEED for port in plan.feeds):
        return False
    ops = main_function(compiled.module).body.walk()
    return all(map(_is_computed, ops))


def _has_loops(module: ModuleOp) -> bool:
    """True for a program with loops, in which sizes may change."""
    return any(isinstance(op, While) for op in module.walk())


def _may_need_data(module: ModuleOp) -> bool:
    """True for a program that may be no compiled program of a step (`lowering/needs_data.py`)."""
    kinds = (DataSizedOp, Dynamic, If)
    return any(isinstance(op, kinds) for op in main_function(module).body.walk())


def _is_computed(op: Operation) -> bool:
    """True for an op that NumPy or its lowering computes; those in its regions are others."""
    if isinstance(op, (Grad, RegionOp)):
        return isinstance(op, WALKED)
    return is_lowered(op) or supports(op)
