"""The trainers of a job, the number of this process among them, and timeouts.

The first of these says so: Paddle's variables (PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ID,
PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT, and PADDLE_MASTER in place of the endpoints),
those of JAX (JAX_NUM_PROCESSES, JAX_PROCESS_ID, JAX_COORDINATOR_ADDRESS), those of torchrun
(WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT), and the engine that has started the process, as JAX
finds it (`engine.py`).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphopt.display.units import several
from graphopt.errors import WorldError
from graphopt.runtime.distributed import engine

TOKEN = "GRAPHOPT_JOB_TOKEN"
LAUNCHER = "GRAPHOPT_LAUNCHER_PID"
JAX_PORT = "GRAPHOPT_JAX_PORT"
# the fields of Timeouts -> their variables
TIMEOUTS = {
    "start": "GRAPHOPT_START_TIMEOUT",
    "silence": "GRAPHOPT_SILENCE_TIMEOUT",
    "step": "GRAPHOPT_STEP_TIMEOUT",
}


@dataclass(frozen=True)
class Timeouts:
    """Seconds until a job gives up; each has an environment variable.

    `start` (GRAPHOPT_START_TIMEOUT): until all trainers have come. `silence`
    (GRAPHOPT_SILENCE_TIMEOUT): without a sign of life from a trainer. `step`
    (GRAPHOPT_STEP_TIMEOUT): that others wait for a trainer that is alive but does not come to a
    step, or that all of them spend in one.
    """

    start: float = 120.0
    silence: float = 60.0
    step: float = 600.0

    @property
    def beat(self) -> float:
        """Seconds between two signs of life."""
        return min(self.silence / 4, 5.0)

    @property
    def grace(self) -> float:
        """Seconds that a script has to end by itself after a fault."""
        return min(self.silence / 2, 3.0)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Timeouts:
        """The timeouts of an environment; WorldError for anything but positive numbers."""
        found: dict[str, float] = {}
        for limit, name in TIMEOUTS.items():
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
    """The trainers of a job and this one's number among them."""

    trainer: int
    endpoints: tuple[str, ...]
    trainers: int
    token: str = ""
    jax_port: int = 0
    timeouts: Timeouts = field(default_factory=Timeouts)
    device: int | None = None
    """The only accelerator of this process, by its number on the machine; None for all of them."""

    @property
    def meeting_place(self) -> tuple[str, int]:
        """The address at which trainer 0 listens."""
        return split_endpoint(self.endpoints[0])

    def endpoint(self, trainer: int) -> str:
        """The endpoint of a trainer, if known."""
        return self.endpoints[trainer] if trainer < len(self.endpoints) else ""

    def name(self, trainer: int) -> str:
        """A trainer in messages."""
        endpoint = self.endpoint(trainer)
        return f"trainer {trainer} ({endpoint})" if endpoint else f"trainer {trainer}"


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of 'host:port' ('[::1]:6170' for IPv6); WorldError for anything else."""
    host, _, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise WorldError(f"'{endpoint}' is not an endpoint of a trainer; write host:port")
    return host, int(port)


def world_of(
    trainers: int, trainer: int, endpoints: Sequence[str], environment: Mapping[str, str]
) -> World:
    """The world of these trainers; WorldError, naming the mistake, when they do not fit."""
    if trainers < 1:
        raise WorldError(f"the number of trainers is {trainers}; it must be 1 or more")
    if not 0 <= trainer < trainers:
        raise WorldError(
            f"the trainer id is {trainer}, but this is a job of {several(trainers, 'trainer')}, "
            f"numbered 0 to {trainers - 1}; set PADDLE_TRAINER_ID and PADDLE_TRAINERS_NUM to fit"
        )
    found = tuple(endpoints)
    for endpoint in found:
        split_endpoint(endpoint)
    if len(found) not in (1, trainers):
        raise WorldError(
            f"the job has {several(trainers, 'trainer')} and {len(found)} endpoints "
            f"({', '.join(found)}); give one host:port for each in "
            "PADDLE_TRAINER_ENDPOINTS, or only the first one's"
        )
    if len(set(found)) < len(found):
        raise WorldError(f"two trainers have the same endpoint: {', '.join(found)}")
    here = environment.get("PADDLE_CURRENT_ENDPOINT", "")
    if here and len(found) == trainers and here != found[trainer]:
        raise WorldError(
            f"PADDLE_CURRENT_ENDPOINT is {here}, but trainer {trainer} of PADDLE_TRAINER_ENDPOINTS "
            f"is {found[trainer]}"
        )
    return World(
        trainer,
        found,
        trainers,
        token=environment.get(TOKEN, "") or derived_token(found[0]),
        jax_port=_number(environment, JAX_PORT, 0),
        timeouts=Timeouts.of(environment),
    )


def derived_token(endpoint: str) -> str:
    """The token of trainers that are given none: all of them know trainer 0's endpoint.

    It is no secret. It keeps away who came by mistake: trainers of another job, probes of ports.
    """
    return hashlib.sha256(f"graphopt job at {endpoint}".encode()).hexdigest()[:32]


def world_of_environment(environment: Mapping[str, str] | None = None) -> World | None:
    """The world that the environment describes; None for a process that is alone.

    `PADDLE_TRAINERS_NUM=1` makes a process alone, whatever has started it.
    """
    environment = os.environ if environment is None else environment
    if not environment.get("PADDLE_TRAINERS_NUM", "").strip():
        found = _of_jax(environment) or _of_torchrun(environment) or engine.started_by()
        if found is None or found.processes == 1:
            return None
        made = world_of(found.processes, found.number, [found.address], environment)
        return replace(made, device=found.device)
    trainers = _number(environment, "PADDLE_TRAINERS_NUM", 1)
    if trainers == 1:
        return None
    trainer = _number(environment, "PADDLE_TRAINER_ID", None)
    listed = environment.get("PADDLE_TRAINER_ENDPOINTS") or environment.get("PADDLE_MASTER", "")
    endpoints = [part.strip() for part in listed.split(",") if part.strip()]
    if not endpoints:
        raise WorldError(
            f"PADDLE_TRAINERS_NUM is {trainers}, but PADDLE_TRAINER_ENDPOINTS does not say where "
            "the trainers are; give host:port of each, or start the script with "
            f"python -m graphopt.launch --nproc {trainers}"
        )
    return world_of(trainers, trainer, endpoints, environment)


def _of_jax(environment: Mapping[str, str]) -> engine.Started | None:
    """JAX's own variables, which Kubeflow Trainer sets; None without all of them."""
    count, number, address = "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"
    if not all(environment.get(name) for name in (count, number, address)):
        return None
    counted, numbered = (_number(environment, name, None) for name in (count, number))
    return engine.Started(counted, numbered, environment[address])


def _of_torchrun(environment: Mapping[str, str]) -> engine.Started | None:
    """The words of torchrun and of launchers like it; None without them.

    The agent of torchrun listens at MASTER_PORT itself, so trainer 0 takes the next one.
    """
    if not all(environment.get(name) for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR")):
        return None
    host = environment["MASTER_ADDR"]
    port = _number(environment, "MASTER_PORT", 6170)
    port += environment.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() in ("true", "1")
    local = environment.get("LOCAL_RANK", "").strip()
    return engine.Started(
        _number(environment, "WORLD_SIZE", None),
        _number(environment, "RANK", None),
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        engine.own_device(_number(environment, "LOCAL_RANK", None), environment) if local else None,
    )


def _number(environment: Mapping[str, str], name: str, default: int | None) -> int:
    text = environment.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise WorldError(f"{name} is '{text}'; it must be a whole number") from None
