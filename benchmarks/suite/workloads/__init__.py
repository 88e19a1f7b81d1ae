"""The workloads by name: for the CPU, for GPUs, for ablations; each module has one model."""

from __future__ import annotations

from suite.workload import Workload
from suite.workloads import (
    attention,
    deep_mlp,
    many_tensors,
    mlp,
    mobilenet,
    on_gpu,
    recommender,
    resnet,
    rewrites,
    saved_model,
    tiny_fc,
    transformer,
)

MODULES = (
    tiny_fc,
    mlp,
    resnet,
    transformer,
    mobilenet,
    attention,
    many_tensors,
    deep_mlp,
    saved_model,
    recommender,
)
BY_NAME: dict[str, Workload] = {
    workload.name: workload for module in MODULES for workload in module.WORKLOADS
}
ON_GPU: dict[str, Workload] = {workload.name: workload for workload in on_gpu.WORKLOADS}
FOR_REWRITES: dict[str, Workload] = {each.name: each for each in rewrites.WORKLOADS}
EVERY = BY_NAME | ON_GPU | FOR_REWRITES
