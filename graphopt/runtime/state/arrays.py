"""The types of the arrays that steps take and return; without importing JAX."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from graphopt.display.units import several

if TYPE_CHECKING:
    import jax

    from graphopt.ir.program import Variable

HostArray: TypeAlias = np.ndarray[Any, Any]
Array: TypeAlias = "np.ndarray[Any, Any] | jax.Array"
Arrays: TypeAlias = "tuple[Array, ...]"
FedArrays: TypeAlias = "tuple[Array | list[Array], ...]"
Results: TypeAlias = "tuple[Arrays, Arrays]"
"""The fetches of a step, and the state after the step."""
Step: TypeAlias = "Callable[[Arrays, Arrays, FedArrays, HostArray], Results]"
"""A step: it takes updated state, read-only state, feeds and a random key."""
Feeds: TypeAlias = "Mapping[str, Array | list[Array]]"
"""The feed of each variable; a list of arrays for replicas with unequal rows."""
Feed: TypeAlias = "Mapping[str, object] | Sequence[Mapping[str, object]] | None"
"""A script's feed before checks; NumPy must be able to convert the values."""
FetchList: TypeAlias = "Sequence[object] | Variable | str | None"
"""A script's fetches: variables, names and operators, possibly in nested lists."""
Fetched: TypeAlias = "Sequence[Sequence[Array]]"
"""The values of each fetch, one for each replica."""


def shapes_of(feeds: Mapping[str, Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Build a key of the shapes and dtypes of feeds, sorted by name."""
    return tuple([(feeds[name].shape, feeds[name].dtype) for name in sorted(feeds)])


def numbers_in(feed: Any) -> tuple[float, ...]:
    """List the elements of a feed in row-major order."""
    return tuple(np.asarray(feed).reshape(-1).tolist())


def is_of_jax(array: object) -> bool:
    """Return whether an array is JAX's, and so cannot be written."""
    return hasattr(array, "sharding")


# the host's copies of arrays on devices, by the device array's id
_on_host: dict[int, HostArray] = {}


def keep_on_host(array: Any, copy: HostArray) -> None:
    """Keep the host's copy of a JAX array as long as the array lives."""
    _on_host[id(array)] = copy
    weakref.finalize(array, _on_host.pop, id(array), None).atexit = False


def as_numpy(array: Any) -> HostArray:
    """Convert an array to NumPy, from its host copy if it has one, without waiting."""
    found = _on_host.get(id(array))
    return np.asarray(array) if found is None else found


def is_apart(array: Any) -> bool:
    """Return whether an array is in the memory of a device other than the host."""
    sharding = getattr(array, "sharding", None)
    return sharding is not None and next(iter(sharding.device_set)).platform != "cpu"


def unchanging(array: Array) -> Array:
    """Copy an array, unless it cannot be written."""
    return array if is_of_jax(array) else array.copy()


class Stats(TypedDict, total=False):
    """The counters of a runner; `Executor.stats` describes them."""

    compiled_programs: int
    compiled_shapes: int
    op_by_op: int
    tiers: dict[str, int]
    runs: int
    reasons: dict[str, int]
    other_fetches: list[str]
    mapper: str
    devices: int
    rows: int
    padding: int
    exact: list[str]
    caches: list[str]


def counters(stats: Stats) -> dict[str, str]:
    """Describe the numbers of compiled programs and shapes, and of runs."""
    programs, shapes = stats.get("compiled_programs", 0), stats.get("compiled_shapes", 0)
    return {
        "compiled": f"{several(programs, 'program')} for {several(shapes, 'feed shape')}",
        "runs": str(stats.get("runs", 0)),
    }
