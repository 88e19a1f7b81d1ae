"""Tools for scripts of several trainers (paddle.distributed.fleet.UtilBase)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.distributed.fleet.base.role_maker import RoleMakerBase
from graphopt.distributed.parallel import barrier
from graphopt.errors import UnsupportedError
from graphopt.runtime.distributed.job import join

_REDUCTIONS = {"sum": np.sum, "min": np.min, "max": np.max}


class UtilBase:
    """Files for each trainer, prints of one, and sums of NumPy arrays over all.

    `comm_world` is 'worker' or 'all', which are the same trainers.
    """

    def __init__(self) -> None:
        self.role_maker: RoleMakerBase | None = None

    def _set_role_maker(self, role_maker: RoleMakerBase) -> None:
        self.role_maker = role_maker

    def _role(self) -> RoleMakerBase:
        if self.role_maker is None:
            raise RuntimeError("call fleet.init() before fleet.util")
        return self.role_maker

    def barrier(self, comm_world: str = "worker") -> None:
        """Wait until every trainer reaches the barrier."""
        _check_world(comm_world)
        barrier()

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """Gather the number, or array, of each trainer in their order."""
        _check_world(comm_world)
        return [item.item() if item.ndim == 0 else item for item in _gather(input)]

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """Reduce an array over all trainers to its sum, minimum or maximum, a NumPy array.

        Raises ValueError for another mode.
        """
        _check_world(comm_world)
        if mode not in _REDUCTIONS:
            raise ValueError(f"all_reduce(): mode is '{mode}'; it is sum, min or max")
        return _REDUCTIONS[mode](np.stack(_gather(input)), axis=0)

    def get_file_shard(self, files: Sequence[str]) -> list[str]:
        """Select this trainer's part of a list of files.

        If the files do not divide evenly, each of the first trainers has one more. Raises TypeError
        unless `files` is a list.
        """
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        role = self._role()
        index, count = role.worker_index(), role.worker_num()
        size, rest = divmod(len(files), count)
        start = index * size + min(index, rest)
        return files[start : start + size + (index < rest)]

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Print a text on one trainer."""
        if self._role().worker_index() == rank_id:
            print(message)


def _check_world(comm_world: str) -> None:
    if comm_world not in ("worker", "all"):
        raise UnsupportedError(
            f"comm_world '{comm_world}': graphopt has trainers only, so it is 'worker' or 'all'"
        )


def _gather(value: Any) -> list[np.ndarray[Any, Any]]:
    """Gather the array of each trainer, in their order; all have the same shape and dtype.

    A lone process has only its own. All trainers must call it.
    """
    own = np.asarray(value)
    group = join()
    if group is None:
        return [own]
    from jax import enable_x64
    from jax.experimental.multihost_utils import process_allgather

    group.barrier()
    with enable_x64(True):
        return list(np.asarray(process_allgather(own[None], tiled=True)))
