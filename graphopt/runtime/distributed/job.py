"""The job that this process belongs to: joined once, before JAX starts, and left at exit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphopt.errors import WorldError
from graphopt.runtime.distributed.world import World, world_of, world_of_environment
from graphopt.runtime.settings.strategies import BuildStrategy

if TYPE_CHECKING:  # a process without other trainers does not import it
    from graphopt.runtime.distributed.group import TrainerGroup

_group: TrainerGroup | None = None


def current() -> TrainerGroup | None:
    """Return the job that this process has joined, None without one."""
    return _group


def join(world: World | None = None) -> TrainerGroup | None:
    """Join the job of `world`, by default the environment's; once, and before JAX starts.

    Return None for a single process. Raise WorldError for settings that contradict each other,
    TrainerError when trainers do not come, refuse or differ.
    """
    global _group
    if _group is not None:
        if world is not None and world != _group.world:
            raise WorldError("this process has joined a job with other trainers already")
        return _group
    world = world or world_of_environment()
    if world is not None and world.trainers > 1:
        from graphopt.runtime.distributed.group import TrainerGroup

        _group = TrainerGroup(world)
    return _group


def job_of(strategy: BuildStrategy) -> TrainerGroup | None:
    """Find or join the job of a data-parallel program; None for a single process.

    A strategy's `num_trainers`, `trainer_id` and `trainers_endpoints` describe a job as the
    environment does. Raise WorldError if a trainer's endpoint is unknown.
    """
    group = join()
    if group is not None or strategy.num_trainers <= 1:
        return group
    if not strategy.trainers_endpoints:
        raise WorldError(
            f"build_strategy.num_trainers is {strategy.num_trainers}, but this process has joined "
            "no job: start it with srun, mpirun or python -m graphopt.launch --nproc N, or set "
            "PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID and PADDLE_TRAINER_ENDPOINTS, or "
            "build_strategy.trainer_id and build_strategy.trainers_endpoints"
        )
    told = strategy.num_trainers, strategy.trainer_id, strategy.trainers_endpoints
    return join(world_of(*told, os.environ))


def strategy_for(world: World, strategy: BuildStrategy) -> BuildStrategy:
    """Copy a strategy with the job's number of trainers; WorldError if it names another job."""
    told = {
        "num_trainers": world.trainers,
        "trainer_id": world.trainer,
        "trainers_endpoints": list(world.endpoints),
    }
    for name, value in told.items():
        given = strategy.values.get(name)
        if given not in (None, value) and not (name == "num_trainers" and given == 1):
            raise WorldError(
                f"build_strategy.{name} is {given}, but the job that this process has joined says "
                f"{value} (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS)"
            )
    twin = strategy._copy()
    twin.num_trainers = world.trainers
    return twin
