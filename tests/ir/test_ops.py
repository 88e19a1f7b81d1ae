"""Every op against its samples: completeness, types, text, numbers and gradients.

The samples are in tests/ops, in files named like those of graphopt/ir/dialect/ops; a new op needs
no code here. A test takes all samples of an op and compiles them as one program, since it costs
more to start the compiler than to compile a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from xdsl.ir import Block
from xdsl.irdl import RangeOf
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

import graphopt
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.definition import definition
from graphopt.ir.dialect.families import ALL, family_of
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import RegionOp, Yield
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    compatible,
    dtype_of,
    shape_of,
    show,
    tensor,
)
from graphopt.ir.dtypes import as_dtype
from graphopt.lowering.needs_data import NeedsData
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
WITHOUT_RULE = (Grad, Dynamic)
COMPUTED = [case for case in CASES if case.values[0] not in WITHOUT_RULE]
Groups = list[list[Tensor]]
Samples = Mapping[int, Sample]
# the number of the sample that is one of the others in bfloat16
HALF = -1
# Relative error of a result, in units of its largest element (of 1 if that is smaller).
TOLERANCE = {
    "float16": 5e-4,
    # fused ops round a product and then a sum
    "bfloat16": 6e-3,
    "float32": 2e-6,
    "float64": 1e-12,
    "complex64": 2e-6,
    "complex128": 1e-12,
}


def each_op(
    takes: Callable[[type[PdOp], Sample], bool] = lambda op_class, sample: True,
) -> pytest.MarkDecorator:
    """Parametrize a test over the ops, each with its accepted samples by number."""
    chosen = {
        op_class: {n: sample for n, sample in enumerate(samples) if takes(op_class, sample)}
        for op_class, samples in SAMPLES.items()
    }
    cases = [pytest.param(op, samples, id=op.name) for op, samples in chosen.items() if samples]
    return pytest.mark.parametrize(("op_class", "samples"), cases)


def is_traced(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether the sizes of the results do not depend on the data."""
    return op_class not in WITHOUT_RULE and not issubclass(op_class, DataSizedOp)


@contextmanager
def naming(number: int) -> Iterator[None]:
    """Add the sample's number to an error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in sample {number}")
        raise


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def with_floats(sample: Sample, make: Callable[..., Array]) -> Sample:
    """Convert the floating-point operands of a sample to another dtype."""
    dtype = make().dtype

    def convert(operand: Operand) -> Operand:
        if isinstance(operand, list):
            return [convert(item) for item in operand]  # pyright: ignore
        if operand is None or not as_dtype(operand.dtype).is_floating:
            return operand
        with np.errstate(over="ignore"):  # a sample's number may be infinite in float16
            return np.asarray(operand).astype(dtype)

    return replace(sample, operands=tuple(convert(operand) for operand in sample.operands))


# Completeness ---------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("op_class", ALL, ids=lambda op: op.name)
def test_op_is_complete(op_class: type[PdOp]) -> None:
    """Every op has a type rule, a lowering and samples, except ops that programs lower.

    tests/ir/test_regions.py checks ops with regions.
    """
    if issubclass(op_class, (RegionOp, Yield)):
        return
    family = family_of(op_class)
    name = op_class.name
    assert op_class.infer is not PdOp.infer, (
        f"{name} has no type rule: give it an `infer` in graphopt/ir/dialect/ops/{family}.py"
    )
    if op_class not in WITHOUT_RULE:
        assert op_class in RULES, (
            f"{name} has no lowering: add one to graphopt/lowering/ops/{family}.py"
        )
        lowering = RULES[op_class].__module__
        assert lowering == f"graphopt.lowering.ops.{family.replace('/', '.')}", (
            f"{name} is lowered in {lowering}"
        )
    samples = getattr(modules_in("ops").get(family), "SAMPLES", {}).get(op_class)
    assert samples, f"{name} has no samples: add one to tests/ops/{family}.py"


def test_files_mirror() -> None:
    """Types, lowerings and samples of ops are in files of the same names."""

    def names(folder: Path) -> set[str]:
        files = [path for path in folder.rglob("*.py") if path.stem != "__init__"]
        return {path.relative_to(folder).with_suffix("").as_posix() for path in files}

    package = Path(graphopt.__file__).parent
    families = names(package / "ir" / "dialect" / "ops")
    assert names(package / "lowering" / "ops") == families
    assert names(Path(__file__).parents[1] / "ops") == families
    for op_class in WITHOUT_RULE:
        assert op_class not in RULES, f"{op_class.name} is lowered with the whole program"


# Types ----------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.smoke
@each_op(is_traced)
def test_type_rule_agrees_with_lowering(op_class: type[PdOp], samples: Samples) -> None:
    """Type rules infer the shapes and dtypes that JAX computes."""
    for number, sample in samples.items():
        _check_types(op_class, number, [sample])


@pytest.mark.exhaustive
@each_op(is_traced)
def test_type_rule_agrees_in_every_float(op_class: type[PdOp], samples: Samples) -> None:
    """Type rules agree with JAX for all samples in every floating-point dtype."""
    for number, sample in samples.items():
        _check_types(op_class, number, _in_every_float(sample))


def _check_types(op_class: type[PdOp], number: int, variants: Iterable[Sample]) -> None:
    for variant in variants:
        with naming(number):
            abstract = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in flat(variant)]
            computed = jax.eval_shape(rule_of(op_class, variant), *abstract)
            declared = [result.type for result in build(op_class, variant)[1].results]
            assert [show(type_of(c)) for c in computed] == [show(t) for t in declared]  # pyright: ignore
            assert not any(c.weak_type for c in computed), "a result has no fixed dtype"


def _in_every_float(sample: Sample) -> Iterator[Sample]:
    """Yield the sample, and a variant in each floating-point dtype that changes it."""
    seen: list[list[np.dtype[Any]]] = []
    for make in (None, f16, bf16, f32, f64):
        variant = sample if make is None else with_floats(sample, make)
        dtypes = [array.dtype for array in flat(variant)]
        if dtypes not in seen:
            seen.append(dtypes)
            yield variant


@each_op(lambda op_class, _: issubclass(op_class, DataSizedOp))
def test_type_rule_of_what_data_size(op_class: type[PdOp], samples: Samples) -> None:
    """Ranks, dtypes and known sizes equal the computed result's."""
    for number, sample in samples.items():
        with naming(number):
            declared = build(op_class, sample)[1].results
            computed = rule_of(op_class, sample)(*flat(sample))
            for have, want in zip(declared, computed, strict=True):
                assert compatible(have.type, type_of(want)), show(have.type)


@each_op(lambda op_class, _: issubclass(op_class, DataSizedOp))
def test_what_needs_data_is_not_traced(op_class: type[PdOp], samples: Samples) -> None:
    """JAX traces a data-sized op only where a shape decides the size."""
    for number, sample in samples.items():
        with naming(number):
            op = build(op_class, sample)[1]
            assert isinstance(op, DataSizedOp)
            operands, rule = flat(sample), rule_of(op_class, sample)
            if op.deciding_operand() is None:
                jax.eval_shape(rule, *operands)
                continue
            with pytest.raises(NeedsData):
                jax.eval_shape(rule, *operands)


@each_op(lambda _, sample: sample.any_size)
def test_type_rule_with_unknown_sizes(op_class: type[PdOp], samples: Samples) -> None:
    """With one size unknown, or all of them, the type still covers the known one."""
    for number, sample in samples.items():
        with naming(number):
            op = build(op_class, sample)[1]
            known: Groups = [[value.type for value in group] for group in op.operand_groups()]
            attrs = op.attr_values()
            wanted = infer_types(op_class, known, attrs)
            for types in _with_unknown(known):
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


def test_a_changed_op_is_verified_again() -> None:
    """A valid op is invalid after a change of an operand, a property or its result."""
    block = Block(arg_types=[tensor((2, 3), "float32"), tensor((3, 2), "float32")])
    op = Transpose.make(block.args[0], perm=(1, 0))
    block.add_ops([op, ReturnOp(op.results[0])])
    perm, kept = op.properties["perm"], op.results[0].type
    for _ in range(2):
        op.verify()
    op.operands[0] = block.args[1]
    with pytest.raises(VerifyException, match="its type rule gives"):
        op.verify()
    op.operands[0] = block.args[0]
    op.verify()
    op.properties["perm"] = Transpose.make(block.args[0], perm=(0, 1)).properties["perm"]
    with pytest.raises(VerifyException, match="its type rule gives"):
        op.verify()
    op.properties["perm"] = perm
    Rewriter.replace_value_with_new_type(op.results[0], tensor((2, 3), "float32"))
    with pytest.raises(VerifyException, match="its type rule gives"):
        op.verify()
    Rewriter.replace_value_with_new_type(op.results[0], kept)
    op.verify()


# Text -----------------------------------------------------------------------------------------


@pytest.mark.every(4)
@each_op()
def test_print_and_parse(op_class: type[PdOp], samples: Samples) -> None:
    """A module with the op is the same after printing and parsing.

    One sample of each form is tried: samples of a form have the same operands and properties of the
    same types. The first sample's module is the same in the generic form, too.
    """
    forms: dict[object, int] = {}
    for number, sample in samples.items():
        forms.setdefault(_form(sample), number)
    for number in forms.values():
        with naming(number):
            _check_text(_module_with(op_class, samples[number]), generic=False)
    _check_text(_module_with(op_class, next(iter(samples.values()))), generic=True)


def _form(sample: Sample) -> tuple[object, ...]:
    operands = (len(o) if isinstance(o, list) else o is None for o in sample.operands)
    return (*operands, *((name, type(value)) for name, value in sorted(sample.attrs.items())))


@pytest.mark.exhaustive
@each_op()
def test_print_and_parse_every_sample(op_class: type[PdOp], samples: Samples) -> None:
    """Every sample's module is the same after printing and parsing, in both forms."""
    for number, sample in samples.items():
        with naming(number):
            module = _module_with(op_class, sample)
            _check_text(module, generic=False)
            _check_text(module, generic=True)


def _module_with(op_class: type[PdOp], sample: Sample) -> ModuleOp:
    block, op = build(op_class, sample)
    block.add_op(ReturnOp(*op.results))
    function = FuncOp("main", (block.arg_types, [result.type for result in op.results]))
    function.body.detach_block(0)
    function.body.add_block(block)
    module = ModuleOp([function])
    module.verify()
    return module


def _check_text(module: ModuleOp, generic: bool) -> None:
    text = _text(module, generic)
    parsed = Parser(new_context(), text).parse_module()
    parsed.verify()
    assert parsed.is_structurally_equivalent(module), text
    assert _text(parsed, generic) == text


def _text(module: ModuleOp, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


# Numbers --------------------------------------------------------------------------------------


def is_finite_float(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether a sample has a float32 operand, and only finite ones."""
    arrays = [array for array in flat(sample) if array.dtype == np.float32]
    finite = bool(arrays) and all(np.isfinite(array).all() for array in arrays)
    return finite and is_traced(op_class, sample)


def is_given(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether the op has a lowering and the sample a formula."""
    return op_class not in WITHOUT_RULE and sample.expected is not None


@pytest.mark.every(4)
@each_op(is_given)
def test_numbers(op_class: type[PdOp], samples: Samples) -> None:
    """Two samples give their NumPy formulas' numbers; one also in bfloat16, up to one rounding."""
    numbers = list(samples)
    _check_numbers(op_class, {number: samples[number] for number in (numbers[0], numbers[-1])})


@pytest.mark.exhaustive
@each_op(is_given)
def test_numbers_of_every_sample(op_class: type[PdOp], samples: Samples) -> None:
    """All samples give their NumPy formulas' numbers."""
    _check_numbers(op_class, samples)


def _check_numbers(op_class: type[PdOp], samples: Samples) -> None:
    whole = dict(samples)
    finite = [sample for sample in samples.values() if is_finite_float(op_class, sample)]
    if finite:
        whole[HALF] = with_floats(finite[0], bf16)
    for (number, sample), results in zip(whole.items(), computed(op_class, whole), strict=True):
        with naming(number):
            assert sample.expected is not None
            with np.errstate(all="ignore"):
                wanted = sample.expected(*with_floats(sample, f64).operands)
            for place, result in enumerate(results):
                want = wanted[place] if isinstance(wanted, tuple) else wanted
                assert np.shape(want) == result.shape, f"formula {place} has another shape"
                assert_close(result, want, str(result.dtype))


def has_formula(op_class: type[PdOp]) -> bool:
    """Return whether a formula checks the op's numbers in bfloat16."""
    given = [sample for sample in SAMPLES[op_class] if sample.expected is not None]
    return any(is_finite_float(op_class, sample) for sample in given)


@each_op(lambda op_class, sample: not has_formula(op_class) and is_finite_float(op_class, sample))
def test_half_types_round_once(op_class: type[PdOp], samples: Samples) -> None:
    """Without a formula, bfloat16 gives float64's results, up to one rounding."""
    number, sample = next(iter(samples.items()))
    half = with_floats(sample, bf16)
    with naming(number):
        results, wanted = computed(op_class, {0: half, 1: with_floats(half, f64)})
        for result, want in zip(results, wanted, strict=True):
            assert_close(result, want, str(result.dtype))


def computed(op_class: type[PdOp], samples: Samples) -> list[tuple[Any, ...]]:
    """Compute the lowering of each sample; compile the samples together if they can be traced."""

    def whole(operands: list[list[Any]]) -> list[tuple[Any, ...]]:
        results: list[tuple[Any, ...]] = []
        for (number, sample), given in zip(samples.items(), operands, strict=True):
            with naming(number):
                results.append(rule_of(op_class, sample)(*given))
        return results

    compute = whole if issubclass(op_class, DataSizedOp) else jax.jit(whole)
    return compute([flat(sample) for sample in samples.values()])


def assert_close(result: Any, wanted: Any, precision: str) -> None:
    have = np.asarray(result)
    have = have.astype(complex if have.dtype.kind == "c" else float)
    want = np.asarray(wanted).astype(have.dtype)
    largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    tolerance = TOLERANCE.get(precision, 0) * largest
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance)


# Derivatives ----------------------------------------------------------------------------------


def has_gradient(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether a float64 operand reaches a float64 result smoothly."""
    double = with_floats(sample, f64)
    return sample.smooth and bool(_reals(double)) and bool(_differentiable(op_class, double))


def _reals(double: Sample) -> list[Array]:
    return [array for array in flat(double) if array.dtype == np.float64]


def _differentiable(op_class: type[PdOp], double: Sample) -> list[int]:
    results = build(op_class, double)[1].results
    through = range(len(results)) if double.through is None else double.through
    return [i for i in through if dtype_of(results[i].type) == "float64"]


def is_smooth(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether finite differences can check the sample's derivative."""
    return is_traced(op_class, sample) and has_gradient(op_class, sample)


each_smooth_op = each_op(is_smooth)


@pytest.mark.every(8)
@each_smooth_op
def test_gradient(op_class: type[PdOp], samples: Samples) -> None:
    """The first sample's derivatives agree with differences in one direction, in both modes."""
    _check_gradient(op_class, dict([next(iter(samples.items()))]))


@pytest.mark.exhaustive
@each_smooth_op
def test_gradient_of_every_sample(op_class: type[PdOp], samples: Samples) -> None:
    """All samples' derivatives agree with differences in one direction, in both modes."""
    _check_gradient(op_class, samples)


def _check_gradient(op_class: type[PdOp], samples: Samples) -> None:
    doubles = {number: with_floats(sample, f64) for number, sample in samples.items()}
    for number, (difference, reverse, forward) in _slopes(op_class, doubles).items():
        with naming(number):
            np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(forward, difference, rtol=1e-6, atol=1e-6)


Slopes = tuple[Any, Any, Any]


def _slopes(op_class: type[PdOp], doubles: Samples, forwards: bool = True) -> dict[int, Slopes]:
    """Call `_slope` for each sample, compiled together if all have both derivatives."""

    @jax.jit
    def whole(points: dict[int, list[Any]]) -> dict[int, Slopes]:
        found: dict[int, Slopes] = {}
        for number, double in doubles.items():
            with naming(number):
                found[number] = _slope(op_class, double, points[number], forwards)
        return found

    try:
        return whole({number: _reals(double) for number, double in doubles.items()})
    except TypeError as error:
        assert "custom_vjp" in str(error)
    if len(doubles) == 1:  # a rule with a derivative of its own has it in reverse only
        return _slopes(op_class, doubles, forwards=False)
    return {n: _slopes(op_class, {n: double})[n] for n, double in doubles.items()}


def _slope(op_class: type[PdOp], double: Sample, point: list[Any], forwards: bool) -> Slopes:
    """Compute the derivative in one direction: as a difference, in reverse mode and in forward
    mode.

    `point` replaces the float64 operands; other operands stay. Without `forwards` the last
    derivative repeats the one before.
    """
    rule, outs = rule_of(op_class, double), _differentiable(op_class, double)
    results, random = build(op_class, double)[1].results, np.random.default_rng(0)
    direction = [jnp.asarray(random.standard_normal(array.shape)) for array in point]
    weights = [random.standard_normal(shape_of(results[i].type)) for i in outs]

    @jax.jit  # traced once, for all that follows
    def function(*reals: Any) -> list[Any]:
        given = iter(reals)
        full = [next(given) if a.dtype == np.float64 else a for a in flat(double)]
        computed = rule(*full)
        return [computed[i] for i in outs]

    def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
        return sum(jnp.sum(x * y) for x, y in zip(a, b, strict=True))

    def moved(step: float) -> Any:
        at = [p + step * d for p, d in zip(point, direction, strict=True)]
        return dot(weights, function(*at))

    difference = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    reverse = dot(jax.vjp(function, *point)[1](weights), direction)
    forward = dot(weights, jax.jvp(function, point, direction)[1]) if forwards else reverse
    return difference, reverse, forward


STEP = 1e-6


def test_tensors_of_ops_have_one_constraint() -> None:
    """All fields share one constraint: xDSL would make one each, a third of the import time."""
    fields = [field for op in ALL for field in (*definition(op).operands, *definition(op).results)]
    assert len(fields) > 900
    constraints = [getattr(each.constr, "constraint", each.constr) for _, each in fields]
    made = {id(each.constr) for each in constraints if isinstance(each, RangeOf)}
    assert made == {id(TENSOR)}
