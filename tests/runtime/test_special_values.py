"""Special values: every form of a program gives the same results, also for fused ops.

Infinities, NaN, both zeros and the largest numbers; docs/how-to/compile-once.md has the forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, elementary, math
from graphopt.ir.dialect.traits import Elementwise
from graphopt.lowering.denormals import flushed_denormals
from graphopt.reference.interpreter import evaluate_ops
from graphopt.reference.registry import RULES
from graphopt.runtime.devices.places import CPUPlace
from graphopt.runtime.host.body import NATIVE, Running, _rule_step  # pyright: ignore
from graphopt.runtime.steps.step_state import NO_KEY
from graphopt.runtime.steps.xla_forms import quickly
from graphopt_tests.example_counts import share
from graphopt_tests.op_calls import build, flat, rule_of
from graphopt_tests.ops.base import Sample
from graphopt_tests.sample_modules import modules_in

Array = np.ndarray[Any, Any]
TINY = np.finfo(np.float32).tiny
LARGEST = np.finfo(np.float32).max
FLOATS = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -7.0, 89.0, -104.0, 0.999999, 1e-8, -1e-8),
        *(np.inf, -np.inf, np.nan, LARGEST, -LARGEST, LARGEST / 2, -LARGEST / 2, 2e19, -1e19),
        *(1e-30, 1e-42, -1e-42, 2.0**24, 2.0**25 + 4, 65504.0, 70000.0),
    ],
    np.float32,
)
# NumPy computes these from the bits of a number, of a denormal one, too.
BY_BITS = (
    *(elementary.Nextafter, elementary.Atan2, math.ElementwisePow),
    *(math.Remainder, math.FloorDivide),
)
# a difference overflows on the way, which float64 holds, or a product that is rounded with a sum
OVERFLOWING = (elementary.Lerp,)
DIVIDING = (math.Divide, math.FloorDivide, math.Remainder)
QUICK = quickly(None)
FULL = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}
OPTIONS = {"quick": QUICK, "full": {name: value for name, value in FULL.items() if name in QUICK}}
"""Options of XLA by form. Tests compile the full form quickly, too, where they do not say so."""


def integers(dtype: Any) -> Array:
    limits = np.iinfo(dtype)
    numbers = (0, 1, 2, 3, 7, -1, -2, -7, limits.min, limits.min + 1, limits.max - 1, limits.max)
    return np.array([n for n in numbers if limits.min <= n <= limits.max], dtype)


def special(dtype: Any) -> Array:
    if np.dtype(dtype) == bool:
        return np.array([False, True])
    return FLOATS if np.dtype(dtype) == np.float32 else integers(dtype)


def crossed(op_class: type[PdOp], sample: Sample) -> Sample:
    """Build a sample with every combination of special values in its operands."""
    values = [special(operand.dtype) for operand in flat(sample)]
    if op_class in BY_BITS:
        values = [v[~((v != 0) & (np.abs(v) < TINY))] if v.dtype.kind == "f" else v for v in values]
    if op_class in DIVIDING:
        values = [v[v != 0] if v.dtype.kind in "iu" else v for v in values]
    if op_class is math.ElementwisePow:  # whole powers that overflow are not defined
        values = [v[np.abs(v.astype(float)) < 10] if v.dtype.kind in "iu" else v for v in values]
    found = np.meshgrid(*values, indexing="ij")
    step = 1 if len(found) < 3 else 7
    return replace(sample, operands=tuple(array.ravel()[::step] for array in found))


def same(have: Array, want: Array, tolerance: float = 1e-4) -> Array:
    """Compare two results up to rounding; a denormal number is 0, a zero has no sign."""
    if have.dtype.kind != "f":
        return have == want
    have, want = (
        np.where(np.abs(array) < 4 * TINY, 0.0, array.astype(np.float64)) for array in (have, want)
    )
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(have), np.abs(want))
        near = np.abs(have - want) <= np.maximum(tolerance * size, 2e-6)
    finite = np.isfinite(have) & np.isfinite(want)
    return (have == want) | (np.isnan(have) & np.isnan(want)) | (finite & near)


def told(
    name: str,
    form: str,
    have: Array,
    want: Array,
    given: Sequence[Array],
    tolerance: float = 1e-4,
) -> list[str]:
    """Describe the differences, with their operands."""
    wrong = np.flatnonzero(~same(have, want, tolerance))
    return [
        f"{name} of {[array[at].item() for array in given]}: {form} {have[at]}, for {want[at]}"
        for at in wrong[:3]
    ]


# -- each op -----------------------------------------------------------------------------------


def cases_in(module: Any) -> list[tuple[type[PdOp], Sample]]:
    """List the elementwise ops of a family that NumPy computes, in each call of a sample."""
    found: dict[Any, tuple[type[PdOp], Sample]] = {}
    for op_class, samples in getattr(module, "SAMPLES", {}).items():
        if op_class not in RULES or not any(
            isinstance(trait, Elementwise) for trait in op_class.traits.traits
        ):
            continue
        for sample in samples:
            if any(not isinstance(operand, np.ndarray) for operand in sample.operands):
                continue
            dtypes = tuple(array.dtype.name for array in flat(sample))
            if 0 < len(dtypes) <= 3 and {*dtypes} <= DTYPES:
                key = op_class, dtypes, repr(sample.attrs)
                found.setdefault(key, (op_class, crossed(op_class, sample)))
    return list(found.values())


DTYPES = {"float32", "int32", "int64", "uint8", "bool"}
FAMILIES = {
    name: cases_in(modules_in("ops")[name])
    for name in ("activation", "elementary", "logic", "math")
}


def by_numpy(op_class: type[PdOp], sample: Sample) -> list[Array]:
    """Compute the results of the host form."""
    block, op = build(op_class, sample)
    slots = {value: at for at, value in enumerate(block.args)}
    groups = [[slots[value] for value in group] for group in op.operand_groups()]
    step = _rule_step(op, op_class, groups, op.attr_values() | NATIVE.helpers(op))
    values = [NATIVE.enter(array) for array in flat(sample)]
    with np.errstate(all="ignore"), flushed_denormals():
        found = step(Running(values, 1e9, NO_KEY, CPUPlace()))
    return [NATIVE.left(result, array) for result, array in zip(op.results, found, strict=True)]


def by_reference(op_class: type[PdOp], sample: Sample) -> list[Array]:
    """Compute the results of the reference in float64, rounded to the declared dtype."""
    block, op = build(op_class, sample)
    normal = [
        np.where(np.abs(a) < TINY, np.copysign(np.float32(0), a), a) if a.dtype.kind == "f" else a
        for a in flat(sample)
    ]
    found = evaluate_ops([op], dict(zip(block.args, normal, strict=True)))
    return [cut(found[result]) for result in op.results]


def cut(array: Array) -> Array:
    """Replace numbers near the largest by infinities: intermediates do not overflow in float64."""
    if not is_float(array.dtype):
        return array
    large = np.abs(array) > float(ml_dtypes.finfo(array.dtype).max) / 64
    return np.where(large, np.copysign(np.asarray(np.inf, array.dtype), array), array)


def unlimited(array: Array) -> Array:
    """Keep only infinities and NaN; the rounding of cancelling sums is not significant."""
    return np.where(np.isfinite(array), np.zeros((), array.dtype), array)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def by_xla(functions: Sequence[Any], operands: Sequence[Sequence[Array]], form: str) -> Any:
    """Compute functions, compiled as one program in a form."""

    def whole(operands: Any) -> Any:
        return [f(*given) for f, given in zip(functions, operands, strict=True)]

    with jax.enable_x64(True):
        compiled = jax.jit(whole).lower(operands).compile(OPTIONS[form])
        return jax.tree.map(np.asarray, compiled(operands))


FORMS = ["quick", pytest.param("full", marks=pytest.mark.exhaustive)]


@pytest.mark.every(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_op(family: str, form: str) -> None:
    """NumPy, XLA and the reference agree on all combinations of special values."""
    cases = FAMILIES[family]
    compiled = by_xla([rule_of(*case) for case in cases], [flat(s) for _, s in cases], form)
    wrong: list[str] = []
    for (op_class, sample), found in zip(cases, compiled, strict=True):
        for number, want in enumerate(by_numpy(op_class, sample)):
            name = f"{op_class.name}{dict(sample.attrs)}"
            if op_class in OVERFLOWING:
                have, want = (unlimited(cut(array)) for array in (found[number], want))
                wrong += told(name, form, have, want, flat(sample))
                continue
            wrong += told(name, form, found[number], want, flat(sample))
            reference = by_reference(op_class, sample)[number]
            wrong += told(name, "reference", reference, cut(want), flat(sample), 2e-3)
    assert not wrong, "\n".join(wrong)


def test_how_many_ops_are_covered() -> None:
    covered = {op_class for cases in FAMILIES.values() for op_class, _ in cases}
    assert len(covered) >= 95


# -- pairs -------------------------------------------------------------------------------------

ONE: dict[str, tuple[type[PdOp], dict[str, Any]]] = {
    **{c.name: (c, {}) for c in (math.Exp, math.Log, math.Sqrt, math.Rsqrt, math.Square, math.Abs)},
    **{f"pow {n}": (math.Pow, {"factor": n}) for n in (2.0, 0.5, -1.0, 2.5)},
    "times 1e20": (math.Scale, {"scale": 1e20}),
    "times 1e-20": (math.Scale, {"scale": 1e-20}),
    "plus 1e8": (math.Scale, {"scale": 1.0, "bias": 1e8}),
    "minus 1e8": (math.Scale, {"scale": 1.0, "bias": -1e8}),
    **{c.name: (c, {}) for c in (elementary.Log2, elementary.Reciprocal, elementary.Expm1)},
    **{c.name: (c, {}) for c in (activation.Sigmoid, activation.Tanh, activation.Gelu)},
}
TWO = (math.Multiply, math.Divide, math.Maximum, math.ElementwisePow)
"""Not a sum or a difference: a product before it may be rounded with it, and so not overflow."""
Tree = tuple[Any, ...]
"""An op with its properties and operands: other ones, or the number of an array."""


def pairs() -> Iterator[Tree]:
    """Yield functions of functions, and of two such values."""
    for outer in ONE.values():
        yield from ((*outer, (*inner, 0)) for inner in ONE.values())
    for op_class in TWO:
        for inner in ONE.values():
            yield op_class, {}, (*inner, 0), 1
            yield op_class, {}, 1, (*inner, 0)
            yield op_class, {}, (*inner, 0), (*inner, 1)
        for second in TWO:
            yield op_class, {}, (second, {}, 0, 1), 1
            yield op_class, {}, 1, (second, {}, 0, 1)


def computed(tree: Any, arrays: Sequence[Any], compute: Callable[..., Any]) -> Any:
    if isinstance(tree, int):
        return arrays[tree]
    op_class, attrs, *inner = tree
    return compute(op_class, attrs, *(computed(one, arrays, compute) for one in inner))


def one_by_one(op_class: type[PdOp], attrs: dict[str, Any], *operands: Array) -> Array:
    return by_numpy(op_class, Sample(operands, attrs))[0]


def traced(op_class: type[PdOp], attrs: dict[str, Any], *operands: Any) -> Any:
    like = tuple(np.zeros(operand.shape, operand.dtype) for operand in operands)
    return rule_of(op_class, Sample(like, attrs))(*operands)[0]


def kinds(array: Array) -> Array:
    """Map numbers to NaN, an infinity, or 0."""
    return np.where(np.isfinite(array), 0.0, array)


def shown(tree: Any) -> str:
    if isinstance(tree, int):
        return "xy"[tree]
    op_class, attrs, *inner = tree
    return f"{op_class.name}{list(attrs.values()) or ''}({', '.join(map(shown, inner))})"


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", FORMS)
def test_pairs(form: str) -> None:
    """XLA fuses no two ops to an op that changes between a number and NaN or an infinity."""
    normal = FLOATS[(FLOATS == 0) | ~(np.abs(FLOATS) < 1e-20)]
    arrays = [array.ravel() for array in np.meshgrid(normal, normal)]
    trees = list(share(pairs()))
    functions = [lambda x, y, tree=tree: computed(tree, (x, y), traced) for tree in trees]
    found = by_xla(functions, [arrays] * len(trees), form)
    wrong: list[str] = []
    for tree, have in zip(trees, found, strict=True):
        want = computed(tree, arrays, one_by_one)
        at = np.flatnonzero(~same(kinds(have), kinds(want)))
        wrong += [
            f"{shown(tree)} of {[a[i].item() for a in arrays]}: {have[i]}, for {want[i]}"
            for i in at[:1]
        ]
    assert not wrong, f"{len(wrong)} of {len(trees)}:\n" + "\n".join(wrong)
