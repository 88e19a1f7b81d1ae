"""The same model in plain JAX: one jitted function, its state donated."""

from __future__ import annotations

from itertools import compress
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from suite.engines.job import Job, Step, load_weights
from suite.layers import plain_jax
from suite.workload import Optimizer


def start(job: Job) -> Step:
    """The step of a workload."""
    arrays, trained = load_weights(job.weights)
    held = [jnp.asarray(array) for array in arrays]
    weights = list(compress(held, trained))
    state = list(compress(held, [not is_trained for is_trained in trained]))
    # without x64 a label is an int32, and converting it at every step would be wasteful
    feed = {n: a.astype("int32") if a.dtype == "int64" else a for n, a in job.feed.items()}
    if job.workload.optimizer is None:
        return inference(job, weights, state, feed)
    return training(job, job.workload.optimizer, weights, state, feed)


def values(job: Job, weights: Any, state: Any, feed: Any) -> tuple[Any, Any]:
    """The loss or the output, and the new running statistics."""
    workload = job.workload
    layers = plain_jax.Layers(weights, state, testing=not workload.training)
    assert workload.model is not None
    found = workload.model(layers, feed, job.sizes)
    return plain_jax.loss_of(workload.head, found, feed.get("label")), layers.new_state


def inference(job: Job, weights: Any, state: Any, feed: Any) -> Step:
    """The parameters are arguments, as one writes it."""
    run = jax.jit(lambda weights, state, feed: values(job, weights, state, feed)[0])
    return lambda: np.asarray(run(weights, state, feed))


def training(job: Job, optimizer: Optimizer, weights: Any, state: Any, feed: Any) -> Step:
    """Loss, gradients and update in one function."""

    def step(weights: Any, state: Any, moments: Any, feed: Any) -> Any:
        def loss_of(weights: Any) -> tuple[Any, Any]:
            return values(job, weights, state, feed)

        (loss, new_state), grads = jax.value_and_grad(loss_of, has_aux=True)(weights)
        new = plain_jax.update(optimizer.kind, optimizer.rate, weights, grads, moments)
        if optimizer.kind == "lazy_adam":
            new = plain_jax.only_read_rows(feed["x"], (weights, moments), new)
        return loss, (new[0], new_state, new[1])

    jitted = jax.jit(step, donate_argnums=(0, 1, 2))
    held = (weights, state, plain_jax.start(optimizer.kind, weights))

    def run() -> Any:
        nonlocal held
        loss, held = jitted(*held, feed)
        return np.asarray(loss)

    return run
