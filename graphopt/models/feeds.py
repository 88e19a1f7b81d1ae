"""Inputs on the command line: read from files, or random."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphopt.errors import FeedError
from graphopt.ir.formats.foreign import foreign_arrays
from graphopt.ir.program import LENGTHS

if TYPE_CHECKING:
    from graphopt.ir.formats.model import LoadedModel
    from graphopt.ir.program import Program

Sizes = int | dict[str, tuple[int, ...]] | None
BATCH, OTHER = 2, 32


def sizes_of(entries: Sequence[str]) -> Sizes:
    """Parse the sizes of `--dim`; raise ValueError for other text than a number or NAME=AxBxC."""
    number: int | None = None
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        name, is_shape, text = entry.rpartition("=")
        try:
            dims = tuple(int(part) for part in text.split("x"))
        except ValueError:
            dims = ()
        if not dims or any(dim < 0 for dim in dims) or (not is_shape and len(dims) != 1):
            raise ValueError(f"--dim {entry}: expected a size, as in 8, or NAME=2x3x224x224")
        if is_shape:
            shapes[name] = dims
        else:
            number = dims[0]
    if number is not None and shapes:
        raise ValueError("--dim: give one size for all dimensions, or shapes by name, not both")
    return shapes or number


def random_feed(model: LoadedModel, sizes: Sizes, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Draw random inputs of the right shapes; unknown dimensions are 2 rows, and 32 elsewhere.

    Rows are divided among their sequences as equally as possible.
    """
    rng = np.random.default_rng(seed)
    block = model.program.global_block()
    shapes = shapes_for(model.program, model.fed_names, sizes)
    random = {n: _random(rng, shape, block.var(n).dtype.numpy) for n, shape in shapes.items()}
    return random | equal_lengths(shapes)


def equal_lengths(shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Divide the rows of each sequence input into lengths that are as equal as possible."""
    counts = {name: shape[0] for name, shape in shapes.items() if name.endswith(LENGTHS)}
    rows = {name: shapes.get(name.removesuffix(LENGTHS), [n])[0] for name, n in counts.items()}
    return {
        name: np.diff(np.linspace(0, rows[name], count + 1).astype("int64"))
        for name, count in counts.items()
    }


def shapes_for(program: Program, names: Sequence[str], sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Compute the shapes of these inputs, with unknown dimensions as in `random_feed`.

    Raises ValueError for a shape of another input, or one that does not fit.
    """
    unknown = sorted(set(sizes if isinstance(sizes, dict) else ()) - set(names))
    if unknown:
        raise ValueError(f"--dim {unknown[0]}=...: the model's inputs are {', '.join(names)}")
    block = program.global_block()
    return {name: _shape(name, block.var(name).shape, sizes) for name in names}


def _shape(name: str, declared: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    if isinstance(sizes, dict) and name in sizes:
        given = sizes[name]
        fits = len(given) == len(declared) and all(
            want in (-1, have) for want, have in zip(declared, given, strict=True)
        )
        if not fits:
            raise ValueError(
                f"--dim: the shape of input '{name}' should fit {list(declared)}, "
                f"found {list(given)}"
            )
        return given
    if isinstance(sizes, int):
        return tuple(sizes if dim < 0 else dim for dim in declared)
    return tuple(
        dim if dim >= 0 else OTHER if position else BATCH for position, dim in enumerate(declared)
    )


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    if np.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def file_feed(model: LoadedModel, files: Sequence[str]) -> dict[str, Any]:
    """Read inputs from `.npz` files (by name) and `.npy` files (`NAME=FILE`, or the only input)."""
    feed: dict[str, Any] = {}
    for entry in files:
        name, _, text = entry.rpartition("=")
        path = Path(text)
        loaded = load_arrays(path)
        if isinstance(loaded, Mapping):
            feed.update(loaded)
        elif name or len(model.feed_names) == 1:
            feed[name or model.feed_names[0]] = loaded
        else:
            raise FeedError(f"{path}: the model has several inputs; write NAME={path}")
    return feed


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]] | np.ndarray[Any, Any]:
    """Read the arrays of a NumPy file; raise ValueError, naming the file, for other files."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                return {name: loaded[name] for name in loaded.files}
            return loaded
    except (ValueError, EOFError, KeyError) as error:
        kind = foreign_arrays(path.read_bytes(), takes_safetensors=False)
        if kind is not None:
            raise ValueError(f"{path}: not a readable .npz or .npy file: this is {kind}") from None
        raise ValueError(f"{path}: not a readable .npz or .npy file: {error}") from None


def feed_of(model: LoadedModel, arguments: argparse.Namespace) -> dict[str, Any]:
    """Build the feed from the command line's arguments; raise FeedError if they name no inputs."""
    if arguments.random:
        return random_feed(model, sizes_of(arguments.dim), arguments.seed)
    if arguments.input or not model.feed_names:
        return file_feed(model, arguments.input)
    raise FeedError(
        f"the model has the inputs {', '.join(model.feed_names)}: give --input FILE.npz, or "
        f"--random"
    )
