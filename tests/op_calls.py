"""Helpers that build and compute one op, from a sample or from operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
from xdsl.ir import Block

import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.types import Tensor, tensor
from graphopt.lowering.call import Call
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.evaluate import Context
from graphopt_tests.ops.base import Array, Sample, sample


def groups_of(case: Sample) -> list[list[Array]]:
    """Return the operands of each field of a sample as a list."""
    return [
        [] if operand is None else operand if isinstance(operand, list) else [operand]
        for operand in case.operands
    ]


def flat(case: Sample) -> list[Array]:
    """Return all operands in order."""
    return [array for group in groups_of(case) for array in group]


def type_of(array: Any) -> Tensor:
    """Return the tensor type of an array."""
    return tensor(array.shape, array.dtype)


def build(op_class: type[PdOp], case: Sample) -> tuple[Block, PdOp]:
    """Build a block whose arguments are the sample's operands and whose last op is the op."""
    block = Block(arg_types=[type_of(array) for array in flat(case)])
    arguments = iter(block.args)
    operands = [
        operand if operand is None else [next(arguments) for _ in group]
        for operand, group in zip(case.operands, groups_of(case), strict=True)
    ]
    op = op_class.make(*operands, **case.attrs)
    block.add_op(op)
    return block, op


@cache
def built(op_class: type[PdOp], case: Sample) -> PdOp:
    """Return the op of a sample, to look at only: it is cached."""
    return build(op_class, case)[1]


def rule_of(
    op_class: type[PdOp], case: Sample, replicas: Replicas = ALONE, seed: int = 5
) -> Callable[..., tuple[Any, ...]]:
    """Return the op's lowering as a function of its flat operands."""
    op = build(op_class, case)[1]
    call = Call.of(op, replicas)

    def rule(*operands: Any) -> tuple[Any, ...]:
        (key,) = Context(ALONE, jax.random.key_data(jax.random.key(seed))).keys_for(op)
        return call(operands, key)

    return rule


def compute(op_class: type[PdOp], *operands: Any, **attrs: Any) -> Any:
    """Compute the op for arrays or tracers; return its result, or a tuple of its results."""
    case = sample(*operands, **attrs)
    results = rule_of(op_class, case)(*flat(case))
    return results[0] if len(results) == 1 else results
