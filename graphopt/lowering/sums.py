"""Zeros and sums of gradients; a tensor array of unequal elements is a tree of arrays."""

from __future__ import annotations

from operator import add
from typing import Any

import jax
from jax import numpy as jnp


def zeros_of(value: Any) -> Any:
    """Return a zero gradient, for a value that no target depends on."""
    return jax.tree.map(jnp.zeros_like, value)


def sum_of(one: Any, other: Any) -> Any:
    """Add up two gradients of a value."""
    return jax.tree.map(add, one, other)
