"""The host form of a step: NumPy computes one op after the other.

XLA takes seconds to compile programs that NumPy computes in a fraction of one, so the first run
with feeds of new sizes need not wait for it. It uses the rules of the reference interpreter, in the
declared precision, and quicker ones where speed matters (`rules.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from copy import copy

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import If, RegionOp, While
from graphopt.ir.dialect.ops.conv import Conv2dBase
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.signature import (
    FEED,
    function_signature,
    main_function,
)
from graphopt.ir.dialect.types import shape_of
from graphopt.lowering.denormals import flushed_denormals
from graphopt.passes.engine.costs import cost_of_op
from graphopt.reference.interpreter import WALKED, supports
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.heap import keep_heap
from graphopt.runtime.host.blas_threads import PRODUCTS, blas_threads
from graphopt.runtime.host.body import NATIVE, Body, Running, Slots
from graphopt.runtime.host.by_lowering import import_lowering, is_lowered
from graphopt.runtime.host.derivatives import is_differentiated
from graphopt.runtime.host.failures import compute_or_raise
from graphopt.runtime.state.arrays import Arrays, FedArrays, HostArray, Results

RATE = 3e10
"""NumPy's approximate FLOP/s in matrix products."""
CONVOLUTION = 3
"""The time of an operation in a convolution, relative to one in a matrix product."""
UPDATE = 3e-9
"""The approximate seconds to update an element of the state."""
CALL, STEP = 3e-5, 1.4e-4
"""The approximate overhead in seconds of an operator, and of a step of a recurrent cell."""
HELD = 128 << 20
"""The bytes of intermediate values that stay with the process from run to run."""
STATES = 12
"""The bytes for each element of the state: its gradient, old value and new value."""
WITH_DERIVATIVE = 3
"""The FLOPs of a step with its derivative, relative to the step alone."""


class HostForm:
    """A step in NumPy, which has `spent` so many CPU seconds in all runs.

    A run that takes longer than `price` seconds, the time to compile the program, is given up.
    `last` has the arguments of the last run of a program whose sizes may depend on data; they are
    needed to time another form. The forms for several sizes of one program (`for_sizes`) share one
    body.
    """

    def __init__(self, compiled: Compiled) -> None:
        main = main_function(compiled.module)
        slots: Slots = {}
        self._body = Body(main.body.block, slots)
        self._slots = len(slots)
        assert main.body.block.last_op is not None
        self._returned = main.body.block.last_op.operands
        plan = compiled.plan
        state = (*plan.updated, *plan.read_only, *plan.prepared)
        given = {(p.kind, p.name): at for at, p in enumerate((*state, *plan.feeds))}
        self._fetches, self._feeds = len(plan.fetches), plan.feeds
        signature = function_signature(main)
        self._positions = [given[port.kind, port.name] for port in signature.arguments]
        self._place = compiled.compilation.places[0]
        if any(map(is_lowered, main.body.walk())):
            import_lowering(self._place)
        self._multiplies = False  # True when products took most of the last run
        self.spent = 0.0
        self.price = math.inf
        self.repeats = False
        """True when every run of a script must give the same bits, so that no time decides."""
        self._flops = _flops_of(compiled.module) if plan.written else 0
        self._cells = _cells_of(compiled.module)
        self._called = CALL * compiled.size
        self._updated = sum(math.prod(map(abs, port.shape)) for port in plan.updated)
        self._keeps = _may_need_data(compiled.module)
        keep_heap(HELD + STATES * self._updated)
        self.has_loops = _has_loops(compiled.module)
        self.last: tuple[Arrays, Arrays, FedArrays, HostArray] | None = None

    def __call__(
        self, updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray
    ) -> Results:
        """Compute the fetches and the new state of one step; HostFailure if it fails."""
        arrays = (*updated, *read_only, *fed)
        given = compute_or_raise(lambda: [NATIVE.enter(np.asarray(a)) for a in arrays])
        began = time.thread_time()
        end = math.inf if self.repeats else began + self.price
        running = Running([None] * self._slots, end, key, self._place)
        threads = blas_threads.watch_run(has_all=self._multiplies and not self.repeats)
        with np.errstate(all="ignore"), flushed_denormals(), threads:
            values = self._body.run(running, [given[at] for at in self._positions])
        self.spent += time.thread_time() - began
        self._multiplies = running.products > PRODUCTS * running.long
        self.last = (updated, read_only, fed, key) if self._keeps else None
        pairs = [*zip(self._returned, values, strict=True)]
        results = compute_or_raise(lambda: [NATIVE.left(*pair) for pair in pairs])
        # copies: a result may be a feed, a parameter, or a view of one
        fetched = tuple([np.array(each, order="C") for each in results[: self._fetches]])
        return fetched, _own_arrays(results[self._fetches :], given)

    def for_sizes(self, price: float, *, repeats: bool) -> HostForm:
        """Copy the form for other sizes of the program, with times of its own."""
        form = copy(self)
        form.spent, form.price, form.repeats, form.last = 0.0, price, repeats, None
        return form

    def training_seconds(self, fed: FedArrays) -> float:
        """Estimate the seconds of a step with these feeds, the same in every run."""
        sizes = [
            [n for n, size in zip(array.shape, port.shape, strict=True) if size < 0]
            for port, array in zip(self._feeds, fed, strict=True)
            if not isinstance(array, list)
        ]
        rows, longest = (max(map(f, sizes), default=1) for f in (math.prod, _largest))
        steps = sum(count * (longest if length < 0 else length) for count, length in self._cells)
        products = WITH_DERIVATIVE * (rows * self._flops / RATE + steps * STEP)
        return products + UPDATE * self._updated + self._called

    def release_arguments(self) -> None:
        """Drop the kept arguments once the other form has been timed."""
        self._keeps, self.last = False, None


def _own_arrays(results: Sequence[HostArray], given: Sequence[HostArray]) -> Arrays:
    """Copy new state only where an array shares memory with an argument or another result.

    To copy all of it would take as long as to compute it.
    """
    taken = set(map(id, given))
    own: list[HostArray] = []
    for result in results:
        is_own = result.base is None and result.flags.c_contiguous and id(result) not in taken
        own.append(result if is_own else np.array(result, order="C"))
        taken.add(id(result))
    return tuple(own)


def has_host_form(compiled: Compiled) -> bool:
    """Return whether NumPy computes a program.

    A training program must not need lowered ops: XLA would compile them one by one.
    """
    plan = compiled.plan
    if plan.steps != 1:
        return False
    if compiled.calls_python or any(port.kind != FEED for port in plan.feeds):
        return False
    ops = list(main_function(compiled.module).body.walk())
    return all(map(_is_computed, ops)) and not (plan.written and any(map(is_lowered, ops)))


def _flops_of(module: ModuleOp) -> int:
    """Count the FLOPs of products, weighted as matrix products; an unknown size counts as 1."""
    ops = [op for op in main_function(module).body.block.ops if isinstance(op, PdOp)]
    return sum(
        cost_of_op(op).flops * (CONVOLUTION if isinstance(op, Conv2dBase) else 1) for op in ops
    )


def _cells_of(module: ModuleOp) -> list[tuple[int, int]]:
    """List each `pd.rnn`'s number of layers times directions, and its sequence length."""
    found = [op for op in main_function(module).body.block.ops if isinstance(op, Rnn)]
    return [
        (op.attr("num_layers") * (2 if op.attr("is_bidirec") else 1), shape_of(op.x.type)[0])
        for op in found
    ]


def _largest(sizes: list[int]) -> int:
    return max(sizes, default=1)


def _has_loops(module: ModuleOp) -> bool:
    """Return whether a program has loops, in which sizes may change."""
    return any(isinstance(op, While) for op in module.walk())


def _may_need_data(module: ModuleOp) -> bool:
    """Return whether a step may fail to compile as one program (`lowering/needs_data.py`)."""
    kinds = (DataSizedOp, Dynamic, If)
    return any(isinstance(op, kinds) for op in main_function(module).body.walk())


def _is_computed(op: Operation) -> bool:
    """Return whether NumPy or its lowering computes an op; ops in its regions are separate."""
    if isinstance(op, Grad):
        return is_differentiated(op)
    if isinstance(op, RegionOp):
        return isinstance(op, WALKED)
    return is_lowered(op) or supports(op)
