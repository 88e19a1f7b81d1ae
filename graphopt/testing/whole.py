"""A Hypothesis strategy for whole programs: planted patterns, near misses, other sizes and dtypes.

A program of `programs` is changed by a few twists, any of which may make a pattern a near miss, and
sometimes the whole program has another dtype, an unknown, single or empty batch, or regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.retyped import retype_module
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, tensor
from graphopt.passes.engine.fusion import Fusion
from graphopt.testing.makers import Draw
from graphopt.testing.mutations import TWISTS
from graphopt.testing.programs import Generated, programs


def with_dtype(module: ModuleOp, dtype: str) -> ModuleOp | None:
    """Replace float32 by another dtype in a program; None if that gives no valid program."""

    def retype(port: Port) -> Tensor:
        old = port.type
        return tensor(shape_of(old), dtype) if dtype_of(old) == "float32" else old

    def attrs(op: PdOp) -> Mapping[str, Any]:
        values = op.attr_values()
        return {**values, "dtype": dtype} if values.get("dtype") == "float32" else values

    return retype_module(module, retype, attrs)


def with_size(module: ModuleOp, old_size: int, size: int) -> ModuleOp | None:
    """Replace the first dimension of the feeds that have `old_size` there.

    Reshapes to that size follow; -1 makes it unknown.
    """

    def first(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (size, *shape[1:]) if shape[:1] == (old_size,) else shape

    def retype(port: Port) -> Tensor:
        old = port.type
        return tensor(first(shape_of(old)), dtype_of(old)) if port.kind == FEED else old

    def attrs(op: PdOp) -> Mapping[str, Any]:
        values = op.attr_values()
        if op.name != "pd.reshape":
            return values
        shape = tuple(values["shape"])
        return {**values, "shape": (0, *shape[1:]) if size == 0 else first(shape)}

    return retype_module(module, retype, attrs)


DTYPES = ("float16", "bfloat16", "float64")
# open, empty, single
SIZES = (-1, -1, 0, 1)


@st.composite
def whole_programs(
    draw: Draw,
    plant: Sequence[Fusion] = (),
    twists: Sequence[str] = tuple(TWISTS),
    inference: bool = False,
) -> Generated:
    """Draw a module with patterns of some of these fusions, changed by up to three twists.

    Two of three are trained, none with `inference`. `Generated.notes` lists the changes.
    """
    training = draw(st.integers(0, 2)) > 0 and not inference
    base = draw(programs(plant=plant, training=training, updates=True))
    module, notes = base.module, list[str]()
    if draw(st.integers(0, 3)) == 3:
        size = draw(st.sampled_from(SIZES))
        made = with_size(module, 2, size)
        if made is not None:
            module = made
            notes.append(f"size {size}")
    if draw(st.integers(0, 3)) == 3:
        dtype = draw(st.sampled_from(DTYPES))
        made = with_dtype(module, dtype)
        if made is not None:
            module = made
            notes.append(dtype)
    for _ in range(draw(st.sampled_from([0, 1, 1, 2, 3])) if twists else 0):
        name = draw(st.sampled_from(list(twists)))
        if TWISTS[name](draw, module):
            notes.append(name)
    module.verify()
    return Generated(module, notes)
