"""Layers in plain JAX without a framework, and optimizers over lists of arrays.

The layers have the arguments of the layers in `layers/paddle.py`, so that one function describes a
model for both. Sizes are in the parameters, which come in the order in which a Paddle program makes
them; `state` are the running statistics, and `new_state` collects them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

Array = Any


class Layers:
    """The layers of one call: each takes the next parameters that it needs."""

    def __init__(
        self, weights: list[Array], state: list[Array], *, testing: bool, low: str = ""
    ) -> None:
        self.weights: Iterator[Array] = iter(weights)
        self.state: Iterator[Array] = iter(state)
        self.new_state: list[Array] = []
        self.testing, self.low = testing, low

    def parameter(self, shape: list[int], deviation: float) -> Array:
        """Take the next parameter."""
        return next(self.weights)

    def flat(self, x: Array) -> Array:
        """Flatten to [n, -1]."""
        return x.reshape(len(x), -1)

    def add(self, x: Array, y: Array) -> Array:
        """Compute x + y."""
        return x + y

    def lower(self, *values: Array) -> list[Array]:
        """Cast the operands of a product to the dtype in which it is computed."""
        return [x.astype(self.low) for x in values] if self.low else list(values)

    def wide(self, x: Array) -> Array:
        """Cast the result of a product to float32."""
        return x.astype("float32") if self.low else x

    def linear(self, x: Array, width: int, activation: str | None = None) -> Array:
        """Apply a linear layer to the last axis."""
        x, weight, bias = self.lower(x, next(self.weights), next(self.weights))
        y = self.wide(x @ weight + bias)
        return getattr(jax.nn, activation)(y) if activation else y

    def conv_bn(
        self,
        x: Array,
        width: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        act: str | None = "relu",
    ) -> Array:
        """Apply a convolution in NCHW and a batch norm."""
        edge = kernel // 2
        x, weight = self.lower(x, next(self.weights))
        h = lax.conv_general_dilated(
            x, weight, (stride, stride), [(edge, edge)] * 2, feature_group_count=groups
        )
        h = self.batch_norm(self.wide(h))
        return {"relu": jax.nn.relu, "relu6": jax.nn.relu6, None: lambda y: y}[act](h)

    def batch_norm(self, x: Array) -> Array:
        """Normalize over all axes but the channels, and collect the new running statistics."""
        scale, shift = next(self.weights), next(self.weights)
        mean, variance = next(self.state), next(self.state)
        if not self.testing:
            seen = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
            self.new_state += [
                0.9 * old + 0.1 * lax.stop_gradient(new)
                for old, new in zip((mean, variance), seen, strict=True)
            ]
            mean, variance = seen
        factor = scale * lax.rsqrt(variance + 1e-5)
        return (x - mean[:, None, None]) * factor[:, None, None] + shift[:, None, None]

    def max_pool(self, x: Array) -> Array:
        """Take the maximum of 3 x 3 windows with stride 2."""
        edges = ((0, 0), (0, 0), (1, 1), (1, 1))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), edges)

    def average(self, x: Array) -> Array:
        """Average each channel: [n, channels]."""
        return jnp.mean(x, (2, 3))

    def relu_sum(self, x: Array, y: Array) -> Array:
        """Compute relu(x + y), the end of a residual block."""
        return jax.nn.relu(x + y)

    def embedding(self, ids: Array, words: int, width: int, *, sparse: bool = False) -> Array:
        """Look up the rows of a table."""
        return next(self.weights)[ids]

    def positions(self, x: Array) -> Array:
        """Add a learned vector for each position to [batch, length, width]."""
        return x + next(self.weights)

    def patches(self, x: Array, size: int, width: int) -> Array:
        """Split images into patches: [batch, patches, width]."""
        x, weight, bias = self.lower(x, next(self.weights), next(self.weights))
        squares = lax.conv_general_dilated(x, weight, (size, size), "VALID")
        squares = squares + bias[:, None, None]
        return self.wide(squares).reshape(len(x), width, -1).transpose(0, 2, 1)

    def with_token(self, x: Array) -> Array:
        """Prepend a learned vector: [batch, length + 1, width]."""
        token = jnp.broadcast_to(next(self.weights), (len(x), 1, x.shape[-1]))
        return jnp.concatenate([token, x], 1)

    def first(self, x: Array) -> Array:
        """Take the first row of each [batch, length, width]."""
        return x[:, 0]

    def attention(self, q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
        """Compute softmax(q k' / sqrt(width)) v on [batch, heads, length, width]."""
        q, k, v = self.lower(q, k, v)
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            scores = jnp.where(jnp.tri(*scores.shape[2:], dtype=bool), scores, -1e4)
        return self.wide(jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v))

    def encoder(self, x: Array, heads: int, *, first: bool = False, causal: bool = False) -> Array:
        """Apply a Transformer encoder layer to [batch, length, width], norm last or first."""
        batch, length, width = x.shape
        given, x = x, self.norm(x) if first else x

        def split(h: Array) -> Array:
            return h.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)

        q, k, v = (split(self.linear(x, width)) for _ in range(3))
        mixed = self.attention(q, k, v, causal=causal)
        added = given + self.linear(
            mixed.transpose(0, 2, 1, 3).reshape(batch, length, width), width
        )
        x = self.norm(added)
        inner = jax.nn.gelu(self.linear(x, 4 * width), approximate=False)
        if first:
            return added + self.linear(inner, width)
        return self.norm(x + self.linear(inner, width))

    def norm(self, x: Array) -> Array:
        """Apply layer norm to the last axis."""
        mean = jnp.mean(x, -1, keepdims=True)
        normal = (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)
        return normal * next(self.weights) + next(self.weights)

    def mean_squares(self, parameters: list[Array]) -> Array:
        """Sum the means of squares."""
        return sum(jnp.mean(w * w) for w in parameters)


def cross_entropy(logits: Array, label: Array) -> Array:
    """Compute the mean cross entropy for labels [..., 1]."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), label, axis=-1))


def loss_of(kind: str, values: Array, label: Array) -> Array:
    """Map the values of a model to its loss, or to the result of inference."""
    if kind == "cross_entropy":
        return cross_entropy(values, label)
    if kind == "mean_square":
        return jnp.mean(values * values)
    return jnp.mean(values) if kind == "mean" else values


# -- optimizers: (parameters, gradients, their state) -> (parameters, their state) -----------------


def start(kind: str, params: list[Array]) -> Any:
    """Create the state of an optimizer before the first step."""
    zeros = [jnp.zeros_like(p) for p in params]
    if kind == "sgd":
        return ()
    if kind == "momentum":
        return zeros
    return zeros, [jnp.zeros_like(p) for p in params], jnp.zeros((), jnp.float32)


def update(kind: str, rate: float, params: list[Array], grads: list[Array], state: Any) -> Any:
    """Apply one step of an optimizer."""
    if kind == "sgd":
        return [p - rate * g for p, g in zip(params, grads, strict=True)], state
    if kind == "momentum":
        speed = [0.9 * s + g for s, g in zip(state, grads, strict=True)]
        return [p - rate * s for p, s in zip(params, speed, strict=True)], speed
    decay, tables = 0.01 if kind == "adamw" else 0.0, 1 if kind == "lazy_adam" else 0
    return adam(rate, params, grads, state, decay=decay, tables=tables)


def adam(
    rate: float, params: list[Array], grads: list[Array], state: Any, *, decay: float, tables: int
) -> Any:
    """Apply a step of Adam, or of AdamW with a decay.

    The first `tables` parameters have the bias correction of the next step, as in Paddle.
    """
    first, second, count = state
    count = count + 1
    times = [count + 1 if at < tables else count for at in range(len(params))]
    first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, grads, strict=True)]

    def moved(p: Array, m: Array, v: Array, time: Array) -> Array:
        root = jnp.sqrt(1 - 0.999**time)
        step, tiny = rate * root / (1 - 0.9**time), 1e-8 * root
        return p * (1 - rate * decay) - step * m / (jnp.sqrt(v) + tiny)

    new = list(map(moved, params, first, second, times))
    return new, (first, second, count)


def only_read_rows(ids: Array, old: Any, new: Any) -> Any:
    """Keep the old rows of a table that were not read.

    The first of the parameters and moments is the table, and `ids` are the rows that were read;
    everything else is `new`.
    """
    (params, (first, second, _)), (new_params, (new_first, new_second, count)) = old, new
    read = jnp.zeros((len(params[0]), 1), bool).at[ids.ravel()].set(True)

    def mixed(before: list[Array], after: list[Array]) -> list[Array]:
        return [jnp.where(read, after[0], before[0]), *after[1:]]

    moments = mixed(first, new_first), mixed(second, new_second), count
    return mixed(params, new_params), moments
