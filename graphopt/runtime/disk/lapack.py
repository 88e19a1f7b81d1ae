"""LAPACK calls in executables that this process did not trace."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp

# the prefix of the calls' names in executables and in StableHLO
_CALL = b"lapack_"


def prepare_calls(program: bytes) -> None:
    """Resolve the LAPACK functions that an executable calls, before it runs.

    JAX resolves them when it first lowers such a call in a process. Until then they are null
    pointers in an executable read from disk, which crashes the process.
    """
    if _CALL in program:
        _find_functions()


@cache
def _find_functions() -> None:
    matrix = jax.ShapeDtypeStruct((1, 1), "float32")
    jax.jit(jnp.linalg.cholesky).trace(matrix).lower(lowering_platforms=("cpu",))
