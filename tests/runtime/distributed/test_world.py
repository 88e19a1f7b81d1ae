"""The trainers' settings in the environment: reading, checks, and refusal with the reason."""

from __future__ import annotations

import pytest

import graphopt as paddle
from graphopt.errors import UnsupportedError, WorldError
from graphopt.runtime.distributed.world import Timeouts, split_endpoint, world_of_environment

TWO = {
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:6170,10.0.0.2:6170",
}


def test_environment() -> None:
    """Numbers, endpoints and timeouts are read."""
    limits = {"GRAPHOPT_START_TIMEOUT": "5", "GRAPHOPT_SILENCE_TIMEOUT": "2.5"}
    world = world_of_environment({**TWO, **limits})
    assert world is not None
    assert (world.trainer, world.trainers) == (1, 2)
    assert world.meeting_place == ("10.0.0.1", 6170)
    assert world.timeouts == Timeouts(start=5.0, silence=2.5, step=600.0)


def test_tokens() -> None:
    """Trainers of one job share a token, also when the environment has none."""
    tokens = {
        getattr(world_of_environment({**TWO, "PADDLE_TRAINER_ID": number}), "token", "")
        for number in ("0", "1")
    }
    (token,) = tokens
    elsewhere = world_of_environment({**TWO, "PADDLE_TRAINER_ENDPOINTS": "10.0.0.3:6170"})
    given = world_of_environment({**TWO, "GRAPHOPT_JOB_TOKEN": "secret"})
    assert token
    assert elsewhere is not None and elsewhere.token not in ("", token)
    assert given is not None and given.token == "secret"


def test_master_alone() -> None:
    """PADDLE_MASTER is trainer 0's endpoint, as with the launcher of Paddle 2.x."""
    here = {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ID": "2", "PADDLE_MASTER": "a:1"}
    world = world_of_environment(here)
    assert world is not None
    assert world.meeting_place == ("a", 1)
    assert world.name(2) == "trainer 2"


@pytest.mark.parametrize("environment", [{}, {"PADDLE_TRAINERS_NUM": "1"}])
def test_alone(environment: dict[str, str]) -> None:
    """A single process is no job."""
    assert world_of_environment(environment) is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"PADDLE_TRAINER_ID": "2"}, "the trainer id is 2, but this is a job of 2 trainers"),
        ({"PADDLE_TRAINER_ID": "-1"}, "the trainer id is -1"),
        ({"PADDLE_TRAINER_ID": ""}, "PADDLE_TRAINER_ID is ''"),
        ({"PADDLE_TRAINERS_NUM": "two"}, "PADDLE_TRAINERS_NUM is 'two'"),
        ({"PADDLE_TRAINERS_NUM": "3"}, "3 trainers and 2 endpoints"),
        ({"PADDLE_TRAINERS_NUM": "0"}, "must be 1 or more"),
        ({"PADDLE_TRAINER_ENDPOINTS": ""}, "PADDLE_TRAINER_ENDPOINTS names no trainer"),
        ({"PADDLE_TRAINER_ENDPOINTS": "a:1,b"}, "'b' is not an endpoint"),
        ({"GRAPHOPT_STEP_TIMEOUT": "0"}, "GRAPHOPT_STEP_TIMEOUT is '0'"),
        ({"GRAPHOPT_START_TIMEOUT": "soon"}, "GRAPHOPT_START_TIMEOUT is 'soon'"),
    ],
)
def test_refused(changed: dict[str, str], told: str) -> None:
    """Contradictory settings are named."""
    with pytest.raises(WorldError, match=told):
        world_of_environment({**TWO, **changed})


def test_endpoints() -> None:
    """An endpoint is host and port, also with IPv6."""
    assert split_endpoint("[::1]:80") == ("::1", 80)
    for wrong in ("", "host", ":1", "host:", "host:0", "host:65536", "host:x", "host:²"):
        with pytest.raises(WorldError, match="is not an endpoint"):
            split_endpoint(wrong)


def test_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """paddle.distributed reports the environment's numbers; groups are refused."""
    dist = paddle.distributed
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    dist.init_parallel_env()
    dist.barrier()
    assert not dist.is_initialized()
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    assert (dist.get_rank(), dist.get_world_size()) == (1, 2)
    told = dist.ParallelEnv()
    assert (told.rank, told.local_rank, told.nranks) == (1, 1, 2)
    assert told.current_endpoint == "10.0.0.2:6170"
    assert told.trainer_endpoints == ["10.0.0.1:6170", "10.0.0.2:6170"]
    with pytest.raises(UnsupportedError, match="one group"):
        dist.barrier(group=0)
    with pytest.raises(UnsupportedError, match="with_data_parallel"):
        dist.reduce(None, 0)
