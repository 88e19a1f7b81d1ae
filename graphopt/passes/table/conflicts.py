"""Flags that another flag rules out, and flags that nothing here can obey.

Paddle switches such flags off in silence; here `explain` says so, and `strict` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphopt.errors import UnsupportedError
from graphopt.passes.table.context import Flags, PassContext


@dataclass(frozen=True)
class Conflict:
    """A flag that is refused where `when` holds, and the sentence about it."""

    flag: str
    when: Callable[[PassContext], bool]
    why: str


def _reduces(context: PassContext) -> bool:
    """True when updates are spread over the devices, so that there are no sums of gradients."""
    return context.reduction == "Reduce"


def _asks_for_parts(context: PassContext) -> bool:
    return getattr(context.flags.get("reduce_strategy"), "name", "") == "Reduce"


def _keeps_whole(context: PassContext) -> bool:
    """True when every device has all parameters, so that nothing is gathered."""
    return context.reduction != "Reduce"


CONFLICTS: tuple[Conflict, ...] = (
    Conflict(
        "fuse_all_reduce_ops", _reduces, "reduce_strategy=Reduce switches it off, as in Paddle"
    ),
    Conflict(
        "fuse_all_optimizer_ops", _reduces, "reduce_strategy=Reduce switches it off, as in Paddle"
    ),
    Conflict(
        "fuse_broadcast_ops",
        _keeps_whole,
        "reduce_strategy=AllReduce switches it off, as in Paddle",
    ),
    Conflict(
        "reduce_strategy",
        lambda context: _asks_for_parts(context) and not _reduces(context) and context.trainers > 1,
        "state is spread over the devices of a process, and each has one: as with AllReduce",
    ),
    Conflict(
        "sequential_run",
        lambda context: bool(context.flags.get("enable_sequential_execution")),
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


def refusal_of(context: PassContext, flag: str) -> str:
    """The reason why a flag that is set is not obeyed; empty when it is."""
    if not context.flags.get(flag):
        return ""
    if flag in UNSUPPORTED:
        return f"{UNSUPPORTED[flag]} (compiling raises)"
    found = (entry.why for entry in CONFLICTS if entry.flag == flag and entry.when(context))
    return next(found, "")


def refused(context: PassContext) -> Mapping[str, str]:
    """The flags that the user has set and that another one rules out, each with the sentence."""
    flags = dict.fromkeys(entry.flag for entry in CONFLICTS if entry.flag in context.asked)
    return {flag: why for flag in flags if (why := refusal_of(context, flag))}


def check_supported(flags: Flags) -> None:
    """UnsupportedError for a flag that a program cannot run with."""
    for flag, why in UNSUPPORTED.items():
        if flags.get(flag):
            raise UnsupportedError(f"BuildStrategy.{flag} = True: {why}")
