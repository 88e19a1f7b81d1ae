"""Every flag on and off over generated programs, and the order of the passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from graphopt.debug.compare import assert_same_results
from graphopt.passes.engine.fusion import FusionPass
from graphopt.passes.table.conditions import ANY_PROGRAM, ANY_STRATEGY
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.order import ROWS
from graphopt.passes.table.registry import own_passes
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt.testing.transformers import planter_of
from graphopt_tests.passes.flags.nets import strategy

FLAGS = [
    name
    for name, flag in BUILD_FLAGS.items()
    if isinstance(flag.default, bool) or name == "memory_optimize"
]
PATTERNS = [
    rule
    for name, load in own_passes().items()
    # no flag selects it, and its convolutions have the channels last
    if name != "fuse-conv-epilogue"
    if issubclass(load(), FusionPass)
    for rule in load().RULES  # pyright: ignore
    if planter_of(rule) is None
]


def check(generated: Generated, flags: dict[str, bool]) -> None:
    """Check that results, parameters and fetched temporaries are the same with these flags."""
    module = generated.module.clone()
    optimize(module, strategy(**flags).pass_context(), verify_each=True)
    assert_same_results(generated.module, module)


def examples(count: int) -> Any:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.explicit),
    )


@pytest.mark.exhaustive
@examples(4)
@given(programs(plant=PATTERNS), st.fixed_dictionaries(dict.fromkeys(FLAGS, st.booleans())))
def test_some_flags(generated: Generated, flags: dict[str, bool]) -> None:
    """A random half of the flags preserves all results."""
    check(generated, flags)


@pytest.mark.exhaustive
@examples(2)
@given(programs(plant=PATTERNS))
def test_all_flags(generated: Generated) -> None:
    """All flags at once preserve all results."""
    check(generated, dict.fromkeys(FLAGS, True))


@pytest.mark.slow
@pytest.mark.parametrize("flag", FLAGS)
@examples(20)
@given(programs(plant=PATTERNS))
def test_one_flag(flag: str, generated: Generated) -> None:
    """Each flag, on and off, preserves all results."""
    check(generated, {flag: True})
    check(generated, {flag: False})


def test_the_order_of_the_passes() -> None:
    """The order is Paddle's, except that the larger of two patterns comes first.

    Paddle tries fused_feedforward last, when its smaller fusions have taken its parts.
    """
    on = strategy(**dict.fromkeys(FLAGS, True), reduce_strategy="AllReduce")
    names = on._finalize_strategy_and_create_passes()
    order = [row.pass_name for row in ROWS if row.flag not in (ANY_STRATEGY, ANY_PROGRAM)]
    names = [name for name in names if name in order]
    assert [name for name in order if name in names] == names
    paddle_order = [
        "sync-batch-norm",
        "fuse-relu-depthwise-conv",
        "fused-attention",
        "fuse-gemm-epilogue",
        "fuse-elewise-add-act",
        "fuse-all-optimizer-ops",
    ]
    places = [order.index(name) for name in paddle_order]
    assert places == sorted(places)
    behind = ["all-reduce-gradients", "fence-updates", "order-collectives"]
    assert [name for name in order if name in behind] == [*behind, "order-collectives"]
