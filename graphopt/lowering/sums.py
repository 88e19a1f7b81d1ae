"""Zeros and sums of gradients; a tensor array of different elements is a tree of arrays."""

from __future__ import annotations

from operator import add
from typing import Any

import jax
from jax import numpy as jnp


def zeros_of(value: Any) -> Any:
    """The gradient of what nothing depends on."""
    return jax.tree.map(jnp.zeros_like, value)


def sum_of(one: Any, other: Any) -> Any:
    """The gradient of a value that is used twice."""
    return jax.tree.map(add, one, other)
