"""Calls on a thread of their own, which no signal handler interrupts."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def call_aside(call: Callable[[], T]) -> T:
    """Return the result of a call on a separate thread; raise its error, or an interrupt.

    Interrupts do not reach the call, so it may catch all exceptions that it raises.
    """
    noted: list[T] = []
    aside(call, noted)
    return noted[0]


def aside(call: Callable[[], T], noted: list[T]) -> None:
    """Append the result of `call` to `noted`, or raise its error.

    Python runs signal handlers on the main thread, and `PyThreadState_SetAsyncExc` names the thread
    in which it raises, so neither ends the call. Their exceptions in this thread are raised when
    the call has ended.
    """
    begun: list[int] = []
    errors: list[BaseException] = []
    interrupt: BaseException | None = None
    ended = allocate_lock()
    ended.acquire()

    def run() -> Iterator[None]:
        try:
            # The thread has started when it gets here. Before that, Python takes it for the thread
            # that started it, and may raise that thread's exceptions in it.
            yield
            noted.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.release()

    running = run()
    next(running)
    # `next` is a C function, so the thread runs no Python code before `run`
    go_on = partial(next, running, None)
    while not (noted or errors):
        try:
            if not begun:  # one C call: either the thread starts and is noted, or neither
                begun.extend(map(start_new_thread, (go_on,), ((),)))
            ended.acquire()
        except BaseException as error:
            if not begun and isinstance(error, RuntimeError):
                go_on()  # no thread can start while the process exits
            elif not begun:
                raise
            else:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    if errors:
        raise errors[0]
