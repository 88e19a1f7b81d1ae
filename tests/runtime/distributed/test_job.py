"""The trainers in a BuildStrategy, compared with the job that a process has joined."""

from __future__ import annotations

from typing import Any

import pytest

from graphopt import static
from graphopt.errors import WorldError
from graphopt.passes.table.flags import refused_flags
from graphopt.runtime.distributed.job import job_of, strategy_for
from graphopt.runtime.distributed.world import World

WORLD = World(1, ("a:1", "b:1"), 2)


def strategy(**flags: Any) -> static.BuildStrategy:
    """Make a strategy with these flags."""
    made = static.BuildStrategy()
    for name, value in flags.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"num_trainers": 1},
        {"num_trainers": 2, "trainer_id": 1, "trainers_endpoints": ["a:1", "b:1"]},
    ],
)
def test_the_job_counts(flags: dict[str, Any]) -> None:
    """The strategy gets the job's number of trainers; the script's object does not change."""
    given = strategy(**flags)
    assert strategy_for(WORLD, given).num_trainers == 2
    assert given.num_trainers == flags.get("num_trainers", 1)


@pytest.mark.parametrize(
    ("flag", "value"),
    [("num_trainers", 3), ("trainer_id", 0), ("trainers_endpoints", ["a:1", "c:1"])],
)
def test_another_job_is_refused(flag: str, value: Any) -> None:
    """A strategy that disagrees with the job raises an error that names both."""
    with pytest.raises(WorldError, match=f"build_strategy.{flag} is .* has joined says"):
        strategy_for(WORLD, strategy(**{flag: value}))


def test_reduce_with_one_device_in_each_process() -> None:
    """Reduce has no devices to spread state over, and `explain` reports it."""
    reduce = static.BuildStrategy.ReduceStrategy.Reduce
    given = strategy_for(WORLD, strategy(reduce_strategy=reduce))
    one, two = (given.pass_context(replicas=count, data_parallel=True) for count in (1, 2))
    assert (one.reduction, two.reduction) == ("AllReduce", "Reduce")
    assert "state cannot be spread over its devices" in refused_flags(one)["reduce_strategy"]
    assert "reduce_strategy" not in refused_flags(two)


def test_trainers_that_nobody_knows() -> None:
    """Without endpoints, or with a wrong number of them, there is no job."""
    assert job_of(strategy()) is None
    with pytest.raises(WorldError, match="has joined no job"):
        job_of(strategy(num_trainers=2))
    with pytest.raises(WorldError, match="2 trainers and 3 endpoints"):
        job_of(strategy(num_trainers=2, trainers_endpoints=["a:1", "b:1", "c:1"]))
