"""PyTorch, eager or compiled; pictures are laid out as it likes them best."""

from __future__ import annotations

from typing import Any

import torch

from suite.engines.job import Job, Step, load_weights
from suite.layers import torch as layers


def start(job: Job) -> Step:
    """The step of a workload."""
    torch.set_num_threads(job.cores)
    model = module(job)
    feed = {name: torch.from_numpy(array) for name, array in job.feed.items()}
    if "x" in feed and feed["x"].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        feed["x"] = feed["x"].to(memory_format=torch.channels_last)
    if job.option == "compile":
        model = torch.compile(model)
    x, label = feed.get("x"), feed.get("label")
    if job.workload.training:
        return training(job, model, x, label)
    return lambda: inference(model, x)


def module(job: Job) -> Any:
    """The module of a workload with the common parameters, in the mode of the workload."""
    assert job.workload.torch is not None
    model = job.workload.torch(layers, job.sizes)
    layers.load(model, load_weights(job.weights)[0])
    return model.train(job.workload.training)


def inference(model: Any, x: Any) -> Any:
    """The output."""
    with torch.inference_mode():
        return model(x).numpy()


def training(job: Job, model: Any, x: Any, label: Any) -> Step:
    """Loss, gradients and update."""
    assert job.workload.optimizer is not None
    kind, head = job.workload.optimizer.kind, job.workload.head
    optimizers = layers.optimizers(kind, job.workload.optimizer.rate, model)

    def run() -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = layers.loss_of(head, model(x), label)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach().numpy()

    return run
