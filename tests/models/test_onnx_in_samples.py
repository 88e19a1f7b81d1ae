"""Samples that graphopt writes as ONNX are read again, with the lowering's numbers.

The samples of every op that can be written are the test: its files have most of ONNX's operators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.families import BY_NAME, family_of
from graphopt_tests.ir.test_ops import SAMPLES
from graphopt_tests.models.test_onnx_ops import (
    OTHERWISE,
    Case,
    check,
    flat,
    is_random,
    parts,
    rule_of,
    sixty_four_bits,
    valid,
    with_a_formula,
)

pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")

from graphopt.models.export.onnx.registry import ENTRIES
from graphopt.models.model import read_model

__all__ = ["sixty_four_bits"]


def came_in(cases: list[Case], folder: Path, opset: int = 20) -> list[Any]:
    """Write the samples as ONNX, read them again, and return the results."""
    path = folder / "m.onnx"
    path.write_bytes(valid(cases, opset).SerializeToString())
    model = read_model(path)
    arrays = [np.asarray(array) for _, case in cases for array in flat(case)]
    given = {f"x{at}": parts(array) for at, array in enumerate(arrays)}
    return model.run({name: given[name] for name in model.feed_names})


def wanted_of(cases: list[Case]) -> list[Any]:
    with np.errstate(all="ignore"):
        results = [each for op, case in cases for each in rule_of(op, case)(*flat(case))]
    return [parts(np.asarray(each)) for each in results]


@pytest.mark.parametrize("family", ["logic", "linear"])
def test_a_sample_of_each_op(family: str, tmp_path: Path) -> None:
    own = [op_class for op_class in ENTRIES if family_of(op_class) == family]
    cases = [(op, case) for op in own if (case := with_a_formula(op)) is not None]
    wanted = wanted_of(cases)
    check(came_in(cases, tmp_path), wanted, [np.asarray(value).dtype for value in wanted])


@pytest.mark.exhaustive
@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("name", sorted(op_class.name for op_class in ENTRIES))
def test_every_sample(name: str, opset: int, tmp_path: Path) -> None:
    for number, case in enumerate(SAMPLES[BY_NAME[name]]):
        if (name, number) in OTHERWISE:
            continue
        cases = [(BY_NAME[name], case)]
        try:
            valid(cases, opset)
        except UnsupportedError:
            continue
        found, wanted = came_in(cases, tmp_path, opset), wanted_of(cases)
        if is_random(*cases[0]):  # other numbers of the same distribution
            assert [(v.dtype, v.shape) for v in found] == [(v.dtype, v.shape) for v in wanted]
            continue
        check(found, wanted, [value.dtype for value in wanted])
