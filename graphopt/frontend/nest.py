"""Nested lists, tuples and dicts: their leaves, and structures of the same form."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, cast


def items_of(value: Any) -> list[Any]:
    """List the items of a list or a tuple; any other value is one item."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def as_list(value: Any) -> list[Any]:
    """List the items of a value as `items_of`; None has none."""
    return [] if value is None else items_of(value)


def leaves(tree: Any, whole: Container[int] = ()) -> list[Any]:
    """List the leaves of a structure in order, dicts by sorted key. Any other value is one leaf.

    So are the lists, tuples and dicts whose `id` is in `whole`.
    """
    return list(_walk(tree, whole))


def _walk(tree: Any, whole: Container[int]) -> Iterator[Any]:
    if id(tree) in whole:
        yield tree
    elif isinstance(tree, dict):
        for key in sorted(cast(dict[Any, Any], tree), key=str):
            yield from _walk(tree[key], whole)
    elif isinstance(tree, (list, tuple)):
        for item in cast(list[Any], tree):
            yield from _walk(item, whole)
    else:
        yield tree


def rebuild(tree: Any, values: list[Any], whole: Container[int] = ()) -> Any:
    """Build a structure of the form of `tree` from the replacements of its `leaves`."""
    remaining = iter(values)

    def again(part: Any) -> Any:
        if id(part) in whole:
            return next(remaining)
        if isinstance(part, dict):
            made = {key: again(part[key]) for key in sorted(cast(dict[Any, Any], part), key=str)}
            return {key: made[key] for key in cast(dict[Any, Any], part)}
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*(again(item) for item in cast(tuple[Any, ...], part)))
        if isinstance(part, (list, tuple)):
            return type(part)(again(item) for item in cast(list[Any], part))  # pyright: ignore
        return next(remaining)

    return again(tree)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `function` to each leaf of a structure."""
    return rebuild(tree, [function(leaf) for leaf in leaves(tree)])


def difference(a: Any, b: Any, where: str = "") -> str | None:
    """Describe the difference in form of two structures; None when they have the same form.

    A list and a tuple of the same length have the same form.
    """
    at = f" at {where}" if where else ""
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast(dict[Any, Any], a), cast(dict[Any, Any], b)
        if left.keys() != right.keys():
            keys = sorted(map(str, left)), sorted(map(str, right))
            return f"dicts with the keys {keys[0]} and {keys[1]}{at}"
        pairs = [(key, left[key], right[key]) for key in left]
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(cast(list[Any], a)) != len(cast(list[Any], b)):
            return f"{len(cast(list[Any], a))} and {len(cast(list[Any], b))} values{at}"
        pairs = [(i, *pair) for i, pair in enumerate(zip(a, b, strict=True))]  # pyright: ignore
    elif isinstance(a, (dict, list, tuple)) or isinstance(b, (dict, list, tuple)):
        return f"a {_kind(a)} and a {_kind(b)}{at}"
    else:
        return None
    for key, left, right in pairs:
        found = difference(left, right, f"{where}[{key!r}]")
        if found is not None:
            return found
    return None


def _kind(value: Any) -> str:
    return cast(type[Any], type(value)).__name__
