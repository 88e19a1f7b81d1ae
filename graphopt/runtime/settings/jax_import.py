"""JAX's first import, which is ours and not the caller's.

It leaves no trace in random numbers, nothing interrupts it, and steps on CPUs run in the thread
that calls them.
"""

from __future__ import annotations

import random
import sys

from graphopt.runtime.state.aside import aside


def import_jax() -> None:
    """Import JAX if it is not imported yet; call it before any other first import.

    JAX draws from NumPy's global generator when it is imported. Python's and NumPy's are left as
    they were, so that a script that seeds them sees the numbers that it sees with Paddle.

    A thread of JAX would run the steps that take long, while ours goes on. Nearly all of them are
    waited for, and what they take from the heap is better kept in one thread (`steps/scratch.py`).

    It is imported on a thread of its own. An interrupt would leave jaxlib's modules of C++ half
    made, and Python would make them again at the next import. That ends the process, or overwrites
    memory.
    """
    if "jax" not in sys.modules:
        aside(_import, [])


def _import() -> None:
    import numpy as np

    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        import logging

        import jax

        # a script that shows its own log has no use for JAX's lines on TPUs that are not there
        log = logging.getLogger("jax")
        if log.level == logging.NOTSET:  # JAX_LOGGING_LEVEL sets another one
            log.setLevel(logging.WARNING)
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
