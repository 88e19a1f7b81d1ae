"""DataFeeder: rows of Python values as feeds (paddle.fluid.DataFeeder), and checks of inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphopt.display.units import several
from graphopt.frontend.lod_tensor import LoDTensor
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Program, Variable, default_main_program
from graphopt.runtime.devices.places import cpu_places, cuda_places


def convert_dtype(dtype: Any) -> str:
    """Return the name of a dtype; raise TypeError for other values (data_feeder.convert_dtype)."""
    return f"{as_dtype(dtype)}"


def check_type(
    input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = ""
) -> None:
    """Raise TypeError unless `input` has the expected type, or one of a tuple of types."""
    if not isinstance(input, expected_type):
        raise TypeError(
            f"The type of '{input_name}' in {op_name} must be {expected_type}, but received "
            f"{type(input)}. {extra_message}".rstrip()
        )


def check_dtype(
    input_dtype: Any,
    input_name: str,
    expected_dtype: Sequence[str] | str,
    op_name: str,
    extra_message: str = "",
) -> None:
    """Raise TypeError unless a dtype is the expected one, or one of several."""
    expected = [expected_dtype] if isinstance(expected_dtype, str) else expected_dtype
    if convert_dtype(input_dtype) not in expected:
        raise TypeError(
            f"The data type of '{input_name}' in {op_name} must be {expected_dtype}, but received "
            f"{convert_dtype(input_dtype)}. {extra_message}".rstrip()
        )


def check_variable_and_dtype(
    input: Any,
    input_name: str,
    expected_dtype: Sequence[str] | str,
    op_name: str,
    extra_message: str = "",
) -> None:
    """Raise TypeError unless `input` is a Variable of the expected dtype, or of one of several."""
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


class DataFeeder:
    """Makes the feed of a batch from its rows, each a tuple with one value per variable.

    `feed_list` has Variables or names of them in `program`. `place` has no effect. Raises TypeError
    or ValueError when the rows do not fit the variables. Paddle page: fluid.DataFeeder.
    """

    def __init__(
        self, feed_list: Sequence[Any], place: Any, program: Program | None = None
    ) -> None:
        block = (program or default_main_program()).global_block()
        self.place = place
        self._variables = [block.var(v) if isinstance(v, str) else v for v in feed_list]
        for variable in self._variables:
            if not isinstance(variable, Variable):
                raise TypeError("DataFeeder(): 'feed_list' should contain Variables or names")
        self.feed_names = [variable.name for variable in self._variables]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Convert the rows of a batch to a feed: a LoDTensor for each variable, by name."""
        columns: list[list[Any]] = [[] for _ in self._variables]
        for rows, row in enumerate(iterable):
            if not _is_row(row):
                raise TypeError(
                    f"DataFeeder.feed(): row {rows} of the batch should be a tuple with a value "
                    f"for each of {', '.join(self.feed_names)}, found {row!r:.60}; a reader gives "
                    "rows, paddle.batch joins them"
                )
            if len(row) != len(columns):
                raise ValueError(
                    f"DataFeeder.feed(): row {rows} of the batch has {len(row)} values, but "
                    f"feed_list has {len(columns)} variables ({', '.join(self.feed_names)})"
                )
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        pairs = zip(self._variables, columns, strict=True)
        return {variable.name: _batch(variable, column) for variable, column in pairs}

    def feed_parallel(
        self, iterable: Iterable[Iterable[Sequence[Any]]], num_places: int | None = None
    ) -> Iterable[dict[str, Any]]:
        """Convert several batches to one feed each, one per place."""
        return [self.feed(batch) for batch in iterable]

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Any]]:
        """Map a reader of batches to a reader of feeds, with `multi_devices` lists of them.

        A list has one feed per place. Raises ValueError at the end if the last group has fewer
        batches than places and `drop_last` is False, as in Paddle.
        """

        def feeds() -> Iterator[Any]:
            if not multi_devices:
                yield from map(self.feed, reader())
                return
            count = num_places or self._places()
            batches = iter(reader())
            while group := list(itertools.islice(batches, count)):
                if len(group) == count:
                    yield list(self.feed_parallel(group, count))
                elif not drop_last:
                    raise ValueError(
                        f"decorate_reader(): {len(group)} batches are left for {count} places; "
                        "only drop_last=True is supported there"
                    )

        return feeds

    def _places(self) -> int:
        """Count the devices of the kind of `place`."""
        on_gpu = getattr(self.place, "platform", "cpu") == "gpu"
        return len(cuda_places() if on_gpu else cpu_places())


def _is_row(row: Any) -> bool:
    return isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim > 0)


def _batch(variable: Variable, rows: list[Any]) -> LoDTensor:
    """Join rows into a tensor of the variable's shape, with the sequence lengths of each level."""
    lengths: list[list[int]] = []
    for level in range(variable.lod_level):
        for at, row in enumerate(rows):
            if not isinstance(row, (list, tuple)) and np.ndim(row) == 0:
                raise ValueError(
                    f"DataFeeder: '{variable.name}' has sequences (lod_level="
                    f"{variable.lod_level}), but at level {level + 1} item {at} is "
                    f"{row!r:.60}; give a list, such as [{row!r:.60}] for one item"
                )
        lengths.append([len(row) for row in rows])
        rows = list(itertools.chain.from_iterable(rows))
    return LoDTensor(_in_shape(variable, rows), lengths)


def _in_shape(variable: Variable, rows: list[Any]) -> Any:
    """Convert rows to one array; reshape flat rows to the variable's shape.

    Raises ValueError if the elements do not fit the shape: two short rows are never joined into
    one.
    """
    array, shape = _as_array(variable, rows), variable.shape
    if len(shape) == array.ndim and all(
        wanted in (-1, found) for wanted, found in zip(shape, array.shape, strict=True)
    ):
        return array
    if not shape:
        return array
    first = len(rows) if shape[0] == -1 else shape[0]
    try:
        return array.reshape(first, *shape[1:])
    except ValueError:
        raise ValueError(
            f"DataFeeder: '{variable.name}' has the shape {list(shape)}, but its "
            f"{several(len(rows), 'row')} form an array of shape {list(array.shape)}; give rows "
            "of the declared shape"
        ) from None


def _as_array(variable: Variable, rows: list[Any]) -> Any:
    """Convert rows to one array of the variable's dtype; ValueError names the row that is wrong."""
    dtype = variable.dtype.numpy
    try:
        return np.array(rows, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error)
    first: Any = None
    for at, row in enumerate(rows):
        try:
            found = np.array(row, dtype).shape
        except (TypeError, ValueError, OverflowError) as error:
            reason = f"row {at} is {row!r:.60}, which is not an array of {variable.dtype}: {error}"
            break
        if first is not None and found != first:
            reason = (
                f"row {at} has the shape {list(found)} and the rows before it {list(first)}; pad "
                "them to one shape, or declare sequences with lod_level=1"
            )
            break
        first = found
    raise ValueError(
        f"DataFeeder: the rows of '{variable.name}', {variable.dtype} {list(variable.shape)}, "
        f"do not form an array: {reason}"
    )
