"""Samples of the op that stands for another one some of whose properties are tensors."""

from __future__ import annotations

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.shape import Slice, Split
from graphopt_tests.ops.base import f32, i64, sample

SAMPLES = {
    Dynamic: [
        sample(
            [f32(2, 3)],
            [i64([3, 2])],
            op="pd.reshape",
            groups=[1],
            dynamic=["shape"],
            attrs={},
        ).known_sizes(),
        sample(
            [f32(2, 3)],
            [i64([1]), i64([2])],
            op="pd.slice",
            groups=[1],
            dynamic=["starts", "ends"],
            attrs=encode_attrs(Slice, {"axes": [1], "decrease_axis": [1]}),
        ),
        sample(
            [f32(4, 2)],
            [i64([0]).reshape(())],
            op="pd.split",
            groups=[1],
            dynamic=["axis"],
            attrs=encode_attrs(Split, {"num": 2, "sections": []}),
        ),
    ]
}
