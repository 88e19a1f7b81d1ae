"""Sizes that a program leaves open: symbols where its ops allow it, else the given sizes.

Attempts go from the most general to the least. The obstacle of each is kept, so that the user
learns which op needs a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
from jax import export

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.signature import Port
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.lowering.dynamic import NeedsData

Sizes: TypeAlias = int | Mapping[str, Sequence[int]] | None
Shape: TypeAlias = tuple[Any, ...]

# The note that evaluation adds to an error: the op in its text form, matched up to its name.
_OP = re.compile(r"while computing ((?:%[^=]*= )?\"?[\w.]+)")


def open_feeds(feeds: Sequence[Port]) -> list[Port]:
    """List the inputs with an unknown dimension."""
    return [port for port in feeds if UNKNOWN in shape_of(port.type)]


def given_shape(port: Port, sizes: Sizes) -> Shape | None:
    """Complete the shape of an input with the given sizes; None if some are still open.

    `sizes` is a number for every unknown dimension, or shapes by input name. Raises ValueError
    for a shape that does not match the input's.
    """
    declared = shape_of(port.type)
    if isinstance(sizes, int):
        return tuple(sizes if dim == UNKNOWN else dim for dim in declared)
    given = (sizes or {}).get(port.name)
    if given is None:
        return None if UNKNOWN in declared else declared
    if len(given) != len(declared) or any(
        want not in (UNKNOWN, have) for want, have in zip(declared, given, strict=True)
    ):
        shown = [-1 if dim == UNKNOWN else dim for dim in declared]
        raise ValueError(f"the shape of input '{port.name}' should be {shown}, found {list(given)}")
    return tuple(given)


def attempts(
    feeds: Sequence[Port], sizes: Sizes, *, symbolic: bool
) -> Iterator[tuple[str, list[Shape]]]:
    """Yield attempts for the shapes of the inputs, each with a description."""
    given = [given_shape(port, sizes) for port in feeds]
    if not open_feeds(feeds):
        yield "all sizes are the program's", [shape_of(port.type) for port in feeds]
        return
    numbers = [shape for shape in given if shape is not None]
    known = len(numbers) == len(given)
    if symbolic:
        yield "every open size may vary", _symbols(feeds, _by_place)
        if len(feeds) > 1:
            yield "sizes at one position may vary together", _symbols(feeds, _by_position)
        if known:
            yield (
                "open sizes that are equal as given may vary together",
                _symbols(feeds, lambda index, position: f"d{numbers[index][position]}"),
            )
            yield "the batch may vary, other sizes are as given", _batch(feeds, numbers)
    if known:
        yield "sizes are as given", numbers


def _by_place(index: int, position: int) -> str:
    return f"d{index}_{position}"


def _by_position(index: int, position: int) -> str:
    return f"d{position}"


def _symbols(feeds: Sequence[Port], name: Callable[[int, int], str]) -> list[Shape]:
    """Replace the open dimensions by symbols, all first ones by `b`."""
    scope = export.SymbolicScope()
    return [
        tuple(
            export.symbolic_shape(name(index, position) if position else "b", scope=scope)[0]
            if dim == UNKNOWN
            else dim
            for position, dim in enumerate(shape_of(port.type))
        )
        for index, port in enumerate(feeds)
    ]


def _batch(feeds: Sequence[Port], given: Sequence[Shape]) -> list[Shape]:
    """Replace each open first dimension of the given shapes by one symbol."""
    batch = export.symbolic_shape("b")[0]
    shapes: list[Shape] = []
    for port, shape in zip(feeds, given, strict=True):
        declared = shape_of(port.type)
        shapes.append((batch, *shape[1:]) if declared and declared[0] == UNKNOWN else shape)
    return shapes


def first_that_works(
    feeds: Sequence[Port],
    sizes: Sizes,
    make: Callable[[list[Any]], Any],
    *,
    symbolic: bool,
) -> tuple[Any, list[str]]:
    """Return the result of `make` for the first attempt that succeeds, and notes on earlier ones.

    `make` gets the types of the inputs. Raises UnsupportedError, naming the op that prevents it, if
    all attempts fail.
    """
    notes: list[str] = []
    failure: Exception | None = None
    for words, shapes in attempts(feeds, sizes, symbolic=symbolic):
        types = [
            jax.ShapeDtypeStruct(shape, dtype_of(port.type).numpy)
            for port, shape in zip(feeds, shapes, strict=True)
        ]
        try:
            made = make(types)
        except NeedsData as error:
            raise UnsupportedError(
                f"the program cannot be compiled as a whole: {_reason(error)}"
            ) from None
        except Exception as error:
            failure = error
            notes.append(f'not "{words}": {_reason(error)}')
            continue
        if open_feeds(feeds):
            notes.append(f"{words}: {'; '.join(map(_describe_port, feeds, shapes))}")
        return made, notes
    names = ", ".join(f"'{port.name}'" for port in open_feeds(feeds))
    if sizes is None and not symbolic:
        raise ValueError(f"the inputs {names} have open sizes; set the sizes (sizes, or --dim)")
    if any(given_shape(port, sizes) is None for port in feeds):
        raise UnsupportedError(
            f"the sizes of {names} cannot stay open; set the sizes (sizes, or --dim); "
            f"{'; '.join(dict.fromkeys(notes))}"
        ) from failure
    assert failure is not None
    raise UnsupportedError(f"cannot be exported: {_reason(failure)}") from failure


def _describe_port(port: Port, shape: Shape) -> str:
    return f"{port.name} [{', '.join(map(str, shape))}]"


def _reason(error: Exception) -> str:
    """Format the first line of an error, and the op that raised it."""
    text = str(error).strip().partition("\n")[0]
    text = text.partition(" This error arises")[0].rstrip(".")
    for note in getattr(error, "__notes__", ()):
        found = _OP.match(note)
        if found:
            return f"{text} (while computing {found[1]})"
    return text
