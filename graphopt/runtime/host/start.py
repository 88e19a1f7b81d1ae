"""A startup program in NumPy: constants, and the random numbers that XLA would draw.

XLA would compile a program for each kind of draw, and JAX would have to be imported first.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import Operation

from graphopt.ir.dialect.families import family_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import shape_of
from graphopt.lowering.denormals import flushed_denormals
from graphopt.reference.registry import RULES
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.host.body import NATIVE, Body, Running, Slots
from graphopt.runtime.host.draws import is_drawn
from graphopt.runtime.state.arrays import Arrays, FedArrays, HostArray, Results, Step

MOST_NUMBERS = 32_000_000
"""More random numbers take NumPy longer, at 15 ns each, than XLA takes to compile generators."""


def start_step(compiled: Compiled) -> Step:
    """Build the step of a startup program, which writes state and has no arguments."""
    block = main_function(compiled.module).body.block
    slots: Slots = {}
    body, place = Body(block, slots), compiled.compilation.places[0]
    assert block.last_op is not None
    returned = block.last_op.operands

    def step(updated: Arrays, read_only: Arrays, fed: FedArrays, key: HostArray) -> Results:
        running = Running([None] * len(slots), math.inf, key, place)
        with np.errstate(all="ignore"), flushed_denormals():
            values = body.run(running)
        pairs = zip(returned, values, strict=True)
        return (), tuple(np.array(NATIVE.left(*pair), order="C") for pair in pairs)

    return step


def has_start_step(compiled: Compiled) -> bool:
    """Return whether NumPy computes a startup program quickly and exactly, without JAX."""
    if not compiled.is_startup or compiled.calls_python:
        return False
    *ops, _ = main_function(compiled.module).body.block.ops
    numbers = 0
    for op in ops:
        if is_drawn(op):
            numbers += math.prod(shape_of(op.results[0].type))
        elif not _is_exact(op):
            return False
    return numbers <= MOST_NUMBERS


def _is_exact(op: Operation) -> bool:
    """Return whether every implementation of an op gives the same numbers."""
    if not isinstance(op, PdOp) or type(op) not in RULES:
        return False
    return family_of(type(op)) == "creation" or isinstance(op, Cast) or op.has_trait(Movement)
