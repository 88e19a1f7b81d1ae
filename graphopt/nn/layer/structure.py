"""Nested lists, tuples and dicts of Variables, as cells take and return them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, (list, tuple, dict))


def map_structure(
    function: Callable[..., Any], *nested: Any, is_leaf: Callable[[Any], bool] = _is_leaf
) -> Any:
    """Apply `function` to the leaves at equal places of structures of one form.

    The result has that form. `is_leaf` decides on the first structure. Raises ValueError when the
    forms differ.
    """
    one = nested[0]
    if is_leaf(one) or _is_leaf(one):
        return function(*nested)
    if any(_is_leaf(other) or len(other) != len(one) for other in nested[1:]):
        raise ValueError(f"two structures nest in different ways: {nested[0]} and {nested[1:]}")
    if isinstance(one, dict):
        return {
            key: map_structure(function, *(other[key] for other in nested), is_leaf=is_leaf)
            for key in one
        }
    items = [
        map_structure(function, *parts, is_leaf=is_leaf) for parts in zip(*nested, strict=True)
    ]
    return type(one)(*items) if hasattr(one, "_fields") else type(one)(items)


def leaves(nested: Any) -> Iterator[Any]:
    """Yield the leaves in order."""
    if isinstance(nested, dict):
        for item in nested.values():
            yield from leaves(item)
    elif isinstance(nested, (list, tuple)):
        for item in nested:
            yield from leaves(item)
    else:
        yield nested


def first(nested: Any) -> Any:
    """Return the first leaf; None when there is none."""
    return next(leaves(nested), None)
