"""Ops of images with the channels last; an op that is not here keeps its layout.

This file holds only the forms. `assign_layout.py` transposes operands and results, and decides
where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Prelu
from graphopt.ir.dialect.ops.conv import Conv2d, Conv2dTranspose, DepthwiseConv2d
from graphopt.ir.dialect.ops.norm import BatchNormBase, GroupNorm
from graphopt.ir.dialect.ops.pool import Pool2d
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.reduce import Reduce
from graphopt.ir.dialect.ops.shape import Concat, Split
from graphopt.ir.dialect.traits import AlongAxis, takes_any_order
from graphopt.ir.dialect.types import UNKNOWN, element_count, rank_of, shape_of

# from NCHW to NHWC, and back
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
RANK = 4


@dataclass(frozen=True)
class ChannelsLast:
    """An op with the channels last.

    `images` are the operands to transpose, `few` the operands of lower rank, which get axes of
    length 1 first, `results` the transposed results, and `attrs` the properties that change.
    """

    images: tuple[int, ...]
    few: tuple[int, ...] = ()
    results: tuple[int, ...] = (0,)
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def is_anchor(op: PdOp) -> bool:
    """True for the ops that are faster with the channels last."""
    return isinstance(op, (Conv2d, DepthwiseConv2d))


def channels_last(op: PdOp) -> ChannelsLast | None:
    """Return the form of an op of NCHW images with the channels last; None if there is none."""
    form = _rule(op)(op)
    images = form.images if form is not None else ()
    fits = all(rank_of(op.operands[index].type) == RANK for index in images)
    return form if fits else None


def _rule(op: PdOp) -> Callable[[PdOp], ChannelsLast | None]:
    """Return the rule of the op's class, else the rule of the class's traits."""
    for classes, rule in _RULES:
        if isinstance(op, classes):
            return rule
    return _elementwise if takes_any_order(op) else _along


def _by_format(name: str) -> Callable[[PdOp], ChannelsLast | None]:
    """Build the rule for ops with a property that names the layout."""

    def rule(op: PdOp) -> ChannelsLast | None:
        if op.attr(name) != "NCHW":
            return None
        return ChannelsLast((0,), attrs={name: "NHWC"})

    return rule


def _batch_norm(op: PdOp) -> ChannelsLast | None:
    """Transpose the image of a batch norm, and the image that a fused one adds."""
    form = _by_format("data_format")(op)
    if form is None:
        return None
    sizes = [len(group) for group in op.operand_groups()]
    names = operand_names(type(op))
    images = [sum(sizes[:at]) for at, name in enumerate(names) if name in ("x", "z")]
    return ChannelsLast(tuple(images), attrs=form.attrs)


def _prelu(op: PdOp) -> ChannelsLast | None:
    one_per_channel = rank_of(op.operands[1].type) == 1
    return _by_format("data_format")(op) if one_per_channel else None


def _elementwise(op: PdOp) -> ChannelsLast | None:
    """Transpose the operands; operands of lower rank get leading axes first, as in NumPy."""
    if rank_of(op.results[0].type) != RANK:
        return None
    images: list[int] = []
    few: list[int] = []
    for index, operand in enumerate(op.operands):
        shape = shape_of(operand.type)
        if len(shape) == RANK:
            images.append(index)
        elif UNKNOWN in shape:
            return None
        elif element_count(shape) != 1:
            few.append(index)
    return ChannelsLast(tuple(images), tuple(few), _all_results(op))


def _all_results(op: PdOp) -> tuple[int, ...]:
    return tuple(range(len(op.results)))


def _moved_axis(axis: int) -> int:
    """Return the position of an axis of an NCHW image when the channels are last."""
    return LAST.index(axis % RANK)


def _along(op: PdOp) -> ChannelsLast | None:
    """Move the axis along which an op works; None for an op without such an axis."""
    trait = op.get_trait(AlongAxis)
    axis = trait.kept_axis(op) if trait is not None else None
    if trait is None or trait.axis is None or axis is None:
        return None
    return ChannelsLast((0,), results=_all_results(op), attrs={trait.axis: _moved_axis(axis)})


def _join_channels(op: PdOp) -> ChannelsLast | None:
    operands = tuple(range(len(op.operands)))
    return ChannelsLast(operands, attrs={"axis": _moved_axis(op.attr("axis"))})


def _cut(op: PdOp) -> ChannelsLast | None:
    return ChannelsLast(
        (0,), results=_all_results(op), attrs={"axis": _moved_axis(op.attr("axis"))}
    )


def _reduce_channels(op: PdOp) -> ChannelsLast | None:
    """Move the reduced axes; without `keepdim`, only where the other axes keep their order."""
    axes = [axis % RANK for axis in op.attr("axis")] or list(range(RANK))
    moved = tuple(map(_moved_axis, axes)) if op.attr("axis") else ()
    if op.attr("keepdim"):
        return ChannelsLast((0,), attrs={"axis": moved})
    left = [_moved_axis(axis) for axis in range(RANK) if axis not in axes]
    return ChannelsLast((0,), results=(), attrs={"axis": moved}) if left == sorted(left) else None


def _pad_channels(op: PdOp) -> ChannelsLast | None:
    paddings = op.attr("paddings")
    moved = [paddings[2 * axis + side] for axis in LAST for side in (0, 1)]
    return ChannelsLast((0,), attrs={"paddings": moved})


# rules for ops whose traits are not enough; the first match counts
_RULES: tuple[tuple[tuple[type[Any], ...], Callable[[PdOp], ChannelsLast | None]], ...] = (
    ((Conv2d, DepthwiseConv2d, Conv2dTranspose, Pool2d), _by_format("data_format")),
    ((BatchNormBase,), _batch_norm),
    ((GroupNorm,), _by_format("data_layout")),
    ((Prelu,), _prelu),
    ((Concat,), _join_channels),
    ((Split,), _cut),
    ((Reduce,), _reduce_channels),
    ((Pad,), _pad_channels),
)
