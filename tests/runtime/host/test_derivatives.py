"""The derivatives of the host form against the lowering's, op by op, also at corners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings

from graphopt import CPUPlace
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, elementary, pool, reduce
from graphopt.ir.dialect.ops import math as arithmetic
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.conv import Conv2dTranspose
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import dtype_of
from graphopt.lowering.denormals import flushed_denormals
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
from graphopt_tests.ops.base import Array, Sample, sample
from graphopt_tests.reference.test_reference import FUSIONS

pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def is_trained(op_class: type[PdOp], sample: Sample) -> bool:
    """True for a float32 sample with a derivative in the host form."""
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
    """Compute the float32 gradients of one result, by NumPy and by the lowering."""
    return gradients_by_both(op_class, sample, number)(arrays, seed)


def gradients_by_both(
    op_class: type[PdOp], sample: Sample, number: int
) -> Callable[[list[Array], Array], tuple[list[Array], list[Array]]]:
    """Build `gradients_of` as a function of arrays of the sample's shapes."""
    block, op = build(op_class, sample)
    at = [index for index, array in enumerate(flat(sample)) if array.dtype == np.float32]
    wrt = [block.args[index] for index in at]
    cotangent = block.insert_arg(op.results[number].type, len(block.args))
    grad = Grad.make([op.results[number]], wrt, [cotangent], [], parameters=[])
    block.add_op(grad)
    rule = rule_of(op_class, sample)
    slots = {value: slot for slot, value in enumerate((*block.args, *op.results))}
    derivative = Derivative(grad, slots, NATIVE)

    @jax.jit
    def by_xla(arrays: list[Any], seed: Any) -> tuple[Any, Any]:
        def result(*given: Any) -> Any:
            full: list[Any] = [*arrays]
            for index, value in zip(at, given, strict=True):
                full[index] = value
            results = rule(*full)
            return results[number], results

        _, pull, results = jax.vjp(result, *(arrays[index] for index in at), has_aux=True)
        return pull(seed), results

    def by_both(arrays: list[Array], seed: Array) -> tuple[list[Array], list[Array]]:
        wanted, results = by_xla(arrays, seed)
        entered = [NATIVE.enter(np.asarray(each)) for each in results]
        with np.errstate(all="ignore"), flushed_denormals():
            found = derivative([*map(NATIVE.enter, arrays), seed, *entered])
        return found, [*map(np.asarray, wanted)]

    return by_both


def check(op_class: type[PdOp], sample: Sample, arrays: list[Array]) -> int:
    """Compare the gradients of each result; return the number of comparisons."""
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
    """Make operands of whole numbers around 0, many of them equal."""
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
    check(op_class, sample, cornered(flat(sample)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("op_class", "sample"), EACH)
def test_derivatives_of_rules(op_class: type[PdOp], sample: Sample) -> None:
    check(op_class, sample, flat(sample))
    check(op_class, sample, cornered(flat(sample)))


# -- special values --------------------------------------------------------------------------------

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1.2e-38, -1.2e-38, 1e-42)
ORDER = "the order of sums and products is that of each form"
ZEROS = "an infinite weight meets the zeros between the pixels in XLA's"
EXEMPT: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("bilinear", "batch_norm", "fused_batch_norm_act"), ("infinite", ORDER)),
    **dict.fromkeys(("fused_bn_add_activation", "cumprod"), ("infinite", ORDER)),
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), ("infinite|nan", ZEROS)),
    "fused_conv2d_add_act": ("infinite|nan", ZEROS),
    "logcumsumexp": ("infinite", "XLA's has nan, as infinity less infinity"),
    "elementwise_pow": ("zero|tiny", "0 times the logarithm of 0; NumPy takes denormal numbers"),
    "pool2d": ("infinite|nan", "what is largest in a window of -inf, or with nan"),
    "prod": ("infinite|nan|tiny", "XLA's divides the product by each element"),
    "rsqrt": ("zero|tiny", "the sign of the infinite derivative at -0"),
}
"""By op: the kinds of numbers that are not planted, and the reason."""


def kind_of(number: float) -> str:
    if np.isnan(number):
        return "nan"
    if np.isinf(number):
        return "infinite"
    return "usual" if abs(number) == 1 else "tiny" if number else "zero"


@pytest.mark.every(12)
@pytest.mark.parametrize(("op_class", "sample"), EACH)
def test_special_values(op_class: type[PdOp], sample: Sample) -> None:
    """With special numbers in an operand, both forms give the same gradients."""
    _, op = build(op_class, sample)
    arrays = flat(sample)
    number = PULLBACKS[op_class][0] if op_class in PULLBACKS else 0
    if dtype_of(op.results[number].type) != "float32":
        return
    left_out = EXEMPT.get(op_class.name.removeprefix("pd."), ("", ""))[0].split("|")
    rule = rule_of(op_class, sample)
    seed = np.random.default_rng(1).normal(size=np.shape(rule(*arrays)[number])).astype("float32")
    compute = gradients_by_both(op_class, sample, number)
    for at, array in enumerate(arrays):
        for special in SPECIAL if array.dtype == np.float32 and array.size else ():
            for chosen in () if kind_of(special) in left_out else (array.size // 2, slice(None)):
                planted = array.copy()
                planted.reshape(-1)[chosen] = special
                given = [*arrays[:at], planted, *arrays[at + 1 :]]
                try:
                    found, wanted = compute(given, seed)
                except (NoDerivative, IndexError):  # the step is compiled then
                    return
                for mine, theirs in zip(found, wanted, strict=True):
                    most = np.max(np.abs(theirs), initial=1e-2, where=np.isfinite(theirs))
                    np.testing.assert_allclose(
                        mine, theirs, 2e-3, 1e-3 * most, err_msg=f"{special} in operand {at}"
                    )


# Paddle's numbers, or the definition's where Paddle's code has 0 times an infinity
WANTED = [
    (activation.Softplus, [np.inf, -np.inf], {}, [1.0, 0.0]),
    (activation.LogSigmoid, [np.inf, -np.inf], {}, [0.0, 1.0]),
    (activation.Softshrink, [np.inf, -np.inf, 0.0], {}, [1.0, 1.0, 0.0]),
    (arithmetic.Abs, [np.nan, -0.0, -2.0], {}, [np.nan, 0.0, -1.0]),
    (elementary.Log2, [1.2e-38], {}, [1.2022459e38]),
    (reduce.Mean, [np.nan, 1.0], {}, [0.5, 0.5]),
    (reduce.PNorm, [0.0, 0.0], {}, [0.0, 0.0]),
    (reduce.ClipByNorm, [0.0, 0.0], {"max_norm": 0.5}, [1.0, 1.0]),
]


@pytest.mark.parametrize(("op_class", "operand", "attrs", "wanted"), WANTED)
def test_special_values_as_in_paddle(
    op_class: type[PdOp], operand: list[float], attrs: dict[str, Any], wanted: list[float]
) -> None:
    array = np.array(operand, "float32")
    given = Sample((array,), attrs)
    seed = np.ones(np.shape(rule_of(op_class, given)(array)[0]), "float32")
    for gradients in gradients_of(op_class, given, [array], 0, seed):
        np.testing.assert_allclose(gradients[0], wanted, 1e-5)


def test_equal_maxima_of_uneven_windows() -> None:
    """The first maximum of a window, in row order, gets the gradient, as in Paddle."""
    image = np.zeros((1, 1, 3, 3), "float32")
    image[0, 0, 0, 1] = image[0, 0, 1, 0] = 1.0
    for sizes in ((2, 2), (2, 3), (3, 2), (1, 2)):
        attrs = {"kernel_size": sizes, "adaptive": True, "pooling_type": "max"}
        given = Sample((image,), {**attrs, "strides": (1, 1)})
        seed = np.arange(1, 1 + np.prod(sizes), dtype="float32").reshape(1, 1, *sizes)
        found, by_xla = gradients_of(pool.Pool2d, given, [image], 0, seed)
        np.testing.assert_array_equal(by_xla[0], found[0])


@settings(max_examples=examples(20))
@given(programs(FUSIONS, updates=True))
def test_generated_trainings(generated: Generated) -> None:
    """Outputs, gradients and state of programs with planted patterns equal XLA's."""
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
    """The number of ops with a derivative does not drop."""
    assert len(EACH) >= 160, len(EACH)


def test_a_result_beyond_the_last_step() -> None:
    """A transposed dilated convolution may pad its result by as much as a stride."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size).astype("float32") for size in ((1, 2, 4, 5), (2, 3, 3, 2))]
    padded = sample(*arrays, dilations=(2, 2), output_padding=(1, 1))
    assert check(Conv2dTranspose, padded, arrays) == 2
