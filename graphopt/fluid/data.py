"""`fluid.data`: a variable that is fed, in exactly the declared shape."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import declare_feed
from graphopt.ir.program import Variable


def data(name: str, shape: Any, dtype: Any = "float32", lod_level: int = 0) -> Variable:
    """Declare a variable that is fed at each run (fluid.data).

    None or -1 in `shape` is a dimension that each feed may choose; no batch dimension is added,
    unlike fluid.layers.data.
    """
    return declare_feed(name, shape, dtype, lod_level)
