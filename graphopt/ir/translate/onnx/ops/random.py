"""Random numbers. A node without a seed draws new ones in each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import random as ops
from graphopt.ir.dialect.ops.math import Exp
from graphopt.ir.translate.onnx.emitter import OnnxEmitter
from graphopt.ir.translate.onnx.ops.creation import emit_dtype
from graphopt.ir.translate.onnx.registry import reads


def _seed(number: float | None) -> int:
    """Convert a seed of ONNX, which is a float, to a whole number above 0; 0 without a seed."""
    return 0 if number is None else abs(int(number)) % (2**31 - 2) + 1


def _draw(
    emit: OnnxEmitter, op_class: type[PdOp], shape: SSAValue | Sequence[int], **attrs: Any
) -> SSAValue:
    if isinstance(shape, SSAValue):
        return emit.dynamic(op_class, [], attrs, {"shape": emit.shape(shape)})[0]
    return emit(op_class, shape=tuple(shape), **attrs)


@reads("RandomNormal")
def random_normal(
    emit: OnnxEmitter,
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> SSAValue:
    attrs = {"mean": mean, "std": scale, "dtype": emit.element_type(dtype), "seed": _seed(seed)}
    return _draw(emit, ops.Gaussian, shape, **attrs)


@reads("RandomUniform")
def random_uniform(
    emit: OnnxEmitter,
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> SSAValue:
    attrs = {"min": low, "max": high, "dtype": emit.element_type(dtype), "seed": _seed(seed)}
    return _draw(emit, ops.Uniform, shape, **attrs)


@reads("RandomNormalLike")
def random_normal_like(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> SSAValue:
    attrs = {"mean": mean, "std": scale, "dtype": emit_dtype(emit, dtype, x), "seed": _seed(seed)}
    return _draw(emit, ops.Gaussian, x, **attrs)


@reads("RandomUniformLike")
def random_uniform_like(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> SSAValue:
    attrs = {"min": low, "max": high, "dtype": emit_dtype(emit, dtype, x), "seed": _seed(seed)}
    return _draw(emit, ops.Uniform, x, **attrs)


@reads("Bernoulli")
def bernoulli(
    emit: OnnxEmitter, x: SSAValue, *, dtype: int | None = None, seed: float | None = None
) -> SSAValue:
    return emit.cast(emit(ops.Bernoulli, x, seed=_seed(seed)), emit_dtype(emit, dtype, x))


@reads("Multinomial")
def multinomial(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
) -> SSAValue:
    """Draw class indices from logarithms of weights, with replacement."""
    attrs = {"num_samples": sample_size, "replacement": True, "seed": _seed(seed)}
    return emit.cast(emit(ops.Multinomial, emit(Exp, x), **attrs), emit.element_type(dtype))
