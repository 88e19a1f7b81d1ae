"""A mapped function over the devices of several processes, called with this process's parts.

The function is the one of `replication.shard_map` over all devices. JAX then takes global arrays,
of which each process holds a part: feeds become such arrays from this trainer's rows, and fetches
return this trainer's replicas only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from graphopt.errors import WorldError
from graphopt.lowering.plan import Replicated
from graphopt.lowering.plan import put as put
from graphopt.lowering.replication import cut, mesh_of


def all_devices(local: Sequence[Any]) -> tuple[Any, ...]:
    """Find the devices of all processes at the positions of these local ones, by process.

    Raise WorldError if a process has fewer.
    """
    platform = local[0].platform
    mine = list(jax.local_devices(backend=platform))
    positions = [mine.index(device) for device in local]
    found: dict[int, list[Any]] = {}
    for device in jax.devices(platform):
        found.setdefault(device.process_index, []).append(device)
    for process, devices in found.items():
        if max(positions) >= len(devices):
            raise WorldError(
                f"trainer {process} has {len(devices)} {platform} devices, but trainer "
                f"{jax.process_index()} trains on {len(local)}; all must train on equally many "
                "(CPU_NUM, or the places of with_data_parallel)"
            )
    return tuple(found[process][at] for process in sorted(found) for at in positions)


def across(replicated: Replicated, devices: Sequence[Any]) -> Replicated:
    """Wrap a replicated function for a caller that feeds and fetches its own devices only."""
    mine = [device for device in devices if device.process_index == jax.process_index()]
    mesh, own = mesh_of(devices, replicated.groups), mesh_of(mine)
    parts = ProcessShares(
        whole=NamedSharding(mesh, P()),
        cut=NamedSharding(mesh, cut(mesh)),
        local=NamedSharding(own, cut(own)),
        share=len(devices) // len(mine),
    )
    function = GlobalFunction(replicated.function, parts)
    name = (
        f"{replicated.name} across {parts.share} processes" if parts.share > 1 else replicated.name
    )
    return replace(replicated, name=name, make=lambda: function)


@dataclass(frozen=True)
class ProcessShares:
    """Layout of arrays over all devices and over this process's devices; `share` processes."""

    whole: NamedSharding
    cut: NamedSharding
    local: NamedSharding
    share: int

    def feed(self, array: Any) -> Any:
        """Build the global array of which this process's rows are one part."""
        array = np.asarray(array)
        shape = (array.shape[0] * self.share, *array.shape[1:])
        return jax.make_array_from_process_local_data(self.cut, array, shape)

    def fetch(self, array: Any) -> Any:
        """Take this process's part of a global array with a leading replica axis."""
        shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
        parts = [shard.data for shard in shards]
        shape = (len(parts), *array.shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self.local, parts)

    def arguments(self, updated: Any, read_only: Any, feeds: Any, key: Any) -> tuple[Any, ...]:
        """Convert a replica function's arguments to global arrays; state is global already."""
        feeds = tuple(self.feed(feed) for feed in feeds)
        return updated, read_only, feeds, put(np.asarray(key), self.whole)


@dataclass(frozen=True)
class GlobalFunction:
    """A jitted function of global arrays, called with local ones."""

    jitted: Any
    parts: ProcessShares

    def trace(self, *arguments: Any) -> GlobalTrace:
        """Trace as a jitted function; the result of `compile` is called like this one."""
        return GlobalTrace(self.jitted.trace(*self.parts.arguments(*arguments)), self.parts)

    def __call__(self, *arguments: Any) -> Any:
        return _call_with_shares(self.jitted, self.parts, arguments)


@dataclass(frozen=True)
class GlobalTrace:
    """The result of `GlobalFunction.trace`."""

    traced: Any
    parts: ProcessShares

    def lower(self) -> Lowered:
        """Lower the traced function."""
        return Lowered(self.traced.lower(), self.parts)


@dataclass(frozen=True)
class Lowered:
    """The result of `GlobalTrace.lower`."""

    lowered: Any
    parts: ProcessShares

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """Compile to a function of local arrays."""
        compiled, parts = self.lowered.compile(compiler_options), self.parts
        return lambda *arguments: _call_with_shares(compiled, parts, arguments)


def _call_with_shares(function: Any, parts: ProcessShares, arguments: tuple[Any, ...]) -> Any:
    fetches, written = function(*parts.arguments(*arguments))
    return tuple(parts.fetch(array) for array in fetches), written
