"""The types of the arrays that steps take and give; JAX is not imported for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import jax

HostArray: TypeAlias = np.ndarray[Any, Any]
Array: TypeAlias = "np.ndarray[Any, Any] | jax.Array"
Arrays: TypeAlias = "tuple[Array, ...]"
Feeds: TypeAlias = "Mapping[str, Array | list[Array]]"
"""The feed of each variable; a list of arrays for replicas with different numbers of rows."""
Fetched: TypeAlias = "list[list[Array]]"
"""The values of each fetch, one for each replica."""
