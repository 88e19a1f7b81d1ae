"""Paddle: its Executor in training and inference, its predictor (with oneDNN or without)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import static
from paddle.pir_utils import OldIrGuard

from suite.engines.job import Job, Step, load_weights
from suite.engines.programs import Built, append_model


def start(job: Job) -> Step:
    """Build the step of a workload."""
    paddle.enable_static()
    executor = static.Executor(paddle.CPUPlace())
    if job.workload.model_dir:
        return saved(job, executor)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        built = append_model(paddle, job)
    executor.run(startup)
    load(built, job)
    feed, fetches = job.feed, [built.fetch]
    if not job.option:
        return lambda: executor.run(main, feed=feed, fetch_list=fetches)[0]
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/model"
        static.save_inference_model(prefix, built.feeds, fetches, executor, program=main)
        return predictor(prefix, feed, onednn=job.option == "onednn", cores=job.cores)


def load(built: Built, job: Job) -> None:
    """Overwrite the values of the startup program by the common parameters."""
    arrays, _ = load_weights(job.weights)
    for parameter, array in zip(built.parameters, arrays, strict=True):
        tensor = static.global_scope().find_var(parameter.name).get_tensor()
        tensor.set(array, paddle.CPUPlace())


def saved(job: Job, executor: Any) -> Step:
    """Load a saved model into the Executor or a predictor, and return its step."""
    prefix, feed = f"{job.workload.model_dir}/model", job.feed
    if job.option:
        return predictor(prefix, feed, onednn=job.option == "onednn", cores=job.cores)
    # models of Paddle 2 run in Paddle 2's IR
    guard = OldIrGuard()
    guard.__enter__()
    main, _, fetches = static.load_inference_model(prefix, executor)
    return lambda: executor.run(main, feed=feed, fetch_list=fetches)[0]


def predictor(prefix: str, feed: Any, *, onednn: bool, cores: int) -> Step:
    """Build a step of Paddle's predictor."""
    suffix = ".json" if Path(f"{prefix}.json").exists() else ".pdmodel"
    config = paddle.inference.Config(f"{prefix}{suffix}", f"{prefix}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(cores)
    if onednn:
        config.enable_mkldnn()
    else:
        config.disable_mkldnn()
    made = paddle.inference.create_predictor(config)
    inputs = {name: made.get_input_handle(name) for name in made.get_input_names()}
    output = made.get_output_handle(made.get_output_names()[0])

    def run() -> Any:
        for name, handle in inputs.items():
            handle.copy_from_cpu(feed[name])
        made.run()
        return np.asarray(output.copy_to_cpu())

    return run
