"""A trainer of the tests: it trains a small net, and one trainer commits the named fault.

Usage: worker.py FOLDER FAULT. The results go to FOLDER/<trainer>.npz, and each step's parameters to
the checkpoint FOLDER/model, from trainer 0.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError

STEPS = 4
ROWS = 8


def build(optimizer: Any, *, width: int = 6, drop: bool = False, norm: bool = False) -> Any:
    """Build a net; return main program, startup program and loss."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 4], "float32")
        y = static.data("y", [None, 1], "float32")
        hidden = static.nn.fc(x, width, activation="tanh")
        if norm:
            hidden = static.nn.batch_norm(hidden)
        if drop:
            hidden = paddle.nn.functional.dropout(hidden, 0.3)
        loss = paddle.mean((static.nn.fc(hidden, 1) - y) ** 2)
        optimizer.minimize(loss)
    return main, startup, loss


def batch(step: int, rows: int = ROWS) -> dict[str, Any]:
    """Draw the rows of all trainers for a step."""
    x = np.random.RandomState(step).rand(rows, 4).astype("float32")
    return {"x": x, "y": x.sum(1, keepdims=True) * 0.5}


def optimizers() -> dict[str, Any]:
    """Make the optimizers to compare, one of them with a changing learning rate."""
    schedule = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
    clip = paddle.nn.ClipGradByGlobalNorm(0.05)
    return {
        "sgd": paddle.optimizer.SGD(schedule),
        "adam": paddle.optimizer.Adam(0.05),
        "adam in parts": paddle.optimizer.Adam(0.05, grad_clip=clip),
        "lamb in parts": paddle.optimizer.Lamb(0.05),
    }


def train(name: str, optimizer: Any, trainer: int, trainers: int, seed: int) -> dict[str, Any]:
    """Train for a few steps on this trainer's share of the rows; return parameters and losses."""
    main, startup, loss = build(optimizer, drop=name == "adam")
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    share = ROWS // trainers
    mine = slice(trainer * share, (trainer + 1) * share)
    strategy = static.BuildStrategy()
    if name.endswith("in parts"):
        strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    with static.scope_guard(scope):
        paddle.seed(seed)
        exe.run(startup)
        program = static.CompiledProgram(main).with_data_parallel(
            loss.name, strategy, places=[paddle.CPUPlace()] * (4 // trainers)
        )
        for step in range(STEPS):
            feed = {key: array[mine] for key, array in batch(step).items()}
            (losses,) = exe.run(program, feed=feed, fetch_list=[loss])
            if name == "sgd":
                optimizer._learning_rate.step()
        found = {f"{name}.loss": losses}
        state = [v for v in main.list_vars() if v.persistable and scope.find_var(v.name)]
        for index, variable in enumerate(state):
            found[f"{name}.{index}"] = np.array(scope.find_var(variable.name).get_tensor())
        if name.endswith("in parts") and trainers > 1:
            check_parts(scope, [v.name for v in state], 4 // trainers)
    return found


def check_parts(scope: static.Scope, names: list[str], devices: int) -> None:
    """Check that each device of this process has its part of the moments."""
    slots = [scope.find_var(name) for name in names if "moment" in name]
    assert slots
    for slot in slots:
        parts = [shard.data for shard in slot.value.addressable_shards]
        assert len(parts) == devices
        assert all(part.size == -(-slot.numpy().size // devices) for part in parts)


def train_unevenly(trainer: int, trainers: int, *, sync: bool) -> dict[str, Any]:
    """Train with 5, 4, 5 and 4 rows on the devices; return losses, outputs and parameters."""
    main, startup, loss = build(paddle.optimizer.SGD(0.1), norm=True)
    strategy, name = static.BuildStrategy(), f"uneven {sync}"
    strategy.sync_batch_norm = sync
    (output,) = [op for op in main.global_block().ops if op.type == "elementwise_sub"][:1]
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    with static.scope_guard(scope):
        paddle.seed(3)
        exe.run(startup)
        places = [paddle.CPUPlace()] * (4 // trainers)
        program = static.CompiledProgram(main)
        program.with_data_parallel(loss.name, strategy, places=places)
        for step in range(3):
            rows = batch(step, 18)
            cuts = [(0, 5), (5, 9), (9, 14), (14, 18)][trainer * len(places) :][: len(places)]
            feed = [{key: array[a:b] for key, array in rows.items()} for a, b in cuts]
            fetched = exe.run(program, feed=feed, fetch_list=[loss, output.output("Out")[0]])
        found = {f"{name}.loss": fetched[0], f"{name}.out.loss": fetched[1]}
        # without sync the running statistics are each device's own
        kept = [p for p in main.all_parameters() if sync or p.trainable]
        for index, parameter in enumerate(kept):
            found[f"{name}.{index}"] = np.array(scope.find_var(parameter.name).get_tensor())
    return found


def results(trainer: int, trainers: int, seed: int) -> dict[str, Any]:
    """Collect the results to compare between one process and several."""
    found = train_unevenly(trainer, trainers, sync=False)
    found |= train_unevenly(trainer, trainers, sync=True)
    for name, optimizer in optimizers().items():
        found |= train(name, optimizer, trainer, trainers, seed)
    return found


def same(folder: Path, trainer: int) -> None:
    """Train without a fault, and check that a feed whose rows cannot be padded is refused."""
    found = results(trainer, 2, seed=7 + trainer)  # trainer 0's seed counts
    assert paddle.distributed.is_initialized()
    main, startup, loss = build(paddle.optimizer.SGD(0.1))
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    program = static.CompiledProgram(main).with_data_parallel(loss.name, sample_weighted=True)
    try:
        exe.run(program, feed={key: array[:3] for key, array in batch(0).items()})
    except FeedError as error:
        found["refused"] = np.array(str(error))
    found |= evaluate(trainer)
    paddle.distributed.barrier()
    np.savez(folder / f"{trainer}.npz", **found)


def evaluate(trainer: int) -> dict[str, Any]:
    """Evaluate between training steps, on all trainers and on trainer 0 alone; return losses."""
    main, startup, loss = build(paddle.optimizer.SGD(0.1))
    test = main.clone(for_test=True)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    train = static.CompiledProgram(main).with_data_parallel(loss.name)
    check = static.CompiledProgram(test).with_data_parallel()
    found: dict[str, Any] = {}
    for step in range(2):
        exe.run(train, feed=batch(step))
        (found[f"alone {step}"],) = exe.run(test, feed=batch(9), fetch_list=[loss])
        if trainer == 0:
            (parts,) = exe.run(check, feed=batch(9), fetch_list=[loss])
            np.testing.assert_allclose(parts.mean(), found[f"alone {step}"], rtol=1e-5)
    return found


def faulty(folder: Path, trainer: int, fault: str) -> None:
    """Train forever; trainer 1 (trainer 0 for "first") commits the fault after two steps."""
    guilty = trainer == (fault != "first")
    width = 7 if guilty and fault == "program" else 6
    main, startup, loss = build(paddle.optimizer.SGD(0.1), width=width)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    program = static.CompiledProgram(main).with_data_parallel(loss.name)
    for step in range(10000):
        feed = batch(step)
        if guilty and step == 2:
            feed = commit(fault, feed)
        exe.run(program, feed=feed, fetch_list=[loss])
        if trainer == 0:
            static.save(main, str(folder / "model"))
        print("step", step, time.time(), flush=True)


def commit(fault: str, feed: dict[str, Any]) -> dict[str, Any]:
    """Commit the fault of a trainer; some faults only change the feed."""
    print("fault", time.time(), flush=True)
    match fault:
        case "kill" | "first":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise ValueError("no such file: batch 2")
        case "end":
            sys.exit(0)
        case "late":
            time.sleep(1000)
        case "shape":
            return {key: np.concatenate([array, array]) for key, array in feed.items()}
        case "weights":
            scope = static.global_scope()
            scope.find_var("fc_0.b_0").get_tensor().set(np.zeros(6, "float32"))
    return feed


if __name__ == "__main__":
    _folder, _fault = Path(sys.argv[1]), sys.argv[2]
    _trainer = paddle.distributed.get_rank()
    if _fault == "none":
        same(_folder, _trainer)
    else:
        faulty(_folder, _trainer, _fault)
