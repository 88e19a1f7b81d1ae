"""Compare a BuildStrategy's description of the trainers with the job of the environment."""

from __future__ import annotations

import os

from graphopt.errors import WorldError
from graphopt.runtime.distributed.group import TrainerGroup, current, join
from graphopt.runtime.distributed.world import world_of
from graphopt.runtime.settings.strategies import BuildStrategy


def job_of(strategy: BuildStrategy) -> TrainerGroup | None:
    """The job that a data-parallel program runs in, None for a process that is alone.

    A strategy with `num_trainers`, `trainer_id` and `trainers_endpoints` describes a job as the
    environment does. Raises WorldError if a trainer's endpoint is unknown.
    """
    group = current() or join()
    if group is not None or strategy.num_trainers <= 1:
        return group
    if not strategy.trainers_endpoints:
        raise WorldError(
            f"build_strategy.num_trainers is {strategy.num_trainers}, but this process has joined "
            "no job: start it with srun, mpirun or python -m graphopt.launch --nproc N, or set "
            "PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID and PADDLE_TRAINER_ENDPOINTS, or "
            "build_strategy.trainer_id and build_strategy.trainers_endpoints"
        )
    return join(
        world_of(
            strategy.num_trainers, strategy.trainer_id, strategy.trainers_endpoints, os.environ
        )
    )


def strategy_for(group: TrainerGroup, strategy: BuildStrategy) -> BuildStrategy:
    """The strategy with the job's number of trainers; WorldError when it names another job."""
    world, asked = group.world, strategy.values
    told = {
        "num_trainers": world.trainers,
        "trainer_id": world.trainer,
        "trainers_endpoints": list(world.endpoints),
    }
    for name, value in told.items():
        given = asked.get(name)
        if given not in (None, value) and not (name == "num_trainers" and given == 1):
            raise WorldError(
                f"build_strategy.{name} is {given}, but the job that this process has joined says "
                f"{value} (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS)"
            )
    twin = strategy._copy()
    twin.num_trainers = world.trainers
    return twin
