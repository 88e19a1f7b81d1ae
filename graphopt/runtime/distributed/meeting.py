"""Trainer 0's side of the job: the trainers present, alive, and in the same step.

The collectives of a step are JAX's. This only watches: it never carries data of the model. It
refuses strangers, informs all trainers as soon as one is lost, late or different, and says when
all have come to a barrier or to the end.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphopt.display.units import several
from graphopt.errors import TrainerError
from graphopt.runtime.distributed.compare import differences
from graphopt.runtime.distributed.wire import Channel, Message, end, listen
from graphopt.runtime.distributed.world import TOKEN, World

# The fields of a greeting, without the token.
GREETING = {"trainer": int, "trainers": int, "pid": int, "host": str, "versions": dict}
# Descriptions of steps that are remembered, to name differences.
MAX_KNOWN = 256


@dataclass
class Peer:
    """A trainer that has come."""

    channel: Channel
    hello: Message
    seen: float
    steps: int = 0
    busy: float = 0.0
    done: bool = False
    failed: bool = False
    gone: bool = False


@dataclass
class Waiting:
    """The trainers that have come to a step or barrier, and since when the first one waits."""

    since: float
    came: dict[int, Message] = field(default_factory=dict)


class Meeting:
    """Listens at the endpoint of trainer 0; TrainerError when that cannot be had."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.peers: dict[int, Peer] = {}
        self.jax_port = world.jax_port
        self._lock = threading.RLock()
        self._steps: dict[int, Waiting] = {}
        self._barriers: dict[str, Waiting] = {}
        self._known: dict[str, Message] = {}
        self._halted: dict[int, int] | None = None  # how many steps each has begun
        self._ends = False
        self._over = False
        self._opened = time.monotonic()
        host, port = world.meeting_place
        try:
            self._server = listen(host, port)
        except OSError as error:
            raise TrainerError(
                f"{world.name(0)} cannot listen on {host}:{port}: {error.strerror or error}; is "
                "another trainer 0 or another job running there? Give it a free port of this "
                "machine in PADDLE_TRAINER_ENDPOINTS, the same for every trainer"
            ) from error
        self._start(self._accept, "graphopt-meeting")
        self._start(self._watch, "graphopt-watch")

    def _start(self, target: Any, name: str, *arguments: Any) -> None:
        threading.Thread(target=target, name=name, args=arguments, daemon=True).start()

    def close(self) -> None:
        """Stop listening; connections end with the process."""
        self._over = True
        end(self._server)

    def outlast(self, seconds: float) -> None:
        """Wait until the other trainers are gone: JAX aborts them when trainer 0 goes first."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if all(peer.gone for trainer, peer in list(self.peers.items()) if trainer != 0):
                return
            time.sleep(0.02)

    # -- who is there ------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._over:
            try:
                connection, address = self._server.accept()
            except OSError:
                return
            self._start(self._serve, "graphopt-peer", connection, address)

    def _serve(self, connection: socket.socket, address: Any) -> None:
        channel = Channel(connection)
        hello = channel.receive(timeout=10.0)
        with self._lock:
            refusal = self._refusal(hello)
            if refusal or hello is None:
                channel.send("refuse", reason=refusal)
                channel.close()
                return
            trainer = int(hello["trainer"])
            self.peers[trainer] = Peer(channel, hello, time.monotonic())
            self._check_hello(trainer)
            if len(self.peers) == self.world.trainers and not self._over:
                self._tell_all("welcome", jax_port=self.jax_port)
        try:
            for message in channel.messages():
                self._heard(trainer, message)
        except (KeyError, TypeError, ValueError) as error:
            self.fault(trainer, f"sent an invalid message: {error!r}")
        channel.close()
        with self._lock:
            self.peers[trainer].gone = True
            if not self.peers[trainer].done:
                self.fault(trainer, "ended without a word: it crashed or was killed")

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
        trainer, trainers = hello["trainer"], hello["trainers"]
        if trainers != self.world.trainers:
            return (
                f"trainer 0 expects {several(self.world.trainers, 'trainer')}, this one {trainers}"
            )
        if not 0 <= trainer < self.world.trainers:
            return f"there is no trainer {trainer} among {self.world.trainers}"
        if trainer not in self.peers:
            return ""
        first = self.peers[trainer].hello
        reason = (
            f"two processes say that they are trainer {trainer} (process {first['pid']} on "
            f"{first['host']} and process {hello['pid']} on {hello['host']}); give each its own "
            "PADDLE_TRAINER_ID"
        )
        if len(self.peers) < self.world.trainers:  # later the first one is trusted
            self.fault(trainer, reason)
        return reason

    def _check_hello(self, trainer: int) -> None:
        first = self.peers.get(0)
        if first is None:
            return
        for other in self.peers if trainer == 0 else (trainer,):
            found = differences(
                {"version of": first.hello["versions"]},
                {"version of": self.peers[other].hello["versions"]},
                ("trainer 0", f"trainer {other}"),
            )
            if found:
                self.fault(other, "has other software: " + "; ".join(found))

    # -- what they say -----------------------------------------------------------------------------

    def _heard(self, trainer: int, message: Message) -> None:
        with self._lock:
            peer = self.peers[trainer]
            peer.seen = time.monotonic()
            match message["kind"]:
                case "beat":
                    peer.busy = float(message["busy"])
                    peer.channel.send("beat")
                case "step":
                    self._step(trainer, message)
                case "barrier":
                    self._barrier(trainer, str(message["name"]), message)
                case "bye":
                    self._bye(trainer, str(message["error"]))
                    self._agree_to_end()
                case "end":
                    if self._halted is None:
                        self._halted = {}
                        self._tell_all("halt")
                case "halted" if self._halted is not None:
                    self._halted[trainer] = int(message["steps"])
                    self._agree_to_end()
                case _:
                    pass

    def _step(self, trainer: int, message: Message) -> None:
        number = self.peers[trainer].steps = int(message["number"])
        if "description" in message:
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[message["digest"]] = message["description"]
        waiting = self._steps.setdefault(number, Waiting(time.monotonic()))
        waiting.came[trainer] = message
        other = next((came for came in waiting.came if came != trainer), trainer)
        if not self._same(number, waiting.came, *sorted((other, trainer))):
            return
        self._check_gone(f"step {number}", waiting)
        if len(waiting.came) == self.world.trainers:
            del self._steps[number]
            key = waiting.came[0]["key"]
            for other, said in waiting.came.items():
                if said["wait"]:
                    self.peers[other].channel.send("go", number=number, key=key)

    def _same(self, number: int, came: Mapping[int, Message], one: int, other: int) -> bool:
        first, second, names = came[one], came[other], (f"trainer {one}", f"trainer {other}")
        if first["digest"] != second["digest"]:
            known = [self._known.get(said["digest"]) for said in (first, second)]
            found = differences(known[0], known[1], names) if known[0] and known[1] else []
        else:
            found = differences(first["values"], second["values"], names)
            if not found:
                return True
        told = "; ".join(found) or "their programs"
        self.fault(other, f"does another step {number} than trainer {one}: {told}")
        return False

    def _barrier(self, trainer: int, name: str, message: Message) -> None:
        waiting = self._barriers.setdefault(name, Waiting(time.monotonic()))
        waiting.came[trainer] = message
        self._check_gone("a barrier", waiting)
        if len(waiting.came) == self.world.trainers:
            del self._barriers[name]
            errors = {n: said["error"] for n, said in waiting.came.items() if said.get("error")}
            self._tell_all("through", name=name, errors=errors)

    def _agree_to_end(self) -> None:
        """Send the last step to all, once all have reported their number of begun steps."""
        halted = self._halted
        if halted is None or self._ends:
            return
        if all(peer.done or trainer in halted for trainer, peer in self.peers.items()):
            self._ends = True
            self._tell_all("last", step=max(halted.values(), default=0))

    def _bye(self, trainer: int, error: str) -> None:
        peer = self.peers[trainer]
        peer.done = True
        if error:
            peer.failed = True
            self.fault(trainer, f"failed: {error}")
            peer.channel.send("farewell")
        elif all(other.done for other in self._all()):
            self._tell_all("farewell")
            self.close()
        else:
            for what, waiting in self._waiting():
                if trainer not in waiting.came:
                    self._check_gone(what, waiting)

    def _all(self) -> list[Peer]:
        return list(self.peers.values())

    def _waiting(self) -> list[tuple[str, Waiting]]:
        """The steps and barriers to which some have not come."""
        steps = [(f"step {number}", waiting) for number, waiting in self._steps.items()]
        return steps + [("a barrier", waiting) for waiting in self._barriers.values()]

    def _check_gone(self, what: str, waiting: Waiting) -> None:
        """A fault when a trainer that this step or barrier needs has ended its script."""
        if self._ends:
            return
        for trainer, peer in self.peers.items():
            if peer.done and trainer not in waiting.came:
                self.fault(
                    trainer,
                    f"ended its script after {several(peer.steps, 'step')}, but trainer "
                    f"{min(waiting.came)} goes on to {what}; every trainer must run equally many",
                )
                return

    def _tell_all(self, kind: str, **fields: Any) -> None:
        for peer in self._all():
            peer.channel.send(kind, **fields)

    def fault(self, trainer: int, reason: str) -> None:
        """Report to all trainers that the job is over because of this one."""
        with self._lock:
            if not self._over:
                self._over = True
                for peer in self._all():
                    if not (peer.failed or peer.gone):
                        peer.channel.send("fault", trainer=trainer, reason=reason)
                end(self._server)

    # -- who is alive ------------------------------------------------------------------------------

    def _watch(self) -> None:
        limits, last = self.world.timeouts, time.monotonic()
        while not self._over:
            time.sleep(limits.beat / 2)
            now = time.monotonic()
            with self._lock:
                if now - last > limits.silence / 2:  # this process was stopped itself
                    for peer in self._all():
                        peer.seen = now
                last = now
                try:
                    self._judge(now)
                except Exception as error:  # if the watch died, all trainers would hang
                    print(f"graphopt: the watch over trainers failed: {error!r}", file=sys.stderr)
                    self.fault(0, f"cannot watch the others: {error!r}")

    def _judge(self, now: float) -> None:
        limits, everybody = self.world.timeouts, range(self.world.trainers)
        missing = [trainer for trainer in everybody if trainer not in self.peers]
        if missing:
            if now - self._opened > limits.start:
                names = ", ".join(self.world.name(trainer) for trainer in missing)
                self.fault(missing[0], f"did not come within {limits.start:g} s: missing {names}")
            return
        for trainer, peer in self.peers.items():
            if not peer.done and now - peer.seen > limits.silence:
                self.fault(
                    trainer,
                    f"gave no sign of life for {limits.silence:g} s: it is stopped, or its machine "
                    "or network is down",
                )
        for where, waiting in self._waiting():
            if now - waiting.since > limits.step:
                late = next(trainer for trainer in everybody if trainer not in waiting.came)
                self.fault(
                    late,
                    f"is alive but has not come to {where}, where trainer {min(waiting.came)} has "
                    f"waited for {limits.step:g} s",
                )
        least = min(peer.busy for peer in self._all())
        if not self._steps and least > limits.step:
            step = min(peer.steps for peer in self._all())
            self.fault(
                0, f"and all the others have been in step {step} for more than {limits.step:g} s"
            )
