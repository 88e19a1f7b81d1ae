"""Every op declares the properties that passes rely on, and its samples confirm them.

The reference interpreter computes the ops that it has rules for, and the lowering the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.math import Square
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.reduce import ClipByNorm, Cumsum, Mean, PNorm
from graphopt.ir.dialect.traits import (
    AlongAxis,
    Elementwise,
    Linear,
    Movement,
    Opaque,
    OverAxes,
    Reduction,
    Rowwise,
    Shown,
    Statement,
)
from graphopt.reference import Unsupported, evaluate_ops, supports
from graphopt_tests.ir.test_ops import SAMPLES
from graphopt_tests.op_calls import build, flat, groups_of, rule_of
from graphopt_tests.ops.base import Array, Sample, f32, sample

Check = Callable[[type[PdOp], Sample], None]


# What classes say ---------------------------------------------------------------------------------


def test_every_op_says_something() -> None:
    """Each op has each kind of statement once, and `Opaque` only on its own."""
    for op in ALL:
        kinds = [type(statement) for statement in op.get_traits_of_type(Statement)]
        assert kinds, f"{op.name} says nothing: give it a trait, or derive it from OpaqueOp"
        assert len(kinds) == len(set(kinds)), f"{op.name} says something twice: {kinds}"
        assert kinds == [Opaque] or Opaque not in kinds, f"{op.name} is not Opaque: {kinds}"


def test_statements_name_properties_of_their_ops() -> None:
    """An axis or a flag that a trait names is a property of the op."""
    for op in ALL:
        over = op.get_trait(OverAxes)
        if over is not None:
            named = {over.axis, over.flatten} - {None}
            assert named <= attr_kinds(op).keys(), op.name


# What they promise --------------------------------------------------------------------------------


def compute(op_class: type[PdOp], case: Sample) -> list[Array]:
    """Compute the results of an op for a sample."""
    block, op = build(op_class, case)
    if supports(op):
        try:
            found = evaluate_ops([op], dict(zip(block.args, flat(case), strict=True)))
            return [found[result] for result in op.results]
        except Unsupported:
            pass  # for a property of this sample
    with jax.enable_x64(True):
        return list(map(np.asarray, rule_of(op_class, case)(*flat(case))))


def with_operands(case: Sample, change: Callable[[int, Array], Array]) -> Sample:
    """Replace each operand of the sample by `change` of its number and array."""
    numbers = iter(range(len(flat(case))))
    operands = [
        None
        if operand is None
        else [change(next(numbers), array) for array in operand]
        if isinstance(operand, list)
        else change(next(numbers), operand)
        for operand in case.operands
    ]
    return replace(case, operands=tuple(operands))


def assert_same(have: Sequence[Array], want: Sequence[Array]) -> None:
    """Check equality up to rounding, in units of the largest element."""
    assert len(have) == len(want)
    for mine, other in zip(have, want, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        small = 1e-2 if "16" in mine.dtype.name and mine.dtype.kind in "fV" else 1e-5
        mine, other = mine.astype("complex128"), other.astype("complex128")
        largest = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
        np.testing.assert_allclose(mine, other, rtol=small, atol=small * largest)


def some(size: int) -> Array:
    """Choose some of the indices below `size`, in another order."""
    return np.arange(size)[::-2] if size > 1 else np.arange(size)


def take(axis: int) -> Callable[[Array], Array]:
    """Return a function that takes some indices of an axis, in another order."""
    return lambda array: np.take(array, some(array.shape[axis]), axis)


def elementwise(op_class: type[PdOp], case: Sample) -> None:
    """Check that selected elements of the operands give those elements of the results."""
    results = compute(op_class, case)
    shape = np.broadcast_shapes(*(array.shape for array in flat(case)))
    assert all(result.shape == shape for result in results)

    def pick(_: int, array: Array) -> Array:
        return take(0)(np.broadcast_to(array, shape).ravel())

    picked = [take(0)(result.ravel()) for result in results]
    assert_same(compute(op_class, with_operands(case, pick)), picked)


def linear(op_class: type[PdOp], case: Sample) -> None:
    """Check that the op of a sum is the sum of the results."""
    if any(array.dtype.kind not in "fic" for array in flat(case)):
        return

    def other(_: int, array: Array) -> Array:
        return 2 * array.ravel()[::-1].reshape(array.shape)

    second = with_operands(case, other)
    both = with_operands(case, lambda at, array: array + flat(second)[at])
    sums = zip(compute(op_class, case), compute(op_class, second), strict=True)
    assert_same(compute(op_class, both), [a + b for a, b in sums])


def movement(op_class: type[PdOp], case: Sample) -> None:
    """Check that results only move elements of the first operand, in order if the trait says so."""
    trait = op_class.get_trait(Movement)
    assert trait is not None
    given, results = groups_of(case)[0], compute(op_class, case)
    elements = np.concatenate([array.ravel() for array in given])
    for result in results:
        assert result.dtype == given[0].dtype
        assert np.isin(result.astype("complex128"), elements.astype("complex128")).all()
    if trait.in_order:
        np.testing.assert_array_equal(results[0].ravel(), elements)


def over_axes(op_class: type[PdOp], case: Sample) -> None:
    """Check that lines along the axes are independent, and that results have the trait's shape."""
    op, trait = build(op_class, case)[1], op_class.get_trait(OverAxes)
    assert trait is not None
    axes, x, results = trait.axes(op), flat(case)[0], compute(op_class, case)
    flat_only = trait.flatten is not None and op.attr(trait.flatten)
    for axis in range(x.ndim):
        if axis in axes:
            continue
        # without `keepdim` the axes in front of this one may be gone
        gone = sum(other < axis for other in axes) if results[0].ndim < x.ndim else 0
        fewer = with_operands(case, lambda _, array, axis=axis: take(axis)(array))
        expected = [take(axis - gone)(result) for result in results]
        assert_same(compute(op_class, fewer), expected)
    if isinstance(trait, AlongAxis):
        assert flat_only or all(result.shape == x.shape for result in results)
    if isinstance(trait, Reduction):
        kept = x.size if not axes else int(np.prod([x.shape[a] for a in {*range(x.ndim)} - axes]))
        assert all(result.size == kept for result in results)
        _neutral(op_class, case, trait, axes)


def _neutral(op_class: type[PdOp], case: Sample, trait: Reduction, axes: frozenset[int]) -> None:
    """Check that one more index of an axis, full of the neutral element, changes nothing."""
    x = flat(case)[0]
    if trait.neutral is None or not axes or (np.isinf(trait.neutral) and x.dtype.kind in "iub"):
        return
    if op_class is PNorm and case.attrs.get("porder", 2.0) < 0:
        return  # 0 is the end of that norm, and its readers know
    axis = min(axes)  # of all axes the outermost: further back, it would move flattened places

    def longer(_: int, array: Array) -> Array:
        shape = [1 if at == axis else size for at, size in enumerate(array.shape)]
        more = np.full(shape, trait.neutral, array.dtype)
        return np.concatenate([array, more], axis)

    assert_same(compute(op_class, with_operands(case, longer)), compute(op_class, case))


def rowwise(op_class: type[PdOp], case: Sample) -> None:
    """Check that selected rows of the operands give those rows of the results."""
    op, trait = build(op_class, case)[1], op_class.get_trait(Rowwise)
    assert trait is not None
    if not trait.when(op) or not flat(case)[0].ndim:
        return

    def pick(at: int, array: Array) -> Array:
        return take(0)(array) if trait.of_all or at == 0 else array

    count = 1 if trait.first_result else None
    expected = [take(0)(result) for result in compute(op_class, case)[:count]]
    assert_same(compute(op_class, with_operands(case, pick))[:count], expected)


CHECKS: dict[type[Statement], Check] = {
    Elementwise: elementwise,
    Linear: linear,
    Movement: movement,
    AlongAxis: over_axes,
    Reduction: over_axes,
    Rowwise: rowwise,
}
# the one has nothing to hold, the other speaks of people
UNCHECKED = {Opaque, Shown}
FAMILIES = sorted({op.__module__ for op in ALL if not op.has_trait(Opaque)})


def promises(family: str) -> Iterator[tuple[type[PdOp], Sample, Check]]:
    """Yield the statements of a family's ops as checks, with each sample."""
    for op in ALL:
        if op.__module__ == family:
            for statement in op.get_traits_of_type(Statement):
                if type(statement) not in UNCHECKED:
                    for case in SAMPLES[op]:
                        yield op, case, CHECKS[type(statement)]


def broken(found: Iterator[tuple[type[PdOp], Sample, Check]]) -> list[str]:
    """List the statements that samples contradict."""
    wrong: list[str] = []
    for op_class, case, check in found:
        try:
            check(op_class, case)
        except Exception as error:
            wrong.append(f"{op_class.name}, {check.__name__}: {type(error).__name__}: {error}")
    return wrong


@pytest.mark.every(5)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_an_op_says_holds(family: str) -> None:
    """The statements of a family's ops hold for all of their samples."""
    wrong = broken(promises(family))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("op_class", "case", "check"),
    [
        pytest.param(ClipByNorm, sample(f32(3, 2), max_norm=0.5), elementwise, id="norm"),
        pytest.param(Softmax, sample(f32(3, 4)), elementwise, id="softmax"),
        pytest.param(Square, sample(f32(3)), linear, id="square"),
        pytest.param(Cumsum, sample(f32(3, 2), axis=0), rowwise, id="rows"),
        pytest.param(Pad, sample(f32(2), paddings=[1, 0], value=9.0), movement, id="fill"),
    ],
)
def test_a_wrong_statement_is_noticed(
    op_class: type[PdOp], case: Sample, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that does not hold for an op fails its check."""
    said = {Movement: Movement(), Rowwise: Rowwise()}
    monkeypatch.setattr(op_class, "get_trait", lambda kind: said[kind])
    with pytest.raises(AssertionError):
        check(op_class, case)


def test_the_axes_of_a_reduction() -> None:
    """Axes count from the first one; if none is named, all are reduced."""
    trait: Any = Mean.get_trait(Reduction)
    for given, expected in (([-1], {1}), ([], {0, 1}), ([0, -1], {0, 1})):
        assert trait.axes(build(Mean, sample(f32(2, 3), axis=given))[1]) == expected
