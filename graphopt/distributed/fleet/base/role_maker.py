"""The number of this trainer and the others (paddle.distributed.fleet.base.role_maker)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from graphopt.distributed.parallel import ParallelEnv
from graphopt.errors import UnsupportedError

NO_SERVERS = (
    "graphopt has no parameter server: train by collectives, with fleet.init(is_collective=True), "
    "and embeddings as parameters of the program"
)


class Role:
    """The roles of processes; every process here is a WORKER."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


class RoleMakerBase:
    """A trainer among several, by its number and all endpoints.

    The methods have the names of Paddle 1.8; the names of 2.x begin with an underscore.
    """

    def __init__(self, index: int, count: int, endpoints: Sequence[str]) -> None:
        self._current_id, self._count, self._endpoints = index, count, list(endpoints)

    def worker_index(self) -> int:
        """Return the number of this trainer, from 0."""
        return self._current_id

    def worker_num(self) -> int:
        """Return the number of trainers."""
        return self._count

    def is_first_worker(self) -> bool:
        """Return True for trainer 0."""
        return self._current_id == 0

    def is_worker(self) -> bool:
        """Return True: every process trains."""
        return True

    def is_server(self) -> bool:
        """Return False: there is no parameter server."""
        return False

    def server_num(self) -> int:
        """Return 0: there is no parameter server."""
        return 0

    def get_trainer_endpoints(self) -> list[str]:
        """Return host:port of each trainer."""
        return list(self._endpoints)

    def get_pserver_endpoints(self) -> list[str]:
        """Return no endpoints: there is no parameter server."""
        return []

    def generate_role(self) -> None:
        """Do nothing: the constructor has found the role."""

    _worker_index = worker_index
    _worker_num = worker_num
    _is_first_worker = is_first_worker
    _is_worker = is_worker
    _is_server = is_server
    _server_num = server_num
    _get_trainer_endpoints = get_trainer_endpoints
    _get_pserver_endpoints = get_pserver_endpoints


class PaddleCloudRoleMaker(RoleMakerBase):
    """The role in Paddle's environment variables: PADDLE_TRAINER_ID and so on.

    Raises UnsupportedError where the environment names parameter servers, WorldError (ValueError)
    for inconsistent variables.
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        servers = os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST", "")
        role = os.environ.get("TRAINING_ROLE", "TRAINER")
        if not is_collective and (servers or role not in ("TRAINER", "WORKER")):
            raise UnsupportedError(NO_SERVERS)
        env = ParallelEnv()
        super().__init__(env.rank, env.world_size, [e for e in env.trainer_endpoints if e])


class UserDefinedRoleMaker(RoleMakerBase):
    """A role that a script defines: `current_id` of `worker_num`, or of `worker_endpoints`.

    Raises UnsupportedError for server endpoints and for roles other than WORKER.
    """

    def __init__(
        self,
        is_collective: bool = False,
        init_gloo: bool = False,
        *,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: int = 0,
        worker_endpoints: Sequence[str] | None = None,
        server_endpoints: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if role != Role.WORKER or server_endpoints:
            raise UnsupportedError(NO_SERVERS)
        endpoints = list(worker_endpoints or ())
        super().__init__(int(current_id), int(worker_num) or len(endpoints) or 1, endpoints)
