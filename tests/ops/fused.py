"""Samples of the fused ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import fused as ops
from graphopt.ir.dialect.ops.activation import Elu, Gelu, Hardtanh, LeakyRelu
from graphopt_tests.ops.activation import sigmoid
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample
from graphopt_tests.ops.conv import convolution, hwio, nhwc
from graphopt_tests.ops.norm import batch_norm, norm, vectors


def attrs(op: type[PdOp], **values: Any) -> dict[str, Any]:
    """Encode properties of an activation as a fused op holds them."""
    kinds = attr_kinds(op)
    return {name: kinds[name].encode(value) for name, value in values.items()}


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def unpacked(filters: Array, outs: int) -> Array:
    """Unpack filters to [height, width, in, out]."""
    return np.concatenate(list(filters), -1)[..., :outs]


def relu_of_batch_norm(*operands: Array) -> tuple[Array, ...]:
    out, *statistics = batch_norm(*operands)
    return relu(out), *statistics


def relu_of_sum(x: Array, z: Array, *vectors: Array) -> tuple[Array, ...]:
    out, *statistics = batch_norm(x, *vectors)
    return relu(out + z), *statistics


SAMPLES = {
    ops.FusedGemmEpilogue: [
        sample(f32(2, 3), f32(3, 4), f32(4)).gives(lambda x, y, b: x @ y + b),
        sample(f32(2, 3), f32(4, 3), f32(4), transpose_y=True, activation="relu").gives(
            lambda x, y, b: relu(x @ y.T + b)
        ),
        sample(f64(2, 2, 3), f64(3, 2), f64(2), activation="gelu", approximate=True),
        sample(bf16(2, 3), bf16(3, 2), bf16(2), activation="gelu"),
        sample(
            f32(2, 3),
            f32(3, 2),
            f32(2),
            activation="leaky_relu",
            act_attrs=attrs(LeakyRelu, negative_slope=0.5),
        ).gives(lambda x, y, b: np.maximum(x @ y + b, 0.5 * (x @ y + b))),
    ],
    ops.FusedConv2dAddAct: [
        sample(f32(1, 4, 5, 2), f32(3, 2, 2, 3), f32(3), None).gives(
            lambda x, w, b, _: nhwc(convolution())(x, w) + b
        ),
        sample(
            *(f64(2, 5, 6, 3), f64(3, 2, 3, 4), f64(1, 1, 1, 4), f64(2, 2, 6, 4)),
            strides=(2, 1),
            paddings=(1, 0, 0, 2),
            dilations=(1, 2),
            filter_format="HWIO",
            algorithm="im2col",
            activation="relu",
        ).gives(
            lambda x, w, b, z: relu(
                nhwc(hwio(convolution((2, 1), (1, 0, 0, 2), (1, 2))))(x, w) + b + z
            )
        ),
        sample(bf16(1, 3, 3, 2), bf16(2, 2, 2, 2), bf16(2), None, activation="relu"),
        sample(
            *(f32(1, 3, 4, 2), f32(3, 2, 2, 2, 2), f32(5), None),
            filter_format=ops.PACKED,
        ).gives(lambda x, w, b, _: nhwc(hwio(convolution()))(x, unpacked(w, 5)) + b),
    ],
    ops.FusedBatchNormAct: [
        norm(f32(4, 3), *vectors(3)).gives(relu_of_batch_norm),
        norm(f32(2, 2, 2, 3), *vectors(3), activation="tanh", data_format="NHWC"),
        norm(bf16(4, 2), *vectors(2), use_global_stats=True),
        norm(f32(4, 2), *vectors(2), activation="gelu", act_attrs=attrs(Gelu, approximate=True)),
    ],
    ops.FusedBnAddActivation: [
        norm(f32(4, 3), f32(4, 3), *vectors(3)).gives(relu_of_sum),
        norm(bf16(4, 2), bf16(4, 2), *vectors(2), activation="sigmoid", is_test=True),
        norm(f32(4, 2), f32(4, 2), *vectors(2), activation="elu", act_attrs=attrs(Elu, alpha=0.5)),
    ],
    ops.FusedElemwiseAddActivation: [
        sample(f32(2, 3), f32(3), functor_list=("relu", "elementwise_add")).gives(
            lambda x, y: relu(x + y)
        ),
        sample(f32(3), f64(2, 3).astype("f4"), functor_list=("elementwise_add", "sigmoid")).gives(
            lambda x, y: x + sigmoid(y)
        ),
        sample(f64(3), f64(3), functor_list=("scale", "elementwise_add"), scale=2.5).gives(
            lambda x, y: 2.5 * (x + y)
        ),
        sample(f32(3), f32(3), functor_list=("elementwise_add", "gelu"), approximate=True),
        sample(
            f32(3),
            f32(3),
            functor_list=("hardtanh", "elementwise_add"),
            act_attrs=attrs(Hardtanh, t_min=-0.5, t_max=0.5),
        ).gives(lambda x, y: np.clip(x + y, -0.5, 0.5)),
    ],
}
