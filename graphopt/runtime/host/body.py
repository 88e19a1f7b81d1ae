"""A block of ops prepared for NumPy: each op with its rule, its properties, and its slots.

To look them up in the IR takes longer than NumPy computes small tensors, so it is done once for all
runs. Each value of a program, also in regions, has a slot in one list; an iteration of a loop
overwrites the values of the one before.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.definition import as_property
from graphopt.ir.dialect.op import PdOp, bind_groups, class_of, parameters_of
from graphopt.ir.dialect.ops.control import Fence, If, Layers, RegionOp, Scan, While
from graphopt.ir.dialect.ops.conv import Conv2dBase
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties, group_operands
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.passes.engine.costs import flops_of
from graphopt.reference.interpreter import Run
from graphopt.reference.ragged import Ragged
from graphopt.reference.registry import RULES
from graphopt.runtime.devices.places import Place
from graphopt.runtime.host.blas_threads import LONG, blas_threads
from graphopt.runtime.host.by_lowering import compute_by_lowering, is_lowered
from graphopt.runtime.host.derivatives import Derivative, values_read_back
from graphopt.runtime.host.draws import draw, draw_mask, is_drawn
from graphopt.runtime.host.failures import GivenUp, HostFailure, OpError, fails_again
from graphopt.runtime.host.pullbacks import where
from graphopt.runtime.host.rules import QUICK, UFUNCS
from graphopt.runtime.host.strips import ElementwiseChain, Link, chains_of
from graphopt.runtime.state.arrays import HostArray

NATIVE = Run("native", 0)
"""The helpers of rules that compute in the declared dtypes."""
Slots: TypeAlias = "dict[SSAValue | Operation, int]"
"""The slot of each value, and of each dropout's mask."""
Step: TypeAlias = "Callable[[Running], Sequence[Any]]"
"""One op: it computes its results from the values in the slots."""


@dataclass
class Running:
    """The state of one run: its values, and its limit on this thread's CPU clock.

    It has a random key, and the place whose device runs the ops that NumPy does not compute.
    """

    values: list[Any]
    end: float
    key: HostArray
    place: Place
    iterations: list[int] = field(default_factory=list[int])
    """The iteration numbers of the loops around the current op."""
    rng_shift: int = 0
    """The offset of random op numbers in the current layer."""
    long: float = 0.0
    """The seconds of the ops that took long."""
    products: float = 0.0
    """The seconds of products among these ops."""
    interrupt: Exception | None = None
    """The exception of a signal handler or another thread that ends the run."""

    def judge(self, step: Step | None, error: Exception, place: tuple[int, int]) -> None:
        """Raise OpError if `step`, at this place among loops and layers, repeats `error`.

        Any other error is an interrupt, and so is one that was raised outside of a step.
        """
        if error is self.interrupt:
            return
        del self.iterations[place[0] :]
        self.rng_shift = place[1]
        if step is not None and fails_again(lambda: step(self), error):
            raise OpError(str(error)) from error
        self.interrupt = error


class Body:
    """A block as a list of steps. After the last step that reads a value, its slot is emptied."""

    def __init__(self, block: Block, slots: Slots) -> None:
        *ops, last = block.ops
        inside = {*block.args, *(result for op in ops for result in op.results)}
        self._arguments = [slots.setdefault(value, len(slots)) for value in block.args]
        steps = [(_step_of(op, slots), _own(op.results, slots)) for op in ops]
        self._ends = [slots[value] for value in last.operands]
        read, dead = {*last.operands}, list[list[int]]()
        for op in reversed(ops):
            back = values_read_back(op) if isinstance(op, Grad) else ()
            own = {*values_read(op), *back, *op.results} & inside
            dead.append([slots[value] for value in own - read])
            read |= own
        gone = dead[::-1]
        whole = [(*each, slots) for each, slots in zip(steps, gone, strict=True)]
        self._steps = [(*each, _multiplies(op)) for op, each in zip(ops, whole, strict=True)]
        for chain in reversed(chains_of(ops, _is_ruled)):
            first, end = chain[0], chain[-1] + 1
            last_gone = [slot for each in gone[first:end] for slot in each]
            links = [_link_of(ops[at], slots) for at in chain]
            ends = [link.out for link in links if link.out not in last_gone]
            step = _chain_step(ElementwiseChain(links, ends), whole[first:end])
            self._steps[first:end] = [(step, ends, last_gone, False)]

    def run(self, running: Running, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run the steps, and return the values that the block returns or yields.

        Raise GivenUp when time is up, and OpError for an op's own error; an interrupt passes
        unchanged.
        """
        values, now, clock = running.values, time.thread_time, time.perf_counter
        place, doing = (len(running.iterations), running.rng_shift), None
        try:
            for slot, value in zip(self._arguments, arguments, strict=True):
                values[slot] = value
            for step, outs, gone, multiplies in self._steps:
                began, start = clock(), now()
                if start > running.end:
                    raise GivenUp
                doing = step
                results = step(running)
                doing = None
                if (seconds := clock() - began) > LONG:
                    blas_threads.judge(seconds, now() - start)
                    running.long += seconds
                    running.products += seconds * multiplies
                for slot, value in zip(outs, results, strict=True):
                    values[slot] = value
                for slot in gone:
                    values[slot] = None
            return [values[slot] for slot in self._ends]
        except HostFailure:
            raise
        except Exception as error:
            running.judge(doing, error, place)
            raise


def _own(results: Sequence[SSAValue], slots: Slots) -> list[int]:
    return [slots.setdefault(value, len(slots)) for value in results]


def _step_of(op: Operation, slots: Slots) -> Step:
    if isinstance(op, RegionOp):
        return _region_step(op, slots)
    assert isinstance(op, PdOp)
    if isinstance(op, Grad):
        return _derivative_step(op, slots)
    if is_drawn(op):
        return _dropout_step(op, slots) if isinstance(op, Dropout) else _drawn_step(op)
    if is_lowered(op):
        return _lowered_step(op, slots)
    if isinstance(op, Dynamic):
        return _dynamic_step(op, slots)
    fixed = op.attr_values() | NATIVE.helpers(op)
    groups = [[slots[value] for value in group] for group in op.operand_groups()]
    return _rule_step(op, type(op), groups, fixed)


def _multiplies(op: Operation) -> bool:
    """Return whether an op is mostly a matrix product."""
    if isinstance(op, Conv2dBase) and op.attr("groups") > 1:
        return False
    return isinstance(op, (Grad, Rnn)) or (isinstance(op, PdOp) and flops_of(op) > 0)


def _is_ruled(op: Operation) -> bool:
    """Return whether a NumPy rule computes an op, for operands of any size."""
    others = (RegionOp, Grad, Dynamic)
    return isinstance(op, PdOp) and not (isinstance(op, others) or is_drawn(op) or is_lowered(op))


def _link_of(op: Operation, slots: Slots) -> Link:
    """Build a link for an elementwise op that is computed in parts."""
    assert isinstance(op, PdOp)
    groups = [[slots[value] for value in group] for group in op.operand_groups()]
    fixed = op.attr_values() | NATIVE.helpers(op)
    reads = [slot for group in groups for slot in group]
    call, finish = _rule_call(type(op), groups, fixed), _finish(op, in_parts=True)
    return Link(call, finish, reads, slots[op.results[0]], UFUNCS.get(type(op)))


def _chain_step(
    chain: ElementwiseChain, whole: Sequence[tuple[Step, Sequence[int], Sequence[int]]]
) -> Step:
    """Build a step that computes elementwise ops in parts, or one after the other."""
    made = {slot for _, outs, _ in whole for slot in outs}
    steps = [(step, outs, [slot for slot in gone if slot in made]) for step, outs, gone in whole]

    def step(running: Running) -> Sequence[Any]:
        if (results := chain.run(running)) is not None:
            return results
        values = running.values
        for compute, (out,), gone in steps:
            (values[out],) = compute(running)
            for slot in gone:
                values[slot] = None
        return [values[slot] for slot in chain.ends]

    return step


# -- single ops ------------------------------------------------------------------------------------


def _rule_step(
    op: PdOp,
    op_class: type[PdOp],
    groups: Sequence[Sequence[int]],
    fixed: Mapping[str, Any],
) -> Step:
    """Build a step that applies an op's NumPy rule to operands in these slots."""
    call, finish = _rule_call(op_class, groups, fixed), _finish(op)
    return lambda running: finish(call(running.values))


def _rule_call(
    op_class: type[PdOp], groups: Sequence[Sequence[int]], fixed: Mapping[str, Any]
) -> Callable[[Sequence[Any]], Any]:
    """Bind an op's NumPy rule, the quick one if there is one, to operands in these slots."""
    rule = QUICK.get(op_class) or RULES[op_class]
    wanted = parameters_of(rule)

    def take(values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {n: v for n, v in values.items() if wanted is None or n in wanted}

    operands = take(bind_groups(op_class, groups))
    constant = {**take(fixed), **{n: None for n, slot in operands.items() if slot is None}}
    single = [(n, slot) for n, slot in operands.items() if isinstance(slot, int)]
    several = [(n, slots) for n, slots in operands.items() if isinstance(slots, tuple)]

    def call(values: Sequence[Any]) -> Any:
        given = constant.copy()
        for name, slot in single:
            given[name] = values[slot]
        for name, slots in several:
            given[name] = tuple([values[slot] for slot in slots])
        return rule(**given)

    return call


def _dynamic_step(op: Dynamic, slots: Slots) -> Step:
    """Build a step that applies another op's rule, with properties read from values."""
    op_class = class_of(op.attr("op"))
    fixed = decode_properties(op_class, op.attr("attrs")) | NATIVE.helpers(op)
    groups = group_operands([slots[value] for value in op.inputs], op.attr("groups"))
    read = [(name, slots[v]) for name, v in zip(op.attr("dynamic"), op.values, strict=True)]

    def step(running: Running) -> Sequence[Any]:
        decided = {
            name: as_property(op_class, name, running.values[slot].reshape(-1).tolist())
            for name, slot in read
        }
        return _rule_step(op, op_class, groups, fixed | decided)(running)

    return step


def _lowered_step(op: PdOp, slots: Slots) -> Step:
    """Build a step that computes an op by its lowering."""
    read = [(value, slots[value]) for value in op.operands]

    def step(running: Running) -> Sequence[Any]:
        operands = {value: NATIVE.left(value, running.values[slot]) for value, slot in read}
        found = compute_by_lowering(
            *(op, operands, running.place, running.key, running.iterations, running.rng_shift)
        )
        return [NATIVE.enter(array) for array in found]

    return step


def _drawn_step(op: PdOp) -> Step:
    """Build a step that draws a random tensor with the NumPy generator."""
    finish = _finish(op)

    def step(running: Running) -> Sequence[Any]:
        return finish(draw(op, running.key, running.iterations, running.rng_shift))

    return step


def _dropout_step(op: Dropout, slots: Slots) -> Step:
    """Build a step of a dropout; it stores the mask of kept elements for the derivative."""
    finish, read, kept = _finish(op), slots[op.x], slots.setdefault(op, len(slots))
    share, upscales = 1 - op.attr("p"), op.attr("mode") == "upscale_in_train"

    def step(running: Running) -> Sequence[Any]:
        values = running.values
        x, key = values[read], running.key
        mask = values[kept] = draw_mask(op, x.shape, key, running.iterations, running.rng_shift)
        return finish(where(mask, x / share if upscales else x))

    return step


def _derivative_step(op: Grad, slots: Slots) -> Step:
    """Build a step that computes the gradients of a `pd.grad` by NumPy rules."""
    finish, derivative = _finish(op), Derivative(op, slots, NATIVE)
    return lambda running: finish(tuple(derivative(running.values)))


def _finish(op: PdOp, *, in_parts: bool = False) -> Callable[[Any], Sequence[Any]]:
    """Build a function that casts a rule's results to an op's dtypes, and checks their shapes."""
    dtypes = [dtype_of(result.type) for result in op.results]
    working = [NATIVE.working(dtype) for dtype in dtypes]
    shapes = [shape_of(result.type) for result in op.results]
    known = [None if in_parts or UNKNOWN in shape else shape for shape in shapes]
    copies = op.has_trait(Movement) or isinstance(op, Fence)
    is_plain = [copies or dtype.numpy == wide for dtype, wide in zip(dtypes, working, strict=True)]

    def finish(found: Any) -> Sequence[Any]:
        results: list[Any] = []
        given = found if isinstance(found, tuple) else (found,)
        for value, dtype, wide, plain, shape in zip(
            given, dtypes, working, is_plain, known, strict=True
        ):
            if not isinstance(value, (np.ndarray, Ragged)):
                value = np.asarray(value)
            if not plain:
                value = NATIVE.round_to(value, dtype)
            elif value.dtype != wide:
                value = value.astype(wide)
            if shape is not None and value.shape != shape:
                raise AssertionError(
                    f"the NumPy rule of {op.name} returns shape {list(value.shape)}, expected "
                    f"{list(shape)}"
                )
            results.append(value)
        return results

    return finish


# -- ops with regions ------------------------------------------------------------------------------


def _region_step(op: RegionOp, slots: Slots) -> Step:
    operands = [slots[value] for value in op.operands]
    bodies = [Body(region.block, slots) for region in op.regions]
    body = bodies[0]
    if isinstance(op, If):
        return lambda running: bodies[not _holds(running.values[operands[0]])].run(running)
    if isinstance(op, While):
        return lambda running: _loop(body, running, [running.values[slot] for slot in operands])
    if isinstance(op, Layers):
        count, stride = len(op.carried), op.attr("rng_stride")
        return lambda running: _layers(body, running, operands[:count], operands[count:], stride)
    if isinstance(op, Scan):
        count, is_reverse = len(op.memories), op.attr("reverse")
        return lambda running: _scan(body, running, operands[:count], operands[count:], is_reverse)
    return body.run


def _holds(condition: Any) -> bool:
    return bool(np.all(condition))


def _iteration(
    body: Body, running: Running, number: int, arguments: Sequence[Any]
) -> Sequence[Any]:
    running.iterations.append(number)
    found = body.run(running, arguments)
    running.iterations.pop()
    return found


def _loop(body: Body, running: Running, given: Sequence[Any]) -> Sequence[Any]:
    """Run a loop until its condition, the first value, is false; return its variables."""
    for number in itertools.count():
        condition, *variables = given
        if not _holds(condition):
            return variables
        given = _iteration(body, running, number, variables)
    raise AssertionError("unreachable: itertools.count() does not end")


def _layers(
    body: Body, running: Running, carried: Sequence[int], stacks: Sequence[int], stride: int
) -> Sequence[Any]:
    """Run equal layers in order, each with its slice of the stacks; return the last values."""
    values = [running.values[slot] for slot in carried]
    parts = [running.values[slot] for slot in stacks]
    before = running.rng_shift
    for layer in range(len(parts[0])):
        values = body.run(running, [*values, *(part[layer] for part in parts)])
        running.rng_shift += stride
    running.rng_shift = before
    return values


def _scan(
    body: Body,
    running: Running,
    memories: Sequence[int],
    sequences: Sequence[int],
    is_reverse: bool,
) -> Sequence[Any]:
    """Run a body over the steps of sequences, and stack its outputs."""
    carried: Sequence[Any] = [running.values[slot] for slot in memories]
    parts = [running.values[slot] for slot in sequences]
    order = range(len(parts[0]))
    outputs: dict[int, Sequence[Any]] = {}
    for number in reversed(order) if is_reverse else order:
        found = _iteration(body, running, number, [*carried, *(part[number] for part in parts)])
        carried, outputs[number] = found[: len(carried)], found[len(carried) :]
    return [np.stack(items) for items in zip(*(outputs[n] for n in order), strict=True)]
