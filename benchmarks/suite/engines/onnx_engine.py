"""ONNX Runtime, on the file that PyTorch exports."""

from __future__ import annotations

import tempfile

import onnxruntime
import torch

from suite.engines.job import Job, Step
from suite.engines.torch_engine import module


def start(job: Job) -> Step:
    """Build the step of a workload."""
    feed = job.feed
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        example = (torch.from_numpy(feed["x"]),)
        torch.onnx.export(
            module(job), example, path, input_names=["x"], opset_version=18, dynamo=False
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job.cores
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": feed["x"]})[0]
