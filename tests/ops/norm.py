"""Samples of the normalization layers and of division by a norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import norm as ops
from graphopt_tests.ops.base import Array, Sample, bf16, f16, f32, f64, sample


def in_channels(vector: Array | None, x: Array, axis: int, default: float) -> Array:
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    return np.full((), default) if vector is None else vector.reshape(shape)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    bias: Array | None,
    axis: int = 1,
    frozen: bool = False,
) -> tuple[Array, ...]:
    """Compute the five results with momentum 0.9 and epsilon 1e-5."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    used = (mean, variance) if frozen else (x.mean(others), x.var(others))
    kept = (1.0 if frozen else 0.9) * np.array([mean, variance])
    kept += (0.0 if frozen else 0.1) * np.array(used)
    inverse = (used[1] + 1e-5) ** -0.5
    out = (x - in_channels(used[0], x, axis, 0)) * in_channels(inverse, x, axis, 1)
    out = out * in_channels(scale, x, axis, 1) + in_channels(bias, x, axis, 0)
    return out, kept[0], kept[1], used[0], inverse


def frozen(*operands: Array) -> tuple[Array, ...]:
    return batch_norm(*operands, frozen=True)


def norm(*operands: Any, **attrs: Any) -> Sample:
    return sample(*operands, **attrs).gradient_through(0)


def vectors(length: int) -> tuple[Array, ...]:
    """Make moving mean, moving variance, scale and bias."""
    return f32(length), abs(f32(length)), f32(length), f32(length)


def layer_norm(
    x: Array, scale: Array | None, bias: Array | None, begin: int = 1
) -> tuple[Array, ...]:
    rows = x.reshape(*x.shape[:begin], -1)
    mean, variance = rows.mean(-1), rows.var(-1)
    out = (rows - mean[..., None]) / np.sqrt(variance + 1e-5)[..., None]
    out = out * (1 if scale is None else scale) + (0 if bias is None else bias)
    return out.reshape(x.shape), mean.ravel(), variance.ravel()


def grouped(x: Any, groups: int) -> tuple[Any, Any, Any]:
    """Normalize x [n, c, ...] over groups; return it with means and variances."""
    rows = x.reshape(len(x), groups, -1).astype(float)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    out = (rows - mean) / np.sqrt(variance + 1e-5)
    return out.reshape(x.shape), mean[..., 0], variance[..., 0]


def instances(x: Any, affine: Any) -> tuple[Any, Any, Any]:
    """Normalize x over space and transform it; return it with means and inverse deviations."""
    out, mean, variance = grouped(x, x.shape[1])
    return affine(out), mean.ravel(), 1 / np.sqrt(variance.ravel() + 1e-5)


WEIGHT = [[3.0, 0.0], [0.0, 1.0]]


SAMPLES = {
    ops.BatchNorm: [
        norm(f32(2, 3, 2, 2), *vectors(3)).gives(batch_norm),
        norm(f32(4, 3), *vectors(3), sync=True).gives(batch_norm),
        norm(f32(4, 2, 2, 3), *vectors(3), data_format="NHWC").gives(
            lambda *a: batch_norm(*a, axis=3)
        ),
        norm(f64(4, 2), f64(2), abs(f64(2)), None, f64(2)).gives(batch_norm),
        norm(f32(4, 2), f32(2), abs(f32(2)), f32(2)).gives(lambda *a: batch_norm(*a, None)),
        norm(bf16(4, 2), *vectors(2)).gives(batch_norm),
        norm(f32(2, 3), *vectors(3), is_test=True).gives(frozen),
        norm(f32(2, 3), *vectors(3), use_global_stats=True).gives(frozen),
        norm(f32(2, 3), *vectors(3), is_test=True, trainable_statistics=True).gives(batch_norm),
    ],
    ops.LayerNorm: [
        sample(f32(2, 3, 4), f32(12), f32(12)).gives(layer_norm),
        sample(f32(2, 3, 4), f32(4), None, begin_norm_axis=2).gives(
            lambda *a: layer_norm(*a, begin=2)
        ),
        sample(f64(2, 3)).gives(lambda x: layer_norm(x, None, None)),
        sample(f16(2, 3), f32(3), f32(3)).gives(layer_norm),
        sample(bf16(0, 3), None, bf16(3)),
    ],
    ops.GroupNorm: [
        sample(f32(2, 4, 3), f32(4), f32(4), groups=2)
        .gives(
            lambda x, scale, bias: (
                grouped(x, 2)[0] * scale[:, None] + bias[:, None],
                *grouped(x, 2)[1:],
            )
        )
        .gradient_through(0),
        sample(f64(2, 3, 2), groups=2, data_layout="NHWC")
        .gives(
            lambda x: (
                grouped(x.transpose(0, 2, 1), 2)[0].transpose(0, 2, 1),
                *grouped(x.transpose(0, 2, 1), 2)[1:],
            )
        )
        .gradient_through(0),
    ],
    ops.InstanceNorm: [
        sample(f32(2, 3, 4), f32(3), f32(3))
        .gives(lambda x, scale, bias: instances(x, lambda y: y * scale[:, None] + bias[:, None]))
        .gradient_through(0),
        sample(f64(1, 2, 2, 2)).gives(lambda x: instances(x, lambda y: y)).gradient_through(0),
    ],
    ops.SpectralNorm: [
        sample(f64(WEIGHT), f64([1.0, 0.0]), f64([0.0, 1.0])).gives(lambda w, u, v: w / 3).kinked(),
        sample(f32(2, 3, 2), f32(3), f32(4), dim=1, power_iters=40)
        .gives(lambda w, u, v: w / np.linalg.norm(w.transpose(1, 0, 2).reshape(3, 4), 2))
        .kinked(),
        sample(f64(2, 2), f64(2), f64(2), power_iters=0)
        .gives(lambda w, u, v: w / (u @ w @ v))
        .kinked(),
    ],
    ops.Renorm: [
        sample(f64([[3.0, 4.0], [0.3, 0.4]]), p=2.0, axis=0, max_norm=1.0).gives(
            lambda x: [x[0] / 5, x[1]]
        ),
        sample(f32([[3.0, 1.0], [0.0, 0.0]]), p=1.0, axis=-1, max_norm=2.0)
        .gives(lambda x: x * [2 / 3, 1])
        .kinked(),
        sample(f64(2, 3, 2), p=3.0, axis=1, max_norm=1.5),
    ],
    ops.Cvm: [
        sample(f64([[1.0, 2.0, 3.0], [0.0, 5.0, -1.0]]), f64([[1.0, 0.0], [3.0, 2.0]]))
        .gives(
            lambda x, c: np.stack(
                [np.log(x[:, 0] + 1), np.log((x[:, 1] + 1) / (x[:, 0] + 1)), x[:, 2]], 1
            )
        )
        .kinked(),
        sample(f32(3, 4), f32(3, 2), use_cvm=False).gives(lambda x, c: x[:, 2:]).kinked(),
    ],
    ops.DataNorm: [
        sample(f64(3, 2), f64([4.0, 4.0]), f64([2.0, 4.0]), f64([1.0, 16.0]))
        .gives(lambda x, n, s, q: ((x - s / n) * np.sqrt(n / q), s / n, np.sqrt(n / q)))
        .kinked(),
        sample(f32(3, 2), f32([1.0, 1.0]), f32(2), f32([1.0, 1.0]), f32(2), f32(2)).kinked(),
        sample(f64(2, 3, 1, 2), f64([2.0, 3.0, 4.0]), f64(3), f64([1.0, 2.0, 3.0])).kinked(),
    ],
}
