"""Elementwise ops in strips give the bits of ops one after another, for any broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.nn import functional as F
from graphopt.runtime.host import strips
from graphopt.runtime.host.strips import ElementwiseChain
from graphopt.runtime.settings.flags import TIER
from graphopt_tests.runtime.nets import Net, build

UNARY = (F.relu, F.hardswish, F.gelu, F.sigmoid, paddle.tanh, paddle.exp, lambda x: x * 0.5 + 1)
BINARY = (paddle.add, paddle.subtract, paddle.multiply, paddle.maximum)


@pytest.fixture(autouse=True)
def on_host() -> Any:
    paddle.set_flags({TIER: "host"})
    yield
    paddle.set_flags({TIER: "full"})


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cut chains into strips of 16 elements, and record their number for each chain."""
    monkeypatch.setattr(strips, "STRIP", 16)
    return count_parts(monkeypatch)


def count_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found, run = list[int](), ElementwiseChain.run

    def counted(chain: ElementwiseChain, running: Any) -> Any:
        results = run(chain, running)
        split = chain._split[1]
        if results is not None and split is not None:
            found.append(len(split.parts))
        return results

    monkeypatch.setattr(ElementwiseChain, "run", counted)
    return found


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def run(net: Net, feed: dict[str, Any]) -> list[Any]:
    net.start()
    return net.run(feed, [net.loss, net.out])


@given(data=st.data())
def test_parts_have_the_bits_of_the_whole(data: st.DataObject) -> None:
    """Chains of ops may have operands with present, unit or missing dimensions.

    The axes of the first operand have any order in memory, and so have those of its results.
    """
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    full = [8, *shape]
    perm = data.draw(st.permutations(range(len(full))))
    others = [
        [n if data.draw(st.booleans()) else 1 for n in full[data.draw(st.integers(0, len(full))) :]]
        for _ in range(3)
    ]
    steps = data.draw(
        st.lists(
            st.one_of(
                st.sampled_from(UNARY), st.tuples(st.sampled_from(BINARY), st.integers(0, 2))
            ),
            min_size=2,
            max_size=6,
        )
    )
    feed = {"x": numbers(*full).transpose(np.argsort(perm))} | {
        f"y{n}": numbers(*each) for n, each in enumerate(others)
    }

    def make() -> tuple[Any, Any]:
        sizes = [-1, *shape]
        fed = static.data("x", [sizes[axis] for axis in np.argsort(perm)], "float32")
        x = paddle.transpose(fed, perm)
        read = [static.data(f"y{n}", each, "float32") for n, each in enumerate(others)]
        half = None
        for each in steps:
            x = each[0](x, read[each[1]]) if isinstance(each, tuple) else each(x)
            half = x if half is None else half
        return x, half

    with pytest.MonkeyPatch.context() as patch, static.scope_guard(static.Scope()):
        parts = count_parts(patch)
        wanted = run(build(make), feed)
        assert not parts, "small results are computed as a whole"
        patch.setattr(strips, "STRIP", 5)
        found = run(build(make), feed)
        assert parts
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_results_of_another_shape_are_computed_as_a_whole(in_parts: list[int]) -> None:
    def make() -> tuple[Any, Any]:
        x = static.data("x", [-1, 1], "float32")
        row = static.data("row", [8], "float32")
        half = F.relu(x)
        return half * row + 1.0, half

    feed = {"x": numbers(20, 1), "row": numbers(8)}
    loss, half = run(build(make), feed)
    np.testing.assert_array_equal(half, np.maximum(feed["x"], 0))
    np.testing.assert_array_equal(loss, half * feed["row"] + np.float32(1))
    assert not in_parts


def test_an_error_in_a_part_is_the_op_s(in_parts: list[int]) -> None:
    """An error in a strip is the op's; the next run has whole operands again."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [-1, 8], "int32")
        y = static.data("y", [-1, 8], "int32")
        return (x + y) // y + x, x

    net = build(make)
    x, y = np.arange(80, dtype="int32").reshape(10, 8), np.ones((10, 8), "int32")
    np.testing.assert_array_equal(run(net, {"x": x, "y": y})[0], (x + y) // y + x)
    assert in_parts == [5]
    zero = y.copy()
    zero[7, 3] = 0
    with pytest.raises(Exception, match="zero"):
        run(net, {"x": x, "y": zero})
    np.testing.assert_array_equal(run(net, {"x": x, "y": y})[0], (x + y) // y + x)


def test_a_training_reads_what_chains_made(in_parts: list[int]) -> None:
    """Gradients equal those of runs without strips."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 8], "float32")
        hidden = F.hardswish(static.nn.fc(x, 8) * 2.0)
        loss = paddle.mean(paddle.square(hidden))
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, hidden

    def losses() -> list[float]:
        paddle.seed(3)
        with static.scope_guard(static.Scope()):
            net = build(make).start()
            return [float(net.run({"x": numbers(12, 8)}, net.loss)[0]) for _ in range(4)]

    found = losses()
    assert in_parts
    strips.STRIP = 1 << 16
    assert losses() == found
    assert found[-1] < found[0]
