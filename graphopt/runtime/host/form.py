"""The host form of an inference step: NumPy computes one op after the other.

XLA takes seconds to compile what NumPy computes in a fraction of one, so the first run with feeds
of new sizes need not wait for it. Rules are those of the reference interpreter, in the precision
that is declared, and quicker ones where that matters (`rules.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import jax
import numpy as np
from xdsl.ir import Operation

from graphopt.ir.dialect.definition import as_property
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule, class_of
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import While
from graphopt.ir.dialect.ops.dynamic import Dynamic, decoded, grouped
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.signature import FEED, function_signature, main_function
from graphopt.ir.dialect.types import dtype_of
from graphopt.reference.interpreter import Environment, Run, is_random, supports
from graphopt.reference.registry import RULES, Rule
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.host.rules import QUICK
from graphopt.runtime.state.arrays import Arrays, FedArrays, HostArray, Results, Step

SECONDS = 2.0
"""A run that takes longer is given up, and compiled after all."""


class GivenUp(Exception):
    """A run takes too long."""


class HostForm:
    """A step of an inference program in NumPy; `compiled_step` compiles what it cannot compute.

    It gives up in favour of a compiled step where a rule fails, which XLA reports better, and where
    a run takes long.
    """

    def __init__(self, compiled: Compiled, compiled_step: Callable[[], Step]) -> None:
        self._main = main_function(compiled.module)
        plan = compiled.plan
        read_only = (*plan.read_only, *plan.prepared)
        given = {(p.kind, p.name): at for at, p in enumerate((*read_only, *plan.feeds))}
        signature = function_signature(self._main)
        self._positions = [given[port.kind, port.name] for port in signature.arguments]
        self._device = device_of(compiled.compilation.places[0])
        self._compiled = compiled
        self._compiled_step = compiled_step

    def __call__(
        self, updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray
    ) -> Results:
        """The fetches of one step, which changes no state."""
        given = [*map(np.asarray, (*read_only, *fed))]
        try:
            fetches = self._computed(given)
        except Exception as error:  # whatever it is, the compiled step runs or says what is wrong
            if isinstance(error, GivenUp):
                self._compiled.slow_elements = sum(array.size for array in given[len(read_only) :])
            return self._compiled_step()(updated, read_only, fed, key)
        return tuple(jax.device_put(fetches, self._device)), ()

    def _computed(self, given: Sequence[HostArray]) -> list[HostArray]:
        run, block = HostRun(time.monotonic() + SECONDS), self._main.body.block
        env: Environment = {
            argument: run.entered(given[at])
            for argument, at in zip(block.args, self._positions, strict=True)
        }
        with np.errstate(all="ignore"):
            values = run.block(block, env)
        assert block.ops.last is not None
        results = zip(block.ops.last.operands, values, strict=True)
        return [run.left(result, value) for result, value in results]


class HostRun(Run):
    """One evaluation in the declared precision, until a time of the monotonic clock."""

    def __init__(self, end: float) -> None:
        super().__init__("native", 0)
        self._end = end

    def rule(self, op_class: type[PdOp]) -> Rule:
        """The quick rule if there is one."""
        return QUICK.get(op_class) or RULES[op_class]

    def op(self, op: Operation, env: Environment, followed: bool) -> list[HostArray]:
        """The results of one op; GivenUp when time is up."""
        if time.monotonic() > self._end:
            raise GivenUp
        return self._late(op, env) if isinstance(op, Dynamic) else super().op(op, env, followed)

    def _late(self, op: Dynamic, env: Environment) -> list[HostArray]:
        """The results of an op with properties that the run decides."""
        op_class = class_of(op.attr("op"))
        bound = decoded(op_class, op.attr("attrs"))
        for name, value in zip(op.attr("dynamic"), op.values, strict=True):
            bound[name] = as_property(op_class, name, env[value].reshape(-1).tolist())
        inputs = [env[value] for value in op.inputs]
        bound |= bind_groups(op_class, grouped(inputs, op.attr("groups")))
        found = call_rule(self.rule(op_class), bound | self.helpers(op))
        dtypes = [dtype_of(result.type) for result in op.results]
        results = found if isinstance(found, tuple) else (found,)
        return [self.rounded(value, dtype) for value, dtype in zip(results, dtypes, strict=True)]


def has_host_form(compiled: Compiled, elements: int) -> bool:
    """True for a program that NumPy computes, for feeds of so many elements.

    It changes no state and has no loops. Feeds of as many elements have not taken too long.
    """
    plan = compiled.plan
    if elements >= compiled.slow_elements:
        return False
    if plan.written or plan.updated or plan.steps != 1:
        return False
    if compiled.calls_python or any(port.kind != FEED for port in plan.feeds):
        return False
    ops = main_function(compiled.module).body.walk()
    return all(map(_is_computed, ops))


def _is_computed(op: Operation) -> bool:
    # sizes that depend on data, and loops of unknown length, take other ways than a compiled step
    if isinstance(op, (DataSizedOp, While, Grad)) or (isinstance(op, RandomOp) and is_random(op)):
        return False
    if isinstance(op, Dynamic):
        op_class = class_of(op.attr("op"))
        return op_class in RULES and not issubclass(op_class, (RandomOp, DataSizedOp))
    return supports(op)
