"""The same model in plain JAX: one jitted function, its state donated."""

from __future__ import annotations

import math
from functools import partial
from itertools import compress
from operator import not_
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.extend.core import jaxprs_in_params

from suite.engines.job import Job, Step, load_weights
from suite.layers import plain_jax
from suite.workload import Optimizer


def prepare() -> None:
    """Initialize the devices, so that a first step does not wait for them."""
    jax.devices()


def model_flops(job: Job) -> int:
    """Count the operations of the products of a step: forward, times three in training."""
    arrays, trained = load_weights(job.weights)
    weights, state = list(compress(arrays, trained)), list(compress(arrays, map(not_, trained)))
    made = jax.make_jaxpr(lambda *given: values(job, *given))(weights, state, dict(job.feed))
    return (3 if job.workload.training else 1) * flops_of(made.jaxpr)


def flops_of(jaxpr: Any) -> int:
    """Count the operations of all products and convolutions."""
    found = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (left, _), _ = eqn.params["dimension_numbers"]
            terms = math.prod(eqn.invars[0].aval.shape[axis] for axis in left)
            found += 2 * eqn.outvars[0].aval.size * terms
        elif eqn.primitive.name == "conv_general_dilated":
            outs = eqn.invars[1].aval.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
            found += 2 * eqn.outvars[0].aval.size * eqn.invars[1].aval.size // outs
        found += sum(map(flops_of, jaxprs_in_params(eqn.params)))
    return found


def start(job: Job) -> Step:
    """Build the step of a workload."""
    arrays, trained = load_weights(job.weights)
    held = [jnp.asarray(array) for array in arrays]
    weights = list(compress(held, trained))
    state = list(compress(held, [not is_trained for is_trained in trained]))
    # without x64 a label is int32; a conversion in each step would distort the measurement
    feed = {n: a.astype("int32") if a.dtype == "int64" else a for n, a in job.feed.items()}
    if job.workload.on_device and not job.workload.parallel:
        feed = jax.device_put(feed)
    if job.workload.optimizer is None:
        return inference(job, weights, state, feed)
    mapped = on_all_devices if job.workload.parallel else on_one_device
    return training(job, job.workload.optimizer, weights, state, feed, mapped)


def values(job: Job, weights: Any, state: Any, feed: Any) -> tuple[Any, Any]:
    """Compute the loss or the output, and the new running statistics."""
    workload = job.workload
    layers = plain_jax.Layers(weights, state, testing=not workload.training, low=workload.low)
    assert workload.model is not None
    found = workload.model(layers, feed, job.sizes)
    return plain_jax.loss_of(workload.head, found, feed.get("label")), layers.new_state


def inference(job: Job, weights: Any, state: Any, feed: Any) -> Step:
    """Jit the model with its parameters as arguments."""
    run = jax.jit(lambda weights, state, feed: values(job, weights, state, feed)[0])
    return lambda: np.asarray(run(weights, state, feed))


def training(
    job: Job, optimizer: Optimizer, weights: Any, state: Any, feed: Any, mapped: Any
) -> Step:
    """Build a step of loss, gradients and update; `mapped` maps it to one device or all."""

    def step(mean: Any, weights: Any, state: Any, moments: Any, feed: Any) -> Any:
        def loss_of(weights: Any) -> tuple[Any, Any]:
            return values(job, weights, state, feed)

        (loss, new_state), grads = jax.value_and_grad(loss_of, has_aux=True)(weights)
        grads = mean(grads)
        new = plain_jax.update(optimizer.kind, optimizer.rate, weights, grads, moments)
        if optimizer.kind == "lazy_adam":
            new = plain_jax.only_read_rows(feed["x"], (weights, moments), new)
        return mean(loss), (new[0], new_state, new[1])

    run, feed = mapped(step, feed)
    held = (weights, state, plain_jax.start(optimizer.kind, weights))

    def next_step() -> Any:
        nonlocal held
        loss, held = run(*held, feed)
        return np.asarray(loss)

    return next_step


def on_one_device(step: Any, feed: Any) -> tuple[Any, Any]:
    """Jit the step for one device."""
    return jax.jit(partial(step, lambda x: x), donate_argnums=(0, 1, 2)), feed


def on_all_devices(step: Any, feed: Any) -> tuple[Any, Any]:
    """Map the step by `jax.pmap`: each device has its rows, and all share the parameters."""
    count, mean = jax.local_device_count(), partial(jax.lax.pmean, axis_name="devices")
    run = jax.pmap(
        partial(step, mean),
        "devices",
        in_axes=(None, None, None, 0),
        out_axes=None,
        donate_argnums=(0, 1, 2),
    )
    return run, {name: a.reshape(count, -1, *a.shape[1:]) for name, a in feed.items()}
