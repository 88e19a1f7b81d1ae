"""When a row of the pass table applies: conditions on what is known before a pass runs."""

from __future__ import annotations

from collections.abc import Callable

from graphopt.passes.table.conflicts import refusal_of
from graphopt.passes.table.context import Setup

Condition = Callable[[Setup, str], bool]
"""(what is known, the row's flag) -> True when the row's pass runs."""


def is_set(setup: Setup, flag: str) -> bool:
    """The flag is on."""
    return bool(setup.flags.get(flag))


def asked(setup: Setup, flag: str) -> bool:
    """The flag is on and no other flag rules it out."""
    return is_set(setup, flag) and not refusal_of(setup, flag)


def not_asked(other: str) -> Condition:
    """Another flag is off, or ruled out."""
    return lambda setup, flag: not asked(setup, other)


def with_strategy(setup: Setup, flag: str) -> bool:
    """There is a strategy; a plain program runs as it was written."""
    return bool(setup.flags)


def on(*platforms: str) -> Condition:
    """The program runs on one of these platforms, with or without a strategy."""
    return lambda setup, flag: setup.platform in platforms


def apart(setup: Setup, flag: str) -> bool:
    """One replica on a CPU: values computed apart from the step can be kept."""
    return setup.platform == "cpu" and not setup.communicates


def communicates(setup: Setup, flag: str) -> bool:
    """Several replicas run the program; one device has no collectives."""
    return setup.communicates


def several_trainers(setup: Setup, flag: str) -> bool:
    """Several processes train together."""
    return setup.trainers > 1


def reduces(reduction: str) -> Condition:
    """Several replicas combine their gradients in this way."""
    return lambda setup, flag: setup.communicates and setup.reduction == reduction


def scales(setup: Setup, flag: str) -> bool:
    """The seed of the derivative is not one."""
    strategy = setup.loss_scale
    return strategy == "Customized" or (strategy != "One" and setup.ranks > 1)


def kernel(name: str) -> Condition:
    """The devices have this library's kernel for attention."""
    return lambda setup, flag: setup.attention_kernel == name


def any_kernel(setup: Setup, flag: str) -> bool:
    """The devices have some library's kernel for attention."""
    return bool(setup.attention_kernel)


def every_of(*conditions: Condition) -> Condition:
    """All of the conditions hold."""
    return lambda setup, flag: all(condition(setup, flag) for condition in conditions)
