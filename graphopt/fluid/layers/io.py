"""Entry of data into a program (paddle.fluid.layers.io)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import fed
from graphopt.frontend import arguments
from graphopt.ir.program import Variable


def data(
    name: str,
    shape: Any,
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """Declare a variable that is fed at each run (fluid.layers.data).

    Unless `append_batch_size` is False or `shape` has an unknown dimension (-1 or None), a batch
    dimension comes before the others. A feed may have another shape, where the operators can
    compute with it. `type` has no effect: every variable is a dense tensor.
    """
    sizes = arguments.shape(shape, "data")
    whole = not arguments.flag(append_batch_size, "append_batch_size", "data")
    made = fed(
        name, sizes if whole or min(sizes, default=1) < 0 else [-1, *sizes], dtype, lod_level
    )
    made.stop_gradient = stop_gradient
    made.takes_any_shape = True
    return made
