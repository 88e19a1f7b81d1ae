"""SIGTERM in a job: all trainers end after the same step, each with SystemExit in its script.

By default SIGTERM would end a process within a step, and the others would wait for it. So the
trainer that gets it notifies trainer 0; each trainer reports how many steps it has begun and begins
no other; trainer 0 sends the largest number to all, and after that step each one raises. JAX's
service for this ends only scripts that poll it in each step.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from graphopt.runtime.distributed.world import STOPPED

# The seconds after which a script is interrupted between two steps.
PATIENCE = 2.0
# The seconds after which it is interrupted even if a step is to come; its last state is kept.
LATE = 5.0
# The seconds after which a trainer exits that cannot be interrupted: it hangs in a step.
LIMIT = 7.0


class Stopping:
    """A trainer's handler of SIGTERM, unless the script has set one.

    `ask` notifies trainer 0. `is_between` returns whether no step is running here and, unless it is
    late, none is to come. `stop` ends the process.
    """

    def __init__(
        self,
        ask: Callable[[], Any],
        is_between: Callable[[bool], bool],
        stop: Callable[[int], None],
    ) -> None:
        self._ask, self._is_between, self._stop = ask, is_between, stop
        self._since = math.inf
        self._raised = False
        self._pid = os.getpid()
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        waited = time.monotonic() - self._since
        if os.getpid() != self._pid:  # a forked child, which has inherited the handler
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        elif self.begin():
            self._ask()
        elif waited > PATIENCE and self._is_between(waited > LATE):
            self.leave()

    def leave(self) -> None:
        """Raise SystemExit, once: the script's clean-up must not be interrupted."""
        if not self._raised:
            self._raised = True
            raise SystemExit(STOPPED)

    def begin(self) -> bool:
        """take no lock here: this thread may hold it"""
        # no lock may be taken here: this thread may hold it
        if is_first := self._since == math.inf:
            self._since = time.monotonic()
            _thread.start_new_thread(self._urge, ())
        return is_first

    def over(self) -> None:
        """Note that the script has ended by itself."""
        self._since, self._raised = 0.0, True

    def _urge(self) -> None:
        """Interrupt a script that begins no step, and end the process if that fails."""
        main = threading.main_thread().ident
        while not self._raised and main is not None:
            time.sleep(0.2)
            waited = time.monotonic() - self._since
            if waited > LIMIT:
                self._stop(STOPPED)
            elif waited > PATIENCE and self._is_between(waited > LATE):
                signal.pthread_kill(main, signal.SIGTERM)
