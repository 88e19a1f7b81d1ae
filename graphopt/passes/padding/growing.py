"""Caches of decoders: feeds to which a step joins rows, and which are fed back with these rows.

`concat(past, new)` has another size in each step, and XLA compiles each size. Where the other rules
prove that rows beyond the data do not count, `past` may be a buffer that has room for them, fed
with its number of rows: then the concat writes the new rows after these. A buffer that is only
written after its rows is state of the step, so that nothing else of it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import dce

from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import WriteRows
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.ops.shape import Assign, Concat
from graphopt.ir.dialect.signature import FEED, FETCH, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import edit_signature, port_attributes
from graphopt.ir.dialect.sums import Amount, Size, SymbolicSum
from graphopt.ir.dialect.types import (
    UNKNOWN,
    dtype_of,
    like,
    normalize_axis,
    rank_of,
    shape_of,
)
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, Grown
from graphopt.passes.padding.mask import mask_padding
from graphopt.passes.padding.masked import PAST, FedCache, Masked, buffer_name
from graphopt.passes.padding.positions import SizeLimit, settle_positions
from graphopt.passes.padding.rules import MeetsOther


@dataclass(frozen=True)
class KeepCaches(RewritePass):
    """Replace feeds that are fetched with rows joined to them by buffers that the step writes."""

    name = "keep-caches"
    numerics = Numerics.REASSOCIATING
    changes_signature: ClassVar[bool] = True

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        joins = [op for op in module.walk() if isinstance(op, Concat)]
        try:
            caches = keep_caches(module.clone()).caches
        except NoCache:
            return []
        except CannotPad as error:
            log.declined(joins[0], error.reason)
            return log.outcomes
        if log.allow(joins[0]):
            log.applied(*joins[:1], note=", ".join(cache.feed for cache in caches))
            keep_caches(module)
        return log.outcomes


class NoCache(CannotPad):
    """A program without a feed that grows: there is nothing to keep, and nothing to report."""

    def __init__(self) -> None:
        super().__init__("no-cache", "no fetch is a feed with rows joined to it")


def keep_caches(module: ModuleOp) -> Masked:
    """Rewrite `@main` in place for caches that are buffers; all other sizes should be known.

    Raise NoCache for a program without caches, and CannotPad, with the op and a named reason, when
    some op cannot handle spare rows; the module then still computes the same results.
    """
    limits = settle_positions(module)
    dce(module)
    _refine_types(module)
    caches = find_caches(module)
    if not caches:
        raise NoCache
    signature = signature_of(module)
    if any(port.kind == STATE for port in signature.results) or _differentiates(module):
        raise CannotPad("trains", "the program changes state or takes derivatives")
    masked = _add_masks(module, caches)
    _keep_in_place(module, caches)
    counts = masked.masks, masked.counts
    fetches = {
        cache.fetch: tuple(
            (Grown(PAST, cache.by),) if dim is not None else None
            for dim in masked.fetches[cache.fetch]
        )
        for cache in caches
    }
    return Masked(
        *counts,
        {**masked.fetches, **fetches},
        *(masked.extents, masked.equal, tuple(caches), masked.feeds),
        frozenset(_limit(each, masked) for each in limits),
    )


def _limit(limit: SizeLimit, masked: Masked) -> tuple[Grown, int]:
    """Convert a limit to a size and its largest value."""
    axes = masked.feeds.get(limit.feed, ())
    dim = axes[limit.axis] if axes else None
    if dim is None or len(dim) != 1 or not isinstance(dim[0], str | Grown):
        raise CannotPad("other-position", f"a position depends on the size of '{limit.feed}'")
    by = dim[0].by if isinstance(dim[0], Grown) else 0
    return Grown(PAST, by + limit.more), limit.most


def _refine_types(module: ModuleOp) -> None:
    """Infer unknown sizes of results again, from operand types that are now more precise."""
    for op in main_function(module).body.block.ops:
        if not isinstance(op, PdOp) or op.regions or isinstance(op, Dynamic):
            continue
        groups = [[value.type for value in group] for group in op.operand_groups()]
        for value, found in zip(
            op.results, infer_types(type(op), groups, op.attr_values()), strict=True
        ):
            sizes = [
                size if own == UNKNOWN else own
                for own, size in zip(shape_of(value.type), shape_of(found), strict=True)
            ]
            if tuple(sizes) != tuple(shape_of(value.type)):
                hint = value.name_hint
                new = Rewriter.replace_value_with_new_type(value, like(found, shape=sizes))
                new.name_hint = hint


def find_caches(module: ModuleOp) -> list[FedCache]:
    """Find the feeds that are fetched with rows joined to them, along an axis of open size."""
    block, signature = main_function(module).body.block, signature_of(module)
    ports = dict(zip(block.args, signature.arguments, strict=True))
    known, growth = KnownValues(), dict[BlockArgument, tuple[int, int]]()
    for op in block.ops:
        if not isinstance(op, PdOp):
            continue
        known.see(op)
        for feed, axis, by in _growth(op, known):
            if ports[feed].kind == FEED:
                growth.setdefault(feed, (axis, by))
    (end,) = (op for op in block.ops if isinstance(op, ReturnOp))
    fetched = [
        (port.name, value)
        for port, value in zip(signature.results, end.operands, strict=True)
        if port.kind == FETCH
    ]
    caches: list[FedCache] = []
    for feed, (axis, by) in growth.items():
        taken = {cache.fetch for cache in caches}
        own = [
            (_source(value) is not feed, name)
            for name, value in fetched
            if name not in taken and _is_grown(value, feed, axis, by, known)
        ]
        if own:
            copied, fetch = min(own, key=lambda each: each[0])
            caches.append(FedCache(ports[feed].name, fetch, axis, by, not copied))
    return caches


def _growth(op: PdOp, known: KnownValues) -> Iterator[tuple[BlockArgument, int, int]]:
    """Yield the argument, its axis and the row count where a concat joins rows to an open size."""
    if not isinstance(op, Concat):
        return
    at = normalize_axis(op.attr("axis"), rank_of(op.results[0].type))
    sizes = [known.sizes(value)[at] for value in op.operands]
    by = sum(size for size in sizes if isinstance(size, int))
    open_ = [size.only for size in sizes if isinstance(size, SymbolicSum)]
    if len(open_) == 1 and isinstance(open_[0], Size):
        feed = open_[0].value
        if isinstance(feed, BlockArgument):
            yield feed, open_[0].axis, by


def _is_grown(value: SSAValue, feed: BlockArgument, axis: int, by: int, known: KnownValues) -> bool:
    """True for a value with the dtype and sizes of a feed, but `by` more rows along `axis`."""
    if dtype_of(value.type) != dtype_of(feed.type):
        return False
    wanted: list[Amount] = list(known.sizes(feed))
    wanted[axis] = wanted[axis] + by
    return list(known.sizes(value)) == wanted


def _source(value: SSAValue) -> SSAValue | None:
    """Return the tensor to which a concat joins rows to make a value; None for any other value."""
    value = _same(value)
    return _same(value.owner.operands[0]) if isinstance(value.owner, Concat) else None


def _same(value: SSAValue) -> SSAValue:
    """Return the value that this one is a copy of."""
    while isinstance(op := value.owner, Assign | Scale):
        if isinstance(op, Scale) and (op.attr("scale"), op.attr("bias")) != (1.0, 0.0):
            break
        value = op.operands[0]
    return value


def _differentiates(module: ModuleOp) -> bool:
    return any(isinstance(op, Grad) for op in module.walk())


def _add_masks(module: ModuleOp, caches: Sequence[FedCache]) -> Masked:
    """Add masks to the module; axes of feeds that meet axes of caches are padded, too."""
    block, signature = main_function(module).body.block, signature_of(module)
    names = {value: port.name for value, port in zip(block.args, signature.arguments, strict=True)}
    types = {name: value.type for value, name in names.items()}
    axes: dict[str, list[Dim | None]] = {
        name: [None] * rank_of(type_) for name, type_ in types.items()
    }
    for cache in caches:
        axes[cache.feed][cache.axis] = (PAST,)
    known = KnownValues()
    for op in block.ops:
        if isinstance(op, PdOp):
            known.see(op)
    while True:
        feeds: dict[str, Axes] = {name: tuple(each) for name, each in axes.items() if any(each)}
        try:
            masked = mask_padding(module, feeds, are_buffers=True)
        except MeetsOther as error:
            found = _find_fed_size(known.sizes(error.value)[error.at])
            if found is None or axes[names[found[0]]][found[1]] is not None:
                raise
            axes[names[found[0]]][found[1]] = error.dim
        else:
            return Masked(
                *(masked.masks, masked.counts, masked.fetches, masked.extents, masked.equal),
                feeds=feeds,
            )


def _find_fed_size(size: Amount) -> tuple[BlockArgument, int] | None:
    """Find the argument and axis whose size is exactly this amount."""
    only = size.only if isinstance(size, SymbolicSum) else None
    if isinstance(only, Size) and isinstance(only.value, BlockArgument):
        return only.value, only.axis
    return None


def _keep_in_place(module: ModuleOp, caches: Sequence[FedCache]) -> None:
    """Make state of the caches that are only written after their rows."""
    function, signature = main_function(module), signature_of(module)
    own = {cache.feed: cache for cache in caches if cache.in_place}
    places = {port.name: at for at, port in enumerate(signature.results) if port.kind == FETCH}
    with edit_signature(function) as edit:
        gone: list[int] = []
        for value, port in zip(list(function.body.block.args), signature.arguments, strict=True):
            if port.kind != FEED or port.name not in own:
                continue
            name = port_attributes(STATE, buffer_name(port.name))
            made = edit.add(value.type, name)
            made.name_hint = value.name_hint
            value.replace_all_uses_with(made)
            edit.drop([value])
            at = places[own[port.name].fetch]
            written = _same(edit.returned[at])
            assert isinstance(written.owner, WriteRows)
            edit.give(written, name)
            gone.append(at)
        edit.keep_results([at for at in range(len(edit.results)) if at not in gone])
    dce(module)
