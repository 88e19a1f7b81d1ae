"""JAX's first import, which is ours and not the caller's: it leaves no trace in random numbers."""

from __future__ import annotations

import random
import sys

import numpy as np


def import_jax() -> None:
    """Import JAX if it is not imported yet; call it before any other first import.

    JAX draws from NumPy's global generator when it is imported. Python's and NumPy's are left as
    they were, so that a script that seeds them sees the numbers that it sees with Paddle.
    """
    if "jax" in sys.modules:
        return
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        import jax  # noqa: F401
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
