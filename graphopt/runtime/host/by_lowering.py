"""Ops of the host form that NumPy does not compute: each is computed alone, by its lowering.

These are ops without a reference rule, and random ops except the most common (`draws`), so that a
step draws the same numbers as its other forms. XLA compiles such an op once for its shapes,
whatever ops surround it; an op whose sizes depend on data is NumPy in its lowering, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import Collective
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.reference.interpreter import is_random, supports
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.host.draws import is_drawn
from graphopt.runtime.state.arrays import HostArray


def compute_by_lowering(
    op: Operation,
    operands: Mapping[SSAValue, HostArray],
    place: Place,
    step_key: HostArray,
    iterations: Sequence[int],
    rng_shift: int,
) -> list[HostArray]:
    """Compute an op on the device of a place, in these iterations of the surrounding loops.

    `step_key` is the random key of the run.
    """
    device = device_of(place)
    import jax

    from graphopt.lowering.collectives import ALONE
    from graphopt.lowering.evaluate import Context, evaluate_op

    env: dict[Any, Any] = {value: (array,) for value, array in operands.items()}
    with jax.enable_x64(True), jax.default_device(device):
        key = jax.random.wrap_key_data(jax.numpy.asarray(step_key))
        for number in iterations:
            key = jax.random.fold_in(key, number)
        words = jax.random.key_data(key)
        context = Context(ALONE, words, by_op=True, rng_shift=rng_shift)
        evaluate_op(op, env, context)
    return [np.asarray(env[result][0]) for result in op.results]


def import_lowering(place: Place) -> None:
    """Import the lowering ahead of a run: few programs need it, and it takes a while."""
    device_of(place)
    import graphopt.lowering.evaluate
    import graphopt.lowering.rules  # noqa: F401  (every op can be computed)


def is_lowered(op: Operation) -> bool:
    """Return whether the host form computes an op by its lowering."""
    own = isinstance(op, PdOp) and not isinstance(op, (Collective, Grad, RegionOp))
    return own and (is_random(op) or not supports(op)) and not is_drawn(op)
