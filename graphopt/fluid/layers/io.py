"""Entry of data into a program, fed or by readers inside it (paddle.fluid.layers.io)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.fluid.common import declare_feed
from graphopt.frontend import arguments
from graphopt.ir.program import Variable, unique_name
from graphopt.reader.loaders import PyReader


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

    A batch dimension is prepended, unless `append_batch_size` is False or `shape` has an unknown
    dimension (-1 or None). A feed may have another shape, where the operators can compute with it.
    `type` has no effect: every variable is a dense tensor.
    """
    sizes = arguments.shape(shape, "data")
    whole = not arguments.flag(append_batch_size, "append_batch_size", "data")
    made = declare_feed(
        name, sizes if whole or min(sizes, default=1) < 0 else [-1, *sizes], dtype, lod_level
    )
    made.stop_gradient = stop_gradient
    made.takes_any_shape = True
    return made


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> PyReader:
    """Create a loader of variables with these shapes and dtypes, which `read_file` returns.

    Batches may have other shapes, where the operators can compute with them. Paddle page:
    fluid.layers.py_reader.
    """
    levels = [0] * len(shapes) if lod_levels is None else lod_levels
    prefix = unique_name.generate(name or "read_file")
    made = [
        declare_feed(f"{prefix}.tmp_{at}", *declared)
        for at, declared in enumerate(zip(shapes, dtypes, levels, strict=True))
    ]
    for variable in made:
        variable.takes_any_shape = True
    return create_py_reader_by_data(capacity, made, name, use_double_buffer)


def create_py_reader_by_data(
    capacity: int,
    feed_list: Sequence[Variable],
    name: str | None = None,
    use_double_buffer: bool = True,
) -> PyReader:
    """Create a loader of these variables (fluid.layers.create_py_reader_by_data)."""
    return PyReader(feed_list, capacity, use_double_buffer, iterable=False)


def read_file(reader: PyReader) -> Variable | list[Variable]:
    """Return the variables of a loader; one alone without a list (fluid.layers.read_file)."""
    variables = list(reader._variables)
    return variables[0] if len(variables) == 1 else variables


def double_buffer(reader: Any, place: Any = None, name: str | None = None) -> Any:
    """Return the reader, which already reads ahead (fluid.layers.double_buffer)."""
    return reader
