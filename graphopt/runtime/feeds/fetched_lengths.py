"""Lengths of the sequences in fetched tensors (`graphopt.ir.program.lengths` says where they are).

Lengths that operators compute are fetched with the tensors; the others are fed or known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphopt.ir.program import Program
from graphopt.ir.program.lengths import Levels, fed_name, levels_of
from graphopt.runtime.feeds.feed import lengths_fed
from graphopt.runtime.feeds.fetch import fetch_names, split_updates
from graphopt.runtime.state.arrays import Feed, FetchList
from graphopt.runtime.state.slots import Tensor

Known = Mapping[str, Sequence[Any]]
"""The known lengths by variable, from each replica."""


def levels_fetched(program: Program, fetch_list: FetchList) -> list[Levels]:
    """Return the levels of each fetch; an empty list if all are dense tensors."""
    block = program.global_block()
    names = fetch_names(split_updates(fetch_list)[0])
    levels = [levels_of(block.find_var(name)) for name in names]
    return levels if any(levels) else []


def computed_lengths(program: Program, levels: Sequence[Levels]) -> tuple[str, ...]:
    """List the length variables that operators of the program compute."""
    names = dict.fromkeys(level for own in levels for level in own if isinstance(level, str))
    known = program.global_block().vars
    return tuple(name for name in names if name in known and not known[name].is_data)


def note_lengths(
    values: Sequence[Any], levels: Sequence[Levels], feed: Feed, computed: Mapping[str, Any]
) -> None:
    """Record the lengths of fetched tensors, and of the elements of tensor arrays."""
    known = _fed_lengths(feed) | {name: [lengths] for name, lengths in computed.items()}
    for value, own in zip(values, levels, strict=True):
        _note(value, own, known)


def _note(value: Any, levels: Levels, known: Known) -> None:
    if isinstance(value, Tensor):
        value._note_lengths(_numbers(levels, known, value))
    elif isinstance(value, list):
        elements: list[Any] = value
        for at, each in enumerate(elements):
            own = {name: [part[at] for part in known[name]] for name in known if name in levels}
            _note(each, levels, own)


def _fed_lengths(feed: Any) -> dict[str, list[Any]]:
    """Map the names of length variables to the lengths in a feed, or in those of all replicas."""
    known: dict[str, list[Any]] = {}
    for one in feed if isinstance(feed, (list, tuple)) else [feed]:
        for name, value in one.items() if isinstance(one, dict) else ():
            levels = lengths_fed(value)
            own = {fed_name(name, at, len(levels)): level for at, level in enumerate(levels)}
            for each, lengths in ({name: value} | own).items():
                known.setdefault(each, []).append(lengths)
    return known


def _numbers(levels: Levels, known: Known, tensor: Tensor) -> list[list[int]]:
    """Compute the lengths of a fetched tensor; [] if they are unknown or do not fit its rows."""
    rows = (tensor.shape() or [0])[0]
    found: list[list[int]] = []
    for level in levels:
        if isinstance(level, int):
            found.append([level] * (rows // level))
        elif isinstance(level, tuple):
            found.append(list(level))
        elif level in known:
            found.append([int(n) for part in known[level] for n in np.asarray(part).reshape(-1)])
        else:
            return []
    return found if found and sum(found[-1]) == rows else []
