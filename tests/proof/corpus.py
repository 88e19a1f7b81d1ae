"""Generated programs as a list, which depends on the seed only."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Sequence

from hypothesis.control import BuildContext
from hypothesis.internal.conjecture.data import ConjectureData, StopTest

from graphopt.passes.engine.fusion import Fusion, FusionPass
from graphopt.passes.fusions.fuse_dot_product_attention import FuseDotProductAttention
from graphopt.passes.table.registry import own_passes
from graphopt.testing.cleanup_patterns import (
    Arithmetic,
    Casts,
    Constants,
    Dropouts,
    Einsums,
    Gelus,
    Identities,
    MatrixChain,
    Rearrangements,
)
from graphopt.testing.mutations import TWISTS
from graphopt.testing.programs import Generated
from graphopt.testing.whole import whole_programs

FUSIONS: dict[str, type[FusionPass]] = {
    name: loaded
    for name, loaded in ((name, load()) for name, load in own_passes().items())
    # others have its pattern, on long sequences or for some devices
    if issubclass(loaded, FusionPass) and FuseDotProductAttention not in loaded.__mro__[1:]
}
# what to plant for passes that have no patterns
OTHERS: dict[str, Sequence[Fusion]] = {
    "fold-identity": [Identities()],
    "drop-dropout": [Dropouts()],
    "simplify": [Identities(), Arithmetic(), Casts(), Rearrangements()],
    "fold-constants": [Constants(), Identities()],
    "recognise-gelu": [Gelus()],
    "einsum-to-matmul": [Einsums()],
    "cse": [Identities(), *FUSIONS["fuse-elewise-add-act"].RULES],
    "reassociate-matmul": [MatrixChain()],
    "fuse-all-optimizer-ops": [MatrixChain()],
    "fuse-adamw": [MatrixChain()],
    "sync-batch-norm": FUSIONS["fuse-bn-act"].RULES,
}


def planted_for(name: str) -> Sequence[Fusion]:
    """Return the patterns planted for this pass; none if no programs are generated for it."""
    return FUSIONS[name].RULES if name in FUSIONS else OTHERS.get(name, ())


def all_patterns() -> list[Fusion]:
    """List every pattern and every idiom."""
    idioms = [Identities(), Identities(), Constants(), MatrixChain(), Gelus(), Einsums()]
    return [*idioms, *(rule for fusion in FUSIONS.values() for rule in fusion.RULES)]


def collect(
    plant: Sequence[Fusion],
    count: int,
    first: int = 0,
    twists: Sequence[str] = tuple(TWISTS),
    inference: bool = False,
) -> list[Generated]:
    """Generate `count` whole programs with some of these patterns, by seeds from `first` on.

    Each program has its own draws: programs that `given` makes in a row are much alike.
    """
    strategy = whole_programs(plant=plant, twists=twists, inference=inference)
    found: list[Generated] = []
    for seed in itertools.count(first):
        if len(found) == count:
            break
        data = ConjectureData(random=random.Random(seed))
        # some strategies note what they draw in the context of a test
        context = BuildContext(data, is_final=False, wrapped_test=collect)
        with contextlib.suppress(StopTest), context:  # more draws than Hypothesis allows for
            found.append(data.draw(strategy))
    return found
