"""Samples of the derivatives.

They have the types of `pd.grad` only: the lowering of the program computes it.
"""

from __future__ import annotations

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt_tests.ops.base import f32, f64, i64, sample

SAMPLES = {
    Grad: [
        sample([f32()], [f32(2, 3), f32(3)], [f32()], [f32(4)], parameters=(1,)),
        sample([f64(2), f64(3)], [f64(2)], [f64(2), f64(3)], []),
        sample([f32()], [], [f32()], []),
    ],
    Vjp: [
        sample(
            [f32(2, 3)], [f32(2, 3)], op="pd.square", groups=[1], attrs={}, ins=[0], outs=[0]
        ).gives(lambda inputs, cotangents: 2 * inputs[0] * cotangents[0]),
        sample(
            [f32(3, 2), f32(3, 4)],
            [f32(2, 4)],
            op="pd.matmul",
            groups=[1, 1],
            attrs=encode_attrs(Matmul, {"transpose_x": True}),
            ins=[1],
            outs=[0],
        ).gives(lambda inputs, cotangents: inputs[0] @ cotangents[0]),
        sample(
            [f32(3, 2), f32(3, 2)],
            [f32(3, 2)],
            op="pd.add",
            groups=[1, 1],
            attrs={},
            ins=[0, 1],
            outs=[0],
        ).gives(lambda inputs, cotangents: (cotangents[0], cotangents[0])),
        sample(
            [i64([2, 0, 2]), f32(3, 2)],
            [f32(3, 2)],
            op="pd.embedding",
            groups=[1, 1],
            attrs={},
            ins=[1],
            outs=[0],
        ),
    ],
}
