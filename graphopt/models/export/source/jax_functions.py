"""Functions that jax.numpy and jax.nn lack; a script contains those that it calls.

Images have their channels after the batch, as in Paddle.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def linear(x, weight, bias=None):
    y = x @ weight
    return y if bias is None else y + bias


def embedding(ids, weight, padding_idx=-1):
    rows = jnp.take(weight, ids, axis=0)
    return rows if padding_idx < 0 else jnp.where(ids[..., None] == padding_idx, 0, rows)


def growing_loop(goes_on, turn, now):
    """Repeat while a condition holds. The carried values may grow, so jax.jit cannot compile it."""
    while goes_on(*now):
        now = turn(*now)
        now = now if isinstance(now, tuple) else (now,)
    return now


def array_write(array, position, x):
    """Write an element of an array at a position, which may be one past its last element."""
    at = int(position.reshape(()))
    if array.shape[0] == 0:
        return x[None]
    return jnp.concatenate([array[:at], x[None], array[at + 1 :]])


def gather_tree(ids, parents):
    """Trace the sequences of a beam search from each step's words and parent beams."""

    def step(beam, now):
        words, origins = now
        return jnp.take_along_axis(origins, beam, 1), jnp.take_along_axis(words, beam, 1)

    beams = lax.broadcasted_iota(parents.dtype, ids.shape[1:], 1)
    return lax.scan(step, beams, (ids, parents), reverse=True)[1]


def numbers(value, count):
    """Expand to one number per dimension of a window."""
    return [value] * count if isinstance(value, int) else list(value)


def pads(padding, count):
    """Expand to the padding before and after each dimension of an image."""
    if isinstance(padding, str):
        return padding
    given = numbers(padding, count)
    if len(given) == count:
        return [(each, each) for each in given]
    return list(zip(given[::2], given[1::2], strict=True))


def convolution(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    count = weight.ndim - 2
    y = lax.conv_general_dilated(
        x,
        weight,
        numbers(stride, count),
        pads(padding, count),
        rhs_dilation=numbers(dilation, count),
        feature_group_count=groups,
    )
    return y if bias is None else y + bias.reshape(-1, *[1] * count)


def transposed_convolution(
    x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    count = weight.ndim - 2
    kernel, steps, extra = (
        weight.shape[2:],
        numbers(dilation, count),
        numbers(output_padding, count),
    )
    cut = pads(padding, count)
    around = [
        (step * (size - 1) - before, step * (size - 1) - after + more)
        for size, step, more, (before, after) in zip(kernel, steps, extra, cut, strict=True)
    ]
    own = weight.reshape(groups, -1, *weight.shape[1:]).swapaxes(1, 2)
    own = jnp.flip(own.reshape(-1, weight.shape[0] // groups, *kernel), range(2, 2 + count))
    y = lax.conv_general_dilated(
        x,
        own,
        [1] * count,
        around,
        lhs_dilation=numbers(stride, count),
        rhs_dilation=steps,
        feature_group_count=groups,
    )
    return y if bias is None else y + bias.reshape(-1, *[1] * count)


def windows(x, start, combine, kernel, stride, padding):
    """Combine the numbers of each window of an image."""
    count = x.ndim - 2
    kernel = numbers(kernel, count)
    stride = kernel if stride is None else numbers(stride, count)
    around = pads(padding, count)
    around = around if isinstance(around, str) else [(0, 0), (0, 0), *around]
    return lax.reduce_window(x, start, combine, (1, 1, *kernel), (1, 1, *stride), around)


def max_pool(x, kernel, stride=None, padding=0):
    return windows(x, -jnp.inf, lax.max, kernel, stride, padding)


def avg_pool(x, kernel, stride=None, padding=0, exclusive=True):
    total = windows(x, 0.0, lax.add, kernel, stride, padding)
    if not exclusive:
        return total / np.prod(numbers(kernel, x.ndim - 2))
    return total / windows(jnp.ones_like(x), 0.0, lax.add, kernel, stride, padding)


def in_windows(x, size):
    """Divide an image into `size` windows per dimension, flattened to one last axis."""
    count = x.ndim - 2
    shape = list(x.shape[:2])
    for whole, parts in zip(x.shape[2:], numbers(size, count), strict=True):
        shape += [parts, whole // parts]
    order = [0, 1, *range(2, 2 + 2 * count, 2), *range(3, 3 + 2 * count, 2)]
    return x.reshape(shape).transpose(order).reshape(*x.shape[:2], *shape[2::2], -1)


def adaptive_avg_pool(x, size):
    return in_windows(x, size).mean(-1)


def adaptive_max_pool(x, size):
    return in_windows(x, size).max(-1)


def batch_norm(x, running_mean, running_var, weight=None, bias=None, epsilon=1e-05):
    shape = (-1, *[1] * (x.ndim - 2))
    y = (x - running_mean.reshape(shape)) * lax.rsqrt(running_var.reshape(shape) + epsilon)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def layer_norm(x, sizes, weight=None, bias=None, epsilon=1e-05):
    count = 1 if isinstance(sizes, int) else len(sizes)
    axes = tuple(range(-count, 0))
    y = x - x.mean(axes, keepdims=True)
    y = y * lax.rsqrt((y * y).mean(axes, keepdims=True) + epsilon)
    y = y if weight is None else y * weight.reshape(x.shape[-count:])
    return y if bias is None else y + bias.reshape(x.shape[-count:])


def group_norm(x, groups, weight=None, bias=None, epsilon=1e-05):
    y = x.reshape(x.shape[0], groups, -1)
    y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + epsilon)
    y, shape = y.reshape(x.shape), (-1, *[1] * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def instance_norm(x, weight=None, bias=None, epsilon=1e-05):
    return group_norm(x, x.shape[1], weight, bias, epsilon)


def flatten(x, start_axis=0, stop_axis=-1):
    stop = stop_axis % max(x.ndim, 1) + 1
    return x.reshape(*x.shape[:start_axis], -1, *x.shape[stop:])


def gather_nd(x, index):
    if index.shape[-1] == 0:
        return jnp.broadcast_to(x, (*index.shape[:-1], *x.shape))
    return x[tuple(jnp.moveaxis(index, -1, 0))]


def top_k(x, k):
    values, places = lax.top_k(x, k)
    return values, places.astype(int)


def p_norm(x, order, axis=None, keepdims=False):
    return (jnp.abs(x) ** order).sum(axis, keepdims=keepdims) ** (1 / order)


def softplus(x, beta=1.0, threshold=20.0):
    return jnp.where(beta * x > threshold, x, jax.nn.softplus(beta * x) / beta)


def binary_cross_entropy(x, label):
    logs = jnp.maximum(jnp.log(x), -100), jnp.maximum(jnp.log1p(-x), -100)
    return -label * logs[0] - (1 - label) * logs[1]


def pixel_shuffle(x, factor):
    batch, channels, height, width = x.shape
    y = x.reshape(batch, channels // factor**2, factor, factor, height, width)
    y = y.transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(batch, -1, height * factor, width * factor)


def interpolate(x, size=(), scale_factor=None, mode="nearest", align_corners=False, align_mode=0):
    count = x.ndim - 2
    factors = scale_factor if isinstance(scale_factor, list) else [scale_factor] * count
    for axis, factor in enumerate(factors, 2):
        old = x.shape[axis]
        new = size[axis - 2] if factor is None else int(old * float(np.float32(factor)))
        step = 0 if new == 1 else old / new if factor is None else 1 / factor
        places, half = np.arange(new, dtype=np.float32), np.float32(0.5)
        if align_corners:
            places *= np.float32((old - 1) / max(new - 1, 1))
        elif mode == "nearest" or align_mode == 1:
            places *= np.float32(step)
        else:
            places = np.maximum((places + half) * np.float32(step) - half, 0)
        low = np.minimum(places.astype(int), old - 1)
        below = jnp.take(x, low, axis)
        if mode == "nearest":
            x = below
            continue
        above = jnp.take(x, np.minimum(low + 1, old - 1), axis)
        part = (places - low).astype(x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1))
        x = below * (1 - part) + above * part
    return x


def unfold(x, kernel, strides=1, paddings=0, dilations=1):
    patches = lax.conv_general_dilated_patches(
        x,
        numbers(kernel, 2),
        numbers(strides, 2),
        pads(paddings, 2),
        rhs_dilation=numbers(dilations, 2),
    )
    return patches.reshape(*patches.shape[:2], -1)


def grid_sample(x, grid, align_corners=True):
    height, width = x.shape[2:]
    part = (grid + 1) / 2
    if align_corners:
        across, down = part[..., 0] * (width - 1), part[..., 1] * (height - 1)
    else:
        across, down = part[..., 0] * width - 0.5, part[..., 1] * height - 0.5
    left, top = jnp.floor(across), jnp.floor(down)
    total = 0.0
    for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        share = (1 - jnp.abs(across - column)) * (1 - jnp.abs(down - row))
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        at = jnp.clip(row, 0, height - 1).astype(int), jnp.clip(column, 0, width - 1).astype(int)
        pixels = jax.vmap(lambda image, r, c: image[:, r, c])(x, *at)
        total += pixels * jnp.where(inside, share, 0)[:, None]
    return total


def recurrent(step, x, states, cells, bidirectional, lengths):
    """Run recurrent cells over [time, batch, size]; steps past a length change no state."""
    directions, ends = 1 + bidirectional, []
    times = jnp.arange(x.shape[0])[:, None, None]
    live = times >= 0 if lengths is None else times < lengths[:, None]
    for first in range(0, len(cells), directions):
        outs = []
        for at in range(first, first + directions):
            cell = cells[at]

            def turn(carried, now, cell=cell):
                inputs, live = now
                new = step(cell, inputs, *carried)
                kept = [jnp.where(live, one, old) for one, old in zip(new, carried, strict=True)]
                return kept, jnp.where(live, new[0], 0)

            inputs = x @ cell["weight_ih"].T + cell["bias_ih"]
            start = [state[at] for state in states]
            live_ = jnp.broadcast_to(live, (*inputs.shape[:2], 1))
            end, out = lax.scan(turn, start, (inputs, live_), reverse=at % directions == 1)
            outs.append(out)
            ends.append(end)
        x = jnp.concatenate(outs, -1)
    return x, *(jnp.stack(each) for each in zip(*ends, strict=True))


def lstm(x, states, cells, bidirectional=False, lengths=None):
    def step(cell, inputs, hidden, memory):
        gates = inputs + hidden @ cell["weight_hh"].T + cell["bias_hh"]
        i, f, new, o = jnp.split(gates, 4, -1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(new)
        return jax.nn.sigmoid(o) * jnp.tanh(memory), memory

    return recurrent(step, x, states, cells, bidirectional, lengths)


def gru(x, states, cells, bidirectional=False, lengths=None):
    def step(cell, inputs, hidden):
        own = hidden @ cell["weight_hh"].T + cell["bias_hh"]
        (r, z, c), (own_r, own_z, own_c) = jnp.split(inputs, 3, -1), jnp.split(own, 3, -1)
        new = jnp.tanh(c + jax.nn.sigmoid(r + own_r) * own_c)
        return [(hidden - new) * jax.nn.sigmoid(z + own_z) + new]

    return recurrent(step, x, states, cells, bidirectional, lengths)
