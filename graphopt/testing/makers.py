"""Operand shapes and properties by which an op produces a float32 value of a given shape.

Generated programs work backwards from shapes, so all their ops are well typed. Ops without a maker
here have calls of their own (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation as act
from graphopt.ir.dialect.ops import conv, fused, linear, math, norm, random, shape

Draw = Callable[[Any], Any]
Shape = tuple[int, ...]
# a feed may have any size there; state must be known
Need = Shape | None


@dataclass(frozen=True)
class Recipe:
    """Operand shapes by position (None: leave out) and property values.

    `state` are the positions of operands that must be state of their own, such as weights.
    """

    operands: tuple[Need, ...]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    state: tuple[int, ...] = ()
    names: dict[int, str] = field(default_factory=dict[int, str])


Maker = Callable[[Draw, Shape], Recipe | None]


def _same(draw: Draw, out: Shape) -> Recipe:
    return Recipe((out,))


def _broadcast(draw: Draw, out: Shape) -> Recipe:
    """Draw shapes: the second operand may have fewer dimensions or ones, the first is full."""
    kept = draw(st.integers(0, len(out)))
    small = tuple(1 if draw(st.booleans()) else dim for dim in out[kept:])
    other = draw(st.sampled_from([out, out, out[-1:], small]))
    return Recipe((out, other))


def _add_act(draw: Draw, out: Shape) -> Recipe:
    """Make the recipe of a broadcast sum and its relu."""
    recipe = _broadcast(draw, out)
    return replace(recipe, attrs={"functor_list": ("relu", "elementwise_add")})


def _matmul(draw: Draw, out: Shape) -> Recipe | None:
    if len(out) < 2:
        return None
    inner = draw(st.integers(1, 4))
    transpose = draw(st.booleans())
    weight = (out[-1], inner) if transpose else (inner, out[-1])
    return Recipe(((*out[:-1], inner), weight), {"transpose_y": transpose}, state=(1,))


def _batch_norm(draw: Draw, out: Shape) -> Recipe | None:
    if len(out) < 2 or out[1] < 1:
        return None
    vector = (out[1],)
    return Recipe(
        (out, vector, vector, vector, vector),
        {"is_test": draw(st.booleans()), "momentum": 0.75},
        state=(1, 2, 3, 4),
        names={1: "mean", 2: "variance", 3: "scale", 4: "bias"},
    )


def _conv2d(draw: Draw, out: Shape) -> Recipe | None:
    if len(out) != 4 or min(out[1:]) < 1:
        return None
    channels = draw(st.integers(1, 3))
    size = draw(st.sampled_from([1, 3]))
    attrs: dict[str, Any] = {"paddings": (size // 2,) * 2}
    image, outs = (out[0], channels, *out[2:]), out[1]
    if draw(st.booleans()):
        attrs["data_format"] = "NHWC"
        image, outs = (*out[:3], channels), out[3]
    return Recipe((image, (outs, channels, size, size)), attrs, state=(1,))


def _depthwise(draw: Draw, out: Shape) -> Recipe | None:
    if len(out) != 4 or min(out[1:]) < 1:
        return None
    size = draw(st.sampled_from([1, 3]))
    attrs = {"paddings": (size // 2,) * 2, "groups": out[1]}
    return Recipe((out, (out[1], 1, size, size)), attrs, state=(1,))


def _dropout(draw: Draw, out: Shape) -> Recipe:
    attrs = {
        "p": draw(st.sampled_from([0.0, 0.25, 0.5])),
        "is_test": draw(st.booleans()),
        "mode": draw(st.sampled_from(["upscale_in_train", "downgrade_in_infer"])),
        "seed": 3,
    }
    return Recipe((out,), attrs)


def _reshape(draw: Draw, out: Shape) -> Recipe:
    source = draw(st.sampled_from([out, out[::-1], (int(np.prod(out)),)]))
    return Recipe((source,), {"shape": out})


def _scale(draw: Draw, out: Shape) -> Recipe:
    attrs = {
        "scale": draw(st.sampled_from([1.0, 0.5, -2.0])),
        "bias": draw(st.sampled_from([0.0, 0.0, 1.0])),
    }
    return Recipe((out,), attrs)


def _gelu(draw: Draw, out: Shape) -> Recipe:
    return Recipe((out,), {"approximate": draw(st.booleans())})


def _layer_norm(draw: Draw, out: Shape) -> Recipe | None:
    if len(out) < 2 or out[-1] < 2:
        return None
    vector = (out[-1],)
    return Recipe((out, vector, vector), {"begin_norm_axis": len(out) - 1}, state=(1, 2))


def _transpose(draw: Draw, out: Shape) -> Recipe:
    perm = draw(st.permutations(range(len(out))))
    source = [0] * len(out)
    for position, axis in enumerate(perm):
        source[axis] = out[position]
    return Recipe((tuple(source),), {"perm": perm})


MAKERS: dict[type[PdOp], Maker] = {
    act.Relu: _same,
    act.Relu6: _same,
    act.Sigmoid: _same,
    act.Silu: _same,
    act.Tanh: _same,
    act.Gelu: _gelu,
    math.Add: _broadcast,
    math.Subtract: _broadcast,
    math.Multiply: _broadcast,
    math.Scale: _scale,
    linear.Matmul: _matmul,
    conv.Conv2d: _conv2d,
    norm.BatchNorm: _batch_norm,
    norm.LayerNorm: _layer_norm,
    shape.Transpose: _transpose,
}
# ops that only patterns plant; random programs do not have them
PLANTED: dict[type[PdOp], Maker] = {
    **MAKERS,
    conv.DepthwiseConv2d: _depthwise,
    fused.FusedElemwiseAddActivation: _add_act,
    random.Dropout: _dropout,
    shape.Reshape: _reshape,
}
