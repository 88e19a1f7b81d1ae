"""The engine that has started this process with others: Slurm, Open MPI, Kubernetes, Cloud TPU.

JAX knows how each of them says which process this is and where the first one is
(`jax.distributed.initialize` without arguments). It is imported only where the variables of an
engine are set, so a process that is alone imports nothing. Open MPI 5 no longer sets the variable
by which JAX finds the first process; on one machine that is no question.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from graphopt.errors import WorldError
from graphopt.runtime.settings.jax_import import import_jax

# the variables of an engine, of which each has several processes -> the module and class of JAX
_ENGINES = (
    (("OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri"), "ompi_cluster", "OmpiCluster"),
    (("SLURM_STEP_NODELIST", "SLURM_PROCID"), "slurm_cluster", "SlurmCluster"),
    (("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"), "cloud_tpu_cluster", "GkeTpuCluster"),
    (("TPU_WORKER_ID", "TPU_PROCESS_ADDRESSES"), "cloud_tpu_cluster", "GkeTpuCluster"),
    (("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"), "k8s_cluster", "K8sCluster"),
)
# how many processes there are on this machine; Slurm writes `2(x3)` for two on each of three
_BESIDE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE")
_MENDING = (
    "set PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID and PADDLE_MASTER (host:port of trainer 0), or "
    "PADDLE_TRAINERS_NUM=1 for a process that is alone"
)


@dataclass(frozen=True)
class Started:
    """The number of this process among `processes`, and where the first one is to listen.

    `device` is the one accelerator that is its own, where processes share a machine.
    """

    processes: int
    number: int
    address: str
    device: int | None = None


@cache
def started_by() -> Started | None:
    """The words of the engine that has started this process; None for a process that is alone.

    WorldError for an engine that does not say where the first process is.
    """
    for variables, module, name in _ENGINES:
        if all(os.environ.get(variable) for variable in variables):
            return _asked(module, name)
    if find_spec("libtpu") is not None and os.path.exists("/dev/accel0"):
        return _asked("cloud_tpu_cluster", "GceTpuCluster")
    return _of_open_mpi_5()


def _asked(module: str, name: str) -> Started | None:
    """The findings of JAX's class for an engine; None without the engine, or for one process."""
    import_jax()
    try:
        cluster = getattr(import_module(f"jax._src.clusters.{module}"), name)
    except (ImportError, AttributeError):
        raise WorldError(
            f"this release of JAX has no {name}, which knows how the engine that has started this "
            f"process numbers its processes; {_MENDING}"
        ) from None
    try:
        if not cluster.is_env_present() or (processes := cluster.get_process_count()) < 2:
            return None
        address = cluster.get_coordinator_address(
            timeout_secs=60, override_coordinator_port=os.environ.get("JAX_COORDINATOR_PORT")
        )
        # a machine of TPUs has one process, with all of its chips
        alone = "tpu" in module
        return Started(
            processes,
            cluster.get_process_id(),
            address,
            None if alone else own_device(cluster.get_local_process_id(), os.environ),
        )
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        raise WorldError(
            f"{name} of JAX does not find out which process this is: {error!r}; {_MENDING}"
        ) from error


def _of_open_mpi_5() -> Started | None:
    """The words of Open MPI, all of whose processes are on this machine; else WorldError."""
    size, rank = os.environ.get("OMPI_COMM_WORLD_SIZE"), os.environ.get("OMPI_COMM_WORLD_RANK")
    if not size or not rank or int(size) < 2:
        return None
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") != size:
        raise WorldError(
            f"Open MPI has started {size} processes and does not say where the first one is; "
            + _MENDING
        )
    job = os.environ.get("PMIX_NAMESPACE", "") or str(os.getppid())
    port = os.environ.get("JAX_COORDINATOR_PORT") or 61440 + zlib.crc32(job.encode()) % 4096
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", rank))
    return Started(int(size), int(rank), f"127.0.0.1:{port}", own_device(local, os.environ))


def own_device(local: int | None, environment: Mapping[str, str]) -> int | None:
    """The accelerator of process `local` of a machine; None for all that it can see.

    A process that has the machine for itself takes all of them, and one that is shown a single one
    that one.
    """
    named = environment.get("CUDA_VISIBLE_DEVICES", "").strip()
    shown = len(named.split(",")) if named else 0
    beside = next((environment[name] for name in _BESIDE if environment.get(name)), "")
    if local is None or shown == 1 or re.match("1(?![0-9])", beside):
        return None
    return local
