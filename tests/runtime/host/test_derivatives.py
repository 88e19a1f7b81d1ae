"""The derivatives of the host form against those of the lowering, op by op, at corners too."""

from __future__ import annotations

from math import inf
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings

from graphopt import CPUPlace
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import dtype_of
from graphopt.reference.interpreter import is_random
from graphopt.reference.tape import NoDerivative
from graphopt.runtime.host.body import NATIVE, Body, Running, Slots
from graphopt.runtime.host.derivatives import Derivative, is_differentiated, is_taped
from graphopt.runtime.host.pullbacks import PULLBACKS
from graphopt.testing import programs, random_inputs, run_module
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.ir.test_ops import COMPUTED
from graphopt_tests.op_calls import build, flat, rule_of
from graphopt_tests.ops.base import Array, Sample
from graphopt_tests.reference.test_reference import FUSIONS

pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def is_trained(op_class: type[PdOp], sample: Sample) -> bool:
    """True for a sample with a derivative in the host form, of float32 numbers."""
    if issubclass(op_class, (DataSizedOp, RegionOp)):
        return False
    if op_class not in PULLBACKS and not is_taped(op_class):
        return False
    _, op = build(op_class, sample)
    values = (*op.operands, *op.results)
    is_complex = any(dtype_of(value.type).is_complex for value in values)
    reads = any(array.dtype == np.float32 for array in flat(sample))
    gives = any(dtype_of(result.type) == "float32" for result in op.results)
    return reads and gives and not is_complex and not is_random(op)


CASES = [case for case in COMPUTED if is_trained(*case.values)]  # pyright: ignore
QUICK = [case for case in CASES if case.values[0] in PULLBACKS]
# what has the smallest samples, one of each op
EACH = list({case.values[0]: case for case in reversed(CASES)}.values())  # pyright: ignore


def gradients_of(
    op_class: type[PdOp], sample: Sample, arrays: list[Array], number: int, seed: Array
) -> tuple[list[Array], list[Array]]:
    """The gradients of one result for its operands in float32, by NumPy and by the lowering."""
    block, op = build(op_class, sample)
    at = [index for index, array in enumerate(arrays) if array.dtype == np.float32]
    wrt = [block.args[index] for index in at]
    cotangent = block.insert_arg(op.results[number].type, len(block.args))
    grad = Grad.make([op.results[number]], wrt, [cotangent], [], parameters=[])
    block.add_op(grad)
    rule = rule_of(op_class, sample)

    def result(*given: Any) -> Any:
        full: list[Any] = [*arrays]
        for index, value in zip(at, given, strict=True):
            full[index] = value
        return rule(*full)[number]

    _, pull = jax.vjp(result, *(arrays[index] for index in at))
    wanted = [np.asarray(each) for each in pull(seed)]
    results = [NATIVE.enter(np.asarray(each)) for each in rule(*arrays)]
    values = [*map(NATIVE.enter, arrays), seed, *results]
    slots = {value: slot for slot, value in enumerate((*block.args, *op.results))}
    with np.errstate(all="ignore"):
        found = Derivative(grad, slots, NATIVE)(values)
    return found, wanted


def check(op_class: type[PdOp], sample: Sample, arrays: list[Array]) -> int:
    """Compare the gradients of each result; the number of those compared."""
    _, op = build(op_class, sample)
    random, count = np.random.default_rng(1), 0
    for number, result in enumerate(op.results):
        if dtype_of(result.type) != "float32":
            continue
        shape = np.shape(rule_of(op_class, sample)(*arrays)[number])
        seed = random.normal(size=shape).astype("float32")
        try:
            found, wanted = gradients_of(op_class, sample, arrays, number, seed)
        except (NoDerivative, IndexError):  # the step is compiled then
            continue
        for mine, theirs in zip(found, wanted, strict=True):
            most = np.max(np.abs(theirs), initial=1e-2, where=np.isfinite(theirs))
            np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=2e-4 * most)
            count += 1
    return count


def cornered(arrays: list[Array]) -> list[Array]:
    """Operands of whole numbers around 0, of which many are equal."""
    random = np.random.default_rng(0)
    return [
        random.integers(-1, 2, array.shape).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for array in arrays
    ]


@pytest.mark.parametrize(("op_class", "sample"), QUICK)
def test_quick_pullbacks(op_class: type[PdOp], sample: Sample) -> None:
    check(op_class, sample, flat(sample))
    if not sample.attrs.get("adaptive"):  # XLA shares among equal maxima there
        check(op_class, sample, cornered(flat(sample)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("op_class", "sample"), EACH)
def test_derivatives_of_rules(op_class: type[PdOp], sample: Sample) -> None:
    check(op_class, sample, flat(sample))
    check(op_class, sample, cornered(flat(sample)))


@settings(max_examples=examples(20))
@given(programs(FUSIONS, updates=True))
def test_generated_trainings(generated: Generated) -> None:
    """Outputs, gradients and updated state of programs with planted patterns are XLA's."""
    module = generated.module
    main = main_function(module).body.block
    if not all(is_differentiated(op) for op in main.ops if isinstance(op, Grad)):
        return
    inputs = random_inputs(module)
    slots: Slots = {}
    body = Body(main, slots)
    running = Running([None] * len(slots), inf, np.array([7, 1], np.uint32), CPUPlace())
    ports = signature_of(module)
    arguments = [NATIVE.enter(inputs[port.name]) for port in ports.arguments]
    with np.errstate(all="ignore"):
        found = body.run(running, arguments)
    wanted = run_module(module, inputs)
    for port, mine in zip(ports.results, found, strict=True):
        theirs = np.asarray(wanted[f"{port.kind} {port.name}"], "float64")
        most = np.max(np.abs(theirs), initial=1e-2, where=np.isfinite(theirs))
        np.testing.assert_allclose(np.asarray(mine, "float64"), theirs, rtol=2e-3, atol=5e-4 * most)


def test_how_many_ops_are_trained() -> None:
    """A change that loses derivatives does not go unnoticed."""
    assert len(EACH) >= 160, len(EACH)
