"""A trainer that saves an Orbax checkpoint together with others: two steps, the save, and one more.

Usage: orbax_worker.py FOLDER. The checkpoint is FOLDER/2; its values, the loss of the step after it
and the number of parts of the weight then go to FOLDER/saved.npz, from trainer 0. When there is a
checkpoint, the trainers resume from it, and write the same to FOLDER/resumed.npz.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable

WIDTH = 96
ROWS = 16


def make() -> tuple[Variable, Variable]:
    """Build a net with a sharded weight, statistics, a scheduled rate; return loss and output."""
    x = static.data("x", [None, WIDTH], "float32")
    value = np.random.default_rng(0).normal(size=(WIDTH, WIDTH - 1)).astype("float32") / WIDTH
    attr = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Assign(value))
    weight = static.create_parameter(list(value.shape), "float32", attr=attr)
    out = static.nn.batch_norm(paddle.matmul(x, weight))
    loss = paddle.mean(paddle.square(out - 1.0))
    rate = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
    paddle.optimizer.Momentum(rate, 0.9).minimize(loss)
    return loss, out


def feed(seed: int = 0) -> dict[str, Any]:
    """Draw the rows of all trainers."""
    return {"x": np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype("float32")}


def main(folder: Path) -> None:
    """Train, save, and train on."""
    trainer, trainers = paddle.distributed.get_rank(), paddle.distributed.get_world_size()
    mine = slice(trainer * ROWS // trainers, (trainer + 1) * ROWS // trainers)
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        loss, _ = make()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    strategy = static.BuildStrategy()
    strategy.shard_parameters = strategy.sync_batch_norm = True
    places = static.cpu_places(int(os.environ["CPU_NUM"]))
    parts = static.CompiledProgram(program).with_data_parallel(loss.name, strategy, places=places)

    def step(seed: int) -> Any:
        rows = {"x": feed(seed)["x"][mine]}
        return exe.run(parts, feed=rows, fetch_list=[loss])[0]

    scope, is_new = static.global_scope(), not (folder / "2").exists()
    if is_new:
        for seed in range(2):
            step(seed)
    else:
        static.load(program, str(folder / "2"))
    state = [v.name for v in program.list_vars() if v.persistable and scope.find_var(v.name)]
    values = {name: np.array(scope.find_var(name).get_tensor()) for name in state}
    if is_new:
        saving = static.save(program, str(folder / "2"), format="orbax")
        after = np.mean(step(9))
        saving.result(60)
    else:
        after = np.mean(step(9))
    shards = scope.find_var("w").value.addressable_shards
    count = len({str(shard.index) for shard in shards})
    losses = paddle.distributed.fleet.util.all_gather(after) if trainers > 1 else [after]
    if trainer == 0:
        file = folder / ("saved.npz" if is_new else "resumed.npz")
        np.savez(file, **values, after=np.mean(losses), parts=count)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
