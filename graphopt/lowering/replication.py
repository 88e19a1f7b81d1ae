"""Mappers of one replica's function over several replicas.

Four mappers, one contract: `feeds` hold all replicas' rows, replicated state has one value,
per-replica state (state in parts, too) and every fetch have a leading axis of length D (the number
of replicas). State that is cut for a model axis is whole in the arrays of a call; `shard_map` and
`vmap` cut it along its axis.

* `alone`: one replica, no mapped axis and no leading axes. `by_op` is its form for programs whose
  sizes depend on data, which XLA cannot compile as a whole.
* `shard_map`: one device per replica, `jax.jit(jax.shard_map(...))`.
* `pmap`: the same through `jax.pmap`, on request. Since JAX 0.10 that is itself a jitted
  `shard_map`, and XLA gets the same collectives.
* `vmap`: D exact replicas on one device, for when there are fewer devices than places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from xdsl.dialects.builtin import ModuleOp

import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
from graphopt.ir.dialect.signature import FETCH, Port, signature_of
from graphopt.lowering.call import Array
from graphopt.lowering.collectives import ALONE, AXIS, GROUPS, MODEL, Replicas
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.lowering.plan import Plan, Replicated, home_of

Arrays = tuple[Array, ...]
T = TypeVar("T")
# (updated state, read-only state, feeds, key data) -> (fetches, new state)
Replica = Callable[[Arrays, Arrays, Arrays, Array], tuple[Arrays, Arrays]]


def fetched_and_written(
    ports: Sequence[Port], results: Sequence[T]
) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Separate a module's results, by their `ports`, into fetches and new state."""
    pairs = [(port.kind == FETCH, result) for port, result in zip(ports, results, strict=True)]
    fetches = tuple([result for is_fetch, result in pairs if is_fetch])
    return fetches, tuple([result for is_fetch, result in pairs if not is_fetch])


def replica_function(
    module: ModuleOp, plan: Plan, replicas: Replicas, *, by_op: bool = False
) -> Replica:
    """Build the function of one replica, of arrays in plan order."""
    shared: dict[Any, Any] = {}
    returned = signature_of(module).results
    taken = (*plan.updated, *plan.read_only, *plan.prepared, *plan.feeds)
    names = [(port.kind, port.name) for port in taken]
    numbers = [not port.type.get_shape() for port in plan.feeds]

    def replica(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        # feeds of rank 0 hold one number for each replica
        blocks = [
            feed.reshape(()) if is_number else feed
            for is_number, feed in zip(numbers, feeds, strict=True)
        ]
        arrays = zip((*updated, *read_only, *blocks))
        inputs = dict(zip(names, arrays, strict=True))
        context = Context(replicas, key, by_op=by_op, shared=shared)
        results = [lane for (lane,) in evaluate(module, inputs, context)]
        return fetched_and_written(returned, results)

    return replica if by_op else repeat_steps(replica, plan)


def repeat_steps(step: Replica, plan: Plan) -> Replica:
    """Run `plan.steps` steps in one call, each with the next run's key; return the last results."""
    if plan.steps == 1:
        return step
    position = {port.name: index for index, port in enumerate(plan.written)}
    kept = [position[port.name] for port in plan.updated]

    def steps(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        def advance(number: Array, state: Arrays) -> Arrays:
            batch = plan.feeds_of(feeds, number)
            _, written = step(state, read_only, batch, _later(key, number))
            return tuple(written[index] for index in kept)

        last = plan.steps - 1
        state = jax.lax.fori_loop(0, last, advance, updated)
        return step(state, read_only, plan.feeds_of(feeds, last), _later(key, last))

    return steps


def _later(key: Array, runs: Any) -> Array:
    """Compute the key data of a later run: the generator counts runs in the second word."""
    return jnp.asarray(key).at[1].add(jnp.asarray(runs, "uint32"))


def alone(module: ModuleOp, plan: Plan, device: Any, *, donate: bool) -> Replicated:
    """Build the function of one replica on one device; nothing has a leading axis."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    function = jax.jit(
        replica_function(module, plan, ALONE),
        donate_argnums=(0,) if donate else (),
        out_shardings=sharding,
    )
    home = home_of(device)
    return Replicated(
        "alone", lambda: function, 1, lambda _: sharding, home, donates=donate, mapped=False
    )


def by_op(module: ModuleOp, plan: Plan, device: Any) -> Replicated:
    """Build `alone` such that XLA compiles each op by itself: sizes may depend on data."""
    replica = replica_function(module, plan, ALONE, by_op=True)
    position = {port.name: index for index, port in enumerate(plan.written)}
    kept = [position[port.name] for port in plan.updated]

    def function(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        with jax.default_device(device):
            for number in range(plan.steps - 1):
                batch = plan.feeds_of(feeds, number)
                _, written = replica(updated, read_only, batch, _later(key, number))
                updated = tuple(written[index] for index in kept)
            last = plan.steps - 1
            # op by op the sum takes three calls of JAX, and most programs have one step
            last_key = _later(key, last) if last else key
            results = replica(updated, read_only, plan.feeds_of(feeds, last), last_key)
        # Commit the results to the device, like the state from compiled steps. Otherwise the second
        # call would be of another kind than the first, and JAX would dispatch it in Python again.
        return jax.device_put(results, sharding)

    sharding = jax.sharding.SingleDeviceSharding(device)
    return Replicated(
        "by_op", lambda: function, 1, lambda _: sharding, home_of(device), mapped=False
    )


def _local(plan: Plan, replica: Replica, *, block: bool) -> Replica:
    """Wrap `replica` for this device's blocks, as the SPMD mappers pass them.

    With `block` (shard_map) per-replica state has a leading axis of 1 here and feeds are a block of
    rows; without it (pmap) that axis is gone already.
    """

    def squeeze(ports: Sequence[Port], arrays: Arrays) -> Arrays:
        if not block:
            return arrays
        return tuple(a[0] if p.per_replica else a for p, a in zip(ports, arrays, strict=True))

    def unsqueeze(array: Array) -> Array:
        return array[None] if block else array

    def local(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        fetches, written = replica(
            squeeze(plan.updated, updated),
            squeeze(plan.read_only, read_only),
            feeds,
            key,
        )
        return (
            tuple(unsqueeze(array) for array in fetches),
            tuple(
                unsqueeze(array) if port.per_replica else array
                for port, array in zip(plan.written, written, strict=True)
            ),
        )

    return local


def mesh_of(devices: Sequence[Any], groups: int = 1, model: int = 1) -> Mesh:
    """Build the mesh of these devices: replicas of `model` devices, equally many in each group."""
    if model > 1:
        grid = np.array(devices).reshape(-1, model)
        return Mesh(grid, (AXIS, MODEL), axis_types=(AxisType.Auto,) * 2)
    if groups == 1:
        return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))
    grid = np.array(devices).reshape(groups, -1)
    return Mesh(grid, (GROUPS, AXIS), axis_types=(AxisType.Auto,) * 2)


def cut(mesh: Mesh) -> P:
    """Build the spec of a leading axis with an item for each replica."""
    return P(tuple(name for name in mesh.axis_names if name != MODEL))


def _specs(plan: Plan, mesh: Mesh) -> tuple[Any, Any]:
    """Build the partition specs of the arguments and results of a call."""
    arguments = (
        tuple(_spec(port, mesh) for port in plan.updated),
        tuple(_spec(port, mesh) for port in plan.read_only),
        tuple(cut(mesh) for _ in plan.feeds),
        P(),
    )
    return arguments, (
        tuple(cut(mesh) for _ in plan.fetches),
        tuple(_spec(port, mesh) for port in plan.written),
    )


def _spec(port: Port, mesh: Mesh) -> P:
    if port.cut is not None:
        return P(*[None] * port.cut, MODEL)
    if not port.per_replica:
        return P()
    return cut(mesh) if port.shard_of is None else P(AXIS)


def _over_devices(
    name: str, mapped: Replica, plan: Plan, mesh: Mesh, groups: int, *, donate: bool
) -> Replicated:
    """Jit a function of all replicas' arrays for the devices of this mesh."""
    devices = list(mesh.devices.flat)
    arguments, results = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec),
        _specs(plan, mesh),
        is_leaf=lambda spec: isinstance(spec, P),
    )
    function = jax.jit(
        mapped,
        in_shardings=arguments,
        out_shardings=results,
        donate_argnums=(0,) if donate else (),
    )
    return Replicated(
        name,
        lambda: function,
        len(devices) // mesh.shape.get(MODEL, 1),
        lambda port: NamedSharding(mesh, _spec(port, mesh)),
        home_of(*devices),
        groups,
        donate,
    )


def shard_map(
    module: ModuleOp,
    plan: Plan,
    devices: Sequence[Any],
    *,
    donate: bool,
    groups: int = 1,
    model: int = 1,
) -> Replicated:
    """Map replicas over devices, each on `model` devices, in groups; collectives are XLA's."""
    mesh = mesh_of(devices, groups, model)
    local = _local(plan, replica_function(module, plan, _among(devices, groups, model)), block=True)
    arguments, results = _specs(plan, mesh)
    mapped = jax.shard_map(local, mesh=mesh, in_specs=arguments, out_specs=results, check_vma=False)
    return _over_devices("shard_map", mapped, plan, mesh, groups, donate=donate)


def _among(devices: Sequence[Any], groups: int, model: int) -> Replicas:
    """Describe the replicas on these devices.

    A single replica of several devices has no axis, so that it draws the numbers of one alone.
    """
    count = len(devices) // model
    return Replicas(None if model > 1 and count == 1 else AXIS, count, groups, model)


def pmap(module: ModuleOp, plan: Plan, devices: Sequence[Any], *, donate: bool) -> Replicated:
    """Map replicas as `shard_map`, by `jax.pmap`.

    The jit around it takes feeds with all rows in one axis, and gives pmap the blocks of replicas.
    """
    count = len(devices)
    local = _local(plan, replica_function(module, plan, Replicas(AXIS, count)), block=False)
    arguments, results = _axes(plan)
    mapped = jax.pmap(
        local, axis_name=AXIS, in_axes=arguments, out_axes=results, devices=list(devices)
    )

    def run(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        return mapped(updated, read_only, _stack_feeds(feeds, count), key)

    return _over_devices("pmap", run, plan, mesh_of(devices), 1, donate=donate)


def _axes(plan: Plan) -> tuple[Any, Any]:
    """List the axes of a call's arguments and results that pmap and vmap map over."""

    def axes(ports: Sequence[Port]) -> tuple[int | None, ...]:
        return tuple(0 if port.per_replica else None for port in ports)

    arguments = axes(plan.updated), axes(plan.read_only), tuple(0 for _ in plan.feeds), None
    return arguments, (tuple(0 for _ in plan.fetches), axes(plan.written))


def vmap(
    module: ModuleOp, plan: Plan, device: Any, count: int, *, donate: bool, model: int = 1
) -> Replicated:
    """Map `count` replicas on one device; the collectives act on the batched axes."""
    replicas = Replicas(None if model > 1 and count == 1 else AXIS, count, model=model)
    local = _local(plan, replica_function(module, plan, replicas), block=False)
    sharding = jax.sharding.SingleDeviceSharding(device)
    if model > 1:
        local = _pieces_mapped(plan, local, model)

    arguments, results = _axes(plan)
    mapped = jax.vmap(local, in_axes=arguments, out_axes=results, axis_name=AXIS, axis_size=count)

    def run(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        if replicas.axis is None:  # no values are summed over replicas
            fetches, written = local(updated, read_only, feeds, key)
            return tuple(fetch[None] for fetch in fetches), written
        return mapped(updated, read_only, _stack_feeds(feeds, count), key)

    function = jax.jit(run, donate_argnums=(0,) if donate else (), out_shardings=sharding)
    return Replicated(
        "vmap", lambda: function, count, lambda _: sharding, home_of(device), donates=donate
    )


def _pieces_mapped(plan: Plan, local: Replica, model: int) -> Replica:
    """Map one replica over its `model` devices; pieces get a leading axis inside."""

    def axes(ports: Sequence[Port]) -> tuple[int | None, ...]:
        return tuple(None if port.cut is None else 0 for port in ports)

    arguments = axes(plan.updated), axes(plan.read_only), None, None
    # whole values come from the first device
    first = tuple(0 for _ in plan.fetches), tuple(0 for _ in plan.written)
    mapped = jax.vmap(local, in_axes=arguments, out_axes=first, axis_name=MODEL, axis_size=model)

    def pieces(arrays: Arrays, ports: Sequence[Port]) -> Arrays:
        return tuple(
            array if port.cut is None else jnp.stack(jnp.split(array, model, port.cut))
            for array, port in zip(arrays, ports, strict=True)
        )

    def replica(updated: Arrays, read_only: Arrays, feeds: Arrays, key: Array) -> Any:
        state = pieces(updated, plan.updated), pieces(read_only, plan.read_only)
        fetches, written = mapped(state[0], state[1], feeds, key)
        return tuple(fetch[0] for fetch in fetches), tuple(
            array[0] if port.cut is None else jnp.concatenate(list(array), port.cut)
            for array, port in zip(written, plan.written, strict=True)
        )

    return replica


def _stack_feeds(feeds: Arrays, count: int) -> Arrays:
    """Split feeds of D * b rows into D blocks of b rows."""
    return tuple(feed.reshape((count, feed.shape[0] // count, *feed.shape[1:])) for feed in feeds)
