"""Role makers with the arguments of Paddle 1.8 (paddle.fluid.incubate.fleet.base.role_maker)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.distributed.fleet.base.role_maker import NO_SERVERS
from graphopt.distributed.fleet.base.role_maker import PaddleCloudRoleMaker as PaddleCloudRoleMaker
from graphopt.distributed.fleet.base.role_maker import RoleMakerBase as RoleMakerBase
from graphopt.errors import UnsupportedError
from graphopt.frontend.calls import publish

__all__ = [
    "GeneralRoleMaker",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
]


class Role:
    """The roles of processes; every process here is a WORKER."""

    WORKER = 1
    SERVER = 2


class UserDefinedRoleMaker(RoleMakerBase):
    """Trainer `current_id` of `worker_num`; UnsupportedError for servers."""

    def __init__(
        self,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Sequence[str] | None = None,
    ) -> None:
        if role != Role.WORKER or server_endpoints:
            raise UnsupportedError(NO_SERVERS)
        super().__init__(current_id, worker_num or 1, ())


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """Trainer `current_id` of the trainers at `worker_endpoints` (host:port of each)."""

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        endpoints = list(worker_endpoints or ())
        super().__init__(current_id, len(endpoints) or 1, endpoints)


class GeneralRoleMaker:
    """Refused: it starts trainers and parameter servers together."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(NO_SERVERS)


class MPISymetricRoleMaker(GeneralRoleMaker):
    """Refused: each second process would be a parameter server."""


publish(globals(), __name__)
