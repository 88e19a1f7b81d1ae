"""A trainer that fleet starts: losses with half precision, recomputation and merged gradients."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.distributed import fleet
from graphopt.ir.program import unique_name

ROWS = 8


def weights(name: str, shape: tuple[int, ...]) -> Any:
    """Make a parameter with the same numbers on every trainer."""
    numbers = np.random.default_rng(len(name)).normal(0, 0.3, shape).astype("float32")
    return paddle.ParamAttr(name, paddle.nn.initializer.Assign(numbers))


def results() -> dict[str, Any]:
    """Return the mean losses of six steps over all trainers, and this one's view of the others."""
    fleet.init(is_collective=True)
    count, index = fleet.worker_num(), fleet.worker_index()
    main, startup = static.Program(), static.Program()
    with unique_name.guard(), static.program_guard(main, startup):
        x, y = static.data("x", [None, 8]), static.data("y", [None, 1], "int64")
        hidden = static.nn.fc(x, 16, activation="relu", weight_attr=weights("w", (8, 16)))
        logits = static.nn.fc(hidden, 10, weight_attr=weights("out", (16, 10)))
        loss = paddle.mean(paddle.nn.functional.cross_entropy(logits, y))
        strategy = fleet.DistributedStrategy()
        strategy.amp = strategy.recompute = strategy.gradient_merge = True
        strategy.amp_configs = {"init_loss_scaling": 64.0}
        strategy.recompute_configs = {"checkpoints": [hidden.name]}
        strategy.gradient_merge_configs = {"k_steps": 2}
        optimizer = fleet.distributed_optimizer(paddle.optimizer.Adam(0.02), strategy)
        optimizer.minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(ROWS, 8)).astype("float32"), "y": rng.integers(0, 10, (ROWS, 1))}
    size = ROWS // count
    own = {name: rows[index * size : (index + 1) * size] for name, rows in feed.items()}
    losses: list[float] = []
    for _ in range(6):
        # a list, as a DataLoader for one place gives it, whatever the number of devices
        (value,) = executor.run(main, [own], [loss])
        losses.append(float(fleet.util.all_reduce(np.mean(value)) / count))
    fleet.barrier_worker()
    files = fleet.util.get_file_shard(["a", "b", "c"])
    return {"losses": losses, "all": fleet.util.all_gather(index), "files": files}


if __name__ == "__main__":
    found = results()
    Path(sys.argv[1], f"{fleet.worker_index()}.json").write_text(json.dumps(found))
