"""A Hypothesis strategy for whole programs: planted patterns, near misses, other sizes and dtypes.

What `programs` gives is changed by a few twists, any of which may make a pattern a near miss, and
sometimes the whole program has another dtype, an open, single or empty batch, or regions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from graphopt.debug.retype import with_dtype, with_size
from graphopt.passes.engine.fusion import Fusion
from graphopt.testing.makers import Draw
from graphopt.testing.mutations import TWISTS
from graphopt.testing.programs import Generated, programs

DTYPES = ("float16", "bfloat16", "float64")
# open, empty, single
SIZES = (-1, -1, 0, 1)


@st.composite
def whole_programs(
    draw: Draw, plant: Sequence[Fusion] = (), twists: Sequence[str] = tuple(TWISTS)
) -> Generated:
    """A module with patterns of some of these fusions, changed by up to three of these twists.

    `Generated.notes` says what was done to it.
    """
    training = draw(st.integers(0, 2)) > 0
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
