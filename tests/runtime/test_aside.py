"""Calls in a new thread."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes, threading
from graphopt.runtime.state import aside

start = aside.start_new_thread
main = ctypes.c_ulong(threading.get_ident())

def at_once(*given):
    started = start(*given)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(KeyboardInterrupt))
    return started

aside.start_new_thread = at_once
for _ in range(50):
    try:
        aside.call_aside(lambda: 1)
        for _ in range(1000):
            pass
    except KeyboardInterrupt:
        continue
    print("lost")
print("end")
"""


def test_an_interrupt_while_the_thread_begins() -> None:
    """An interrupt that arrives while the thread starts, and is raised in it, does no harm."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30
    )
    assert found.stdout == "end\n", found.stderr
