"""Fed ids out of range are refused before the step, with variable, number and op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.errors import CheckError, IndexRangeError
from graphopt.runtime.settings.flags import IDS
from graphopt.static import Executor, Program, data, program_guard

F = paddle.nn.functional
TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)
Build = Callable[[Any, Any], Any]
# the functions that look numbers up in a table of 5 rows
LOOKUPS: dict[str, Build] = {
    "embedding": lambda ids, table: F.embedding(ids, table),
    "gather": lambda ids, table: paddle.gather(table, paddle.reshape(ids, [-1])),
    "one_hot": lambda ids, table: F.one_hot(paddle.cast(ids, "int32"), 5),
    "index_sample": lambda ids, table: paddle.index_sample(paddle.transpose(table, [1, 0]), ids),
    "cross_entropy": lambda ids, table: F.cross_entropy(paddle.reshape(table, [2, 5]), ids),
}


@pytest.fixture(autouse=True)
def static_mode() -> None:
    paddle.enable_static()


def runner(build: Build) -> Callable[[Any], Any]:
    """Build a function that runs a program on ids."""
    program = Program()
    with program_guard(program, Program()):
        ids, table = data("ids", [None, 1], "int64"), data("table", [5, 2], "float32")
        out = build(ids, table)
    exe = Executor()

    def run(ids: Any) -> Any:
        feed = {"ids": np.asarray(ids, "int64").reshape(-1, 1), "table": TABLE}
        return exe.run(program, feed=feed, fetch_list=[out])[0]

    return run


@pytest.mark.parametrize("name", LOOKUPS)
def test_out_of_range(name: str) -> None:
    """-1, one past the end, and ids valid only in 32 bits are refused; the next step is right."""
    run = runner(LOOKUPS[name])
    for wrong in (-1, 5, 2**32 + 3):
        with pytest.raises(IndexRangeError, match=rf"'ids' was fed {wrong} at \[1, 0\].*pd\.\w+"):
            run([1, wrong])
    assert np.isfinite(run([1, 4])).all()


def test_numbers_that_paddle_allows() -> None:
    """The ignored class, the padding row and out-of-range one-hot ids are valid where declared."""
    ignored = runner(lambda ids, table: F.cross_entropy(paddle.reshape(table, [2, 5]), ids))
    assert np.isfinite(ignored([1, -100]))
    padded = runner(lambda ids, table: F.embedding(ids, table, padding_idx=2))
    assert not padded([1, 2])[1].any()
    with pytest.raises(IndexRangeError, match=r"accepts numbers from 0 to 4\. Correct"):
        padded([1, 7])
    hot = runner(lambda ids, table: paddle.fluid.layers.one_hot(ids, 5, allow_out_of_range=True))
    assert not hot([1, 7])[1].any()


def test_the_flag_leaves_it_out() -> None:
    """With the check off, a missing row reads nan, also for negative ids."""
    run = runner(LOOKUPS["embedding"])
    paddle.set_flags({IDS: "off"})
    try:
        assert np.isnan(run([1, -1])[1]).all()
        assert np.isnan(run([1, 2**32 + 3])[1]).all()
    finally:
        paddle.set_flags({IDS: "fed"})


def test_computed_ids() -> None:
    """Invalid computed ids read nan, unless the flag has them checked before results are stored."""

    def build(ids: Any, table: Any) -> Any:
        return F.embedding(ids + 1, table)

    assert np.isnan(runner(build)([1, 4])[1]).all()
    paddle.set_flags({IDS: "all"})
    try:
        run = runner(build)
        with pytest.raises(CheckError, match=r"(?s)from 0 to 4 for pd\.embedding.*largest.*\[5\]"):
            run([1, 4])
        assert np.isfinite(run([1, 3])).all()
    finally:
        paddle.set_flags({IDS: "fed"})


def test_ids_of_a_branch_are_not_checked() -> None:
    """Ids in a branch are not checked, as it may not run."""

    def build(ids: Any, table: Any) -> Any:
        return paddle.static.nn.cond(
            paddle.greater_than(paddle.sum(ids), paddle.full([], 100, "int64")),
            lambda: paddle.sum(F.embedding(ids, table)),
            lambda: paddle.sum(table),
        )

    assert runner(build)([1, -1]) == TABLE.sum()
