"""Buckets of feeds with lengths: padding adds sequences, and the results do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.buckets import Buckets, multiples_of, one_of, powers_of_two
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.runtime.feeds.sequence_rows import fit_sizes, lengthen
from graphopt_tests.runtime.bucket_runs import SIZES, Built, Feed, assert_same, run

BUCKETS = Buckets({"batch": powers_of_two(2), "rows": multiples_of(8)})


def emit(
    type: str, out: str = "Out", *, level: int = 1, inputs: dict[str, Any], **attrs: Any
) -> Variable:
    """Append an operator on sequences, as in saved programs."""
    helper = LayerHelper(type)
    made = helper.temporary()
    helper.append_op(type, inputs, {out: made}, attrs)
    made.lod_level = level
    return made


def ragged(feed: str, *shape: int, dtype: str = "float32") -> Any:
    """Declare a feed of rows with its lengths."""
    made = static.data(feed, [None, *shape], dtype)
    made.lod_level = 1
    static.data(f"{feed}@lens", [None], "int64")
    return made


def through(layer: Any, x: Any) -> Any:
    """Apply a layer to rows, and mark its results as sequences."""
    block = static.default_main_program().global_block()
    before, made = len(block.ops), layer(x)
    for op in block.ops[before:]:
        for name in op.output_arg_names:
            block.var(name).lod_level = 1
    return made


def words() -> Built:
    """Build embeddings through each operator on sequences, and a classifier of their pools."""
    label = static.data("label", [None, 1], "int64")
    rows = through(nn.Embedding(12, 4), ragged("words", dtype="int64"))
    weights = [
        static.create_parameter(shape, "float32")
        for shape in ([12, 4], [4, 16], [1, 28], [4, 12], [1, 12])
    ]
    conv = emit(
        "sequence_conv",
        inputs={"X": rows, "Filter": weights[0]},
        contextLength=3,
        contextStart=-1,
    )
    backwards = emit("sequence_reverse", "Y", inputs={"X": conv})
    gates = through(nn.Linear(4, 16), backwards)
    hidden = emit(
        "lstm", "Hidden", inputs={"Input": gates, "Weight": weights[1], "Bias": weights[2]}
    )
    gates = through(nn.Linear(4, 12), hidden)
    hidden = emit(
        "gru",
        "Hidden",
        inputs={"Input": gates, "Weight": weights[3], "Bias": weights[4]},
        is_reverse=True,
    )
    share = emit("sequence_softmax", inputs={"X": through(nn.Linear(4, 1), hidden)})
    weighted = through(lambda x: x * share, hidden)
    kinds = ("SUM", "AVERAGE", "SQRT", "MAX", "LAST", "FIRST")
    pools = [
        emit("sequence_pool", level=0, inputs={"X": weighted}, pooltype=kind) for kind in kinds
    ]
    joined = paddle.concat(pools, 1)
    spread = emit("sequence_expand_as", inputs={"X": joined, "Y": rows})
    loss = F.cross_entropy(nn.Linear(24, 3)(joined), label) + paddle.mean(paddle.sqrt(spread**2))
    paddle.optimizer.SGD(0.5).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        lengths = generator.integers(1, length + 1, rows)
        return {
            "words": generator.integers(0, 12, lengths.sum()),
            "words@lens": lengths,
            "label": generator.integers(0, 3, (rows, 1)),
        }

    return [loss, joined, spread, hidden, share], feed


@pytest.mark.exhaustive
def test_results_are_those_of_the_feed() -> None:
    assert_same(words, BUCKETS, SIZES[:4])


def two() -> Built:
    """Build two feeds with separate lengths, and equally many sequences."""
    made = [through(nn.Linear(2, 3), ragged(name, 2)) for name in "ab"]
    pools = [emit("sequence_pool", level=0, inputs={"X": x}, pooltype="MAX") for x in made]
    loss = paddle.mean(pools[0] * pools[1])
    paddle.optimizer.SGD(0.5).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        lengths = {name: generator.integers(1, length + 1, rows) for name in "ab"}
        x = {n: generator.normal(size=(each.sum(), 2)) for n, each in lengths.items()}
        found = {name: array.astype("float32") for name, array in x.items()}
        return found | {f"{name}@lens": each for name, each in lengths.items()}

    return [loss, *pools], feed


@pytest.mark.exhaustive
def test_two_feeds_have_rows_of_their_own() -> None:
    sizes = {"batch": powers_of_two(2), "a": multiples_of(8), "b": one_of(16, 24)}
    assert_same(two, Buckets(sizes, {"a": ("a", None), "b": ("b", None)}), SIZES)


def windows() -> Built:
    """Build a convolution over each word and its neighbors."""
    filters = static.create_parameter([6, 4], "float32")
    found = emit("sequence_conv", inputs={"X": ragged("x", 2), "Filter": filters}, contextLength=3)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        lengths = np.full(rows, length)
        return {"x": np.ones((rows * length, 2), "float32"), "x@lens": lengths}

    return [found], feed


@pytest.mark.exhaustive
def test_sequences_without_rows_are_refused() -> None:
    _, _, stats = run(windows, Buckets({"batch": powers_of_two(2)}))
    (reason,) = stats["exact"]
    assert reason.startswith("rows-and-lengths: pd.sequence_conv")
    assert "give Buckets sizes of 'rows' and 'batch'" in reason


def test_rows_are_not_sequences() -> None:
    same = Buckets({"n": powers_of_two()}, {"a": ("n", None), "a@lens": ("n",)})
    with pytest.raises(ValueError, match="feed 'a' and its lengths have the same axis 'n'"):
        fit_sizes(same, {"n": 3}, {"a": ("n", "n")})


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20).filter(any),
    st.integers(1, 8),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_what_is_added_are_whole_sequences(
    lengths: list[int], batch: int, rows: int, most: int
) -> None:
    """The lengths add up to the rows, and no added sequence is empty."""
    buckets = Buckets({"batch": powers_of_two(batch, most), "rows": multiples_of(rows)})
    found = {"batch": len(lengths), "rows": sum(lengths)}
    sizes = fit_sizes(buckets, found, {"x": ("rows", "batch")})
    padded = np.pad(np.array(lengths), (0, sizes["batch"] - len(lengths)), mode="edge")
    after = lengthen(padded, len(lengths), sizes["rows"])
    assert after[: len(lengths)].tolist() == lengths
    assert after.sum() == sizes["rows"]
    assert (after[len(lengths) :] > 0).all()
