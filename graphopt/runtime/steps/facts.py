"""The properties of a step that decide its forms, read from its program, its feeds, and flags."""

from __future__ import annotations

from dataclasses import replace

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.settings.flags import AUTO, must_repeat, tier_flag
from graphopt.runtime.state.arrays import FedArrays
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.steps.costs import ProgramCosts
from graphopt.runtime.steps.policy import Facts

SHARE = 0.15
"""The share of the compile time that the products and updates of a step may take in NumPy."""


def find_facts(
    compiled: Compiled, replicated: Replicated, fed: FedArrays, costs: ProgramCosts
) -> Facts:
    """Collect the facts of a step with these feeds; ValueError for an unknown flag.

    For a step that NumPy computes, build its first form in `costs`. It is not computed by NumPy if
    feeds of as many elements have taken NumPy too long.
    """
    facts = Facts(
        tier_flag(),
        _why_only_full(compiled, replicated),
        must_repeat(),
        trains_from_seed(compiled),
        compiled.size,
    )
    if not facts.may_be_on_host:
        return facts
    if count_elements(fed) >= costs.slow_elements:
        return facts
    if costs.host is None:
        # it imports the reference rules
        from graphopt.runtime.host.form import HostForm, has_host_form

        if not has_host_form(compiled):
            return facts
        costs.host = HostForm(compiled)
    host, price, trains = costs.host, compiled.price, bool(compiled.plan.written)
    facts = replace(facts, price=price, trains=trains, loops=host.has_loops)
    if not trains:
        return replace(facts, on_host=True)
    seconds = host.training_seconds(fed)
    is_long = facts.asked == AUTO and seconds > SHARE * price
    return facts if is_long else replace(facts, on_host=True, seconds=seconds)


def count_elements(fed: FedArrays) -> int:
    """Count the elements of feeds."""
    return sum(count_elements(tuple(one)) if isinstance(one, list) else one.size for one in fed)


def shall_repeat(compiled: Compiled) -> bool:
    """Return whether all runs must end with the same bits, so that no time may decide."""
    return must_repeat() or trains_from_seed(compiled)


def trains_from_seed(compiled: Compiled) -> bool:
    """Return whether a program trains from a seed, so that its runs end with the same bits.

    The form of a step may change sooner or later in another run, and with it the rounding.
    """
    seeded = default_generator().seeded or compiled.compilation.program.random_seed != 0
    return bool(compiled.plan.written) and seeded


def _why_only_full(compiled: Compiled, replicated: Replicated) -> str:
    """Return why a program has only the full form; "" if it has others."""
    if compiled.compilation.places[0].platform != "cpu":
        return "there is a quick form for CPUs only"
    if replicated.name == "by_op":
        return "its operators are compiled one by one"
    if replicated.name != "alone":
        return "programs for several devices are compiled once, with full effort"
    if compiled.calls_python:
        return "it calls Python"
    return ""
