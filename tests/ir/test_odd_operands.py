"""Operands and properties that no op takes: its type rule refuses them in words.

Each sample of each op is changed in one place: a property has another number or length, an operand
another shape or element type. The rule infers types or raises one of graphopt's errors, and nothing
else: an untrusted file may have any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from graphopt.errors import GraphoptError
from graphopt.ir.dialect.attrs import DTYPE
from graphopt.ir.dialect.definition import attr_kinds, default_attrs
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.types import UNKNOWN, Tensor, dtype_of, shape_of, tensor
from graphopt_tests.ir.test_ops import SAMPLES
from graphopt_tests.op_calls import build
from graphopt_tests.ops.base import Sample

Groups = list[list[Tensor]]
# they stand for other ops, whose rules refuse
STAND_INS = ("pd.grad", "pd.vjp")
FAMILIES = sorted({op.__module__ for op in SAMPLES})


def odd_values(value: Any) -> Sequence[Any]:
    """List other values of a property's kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [0, -1, 1, 7, -9, 2**40]
    if isinstance(value, float):
        return [0.0, -1.0, float("nan"), float("inf")]
    if isinstance(value, str):
        return ["", "other"]
    if isinstance(value, (tuple, list)):
        numbers = [(0,) * len(value), (-1,) * len(value), (99,) * len(value), (5,), (2, 2, 2)]
        are_numbers = all(isinstance(item, int) for item in value)
        return [(), tuple(value)[1:], (*value, *value[:1]), *(numbers if are_numbers else ())]
    return []


def odd_types(type_: Tensor) -> Iterator[Tensor]:
    """Yield tensors of other ranks, sizes and element types."""
    shape, dtype = shape_of(type_), dtype_of(type_)
    others = [(*shape, 1), shape[1:], shape[:-1], (), (UNKNOWN,) * len(shape), (3,) * len(shape)]
    for size in (0, 5, UNKNOWN) if shape else ():
        others += [(size, *shape[1:]), (*shape[:-1], size)]
    yield from (tensor(other, dtype) for other in others)
    yield from (tensor(shape, d) for d in ("bool", "int32", "float64", "complex64", "bfloat16"))


def changed(op_class: type[PdOp], sample: Sample) -> Iterator[tuple[Groups, dict[str, Any]]]:
    """Yield the operands and properties of a sample, each time with one change."""
    attrs = {**default_attrs(op_class), **sample.attrs}
    groups = [[v.type for v in group] for group in build(op_class, sample)[1].operand_groups()]
    for name, value in attrs.items():
        if attr_kinds(op_class)[name].name.startswith(DTYPE.name):
            continue  # whatever is no element type is refused where it is read
        for other in odd_values(value):
            yield groups, {**attrs, name: other}
    for field, group in enumerate(groups):
        for place, type_ in enumerate(group):
            for other in odd_types(type_):
                new = [*group[:place], other, *group[place + 1 :]]
                yield [*groups[:field], new, *groups[field + 1 :]], attrs


@pytest.mark.every(5)
@pytest.mark.parametrize("family", FAMILIES)
def test_refused_in_words(family: str) -> None:
    """None of the 55,000 changes raises one of Python's own errors."""
    for op_class, samples in SAMPLES.items():
        if op_class.__module__ != family or op_class.name in STAND_INS:
            continue
        for sample in samples:
            for groups, attrs in changed(op_class, sample):
                try:
                    infer_types(op_class, groups, attrs)
                except GraphoptError:
                    pass
                except Exception as error:
                    error.add_note(f"in {op_class.name} of {groups} with {attrs}")
                    raise
