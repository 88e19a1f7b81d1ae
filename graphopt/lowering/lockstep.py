"""Replicas with different numbers of rows, which no SPMD program can express, in lockstep.

One program evaluates every op for all replicas before the next op and combines them at the
collectives, so each replica sees exactly its own rows. It runs on one device.
"""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.signature import FEED, STATE, signature_of
from graphopt.lowering.call import Array, Lanes
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.lowering.plan import Plan, Replicated, home_of
from graphopt.lowering.replication import Arrays, fetched_and_written, repeat_steps


def lockstep(module: ModuleOp, plan: Plan, device: Any, count: int) -> Replicated:
    """Build the function that runs `count` replicas on one device.

    Each feed is a list of arrays, one for each replica, and so is each fetch.
    """
    sharding = jax.sharding.SingleDeviceSharding(device)
    returned = signature_of(module).results

    def run(updated: Arrays, read_only: Arrays, feeds: tuple[list[Array], ...], key: Array) -> Any:
        inputs: dict[tuple[str, str], Lanes] = {}
        state = zip((*plan.updated, *plan.read_only), (*updated, *read_only), strict=True)
        for port, array in state:
            lanes = tuple(array) if port.per_replica else (array,) * count
            inputs[STATE, port.name] = lanes
        for port, parts in zip(plan.feeds, feeds, strict=True):
            scalar = not port.type.get_shape()
            inputs[FEED, port.name] = tuple(p.reshape(()) if scalar else p for p in parts)
        results = evaluate(module, inputs, Context(ALONE, key, lanes=count))
        fetches, written = fetched_and_written(returned, results)
        return tuple(list(lanes) for lanes in fetches), tuple(
            jnp.stack(lanes) if port.per_replica else lanes[0]
            for port, lanes in zip(plan.written, written, strict=True)
        )

    function = jax.jit(repeat_steps(run, plan), out_shardings=sharding)
    return Replicated("lockstep", lambda: function, count, lambda _: sharding, home_of(device))
