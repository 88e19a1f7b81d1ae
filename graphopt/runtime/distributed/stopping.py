"""SIGTERM in a job: all trainers end after the same step, with SystemExit where the script is.

By default SIGTERM would end a process in the middle of a step, which the others then wait for. So
the trainer that gets it asks trainer 0; each trainer says how many steps it has begun and begins no
other; trainer 0 sends all of them the largest number, and after that step each one raises.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

# What a shell reports for a process that SIGTERM ended.
STOPPED = 128 + 15
# Seconds after which a script that begins no step is interrupted wherever it is.
PATIENCE = 2.0
# Seconds after which a trainer ends that cannot be interrupted: it hangs in a step.
LIMIT = 7.0


class Stopping:
    """The handler of SIGTERM of a trainer, if the script has set none.

    `ask` asks trainer 0, `is_between` says that no step is under way here and, unless it is late,
    that none is to come; `stop` ends the process.
    """

    def __init__(
        self,
        ask: Callable[[], Any],
        is_between: Callable[[bool], bool],
        stop: Callable[[int], None],
    ) -> None:
        self._ask = ask
        self._is_between = is_between
        self._stop = stop
        self._asked = False
        self._raised = False
        self._urges = False
        self._is_late = False
        self._pid = os.getpid()

    def install(self) -> None:
        """Take the place of the default action; a script's own handler stays."""
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        if os.getpid() != self._pid:  # a child of this trainer, which inherits the handler
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        elif not self._asked:
            self._asked = True
            # from here no lock may be taken: this thread may hold it
            _thread.start_new_thread(self._ask, ())
            _thread.start_new_thread(self._urge, ())
        elif self._urges and self._is_between(self._is_late):
            self.leave()

    def leave(self) -> None:
        """Raise the SystemExit, once: the script's clean-up must not be interrupted."""
        if not self._raised:
            self._raised = True
            raise SystemExit(STOPPED)

    def told(self) -> None:
        """Another trainer was asked to end, and so this one is."""
        if not self._asked:
            self._asked = True
            _thread.start_new_thread(self._urge, ())

    def over(self) -> None:
        """The script has ended by itself."""
        self._asked = self._raised = True

    def _urge(self) -> None:
        """See to it that this trainer ends also when its script begins no step."""
        time.sleep(PATIENCE)
        self._urges = True
        main = threading.main_thread().ident
        limit = time.monotonic() + LIMIT - PATIENCE
        while time.monotonic() < limit:
            if self._raised or main is None:
                return
            # who was to make another step, and does not, keeps the state of its last one
            self._is_late = time.monotonic() > limit - PATIENCE
            if self._is_between(self._is_late):
                signal.pthread_kill(main, signal.SIGTERM)
            time.sleep(0.2)
        if not self._raised:
            self._stop(STOPPED)
