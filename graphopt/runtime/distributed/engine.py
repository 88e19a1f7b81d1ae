"""The engine that started this process with others: Slurm, Open MPI, Kubernetes, Cloud TPU.

JAX can find the process number and the first process for each of them. JAX is consulted only where
the variables of an engine are set, so a single process imports nothing. Open MPI 5 no longer sets
the variable by which JAX finds the first process; that matters only across machines.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from graphopt.errors import WorldError
from graphopt.runtime.settings.jax_import import import_jax

# launcher -> variables that it sets in all processes of a job of several
_ENGINES = (
    ("Open MPI", ("OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri")),
    ("Slurm", ("SLURM_STEP_NODELIST", "SLURM_PROCID")),
    ("Cloud TPU", ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")),
    ("Cloud TPU", ("TPU_WORKER_ID", "TPU_PROCESS_ADDRESSES")),
    ("Kubernetes", ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX")),
)
# the number of processes on this machine; Slurm writes `2(x3)` for two on each of three nodes
_BESIDE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE")
_MENDING = (
    "set PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID and PADDLE_MASTER (host:port of trainer 0), or "
    "PADDLE_TRAINERS_NUM=1 for a single process"
)


class Started(NamedTuple):
    """The number of this process among `processes`, and the endpoints, or only the first.

    `device` is this process's own accelerator, where processes share a machine.
    """

    processes: int
    number: int
    endpoints: tuple[str, ...] = ()
    device: int | None = None


@cache
def started_by() -> Started | None:
    """Detect the engine that started this process; None for a single process.

    Raise WorldError for an engine that does not say where the first process is.
    """
    for engine, variables in _ENGINES:
        if all(os.environ.get(variable) for variable in variables):
            return _found_by_jax(engine)
    if find_spec("libtpu") is not None and os.path.exists("/dev/accel0"):
        return _found_by_jax("Cloud TPU")
    return _of_open_mpi_5()


def _found_by_jax(engine: str) -> Started | None:
    """Detect the job as `jax.distributed.initialize` does; None without one, or for one process."""
    import_jax()
    try:
        from jax._src.clusters import ClusterEnv

        address, processes, number, devices = ClusterEnv.auto_detect_unset_distributed_params(
            *(None,) * 5, initialization_timeout=60
        )
    except Exception as error:  # of the launcher, or of a JAX release without this function
        raise WorldError(
            f"JAX cannot determine the process number under {engine}: {error!r}; {_MENDING}"
        ) from error
    if address is None or number is None or processes is None or processes < 2:
        return None
    local = devices[0] if devices else None
    return Started(processes, number, (address,), own_device(local, os.environ))


def _of_open_mpi_5() -> Started | None:
    """Read Open MPI's variables; WorldError unless all its processes are on this machine."""
    size, rank = os.environ.get("OMPI_COMM_WORLD_SIZE"), os.environ.get("OMPI_COMM_WORLD_RANK")
    if not size or not rank or int(size) < 2:
        return None
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") != size:
        raise WorldError(
            f"Open MPI has started {size} processes and does not give the address of process 0; "
            + _MENDING
        )
    job = os.environ.get("PMIX_NAMESPACE", "") or str(os.getppid())
    port = os.environ.get("JAX_COORDINATOR_PORT") or 61440 + zlib.crc32(job.encode()) % 4096
    return Started(int(size), int(rank), (f"127.0.0.1:{port}",), own_device(int(rank), os.environ))


def own_device(local: int | None, environment: Mapping[str, str]) -> int | None:
    """Choose the accelerator of process `local` on a machine; None for all visible ones.

    A process alone on its machine takes all of them, and so does a process that sees a single one.
    """
    shown = environment.get("CUDA_VISIBLE_DEVICES", "").strip()
    beside = next((environment[name] for name in _BESIDE if environment.get(name)), "")
    is_single = bool(shown) and "," not in shown
    return None if is_single or re.match("1(?![0-9])", beside) else local
