"""Feeds of sequences run in buckets by default, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.fluid as fluid
from graphopt.ir.program import unique_name
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.runners import bucketed
from graphopt.runtime.steps import costs
from graphopt.runtime.steps.costs import ProgramCosts
from graphopt_tests.runtime.bucket_runs import assert_close

Build = Callable[[], list[Any]]
Feed = Callable[[Any], dict[str, Any]]
BATCH = 4


@pytest.fixture(autouse=True)
def _static() -> Any:
    paddle.enable_static()
    yield
    paddle.set_flags({"FLAGS_graphopt_buckets": "auto"})


def trained(build: Build, feed: Feed, steps: int, setting: str) -> tuple[list[Any], Any, Any]:
    """Train for some steps; return fetches, parameters and statistics."""
    paddle.set_flags({"FLAGS_graphopt_buckets": setting})
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with (
        unique_name.guard(),
        fluid.program_guard(main, startup),
        fluid.scope_guard(fluid.Scope()),
    ):
        fetches = build()
        exe = fluid.Executor(fluid.CPUPlace())
        if startup.global_block().ops:
            exe.run(startup)
        generator = np.random.default_rng(3)
        found = [exe.run(main, feed(generator), fetches) for _ in range(steps)]
        scope = fluid.global_scope()
        state = {
            v.name: np.array(scope.find_var(v.name).get_tensor())
            for v in main.list_vars()
            if v.persistable and scope.find_var(v.name) is not None
        }
        return found, state, exe.stats


def assert_same(build: Build, feed: Feed, steps: int = 4) -> Any:
    """Check that buckets change no fetch and no parameter; return their statistics."""
    wanted, state, exact = trained(build, feed, steps, "off")
    found, changed, stats = trained(build, feed, steps, "auto")
    assert "rows" not in exact
    assert stats["exact"] == []
    assert stats["compiled_shapes"] < exact["compiled_shapes"]
    assert_close(wanted, state, found, changed)
    return stats


def rows(generator: Any, most: int, lengths: Any, *, columns: bool = True) -> Any:
    shape = (int(sum(lengths)), 1) if columns else (int(sum(lengths)),)
    numbers = generator.integers(0, most, shape)
    return fluid.create_lod_tensor(numbers, [[int(n) for n in lengths]], fluid.CPUPlace())


def some_lengths(generator: Any) -> Any:
    """Draw lengths that sum to 17 to 19 rows, for which there is one size."""
    return generator.permutation([3, 4, 4, 6 + generator.integers(0, 3)])


def tagger() -> list[Any]:
    """Build a conditional random field on words, with features that share lengths."""
    data = {
        name: fluid.data(name, [None, 1], "int64", lod_level=1) for name in ("word", "mark", "tag")
    }
    made = [fluid.embedding(data[name], size=[12, 6]) for name in ("word", "mark")]
    hidden = fluid.layers.sums([fluid.layers.fc(x, size=8, act="tanh") for x in made])
    state, _ = fluid.layers.dynamic_lstm(hidden, size=8, is_reverse=True)
    scores = fluid.layers.fc([hidden, state], size=5)
    weights = fluid.ParamAttr(name="crf")
    cost = fluid.layers.linear_chain_crf(scores, data["tag"], param_attr=weights)
    loss = fluid.layers.mean(cost)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return [loss, cost, fluid.layers.crf_decoding(scores, param_attr=weights)]


def of_tagger(generator: Any) -> dict[str, Any]:
    lengths = some_lengths(generator)
    return {n: rows(generator, k, lengths) for n, k in (("word", 12), ("mark", 2), ("tag", 5))}


@pytest.mark.exhaustive
def test_a_tagger() -> None:
    assert_same(tagger, of_tagger)


def recommender() -> list[Any]:
    """Build two feeds of sequences with separate lengths, and feeds of one row each."""
    title = fluid.data("title", [None], "int64", lod_level=1)
    kinds = fluid.data("kinds", [None], "int64", lod_level=1)
    user = fluid.embedding(fluid.data("user", [None], "int64"), size=[7, 8])
    score = fluid.data("score", [None, 1], "float32")
    title = fluid.nets.sequence_conv_pool(
        fluid.embedding(title, size=[12, 8]),
        num_filters=8,
        filter_size=3,
        act="tanh",
        pool_type="sum",
    )
    kinds = fluid.layers.sequence_pool(fluid.embedding(kinds, size=[5, 8]), "sum")
    film = fluid.layers.fc(fluid.layers.concat([title, kinds], axis=1), size=8)
    close = fluid.layers.cos_sim(user, film)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(close, score))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return [loss, close]


def of_recommender(generator: Any) -> dict[str, Any]:
    return {
        "title": rows(generator, 12, some_lengths(generator), columns=False),
        "kinds": rows(generator, 5, generator.permutation([1, 2, 2, 3]), columns=False),
        "user": generator.integers(0, 7, BATCH),
        "score": generator.random((BATCH, 1), "float32"),
    }


@pytest.mark.exhaustive
def test_feeds_of_other_lengths() -> None:
    assert_same(recommender, of_recommender)


def stepwise() -> list[Any]:
    """Build a network in steps with two memories and a row for each sequence."""
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    rows = fluid.embedding(words, size=[12, 6])
    beside = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), size=4)
    network = fluid.layers.DynamicRNN()
    with network.block():
        word, row = network.step_input(rows), network.static_input(beside)
        state = network.memory(shape=[8])
        last = network.memory(init=beside, need_reorder=True)
        hidden = fluid.layers.fc([word, row, state, last], size=8, act="tanh")
        network.update_memory(state, hidden)
        network.update_memory(last, fluid.layers.scale(row, 0.5) + last)
        network.output(hidden)
    found = network()
    ends = fluid.layers.sequence_last_step(found)
    tops = fluid.layers.sequence_pool(fluid.layers.fc(found, size=3), "max")
    loss = fluid.layers.mean(fluid.layers.square(ends)) + fluid.layers.mean(tops)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return [loss, found, ends]


def of_stepwise(generator: Any) -> dict[str, Any]:
    return {"words": rows(generator, 12, some_lengths(generator))}


@pytest.mark.exhaustive
def test_a_network_in_steps() -> None:
    """Sequences are padded to the longest one's bucket, and unpadded to the rows' bucket."""
    stats = assert_same(stepwise, of_stepwise, 3)
    assert stats["op_by_op"] == 0
    assert stats["compiled_shapes"] == 2  # with the startup program


@pytest.mark.exhaustive
def test_steps_have_sizes_of_their_own() -> None:
    """Among batches of equal rows, one with a long sequence is compiled for more steps."""
    batches = [[4, 4, 4, 4], [1, 1, 1, 13], [2, 5, 1, 8], [11, 1, 3, 1]]

    def feeds() -> Feed:
        left = iter(batches)
        return lambda generator: {"words": rows(generator, 12, next(left))}

    wanted, state, _ = trained(padded_only, feeds(), len(batches), "off")
    found, changed, stats = trained(padded_only, feeds(), len(batches), "auto")
    assert_close(wanted, state, found, changed)
    assert stats["exact"] == [] and stats["compiled_shapes"] == 2
    assert [step[0].shape[1] for step in found] == [4, 13, 8, 11]


def padded_only() -> list[Any]:
    """Pad sequences with a given number, and unpad them."""
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    number = fluid.layers.assign(np.array([0.5], "float32"))
    padded, counts = fluid.layers.sequence_pad(fluid.layers.cast(words, "float32"), number)
    back = fluid.layers.sequence_unpad(fluid.layers.square(padded), counts)
    return [padded, counts, back, fluid.layers.reduce_sum(padded, dim=1)]


def test_programs_without_sequences_run_as_they_are() -> None:
    """Without sequences there is no padding, and no statistics on it."""

    def build() -> list[Any]:
        x = fluid.data("x", [None, 2], "float32")
        return [fluid.layers.reduce_mean(x)]

    _, _, stats = trained(build, lambda g: {"x": g.random((3, 2), "float32")}, 2, "auto")
    assert "rows" not in stats and "exact" not in stats


def test_a_program_that_cannot_be_padded_runs_exactly() -> None:
    """The program runs unpadded, and the reason names the op."""

    def build() -> list[Any]:
        x = fluid.data("x", [None, 1], "int64", lod_level=1)
        zero = fluid.layers.assign(np.zeros(1, "float32"))
        padded, _ = fluid.layers.sequence_pad(fluid.layers.cast(x, "float32"), zero, maxlen=9)
        return [fluid.layers.reduce_sum(padded)]

    _, _, stats = trained(build, lambda g: {"x": rows(g, 4, some_lengths(g))}, 1, "auto")
    assert "pd.sequence_pad" in stats["exact"][0]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("seconds", "often", "compiled"), [(0.01, 0, 1), (1.0, 0, 2), (1.0, 10, 1), (0.01, 5, 2)]
)
def test_a_size_is_compiled_when_padding_it_took_longer(
    monkeypatch: pytest.MonkeyPatch, seconds: float, often: int, compiled: int
) -> None:
    """A larger size serves first. A step takes `seconds`, and a compilation takes one.

    Where runs must repeat bit by bit, the number of times decides (here `often`, if any).
    """
    monkeypatch.setattr(bucketed, "shall_repeat", lambda _: often > 0)
    monkeypatch.setattr(costs, "OFTEN", often)
    sizes = iter([17, *[11] * 9])

    def feed(generator: Any) -> dict[str, Any]:
        return {"x": rows(generator, 4, [1, 1, 1, next(sizes) - 3])}

    def build() -> list[Any]:
        x = fluid.data("x", [None, 1], "int64", lod_level=1)
        return [fluid.layers.sequence_pool(fluid.layers.cast(x, "float32"), "sum")]

    ran = ProgramCosts.ran

    monkeypatch.setattr(Compiled, "price", 1.0)
    monkeypatch.setattr(ProgramCosts, "ran", lambda costs, _, *sizes: ran(costs, seconds, *sizes))
    _, _, stats = trained(build, feed, 10, "auto")
    assert stats["compiled_shapes"] == compiled


def test_a_size_has_room_for_the_next_batches() -> None:
    """Sequences of similar lengths get little room, others more."""

    def padding(lengths: list[int]) -> int:
        def build() -> list[Any]:
            x = fluid.data("x", [None, 1], "int64", lod_level=1)
            return [fluid.layers.sequence_pool(fluid.layers.cast(x, "float32"), "sum")]

        stats = trained(build, lambda g: {"x": rows(g, 4, lengths)}, 1, "auto")[2]
        return stats["padding"]

    assert padding([20] * 50) < padding([5, 35] * 25)
