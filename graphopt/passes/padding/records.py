"""Padded axes and additional feeds as JSON and back.

Reading raises whatever malformed records lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from graphopt.passes.padding.dims import Axes, Dim, Extent, Factor, Grown
from graphopt.passes.padding.masked import FedCache, Masked

Record = dict[str, Any]


def axes_record(axes: Mapping[str, Axes]) -> Record:
    """Encode the padded axes of feeds or fetches."""
    return {name: [_dim_record(dim) for dim in each] for name, each in axes.items()}


def axes_of(record: Mapping[str, Any]) -> dict[str, Axes]:
    """Decode the padded axes of a record."""
    return {name: tuple(map(_dim_of, each)) for name, each in record.items()}


def masked_record(masked: Masked) -> Record:
    """Encode the additional feeds of a masked program."""
    return {
        "masks": [_dim_record(dim) for dim in masked.masks],
        "counts": [_dim_record(dim) for dim in masked.counts],
        "fetches": axes_record(masked.fetches),
        "extents": [asdict(extent) for extent in sorted(masked.extents, key=str)],
        "equal": [[_dim_record(dim) for dim in pair] for pair in sorted(masked.equal, key=str)],
        "caches": [asdict(cache) for cache in masked.caches],
        "feeds": axes_record(masked.feeds),
        "limits": [[asdict(size), most] for size, most in sorted(masked.limits, key=str)],
    }


def masked_of(record: Mapping[str, Any]) -> Masked:
    """Decode the additional feeds of a record."""
    return Masked(
        tuple(_factors_of(dim) for dim in record["masks"]),
        tuple(_factors_of(dim) for dim in record["counts"]),
        axes_of(record["fetches"]),
        frozenset(_extent_of(extent) for extent in record["extents"]),
        frozenset((_factors_of(one), _factors_of(other)) for one, other in record["equal"]),
        tuple(_cache_of(cache) for cache in record["caches"]),
        axes_of(record["feeds"]),
        frozenset((_grown_of(size), int(most)) for size, most in record["limits"]),
    )


def _cache_of(record: Mapping[str, Any]) -> FedCache:
    return FedCache(
        *(str(record["feed"]), str(record["fetch"])),
        *(int(record["axis"]), int(record["by"]), bool(record["in_place"])),
    )


def _dim_record(dim: Dim | None) -> list[Any] | None:
    if dim is None:
        return None
    return [asdict(each) if isinstance(each, Extent | Grown) else each for each in dim]


def _dim_of(record: Sequence[Any] | None) -> Dim | None:
    return None if record is None else _factors_of(record)


def _factors_of(record: Sequence[Any]) -> Dim:
    return tuple(map(_factor_of, record))


def _factor_of(record: Any) -> Factor:
    if isinstance(record, dict):
        fields = cast("Mapping[str, Any]", record)
        return _grown_of(fields) if "by" in fields else _extent_of(fields)
    if not isinstance(record, str | int):
        raise TypeError(f"expected a name or a number, found {record!r}")
    return record


def _extent_of(record: Mapping[str, Any]) -> Extent:
    numbers = {key: int(value) for key, value in record.items() if key != "name"}
    return Extent(str(record["name"]), **numbers)


def _grown_of(record: Mapping[str, Any]) -> Grown:
    return Grown(str(record["name"]), int(record["by"]))
