"""The background thread, whose work no caller awaits: its order, forks, and the process's end."""

from __future__ import annotations

import atexit
import signal
import subprocess
import sys
import threading
import time

import pytest

from graphopt.runtime.compile import background
from graphopt.runtime.compile.background import submit

START = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from graphopt.runtime.compile.background import submit
class Work:
    def __init__(self, seconds=0.0, then=""):
        self.begun, self.done = threading.Event(), threading.Event()
        self.seconds, self.then = seconds, then
    def work(self):
        self.begun.set()
        time.sleep(self.seconds)
        print(self.then, end="", flush=True)
        self.done.set()
"""


class Noted:
    """A work item that notes its name."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    def work(self) -> None:
        self.notes.append(self.name)


def ended(script: str) -> tuple[int, str]:
    """Run a script; return exit code and output."""
    found = subprocess.run(
        [sys.executable, "-c", START + script], capture_output=True, text=True, timeout=60
    )
    return found.returncode, found.stdout + found.stderr


def test_work_is_done_in_order() -> None:
    notes: list[str] = []
    works = [Noted(name, notes) for name in "abc"]
    gone = Noted("gone", notes)
    submit(works[0])
    submit(gone)
    del gone
    for work in works[1:]:
        submit(work)
    for _ in range(1000):
        if len(notes) >= 3 and notes[-1] == "c":
            break
        time.sleep(0.01)
    assert [name for name in notes if name != "gone"] == ["a", "b", "c"]


def test_others_wait_less_while_work_is_done() -> None:
    """During work, a thread that traces releases the interpreter's lock more often."""
    before, notes = sys.getswitchinterval(), list[float]()

    class Looks:
        def work(self) -> None:
            notes.append(sys.getswitchinterval())

    looks = Looks()
    submit(looks)
    for _ in range(1000):
        if notes and sys.getswitchinterval() == before:
            break
        time.sleep(0.01)
    assert 0 < notes[0] < 2e-4 < before == sys.getswitchinterval()


def test_an_interrupt_while_a_thread_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work still gets a thread, and the process's end waits for no idle one."""
    start, left, idents = background._Thread.start, [KeyboardInterrupt], list[int]()

    def interrupted(self: background._Thread) -> None:
        start(self)
        if left:
            idents.append(self.ident)
            self.ident = 0  # as the signal comes before the thread has said that it runs
            raise left.pop()

    monkeypatch.setattr(background._Thread, "start", interrupted)
    worker, notes = background._Worker(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        worker.submit(Noted("a", notes))
    work = Noted("b", notes)
    worker.submit(work)
    first, second = worker._threads
    (first.ident,) = idents
    end = threading.Thread(target=worker.close, daemon=True)
    end.start()
    end.join(10)
    assert not end.is_alive() and not first.is_alive() and not second.is_alive()
    atexit.unregister(worker.close)


@pytest.mark.parametrize("closes", ["while it waits", "when it has waited"])
def test_the_end_waits_for_no_other_process(closes: str) -> None:
    """The end of the process waits for work, but not while the work waits for another process."""
    worker, notes, ends = background._Worker(), list[str](), threading.Event()
    began, may_end = threading.Event(), threading.Event()

    class Waiting:
        def work(self) -> None:
            worker.wait(lambda: (began.set(), ends.wait(10)))
            notes.append("after it")
            may_end.wait(10)

    work = Waiting()
    worker.submit(work)
    atexit.unregister(worker.close)
    assert began.wait(10)
    if closes == "when it has waited":
        ends.set()
        while not notes:
            time.sleep(0.001)
        threading.Timer(0.1, may_end.set).start()
    worker.close()
    assert may_end.is_set() is bool(notes)
    ends.set()
    time.sleep(0.05)
    assert worker._threads[0].is_alive() is not bool(notes)
    assert notes == ["after it"][: len(notes)]


@pytest.mark.slow
def test_a_process_ends_beside_one_that_it_waits_for() -> None:
    """Exit code, output and exit handlers are as usual."""
    script = """
import atexit
from graphopt.runtime.compile.background import wait_for
class Waits(Work):
    def work(self):
        wait_for(lambda: (self.begun.set(), time.sleep(30)))
work = Waits()
atexit.register(print, "handler")
submit(work); work.begun.wait()
print("written", end=" ")
sys.exit(3)
"""
    began = time.monotonic()
    assert ended(script) == (3, "written handler\n")
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_process_ends_after_the_work_under_way() -> None:
    """The running work is finished, and queued work is dropped."""
    script = """
first, second = Work(0.3, "first"), Work(0.3, "second")
submit(first); submit(second); first.begun.wait()
"""
    assert ended(script) == (0, "first")


@pytest.mark.slow
def test_an_interrupt_ends_the_wait() -> None:
    script = """
work = Work(30)
submit(work); work.begun.wait()
timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
timer.daemon = True
timer.start()
"""
    assert ended(script) == (-signal.SIGINT, "")


@pytest.mark.slow
def test_a_child_has_a_thread_of_its_own() -> None:
    """A child neither waits for its parent's work nor loses its own."""
    script = """
long, short = Work(0.5, "parent "), Work(0, "child ")
submit(long); long.begun.wait()
child = os.fork()
if not child:
    submit(short)
    sys.exit(0 if short.done.wait(5) else 1)
print(os.waitpid(child, 0)[1], end=" ", flush=True)
"""
    code, text = ended(script)
    assert code == 0 and sorted(text.split()) == ["0", "child", "parent"]


@pytest.mark.slow
def test_nothing_begins_at_the_end() -> None:
    """Work that is submitted while the process ends may be dropped, and does not fail."""
    script = """
import atexit
work = Work(0, "late")
atexit.register(lambda: (submit(work), print("end")))
"""
    code, text = ended(script)
    assert code == 0 and "".join(text.split()) in ("end", "lateend", "endlate")
