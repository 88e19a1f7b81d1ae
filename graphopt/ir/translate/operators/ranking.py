"""Operators of programs that rank items: layers for groups of rows, and trees of items."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import Embedding, Gather
from graphopt.ir.dialect.ops.linalg.matrices import Einsum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Equal,
    GreaterThan,
    LessThan,
    LogicalAnd,
    Multiply,
    NotEqual,
    Where,
)
from graphopt.ir.dialect.ops.random import Uniform
from graphopt.ir.dialect.ops.shape import Concat, Slice, StopGradient, Unsqueeze
from graphopt.ir.dialect.ops.sort import Topk
from graphopt.ir.dialect.types import UNKNOWN, agree, rank_of, shape_of, show
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.operators.creation import drawn_like
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


def _zeros(emit: Emitter, x: SSAValue) -> SSAValue:
    return emit(FullLike, x, value=0)


def _columns(emit: Emitter, x: SSAValue, start: int, end: int) -> SSAValue:
    return emit(Slice, x, axes=(1,), starts=(start,), ends=(end,))


def _every_other(emit: Emitter, x: SSAValue, first: int, count: int) -> SSAValue:
    """Select the columns first, first + 2, ... of a matrix."""
    parts = [_columns(emit, x, first + 2 * n, first + 2 * n + 1) for n in range(count)]
    return emit(Concat, parts, axis=1)


@translates("batch_fc")
def batch_fc(emit: Emitter) -> Written:
    """Multiply each group of rows by its own matrix, and add its own bias."""
    emit.only("Input", "W", "Bias")
    x, weight, bias = (emit.input(slot) for slot in ("Input", "W", "Bias"))
    shapes = [shape_of(value.type) for value in (x, weight, bias)]
    if [len(shape) for shape in shapes] != [3, 3, 2] or not (
        agree(shapes[0][::2], shapes[1][:2]) and agree(shapes[1][::2], shapes[2])
    ):
        raise ProgramError(
            "batch_fc needs rows [groups, n, in], weights [groups, in, out] and a bias "
            f"[groups, out], found {show(x.type)}, {show(weight.type)} and {show(bias.type)}"
        )
    return emit.results(Out=emit(Add, emit(Matmul, x, weight), emit(Unsqueeze, bias, axis=(1,))))


@translates("rank_attention")
def rank_attention(emit: Emitter) -> Written:
    """Emit, for each item, the sum of the items beside it, each times the matrix of both ranks.

    `RankOffset` has an item's rank from 1 on, then the rank and the row of each item beside it; 0
    is no item. `InputHelp` gets those rows side by side, and `InsRank` the ranks.
    """
    emit.only("X", "RankOffset", "RankParam")
    x, offsets, table = (emit.input(slot) for slot in ("X", "RankOffset", "RankParam"))
    count = emit.attr("MaxRank")
    columns, width = shape_of(offsets.type)[1:], shape_of(x.type)[1:]
    if (
        (rank_of(x.type), rank_of(table.type)) != (2, 2)
        or columns not in ((2 * count + 1,), (UNKNOWN,))
        or not agree(shape_of(table.type)[:1], [count * count * width[0]])
    ):
        raise ProgramError(
            f"rank_attention of {count} ranks needs rows [n, d], ranks [n, {2 * count + 1}] and "
            f"parameters [{count * count} * d, m], found {show(x.type)}, {show(offsets.type)} and "
            f"{show(table.type)}"
        )
    own = _columns(emit, offsets, 0, 1)
    ranks, rows = (_every_other(emit, offsets, first, count) for first in (1, 2))
    there = emit(
        LogicalAnd,
        emit(GreaterThan, ranks, _zeros(emit, ranks)),
        emit(GreaterThan, own, _zeros(emit, own)),
    )
    beside = emit(Embedding, emit(Where, there, rows, _zeros(emit, rows)), x)
    beside = emit(Multiply, beside, emit(Unsqueeze, emit.like(there, x), axis=(2,)))
    pair = emit(Add, emit.scale(own, float(count), -float(count)), emit.scale(ranks, 1.0, -1.0))
    pair = emit(Where, there, pair, _zeros(emit, pair))
    size = shape_of(table.type)[1]
    matrices = emit.reshape(table, count * count, width[0] * size)
    chosen = emit.reshape(emit(Embedding, pair, matrices), -1, count * width[0], size)
    side_by_side = emit.reshape(beside, -1, count * width[0])
    return emit.results(
        Out=emit(Einsum, [side_by_side, chosen], equation="ni,nim->nm"),
        InputHelp=emit(StopGradient, side_by_side),
        InsRank=emit(StopGradient, emit.like(own, x)),
    )


@translates("tdm_child")
def tdm_child(emit: Emitter) -> Written:
    """Emit the children of nodes of a tree, and the mask of the leaves, which name an item.

    A row of `TreeInfo` has the item, the layer, the ancestor and the children. Node 0 has no
    children, nor has a node whose first child is 0.
    """
    emit.only("X", "TreeInfo")
    x, tree = emit.input("X"), emit.input("TreeInfo")
    count = emit.attr("child_nums")
    if not agree(shape_of(tree.type), [UNKNOWN, count + 3]):
        raise ProgramError(
            f"tdm_child of {count} children needs a tree [nodes, {count + 3}], found "
            f"{show(tree.type)}"
        )
    children = emit(Embedding, x, _columns(emit, tree, 3, 3 + count))
    first = emit(Slice, children, axes=(rank_of(x.type),), starts=(0,), ends=(1,))
    own = emit.like(emit(Unsqueeze, x, axis=(rank_of(x.type),)), first)
    inner = emit(
        LogicalAnd,
        emit(NotEqual, own, _zeros(emit, own)),
        emit(NotEqual, first, _zeros(emit, first)),
    )
    children = emit(Multiply, children, emit.like(inner, children))
    items = emit.reshape(_columns(emit, tree, 0, 1), -1)
    found = emit(Gather, items, emit.reshape(children, -1), axis=0)
    found = emit.reshape(found, -1, *shape_of(children.type)[1:])
    leaf = emit(
        LogicalAnd,
        emit(NotEqual, found, _zeros(emit, found)),
        inner,
    )
    dtype = as_dtype(emit.attr("dtype"))
    return emit.results(
        Child=emit(Cast, children, dtype=dtype), LeafMask=emit(Cast, leaf, dtype=dtype)
    )


@translates("tdm_sampler")
def tdm_sampler(emit: Emitter) -> Written:
    """Sample, for each leaf and layer of a tree, the node above the leaf and other nodes.

    A row of `Travel` has the nodes above a leaf, `Layer` the nodes of all layers. The others are
    drawn uniformly, without repetition. A node 0 stands for none: its nodes, labels and mask are 0.
    """
    emit.only("X", "Travel", "Layer")
    x, travel = emit.input("X"), emit.input("Travel")
    counts = [int(count) for count in emit.several("neg_samples_num_list")]
    ends = [int(end) for end in emit.several("layer_offset_lod")]
    if len(ends) != len(counts) + 1 or not agree(shape_of(travel.type)[1:], [len(counts)]):
        raise ProgramError(
            f"tdm_sampler of {len(counts)} layers needs {len(counts) + 1} 'layer_offset_lod' and "
            f"rows of {len(counts)} nodes, found {ends} and {show(travel.type)}"
        )
    layers = emit.reshape(emit.input("Layer"), -1)
    above = emit(Embedding, emit.reshape(x, -1), travel)
    nodes: list[SSAValue] = []
    labels: list[SSAValue] = []
    masks: list[SSAValue] = []
    for layer, (count, (start, end)) in enumerate(zip(counts, pairwise(ends), strict=True)):
        if not 0 <= count < end - start:
            raise ProgramError(
                f"tdm_sampler draws {count} negative samples and one positive node from the "
                f"{end - start} nodes of layer {layer}, which are too few"
            )
        own = _columns(emit, above, layer, layer + 1)
        there = emit.like(emit(NotEqual, own, _zeros(emit, own)), own)
        parts = [(own, there)] if emit.attr("output_positive") else []
        if count:
            drawn = _others(
                emit, own, emit(Slice, layers, axes=(0,), starts=(start,), ends=(end,)), count
            )
            parts.append((emit(Multiply, drawn, there), _zeros(emit, drawn)))
        for value, label in parts:
            nodes.append(value)
            labels.append(label)
            masks.append(emit(Add, there, _zeros(emit, value)))
    dtype = as_dtype(emit.attr("dtype"))
    found = (emit(Cast, emit(Concat, each, axis=1), dtype=dtype) for each in (nodes, labels, masks))
    return emit.results(**dict(zip(("Out", "Labels", "Mask"), found, strict=True)))


def _others(emit: Emitter, own: SSAValue, layer: SSAValue, count: int) -> SSAValue:
    """Draw `count` different nodes of a layer for each row, except its own."""
    size = shape_of(layer.type)[0]
    attrs: dict[str, Any] = {"dtype": "float32", "min": 0.0, "max": 1.0}
    attrs["seed"] = emit.attr("seed")
    keys = drawn_like(emit, Uniform, own, [-1, size], **attrs)
    same = emit(Equal, own, emit.reshape(layer, 1, size))
    keys = emit(Where, same, emit.scale(_zeros(emit, keys), 1.0, -1.0), keys)
    places = emit.all(Topk, keys, k=count)[1]
    chosen = emit(Gather, layer, emit.reshape(places, -1), axis=0)
    return emit.reshape(chosen, -1, count)


@translates("dequantize_log")
def dequantize_log(emit: Emitter) -> Written:
    """Look up 8-bit numbers in a table of 128; negative ones count from -128 and are negated."""
    emit.only("X", "Dict")
    x, table = emit(Cast, emit.input("X"), dtype="int32"), emit.input("Dict")
    if not agree(shape_of(table.type), [128]):
        raise ProgramError(f"dequantize_log needs a table [128], found {show(table.type)}")
    below = emit(LessThan, x, _zeros(emit, x))
    place = emit(Where, below, emit.scale(x, 1.0, 128.0), x)
    found = emit(Gather, table, emit.reshape(place, -1), axis=0)
    found = emit.reshape(found, -1, *shape_of(x.type)[1:])
    return emit.results(Out=emit(Where, below, emit.scale(found, -1.0), found))
