"""JAX's first import, which is ours and not the caller's.

It leaves no trace in random numbers, and steps on CPUs run in the thread that calls them.
"""

from __future__ import annotations

import random
import sys

import numpy as np


def import_jax() -> None:
    """Import JAX if it is not imported yet; call it before any other first import.

    JAX draws from NumPy's global generator when it is imported. Python's and NumPy's are left as
    they were, so that a script that seeds them sees the numbers that it sees with Paddle.

    A thread of JAX would run the steps that take long, while ours goes on. Nearly all of them are
    waited for, and what they take from the heap is better kept in one thread (`steps/scratch.py`).
    """
    if "jax" in sys.modules:
        return
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        import jax

        jax.config.update("jax_cpu_enable_async_dispatch", False)
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
