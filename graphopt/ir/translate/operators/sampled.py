"""Losses over a few classes that are drawn, such as noise-contrastive estimation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.activation import Sigmoid
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.elementary import Floor
from graphopt.ir.dialect.ops.index import Embedding, Gather, OneHot
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Clip,
    Divide,
    Equal,
    Exp,
    Log,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.random import Uniform
from graphopt.ir.dialect.ops.reduce import Argmax, Cumsum, Max, Sum
from graphopt.ir.dialect.ops.scatter import TakeAlongAxis
from graphopt.ir.dialect.ops.shape import Concat, Slice, Unsqueeze
from graphopt.ir.dialect.ops.sort import Searchsorted, Topk
from graphopt.ir.dialect.types import UNKNOWN, agree, dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.creation import drawn_like
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

_UNIFORM, _LOG_UNIFORM, _CUSTOM = range(3)
# Paddle's substitute for infinity
_TOLERABLE = 1e20


@translates("nce")
def nce(emit: Emitter) -> Written:
    """Emit the sum of -log(o / (o + b)) of a row's classes and -log(b / (o + b)) of the others.

    `o` is the sigmoid of a class, `b` its expected count among the others. The others are drawn
    uniformly, log-uniformly or by given probabilities, or named by an attribute.
    """
    emit.only(
        *("Input", "Label", "Weight", "Bias", "SampleWeight"),
        *("CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"),
    )
    x, weight = emit.input("Input"), emit.input("Weight")
    label = emit(Cast, emit.input("Label"), dtype="int64")
    label = emit(Unsqueeze, label, axis=(-1,)) if rank_of(label.type) == 1 else label
    classes, count = emit.attr("num_total_classes"), emit.attr("num_neg_samples")
    if rank_of(x.type) != 2 or rank_of(label.type) != 2 or classes < 1 or count < 1:
        raise ProgramError(
            f"nce of {list(shape_of(x.type))} and {list(shape_of(label.type))} needs rows, their "
            f"classes, and at least one sample of {classes} classes"
        )
    if emit.attr("sampler") == _LOG_UNIFORM and classes < 2:
        raise ProgramError("nce with the sampler log_uniform needs 2 classes, found 1")
    others = _others(emit, label, classes, count)
    ids = emit(Concat, [label, others], axis=1)
    rows = emit(Multiply, emit(Embedding, ids, weight), emit(Unsqueeze, x, axis=(1,)))
    logits = emit(Sum, rows, axis=(-1,))
    bias = emit.optional("Bias")
    if bias is not None:
        flat = emit(Gather, emit.reshape(bias, -1), emit.reshape(ids, -1), axis=0)
        logits = emit(Add, logits, emit.reshape(flat, -1, shape_of(ids.type)[1]))
    out = emit(Sigmoid, logits)
    expected = emit.like(emit.scale(_chance(emit, ids, classes), float(count)), out)
    true = shape_of(label.type)[1]
    total = emit(Log, emit(Add, out, expected))
    right = emit(Subtract, total, emit(Log, out))
    wrong = emit(Subtract, total, emit(Log, expected))
    parts = [
        emit(Slice, right, axes=(1,), starts=(0,), ends=(true,)),
        emit(Slice, wrong, axes=(1,), starts=(true,), ends=(true + count,)),
    ]
    cost = emit(Sum, emit(Concat, parts, axis=1), axis=(1,), keepdim=True)
    factor = emit.optional("SampleWeight")
    if factor is not None:
        cost = emit(Multiply, cost, emit.reshape(factor, -1, 1))
    return emit.results(Cost=cost, SampleLogits=out, SampleLabels=ids)


def _others(emit: Emitter, label: SSAValue, classes: int, count: int) -> SSAValue:
    """Draw the classes [n, count] to compare with each row's own, unless attributes name them."""
    named = emit.attr("custom_neg_classes")
    if named:
        row = emit(AssignValue, shape=(1, len(named)), values=tuple(named), dtype="int64")
        first = emit(Slice, label, axes=(1,), starts=(0,), ends=(1,))
        zeros = emit(FullLike, first, value=0)
        return emit(Add, row, zeros)
    attrs: dict[str, Any] = {"dtype": "float32", "min": 0.0, "max": 1.0}
    attrs["seed"] = emit.attr("seed")
    drawn = drawn_like(emit, Uniform, label, [-1, count], **attrs)
    kind = emit.attr("sampler")
    if kind == _CUSTOM:
        ends = emit(Cumsum, emit.reshape(emit.input("CustomDistProbs"), -1), axis=0)
        found = emit(Searchsorted, ends, drawn, right=True)
    else:
        if kind == _UNIFORM:
            place = emit.scale(drawn, float(classes))
        else:
            # as in Paddle, the last class is never drawn
            place = emit.scale(emit(Exp, emit.scale(drawn, math.log(classes))), 1.0, -1.0)
        found = emit(Cast, emit(Floor, place), dtype="int64")
    # rounding must not exceed the last class
    last = classes - 2 if kind == _LOG_UNIFORM else classes - 1
    return emit(Minimum, found, emit(FullLike, found, value=last))


def _chance(emit: Emitter, ids: SSAValue, classes: int) -> SSAValue:
    """Emit the probability with which each class is drawn."""
    kind = emit.attr("sampler")
    if kind == _CUSTOM:
        flat = emit.reshape(emit.input("CustomDistProbs"), -1)
        chosen = emit(Gather, flat, emit.reshape(ids, -1), axis=0)
        return emit.reshape(chosen, -1, shape_of(ids.type)[1])
    numbers = emit(Cast, ids, dtype="float32")
    if kind == _UNIFORM:
        return emit(FullLike, numbers, value=1.0 / classes)
    after, own = emit.scale(numbers, 1.0, 2.0), emit.scale(numbers, 1.0, 1.0)
    return emit.scale(emit(Log, emit(Divide, after, own)), 1.0 / math.log(classes))


@translates("sample_logits")
def sample_logits(emit: Emitter) -> Written:
    """Emit logits of a row's own and of sampled classes, less the logarithms of their chances.

    The samples are distinct classes drawn log-uniformly, the same for every row, unless they are
    inputs. With `remove_accidental_hits`, a sample that is a row's own class counts for nothing.
    Infinite logarithms are 1e20, as in Paddle.
    """
    emit.only("Logits", "Labels", "CustomizedSamples", "CustomizedProbabilities")
    logits, labels = emit.input("Logits"), emit.input("Labels")
    count, true = emit.attr("num_samples"), shape_of(labels.type)[-1]
    if rank_of(logits.type) != 2 or rank_of(labels.type) != 2 or true < 1 or count < 1:
        raise ProgramError(
            f"sample_logits of {list(shape_of(logits.type))} needs a matrix, [n, own] classes with "
            f"a known number and samples, found {list(shape_of(labels.type))} and {count}"
        )
    if emit.attr("use_customized_samples"):
        samples, chances = emit.input("CustomizedSamples"), emit.input("CustomizedProbabilities")
        for given in (samples, chances):
            if not agree(shape_of(given.type), (UNKNOWN, true + count)):
                raise ProgramError(
                    f"sample_logits needs samples and probabilities [n, {true + count}], for "
                    f"{true} own classes and {count} others, found {list(shape_of(given.type))}"
                )
    else:
        samples, chances = _log_uniform(emit, logits, labels, count)
    chosen = emit(TakeAlongAxis, logits, samples, axis=1)
    first = emit(Slice, samples, axes=(1,), starts=(0,), ends=(true,))
    if emit.attr("remove_accidental_hits"):
        others = emit(Slice, samples, axes=(1,), starts=(true,), ends=(true + count,))
        own = emit(Unsqueeze, emit(Cast, labels, dtype=dtype_of(others.type)), axis=(1,))
        same = emit(Equal, emit(Unsqueeze, others, axis=(2,)), own)
        hits = emit(Max, emit.like(same, chosen), axis=(2,))
        none = emit.like(emit(FullLike, first, value=0.0), chosen)
        less = emit.scale(emit(Concat, [none, hits], axis=1), -_TOLERABLE)
        chosen = emit(Add, chosen, less)
    logs = emit(Clip, emit(Log, chances), min=-_TOLERABLE, max=_TOLERABLE)
    # a row's own classes come first
    place = emit(Cumsum, emit(FullLike, first, value=1.0, dtype="int64"), axis=1)
    return emit.results(
        Samples=samples,
        Probabilities=chances,
        SampledLogits=emit(Subtract, chosen, logs),
        SampledLabels=emit.scale(place, 1.0, -1.0),
    )


def _log_uniform(
    emit: Emitter, logits: SSAValue, labels: SSAValue, count: int
) -> tuple[SSAValue, SSAValue]:
    """Draw `count` other classes; return each row's own and these, with the chance of each."""
    classes = shape_of(logits.type)[1]
    if classes < count:
        raise ProgramError(
            f"sample_logits cannot draw {count} different classes of "
            f"{list(shape_of(logits.type))}; the number of classes must be known and at least "
            f"{count}"
        )
    chance = np.log1p(1 / (np.arange(classes) + 1.0)) / math.log(classes + 1)
    # the largest log(chance) + Gumbel noise: a draw of classes without replacement
    attrs: dict[str, Any] = {"dtype": "float32", "min": 1e-7, "max": 1.0}
    noise = emit(Uniform, shape=(classes,), seed=emit.attr("seed"), **attrs)
    gumbel = emit.scale(emit(Log, emit.scale(emit(Log, noise), -1.0)), -1.0)
    order = emit(Add, gumbel, emit.array(np.log(chance), "float32"))
    drawn = emit.reshape(emit.builder.emit(Topk, emit.op, order, k=count).results[1], 1, count)
    labels = emit(Cast, labels, dtype="int64")
    column = emit(FullLike, emit(Slice, labels, axes=(1,), starts=(0,), ends=(1,)), value=0.0)
    samples = emit(Concat, [labels, emit(Add, column, drawn)], axis=1)
    included = emit.like(emit.array(-np.expm1(count * np.log1p(-chance)), "float32"), logits)
    found = emit(Gather, included, emit.reshape(samples, -1), axis=0)
    return samples, emit.reshape(found, -1, shape_of(samples.type)[1])


@translates("similarity_focus")
def similarity_focus(emit: Emitter) -> Written:
    """Mark the largest elements of slices that share no row or column, for the whole axis."""
    emit.only("X")
    x, axis = emit.input("X"), emit.attr("axis")
    shape, indexes = shape_of(x.type), [int(index) for index in emit.several("indexes")]
    if len(shape) != 4 or axis not in (1, 2, 3) or UNKNOWN in shape[1:] or not indexes:
        raise ProgramError(
            f"similarity_focus needs [n, a, b, c] of known sizes, an axis from 1 to 3 and indexes, "
            f"found {list(shape)}, {axis} and {indexes}"
        )
    if not all(0 <= index < shape[axis] for index in indexes):
        raise ProgramError(f"similarity_focus of {indexes} on axis {axis} of {list(shape)}")
    sizes = [d for i, d in enumerate(shape) if i not in (0, axis)]
    mask: SSAValue | None = None
    for index in indexes:
        part = emit(Slice, x, axes=(axis,), starts=(index,), ends=(index + 1,))
        marks = _distinct_largest(emit, emit.reshape(part, -1, *sizes), sizes)
        mask = marks if mask is None else emit(Maximum, mask, marks)
    assert mask is not None
    zeros = emit(FullLike, x, value=0.0)
    return emit.results(Out=emit(Add, zeros, emit(Unsqueeze, mask, axis=(axis,))))


def _distinct_largest(emit: Emitter, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Mark by 1 the largest elements of [n, b, c] that share no row or column."""
    rows, columns = sizes
    lowest = emit(FullLike, x, value=-math.inf)
    marks = emit(FullLike, x, value=0.0)
    for _ in range(min(sizes)):
        best = emit(Argmax, emit.reshape(x, -1, rows * columns), axis=1)
        here = emit(OneHot, best, depth=rows * columns, dtype=dtype_of(x.type))
        here = emit.reshape(here, -1, rows, columns)
        marks = emit(Add, marks, here)
        lines = (emit(Max, here, axis=(at,), keepdim=True) for at in (1, 2))
        x = emit(Where, emit(Cast, emit(Add, *lines), dtype="bool"), lowest, x)
    return marks
