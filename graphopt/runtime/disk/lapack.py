"""LAPACK, made ready for executables that call it and that this process did not trace."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp

# the names of the calls begin so, in executables and in StableHLO
_CALL = b"lapack_"


def prepare_calls(program: bytes) -> None:
    """Find the functions of LAPACK that an executable calls, before it runs.

    JAX looks for them when it lowers such a call for the first time in a process. An executable
    that was read has them as null pointers until then, and crashes the process.
    """
    if _CALL in program:
        _find_functions()


@cache
def _find_functions() -> None:
    matrix = jax.ShapeDtypeStruct((1, 1), "float32")
    jax.jit(jnp.linalg.cholesky).trace(matrix).lower(lowering_platforms=("cpu",))
