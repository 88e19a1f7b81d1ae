"""The order of the arrays passed to a step and back, and the step on its devices.

A step whose executable is on disk needs no more than this of its module, so nothing here imports
the dialect before a module is inspected, nor JAX before there are arrays of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.dialect.signature import Port

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """The order of the arrays of a call, and the number of `steps` that it runs.

    A feed in `stacked` has a batch for each step along its axis 1; all steps get the same array of
    any other feed. The results of `@prepare` come after `read_only`, as `prepared`, when they are
    computed apart.
    """

    updated: tuple[Port, ...]
    read_only: tuple[Port, ...]
    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]
    written: tuple[Port, ...]
    steps: int = 1
    stacked: frozenset[str] = frozenset()
    prepared: tuple[Port, ...] = ()

    @property
    def sizes_are_known(self) -> bool:
        """True where the program declares all sizes of the state that it reads."""
        ports = (*self.updated, *self.read_only, *self.prepared)
        return all(size >= 0 for port in ports for size in port.shape)

    @classmethod
    def of(
        cls,
        module: ModuleOp,
        steps: int = 1,
        stacked: frozenset[str] = frozenset(),
        *,
        apart: bool = False,
    ) -> Plan:
        """Build the plan of a module; state that is read and written can be donated.

        Donated state is in the order in which it is written: JAX gives the buffers of donated
        arguments to results of the same shape in their order, and where a value must go into
        another value's buffer, XLA copies it. Each step also computes the results of `@prepare`,
        unless that is done `apart`.
        """
        from graphopt.ir.dialect.signature import (
            FEED,
            FETCH,
            PREPARED,
            STATE,
            inputs_of,
            signature_of,
        )

        signature = signature_of(module)
        writes = dict.fromkeys(signature.writes)
        arguments = signature.arguments if apart else inputs_of(module)
        reads = {port.name: port for port in arguments if port.kind == STATE}
        return cls(
            updated=tuple(reads[name] for name in writes if name in reads),
            read_only=tuple(port for name, port in reads.items() if name not in writes),
            feeds=tuple(port for port in signature.arguments if port.kind == FEED),
            fetches=tuple(port for port in signature.results if port.kind == FETCH),
            written=tuple(port for port in signature.results if port.kind == STATE),
            steps=steps,
            stacked=stacked,
            prepared=tuple(port for port in arguments if port.kind == PREPARED),
        )

    def feeds_of(self, feeds: Arrays, step: Any) -> Arrays:
        """Select the feeds of one step from the feeds of a call."""
        import jax

        return tuple(
            jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, step, 1, keepdims=False), feed)
            if port.name in self.stacked
            else feed
            for port, feed in zip(self.feeds, feeds, strict=True)
        )


@dataclass(frozen=True)
class Replicated:
    """A step on devices, and the placement of its state.

    `make` builds its function, of the `Replica` form and jitted unless it runs op by op. `name` is
    the mapper's, and `why` the reason for it; both are for reports. `place` gives the sharding of a
    state port. Functions with the same `home` can pass state to each other without moving it. With
    several `groups` of replicas each group holds all parts of partitioned state. A step that
    `donates` takes the buffers of the state that it updates. Fetches have a leading axis only if
    the step is `mapped`.
    """

    name: str
    make: Callable[[], Any]
    replicas: int
    place: Callable[[Port], Any]
    home: Hashable
    groups: int = 1
    donates: bool = False
    mapped: bool = True
    why: str = ""

    @cached_property
    def function(self) -> Any:
        """The function, built when it is first needed: a known program is not traced."""
        return self.make()

    def type_of(self, port: Port) -> Any:
        """Return the type of a state array whose sizes the program declares."""
        import jax

        shape = port.shape if port.cut is None else port.whole
        return jax.ShapeDtypeStruct(shape, port.dtype.numpy, sharding=self.place(port))

    def rows(self, port: Port) -> int:
        """Return the length of the leading axis of a state array, 0 without one."""
        if not port.per_replica:
            return 0
        return self.replicas if port.shard_of is None else self.replicas // self.groups


# cached by group of devices, since state on a group must find the same identity again
@cache
def home_at(*devices: tuple[str, int]) -> Hashable:
    """Return the identity of a group of devices, by platforms and ids; compare it with `is`."""
    return object()


def home_of(*devices: Any) -> Hashable:
    """Return the identity of a group of JAX devices."""
    return home_at(*((device.platform, device.id) for device in devices))


def put(value: Any, sharding: Any) -> Any:
    """Place an array with this sharding; each process creates its own part."""
    import jax

    if sharding.is_fully_addressable:
        return jax.device_put(value, sharding)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])
