"""Trainer 0's side of the job: the trainers present, alive, and in the same step.

The collectives of a step are JAX's. This only watches: it never carries data of the model. It
refuses strangers, informs all trainers as soon as one is lost, late or different, and says when
all have come to a step, to a barrier or to the end. All of it runs in one event loop, so it needs
no locks.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from dataclasses import dataclass
from typing import Any

from graphopt.display.units import several
from graphopt.errors import TrainerError
from graphopt.runtime.distributed.compare import Description, differences
from graphopt.runtime.distributed.wire import MAX_LINE, Message, own, receive, send
from graphopt.runtime.distributed.world import TOKEN, World, free_ports, listen

# The fields of a greeting, without the token.
GREETING = {"trainer": int, "trainers": int, "pid": int, "host": str, "versions": dict}
CRASHED = "ended without a word: it crashed or was killed"
# Descriptions of steps that are remembered, to name differences.
MAX_KNOWN = 256


@dataclass
class Peer:
    """A trainer that has come."""

    writer: asyncio.StreamWriter
    hello: Message
    seen: float
    steps: int = 0
    busy: float = 0.0
    halted: bool = False
    done: bool = False
    failed: bool = False
    gone: bool = False


class Meeting:
    """Listens at the endpoint of trainer 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.peers: dict[int, Peer] = {}
        self._waiting: dict[str, dict[int, Message]] = {}
        self._known: dict[str, Description] = {}
        self._halts = self._ends = self._over = False

    async def open(self) -> None:
        """Listen from now on; TrainerError when that cannot be had."""
        host, port = self.world.meeting_place
        try:
            self.jax_port = self.world.jax_port or free_ports(host, 1)[0]
            listening = listen(host, port)
            own(listening)
            self._server = await asyncio.start_server(self._serve, sock=listening, limit=MAX_LINE)
        except OSError as error:
            known = error.errno is not None and error.errno > 0
            raise TrainerError(
                f"{self.world.name(0)} cannot listen on {host}:{port}: "
                f"{os.strerror(error.errno or 0) if known else error}; is another trainer 0 or "
                "another job running there? Give it a free port of this machine in "
                "PADDLE_TRAINER_ENDPOINTS, the same for every trainer"
            ) from None
        self._watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        """Stop listening; connections end with the process."""
        self._over = True
        self._server.close()

    async def outlast(self, seconds: float) -> None:
        """Wait until the other trainers are gone: JAX aborts them when trainer 0 goes first."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if all(peer.gone for trainer, peer in self.peers.items() if trainer != 0):
                return
            await asyncio.sleep(0.02)

    # -- who is there ------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own(writer.get_extra_info("socket"))
        hello = await receive(reader, 10.0)
        refusal = self._refusal(hello)
        if refusal or hello is None:
            send(writer, "refuse", reason=refusal)
            writer.close()
            return
        trainer = int(hello["trainer"])
        peer = self.peers[trainer] = Peer(writer, hello, time.monotonic())
        self._compare_software()
        if len(self.peers) == self.world.trainers and not self._over:
            self._tell_all("welcome", jax_port=self.jax_port)
        try:
            while (message := await receive(reader)) is not None:
                peer.seen = time.monotonic()
                self._hear(trainer, peer, message)
        except (KeyError, TypeError, ValueError) as error:
            self.fault(trainer, f"sent an invalid message: {error!r}")
        writer.close()
        peer.gone = True
        if not peer.done:
            self.fault(trainer, CRASHED)

    def _refusal(self, hello: Message | None) -> str:
        """The reason why a process may not take part, empty when it may.

        Whatever a stranger says is a reason to refuse him and never one to end the job.
        """
        if hello is None or hello["kind"] != "hello":
            return "this port belongs to a job of graphopt"
        told, own = str(hello.get("token")), self.world.token
        if not secrets.compare_digest(told.encode(errors="replace"), own.encode(errors="replace")):
            return (
                f"this port belongs to another job; {TOKEN}, and without it trainer 0's endpoint "
                "in PADDLE_TRAINER_ENDPOINTS, must be the same text for every trainer"
            )
        if any(type(hello.get(name)) is not kind for name, kind in GREETING.items()):
            return "the greeting is incomplete; is the version of graphopt the same everywhere?"
        trainer, trainers = hello["trainer"], self.world.trainers
        if hello["trainers"] != trainers:
            return f"trainer 0 expects {several(trainers, 'trainer')}, this one {hello['trainers']}"
        if not 0 <= trainer < trainers:
            return f"there is no trainer {trainer} among {trainers}"
        if trainer not in self.peers:
            return ""
        first = self.peers[trainer].hello
        reason = (
            f"two processes say that they are trainer {trainer} (process {first['pid']} on "
            f"{first['host']} and process {hello['pid']} on {hello['host']}); give each its own "
            "PADDLE_TRAINER_ID"
        )
        if len(self.peers) < trainers:  # later the first one is trusted
            self.fault(trainer, reason)
        return reason

    def _compare_software(self) -> None:
        told = {
            trainer: {f"version of {name}": text for name, text in peer.hello["versions"].items()}
            for trainer, peer in self.peers.items()
        }
        for other in told if 0 in told else ():
            if found := differences(told[0], told[other], ("trainer 0", f"trainer {other}")):
                self.fault(other, f"has other software: {found}")

    # -- what they say -----------------------------------------------------------------------------

    def _hear(self, trainer: int, peer: Peer, message: Message) -> None:
        match message["kind"]:
            case "beat":
                peer.busy = float(message["busy"])
                send(peer.writer, "beat")
            case "come":
                self._come(trainer, str(message["to"]), message)
            case "bye":
                self._bye(trainer, peer, str(message["error"]))
                self._agree_to_end()
            case "end" if not self._halts:
                self._halts = True
                self._tell_all("halt")
            case "halted":
                peer.halted, peer.steps = True, int(message["steps"])
                self._agree_to_end()
            case _:
                pass

    def _come(self, trainer: int, to: str, message: Message) -> None:
        """A trainer has come to a step or barrier; when all have, those go on who wait there."""
        self.peers[trainer].steps = int(message["steps"])
        if "description" in message:
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[message["digest"]] = message["description"]
        came = self._waiting.setdefault(to, {})
        came[trainer] = message | {"at": time.monotonic()}
        other = next((n for n in came if n != trainer), trainer)
        first, second = sorted((other, trainer))
        if found := self._difference(came[first], came[second], first, second):
            self.fault(second, f"does another {to} than trainer {first}: {found}")
            return
        self._check_gone()
        if len(came) == self.world.trainers:
            del self._waiting[to]
            errors = {str(n): said["error"] for n, said in came.items() if said["error"]}
            for n, said in came.items():
                if said["wait"]:
                    send(self.peers[n].writer, "go", to=to, key=came[0]["key"], errors=errors)

    def _difference(self, one: Message, two: Message, first: int, second: int) -> str:
        names = f"trainer {first}", f"trainer {second}"
        if one["digest"] == two["digest"]:
            return differences(one["values"], two["values"], names)
        known = self._known.get(one["digest"], {}), self._known.get(two["digest"], {})
        return (differences(*known, names) if all(known) else "") or "their programs"

    def _agree_to_end(self) -> None:
        """Send the last step to all, once all have reported their number of begun steps."""
        peers = self.peers.values()
        if self._halts and not self._ends and all(peer.done or peer.halted for peer in peers):
            self._ends = True
            self._tell_all(
                "last", step=max((peer.steps for peer in peers if peer.halted), default=0)
            )

    def _bye(self, trainer: int, peer: Peer, error: str) -> None:
        peer.done = True
        if error:
            peer.failed = True
            self.fault(trainer, f"failed: {error}")
            send(peer.writer, "farewell")
        elif all(other.done for other in self.peers.values()):
            self._tell_all("farewell")
            self.close()
        else:
            self._check_gone()

    def _check_gone(self) -> None:
        """A fault when a trainer that a step or barrier needs has ended its script."""
        for to, came in self._waiting.items():
            for trainer, peer in self.peers.items():
                if peer.done and trainer not in came and not self._ends:
                    self.fault(
                        trainer,
                        f"ended its script after {several(peer.steps, 'step')}, but trainer "
                        f"{min(came)} goes on to {to}; every trainer must run equally many",
                    )

    def _tell_all(self, kind: str, **fields: Any) -> None:
        for peer in self.peers.values():
            send(peer.writer, kind, **fields)

    def fault(self, trainer: int, reason: str) -> None:
        """Report to all trainers that the job is over because of this one."""
        if not self._over:
            self.close()
            for peer in self.peers.values():
                if not (peer.failed or peer.gone):
                    send(peer.writer, "fault", trainer=trainer, reason=reason)

    # -- who is alive ------------------------------------------------------------------------------

    async def _watch(self) -> None:
        limits, opened = self.world.timeouts, time.monotonic()
        last = opened
        while not self._over:
            await asyncio.sleep(limits.beat / 2)
            now = time.monotonic()
            if now - last > limits.silence / 2:  # this process was stopped itself
                for peer in self.peers.values():
                    peer.seen = now
            last = now
            try:
                self._judge(now, now - opened)
            except Exception as error:  # if the watch died, all trainers would hang
                print(f"graphopt: the watch over trainers failed: {error!r}", file=sys.stderr)
                self.fault(0, f"cannot watch the others: {error!r}")

    def _judge(self, now: float, age: float) -> None:
        limits, everybody = self.world.timeouts, range(self.world.trainers)
        missing = [trainer for trainer in everybody if trainer not in self.peers]
        if missing:
            if age > limits.start:
                names = ", ".join(self.world.name(trainer) for trainer in missing)
                self.fault(
                    missing[0],
                    f"did not come within {limits.start:g} s: missing {names}; every trainer "
                    "has to start, and to run the program that the others run",
                )
            return
        for trainer, peer in self.peers.items():
            if not peer.done and now - peer.seen > limits.silence:
                self.fault(trainer, silent(limits.silence))
        for to, came in self._waiting.items():
            if now - next(iter(came.values()))["at"] > limits.step:
                self.fault(
                    next(trainer for trainer in everybody if trainer not in came),
                    f"is alive but has not come to {to}, where trainer {min(came)} has waited for "
                    f"{limits.step:g} s",
                )
        peers = self.peers.values()
        if not self._waiting and min(peer.busy for peer in peers) > limits.step:
            step = min(peer.steps for peer in peers)
            self.fault(
                0, f"and all the others have been in step {step} for more than {limits.step:g} s"
            )


def silent(seconds: float) -> str:
    """The fault of a trainer that has stopped, in words."""
    return (
        f"gave no sign of life for {seconds:g} s: it is stopped, or its machine or network is down"
    )
