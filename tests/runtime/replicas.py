"""Random modules on several replicas: through the data-parallel passes and any mapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import random_inputs
from graphopt.ir.dialect.signature import FEED, Port, signature_of
from graphopt.lowering import replication
from graphopt.lowering.lockstep import lockstep
from graphopt.lowering.plan import Plan, Replicated
from graphopt.passes.table.manager import optimize
from graphopt.runtime.state.slots import in_parts, joined_parts
from graphopt_tests.runtime.nets import strategy

Arrays = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[ModuleOp, Plan, int], Replicated]
KEY = np.array([7, 1], np.uint32)


def devices(count: int) -> list[Any]:
    return jax.devices("cpu")[:count]


MAPPERS: dict[str, Run] = {
    "shard_map": lambda m, p, n: replication.shard_map(m, p, devices(n), donate=False),
    "pmap": lambda m, p, n: replication.pmap(m, p, devices(n), donate=False),
    "vmap": lambda m, p, n: replication.vmap(m, p, devices(1)[0], n, donate=False),
    "lockstep": lambda m, p, n: lockstep(m, p, devices(1)[0], n),
}


def parallel(module: ModuleOp, count: int, loss_grad: str = "", **flags: Any) -> ModuleOp:
    """Make a module data-parallel for `count` replicas."""
    changed = module.clone()
    context = strategy(**flags).pass_context(
        replicas=count, data_parallel=True, loss_grad=loss_grad
    )
    optimize(changed, context)
    return changed


def run(
    name: str, module: ModuleOp, inputs: list[Arrays], steps: int = 1, model: int = 1
) -> dict[str, Any]:
    """Run a module on replicas; map kinds and names to results, one for each replica.

    `inputs` are the feeds and per-replica state of each replica; other state is the first's.
    """
    count = len(inputs)
    plan = Plan.of(module, steps)
    if model == 1:
        mapped = MAPPERS[name](module, plan, count)
    elif name == "vmap":
        mapped = replication.vmap(module, plan, devices(1)[0], count, donate=False, model=model)
    else:
        assert name == "shard_map"
        grid = devices(count * model)
        mapped = replication.shard_map(module, plan, grid, donate=False, model=model)

    def array(port: Port) -> Any:
        if port.shard_of is not None and port.cut is None:
            return in_parts(inputs[0][port.name], count)
        if port.per_replica:
            return np.stack([own[port.name] for own in inputs])
        return inputs[0][port.name]

    def state(ports: Any) -> tuple[Any, ...]:
        return tuple(map(array, ports))

    feeds: list[Any] = []
    for port in plan.feeds:
        parts = [np.atleast_1d(i[port.name]) for i in inputs]
        feeds.append(parts if name == "lockstep" else np.concatenate(parts))
    with jax.enable_x64(True):
        fetches, written = mapped.function(
            state(plan.updated), state(plan.read_only), tuple(feeds), KEY
        )
    found = {
        f"{p.kind} {p.name}": list(map(np.array, a))
        for p, a in zip(plan.fetches, fetches, strict=True)
    }
    for port, array in zip(plan.written, written, strict=True):
        array = np.array(array)
        if port.whole is not None and port.cut is None:
            array = joined_parts(array, port.whole)
        each = port.per_replica and port.whole is None
        found[f"{port.kind} {port.name}"] = list(array) if each else [array] * count
    return found


def agree(found: dict[str, Any], wanted: dict[str, Any], who: str, tolerance: float = 1e-5) -> None:
    """Raise AssertionError, naming the result, unless all replicas' numbers are nearly equal."""
    assert found.keys() == wanted.keys()
    for name, arrays in wanted.items():
        for index, (new, old) in enumerate(zip(found[name], arrays, strict=True)):
            assert new.shape == old.shape and new.dtype == old.dtype, (who, name)
            scale = max(float(np.abs(old).max(initial=0.0)), 1.0)
            error = f"{who}: {name} of replica {index}"
            np.testing.assert_allclose(new, old, tolerance, tolerance * scale, err_msg=error)


def inputs_of(module: ModuleOp, count: int) -> list[Arrays]:
    """Draw feeds for each replica, and state that all replicas share."""
    everything = [random_inputs(module, seed) for seed in range(count)]
    feeds = {port.name for port in signature_of(module).arguments if port.kind == FEED}
    first = everything[0]
    return [{n: own[n] if n in feeds else first[n] for n in first} for own in everything]
