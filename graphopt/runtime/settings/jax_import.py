"""JAX's first import, made by graphopt and not by its caller.

It leaves random states unchanged, is not interrupted, and sets JAX up to run steps on CPUs in the
thread that calls them.
"""

from __future__ import annotations

import random
import sys

from graphopt.runtime.state.aside import aside


def import_jax() -> None:
    """Import JAX if it is not imported yet; call this before any other first import.

    JAX draws from NumPy's global generator when it is imported. The states of Python's and NumPy's
    generators are restored, so that a script that seeds them sees the same numbers as with Paddle.

    By default a thread of JAX would run long steps, while the caller's thread goes on. Nearly all
    steps are waited for, and their heap memory is better kept in one thread (`steps/scratch.py`).

    The import runs on a thread of its own. An interrupt would leave jaxlib's C++ modules half
    initialized, and Python would initialize them again at the next import. That ends the process,
    or overwrites memory.
    """
    if "jax" not in sys.modules:
        aside(_import, [])


def _import() -> None:
    import numpy as np

    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        import logging

        import jax

        # Scripts with a log of their own should not show JAX's messages about missing TPUs.
        log = logging.getLogger("jax")
        if log.level == logging.NOTSET:  # unless JAX_LOGGING_LEVEL sets a level
            log.setLevel(logging.WARNING)
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
