"""The floating-point operations a second of this machine, measured."""

from __future__ import annotations

import functools
import time

import jax
import numpy as np
from jax import numpy as jnp

_SIZE, _ROUNDS = 1024, 8


@functools.cache
def peak_flops() -> float:
    """Those of a float32 product of 1024 by 1024 matrices, the best of some rounds.

    About half a second the first time in a process.
    """
    x = jnp.asarray(np.random.default_rng(0).standard_normal((_SIZE, _SIZE)), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(x, x).block_until_ready()
    seconds: list[float] = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        product(x, x).block_until_ready()
        seconds.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(seconds)
