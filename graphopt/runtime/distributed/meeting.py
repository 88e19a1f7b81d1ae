"""Trainer 0's side of the job: checks that trainers are present, alive, and in the same step.

The collectives of a step are JAX's; this only watches, and carries no data of the model. It refuses
strangers, informs all trainers as soon as one is lost, late or different, and announces when all
have reached the start, a step, a barrier or the end. All of it runs in one event loop, so it needs
no locks.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphopt.display.units import several
from graphopt.errors import TrainerError
from graphopt.runtime.distributed.wire import MAX_LINE, Message, Wire, own
from graphopt.runtime.distributed.world import TOKEN, World, listen

# The fields of a greeting other than the token, with their types.
GREETING = {"trainer": int, "trainers": int, "pid": int, "host": str}
# The points that each trainer reaches once, in addition to steps and barriers. The last step has no
# name of its own yet: at LAST, trainers report how many steps they have begun when the job is to
# end.
START, LAST, END = "the start", "the last step", "the end"
CRASHED = "ended without a message: it crashed or was killed"
SILENT = "sent no message for {:g} s: it is stopped, or its machine or network is down"
# The most differences that a message lists.
SHOWN = 8


@dataclass
class Peer:
    """A connected trainer, the number of steps it has begun, and its description of a step."""

    wire: Wire
    hello: Message
    steps: int = 0
    busy: float = 0.0
    does: Mapping[str, Any] = field(default_factory=dict)
    done: bool = False
    gone: bool = False


class Meeting:
    """The server at the endpoint of trainer 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.peers: dict[int, Peer] = {}
        self._waiting: dict[str, dict[int, Message]] = {}
        self._stops = self._over = False

    async def open(self) -> None:
        """Start to listen; TrainerError when the address is not available."""
        host, port = self.world.meeting_place
        try:
            listening = listen(host, port)
            own(listening)
            self._server = await asyncio.start_server(self._serve, sock=listening, limit=MAX_LINE)
        except OSError as error:
            raise TrainerError(
                f"{self.world.name(0)} cannot listen on {host}:{port}: {error.strerror or error}; "
                "is another trainer 0 or another job running there? Set a free port of this "
                "machine in PADDLE_TRAINER_ENDPOINTS, the same for every trainer"
            ) from None
        self._watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        """Stop listening; connections end with the process."""
        self._over = True
        self._server.close()

    async def outlast(self, seconds: float) -> None:
        """Wait until the other trainers are gone: JAX aborts them if trainer 0 exits first."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if all(peer.gone for trainer, peer in self.peers.items() if trainer != 0):
                return
            await asyncio.sleep(0.02)

    # -- membership --------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        hello = await wire.receive(10.0)
        refusal = self._refusal(hello)
        if refusal or hello is None:
            wire.send("fault", trainer=0, reason=f"refuses: {refusal}")
            wire.close()
            return
        trainer = int(hello["trainer"])
        peer = self.peers[trainer] = Peer(wire, hello)
        watching = asyncio.create_task(self._watch_peer(trainer, wire))
        try:
            while (message := await wire.receive()) is not None:
                self._hear(trainer, peer, message)
        except (KeyError, TypeError, ValueError) as error:
            self.fault(trainer, f"sent an invalid message: {error!r}")
        watching.cancel()
        wire.close()
        peer.gone = True
        if not peer.done:
            self.fault(trainer, CRASHED)

    def _refusal(self, hello: Message | None) -> str:
        """Give the reason to refuse a process, or "" to admit it.

        Whatever a stranger sends is a reason to refuse the stranger, never to end the job.
        """
        if hello is None or hello["kind"] != "hello":
            return "this port belongs to a job of graphopt"
        told, own = str(hello.get("token")), self.world.token
        if not secrets.compare_digest(told.encode(errors="replace"), own.encode(errors="replace")):
            return (
                f"this port belongs to another job; {TOKEN} must be the same text for every "
                f"trainer, or, if {TOKEN} is not set, trainer 0's endpoint in "
                "PADDLE_TRAINER_ENDPOINTS must be"
            )
        if any(type(hello.get(name)) is not kind for name, kind in GREETING.items()):
            return "the greeting is incomplete; is the version of graphopt the same everywhere?"
        trainer, trainers = hello["trainer"], self.world.trainers
        if hello["trainers"] != trainers:
            expects = f"trainer 0 expects {several(trainers, 'trainer')}"
            return f"{expects}, but this trainer expects {hello['trainers']}"
        if not 0 <= trainer < trainers:
            return f"trainer id {trainer} is not in 0 to {trainers - 1}"
        if trainer not in self.peers:
            return ""
        first = self.peers[trainer].hello
        reason = (
            f"two processes say that they are trainer {trainer} (process {first['pid']} on "
            f"{first['host']} and process {hello['pid']} on {hello['host']}); give each its own "
            "PADDLE_TRAINER_ID"
        )
        if len(self.peers) < trainers:  # once all have joined, the first process is trusted
            self.fault(trainer, reason)
        return reason

    # -- messages ----------------------------------------------------------------------------------

    def _hear(self, trainer: int, peer: Peer, message: Message) -> None:
        match message["kind"]:
            case "beat":
                peer.busy = float(message["busy"])
            case "come":
                self._come(trainer, peer, str(message["to"]), message)
            case "stop":
                self._tell_all("stop")
            case _:
                pass

    def _come(self, trainer: int, peer: Peer, to: str, message: Message) -> None:
        """Record that a trainer has reached a point; once all have, release those that wait."""
        peer.steps = int(message["steps"])
        peer.done = peer.done or to == END
        does = message["does"]
        if does is None:  # the same program as in its last step
            does = peer.does
        elif does:  # equal descriptions share one object, which is fast to compare
            peer.does = does = next((p.does for p in self.peers.values() if p.does == does), does)
        came = self._waiting.setdefault(to, {})
        came[trainer] = message | {"at": time.monotonic(), "does": does}
        if to == END and message["error"]:
            self.fault(trainer, f"failed: {message['error']}")
        other = next((n for n in came if n != trainer), trainer)
        first, second = sorted((other, trainer))
        if found := _differences(came[first], came[second], first, second):
            self.fault(second, f"differs from trainer {first} at {to}: {found}")
            return
        self._check_done()
        if len(came) == self.world.trainers:
            del self._waiting[to]
            self._stops = self._stops or to == LAST
            errors = {str(n): said["error"] for n, said in came.items() if said["error"]}
            most = max(said["steps"] for said in came.values())
            for n, said in came.items():
                if said["wait"]:
                    key = came[0]["key"]
                    self.peers[n].wire.send("go", to=to, key=key, errors=errors, steps=most)
            if to == END:
                self.close()

    def _check_done(self) -> None:
        """Report a fault when a trainer that a step or barrier needs has ended its script."""
        for to, came in self._waiting.items():
            for trainer, peer in self.peers.items():
                if peer.done and trainer not in came and to != LAST and not self._stops:
                    self.fault(
                        trainer,
                        f"ended its script after {several(peer.steps, 'step')}, but trainer "
                        f"{min(came)} goes on to {to}; every trainer must run equally many",
                    )

    def _tell_all(self, kind: str, **fields: Any) -> None:
        for peer in self.peers.values():
            peer.wire.send(kind, **fields)

    def fault(self, trainer: int, reason: str) -> None:
        """Report to all trainers that the job is over because of this trainer."""
        if not self._over:
            self.close()
            self._tell_all("fault", trainer=trainer, reason=reason)

    # -- signs of life -----------------------------------------------------------------------------

    async def _watch_peer(self, trainer: int, wire: Wire) -> None:
        await wire.watch(self.world.timeouts)
        self.fault(trainer, SILENT.format(self.world.timeouts.silence))

    async def _watch(self) -> None:
        opened = time.monotonic()
        while not self._over:
            await asyncio.sleep(self.world.timeouts.beat / 2)
            now = time.monotonic()
            self._judge(now, now - opened)

    def _judge(self, now: float, age: float) -> None:
        limits, everybody = self.world.timeouts, range(self.world.trainers)
        missing = [trainer for trainer in everybody if trainer not in self.peers]
        if missing:
            if age > limits.start:
                names = ", ".join(self.world.name(trainer) for trainer in missing)
                self.fault(
                    missing[0],
                    f"did not start within {limits.start:g} s: missing {names}; every trainer "
                    "must start and run the same program",
                )
            return
        waiting = {to: came for to, came in self._waiting.items() if to not in (START, END)}
        for to, came in waiting.items():
            if now - next(iter(came.values()))["at"] > limits.step:
                self.fault(
                    next(trainer for trainer in everybody if trainer not in came),
                    f"is alive but has not reached {to}, where trainer {min(came)} has waited for "
                    f"{limits.step:g} s",
                )
        peers = self.peers.values()
        if not waiting and min(peer.busy for peer in peers) > limits.step:
            step = min(peer.steps for peer in peers)
            self.fault(
                0, f"and all the others have been in step {step} for more than {limits.step:g} s"
            )


def _differences(one: Message, two: Message, first: int, second: int) -> str:
    """List the differences between two trainers' steps, joined by semicolons; "" for none."""
    lines = [
        f"{key}: {_value_text(mine.get(key))} on trainer {first}, "
        f"{_value_text(other.get(key))} on trainer {second}"
        for mine, other in ((one[name], two[name]) for name in ("does", "values"))
        if mine is not other
        for key in dict.fromkeys([*mine, *other])
        if mine.get(key) != other.get(key)
    ]
    more = len(lines) - SHOWN
    return "; ".join(lines[:SHOWN] + ([f"and {more} more"] if more > 0 else []))


def _value_text(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
