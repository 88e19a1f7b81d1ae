"""graphopt through its public API: a program, a strategy with the workload's flags, an Executor.

It is the first engine to start: the others load the parameters that its startup program made.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from suite.engines.job import Array, Job, Step, save_weights
from suite.engines.programs import append_model

LOOKING_S, SETTLING_S = 1.0, 60.0


def prepare() -> None:
    """Initialize the device and an Executor, so that a first step does not wait for them."""
    paddle.device.get_device()
    static.Executor()


def start(job: Job) -> Step:
    """Build the step of a workload."""
    scope, executor, startup_s = static.Scope(), static.Executor(), None
    with static.scope_guard(scope):
        if job.workload.model_dir:
            prefix = f"{job.workload.model_dir}/model"
            main, _, fetches = static.load_inference_model(prefix, executor)
        else:
            main, fetches, startup_s = created(job, executor, scope)
    program = static.CompiledProgram(main, build_strategy=strategy(job))
    feed: Any = job.feed
    if job.workload.on_device and not job.workload.parallel:
        import jax

        with jax.enable_x64(True):
            feed = jax.device_put(feed)

    def run() -> Array:
        return executor.run(program, feed=feed, fetch_list=fetches, scope=scope)[0]

    if job.workload.parallel or job.steps_per_call > 1:
        repeated = static.ExecutionStrategy()
        repeated.num_iteration_per_run = job.steps_per_call
        places = executor_places() if job.workload.parallel else [executor.place]
        program.with_data_parallel(fetches[0].name, exec_strategy=repeated, places=places)
        return lambda: np.mean(run())
    return Settling(run, program, startup_s)


class Settling:
    """A step whose form may change once while it runs; `settle` runs it until the form is final."""

    def __init__(self, run: Step, program: Any, startup_s: float | None) -> None:
        self._run, self._program, self._startup_s = run, program, startup_s

    def __call__(self) -> Array:
        return self._run()

    def settle(self) -> None:
        """Run until no other form is compared with this one, for `SETTLING_S` seconds at most."""
        begun = looked = time.monotonic()
        while looked - begun < SETTLING_S and not self._settled():
            while time.monotonic() - looked < LOOKING_S:
                self._run()
            looked = time.monotonic()

    def _settled(self) -> bool:
        return not any(form.endswith("later") for form in self._program.stats["tiers"])

    def facts(self) -> dict[str, Any]:
        """Collect the facts of GPU reports: the running form, memory by XLA, the startup time."""
        found: dict[str, Any] = {"forms": list(self._program.stats["tiers"])}
        steps = [each.function for each in self._program._runner.executables()]
        for step in steps:
            made = step.memory_analysis() if hasattr(step, "memory_analysis") else None
            if made is not None:
                new = made.output_size_in_bytes - made.alias_size_in_bytes
                found["predicted_bytes"] = (
                    made.argument_size_in_bytes + new + made.temp_size_in_bytes
                )
        return found if self._startup_s is None else found | {"startup_s": self._startup_s}


def created(job: Job, executor: Any, scope: Any) -> tuple[Any, list[Any], float]:
    """Build the program of a workload, with its parameters in the scope.

    Returns it, its fetches, and the seconds of its startup program, until the parameters are on the
    device.
    """
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        startup.random_seed = 5  # not the training, whose form might then change
        built = append_model(paddle, job)
    begun = time.perf_counter()
    executor.run(startup, scope=scope)
    for parameter in built.parameters:
        scope.var(parameter.name).get_tensor()
    startup_s = time.perf_counter() - begun
    arrays = [scope.var(p.name).numpy() for p in built.parameters]
    save_weights(job.weights, arrays, [not p.stop_gradient for p in built.parameters])
    main = main if job.workload.training else main.clone(for_test=True)
    return main, [built.fetch], startup_s


def executor_places() -> list[Any]:
    """List all GPUs, or two CPU places where there are none."""
    return static.cuda_places() if paddle.is_compiled_with_cuda() else static.cpu_places(2)


def strategy(job: Job) -> Any:
    """Build a strategy with the flags that make this workload fast."""
    made = static.BuildStrategy()
    for flag in job.flags:
        setattr(made, flag, True)
    return made
