"""An op that a branch on some of the rows may contain treats each row on its own."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Prelu, Relu
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.ops.logic import Isnan
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.reduce import ClipByNorm, Cumsum
from graphopt.ir.translate.blocks.rowwise import check_rowwise
from graphopt_tests.ir.test_ops import COMPUTED
from graphopt_tests.op_calls import build, flat, rule_of
from graphopt_tests.ops.base import Sample, f32, sample


def is_accepted(op_class: type[PdOp], case: Sample, split: tuple[int, ...]) -> bool:
    """Return whether rows of these operands may be split between branches."""
    op = build(op_class, case)[1]
    try:
        check_rowwise(op, {op.operands[at] for at in split})
    except UnsupportedError:
        return False
    return True


def splits(op_class: type[PdOp], case: Sample) -> list[tuple[int, ...]]:
    """List the operands that share the first operand's rows: the first alone, and all of them."""
    operands = flat(case)
    if not operands or not operands[0].ndim:
        return []
    rows = [at for at, x in enumerate(operands) if x.ndim and len(x) == len(operands[0])]
    return [(0,), tuple(rows)] if len(operands[0]) > 1 else []


def accepted() -> Iterator[tuple[type[PdOp], Sample, tuple[int, ...]]]:
    """Yield, for each op, a sample for each way to split its operands."""
    seen: set[tuple[type[PdOp], bool]] = set()
    for case in COMPUTED:
        op_class, given = case.values
        # fill_rows is what hands the rows to a branch
        if issubclass(op_class, (DataSizedOp, FillRows)):
            continue
        for split in splits(op_class, given):
            kind = op_class, len(split) > 1
            if kind not in seen and is_accepted(op_class, given, split):
                seen.add(kind)
                yield op_class, given, split


def keeps_rows_apart(op_class: type[PdOp], given: Sample, split: tuple[int, ...]) -> bool:
    """Return whether operands with reversed rows give results with reversed rows."""
    operands = flat(given)
    turned = [x[::-1] if at in split else x for at, x in enumerate(operands)]
    rule = jax.jit(rule_of(op_class, given))
    return all(
        plain.ndim
        and np.allclose(
            np.asarray(plain)[::-1].astype("complex128"),
            np.asarray(other).astype("complex128"),
            rtol=1e-2 if "16" in str(plain.dtype) else 1e-5,
            atol=1e-6,
            equal_nan=True,
        )
        for plain, other in zip(rule(*operands), rule(*turned), strict=True)
    )


@pytest.mark.exhaustive
def test_every_accepted_op_keeps_rows_apart() -> None:
    """Each op that a branch may contain treats rows apart, however its operands are split."""
    cases = list(accepted())
    assert len(cases) > 50
    with jax.enable_x64(True):
        wrong = [case[0].name for case in cases if not keeps_rows_apart(*case)]
    assert not wrong


def test_what_traits_say_is_accepted() -> None:
    """An elementwise test, a running sum within rows, and a weight for all rows are accepted."""
    for op_class, case in (
        (Isnan, sample(f32(3, 2))),
        (Cumsum, sample(f32(3, 2), axis=1)),
        (Prelu, sample(f32(3, 2), f32(1), mode="all")),
    ):
        assert is_accepted(op_class, case, (0,))
    assert not is_accepted(Cumsum, sample(f32(3, 2), axis=0), (0,))
    assert not is_accepted(Cumsum, sample(f32(3, 2), flatten=True), (0,))


def test_statistics_of_a_norm_have_no_rows() -> None:
    """A layer_norm of [3, 2, 4] from axis 2 on has six means, not three."""
    block, op = build(LayerNorm, sample(f32(3, 2, 4), None, None, begin_norm_axis=2))
    split = {block.args[0]}
    check_rowwise(op, split)
    for result, is_split in zip(op.results, (True, False, False), strict=True):
        reader = Relu.make(result)
        if is_split:
            check_rowwise(reader, split)
        else:
            with pytest.raises(UnsupportedError, match=r"pd\.relu in a branch of IfElse"):
                check_rowwise(reader, split)


def test_a_norm_of_all_rows_is_refused() -> None:
    """clip_by_norm scales by the length of the whole tensor."""
    assert not is_accepted(ClipByNorm, sample(f32(3, 2), max_norm=1.0), (0,))
