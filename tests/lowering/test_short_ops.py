"""Short ops give the same bits without functions of their own in a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.ops.update.basic import Sgd
from graphopt.lowering.call import Call, pullback
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context
from graphopt_tests.op_calls import build, flat
from graphopt_tests.ops.base import Sample
from graphopt_tests.sample_modules import modules_in

Array = np.ndarray[Any, Any]
SPECIAL = (np.nan, -0.0, np.inf, -np.inf, 0.0, 1e-42, 3e38, 1.0)


def _short_ops() -> Iterator[type[PdOp]]:
    for module in modules_in("ops").values():
        for op_class in getattr(module, "SAMPLES", {}):
            if Call(op_class, (), (), ALONE).is_short:
                yield op_class


def _samples(op_class: type[PdOp]) -> list[Sample]:
    modules = modules_in("ops").values()
    return [s for module in modules for s in getattr(module, "SAMPLES", {}).get(op_class, ())]


def _special(array: Array) -> Array:
    """Put special numbers in the first places of an array."""
    if not np.issubdtype(array.dtype, np.inexact):
        return array
    found = array.copy().reshape(-1)
    with np.errstate(over="ignore"):
        found[: len(SPECIAL)] = np.asarray(SPECIAL[: found.size]).astype(array.dtype)
    return found.reshape(array.shape)


def _bits(results: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    arrays = [np.asarray(each) for each in jax.tree.leaves(results)]
    return [(array.dtype.name, array.shape, array.tobytes()) for array in arrays]


@pytest.mark.parametrize("op_class", [Scale, Sgd], ids=lambda each: each.name)
def test_two_keep_their_bits(op_class: type[PdOp]) -> None:
    """The first sample of each op keeps its bits."""
    _check(op_class, _samples(op_class)[:1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_class", [*_short_ops()], ids=lambda each: each.name)
def test_short_ops_keep_their_bits(op_class: type[PdOp]) -> None:
    """Every sample of all short ops keeps its bits."""
    _check(op_class, _samples(op_class))


def _check(op_class: type[PdOp], samples: Sequence[Sample]) -> None:
    """Compare results and derivatives, also of NaN and infinities; check that no rule loops."""
    for case in samples:
        op = build(op_class, case)[1]
        call = Call.of(op, ALONE)
        (key,) = Context(ALONE, jax.random.key_data(jax.random.key(5))).keys_for(op)
        if not call.is_memoized:
            continue
        with jax.enable_x64(True):
            for operands in (flat(case), [_special(array) for array in flat(case)]):
                lanes = [[jax.numpy.asarray(array) for array in operands]]
                plain = jax.jit(call.on_lanes)
                # a loop of fixed length would be written out
                assert "scan[" not in str(plain.trace(lanes, [key]).jaxpr)
                (results,) = plain(lanes, [key])
                assert _bits(call.jit(call.on_lanes)(lanes, [key])) == _bits(results)
                ins = tuple(_differentiable(lanes[0]))
                outs = tuple(_differentiable(results))
                if ins and outs:
                    back = pullback(call, ins, outs)
                    given = lanes, [key], [[results[at] for at in outs]]
                    assert _bits(call.jit(back)(*given)) == _bits(jax.jit(back)(*given))


def _differentiable(arrays: Any) -> Iterator[int]:
    kinds = ((at, array.dtype) for at, array in enumerate(arrays))
    return (at for at, dtype in kinds if jax.numpy.issubdtype(dtype, jax.numpy.floating))
