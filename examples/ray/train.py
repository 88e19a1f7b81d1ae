"""Train under Ray, a trainer in each worker; a job that has lost a worker resumes by itself.

    pip install 'graphopt[orbax]' 'ray[train]'
    python train.py FOLDER --workers 2 --steps 20 --fail-at 7

Ray starts the workers and gives each its rank. They save each step together to a folder that all of
them share. `--fail-at` kills the last worker in a step, once: the others end with a line that names
it, and Ray restarts all of them. They resume from the latest checkpoint in the folder. They do not
use the checkpoint reported to Ray, whose controller may not have recorded the last steps.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

FEATURES, ROWS = 8, 32


def set_trainer() -> tuple[int, int]:
    """Set the variables of torchrun that describe this worker's trainer to graphopt."""
    context = ray.train.get_context()
    with socket.socket() as free:
        free.bind(("", 0))
        mine = ray.util.get_node_ip_address(), free.getsockname()[1]
    host, port = broadcast_from_rank_zero(mine)
    rank, size = context.get_world_rank(), context.get_world_size()
    told = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": context.get_local_rank()}
    os.environ |= {name: str(number) for name, number in told.items()}
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    return rank, size


def train(config: dict[str, Any]) -> None:
    """Train in each worker."""
    rank, size = set_trainer()
    # a worker that starts again compiles nothing
    os.environ["FLAGS_graphopt_cache_dir"] = str(Path(config["folder"], "compiled"))

    import numpy as np

    import graphopt as paddle
    from graphopt import static

    paddle.enable_static()
    x = static.data("x", [None, FEATURES])
    y = static.data("y", [None, 1])
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - y))
    paddle.optimizer.Adam(0.05).minimize(loss)
    main, exe = static.default_main_program(), static.Executor(paddle.CPUPlace())
    # before anything runs, so that JAX starts with all of its devices
    program = static.CompiledProgram(main).with_data_parallel(loss.name)

    folder = Path(config["folder"])
    done = max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=0)
    if done:
        static.load(main, str(folder / str(done)))
    else:
        exe.run(static.default_startup_program())
    print(f"worker {rank} of {size} goes on from step {done}", flush=True)

    for step in range(done + 1, config["steps"] + 1):
        data = np.random.default_rng([step, rank]).normal(size=(ROWS, FEATURES)).astype("float32")
        feed = {"x": data, "y": data.sum(1, keepdims=True)}
        (value,) = exe.run(program, feed=feed, fetch_list=[loss])
        failed = folder / f"failed-{step}"
        if step in config["fail_at"] and rank == size - 1 and not failed.exists():
            failed.touch()
            print(f"worker {rank} is killed in step {step}, {time.time():.1f}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        static.save(main, str(folder / str(step)), format="orbax").result()
        if rank == 0:
            print(f"step {step}, loss {np.mean(value):.4f}, {time.time():.1f}", flush=True)
        ray.train.report({"step": step, "loss": float(np.mean(value))})


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the checkpoints, on a disk of all workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fail-at", type=int, nargs="*", default=[])
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # Ray looks after its workers every 2 seconds by default
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    config = {"folder": str(folder), "steps": options.steps, "fail_at": options.fail_at}
    failures = ray.train.FailureConfig(max_failures=len(options.fail_at) + 1)
    DataParallelTrainer(
        train,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=options.workers),
        run_config=ray.train.RunConfig(storage_path=str(folder / "ray"), failure_config=failures),
    ).fit()
    print(f"done: {options.steps} steps")


if __name__ == "__main__":
    main()
