"""Random ops. A model draws other numbers than graphopt, of the same distribution, in each run.

A seed of the program becomes the operator's; it then draws the same numbers in each run.
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from graphopt.ir.dialect.ops import random as ops
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.nodes import Ints, Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.creation import full
from graphopt.models.export.onnx.ops.elementary import erfinv
from graphopt.models.export.onnx.registry import exports


@exports(ops.Dropout)
def dropout(emit: Nodes, x: Value, p: float, is_test: bool, mode: str) -> Value:
    if p == 0 or (is_test and mode == "upscale_in_train"):
        return x
    if is_test:
        return emit("Mul", x, emit.number(1 - p, x))
    raise NotInOnnx(
        "the operator is in training mode; write a program for tests: Program.clone(for_test=True)"
    )


def _seed(seed: int) -> dict[str, Any]:
    return {"seed": float(seed)} if seed else {}


def _drawn_in(dtype: DType) -> DType:
    """Return the dtype to draw numbers in: ONNX draws floating-point numbers."""
    return dtype if dtype in ("float16", "float32", "float64") else DType("float32")


def _like(emit: Nodes, op: str, sizes: Ints, dtype: DType, seed: int, **attrs: float) -> Value:
    """Draw numbers for a tensor of these sizes."""
    drawn, known = _drawn_in(dtype), {**attrs, **_seed(seed)}
    kind = int(ir.DataType.from_numpy(drawn.numpy))
    if isinstance(sizes, Value):
        given = emit("Expand", emit.number(0, drawn), emit.ints(sizes))
        made = emit(f"{op}Like", given, dtype=drawn, **known, dtype_=kind)
    else:
        # an empty list of sizes has no type
        made = emit(op, dtype=drawn, shape=list(sizes) or [1], **known, dtype_=kind)
        made = made if sizes else emit.squeeze(made, 0)
    return emit.cast(made, dtype)


@exports(ops.Uniform, open=("shape",))
def uniform(emit: Nodes, shape: Ints, dtype: DType, min: float, max: float, seed: int) -> Value:
    return _like(emit, "RandomUniform", shape, dtype, seed, low=min, high=max)


@exports(ops.Gaussian, open=("shape",))
def gaussian(emit: Nodes, shape: Ints, dtype: DType, mean: float, std: float, seed: int) -> Value:
    if std == 0:  # ONNX Runtime would end the process
        return full(emit, shape, mean, dtype)
    return _like(emit, "RandomNormal", shape, dtype, seed, mean=mean, scale=std)


@exports(ops.RandomIntegers, open=("shape",))
def randint(emit: Nodes, shape: Ints, dtype: DType, low: int, high: int, seed: int) -> Value:
    """Draw in float64, which represents all integers of 53 bits."""
    ends = {"low": float(low), "high": float(high)}
    drawn = _like(emit, "RandomUniform", shape, DType("float64"), seed, **ends)
    most = emit("Min", emit("Floor", drawn), emit.number(high - 1, "float64"))
    return emit.cast(most, dtype)


@exports(ops.Permutation)
def randperm(emit: Nodes, n: int, dtype: DType, seed: int) -> Value:
    """Sort random numbers and return their order."""
    drawn = _like(emit, "RandomUniform", (n,), DType("float32"), seed, low=0.0, high=1.0)
    _, places = emit.all("TopK", drawn, emit.ints([n]), dtypes=(None, "int64"), axis=0)
    return emit.cast(places, dtype)


@exports(ops.Bernoulli, wide=True)
def bernoulli(emit: Nodes, x: Value, seed: int) -> Value:
    """Compare with uniform numbers: ONNX Runtime's Bernoulli draws 0 even for probability 1."""
    drawn = emit("RandomUniformLike", x, low=0.0, high=1.0, **_seed(seed))
    return emit.cast(emit("Less", drawn, x), dtype_of(x))


def _gumbel(emit: Nodes, like: Value, seed: int) -> Value:
    """Compute -log(-log(u)) of uniform numbers u in (0, 1)."""
    drawn = emit("RandomUniformLike", like, low=1e-20, high=1.0, **_seed(seed))
    kept = emit("Clip", drawn, emit.number(1e-20, like), emit.number(1 - 6e-8, like))
    return emit("Neg", emit("Log", emit("Neg", emit("Log", kept))))


@exports(ops.Multinomial, wide=True)
def multinomial(emit: Nodes, x: Value, num_samples: int, replacement: bool, seed: int) -> Value:
    """Draw classes; without replacement, take the largest logarithms with Gumbel noise."""
    scores = emit("Log", x)
    if replacement:
        rows = scores if len(sizes_of(x)) == 2 else emit.unsqueeze(scores, 0)
        attrs = {"sample_size": num_samples, **_seed(seed)}
        drawn = emit("Multinomial", rows, dtype="int64", dtype_=int(ir.DataType.INT64), **attrs)
        return drawn if len(sizes_of(x)) == 2 else emit.squeeze(drawn, 0)
    noisy = emit("Add", scores, _gumbel(emit, x, seed))
    count = emit.ints([num_samples])
    _, places = emit.all("TopK", noisy, count, dtypes=(None, "int64"), axis=-1)
    return places


@exports(ops.GumbelSoftmax, wide=True)
def gumbel_softmax(
    emit: Nodes, x: Value, temperature: float, hard: bool, axis: int, seed: int
) -> Value:
    noisy = emit("Add", x, _gumbel(emit, x, seed))
    soft = emit("Softmax", emit("Div", noisy, emit.number(temperature, x)), axis=axis)
    return emit("Hardmax", soft, axis=axis) if hard else soft


@exports(ops.Rrelu)
def rrelu(
    emit: Nodes, x: Value, lower: float, upper: float, is_test: bool, seed: int
) -> tuple[Value, Value]:
    """Apply a random slope below 0; in test mode, the middle of the range."""
    above = emit("GreaterOrEqual", x, emit.number(0, x))
    if is_test:
        slope = emit.zeros(emit.shape(x), x, (lower + upper) / 2)
    else:
        drawn = emit("RandomUniformLike", x, low=lower, high=upper, **_seed(seed))
        slope = emit("Where", above, emit.number(1, x), drawn)
    return emit("Where", above, x, emit("Mul", x, slope)), slope


@exports(ops.TruncatedGaussian, open=("shape",))
def truncated_gaussian(
    emit: Nodes,
    shape: Ints,
    dtype: DType,
    mean: float,
    std: float,
    a: float | None,
    b: float | None,
    seed: int,
) -> Value:
    """Draw uniformly between the error function of the bounds, and apply its inverse."""
    low, high = (
        math.erf(bound / math.sqrt(2))
        for bound in ops.TruncatedGaussian.deviations(mean, std, a, b)
    )
    drawn = _like(emit, "RandomUniform", shape, _drawn_in(dtype), seed, low=low, high=high)
    found = emit("Mul", erfinv(emit, drawn), emit.number(math.sqrt(2) * std, drawn))
    return emit.cast(emit("Add", found, emit.number(mean, drawn)), dtype)
