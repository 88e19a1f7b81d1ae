"""The trainers of a job, the number of this process among them, and timeouts.

The first source that is set defines them: Paddle's variables (PADDLE_TRAINERS_NUM,
PADDLE_TRAINER_ID, PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT, and PADDLE_MASTER in place of
the endpoints), JAX's (JAX_NUM_PROCESSES, JAX_PROCESS_ID, JAX_COORDINATOR_ADDRESS), torchrun's
(WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT), or the engine that started the process, as JAX detects
it (`engine.py`).
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphopt.display.units import several
from graphopt.errors import WorldError
from graphopt.runtime.distributed.engine import Started, own_device, started_by

# The exit code of a process that another trainer's fault has stopped (EX_TEMPFAIL: try again).
FAULT_EXIT = 75
# The exit code that a shell reports for a process that SIGTERM ended.
STOPPED = 128 + 15
TOKEN = "GRAPHOPT_JOB_TOKEN"
JAX_PORT = "GRAPHOPT_JAX_PORT"


@dataclass(frozen=True)
class Timeouts:
    """Timeouts of a job in seconds; the variable of each is GRAPHOPT_<NAME>_TIMEOUT.

    `start`: until all trainers have come. `silence`: without a sign of life from a trainer. `step`:
    while others wait for a live trainer that does not come to a step, or while all are in one step.
    """

    start: float = 120.0
    silence: float = 60.0
    step: float = 600.0

    @property
    def beat(self) -> float:
        """Seconds between two heartbeats."""
        return min(self.silence / 4, 5.0)

    @property
    def grace(self) -> float:
        """Seconds that a script has to end by itself after a fault."""
        return min(self.silence / 2, 3.0)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Timeouts:
        """Read the timeouts of an environment; WorldError unless all are positive numbers."""
        found: dict[str, float] = {}
        for limit in ("start", "silence", "step"):
            name = f"GRAPHOPT_{limit.upper()}_TIMEOUT"
            if text := environment.get(name, ""):
                try:
                    found[limit] = float(text)
                except ValueError:
                    found[limit] = math.nan
                if not 0 < found[limit] < math.inf:
                    raise WorldError(f"{name} is '{text}'; it must be a number of seconds above 0")
        return cls(**found)


@dataclass(frozen=True)
class World:
    """The trainers of a job, and this one's number among them."""

    trainer: int
    endpoints: tuple[str, ...]
    trainers: int
    token: str = ""
    jax_port: int = 0
    timeouts: Timeouts = field(default_factory=Timeouts)
    device: int | None = None
    """The number on this machine of the only accelerator of this process; None for all
    accelerators."""

    @property
    def meeting_place(self) -> tuple[str, int]:
        """The address at which trainer 0 listens."""
        return split_endpoint(self.endpoints[0])

    def endpoint(self, trainer: int) -> str:
        """Return the endpoint of a trainer, "" if unknown."""
        return self.endpoints[trainer] if trainer < len(self.endpoints) else ""

    def name(self, trainer: int) -> str:
        """Name a trainer for messages."""
        endpoint = self.endpoint(trainer)
        return f"trainer {trainer} ({endpoint})" if endpoint else f"trainer {trainer}"


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Split 'host:port' ('[::1]:6170' for IPv6) into both; WorldError if malformed."""
    host, _, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise WorldError(f"'{endpoint}' is not an endpoint of a trainer; write host:port")
    return host, int(port)


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens on this address only; OSError when it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=128)


def free_ports(host: str, count: int) -> list[int]:
    """Find `count` different ports that are free now."""
    servers = [listen(host, 0) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def world_of(
    trainers: int, trainer: int, endpoints: Sequence[str], environment: Mapping[str, str]
) -> World:
    """Build the world of these trainers; WorldError, with the mistake, if they contradict."""
    if trainers < 1:
        raise WorldError(f"the number of trainers is {trainers}; it must be 1 or more")
    if not 0 <= trainer < trainers:
        raise WorldError(
            f"the trainer id is {trainer}, but this is a job of {several(trainers, 'trainer')}, "
            f"numbered 0 to {trainers - 1}; correct PADDLE_TRAINER_ID or PADDLE_TRAINERS_NUM"
        )
    found = tuple(endpoints)
    for endpoint in found:
        split_endpoint(endpoint)
    if len(found) not in (1, trainers):
        raise WorldError(
            f"the job has {several(trainers, 'trainer')} and {len(found)} endpoints "
            f"({', '.join(found)}); give one host:port for each trainer in "
            "PADDLE_TRAINER_ENDPOINTS, or only the endpoint of trainer 0"
        )
    # Without a token of its own, a job derives one that all of its trainers can compute. It is no
    # secret: it only keeps out processes that connect by mistake, such as other jobs and port
    # probes.
    common = hashlib.sha256(f"graphopt job at {found[0]}".encode()).hexdigest()[:32]
    return World(
        trainer,
        found,
        trainers,
        token=environment.get(TOKEN, "") or common,
        jax_port=_number(environment, JAX_PORT, 0),
        timeouts=Timeouts.of(environment),
    )


def world_of_environment(environment: Mapping[str, str] | None = None) -> World | None:
    """Read the world from the environment; None for a single process.

    `PADDLE_TRAINERS_NUM=1` makes the process a single one, whatever started it.
    """
    environment = os.environ if environment is None else environment
    readers = (_of_paddle, _of_jax, _of_torchrun)
    found = next(filter(None, (read(environment) for read in readers)), None) or started_by()
    if found is None or found.processes == 1:
        return None
    made = world_of(found.processes, found.number, found.endpoints, environment)
    return replace(made, device=found.device)


def _of_paddle(environment: Mapping[str, str]) -> Started | None:
    """Read Paddle's own variables; None without a number of trainers."""
    if not environment.get("PADDLE_TRAINERS_NUM", "").strip():
        return None
    trainers = _number(environment, "PADDLE_TRAINERS_NUM")
    if trainers == 1:
        return Started(1, 0)
    listed = environment.get("PADDLE_TRAINER_ENDPOINTS") or environment.get("PADDLE_MASTER", "")
    endpoints = tuple(part.strip() for part in listed.split(",") if part.strip())
    if not endpoints:
        raise WorldError(
            f"PADDLE_TRAINERS_NUM is {trainers}, but PADDLE_TRAINER_ENDPOINTS names no trainer; "
            "set host:port of each trainer, or start the script with "
            f"python -m graphopt.launch --nproc {trainers}"
        )
    return Started(trainers, _number(environment, "PADDLE_TRAINER_ID"), endpoints)


def _of_jax(environment: Mapping[str, str]) -> Started | None:
    """Read JAX's own variables, which Kubeflow Trainer sets; None unless all are set."""
    address = environment.get("JAX_COORDINATOR_ADDRESS")
    count, number = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
    if not (address and environment.get(count) and environment.get(number)):
        return None
    return Started(_number(environment, count), _number(environment, number), (address,))


def _of_torchrun(environment: Mapping[str, str]) -> Started | None:
    """Read the variables of torchrun and similar launchers; None without them.

    The agent of torchrun listens at MASTER_PORT itself, so trainer 0 takes the next port.
    """
    if not all(environment.get(name) for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR")):
        return None
    host = environment["MASTER_ADDR"]
    port = _number(environment, "MASTER_PORT", 6170)
    port += environment.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() in ("true", "1")
    local = _number(environment, "LOCAL_RANK", -1)
    return Started(
        _number(environment, "WORLD_SIZE"),
        _number(environment, "RANK"),
        (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",),
        own_device(local, environment) if local >= 0 else None,
    )


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise WorldError(f"{name} is '{text}'; it must be a whole number") from None
