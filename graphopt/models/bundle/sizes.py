"""The sizes that a bundle is compiled for: shapes by input, whose ranges expand to a ladder."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from graphopt.ir.program import Program
from graphopt.runtime.feeds.buckets import Buckets

Shapes: TypeAlias = "dict[str, tuple[int, ...]]"
# the smallest and the largest size of an axis
Range: TypeAlias = "tuple[int, int]"
Ranges: TypeAlias = "dict[str, tuple[Range, ...]]"


def ranges_of(texts: Sequence[str]) -> list[Ranges]:
    """Parse the sets of shapes of `--sizes`: `x=1x3x48x64..640,y=1x8`.

    A repeated name begins another set, as each text does. Raises ValueError for other syntax.
    """
    found: list[Ranges] = []
    for text in texts:
        found.append({})
        for part in text.split(","):
            name, _, shape = part.strip().rpartition("=")
            if not name:
                raise ValueError(f"--sizes {text}: expected NAME=2x3x224x224, found '{part}'")
            if name in found[-1]:
                found.append({})
            found[-1][name] = tuple(_range(size, text) for size in shape.split("x"))
    return found


def _range(size: str, text: str) -> Range:
    least, dots, most = size.partition("..")
    try:
        found = int(least), int(most if dots else least)
    except ValueError:
        found = (0, 0)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(f"--sizes {text}: expected a size, as in 8 or 64..640, found '{size}'")
    return found


def _show(size: Range) -> str:
    least, most = size
    return str(least) if least == most else f"{least}..{most}"


def has_range(sets: Sequence[Ranges]) -> bool:
    """True if an axis has more than one size."""
    return any(low != high for each in sets for shape in each.values() for low, high in shape)


def check_sets(program: Program, inputs: Sequence[str], sets: Sequence[Ranges]) -> None:
    """Raise ValueError for a set of shapes that does not match the inputs."""
    block = program.global_block()
    for each in sets:
        if set(each) != set(inputs):
            raise ValueError(
                f"--sizes names {', '.join(each)}, but the inputs are {', '.join(inputs)}: give a "
                "shape for each input"
            )
        for name, shape in each.items():
            declared = block.var(name).shape
            fits = len(shape) == len(declared) and all(
                want < 0 or found == (want, want)
                for want, found in zip(declared, shape, strict=True)
            )
            if not fits:
                found = "x".join(_show(size) for size in shape)
                raise ValueError(
                    f"--sizes: the shape of input '{name}' should fit {list(declared)}, "
                    f"found {found}"
                )


def shapes_of_sets(
    program: Program, sets: Sequence[Ranges], buckets: Buckets | None = None
) -> list[Shapes]:
    """List the shapes to compile: each set, expanded to all rungs of its ranges.

    Raises ValueError for inputs whose shapes give one dimension different ranges.
    """
    found: list[Shapes] = []
    for ranges in sets:
        if buckets is None:
            found.append({n: tuple(low for low, _ in shape) for n, shape in ranges.items()})
        else:
            found += _rungs(program, ranges, buckets)
    return [shapes for at, shapes in enumerate(found) if shapes not in found[:at]]


def _rungs(program: Program, ranges: Ranges, buckets: Buckets) -> list[Shapes]:
    block = program.global_block()
    names = {name: buckets.names(name, block.var(name).shape) for name in ranges}
    of_dimension: dict[str, Range] = {}
    for name, shape in ranges.items():
        for dim, given in zip(names[name], shape, strict=True):
            if dim is not None and of_dimension.setdefault(dim, given) != given:
                raise ValueError(
                    f"--sizes: axis '{dim}' has sizes {given[0]} to {given[1]} in input '{name}', "
                    f"but {of_dimension[dim][0]} to {of_dimension[dim][1]} in another input"
                )
    ladders = [_ladder(buckets, dim, *given) for dim, given in of_dimension.items()]
    return [
        _at(ranges, names, dict(zip(of_dimension, sizes, strict=True)))
        for sizes in itertools.product(*ladders)
    ]


def _ladder(buckets: Buckets, dim: str, least: int, most: int) -> list[int]:
    """List the bucket sizes of a dimension from `least` to the first one that holds `most`."""
    sizes = [buckets.fit(dim, least)]
    while sizes[-1] < most:
        sizes.append(buckets.fit(dim, sizes[-1] + 1))
    return sizes


def _at(
    ranges: Ranges, names: Mapping[str, Sequence[str | None]], sizes: Mapping[str, int]
) -> Shapes:
    return {
        name: tuple(
            low if dim is None else sizes[dim]
            for dim, (low, _) in zip(names[name], shape, strict=True)
        )
        for name, shape in ranges.items()
    }
