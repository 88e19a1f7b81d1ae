"""The number of threads that compute on the CPU.

XLA starts its threads once, with JAX's backend: PJRT_NPROC of them, else one for each core that the
process may use. `taskset` limits the cores, the quota of a container does not. BLAS computes the
runs in NumPy; it starts OPENBLAS_NUM_THREADS or OMP_NUM_THREADS threads when NumPy is imported, and
can use fewer at any time.

Both get one number here: the script's, else OMP_NUM_THREADS, else the quota.
"""

from __future__ import annotations

import os
import sys
import warnings

from graphopt.lowering.cores import CORES, quota
from graphopt.runtime.settings.flags import threads_flag

# the variables that set XLA's number of threads; a value set by the user wins
_XLA = ("PJRT_NPROC", "NPROC")
_asked = 0
_given_to_xla = 0


def limit_threads(count: int) -> None:
    """Limit the threads that compute from now on; the latest call counts.

    Warn if XLA has already started with another number, which cannot change.
    """
    global _asked
    _asked = count
    if _xla_is_started() and _given_to_xla != count:
        had = f"{_given_to_xla}" if _given_to_xla else "its number of"
        warnings.warn(
            f"XLA has already started with {had} threads in this process, which cannot change; "
            f"the new number, {count}, applies to NumPy computations only. Set the number of "
            f"threads before the first run, or start the process with PJRT_NPROC={count}",
            stacklevel=4,
        )


def most_threads() -> int:
    """Return the largest number of compute threads, 0 for one per core."""
    # a list with commas has a number for each level of nested parallelism
    named = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    allowed = quota()
    return (
        _asked
        or threads_flag()
        or (int(named) if named.isdigit() else 0)
        or (allowed if allowed < CORES else 0)
    )


def give_xla_its_threads() -> None:
    """Pass the number of threads to XLA, which reads it when JAX makes its backend."""
    global _given_to_xla
    if _xla_is_started() or (not _given_to_xla and any(name in os.environ for name in _XLA)):
        return
    if most := most_threads():
        os.environ["PJRT_NPROC"] = str(most)
        _given_to_xla = most


def _xla_is_started() -> bool:
    # another thread may be importing the module
    is_started = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return is_started is not None and is_started()
