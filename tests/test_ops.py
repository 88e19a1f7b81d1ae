"""Every op against its samples: complete, typed as computed, printed as parsed, right, smooth.

The samples are in tests/ops, in files named like those of graphopt/ir/ops; a new op needs no code
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.parser import Parser
from xdsl.printer import Printer

import graphopt
from graphopt.ir.dialect import context
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.op import PdOp, infer_types
from graphopt.ir.ops import ALL
from graphopt.ir.ops.base import DataSizedOp
from graphopt.ir.ops.control import RegionOp, Yield
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.late import Late
from graphopt.ir.types import UNKNOWN, Tensor, compatible, dtype_of, shape_of, show, tensor
from graphopt.lowering.registry import RULES
from graphopt_tests.op_calls import build, flat, rule_of, type_of
from graphopt_tests.ops.base import Array, Operand, Sample, bf16, f16, f32, f64
from graphopt_tests.sample_modules import modules_in

SAMPLES: dict[type[PdOp], list[Sample]] = {
    op: samples
    for module in modules_in("ops").values()
    for op, samples in getattr(module, "SAMPLES", {}).items()
}
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{number}")
    for op, samples in SAMPLES.items()
    for number, sample in enumerate(samples)
]
# the whole program lowers these
WITHOUT_RULE = (Grad, Late)
COMPUTED = [case for case in CASES if case.values[0] not in WITHOUT_RULE]
# what can be traced: the results of the others have as many elements as the data say
TRACED = [case for case in COMPUTED if not issubclass(case.values[0], DataSizedOp)]
Groups = list[list[Tensor]]
# Relative error of a result, in units of its largest element (of 1 if that is smaller).
TOLERANCE = {
    "float16": 5e-4,
    "bfloat16": 4e-3,
    "float32": 2e-6,
    "float64": 1e-12,
    "complex64": 2e-6,
    "complex128": 1e-12,
}
EVERY_CASE = pytest.mark.parametrize(("op_class", "sample"), CASES)
EVERY_TRACED_CASE = pytest.mark.parametrize(("op_class", "sample"), TRACED)


@pytest.fixture(autouse=True)
def sixty_four_bits() -> Iterator[None]:
    """Rules are traced and run with 64-bit types, as programs are."""
    with jax.enable_x64(True):
        yield


def with_floats(sample: Sample, make: Callable[..., Array]) -> Sample:
    """The sample with its floating-point operands in another dtype."""
    dtype = make().dtype

    def convert(operand: Operand) -> Operand:
        if isinstance(operand, list):
            return [convert(item) for item in operand]  # pyright: ignore
        if operand is None or not as_dtype(operand.dtype).is_floating:
            return operand
        return np.asarray(operand).astype(dtype)

    return replace(sample, operands=tuple(convert(operand) for operand in sample.operands))


# Completeness ---------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("op_class", ALL, ids=lambda op: op.name)
def test_op_is_complete(op_class: type[PdOp]) -> None:
    """Every op has a type rule, a lowering and samples, but those that programs lower.

    What holds of ops with regions is in tests/ir/test_regions.py.
    """
    if issubclass(op_class, (RegionOp, Yield)):
        return
    family = op_class.__module__.rpartition(".")[2]
    name = op_class.name
    assert op_class.infer is not PdOp.infer, (
        f"{name} has no type rule: give it an `infer` in graphopt/ir/ops/{family}.py"
    )
    if op_class not in WITHOUT_RULE:
        assert op_class in RULES, (
            f"{name} has no lowering: add one to graphopt/lowering/ops/{family}.py"
        )
        lowering = RULES[op_class].__module__
        assert lowering == f"graphopt.lowering.ops.{family}", f"{name} is lowered in {lowering}"
    samples = getattr(modules_in("ops").get(family), "SAMPLES", {}).get(op_class)
    assert samples, f"{name} has no samples: add one to tests/ops/{family}.py"


def test_files_mirror() -> None:
    """The stages name their files alike."""

    def names(folder: Path) -> set[str]:
        return {path.stem for path in folder.glob("*.py")} - {"__init__"}

    package = Path(graphopt.__file__).parent
    families = names(package / "ir" / "ops")
    assert names(package / "lowering" / "ops") == families - {"grad", "late", "control"}
    assert names(Path(__file__).parent / "ops") == families - {"control"}
    for op_class in WITHOUT_RULE:
        assert op_class not in RULES, f"{op_class.name} is lowered with the whole program"


# Types ----------------------------------------------------------------------------------------


@pytest.mark.smoke
@EVERY_TRACED_CASE
def test_type_rule_agrees_with_lowering(op_class: type[PdOp], sample: Sample) -> None:
    """Shapes and dtypes are those that JAX computes, for every floating-point dtype."""
    for make in (None, f16, bf16, f32, f64):
        variant = sample if make is None else with_floats(sample, make)
        abstract = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in flat(variant)]
        computed = jax.eval_shape(rule_of(op_class, variant), *abstract)
        declared = [result.type for result in build(op_class, variant)[1].results]
        assert [show(type_of(c)) for c in computed] == [show(t) for t in declared]  # pyright: ignore
        assert not any(c.weak_type for c in computed), "a result has no fixed dtype"


@pytest.mark.parametrize(
    ("op_class", "sample"), [case for case in COMPUTED if issubclass(case.values[0], DataSizedOp)]
)
def test_type_rule_of_what_data_size(op_class: type[PdOp], sample: Sample) -> None:
    """Ranks, dtypes and the sizes that are known are those of a computed result."""
    for result, computed in zip(
        build(op_class, sample)[1].results, rule_of(op_class, sample)(*flat(sample)), strict=True
    ):
        assert compatible(result.type, type_of(computed)), show(result.type)


@EVERY_CASE
def test_type_rule_with_unknown_sizes(op_class: type[PdOp], sample: Sample) -> None:
    """With any one size unknown, or all of them, the type is still true of the known one."""
    op = build(op_class, sample)[1]
    known: Groups = [[value.type for value in group] for group in op.operand_groups()]
    attrs = op.attr_values()
    wanted = infer_types(op_class, known, attrs)
    for types in _with_unknown(known) if sample.any_size else ():
        inferred = infer_types(op_class, types, attrs)
        for have, want in zip(inferred, wanted, strict=True):
            assert compatible(have, want), f"{show(have)} for {show(want)} from {types}"


def _with_unknown(groups: Groups) -> Iterator[Groups]:
    yield [[_hide(t, lambda _: True) for t in group] for group in groups]
    for at, group in enumerate(groups):
        for position, type_ in enumerate(group):
            for axis in range(len(shape_of(type_))):
                changed = [list(g) for g in groups]
                changed[at][position] = _hide(type_, lambda i, axis=axis: i == axis)
                yield changed


def _hide(type_: Tensor, hidden: Callable[[int], bool]) -> Tensor:
    shape = [UNKNOWN if hidden(i) else dim for i, dim in enumerate(shape_of(type_))]
    return tensor(shape, dtype_of(type_))


# Text -----------------------------------------------------------------------------------------


@EVERY_CASE
def test_print_and_parse(op_class: type[PdOp], sample: Sample) -> None:
    """A module with the op is the same after printing and parsing, in both text forms."""
    block, op = build(op_class, sample)
    block.add_op(ReturnOp(*op.results))
    function = FuncOp("main", (block.arg_types, [result.type for result in op.results]))
    function.body.detach_block(0)
    function.body.add_block(block)
    module = ModuleOp([function])
    module.verify()
    for generic in (False, True):
        text = _text(module, generic)
        parsed = Parser(context(), text).parse_module()
        parsed.verify()
        assert parsed.is_structurally_equivalent(module), text
        assert _text(parsed, generic) == text


def _text(module: ModuleOp, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


# Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_class", "sample"), [case for case in COMPUTED if case.values[1].expected]
)
def test_numbers(op_class: type[PdOp], sample: Sample) -> None:
    """The results are those of the sample's NumPy formula."""
    assert sample.expected is not None
    rule = rule_of(op_class, sample)
    results = (rule if issubclass(op_class, DataSizedOp) else jax.jit(rule))(*flat(sample))
    with np.errstate(all="ignore"):
        wanted = sample.expected(*with_floats(sample, f64).operands)
    for number, result in enumerate(results):
        want = wanted[number] if isinstance(wanted, tuple) else wanted
        assert np.shape(want) == result.shape, f"the formula of result {number} has another shape"
        assert_close(result, want, str(result.dtype))


def assert_close(result: Any, wanted: Any, precision: str) -> None:
    have = np.asarray(result)
    have = have.astype(complex if have.dtype.kind == "c" else float)
    want = np.asarray(wanted).astype(have.dtype)
    largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    tolerance = TOLERANCE.get(precision, 0) * largest
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance)


def first_float_case(op_class: type[PdOp]) -> Any:
    """An op's first sample on finite float32 numbers, or nothing."""
    for sample in SAMPLES.get(op_class, ()):
        arrays = [array for array in flat(sample) if array.dtype == np.float32]
        if arrays and all(np.isfinite(array).all() for array in arrays):
            return [pytest.param(op_class, sample, id=op_class.name)]
    return []


HALF_CASES = [
    case
    for op in ALL
    if op in RULES and not issubclass(op, DataSizedOp)
    for case in first_float_case(op)
]


@pytest.mark.parametrize(("op_class", "sample"), HALF_CASES)
def test_half_types_round_once(op_class: type[PdOp], sample: Sample) -> None:
    """In bfloat16 the results are those of float64 for the same numbers, to one rounding."""
    half = with_floats(sample, bf16)
    results = jax.jit(rule_of(op_class, half))(*flat(half))
    double = with_floats(half, f64)
    wanted = jax.jit(rule_of(op_class, double))(*flat(double))
    for result, want in zip(results, wanted, strict=True):
        assert_close(result, want, str(result.dtype))


# Derivatives ----------------------------------------------------------------------------------


def has_gradient(op_class: type[PdOp], sample: Sample) -> bool:
    """True when a float64 operand reaches a float64 result smoothly."""
    double = with_floats(sample, f64)
    reals = [array for array in flat(double) if array.dtype == np.float64]
    return sample.smooth and bool(reals) and bool(_differentiable(op_class, double))


def _differentiable(op_class: type[PdOp], double: Sample) -> list[int]:
    results = build(op_class, double)[1].results
    through = range(len(results)) if double.through is None else double.through
    return [i for i in through if dtype_of(results[i].type) == "float64"]


@pytest.mark.parametrize(
    ("op_class", "sample"), [case for case in TRACED if has_gradient(*case.values)]
)
def test_gradient(op_class: type[PdOp], sample: Sample) -> None:
    """Forward and reverse derivatives agree with central differences in a fixed direction."""
    double = with_floats(sample, f64)
    rule, outs = rule_of(op_class, double), _differentiable(op_class, double)
    operands = flat(double)
    where = [i for i, array in enumerate(operands) if array.dtype == np.float64]
    point = [operands[i] for i in where]
    results, random = build(op_class, double)[1].results, np.random.default_rng(0)
    direction = [random.standard_normal(array.shape) for array in point]
    weights = [random.standard_normal(shape_of(results[i].type)) for i in outs]

    def function(*reals: Any) -> list[Any]:
        full = list(operands)
        for index, value in zip(where, reals, strict=True):
            full[index] = value
        computed = rule(*full)
        return [computed[i] for i in outs]

    def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
        return sum(jnp.sum(x * y) for x, y in zip(a, b, strict=True))

    def moved(step: float) -> Any:
        at = [p + step * d for p, d in zip(point, direction, strict=True)]
        return dot(weights, function(*at))

    @jax.jit
    def derivatives() -> tuple[Any, Any]:
        difference = (moved(STEP) - moved(-STEP)) / (2 * STEP)
        return difference, dot(jax.vjp(function, *point)[1](weights), direction)

    difference, reverse = map(float, derivatives())
    try:
        forward = float(jax.jit(lambda: dot(weights, jax.jvp(function, point, direction)[1]))())
    except TypeError as error:
        assert "custom_vjp" in str(error)
        forward = reverse  # a rule with a derivative of its own has it in reverse only
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(forward, difference, rtol=1e-6, atol=1e-6)


STEP = 1e-6
