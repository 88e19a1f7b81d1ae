"""Quick pullbacks of ops: from the cotangent of a result to the cotangents of operands.

A rule takes the arguments of its op's rule, `g`, the cotangent of the result that has one, and
`outs`, all results. It returns a function for each differentiable operand, which is called only if
that gradient is needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, conv, index, linear, loss, norm, pool
from graphopt.ir.dialect.ops import math as arithmetic
from graphopt.ir.dialect.ops.conv import explicit_pads, used_dilations
from graphopt.reference.ops.conv import channels_back, channels_first
from graphopt.reference.ops.linear import product
from graphopt.reference.ops.norm import by_channel, channel_of
from graphopt.reference.ops.pool import windows_of
from graphopt.runtime.host import convolution
from graphopt.runtime.host.convolution import Ints, channels_last
from graphopt.runtime.host.rules import erf

Array: TypeAlias = "np.ndarray[Any, Any]"
Gradients: TypeAlias = "Mapping[str, Callable[[], Array]]"

PULLBACKS: dict[type[PdOp], tuple[int, Callable[..., Gradients]]] = {}
"""The pullback of each op, and the number of the result whose cotangent it takes."""


def _pullback(
    *classes: type[PdOp], result: int = 0
) -> Callable[[Callable[..., Gradients]], Callable[..., Gradients]]:
    def register(rule: Callable[..., Gradients]) -> Callable[..., Gradients]:
        PULLBACKS.update(dict.fromkeys(classes, (result, rule)))
        return rule

    return register


def where(passes: Array, x: Array) -> Array:
    """Select the elements that pass, and 0 elsewhere: a product, unless 0 meets infinity.

    `np.where` is slower on a random mask.
    """
    found = x * passes
    if math.isnan(found.sum()):
        return np.where(passes, x, np.zeros((), x.dtype))
    found += np.zeros((), x.dtype)  # turn -0 into 0
    return found


# -- elements --------------------------------------------------------------------------------------


@_pullback(arithmetic.Add)
def add(g: Array) -> Gradients:
    return {"x": lambda: g, "y": lambda: g}


@_pullback(arithmetic.Multiply)
def multiply(x: Array, y: Array, g: Array) -> Gradients:
    return {"x": lambda: g * y, "y": lambda: g * x}


@_pullback(arithmetic.Cast)
def cast(g: Array) -> Gradients:
    return {"x": lambda: g}


@_pullback(activation.Relu)
def relu(g: Array, outs: Sequence[Array]) -> Gradients:
    return {"x": lambda: where(outs[0] > 0, g)}


@_pullback(activation.Sigmoid)
def sigmoid(g: Array, outs: Sequence[Array]) -> Gradients:
    return {"x": lambda: g * outs[0] * (1 - outs[0])}


@_pullback(activation.Gelu)
def gelu(x: Array, approximate: bool, g: Array) -> Gradients:
    def of_x() -> Array:
        if approximate:
            factor = math.sqrt(2 / math.pi)
            gate = np.tanh(factor * (x + 0.044715 * x * x * x))
            slope = factor * (1 + 3 * 0.044715 * x * x) * (1 - gate * gate)
            return g * 0.5 * (1 + gate + x * slope)
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return g * (0.5 * (1 + erf(x * math.sqrt(0.5))) + x * density)

    return {"x": of_x}


@_pullback(activation.Softmax)
def softmax(axis: int, g: Array, outs: Sequence[Array]) -> Gradients:
    def of_x() -> Array:
        out = outs[0]
        weighted = g * out
        return weighted - out * np.sum(weighted, axis=axis if out.ndim else None, keepdims=True)

    return {"x": of_x}


# -- products --------------------------------------------------------------------------------------


@_pullback(linear.Matmul)
def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool, g: Array) -> Gradients:
    """Differentiate a matrix product; a vector is a row on the left, a column on the right."""
    left = x[None] if x.ndim == 1 else _transpose_if(x, transpose_x)
    right = y[:, None] if y.ndim == 1 else _transpose_if(y, transpose_y)
    g = g[..., None, :] if x.ndim == 1 < y.ndim else g[..., None] if y.ndim == 1 < x.ndim else g
    g = g.reshape(1, 1) if x.ndim == y.ndim == 1 else g

    def of_x() -> Array:
        found = product(g, right.swapaxes(-1, -2))
        return found[..., 0, :] if x.ndim == 1 else _transpose_if(found, transpose_x)

    def of_y() -> Array:
        if right.ndim == 2 < left.ndim:
            found = left.reshape(-1, left.shape[-1]).T @ g.reshape(-1, g.shape[-1])
        else:
            found = np.matmul(left.swapaxes(-1, -2), g)
        return found[..., 0] if y.ndim == 1 else _transpose_if(found, transpose_y)

    return {"x": of_x, "y": of_y}


def _transpose_if(x: Array, transpose: bool) -> Array:
    return x.swapaxes(-1, -2) if transpose else x


@_pullback(index.Embedding)
def embedding(x: Array, weight: Array, padding_idx: int, g: Array) -> Gradients:
    def of_weight() -> Array:
        ids, rows = x.reshape(-1), g.reshape(-1, weight.shape[-1])
        ids = np.where(ids < 0, len(weight), ids)  # out of range, so add.at raises
        if padding_idx != -1:
            rows = rows[ids != padding_idx]
            ids = ids[ids != padding_idx]
        found = np.zeros_like(weight)
        np.add.at(found, ids, rows)
        return found

    return {"weight": of_weight}


@_pullback(conv.Conv2d, conv.DepthwiseConv2d)
def conv2d(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    filter_format: str,
    g: Array,
    fuse_relu_before_depthwise_conv: bool = False,
) -> Gradients:
    """Differentiate a convolution by one product for each position of the filter."""
    weights = filter if filter_format == "HWIO" else np.transpose(filter, (2, 3, 1, 0))
    kernel, steps = weights.shape[:2], used_dilations(dilations, padding_algorithm)
    x = channels_last(input, data_format)
    pads = explicit_pads(paddings, padding_algorithm, x.shape[1:3], kernel, strides, steps)
    own, outs = weights.shape[2], weights.shape[3] // groups
    cotangent = np.ascontiguousarray(channels_last(g, data_format))
    by_group = cotangent.reshape(-1, groups, outs)
    spans = [
        [slice(k * d, k * d + (n - 1) * s + 1, s) for k in range(size)]
        for size, d, n, s in zip(kernel, steps, cotangent.shape[1:3], strides, strict=True)
    ]
    positions = list(np.ndindex(*kernel))

    def of_filter() -> Array:
        seen = np.fmax(x, 0) if fuse_relu_before_depthwise_conv else x
        padded = np.pad(seen, ((0, 0), *pads, (0, 0)))
        found = np.empty(weights.shape, weights.dtype)
        for i, j in positions:
            met = padded[:, spans[0][i], spans[1][j]].reshape(-1, groups, own)
            if own == outs == 1:
                found[i, j, 0] = np.einsum("ng,ng->g", met[..., 0], by_group[..., 0])
            elif groups == 1:
                found[i, j] = met[:, 0].T @ by_group[:, 0]
            else:
                each = np.matmul(met.transpose(1, 2, 0), by_group.swapaxes(0, 1))
                found[i, j] = np.moveaxis(each, 0, 1).reshape(own, -1)
        return found if filter_format == "HWIO" else np.transpose(found, (3, 2, 0, 1))

    def of_input() -> Array:
        sizes = [n + sum(pad) for n, pad in zip(x.shape[1:3], pads, strict=True)]
        room = [max(n, part[-1].stop) for n, part in zip(sizes, spans, strict=True)]
        found = np.zeros((x.shape[0], *room, x.shape[3]), x.dtype)
        shape = (*cotangent.shape[:3], x.shape[3])
        for i, j in positions:
            if own == outs == 1:
                part = by_group[..., 0] * weights[i, j, 0]
            elif groups == 1:
                part = by_group[:, 0] @ weights[i, j].T
            else:
                each = weights[i, j].reshape(own, groups, outs).transpose(1, 2, 0)
                part = np.matmul(by_group.swapaxes(0, 1), each).swapaxes(0, 1)
            found[:, spans[0][i], spans[1][j]] += part.reshape(shape)
        (top, _), (left, _) = pads
        found = found[:, top : top + x.shape[1], left : left + x.shape[2]]
        if fuse_relu_before_depthwise_conv:
            found = where(x > 0, found)
        return found if data_format == "NHWC" else np.moveaxis(found, -1, 1)

    return {"input": of_input, "filter": of_filter}


@_pullback(conv.Conv2dTranspose)
def conv2d_transpose(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    g: Array,
) -> Gradients:
    """Differentiate a transposed convolution, itself the derivative of a convolution."""
    sizes = channels_last(input, data_format).shape[1:3]
    steps = used_dilations(dilations, padding_algorithm)
    pads = explicit_pads(paddings, padding_algorithm, sizes, filter.shape[2:], strides, steps)
    window = strides, (*pads[0], *pads[1]), "EXPLICIT", steps, groups, data_format, "OIHW"
    rows, columns = sizes  # padding after the last step adds a result
    first = 1 if data_format == "NHWC" else 2
    cut = (*[slice(None)] * first, slice(rows), slice(columns))
    return {
        "input": lambda: convolution.conv2d(g, filter, *window)[cut],
        "filter": conv2d(g, filter, *window, g=input)["filter"],
    }


# -- windows and norms -----------------------------------------------------------------------------


@_pullback(pool.Pool2d)
def pool2d(
    x: Array,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    g: Array,
    outs: Sequence[Array],
) -> Gradients:
    """Differentiate a pool; of equal maxima in a window, the first gets the gradient."""

    def of_x() -> Array:
        images, cotangent = channels_first(x, data_format), channels_first(g, data_format)
        tops = channels_first(outs[0], data_format)
        windows = windows_of(
            *(images.shape[2:], kernel_size, strides, paddings, padding_algorithm),
            *(global_pooling, adaptive, ceil_mode, exclusive),
        )
        found = np.zeros(images.shape, images.dtype)
        if pooling_type != "max":
            down, right = (np.array([n for *_, n in along], x.dtype) for along in windows)
            cotangent = cotangent / np.outer(down, right)
        taken = np.zeros(tops.shape, bool)
        most = [max(end - start for start, end, _ in along) for along in windows]
        for place in itertools.product(*map(range, most)):
            met = [
                [n for n, (start, end, _) in enumerate(along) if start + step < end]
                for along, step in zip(windows, place, strict=True)
            ]
            at = [
                [along[n][0] + step for n in numbers]
                for along, numbers, step in zip(windows, met, place, strict=True)
            ]
            own = (slice(None), slice(None), *np.ix_(*met))
            there: Any = (slice(None), slice(None), *np.ix_(*at))
            part = cotangent[own]
            if pooling_type == "max":
                seen = images[there]
                first = (seen == tops[own]) & ~taken[own]  # as in Paddle, NaN has no position
                taken[own] |= first
                part = where(first, part)
            if any(len({*each}) < len(each) for each in at):  # at an edge two windows meet
                np.add.at(found, there, part)
            else:
                found[there] += part
        return channels_back(found, data_format)

    return {"x": of_x}


@_pullback(norm.LayerNorm)
def layer_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    begin_norm_axis: int,
    g: Array,
) -> Gradients:
    inner = x.shape[begin_norm_axis:]
    axes = tuple(range(begin_norm_axis, x.ndim))
    distance = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(distance * distance, axis=axes, keepdims=True)
    deviation = 1 / np.sqrt(variance + np.asarray(epsilon, x.dtype))
    normal = distance * deviation
    rows = tuple(range(begin_norm_axis))

    def of_x() -> Array:
        of_normal = g if scale is None else g * scale.reshape(inner)
        center = np.mean(of_normal, axis=axes, keepdims=True)
        tilt = np.mean(of_normal * normal, axis=axes, keepdims=True)
        return deviation * (of_normal - center - normal * tilt)

    return {
        "x": of_x,
        "scale": lambda: np.sum(g * normal, axis=rows).reshape(-1),
        "bias": lambda: np.sum(g, axis=rows).reshape(-1),
    }


@_pullback(norm.BatchNorm)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    epsilon: float,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
    data_format: str,
    g: Array,
) -> Gradients:
    channel = channel_of(x.ndim, data_format)
    others = tuple(i for i in range(x.ndim) if i != channel)
    keeps = use_global_stats or (is_test and not trainable_statistics)
    center = mean if keeps else np.mean(x, axis=others)
    distance = x - by_channel(center, x, channel)
    spread = variance if keeps else np.mean(distance * distance, axis=others)
    inverse = 1 / np.sqrt(spread + np.asarray(epsilon, x.dtype))
    normal = distance * by_channel(inverse, x, channel)
    factor = inverse if scale is None else inverse * scale

    def of_x() -> Array:
        moved = g
        if not keeps:
            tilt = by_channel(np.mean(g * normal, axis=others), x, channel)
            moved = g - by_channel(np.mean(g, axis=others), x, channel) - normal * tilt
        return moved * by_channel(factor, x, channel)

    return {
        "x": of_x,
        "scale": lambda: np.sum(g * normal, axis=others),
        "bias": lambda: np.sum(g, axis=others),
    }


@_pullback(loss.CrossEntropyWithSoftmax, result=1)
def cross_entropy_with_softmax(
    logits: Array,
    label: Array,
    axis: int,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
    g: Array,
    outs: Sequence[Array],
) -> Gradients:
    """Compute Paddle's gradient: probabilities minus label shares, whatever their sum."""
    shares, probabilities, weight, nothing = label, outs[0], g, np.zeros((), g.dtype)
    if not soft_label:
        numbers = label if label.ndim == logits.ndim else np.expand_dims(label, axis)
        places = np.arange(logits.shape[axis]).reshape(
            [-1 if at == axis % logits.ndim else 1 for at in range(logits.ndim)]
        )
        shares = (numbers == places).astype(logits.dtype)
        counts = (numbers != ignore_index) & (numbers >= 0) & (numbers < logits.shape[axis])
        weight = where(counts, g)

    def of_logits() -> Array:
        if use_softmax:
            return (probabilities - shares) * weight
        parts = shares / logits * weight
        return -(parts if soft_label else np.where(shares != 0, parts, nothing))

    return {"logits": of_logits, "label": lambda: -np.log(probabilities) * g}


@_pullback(loss.SigmoidCrossEntropy)
def sigmoid_cross_entropy(
    x: Array, label: Array, normalize: bool, ignore_index: int, g: Array
) -> Gradients:
    counts = label != ignore_index
    weight = where(counts, g)
    if normalize:
        weight = weight / np.asarray(max(np.count_nonzero(counts), 1), g.dtype)
    ones = np.asarray(1, x.dtype)
    return {
        "x": lambda: weight * (ones / (ones + np.exp(-x)) - label),
        "label": lambda: -weight * x,
    }
