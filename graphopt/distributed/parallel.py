"""This trainer's number, and barriers (paddle.distributed.parallel)."""

from __future__ import annotations

import os
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.runtime.distributed.job import current, join
from graphopt.runtime.distributed.world import world_of_environment


class ParallelEnv:
    """This trainer's place in the job, read from the environment (paddle.distributed.ParallelEnv).

    Raises WorldError (ValueError) when the variables do not fit together.
    """

    def __init__(self) -> None:
        self._world = world_of_environment()

    @property
    def rank(self) -> int:
        """The number of this trainer, PADDLE_TRAINER_ID."""
        return self._world.trainer if self._world else 0

    @property
    def world_size(self) -> int:
        """The number of trainers, PADDLE_TRAINERS_NUM."""
        return self._world.trainers if self._world else 1

    @property
    def device_id(self) -> int:
        """The first of FLAGS_selected_gpus, or 0."""
        first = os.environ.get("FLAGS_selected_gpus", "").split(",")[0]
        return int(first) if first.isdigit() else 0

    @property
    def current_endpoint(self) -> str:
        """PADDLE_CURRENT_ENDPOINT, or this trainer's in PADDLE_TRAINER_ENDPOINTS."""
        here = self._world.endpoint(self._world.trainer) if self._world else ""
        return os.environ.get("PADDLE_CURRENT_ENDPOINT", here)

    @property
    def trainer_endpoints(self) -> list[str]:
        """PADDLE_TRAINER_ENDPOINTS, one entry for each trainer."""
        return os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")

    @property
    def nrings(self) -> int:
        """FLAGS_nccl_nrings, which has no effect here: XLA owns the communicators."""
        return int(os.environ.get("FLAGS_nccl_nrings", "1"))

    # the names in Paddle 1.8
    local_rank = rank
    nranks = world_size
    dev_id = device_id


def init_parallel_env() -> None:
    """Join the job that the environment describes; do nothing for a lone process.

    It must come before any program runs. Without it the first run joins. Raises WorldError
    (ValueError) for inconsistent variables, TrainerError (RuntimeError) when trainers do not come
    in time or differ.
    """
    from graphopt.runtime.devices.places import start_backend

    if world_of_environment() is not None:
        start_backend()
    join()


def is_initialized() -> bool:
    """True when this process has joined a job of several trainers."""
    return current() is not None


def is_available() -> bool:
    """True: every build can train with several processes."""
    return True


def get_rank(group: Any = None) -> int:
    """Return the number of this trainer, 0 for a lone process."""
    _check_group(group)
    return ParallelEnv().rank


def get_world_size(group: Any = None) -> int:
    """Return the number of trainers, 1 for a lone process."""
    _check_group(group)
    return ParallelEnv().world_size


def get_backend(group: Any = None) -> str:
    """Return the backend of the collectives: 'XLA', which uses NCCL on GPUs and gloo on CPUs."""
    _check_group(group)
    return "XLA"


def barrier(group: Any = None) -> None:
    """Wait until every trainer reaches the barrier.

    Raises TrainerError (RuntimeError) when one can no longer reach it.
    """
    _check_group(group)
    joined = join()
    if joined is not None:
        joined.barrier()


def _check_group(group: Any) -> None:
    if group is not None:
        raise UnsupportedError(
            "graphopt.distributed has one group, that of all trainers: leave out the argument group"
        )
