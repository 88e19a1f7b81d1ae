"""The ways to optimize a program: passes, flags, pairs of flags, prefixes of the table, orders."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.ir.dialect.context import new_context
from graphopt.passes.engine.fusion import Applied, FusionPass, Outcome, sweep
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.storage.stack_updates import StackUpdates
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.manager import PassRun, optimize
from graphopt.passes.table.order import ROWS, Phase
from graphopt.passes.table.registry import all_passes, own_passes
from graphopt.passes.table.schedule import select
from graphopt.passes.target.fusion_groups import GroupOps
from graphopt_tests.proof.shape import fingerprint

# a change of a module in place, and what it says that it did
Transform = Callable[[ModuleOp], list[Outcome]]
# these change what a program means, or need several devices: see test_data_parallel_properties
_PARALLEL = frozenset(
    {
        "all-reduce-gradients",
        "fuse-all-reduce-ops",
        "fuse-broadcast-ops",
        "mark-per-replica",
        "order-collectives",
        "scale-loss-grad",
        "shard-updates",
    }
)
# these change what a program takes and gives: see test_convolutions
_SIGNATURE = frozenset(
    name for name, load in own_passes().items() if getattr(load(), "changes_signature", False)
)
_VALUES = frozenset({"reduce_strategy", "gradient_scale_strategy"})
PASS_FLAGS = tuple(
    dict.fromkeys(row.flag for row in ROWS if row.flag in BUILD_FLAGS.keys() - _VALUES)
)
SINGLE = tuple(name for name in own_passes() if name not in _PARALLEL | _SIGNATURE)


def one_pass(made: ModulePass) -> Transform:
    """Build the transform of one pass."""

    def transform(module: ModuleOp) -> list[Outcome]:
        if isinstance(made, FusionPass):
            return sweep(module, [(made.name, rule) for rule in made.RULES])
        if isinstance(made, RewritePass):
            return made.rewrite(module)
        before = fingerprint(module)
        made.apply(new_context(), module)
        changed = fingerprint(module) != before
        return [Applied(made.name, "the program", (), "")] if changed else []

    return transform


def passes() -> Mapping[str, Transform]:
    """Map every pass alone. Thresholds of groups and stacks are low: the programs are small."""
    loaders = all_passes()
    made = {name: loaders[name]()() for name in [*SINGLE, "canonicalize", "dce"]}
    for name, each in made.items():
        if isinstance(each, GroupOps):
            made[name] = replace(each, least=1)
        elif isinstance(each, StackUpdates):
            made[name] = replace(each, fewest=2)
    return {f"pass {name}": one_pass(each) for name, each in made.items()}


def with_flags(*flags: str) -> Transform:
    """Build the pipeline with these flags."""
    context = PassContext(dict.fromkeys(flags, True), frozenset(flags))
    return lambda module: list(optimize(module, context, verify_each=False).outcomes)


def flags() -> Mapping[str, Transform]:
    """Map the pipeline with every flag alone."""
    idle = (name for name, flag in BUILD_FLAGS.items() if flag.no_effect)
    return {f"flag {name}": with_flags(name) for name in (*PASS_FLAGS, *idle)}


def pairs() -> Mapping[str, Transform]:
    """Map the pipeline with every pair of the flags that select a pass."""
    return {f"flags {a} {b}": with_flags(a, b) for a, b in combinations(PASS_FLAGS, 2)}


def everything() -> Mapping[str, Transform]:
    """Map the pipeline with all flags."""
    return {"all flags": with_flags(*PASS_FLAGS)}


def prefixes() -> Mapping[str, Transform]:
    """Map the first rows of the table, from one to all of them."""
    chosen = select(PassContext(dict.fromkeys(PASS_FLAGS, True)))

    def prefix(count: int) -> Transform:
        def transform(module: ModuleOp) -> list[Outcome]:
            run = PassRun(module, PassContext({}), verify_each=False)
            for phase in Phase:
                asked = [(row.flag, made) for row, made in chosen[:count] if row.phase is phase]
                if phase is Phase.FUSE:
                    run.fuse(asked)
                else:
                    for flag, made in asked:
                        run.one(flag, made)
            return list(run.report.outcomes)

        return transform

    return {f"first {n} rows": prefix(n) for n in range(1, len(chosen) + 1)}


def orders(count: int, seed: int = 0) -> Mapping[str, Transform]:
    """Map all passes one after another, in random orders."""
    loaders, chooser = own_passes(), random.Random(seed)

    def order(names: Sequence[str]) -> Transform:
        made = [one_pass(loaders[name]()()) for name in names]
        return lambda module: [outcome for each in made for outcome in each(module)]

    found: dict[str, Transform] = {}
    for number in range(count):
        names = list(SINGLE)
        chooser.shuffle(names)
        found[f"order {number}"] = order(names)
    return found
