"""PyTorch, eager or compiled; images have its preferred layout."""

from __future__ import annotations

from typing import Any

import torch

from suite.engines.job import Job, Step, load_weights
from suite.layers import torch as layers


def prepare() -> None:
    """Initialize CUDA, so that a first step does not wait. Products may be in TF32, as in JAX."""
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        torch.zeros(1, device="cuda")


def start(job: Job) -> Step:
    """Build the step of a workload."""
    torch.set_num_threads(job.cores)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = module(job).to(device)
    # NumPy feeds are moved to the device in each step
    first = device if job.workload.on_device else "cpu"
    feed = {name: torch.from_numpy(array).to(first) for name, array in job.feed.items()}
    if "x" in feed and feed["x"].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        feed["x"] = feed["x"].to(memory_format=torch.channels_last)
    if job.option == "compile":
        model = torch.compile(model)
    x, label = feed.get("x"), feed.get("label")
    low = torch.autocast(device, dtype=torch.bfloat16, enabled=bool(job.workload.low))
    if job.workload.training:
        return training(job, model, (x, label), device, low)
    return lambda: inference(model, moved(x, device), low)


def module(job: Job) -> Any:
    """Build the module of a workload, with the common parameters and its mode."""
    assert job.workload.torch is not None
    model = job.workload.torch(layers, job.sizes)
    layers.load(model, load_weights(job.weights)[0])
    return model.train(job.workload.training)


def inference(model: Any, x: Any, low: Any) -> Any:
    """Compute the output."""
    with torch.inference_mode(), low:
        return model(x).float().cpu().numpy()


def moved(x: Any, device: str) -> Any:
    """Move a feed to the device of the model."""
    return None if x is None else x.to(device, non_blocking=True)


def training(job: Job, model: Any, fed: tuple[Any, Any], device: str, low: Any) -> Step:
    """Run loss, gradients and update."""
    assert job.workload.optimizer is not None
    kind, head = job.workload.optimizer.kind, job.workload.head
    optimizers = layers.optimizers(kind, job.workload.optimizer.rate, model)

    def run() -> Any:
        x, label = (moved(each, device) for each in fed)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with low:
            loss = layers.loss_of(head, model(x), label)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach().float().cpu().numpy()

    return run
