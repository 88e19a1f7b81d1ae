"""FLAGS_check_nan_inf: the ops of a step that made NaN or infinities, noted while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.signature import FEED, function_signature

Order = Mapping[Operation, int]
"""The number of each op of a module, in program order."""


@dataclass(frozen=True)
class WatchedValue:
    """A feed, or a result of an op, which `order` numbers in the order of the program."""

    order: tuple[int, int]
    operator: str
    """The op's name; empty for a feed."""
    name: str
    """The name of a feed, or a result's name in the IR."""
    location: Any = None


@dataclass(frozen=True)
class NotFinite:
    """A value with NaN or infinities."""

    value: WatchedValue
    nans: int
    infinities: int
    size: int


class _Notes:
    """Non-finite values noted since the last call of `take`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all notes."""
        self.found: set[NotFinite] = set()
        self.blocks: set[int] = set()
        self.is_over = False

    def add(self, found: Sequence[NotFinite], block: int, *, alone: bool) -> None:
        """Note the non-finite values of a block's first run.

        Non-finite values of later iterations and steps follow from the first ones. Replicas run a
        block side by side.
        """
        if alone and (self.is_over or block in self.blocks):
            return
        self.found.update(found)
        self.blocks.add(block)
        self.is_over = block == MAIN


MAIN = 0
_notes = _Notes()


def order_of(module: ModuleOp) -> Order:
    """Number the ops of a module, those in regions before the op that holds them."""
    return {op: number for number, op in enumerate(module.walk(region_first=True), 1)}


def watch_block(
    block: Block, env: Mapping[SSAValue, Sequence[Any]], order: Order, *, alone: bool
) -> None:
    """Note non-finite values after a block has run: results of its ops, and feeds.

    `alone` says that no other replica runs the block as well.
    """
    parent = block.parent_op()
    values = [
        (_describe_value(op, number, order[op]), env[result])
        for op in block.ops
        for number, result in enumerate(op.results)
        if result in env
    ]
    if isinstance(parent, FuncOp):
        ports = enumerate(function_signature(parent).arguments)
        values += [
            (WatchedValue((0, number), "", port.name), env[block.args[number]])
            for number, port in ports
            if port.kind == FEED
        ]
    first = block.first_op
    number = MAIN if first is None or isinstance(parent, FuncOp) else order[first]
    _watch(values, number, alone=alone)


def _describe_value(op: Operation, number: int, order: int) -> WatchedValue:
    name = op.results[number].name_hint or ""
    location = getattr(op, "location", None)
    return WatchedValue((order, number), op.name.removeprefix("pd."), name, location)


def _watch(
    values: Iterable[tuple[WatchedValue, Sequence[Any]]], block: int, *, alone: bool
) -> None:
    described: list[tuple[WatchedValue, int]] = []
    counts: list[Any] = []
    for value, lanes in values:
        for array in lanes:
            if hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.inexact):
                described.append((value, array.size))
                counts.append(jnp.stack([jnp.isnan(array).sum(), jnp.isinf(array).sum()]))
    if counts:
        note = partial(_note, described, block, alone=alone)
        jax.debug.callback(note, jnp.stack(counts))


def _note(
    described: Sequence[tuple[WatchedValue, int]], block: int, counts: Any, *, alone: bool
) -> None:
    found = [
        NotFinite(value, int(nans), int(infinities), size)
        for (value, size), (nans, infinities) in zip(described, np.asarray(counts), strict=True)
        if nans or infinities
    ]
    if found:
        _notes.add(found, block, alone=alone)


def take(results: Any) -> list[NotFinite]:
    """Wait for a step and take its non-finite values, in the order of the program."""
    jax.block_until_ready(results)
    jax.effects_barrier()
    found = sorted(_notes.found, key=lambda wrong: wrong.value.order)
    _notes.clear()
    return found
