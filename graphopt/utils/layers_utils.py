"""Nested lists, tuples and dicts as arguments of layers (paddle.utils.layers_utils)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from graphopt.frontend.nest import difference, leaves, rebuild
from graphopt.ir.program import Variable


def convert_to_list(value: Any, n: int, name: str, dtype: Any = int) -> list[Any]:
    """Convert a value to n numbers; a single number is repeated n times.

    ValueError when there are not n items, or an item is not a number.
    """
    if isinstance(value, dtype):
        return [value] * n
    if not isinstance(value, Iterable):
        raise ValueError(f"'{name}' must be a number, a list or a tuple, found {value!r}")
    items = list(cast("Iterable[Any]", value))
    if len(items) != n:
        raise ValueError(f"'{name}' must have {n} items, found {value!r}")
    for item in items:
        try:
            dtype(item)
        except (ValueError, TypeError):
            raise ValueError(
                f"'{name}' must have {n} items of type {dtype.__name__}, found {item!r}"
            ) from None
    return items


def is_sequence(seq: Any) -> bool:
    """True for lists, tuples, dicts and other sequences; False for text."""
    return isinstance(seq, (Sequence, dict)) and not isinstance(seq, str)


def flatten(nest: Any) -> list[Any]:
    """List the leaves of a structure, in order; dicts by sorted key."""
    return leaves(nest)


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Replace the leaves of a structure; ValueError for another number of leaves."""
    if not is_sequence(flat_sequence):
        raise TypeError("pack_sequence_as(): 'flat_sequence' must be a sequence")
    wanted = len(leaves(structure))
    if len(flat_sequence) != wanted:
        raise ValueError(
            f"pack_sequence_as(): the structure has {wanted} elements, 'flat_sequence' "
            f"{len(flat_sequence)}"
        )
    return rebuild(structure, list(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """Apply `func` to the corresponding leaves of all structures; keep the first one's form."""
    parts = zip(*map(leaves, structure), strict=False)
    return pack_sequence_as(structure[0], [func(*part) for part in parts])


def hold_mutable_vars(structure: Iterable[Any]) -> bool:
    """True if an item of the structure is a sequence or a dict."""
    return any(is_sequence(item) for item in structure)


def copy_mutable_vars(structure: Any) -> Any:
    """Copy the lists and dicts of a structure, but not its leaves."""
    return pack_sequence_as(structure, flatten(structure))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise ValueError unless the structures have the same form, TypeError for different types.

    Without `check_types` a list and a tuple are the same.
    """
    found = difference(nest1, nest2)
    if found is not None:
        raise ValueError(f"assert_same_structure(): the structures differ: {found}")
    if check_types:
        _assert_same_types(nest1, nest2)


def _assert_same_types(one: Any, other: Any) -> None:
    if not is_sequence(one):
        return
    if type(one) is not type(other):
        raise TypeError(
            f"assert_same_structure(): a {type(one).__name__} and a {type(other).__name__}"
        )
    keys: Iterable[Any] = cast("Any", one) if isinstance(one, Mapping) else range(len(one))
    for key in keys:
        _assert_same_types(one[key], other[key])


def _contain_var(list_or_tuple: Iterable[Any]) -> bool:
    """True if one of the items is a Variable."""
    return any(isinstance(item, Variable) for item in list_or_tuple)


def _is_symmetric_padding(padding: Sequence[int], data_dim: int) -> bool:
    """True if both ends of each dimension have one padding; either may be given only once."""
    if len(padding) not in (data_dim, 2 * data_dim):
        raise AssertionError(f"padding of {data_dim} dimensions has {len(padding)} numbers")
    return len(padding) == data_dim or list(padding[::2]) == list(padding[1::2])
