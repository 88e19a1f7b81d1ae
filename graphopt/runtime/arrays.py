"""The types of the arrays that steps take and give; JAX is not imported for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

if TYPE_CHECKING:
    import jax

    from graphopt.ir.program import Variable

HostArray: TypeAlias = np.ndarray[Any, Any]
Array: TypeAlias = "np.ndarray[Any, Any] | jax.Array"
Arrays: TypeAlias = "tuple[Array, ...]"
Feeds: TypeAlias = "Mapping[str, Array | list[Array]]"
"""The feed of each variable; a list of arrays for replicas with different numbers of rows."""
Feed: TypeAlias = "Mapping[str, object] | Sequence[Mapping[str, object]] | None"
"""The feed of a script, not checked yet; values are all that NumPy makes an array of."""
FetchList: TypeAlias = "Sequence[object] | Variable | str | None"
"""The fetches of a script: variables, names and operators, in lists of lists."""
Fetched: TypeAlias = "list[list[Array]]"
"""The values of each fetch, one for each replica."""


class Stats(TypedDict, total=False):
    """The counters of a runner: `Executor.stats` says which, and when."""

    compiled_programs: int
    compiled_shapes: int
    op_by_op: int
    runs: int
    reasons: dict[str, int]
    mapper: str
    devices: int
    rows: int
    padding: int
    exact: list[str]
