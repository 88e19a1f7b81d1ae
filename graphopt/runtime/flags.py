"""FLAGS_… names: Paddle's global switches, set in a script or in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

_flags: dict[str, Any] = {}

# the flags that have an effect here, as passes/pipeline.py knows them, with Paddle's defaults
COALESCING: Mapping[str, float] = {
    "FLAGS_fuse_parameter_memory_size": -1.0,
    "FLAGS_fuse_parameter_groups_size": 1,
}
WITHOUT = "FLAGS_graphopt_without"
CACHE = "FLAGS_graphopt_cache_dir"
DROPOUT = "FLAGS_graphopt_dropout"
GENERATORS = ("threefry", "hash")


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set FLAGS_… names (Paddle page: paddle.set_flags).

    From the next compilation on, FLAGS_fuse_parameter_memory_size (megabytes) and
    FLAGS_fuse_parameter_groups_size say how `fuse_all_reduce_ops` groups gradients. Three are not
    Paddle's: FLAGS_graphopt_without names passes to leave out, with commas between;
    FLAGS_graphopt_dropout is "threefry" (the default) or "hash", which is about ten times quicker
    to draw and drops other elements; FLAGS_graphopt_cache_dir, before the first compilation, is
    where compiled programs are kept for other processes (empty for nowhere). The others are
    switches of Paddle's own kernels and are only kept for `get_flags`.
    Raises TypeError unless `flags` is a dict, ValueError for names that do not start with FLAGS_
    and for a size that is no number.
    """
    if not isinstance(flags, Mapping):
        raise TypeError(f"set_flags(): 'flags' must be a dict, found {type(flags).__name__}")
    for name, value in flags.items():
        _flag_name(name, "set_flags")
        if name in COALESCING:
            _number(name, value)
    _flags.update(flags)


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """The values of FLAGS_… names, set here or in the environment (Paddle page: paddle.get_flags).

    Raises ValueError for a name that has no value.
    """
    names = [flags] if isinstance(flags, str) else list(flags)
    found: dict[str, Any] = {}
    for name in names:
        _flag_name(name, "get_flags")
        if name not in _flags and name not in os.environ and name not in COALESCING:
            raise ValueError(f"get_flags(): '{name}' has no value; set it with set_flags")
        found[name] = _flags.get(name, os.environ.get(name, COALESCING.get(name)))
    return found


def coalescing() -> dict[str, float]:
    """How gradients are grouped; ValueError when the environment does not give numbers."""
    return {name: _number(name, value) for name, value in get_flags(COALESCING).items()}


def left_out() -> frozenset[str]:
    """The names of the passes to leave out."""
    names = str(_flags.get(WITHOUT, os.environ.get(WITHOUT, ""))).split(",")
    return frozenset(name.strip() for name in names if name.strip())


def hashes_dropout() -> bool:
    """True when dropouts shall draw by hashing a counter; ValueError for an unknown generator."""
    name = str(_flags.get(DROPOUT, os.environ.get(DROPOUT, GENERATORS[0])))
    if name not in GENERATORS:
        raise ValueError(f"{DROPOUT} should be {' or '.join(GENERATORS)}, found {name!r}")
    return name == "hash"


def cache_directory() -> str | None:
    """Where compiled programs are kept: empty for nowhere, None when nobody has said."""
    given = _flags.get(CACHE, os.environ.get(CACHE))
    return None if given is None else str(given)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} should be a number, found {value!r}") from None


def _flag_name(name: Any, function: str) -> str:
    if isinstance(name, str) and name.startswith("FLAGS_"):
        return name
    raise ValueError(f"{function}(): a flag should be named FLAGS_…, found {name!r}")
