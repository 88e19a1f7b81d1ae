"""Random ops of the host form: XLA computes each of them alone.

So a step draws the numbers that its other forms draw. A draw is compiled once for its shape,
whatever is around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.reference.interpreter import is_random
from graphopt.runtime.state.arrays import HostArray


@dataclass(frozen=True)
class Draws:
    """Draws of the random ops of one run, by its random key on its device.

    `hashes` is true when dropouts draw by hashing a counter.
    """

    key: HostArray
    device: Any
    hashes: bool

    def __call__(
        self,
        op: Operation,
        operands: Mapping[SSAValue, HostArray],
        iterations: Sequence[int],
        rng_shift: int,
    ) -> list[HostArray]:
        """The results of an op in these iterations of the loops around it."""
        # few programs draw, and the lowering takes a while to import
        from graphopt.lowering.collectives import ALONE
        from graphopt.lowering.evaluate import Context, evaluate_op

        env: dict[Any, Any] = {value: (array,) for value, array in operands.items()}
        with jax.default_device(self.device):
            key = jax.random.wrap_key_data(jax.numpy.asarray(self.key))
            for number in iterations:
                key = jax.random.fold_in(key, number)
            words = jax.random.key_data(key)
            context = Context(ALONE, words, by_op=True, hashes=self.hashes, rng_shift=rng_shift)
            evaluate_op(op, env, context)
        return [np.asarray(env[result][0]) for result in op.results]


def is_drawn(op: Operation) -> bool:
    """True for an op whose results are random numbers, or depend on some."""
    return is_random(op) or (isinstance(op, Dynamic) and bool(draws(op)))
