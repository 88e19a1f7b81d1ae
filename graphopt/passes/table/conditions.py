"""When a row of the pass table applies: conditions on what is known before a pass runs."""

from __future__ import annotations

from collections.abc import Callable

from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import refusal_of

Condition = Callable[[PassContext, str], bool]
"""(what is known, the row's flag) -> True when the row's pass runs."""


def is_set(context: PassContext, flag: str) -> bool:
    """The flag is on."""
    return bool(context.flags.get(flag))


def asked(context: PassContext, flag: str) -> bool:
    """The flag is on and no other flag rules it out."""
    return is_set(context, flag) and not refusal_of(context, flag)


def not_asked(other: str) -> Condition:
    """Another flag is off, or ruled out."""
    return lambda context, flag: not asked(context, other)


def with_strategy(context: PassContext, flag: str) -> bool:
    """There is a strategy; a plain program runs as it was written."""
    return bool(context.flags)


def on(*platforms: str) -> Condition:
    """The program runs on one of these platforms, with or without a strategy."""
    return lambda context, flag: context.platform in platforms


def apart(context: PassContext, flag: str) -> bool:
    """One replica on a CPU: values computed apart from the step can be kept."""
    return context.platform == "cpu" and not context.communicates


def communicates(context: PassContext, flag: str) -> bool:
    """Several replicas run the program; one device has no collectives."""
    return context.communicates


def several_trainers(context: PassContext, flag: str) -> bool:
    """Several processes train together."""
    return context.trainers > 1


def reduces(reduction: str) -> Condition:
    """Several replicas combine their gradients in this way."""
    return lambda context, flag: context.communicates and context.reduction == reduction


def scales(context: PassContext, flag: str) -> bool:
    """The seed of the derivative is not one."""
    strategy = context.loss_scale
    return strategy == "Customized" or (strategy != "One" and context.ranks > 1)


def kernel(name: str) -> Condition:
    """The devices have this library's kernel for attention."""
    return lambda context, flag: context.attention_kernel == name


def any_kernel(context: PassContext, flag: str) -> bool:
    """The devices have some library's kernel for attention."""
    return bool(context.attention_kernel)


def every_of(*conditions: Condition) -> Condition:
    """All of the conditions hold."""
    return lambda context, flag: all(condition(context, flag) for condition in conditions)
