"""A workload as a static program, for graphopt and for Paddle alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from suite.engines.job import Job
from suite.layers.paddle import Layers


class Built(NamedTuple):
    """A program's fetch, its feeds, and its parameters in order."""

    fetch: Any
    feeds: list[Any]
    parameters: list[Any]


def append_model(paddle: Any, job: Job) -> Built:
    """Append a workload to the default program."""
    workload = job.workload
    layers = Layers(paddle, testing=not workload.training, low=workload.low)
    feed = layers.inputs(job.feed, split=workload.parallel)
    assert workload.model is not None
    values = workload.model(layers, feed, job.sizes)
    loss = layers.loss(workload.head, values, feed.get("label"))
    if workload.optimizer is not None:
        layers.optimizer(workload.optimizer.kind, workload.optimizer.rate).minimize(loss)
    return Built(loss, list(feed.values()), layers.parameters)
