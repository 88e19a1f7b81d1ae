"""The watch over trainers, without JAX: joining, refusal, loss and differences.

Trainers are threads here; instead of ending the process, they record that they would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphopt.errors import TrainerError
from graphopt.runtime.distributed.meeting import Meeting
from graphopt.runtime.distributed.member import Member
from graphopt.runtime.distributed.wire import MAX_LINE, Wire, event_loop, run
from graphopt.runtime.distributed.world import Timeouts, World, free_ports, listen

HOST = "127.0.0.1"
SOFTWARE = {"version of jax": "1.0", "version of graphopt": "2.0"}
LIMITS = Timeouts(start=5.0, silence=5.0, step=5.0)


class Job:
    """A meeting and its members."""

    def __init__(self, trainers: int = 2, limits: Timeouts = LIMITS) -> None:
        self.port = free_ports(HOST, 1)[0]
        self.trainers, self.limits = trainers, limits
        self.meeting = Meeting(self.world(0))
        run(self.meeting.open())
        self.members: list[Member] = []
        self.exits: list[int] = []

    def world(self, trainer: int, **changed: Any) -> World:
        options = {"trainers": self.trainers, "token": "t", "timeouts": self.limits, **changed}
        return World(trainer, (f"{HOST}:{self.port}",), **options)

    def come(self, *worlds: World, software: dict[int, dict[str, str]] | None = None) -> list[Any]:
        """Join members for these worlds, all at once; refused ones are exceptions."""
        worlds = worlds or tuple(self.world(trainer) for trainer in range(self.trainers))

        def one(world: World) -> Any:
            try:
                software_of = (software or {}).get(world.trainer, SOFTWARE)
                member = Member(world, self.exits.append)
                member.join(values=software_of)
                return member
            except TrainerError as error:
                return error

        with ThreadPoolExecutor(len(worlds)) as pool:
            found = list(pool.map(one, worlds))
        self.members += [item for item in found if isinstance(item, Member)]
        return found


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    """Return a function that makes jobs; close their sockets at the end."""
    jobs: list[Job] = []

    def make(*arguments: Any, **options: Any) -> Job:
        jobs.append(Job(*arguments, **options))
        return jobs[-1]

    yield make
    for job in jobs:
        event_loop().call_soon_threadsafe(job.meeting.close)
        for member in job.members:
            close(member)


def close(member: Member) -> None:
    """Close a member's connection without a goodbye, and end its part in the job."""
    member._parted = True
    member._lost.set()
    member.wire.close()


def step(member: Member, number: int, **fields: Any) -> None:
    """Announce a step and continue."""
    member.steps = number
    member.come(f"step {number}", **{"key": [0, 0], "wait": False, **fields})


def ask(member: Member, to: str, **fields: Any) -> Any:
    """Come to a step or barrier, and wait for the answer."""
    member.come(to, **fields)
    return member.answer(to)


def reason(member: Member) -> str:
    """Wait for the reason why the member stops."""
    assert member.is_lost(10.0), "nothing was told"
    return member.reason


def test_steps_barriers_and_the_end(start: Callable[..., Job]) -> None:
    """All members come, wait at barriers, and leave; none is ended."""
    job = start(3)
    members = job.come()
    assert all(isinstance(member, Member) for member in members)

    def life(member: Member) -> tuple[Any, bool]:
        key = ask(member, "step 1", key=[member.world.trainer, 7])["key"]
        step(member, 2)
        ask(member, "barrier 1")
        return key, member.leave("")

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(life, members)) == [([0, 7], True)] * 3
    assert not any(member.reason for member in members)


def test_all_end_after_the_same_step(start: Callable[..., Job]) -> None:
    """After a stop, all members end after the last step that one of them has begun."""
    job = start(3)
    members = job.come()
    for member, steps in zip(members, (2, 1, 2), strict=True):
        for number in range(1, steps + 1):
            assert member.next_step() == number
            step(member, number)
    members[1].wire.send("stop")
    limit = time.monotonic() + 5.0
    while members[1].last_step is None and time.monotonic() < limit:
        time.sleep(0.01)
    assert [members[1].next_step(), members[1].next_step()] == [2, None]
    step(members[1], 2)
    assert [member.next_step() for member in members] == [None] * 3
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(lambda member: member.leave(""), members))


def test_who_has_ended_counts_for_the_last_step(start: Callable[..., Job]) -> None:
    """After a stop, the others run until the step at which a trainer ended its script."""
    zero, one = start().come()
    for number in (1, 2):
        step(one, number)
    leaving = threading.Thread(target=one.leave, args=("",), daemon=True)
    leaving.start()
    assert zero.next_step() == 1
    step(zero, 1)
    zero.wire.send("stop")
    limit = time.monotonic() + 5.0
    while zero.last_step is None and time.monotonic() < limit:
        time.sleep(0.01)
    assert zero.next_step() == 2
    step(zero, 2)
    assert zero.next_step() is None
    assert zero.leave("")
    leaving.join(5.0)
    assert not one.reason and not leaving.is_alive()


def test_a_stop_after_the_end_is_no_fault(start: Callable[..., Job], capsys: Any) -> None:
    """A stop after all members have left has no effect."""
    job = start()
    zero, one = job.come()
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda member: member.leave(""), (zero, one)))
    zero.wire.send("stop")
    limit = time.monotonic() + 5.0
    while one.last_step is None and time.monotonic() < limit:
        time.sleep(0.01)
    assert one.last_step == 0
    for peer in job.meeting.peers.values():
        peer.wire.close()
    assert not one.is_lost(0.2)
    assert "stops" not in capsys.readouterr().err


def test_a_step_that_failed_is_told(start: Callable[..., Job]) -> None:
    """An error reported at a barrier reaches all, also a member that asks twice."""
    job = start(2)
    zero, one = job.come()
    zero.come("the end of step 1")
    one.come("the end of step 1", error="no such file")
    for member in (zero, one, one):
        assert member.answer("the end of step 1")["errors"] == {"1": "no such file"}


def test_a_lost_trainer_is_named(start: Callable[..., Job]) -> None:
    """A connection that ends without a goodbye is reported to all members, and ends them."""
    job = start(3, Timeouts(start=5.0, silence=0.4, step=5.0))
    zero, one, two = job.come()
    close(one)
    for member in (zero, two):
        assert reason(member) == "trainer 1 ended without a message: it crashed or was killed"
    with pytest.raises(TrainerError, match="trainer 1 ended"):
        ask(two, "barrier 1")
    limit = time.monotonic() + 5.0
    while len(job.exits) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    assert job.exits == [75, 75]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_lost_trainer_is_named_while_what_it_started_runs(start: Callable[..., Job]) -> None:
    """Forked data workers that outlive the trainer hold no connection."""
    job = start(2)
    zero, one = job.come()
    child = os.fork()
    if child == 0:
        time.sleep(60.0)
        os._exit(0)
    try:
        close(one)
        assert reason(zero) == "trainer 1 ended without a message: it crashed or was killed"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lost_meeting_is_named(start: Callable[..., Job]) -> None:
    """A lost meeting is reported, also if it is trainer 0's."""
    job = start()
    _, one = job.come()
    for peer in job.meeting.peers.values():
        peer.wire.close()
    assert (
        reason(one)
        == f"trainer 0 ({HOST}:{job.port}) ended without a message: it crashed or was killed"
    )


def test_a_stalled_trainer_is_named(start: Callable[..., Job]) -> None:
    """A trainer without signs of life is named after the timeout."""
    job = start(2, Timeouts(start=5.0, silence=0.6, step=5.0))
    zero, one = job.come()
    one.wire.send = lambda *_, **__: None  # type: ignore[method-assign]
    began = time.monotonic()
    assert "trainer 1 sent no message for 0.6 s" in reason(zero)
    assert time.monotonic() - began < 3.0


def test_a_late_trainer_is_named(start: Callable[..., Job]) -> None:
    """A live trainer that does not come to a step is named."""
    job = start(2, Timeouts(start=5.0, silence=2.0, step=0.5))
    zero, one = job.come()
    step(zero, 1)
    assert "trainer 1 (this one) is alive but has not reached step 1" in reason(one)
    assert "trainer 0 has waited for 0.5 s" in reason(zero)


def test_differences_are_named(start: Callable[..., Job]) -> None:
    """The differences between two trainers' steps are named."""
    job = start()
    zero, one = job.come()
    step(zero, 1, does={"feed of x": "float32 [8]", "y": "int64 [8]"})
    step(one, 1, does={"feed of x": "float32 [4]", "y": "int64 [8]"})
    assert reason(zero) == (
        "trainer 1 differs from trainer 0 at step 1: "
        "feed of x: float32 [8] on trainer 0, float32 [4] on trainer 1"
    )


def test_different_values_are_named(start: Callable[..., Job]) -> None:
    """Trainers with different learning rates stop, and the rates are named."""
    job = start()
    zero, one = job.come()
    step(zero, 1, values={"learning_rate_0": "float32 [0.1]"})
    step(one, 1, values={"learning_rate_0": "float32 [0.2]"})
    assert "learning_rate_0: float32 [0.1] on trainer 0, float32 [0.2] on" in reason(one)


def test_an_early_end_is_named(start: Callable[..., Job]) -> None:
    """A trainer that runs out of batches before the others is named."""
    job = start()
    zero, one = job.come()
    step(zero, 1)
    step(one, 1)
    threading.Thread(target=one.leave, args=("",), daemon=True).start()
    step(zero, 2)
    assert "trainer 1 ended its script after 1 step, but trainer 0 goes on to step 2" in reason(
        zero
    )
    assert "trainer 1 (this one) ended" in reason(one)


def test_who_has_come_to_the_last_step_may_end(start: Callable[..., Job]) -> None:
    """The others may still come to the last step of a trainer that ended, but to no later one."""
    job = start()
    zero, one = job.come()
    step(one, 1)
    threading.Thread(target=one.leave, args=("",), daemon=True).start()
    time.sleep(0.2)
    step(zero, 1)
    step(zero, 2)
    assert "trainer 1 ended its script after 1 step, but trainer 0 goes on to step 2" in reason(
        zero
    )


def test_a_failing_script_is_named(start: Callable[..., Job], capsys: Any) -> None:
    """The exception is reported to the others; the failing trainer printed it itself."""
    job = start()
    zero, one = job.come()
    assert one.leave("ValueError: no such file") is False
    assert reason(zero) == "trainer 1 failed: ValueError: no such file"
    told = capsys.readouterr().err
    assert "trainer 0 of 2 stops: trainer 1 failed" in told
    assert "trainer 1 of 2 stops" not in told


def test_other_software_is_refused(start: Callable[..., Job]) -> None:
    """Trainers with different versions are refused, and the versions are named."""
    job = start()
    errors = job.come(software={1: {**SOFTWARE, "version of jax": "9.9"}})
    for error in errors:
        assert "version of jax: 1.0 on trainer 0, 9.9 on trainer 1" in str(error)


def test_two_of_one_number(start: Callable[..., Job]) -> None:
    """Of two processes with one number, both stop, as neither is known to be right."""
    job = start(3)
    errors = job.come(job.world(1), job.world(1))
    assert len(errors) == 2
    for error in errors:
        assert "two processes say that they are trainer 1" in str(error)


def test_a_stranger_does_no_harm(start: Callable[..., Job]) -> None:
    """Another token, number of trainers or protocol, or a late duplicate, is refused."""
    job = start()
    (error,) = job.come(job.world(1, token="other"))
    assert "this port belongs to another job" in str(error)
    (error,) = job.come(job.world(1, trainers=5))
    assert "trainer 0 expects 2 trainers, but this trainer expects 5" in str(error)
    with socket.create_connection((HOST, job.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b"refuse" in stranger.recv(1000)
    whole = {"kind": "hello", "token": "t", "trainer": 1, "trainers": 2, "pid": 1}
    strange = (
        whole,  # without a host
        whole | {"host": [1]},
        whole | {"host": "h", "trainer": True},
        whole | {"host": "h", "trainer": 10**30},
        {"kind": "hello", "token": "\ud800"},
    )
    for hello in strange:
        with socket.create_connection((HOST, job.port)) as stranger:
            stranger.sendall(json.dumps(hello).encode() + b"\n")
            assert b"refuse" in stranger.recv(1000)
    zero, one = job.come()
    (error,) = job.come(job.world(1))
    assert "two processes say that they are trainer 1" in str(error)
    assert not zero.is_lost(0.3)
    assert not one.is_lost()


def test_nobody_listens() -> None:
    """A missing coordinator is an error after the timeout."""
    world = World(1, (f"{HOST}:{free_ports(HOST, 1)[0]}",), 2, timeouts=Timeouts(start=0.5))
    began = time.monotonic()
    with pytest.raises(
        TrainerError, match=r"trainer 0 did not start within 0\.5 s: nothing listens"
    ):
        Member(world).join()
    assert time.monotonic() - began < 3.0


def test_somebody_does_not_come(start: Callable[..., Job]) -> None:
    """The present trainers get the missing trainer's number."""
    job = start(3, Timeouts(start=0.6, silence=1.0))
    zero, one = job.come(job.world(0), job.world(1))
    for error in (zero, one):
        assert "did not start within 0.6 s: missing trainer 2" in str(error)


@pytest.mark.exhaustive
def test_who_comes_first_may_wait_for_long(start: Callable[..., Job]) -> None:
    """A waiting trainer shows signs of life, so it may wait longer than the silence timeout."""
    job = start(2, Timeouts(start=9.0, silence=1.0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.come, job.world(0))
        time.sleep(2.0)
        (one,), (zero,) = job.come(job.world(1)), waiting.result()
    assert isinstance(zero, Member) and not zero.is_lost(0.5)
    assert isinstance(one, Member) and not one.is_lost()


def test_a_port_in_use() -> None:
    """Trainer 0 names the port on which it cannot listen."""
    with listen(HOST, 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TrainerError, match=f"cannot listen on {HOST}:{port}: Address already"):
            run(Meeting(World(0, (f"{HOST}:{port}",), 2)).open())


def test_messages_are_bounded() -> None:
    """An invalid or too long message ends the connection."""

    async def read(data: bytes) -> Any:
        def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(data)
            writer.close()

        async with await asyncio.start_server(serve, HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            wire = Wire(*await asyncio.open_connection(HOST, port, limit=MAX_LINE))
            message = await wire.receive()
            wire.close()
            return message

    for data in (b"[1]\n", b'{"kind":1}\n', b"\xff\n", b"x" * (1 << 23), b'{"kind":"a"}'):
        assert run(read(data)) is None
    assert run(read(b'{"kind":"a"}\n')) == {"kind": "a"}


def test_a_long_line_is_refused(start: Callable[..., Job]) -> None:
    """A stranger's endless line is not read to its end."""
    job = start()
    with socket.create_connection((HOST, job.port)) as stranger, contextlib.suppress(OSError):
        for _ in range(64):
            stranger.sendall(b"x" * (1 << 20))
        raise AssertionError("all of it was read")
    assert all(isinstance(member, Member) for member in job.come())
