"""Flags that another flag rules out, and flags that nothing here can obey.

Paddle switches such flags off in silence; here `explain` says so, and `strict` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphopt.errors import UnsupportedError

Flags = Mapping[str, Any]


@dataclass(frozen=True)
class Conflict:
    """A flag that is refused where `when` holds, and the sentence about it."""

    flag: str
    when: Callable[[Flags], bool]
    why: str


def reduces(flags: Flags) -> bool:
    """True when updates are sharded over the devices."""
    return getattr(flags.get("reduce_strategy"), "name", "AllReduce") == "Reduce"


CONFLICTS: tuple[Conflict, ...] = (
    Conflict(
        "fuse_all_optimizer_ops", reduces, "reduce_strategy=Reduce switches it off, as in Paddle"
    ),
    Conflict(
        "sequential_run",
        lambda flags: bool(flags.get("enable_sequential_execution")),
        "enable_sequential_execution orders the same collectives",
    ),
)

# What a program cannot run with, and what to do instead.
UNSUPPORTED: Mapping[str, str] = {
    "async_mode": "there is no parameter server: parameters are updated in step; use "
    "with_data_parallel, which averages the gradients of all devices",
    "is_distribution": "there is no parameter server: use with_data_parallel, and num_trainers for "
    "several processes",
}


def refusal_of(flags: Flags, flag: str) -> str:
    """Why a flag that is set is not obeyed; empty when it is."""
    if not flags.get(flag):
        return ""
    if flag in UNSUPPORTED:
        return f"{UNSUPPORTED[flag]} (compiling raises)"
    found = (entry.why for entry in CONFLICTS if entry.flag == flag and entry.when(flags))
    return next(found, "")


def check_supported(flags: Flags) -> None:
    """UnsupportedError for a flag that a program cannot run with."""
    for flag, why in UNSUPPORTED.items():
        if flags.get(flag):
            raise UnsupportedError(f"BuildStrategy.{flag} = True: {why}")
