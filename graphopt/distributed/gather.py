"""Arrays of the host, brought together from all trainers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.runtime.distributed.group import current, join


def gathered(value: Any) -> list[np.ndarray[Any, Any]]:
    """An array of each trainer, in their order; all of the same shape and dtype.

    A process that is alone has its own only. All trainers must call it.
    """
    own = np.asarray(value)
    group = current() or join()
    if group is None:
        return [own]
    from jax import enable_x64
    from jax.experimental.multihost_utils import process_allgather

    group.barrier()
    with enable_x64(True):
        return list(np.asarray(process_allgather(own[None], tiled=True)))
