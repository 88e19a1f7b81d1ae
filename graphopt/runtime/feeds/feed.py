"""Feeds as checked arrays, from a script's `run` or from the program's own loaders."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike

from graphopt.errors import FeedError, ProgramError
from graphopt.ir.program import GRAD_SUFFIX, LENGTHS, FeedSource, Program, Variable
from graphopt.ir.program.lengths import fed_name
from graphopt.ir.program.location import caller_level
from graphopt.runtime.feeds.blame import nearest
from graphopt.runtime.state.arrays import Array, Feed, HostArray


@dataclass
class StepsOfRun:
    """The number of steps of a run, and the feeds found to have a batch for each.

    With `any_shape`, the shape and dtype of variables that take any shape are not checked.
    """

    count: int
    stacked: set[str]
    any_shape: bool = False

    def rows_first(self, variable: Variable, array: Array) -> Array:
        """Transpose a feed of [steps, rows, …] to [rows, steps, …]; return others unchanged."""
        batched = bool(variable.shape) and not is_shared(variable)
        if self.count < 2 or not batched or len(array.shape) != len(variable.shape) + 1:
            return array
        if array.shape[0] != self.count:
            raise FeedError(
                f"'{variable.name}' was fed shape {list(array.shape)}, one dimension more than "
                "declared, so its first dimension should be num_iteration_per_run = "
                f"{self.count} batches"
            )
        self.stacked.add(variable.name)
        return array.swapaxes(0, 1)

    def one(self, variable: Variable, shape: Sequence[int]) -> tuple[int, ...]:
        """Remove the axis of steps from the shape of a stacked feed."""
        return (*shape[:1], *shape[2:]) if variable.name in self.stacked else tuple(shape)


def single_feed(program: Program, feed: Feed, *, any_shape: bool = False) -> dict[str, Array]:
    """Check the feeds of a run on one device.

    `feed` is a dict, or a list of one dict. Warn about unknown names, and drop them. With
    `any_shape`, variables that take any shape are not checked.
    """
    if feed is None:
        return {}
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise FeedError(
                f"Not compiled with data parallel, so the feed must be one dict, not {len(feed)}; "
                "a list is for CompiledProgram(program).with_data_parallel(loss_name)"
            )
        feed = feed[0]
    if not isinstance(feed, dict):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    return dict(checked_feed(program, feed, any_shape=any_shape))


def checked_feed(
    program: Program,
    feed: Mapping[str, object],
    steps: StepsOfRun | None = None,
    *,
    any_shape: bool = False,
) -> Iterable[tuple[str, Array]]:
    """Yield the names and checked arrays of one place; a run without `steps` has one step.

    With `any_shape`, variables that take any shape are not checked.
    """
    for variable, value in fed_variables(program, with_lengths(program, feed)[0]):
        array = as_array(variable, value)
        if steps is not None:
            array = steps.rows_first(variable, array)
        if not variable.shape and array.shape == (1,):
            array = array.reshape(())
        if not (any_shape and variable.takes_any_shape):
            shape = array.shape if steps is None else steps.one(variable, array.shape)
            check_feed(variable, shape, array.dtype)
        yield variable.name, array


def feeds_state(program: Program, feed: Feed) -> bool:
    """Return whether a feed has a persistable variable, which keeps the fed value."""
    block = program.global_block()
    found = (block.find_var(name) for name in _names(feed))
    return any(variable is not None and variable.persistable for variable in found)


def is_shared(variable: Variable) -> bool:
    """Return whether each replica gets a whole value: state, numbers, gradients of the loss."""
    return variable.persistable or not variable.shape or is_loss_grad(variable)


def is_loss_grad(variable: Variable) -> bool:
    """Return whether a variable is the initial gradient of a loss."""
    return variable.name.endswith(GRAD_SUFFIX) and variable.shape in ((), (1,))


Level: TypeAlias = Sequence[int] | HostArray


def lengths_fed(value: object) -> list[Level]:
    """Read the lengths fed with rows, a list for each level; [] for plain rows.

    They come from a LoDTensor, or from a tuple (rows, lengths).
    """
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "shape"):
        given = cast("Level | list[Level]", value[1])
        nested = len(given) > 0 and isinstance(given[0], (list, tuple))
        return cast("list[Level]", list(given) if nested else [given])
    return getattr(value, "recursive_sequence_lengths", list)()


Levels = dict[str, tuple[HostArray, ...]]


def with_lengths(program: Program, feed: Mapping[str, object]) -> tuple[dict[str, object], Levels]:
    """Add lengths that come with rows to the feed, if the program has variables for them.

    Return the feed, and all lengths of each feed of sequences, outermost first. Raise FeedError
    when they are missing, negative, or do not add up to the rows.
    """
    block, found, known = program.global_block(), dict(feed), Levels()
    for name, value in feed.items():
        if not block.has_var(name):
            continue
        variable = block.vars[name]
        levels = [np.asarray(level, "int64") for level in lengths_fed(value)]
        if isinstance(value, tuple) and levels and variable.lod_level:
            found[name] = value[0]
        elif not variable.lod_level and not hasattr(value, "recursive_sequence_lengths"):
            continue
        of_rows = all((level == 1).all() for level in levels)
        if variable.rows_for and not variable.lod_level and not of_rows:
            raise FeedError(
                f"'{name}' was fed with sequence lengths, but it was declared without lod_level, "
                f"so {variable.rows_for} treats each row as a sequence; declare '{name}' with "
                f"lod_level={len(levels)}"
            )
        rows = as_array(variable, found[name]).shape[:1]
        lengths = f"{name}{LENGTHS}"
        if variable.lod_level:
            # the outer of two levels counts sequences of the inner level
            for at in range(len(levels) - 2, -1, -1):
                outer = fed_name(name, at, len(levels))
                if block.has_var(outer) and outer not in feed:
                    found[outer] = levels[at]
                    _check_lengths(name, outer, found, (len(levels[at + 1]),))
            if block.has_var(lengths):
                if levels and lengths not in feed:
                    found[lengths] = levels[-1]
                _check_lengths(name, lengths, found, rows, variable.lengths_for)
                levels = [*_outer(name, levels, found), np.asarray(found[lengths])]
        if levels:
            _check_lengths(name, lengths, {lengths: levels[-1]}, rows)
            known[name] = tuple(levels)
    return found, known


def _outer(name: str, levels: Sequence[HostArray], found: Mapping[str, object]) -> list[HostArray]:
    """Return the lengths of all levels but the innermost: fed by name, else the tensor's."""
    named = [found.get(f"{name}{LENGTHS}{at}") for at in range(max(len(levels) - 1, 1))]
    return [np.asarray(level) for level in named if level is not None] or list(levels[:-1])


def _check_lengths(
    name: str, lengths: str, found: Mapping[str, object], rows: tuple[int, ...], reader: str = ""
) -> None:
    given = cast("HostArray | None", found.get(lengths))
    if given is None or (np.sum(given),) != rows or np.any(np.asarray(given) < 0):
        raise FeedError(
            f"'{name}' has sequences of different lengths"
            f"{f', which {reader} needs' if reader else ''}: feed a LoDTensor "
            f"(fluid.create_lod_tensor), a tuple (rows, lengths), or the int64 lengths as "
            f"'{lengths}' in addition to the rows; no length may be negative, and the lengths must "
            f"add up to {list(rows)} rows, found {'none' if given is None else given}"
        )


def fed_variables(
    program: Program, feed: Mapping[str, object]
) -> Iterable[tuple[Variable, object]]:
    """Yield the fed variables and their values; warn about names that are no variables."""
    block = program.global_block()
    for name, value in feed.items():
        variable = block.find_var(name)
        if variable is None:
            text = f"the variable {name} is not found in program. It is ignored"
            warnings.warn(f"{text}; {nearest(program, name)}", stacklevel=caller_level())
        else:
            yield variable, value


def as_array(variable: Variable, value: object) -> Array:
    """Convert a feed to an array; lists and numbers take the variable's dtype.

    A number fed to a variable of rank 1 counts as one row; so does one fed to a variable of any
    shape whose sizes are all 1 or open. For another variable, trailing axes of size 1 may be
    missing: labels [n] become [n, 1].
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _with_last_axes(variable, cast("Array", value))
    if hasattr(value, "__array__"):
        return _with_last_axes(variable, np.asarray(value))
    if value is None:  # NumPy would make a NaN of it
        raise FeedError(f"the feed of '{variable.name}' is None; feed an array or a number")
    try:
        array = np.array(value, dtype=variable.dtype.numpy)
    except (TypeError, ValueError) as error:
        ragged = "inhomogeneous" in str(error)
        reason = (
            "its rows have different lengths; pad them to one length, or feed "
            "fluid.create_lod_tensor(rows, lengths, place)"
            if ragged
            else error
        )
        raise FeedError(f"the feed of '{variable.name}' is not an array: {reason}") from None
    if not array.shape and len(variable.shape) == 1:
        return array.reshape(1)
    return _with_last_axes(variable, array)


def _with_last_axes(variable: Variable, array: Array) -> Array:
    """Append the trailing axes of size 1 that the variable has and the array lacks."""
    missing = variable.shape[len(array.shape) :]
    if not array.shape and variable.takes_any_shape and set(missing) <= {-1, 1}:
        return array.reshape((1,) * len(missing))
    if not array.shape or variable.takes_any_shape or any(size != 1 for size in missing):
        return array
    # the first axis may be only one device's part of the batch
    if not missing or not fits((*array.shape[1:], *missing), variable.shape[1:]):
        return array
    return array.reshape(*array.shape, *missing)


def check_feed(variable: Variable, shape: Sequence[int], dtype: DTypeLike) -> None:
    """Raise FeedError unless the variable accepts an array of this shape and dtype.

    `shape` is the shape on one device; -1 in the variable's shape accepts any size.
    """
    check_dtype(variable, dtype)
    declared = variable.shape
    if not fits(shape, declared):
        raise FeedError(
            f"The fed Variable '{variable.name}' should have dimensions = {len(declared)}, "
            f"shape = {declared}, but received fed shape {list(shape)} on each device"
            f"{_difference(shape, declared)}"
        )


def _difference(shape: Sequence[int], declared: Sequence[int]) -> str:
    """Describe the first size that does not fit; "" where the ranks differ."""
    if len(shape) != len(declared):
        return ""
    sizes = zip(shape, declared, strict=True)
    axis = next(i for i, (got, want) in enumerate(sizes) if want not in (-1, got))
    return f": axis {axis} is {shape[axis]} and should be {declared[axis]}"


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Return whether a shape equals the declared one, where -1 accepts any size."""
    return len(shape) == len(declared) and all(
        want in (-1, got) for want, got in zip(declared, shape, strict=True)
    )


OwnTypes = tuple[tuple[str, tuple[int, ...], str], ...]
"""Names of feeds, with the shapes and dtypes that a program is compiled for; -1 for any size."""


Shapes = Mapping[str, tuple[int, ...]]
"""The feed shapes of one device."""


def own_types(program: Program, devices: Sequence[Shapes], dtypes: Mapping[str, str]) -> OwnTypes:
    """Collect the types of feeds whose shape or dtype differs from the declaration.

    Sizes that differ are open, as is a first axis declared open, so that feeds of many sizes share
    a compilation.
    """
    found: list[tuple[str, tuple[int, ...], str]] = []
    for name in sorted(devices[0]):
        variable = program.global_block().find_var(name)
        if variable is None or not variable.takes_any_shape:
            continue
        shapes = [shapes[name] for shapes in devices]
        same = dtypes[name] == variable.dtype
        if not (same and all(fits(shape, variable.shape) for shape in shapes)):
            found.append((name, _common(shapes, variable.shape), dtypes[name]))
    return tuple(found)


def _common(shapes: Sequence[tuple[int, ...]], declared: tuple[int, ...]) -> tuple[int, ...]:
    """Merge shapes with each other, and with a declared one of equal rank; -1 where they differ."""
    first = shapes[0]
    if any(len(shape) != len(first) for shape in shapes):
        raise FeedError(f"a variable was fed arrays of different ranks: {[*map(list, shapes)]}")
    if len(declared) == len(first):
        shapes = [*shapes, declared]
    common = tuple(-1 if len(set(sizes)) > 1 else sizes[0] for sizes in zip(*shapes, strict=True))
    return (-1, *common[1:]) if first and declared[:1] == (-1,) else common


def misfit(program: Program, shapes: Shapes, own: OwnTypes, error: ProgramError) -> FeedError:
    """Compose the error for feeds of undeclared types that an operator cannot compute with."""
    variables = {name: program.global_block().var(name) for name, _, _ in own}
    shown = ", ".join(
        f"'{name}' {list(shapes[name])} {dtype} instead of {list(variables[name].shape)} "
        f"{variables[name].dtype}"
        for name, _, dtype in own
    )
    return FeedError(f"the program was fed {shown}, which an operator does not accept: {error}")


def check_dtype(variable: Variable, dtype: DTypeLike) -> None:
    """Raise FeedError unless the dtypes are equal; nothing is cast."""
    if dtype != variable.dtype.numpy:
        found = np.dtype(dtype)
        if not found.isnative and found.newbyteorder("=") == variable.dtype.numpy:
            raise FeedError(
                f"The data of fed Variable '{variable.name}' are {variable.dtype} in a byte "
                f"order that is not native ('{found.str}'); convert the array with "
                f".astype('{variable.dtype}')"
            )
        raise FeedError(
            f"The data type of fed Variable '{variable.name}' must be '{variable.dtype}', but "
            f"received '{np.dtype(dtype).name}'; convert the array with "
            f".astype('{variable.dtype}')"
        )


def with_readers(readers: list[FeedSource], feed: Feed, count: int) -> Feed:
    """Extend the feed of a run on `count` devices with a batch for each from the loaders.

    A loader whose variables the script feeds itself is not read. Raise EOFException at the end of a
    loader's epoch, FeedError for a loader that is not started.
    """
    fed = _names(feed)
    silent = [reader for reader in readers if not fed.issuperset(reader.names)]
    if not silent:
        return feed
    if count > 1 and fed:
        raise FeedError(
            f"a program with a loader on {count} devices cannot also be fed "
            f"{', '.join(sorted(fed))}; yield these values from the loader's generator"
        )
    feeds: list[dict[str, object]] = [{} for _ in range(count)]
    for reader in silent:
        for whole, part in zip(feeds, reader.read(count), strict=False):
            whole.update(part)
    feeds = [whole for whole in feeds if whole]
    if count > 1:
        return feeds
    own = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
    return feeds[0] | dict(cast("Mapping[str, object]", own or {}))


def names_fed(feed: Feed) -> tuple[str, ...]:
    """List the names in a feed of one device or of several, sorted."""
    return tuple(sorted(_names(feed)))


def _names(feed: Feed) -> set[str]:
    parts = feed if isinstance(feed, (list, tuple)) else [feed or {}]
    return {name for part in parts if isinstance(part, dict) for name in part}
