"""Functions that are lowered for TPUs apart from the program around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import export

Array = jax.Array


def with_short_indices(function: Callable[..., Any], *operands: Array) -> Any:
    """Call a function that is lowered with 32-bit indices: Mosaic has no others.

    A program of graphopt is traced and lowered with 64-bit indices, so this part is lowered alone.
    Replicas side by side on one device are computed one after the other.
    """
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
    with jax.enable_x64(False):
        exported = export.export(jax.jit(function), platforms=("tpu",))(*types)
    return jax.custom_batching.sequential_vmap(exported.call)(*operands)
