"""Special values in the operands of every op: all forms agree on nan, infinities and numbers.

They are planted in the samples that drive the other tests of ops, so a new op is covered by itself.
The test compares the kind of each number of a result: nan, an infinity, a number, 0 or -0; of
integers and booleans the value. Rounding is tested elsewhere. docs/explanation/special-values.md
describes the limits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from graphopt.ir.dialect.families import family_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import ThresholdedRelu
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.detection.roi import RoiAlign
from graphopt.ir.dialect.ops.elementary import Round, Sign
from graphopt.ir.dialect.ops.linalg.matrices import Cholesky
from graphopt.ir.dialect.ops.math import FloorDivide, Remainder
from graphopt.ir.dialect.ops.pool import MaxPool2dWithIndex
from graphopt.ir.dialect.ops.scatter import PutAlongAxis, ScatterNdAdd
from graphopt.ir.dialect.ops.sequence.layers import SequenceSoftmax
from graphopt.ir.dialect.ops.sort import Searchsorted
from graphopt.lowering.needs_data import NeedsData
from graphopt.reference.interpreter import evaluate_ops, is_random, supports
from graphopt.reference.registry import Unsupported
from graphopt_tests.ir.test_ops import COMPUTED
from graphopt_tests.op_calls import build, flat, rule_of
from graphopt_tests.ops.base import Operand, Sample, f32, i32, i64, sample
from graphopt_tests.runtime.test_special_values import OPTIONS, by_numpy, cut, is_float

Array = np.ndarray[Any, Any]
Planting = tuple[str, list[Array]]
"""What was planted where, and the operands."""
DTYPES = (
    *("float32", "float64", "float16", "bfloat16"),
    *("int32", "int64", "int16", "int8", "uint8", "bool"),
)

INTEGERS = (
    *("creation", "crop", "dynamic", "index", "rearrange"),
    *("reduce", "scatter", "shape", "sort"),
)
"""Families whose ops take integers as they take floats. Of elementwise ones, test_special_values
tries all integers with each other."""

# -- where it ends -----------------------------------------------------------------------------

SUMS = (
    *("conv", "linear", "trees", "transformer", "vision", "fused", "sequence/recurrent"),
    *("linalg/decompositions", "linalg/matrices", "detection/roi", "detection/warped"),
)
"""Families of sums of products. Their order is up to each form, and with it where a sum overflows,
and the sign of one that is 0, to which some forms add a 0 first."""
BITS = "NumPy computes it from the bits, of a denormal number, too"
MASKS = "pixels outside of a region are multiplied by 0"
ROWS = "the reference updates the whole table, and so rows that have no gradient"
EXEMPT: Mapping[str, tuple[str, str]] = {
    "pd.conv2d_transpose": ("infinite 1", "an infinite weight meets the zeros between the pixels"),
    "pd.conv3d_transpose": ("infinite 1", "an infinite weight meets the zeros between the pixels"),
    "pd.depthwise_conv2d": ("infinite float64", "XLA convolves all groups at once, with zeros"),
    "pd.tree_conv": ("infinite 2", "an infinite weight meets the zeros of other nodes"),
    "pd.multi_dot": ("infinite", "the cheapest product comes first, or the first one"),
    "pd.roi_align": ("infinite 1", "an infinite region has no points"),
    "pd.prroi_pool": ("infinite", MASKS),
    "pd.psroi_pool": ("infinite", MASKS),
    "pd.sgd_rows": ("infinite|huge|sign", ROWS),
    "pd.adagrad_rows": ("infinite|huge|sign|usual|tiny", ROWS),
    "pd.bincount": ("integers", "integers are added up in float64, or as they are"),
    "pd.match_matrix_tensor": ("huge", "its sums of products overflow in their order"),
    "pd.lerp": ("huge", "a product that overflows does not where it is rounded with a sum"),
    **dict.fromkeys(("pd.elu", "pd.selu", "pd.celu"), ("sign", "of float16 XLA takes either zero")),
    "pd.quantize_linear": ("sign", "which zero a limit is depends on the processor"),
    **dict.fromkeys(("pd.sum", "pd.mean", "pd.cumsum"), ("sign", "XLA takes one -0 for its sum")),
    **dict.fromkeys(("pd.solve", "pd.cholesky_solve"), ("tiny", "an inverse overflows")),
    "pd.unique": ("infinite", "nan has no place in the order of rows"),
    **dict.fromkeys(("pd.pow", "pd.elementwise_pow", "pd.remainder"), ("tiny", BITS)),
    **dict.fromkeys(("pd.atan2", "pd.nextafter", "pd.floor_divide"), ("tiny", BITS)),
}
"""By op: which numbers are not planted, in which operand or dtype if not in all, and the reason.
For `sign` those of zeros are not compared."""
MIXED = ("usual", "integers", "infinite")
"""The kinds of numbers that are planted together; sums of huge ones overflow in their order."""


def is_left_out(case: Case, kind: str, at: int) -> bool:
    """True if numbers of a kind are not planted in an operand."""
    if case.sample.attrs.get("algorithm") in ("winograd", "groups"):
        # tiles have what is computed in common, and groups of few channels meet each other's zeros
        return kind == "infinite"
    if kind == "huge" and family_of(case.op_class) in SUMS:
        return True
    which, *where = EXEMPT.get(case.op_class.name, ("", ""))[0].split() or [""]
    return kind in which.split("|") and {*where} <= {str(at), case.dtype.name}


# -- what is planted ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An op with a sample, in which numbers of one dtype are planted."""

    name: str
    op_class: type[PdOp]
    sample: Sample
    dtype: np.dtype[Any]
    planted: tuple[int, ...] = ()
    """The operands in which they are."""

    @cached_property
    def operands(self) -> list[Array]:
        return flat(self.sample)

    def of(self, operands: Sequence[Array]) -> Sample:
        """Copy the sample with other operands."""
        rest = iter(operands)

        def other(operand: Operand) -> Operand:
            if isinstance(operand, list):
                return [next(rest) for _ in operand]
            return None if operand is None else next(rest)

        return replace(self.sample, operands=tuple(map(other, self.sample.operands)))


def numbers_of(dtype: np.dtype[Any]) -> dict[str, list[Any]]:
    """List the special numbers of a dtype by kind."""
    if dtype == np.bool_:
        return {"integers": [False, True]}
    if not is_float(dtype):
        limits = np.iinfo(dtype)
        return {"integers": [limits.min, limits.max, limits.min + 1, 0, limits.max - 1, 7]}
    limits = ml_dtypes.finfo(dtype)
    top, low = float(limits.max), float(limits.smallest_normal)
    # whether a denormal number of bfloat16 is true is up to the instruction that looks at it
    last = low if dtype == ml_dtypes.bfloat16 else float(limits.smallest_subnormal)
    return {
        "usual": [0.0, -0.0, 1.0, -1.0, 89.0, -104.0],
        "infinite": [np.inf, -np.inf, np.nan],
        "huge": [top, -top, top / 3],
        "tiny": [low, -low, 3 * last, -3 * last],
    }


def plantings(case: Case) -> Iterator[Planting]:
    """Yield the operands of a case with special numbers: one, a whole operand, or mixed."""
    kinds, generator = numbers_of(case.dtype), _generator(case.name)
    # the first six operands are the different parts of an op, others are weights of more layers
    for place, at in enumerate(at for at in case.planted[:6] if case.operands[at].size):
        for kind, listed in kinds.items():
            # where a sum of huge numbers overflows is a matter of their order
            ways = ("one", "all") if place < 3 and kind != "huge" else ("one",)
            for number in () if is_left_out(case, kind, at) else listed:
                for way in ways:
                    array = np.array(case.operands[at])
                    chosen = generator.integers(array.size) if way == "one" else slice(None)
                    array.reshape(-1)[chosen] = number
                    yield f"{number} in {way} of operand {at}", _with(case, {at: array})
    for number in range(4):
        arrays: dict[int, Array] = {}
        for at in case.planted:
            usable = [kind for kind in MIXED if not is_left_out(case, kind, at)]
            mixed = [each for kind in usable for each in kinds.get(kind, [])[:4]]
            if mixed:
                shape = case.operands[at].shape
                arrays[at] = generator.choice(np.array(mixed), shape).astype(case.dtype)
        yield f"mixed numbers {number}", _with(case, arrays)


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _with(case: Case, arrays: Mapping[int, Array]) -> list[Array]:
    operands = [arrays.get(at, array) for at, array in enumerate(case.operands)]
    if case.op_class is Searchsorted:
        operands[0] = np.sort(operands[0])  # in any other order the result is not defined
    return operands


@lru_cache
def cases(dtype: str) -> list[Case]:
    """Collect samples with numbers of a dtype; float32-only samples are cast to it."""
    wanted = np.dtype(getattr(ml_dtypes, dtype, dtype))
    found: list[Case] = []
    for param in COMPUTED:
        op_class, sample = param.values
        assert isinstance(op_class, type) and isinstance(sample, Sample)
        # integers that a sample has are places and lengths
        places = [array.dtype for array in flat(sample)]
        planted = [at for at, own in enumerate(places) if own in (np.float32, wanted)]
        if not is_float(wanted):
            if family_of(op_class) not in INTEGERS:
                continue
            planted = [at for at in planted if places[at] == np.float32]
        if dtype != "float32":
            sample = replace(sample, operands=tuple(_cast(o, wanted) for o in sample.operands))
        planted = tuple(at for at in planted if flat(sample)[at].dtype == wanted)
        case = Case(str(param.id), op_class, sample, wanted, planted)
        has_room = any(case.operands[at].size for at in planted)
        # there are no sums of booleans
        if has_room and _is_computed(case) and (dtype != "bool" or _is_lowered(case)):
            found.append(case)
    return found


def others() -> list[Case]:
    """Collect the first samples of ops that XLA always computes, except callbacks and comm."""
    found: list[Case] = []
    for param in COMPUTED:
        op_class, sample = param.values
        assert isinstance(op_class, type) and isinstance(sample, Sample)
        op = build(op_class, sample)[1]
        if supports(op) or is_random(op) or family_of(op_class) in ("callback", "comm"):
            continue
        floats = tuple(at for at, array in enumerate(flat(sample)) if array.dtype == np.float32)
        case = Case(str(param.id), op_class, sample, np.dtype(np.float32), floats)
        if any(case.operands[at].size for at in floats) and not is_sized(case):
            found.append(case)
    return firsts(found)


def _cast(operand: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(operand, list):
        return [_cast(array, dtype) for array in operand]
    if operand is None or operand.dtype != np.float32:
        return operand
    return np.clip(np.nan_to_num(operand * 3), -100, 100).astype(dtype)


def _is_computed(case: Case) -> bool:
    """True for a sample that NumPy computes, too; other samples only have their lowering."""
    try:
        op = build(case.op_class, case.sample)[1]
    except Exception:
        return False
    return supports(op) and not is_random(op)


def firsts(found: Sequence[Case]) -> list[Case]:
    """Return the first sample of each op."""
    return list({case.op_class: case for case in reversed(found)}.values())[::-1]


# -- the forms ---------------------------------------------------------------------------------


class Compiled:
    """The cases as one program of XLA in a form, and op by op if sizes depend on data."""

    def __init__(self, found: Sequence[Case], form: str) -> None:
        self._rules = [rule_of(case.op_class, case.sample) for case in found]
        self._sized = list(map(is_sized, found))

        def whole(operands: Any) -> Any:
            groups = zip(self._rules, self._sized, operands, strict=True)
            return [() if sized else rule(*given) for rule, sized, given in groups]

        with jax.enable_x64(True):
            lowered = jax.jit(whole).lower([case.operands for case in found])
            self._program = lowered.compile(OPTIONS[form])

    def __call__(self, operands: Sequence[list[Array]]) -> list[Any]:
        """Compute the results of each case."""
        with jax.enable_x64(True), np.errstate(all="ignore"):
            found = self._program(list(operands))
            for at, sized in enumerate(self._sized):
                if sized:
                    found[at] = self._rules[at](*operands[at])
        return [list(map(np.asarray, results)) for results in found]


def is_sized(case: Case) -> bool:
    """True for an op whose sizes depend on data."""
    if issubclass(case.op_class, DataSizedOp):
        return True
    try:
        with jax.enable_x64(True):
            jax.eval_shape(rule_of(case.op_class, case.sample), *case.operands)
    except NeedsData:
        return True
    return False


def by_reference(case: Case, operands: Sequence[Array]) -> list[Array]:
    """Compute the results in float64, with denormal numbers as zeros."""
    block, op = build(case.op_class, case.of(operands))
    found = evaluate_ops([op], dict(zip(block.args, map(_flushed, operands), strict=True)))
    return [found[result] for result in op.results]


def _flushed(array: Array) -> Array:
    if not is_float(array.dtype):
        return array
    # half types are computed in float32, of which those of float16 are no denormal numbers
    low = ml_dtypes.finfo(np.float64 if array.dtype == np.float64 else np.float32).smallest_normal
    return np.where(np.abs(array) < low, np.copysign(np.zeros((), array.dtype), array), array)


# -- what is compared --------------------------------------------------------------------------


def parts(array: Array) -> Array:
    """Convert real numbers to float64, and complex ones to their two parts."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1).astype(np.float64)
    return array.astype(np.float64) if is_float(array.dtype) else array


def differing(have: Array, want: Array, sign: bool, huge: bool) -> Array:
    """Find the places at which two results differ in kind.

    With or without the sign of zeros. For huge operands all numbers are equal.
    """
    if have.dtype != want.dtype or have.shape != want.shape:
        return np.array([0])
    if not (is_float(have.dtype) or have.dtype.kind == "c"):
        return np.flatnonzero(have != want)
    dtype = have.dtype if is_float(have.dtype) else have.real.dtype
    limits = ml_dtypes.finfo(dtype)
    low = float(limits.smallest_normal)
    have, want = parts(have), parts(want)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
        near = (np.abs(have - want) <= 0.05 * largest) | huge
        # where one of them is rounded to an infinity
        edge = np.maximum(np.abs(have), np.abs(want)) * 1.01 >= float(limits.max)
        edge &= np.minimum(np.abs(have), np.abs(want)) * 1.1 >= float(limits.max)
    zeros = (have == 0) & (want == 0)
    same = np.where(zeros & sign, np.signbit(have) == np.signbit(want), zeros)
    same |= np.isfinite(have) & np.isfinite(want) & near & ~zeros
    same |= (np.abs(have) < 64 * low) & (np.abs(want) < 64 * low) & ~zeros
    same |= (have == want) & ~zeros | (np.isnan(have) & np.isnan(want))
    return np.flatnonzero(~(same | edge & (np.sign(have) == np.sign(want))))


def told(
    case: Case, planting: Planting, form: str, have: Sequence[Array], want: Sequence[Array]
) -> list[str]:
    """Describe the differences."""
    found: list[str] = []
    planted, operands = planting
    # a product that is too small for a number is a zero of either sign, as is the larger of both
    sign = family_of(case.op_class) not in SUMS and not is_left_out(case, "sign", 0)
    sign &= "e-" not in planted and "mixed" not in planted
    for number, (one, other) in enumerate(zip(have, want, strict=True)):
        at = differing(one, other, sign, any(map(is_huge, operands)))
        if at.size:
            values = [parts(a).reshape(-1)[at[0]] if a.size else a.shape for a in (one, other)]
            found.append(
                f"{case.name} {dict(case.sample.attrs)} with {planted}: result {number} is "
                f"{values[0]} in {form}, and else {values[1]}"
            )
    return found


def is_huge(array: Array) -> bool:
    """True if squares or inverses overflow."""
    if not is_float(array.dtype):
        return False
    sizes, limits = np.abs(array.astype(np.float64)), ml_dtypes.finfo(array.dtype)
    low = (sizes != 0) & (sizes < 4 * float(limits.smallest_normal))
    return bool(np.any((sizes > float(limits.max) ** 0.5) & (sizes < np.inf) | low))


def compared(found: Sequence[Case], form: str, most: int | None = None) -> tuple[int, list[str]]:
    """Compare plantings between forms; return their number and the differences."""
    run = Compiled(found, form)
    planted = [list(plantings(case)) for case in found]
    if most is not None:  # some of each, others for each op
        planted = [
            [each[i] for i in _generator(case.name).permutation(len(each))[:most]]
            for case, each in zip(found, planted, strict=True)
        ]
    wrong: dict[str, list[str]] = {}
    for number in range(max(map(len, planted), default=0)):
        now = [
            each[number] if number < len(each) else ("", case.operands)
            for case, each in zip(found, planted, strict=True)
        ]
        results = run([operands for _, operands in now])
        for case, planting, have in zip(found, now, results, strict=True):
            if planting[0]:
                for words in differences(case, planting, form, have):
                    wrong.setdefault(f"{case.name} {form in words}", []).append(words)
    return sum(map(len, planted)), [f"{len(each)} times: {each[0]}" for each in wrong.values()]


def differences(case: Case, planting: Planting, form: str, have: Sequence[Array]) -> list[str]:
    """Describe the differences between NumPy and XLA, and between the reference and NumPy."""
    operands = planting[1]
    try:
        want = by_numpy(case.op_class, case.of(operands))
    except (ArithmeticError, ValueError, IndexError, Unsupported):
        return []  # so XLA computes the step
    found = told(case, planting, form, have, want)
    if any(map(is_huge, operands)):  # what overflows on the way does not in float64
        return found
    reference = map(cut, by_reference(case, operands))
    return found + told(case, planting, "the reference", [*reference], [*map(cut, want)])


# -- empty tensors -----------------------------------------------------------------------------


def emptied(case: Case) -> Iterator[Case]:
    """Yield the case with each of its sizes replaced by 0, if the op accepts it."""
    sizes = {size for array in case.operands for size in array.shape if size > 1}
    if family_of(case.op_class).startswith("sequence"):  # lengths have rows
        sizes -= {size for a in case.operands if a.dtype.kind in "iu" for size in a.shape}
    for size in sorted(sizes):
        operands = [
            array[tuple(slice(0 if each == size else None) for each in array.shape)]
            for array in case.operands
        ]
        other = replace(case, name=f"{case.name} without {size}", sample=case.of(operands))
        if _is_computed(other) and _is_lowered(other):
            yield other


def _is_lowered(case: Case) -> bool:
    rule = rule_of(case.op_class, case.sample)
    with jax.enable_x64(True):
        try:
            try:
                jax.eval_shape(rule, *case.operands)
            except NeedsData:
                rule(*case.operands)
        except Exception:  # the operands do not belong together
            return False
    return True


def compared_empty(found: Sequence[Case]) -> tuple[int, list[str]]:
    """Compare empty operands between forms; return their number and the differences."""
    cases = [other for case in found for other in emptied(case)]
    results = Compiled(cases, "quick")([case.operands for case in cases])
    wrong: list[str] = []
    for case, have in zip(cases, results, strict=True):
        wrong += differences(case, ("nothing", case.operands), "quick", have)
    return len(cases), wrong


# -- what was other than in Paddle -----------------------------------------------------------------

INF, NAN = np.inf, np.nan
Wanted = tuple[type[PdOp], Sample, Any]
WANTED: list[Wanted] = [
    # the triangle that is named
    (Cholesky, sample(f32([[4.0, 2.0], [0.0, 3.0]]), upper=True), [[2.0, 1.0], [0.0, 2**0.5]]),
    (
        PutAlongAxis,
        sample(f32([1.0, 2.0]), i64([0]), f32([INF]), axis=0, reduce="amin", include_self=False),
        [INF, 2.0],
    ),
    (
        MaxPool2dWithIndex,
        sample(f32([[[[1.0, NAN], [3.0, NAN]]]]), kernel_size=(2, 2), strides=(2, 2)),
        [[[[NAN]]]],
    ),
    (Sign, sample(f32([-0.0, NAN])), [0.0, NAN]),
    (Round, sample(f32([-0.0, -0.2])), [-0.0, -0.0]),
    (ThresholdedRelu, sample(f32([-3.0, -0.0, -INF, NAN])), [-0.0, -0.0, NAN, NAN]),
    (FloorDivide, sample(f32([-0.0, 0.0]), f32([2.0, -2.0])), [-0.0, -0.0]),
    (Remainder, sample(f32([-0.0, -4.0]), f32([2.0, 2.0])), [-0.0, -0.0]),
    (ScatterNdAdd, sample(f32([-0.0, -0.0]), i64([[0]]), f32([-0.0])), [-0.0, -0.0]),
    (SequenceSoftmax, sample(f32([INF, 1.0]), i64([2])), [NAN, NAN]),
]


def test_as_in_paddle() -> None:
    """The forms agree with Paddle, or with the definition where Paddle loses nan."""
    found = [Case(op.name, op, one, np.dtype(np.float32)) for op, one, _ in WANTED]
    by_xla = Compiled(found, "quick")([case.operands for case in found])
    for case, (op_class, one, wanted), have in zip(found, WANTED, by_xla, strict=True):
        want = np.array(wanted, np.float32)
        for result in (have[0], by_numpy(op_class, one)[0]):
            np.testing.assert_allclose(result, want, rtol=1e-6, err_msg=case.name)
            assert np.array_equal(np.signbit(result[result == 0]), np.signbit(want[want == 0]))


def test_a_region_as_large_as_no_image() -> None:
    """Points outside of the image are not visited: there may be more than 2^31."""
    regions = f32([[0.0, 0.0, 3e9, 3e38], [-3e9, 0.0, 2.0, 2.0]])
    one = sample(f32(1, 1, 4, 4), regions, i32([2]), pooled_height=1, pooled_width=1)
    case = Case("roi_align", RoiAlign, one, np.dtype(np.float32))
    (found,) = Compiled([case], "quick")([case.operands])
    assert np.abs(found[0]).max() < 1e-6


# -- tests -------------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_some_of_each_op(dtype: str) -> None:
    """Some numbers agree in some ops; the other dtype tests others of both."""
    found = firsts(cases(dtype))[DTYPES.index(dtype) :: 16]
    wrong = compared(found, "quick", most=5)[1]
    assert not wrong, "\n".join(wrong)


WAYS = [*((dtype, "quick") for dtype in DTYPES), ("float32", "full")]
FAMILIES = sorted({family_of(param.values[0]) for param in COMPUTED})  # pyright: ignore


@pytest.mark.exhaustive
@pytest.mark.parametrize(("dtype", "form"), WAYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_ops(family: str, dtype: str, form: str) -> None:
    """All numbers agree in all samples; other dtypes than float32 test each op's first sample.

    The full form has the same rules, and is tried in float32 alone: it takes long to compile.
    """
    found = [case for case in cases(dtype) if family_of(case.op_class) == family]
    if not found:
        return
    wrong = compared(found if dtype == "float32" else firsts(found), form)[1]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_ops_without_a_rule_of_numpy() -> None:
    """XLA's forms agree on the ops that it computes in every form of a program."""
    found = others()
    assert len(found) >= 28
    quick, full = (Compiled(found, form) for form in OPTIONS)
    wrong: list[str] = []
    for planted in zip_longest(*map(plantings, found)):
        operands = [
            case.operands if planting is None else planting[1]
            for case, planting in zip(found, planted, strict=True)
        ]
        for case, planting, have, want in zip(
            found, planted, quick(operands), full(operands), strict=True
        ):
            if planting is not None:
                wrong += told(case, planting, "quick", have, want)
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_how_many_ops_are_covered() -> None:
    """The number of ops with floats, and of plantings, does not drop."""
    found = cases("float32")
    assert len({case.op_class for case in found}) >= 290
    assert sum(1 for case in found for _ in plantings(case)) >= 25_000


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_empty(family: str) -> None:
    """Sizes of 0 agree if an op accepts them."""
    found = [case for case in cases("float32") if family_of(case.op_class) == family]
    wrong = compared_empty(firsts(found))[1]
    assert not wrong, "\n".join(wrong)
