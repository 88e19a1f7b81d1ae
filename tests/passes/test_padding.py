"""Padded feeds, op by op: with masks, a program on padded rows gives the same results.

Every sample of every op is run with each axis padded, where a rule supports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from graphopt.debug.compare import run_module
from graphopt.errors import ProgramError
from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.control import RegionOp, Yield
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.signature import FEED, FETCH
from graphopt.ir.dialect.traits import Elementwise, Rowwise
from graphopt.ir.dialect.types import UNKNOWN, tensor
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.padding.dims import Axes, CannotPad, join_factors, reshape_axes
from graphopt.passes.padding.mask import mask_padding
from graphopt.passes.padding.masked import Masked, count_name, mask_name
from graphopt.passes.padding.rules import carry
from graphopt.runtime.feeds.padded_rows import count_of, cut, mask_of
from graphopt.runtime.runners.bucketed import _with_rows
from graphopt_tests.op_calls import flat, groups_of
from graphopt_tests.ops.base import Array, Sample
from graphopt_tests.sample_modules import modules_in

SAMPLES: dict[type[PdOp], list[Sample]] = {
    op: samples
    for module in modules_in("ops").values()
    for op, samples in getattr(module, "SAMPLES", {}).items()
}
NOT_HERE = (DataSizedOp, RegionOp, Yield, Grad, Dynamic, RandomOp)
EXTRA = 2


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def has_rule(op_class: type[PdOp]) -> bool:
    by_trait = op_class.has_trait(Elementwise) or op_class.has_trait(Rowwise)
    return by_trait or carry.dispatch(op_class) is not carry.dispatch(object)


CASES = [
    pytest.param(op, case, id=f"{op.name}-{number}", marks=[pytest.mark.slow] if number else [])
    for op, cases in SAMPLES.items()
    for number, case in enumerate(cases)
    if has_rule(op) and not issubclass(op, NOT_HERE)
]
Padding = list[Axes]


def paddings(operands: Sequence[Array]) -> Iterator[Padding]:
    """Yield each axis of each operand alone, then all axes of one size together."""
    for index, array in enumerate(operands):
        for at, size in enumerate(array.shape):
            if size:
                alone: Padding = [(None,) * other.ndim for other in operands]
                alone[index] = tuple(("n",) if i == at else None for i in range(array.ndim))
                yield alone
    for size in sorted({size for array in operands for size in array.shape} - {0, 1}):
        yield [tuple(("n",) if dim == size else None for dim in array.shape) for array in operands]


def module_of(op_class: type[PdOp], case: Sample, padding: Padding) -> ModuleOp:
    """Build a module that feeds the op and fetches its results; padded axes are open."""
    operands = flat(case)
    types = [
        tensor(
            [UNKNOWN if dim else size for dim, size in zip(axes, array.shape, strict=True)],
            array.dtype,
        )
        for array, axes in zip(operands, padding, strict=True)
    ]
    block = Block(arg_types=types)
    arguments = iter(block.args)
    given = [
        operand if operand is None else [next(arguments) for _ in group]
        for operand, group in zip(case.operands, groups_of(case), strict=True)
    ]
    op = op_class.make(*given, **case.attrs)
    block.add_ops([op, ReturnOp(*op.results)])

    def names(kind: str, letter: str, count: int) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr([DictionaryAttr({kind: StringAttr(f"{letter}{i}")}) for i in range(count)])

    function = FuncOp(
        "main",
        FunctionType.from_lists(types, [result.type for result in op.results]),
        Region(block),
        arg_attrs=names(FEED, "x", len(types)),
        res_attrs=names(FETCH, "y", len(op.results)),
    )
    return ModuleOp([function])


def run_padded(module: ModuleOp, masked: Masked, feeds: dict[str, Array], axes: Any) -> Any:
    """Run a masked module on padded feeds, and cut the fetches to the data."""
    size = next(
        array.shape[at]
        for name, array in feeds.items()
        for at, dim in enumerate(axes[name])
        if dim is not None
    )
    rows = {"n": (size, size + EXTRA)}
    names = {name: tuple(dim[0] if dim else None for dim in axes[name]) for name in feeds}
    inputs = {name: _with_rows(array, names[name], rows) for name, array in feeds.items()}
    inputs |= {mask_name(dim): mask_of(dim, rows) for dim in masked.masks}
    inputs |= {count_name(dim): np.array(count_of(dim, rows)) for dim in masked.counts}
    results = run_module(module, inputs, one_by_one=True)
    return {
        name: cut(array, masked.fetches.get(name.split(" ")[1], ()), rows)
        for name, array in results.items()
    }


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("op_class", "case"), CASES)
@pytest.mark.slow
def test_padding_changes_nothing(op_class: type[PdOp], case: Sample) -> None:
    operands = flat(case)
    feeds = {f"x{index}": array for index, array in enumerate(operands)}
    wanted = None
    for padding in paddings(operands):
        axes = dict(zip(feeds, padding, strict=True))
        try:
            module = module_of(op_class, case, padding)
            masked = mask_padding(module, axes)
        except (CannotPad, ProgramError):
            continue
        module.verify()
        verify_ssa(module)
        if wanted is None:
            nothing = [(None,) * array.ndim for array in operands]
            wanted = run_module(module_of(op_class, case, nothing), feeds, one_by_one=True)
        found = run_padded(module, masked, feeds, axes)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            assert found[name].shape == array.shape, (padding, name)
            assert found[name].dtype == array.dtype, (padding, name)
            kind = "complex128" if array.dtype.kind == "c" else "float64"
            np.testing.assert_allclose(
                found[name].astype(kind),
                array.astype(kind),
                rtol=1e-2 if array.dtype.itemsize < 4 else 1e-5,
                atol=1e-6,
                err_msg=f"{padding} {name}",
            )


@pytest.mark.parametrize(
    ("shape", "axes", "wanted", "found"),
    [
        ((-1, 7, 4), (("b",), None, None), (-1, 4), (("b", 7), None)),
        ((-1, -1, 4), (("b",), ("t",), None), (-1, 4), (("b", "t"), None)),
        ((-1, -1, 8), (("b",), ("t",), None), (0, 0, 2, 4), (("b",), ("t",), None, None)),
        ((-1, 8), (("b",), None), (-1, 2, 4), (("b",), None, None)),
        ((-1, 8), (("b", 3), None), (-1, 3, 8), (("b",), None, None)),
        ((-1, 8), (("b", 6), None), (-1, 3, 8), (("b", 2), None, None)),
        ((4, -1, 6), (None, ("b",), None), (2, 2, -1), (None, None, ("b", 6))),
        ((4, -1, 6), (None, ("b",), None), (4, -1, 2, 3), (None, ("b",), None, None)),
        ((2, 3), (None, None), (-1,), (None,)),
    ],
)
def test_reshaped_axes(
    shape: tuple[int, ...], axes: Axes, wanted: tuple[int, ...], found: Axes
) -> None:
    assert reshape_axes(shape, axes, wanted) == found


@pytest.mark.parametrize(
    ("shape", "axes", "wanted"),
    [
        ((-1, 8), (("b",), None), (4, -1)),  # cuts the batch in four
        ((-1, 8), (("b", 3), None), (-1, 2, 8)),
        ((-1, -1), (("b",), None), (-1, 1)),  # the other size is not known
        ((-1,), (("b",),), (5,)),
    ],
)
def test_reshapes_that_mix_rows_with_padding(
    shape: tuple[int, ...], axes: Axes, wanted: tuple[int, ...]
) -> None:
    with pytest.raises(CannotPad):
        reshape_axes(shape, axes, wanted)


def test_factors_join() -> None:
    assert join_factors(["b", 2, 3, 1]) == ("b", 6)
    assert join_factors([2, 3]) is None


def test_every_rule_is_for_an_op_that_exists() -> None:
    """Each rule has an op, and most ops of networks have a rule."""
    assert sum(has_rule(op) for op in ALL) > 150
