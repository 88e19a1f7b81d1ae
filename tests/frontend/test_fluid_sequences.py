"""Sequences of different lengths in paddle.fluid: the origin and the propagation of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid
from graphopt.errors import FeedError, UnsupportedError
from graphopt.fluid import layers
from graphopt_tests.frontend.programs import fresh

ROWS = np.arange(10, dtype="float32").reshape(5, 2)


def fed(rows: Any, lengths: list[int]) -> Any:
    return fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())


def run(feed: dict[str, Any], *outs: Any) -> list[tuple[list[Any], list[list[int]]]]:
    """Run the startup program, then fetch values and their lengths."""
    exe = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        exe.run(fluid.default_startup_program())
    found = exe.run(feed=feed, fetch_list=list(outs), return_numpy=False)
    return [(np.array(t).tolist(), t.recursive_sequence_lengths()) for t in found]


def rows_of() -> Any:
    return fluid.data("x", [None, 2], lod_level=1)


@pytest.mark.exhaustive
def test_a_sentiment_model_learns_from_sequences() -> None:
    """Words 0-4 are good, 5-9 bad; a sentence has one to five words of one kind."""
    rng = np.random.default_rng(0)
    with fresh():
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        label = fluid.data("label", [None, 1], "int64")
        rows = layers.fc(layers.embedding(words, [10, 8]), 16)
        hidden, cell = layers.dynamic_lstm(rows, 16)
        assert (rows.lod_level, hidden.lod_level, cell.lod_level) == (1, 1, 1)
        pooled = layers.concat([layers.sequence_pool(hidden, k) for k in ("max", "last")], 1)
        assert pooled.lod_level == 0
        scores = layers.fc(pooled, 2, act="softmax")
        loss = layers.mean(layers.cross_entropy(scores, label))
        test = fluid.default_main_program().clone(for_test=True)
        fluid.optimizer.Adam(0.05).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feeder = fluid.DataFeeder([words, label], fluid.CPUPlace())

        def batch() -> Any:
            kinds = rng.integers(0, 2, 8)
            sizes = rng.permutation([1, 2, 2, 3, 3, 4, 4, 5])
            rows = [(rng.integers(0, 5, n) + 5 * k, [k]) for k, n in zip(kinds, sizes, strict=True)]
            return feeder.feed([(words.tolist(), kind) for words, kind in rows])

        losses = [exe.run(feed=batch(), fetch_list=[loss])[0].item() for _ in range(40)]
        feed = batch()
        (found,) = exe.run(test, feed=feed, fetch_list=[scores])
    assert losses[0] > 0.5 and max(losses[-5:]) < 0.1, losses
    assert found.argmax(1).tolist() == np.array(feed["label"]).ravel().tolist()


def test_lengths_come_with_the_rows_or_beside_them() -> None:
    with fresh():
        out = layers.sequence_pool(rows_of(), "sum")
        feeds: list[dict[str, Any]] = [
            {"x": fed(ROWS, [2, 3])},
            {"x": (ROWS, [2, 3])},
            {"x": (ROWS, [[2, 3]])},
            {"x": ROWS, "x@lens": np.array([2, 3], "int64")},
        ]
        found = [run(feed, out) for feed in feeds]
    assert found == [[([[2, 4], [18, 21]], [])]] * 4


@pytest.mark.parametrize(
    "feed",
    [
        {"x": ROWS},
        {"x": (ROWS, [2, 2])},
        {"x": (ROWS, [6, -1])},
        {"x": ROWS, "x@lens": np.array([1, 1], "int64")},
    ],
)
def test_lengths_that_do_not_fit_are_errors(feed: dict[str, Any]) -> None:
    with fresh():
        out = layers.sequence_pool(rows_of(), "sum")
        with pytest.raises(FeedError, match=r"'x' has sequences .* add up to \[5\] rows"):
            run(feed, out)


def test_lengths_that_nobody_reads_may_be_missing() -> None:
    with fresh():
        out = layers.scale(rows_of(), 2.0)
        assert run({"x": ROWS}, out) == [((ROWS * 2).tolist(), [])]
        assert run({"x": (ROWS, [1, 4])}, out) == [((ROWS * 2).tolist(), [[1, 4]])]
        assert "x@lens" not in fluid.default_main_program().global_block().vars


def test_dense_rows_have_no_lengths() -> None:
    with fresh():
        x = fluid.data("x", [None, 2], lod_level=1)
        dense = fluid.data("dense", [None, 2])
        added = layers.elementwise_add(dense, x)
        assert added.lod_level == dense.lod_level == 0
        for made in (
            layers.transpose(x, [0, 1]),
            layers.elementwise_add(layers.ones([5, 2], "float32"), x),
        ):
            assert made.lod_level == 0
            with pytest.raises(UnsupportedError, match="has no sequence lengths"):
                layers.sequence_pool(made, "sum")
        assert layers.elementwise_add(x, dense).lod_level == 1


def test_sequences_of_sequences() -> None:
    """A function with a choice of level uses the outer one; other functions refuse."""
    with fresh():
        x = fluid.data("x", [None, 1])
        y = fluid.data("y", [None, 2], lod_level=2)
        out = layers.sequence_expand(x, y, ref_level=0)
        with pytest.raises(UnsupportedError, match="'y', sequences of sequences"):
            layers.sequence_softmax(y)
        nested = fluid.create_lod_tensor(ROWS, [[1, 2], [2, 2, 1]], fluid.CPUPlace())
        (found,) = run({"x": np.array([[7], [8]], "float32"), "y": nested}, out)
    assert found == ([[7], [8], [8]], [])


@pytest.mark.exhaustive
def test_lengths_of_results() -> None:
    with fresh():
        x = rows_of()
        offset, length = (fluid.data(n, [None, 1], "int64") for n in ("offset", "length"))
        outs = [
            layers.sequence_concat([x, x]),
            layers.sequence_reshape(x, 1),
            layers.sequence_reshape(x, 4),
            layers.sequence_slice(x, offset, length),
            layers.sequence_expand(x, x),
            layers.sequence_expand_as(layers.sequence_first_step(x), x),
            layers.lod_append(x, [0, 1, 4, 6]),
            layers.reorder_lod_tensor_by_rank(x, layers.control_flow.lod_rank_table(x)),
        ]
        feed = {
            "x": fed(np.arange(12, dtype="float32").reshape(6, 2), [2, 4]),
            "offset": np.array([[1], [0]], "int64"),
            "length": np.array([[1], [2]], "int64"),
        }
        found = [lengths for _, lengths in run(feed, *outs)]
    assert found == [
        [[4, 8]],
        [[4, 8]],
        [[1, 2]],
        [[1, 2]],
        [[2, 2, 4, 4, 4, 4]],
        [[2, 4]],
        [[2, 4], [1, 3, 2]],
        [[4, 2]],
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, n: layers.sequence_slice(x, n, n), "do not have"),
        (
            lambda x, n: layers.sequence_pad(x, layers.fill_constant([1], "float32", 0), 2)[0],
            "has 3",
        ),
        (lambda x, n: layers.sequence_reshape(x, 5), "whole rows"),
    ],
)
def test_rows_that_are_not_there(call: Any, message: str) -> None:
    with fresh():
        out = call(rows_of(), fluid.data("n", [None, 1], "int64"))
        with pytest.raises(ValueError, match=message):
            run({"x": fed(ROWS, [2, 3]), "n": np.array([[2], [2]], "int64")}, out)


@pytest.mark.exhaustive
def test_a_saved_model_takes_its_lengths_as_a_feed(tmp_path: Any) -> None:
    with fresh():
        x = rows_of()
        out = layers.sequence_pool(layers.fc(x, 3), "sqrt")
        lengths = fluid.default_main_program().global_block().var("x@lens")
        feed = {"x": ROWS, "x@lens": np.array([1, 4], "int64")}
        ((before, _),) = run(feed, out)
        exe = fluid.Executor(fluid.CPUPlace())
        path = str(tmp_path / "model")
        paddle.static.save_inference_model(path, [x, lengths], [out], exe)
        program, names, fetches = paddle.static.load_inference_model(path, exe)
        assert names == ["x", "x@lens"]
        (after,) = exe.run(program, feed={"x": fed(ROWS, [1, 4])}, fetch_list=fetches)
        unnamed = str(tmp_path / "unnamed")
        paddle.static.save_inference_model(unnamed, [x], [out], exe)
        program, names, fetches = paddle.static.load_inference_model(unnamed, exe)
        assert names == ["x"]
        (again,) = exe.run(program, feed={"x": (ROWS, [1, 4])}, fetch_list=fetches)
    np.testing.assert_allclose(after, before, rtol=1e-6)
    np.testing.assert_allclose(again, before, rtol=1e-6)


@pytest.mark.exhaustive
def test_a_tagger_learns_which_tags_follow_each_other() -> None:
    """Tags alternate, which no single word shows: only transitions do."""
    rng = np.random.default_rng(0)
    with fresh():
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        tags = fluid.data("tags", [None, 1], "int64", lod_level=1)
        scores = layers.fc(layers.embedding(words, [4, 4]), 3)
        attr = fluid.ParamAttr(name="crf")
        loss = layers.mean(layers.linear_chain_crf(scores, tags, attr))
        path = layers.crf_decoding(scores, attr)
        f1 = layers.chunk_eval(path, tags, "IOB", 1)[2]
        fluid.optimizer.Adam(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        for _ in range(30):
            sizes = [3, 5, 2]
            given = np.concatenate([np.arange(n) % 2 for n in sizes]).astype("int64")[:, None]
            feed = {
                "words": fed(rng.integers(0, 4, (10, 1)), sizes),
                "tags": fed(given, sizes),
            }
            last, score, found = exe.run(feed=feed, fetch_list=[loss, f1, path], return_numpy=False)
    assert found.recursive_sequence_lengths() == [[3, 5, 2]]
    assert np.array(found).tolist() == given.tolist()
    assert np.array(last).item() < 0.5 and np.array(score).item() == 1.0


def test_decoding_needs_the_parameter_of_the_field() -> None:
    with fresh(), pytest.raises(paddle.errors.ProgramError, match="no parameter 'crf'"):
        layers.crf_decoding(rows_of(), fluid.ParamAttr(name="crf"))


@pytest.mark.parametrize("kind", [fluid.Executor, paddle.static.Executor])
def test_what_executors_fetch_has_the_lengths(kind: Any) -> None:
    """So has what a compiled program fetches, as in 2.6.2; computed lengths, too."""
    with fresh():
        x = rows_of()
        outs = layers.scale(x, 2.0), layers.sequence_concat([x, x]), layers.sequence_pool(x, "sum")
        main, exe = fluid.default_main_program(), kind(fluid.CPUPlace())
        for program in (main, main, fluid.CompiledProgram(main)):
            found = exe.run(program, {"x": fed(ROWS, [2, 3])}, [*outs], return_numpy=False)
            assert [each.recursive_sequence_lengths() for each in found] == [[[2, 3]], [[4, 6]], []]


def tokens_of(name: str) -> Any:
    return fluid.data(name, [None, 1], "int64", lod_level=1)


def column(*numbers: int) -> Any:
    return np.array(numbers, "int64")[:, None]


@pytest.mark.exhaustive
def test_distances_between_sequences_of_tokens() -> None:
    """Each pair of sequences has one distance, as in 1.8.5; some tokens may be ignored."""
    a, b = fed(column(1, 2, 3, 4, 5), [3, 2]), fed(column(0, 1, 2, 1, 0, 3), [2, 4])
    with fresh():
        x, y = tokens_of("a"), tokens_of("b")
        plain, count = layers.edit_distance(x, y, normalized=False)
        rated, _ = layers.edit_distance(x, y)
        found = run({"a": a, "b": b}, plain, count, rated)
    assert [value for value, _ in found] == [[[3], [4]], [2], [[1.5], [1.0]]]
    with fresh():
        out, _ = layers.edit_distance(tokens_of("a"), tokens_of("b"), False, ignored_tokens=[0, 2])
        assert out.name.endswith(".tmp_2")
        ((found, _),) = run({"a": a, "b": b}, out)
    assert found == [[1], [2]]
    with fresh(), pytest.raises(UnsupportedError, match="'x', which has no sequence lengths"):
        layers.edit_distance(fluid.data("x", [5, 1], "int64"), tokens_of("b"))


def test_greedy_decoding_of_sequences() -> None:
    """Repetitions and blanks are dropped within each sequence; an empty result is one row of -1."""
    path = np.array([2, 2, 0, 2, 3, 3, 0, 1])
    with fresh():
        x = fluid.data("x", [None, 4], lod_level=1)
        out = layers.ctc_greedy_decoder(x, blank=0)
        after = layers.sequence_pool(layers.cast(out, "float32"), "sum")
        given = {"x": fed(np.eye(4, dtype="float32")[path], [5, 3])}
        assert run(given, out, after) == [
            ([[2], [2], [3], [3], [1]], [[3, 2]]),
            ([[7.0], [4.0]], []),
        ]
        ((found, _),) = run({"x": fed(np.eye(4, dtype="float32")[[0, 0]], [1, 1])}, out)
        assert found == [[-1]]


def test_row_convolution_of_sequences() -> None:
    with fresh():
        attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
        out = layers.row_conv(rows_of(), 1, attr)
        ((found, lengths),) = run({"x": fed(ROWS, [2, 3])}, out)
    after = np.array([[2, 3], [0, 0], [6, 7], [8, 9], [0, 0]], "float32")
    assert found == (0.5 * (ROWS + after)).tolist() and lengths == [[2, 3]]


def test_boxes_know_their_images() -> None:
    image = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]], "float32")
    with fresh():
        x = fluid.data("i", [2, 1, 4, 4])
        out = layers.roi_pool(x, fluid.data("b", [None, 4], lod_level=1))
        ((found, _),) = run({"i": image, "b": fed(boxes, [1, 2])}, out)
    assert np.ravel(found).tolist() == [5.0, 21.0, 31.0]


def test_operators_keep_lengths() -> None:
    """Operators between variables, with numbers, and Print keep the lengths."""
    with fresh():
        x = rows_of()
        made = [x + 1, 1 - x, x / 2, 2 / x, x * x, x > 3, x**2, -x, layers.Print(x)]
        made = [layers.sequence_pool(layers.cast(y, "float32"), "first") for y in made]
        found = run({"x": fed(ROWS + 1, [2, 3])}, *made)
    first = (ROWS + 1)[[0, 2]]
    wanted = [first + 1, 1 - first, first / 2, 2 / first, first**2, first > 3, first**2]
    for (value, _), want in zip(found, [*wanted, -first, first], strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-6)


def test_pools_of_inner_sequences_are_sequences() -> None:
    """Sentences of two words and of one are pooled by words, then by sentences."""
    with fresh():
        x = fluid.data("x", [None, 2], lod_level=2)
        words = layers.sequence_pool(x, "sum")
        given = fluid.create_lod_tensor(ROWS, [[2, 1], [1, 2, 2]], fluid.CPUPlace())
        found = run({"x": given}, words, layers.sequence_pool(words, "last"))
    inner = [ROWS[0], ROWS[1] + ROWS[2], ROWS[3] + ROWS[4]]
    assert found[0] == (np.array(inner).tolist(), [[2, 1]])
    assert found[1][0] == np.array(inner[1:]).tolist()


def test_a_recurrence_over_unknown_steps_knows_lengths() -> None:
    """The feed decides the number of steps of padded sequences, none of which is full."""
    attrs = [fluid.ParamAttr(initializer=fluid.initializer.Constant(v)) for v in (0.1, 0.2)]
    with fresh():
        x, n = fluid.data("x", [None, None, 3]), fluid.data("n", [None], "int64")
        out, last = layers.rnn(layers.GRUCell(4, *attrs), x, sequence_length=n)
        mask = layers.sequence_mask(n, maxlen=layers.shape(x)[1], dtype="float32")
        rows = np.arange(18, dtype="float32").reshape(2, 3, 3) / 10
        found = run({"x": rows, "n": np.array([2, 1])}, out, last, mask)
    steps, ends, kept = (np.array(value) for value, _ in found)
    assert steps.shape == (2, 3, 4) and kept.tolist() == [[1, 1, 0], [1, 0, 0]]
    np.testing.assert_allclose(ends, [steps[0, 1], steps[1, 0]])


def test_an_operator_on_sequences_that_a_script_appends() -> None:
    """Lengths come with the feed, as for layers, and intermediate rows keep them."""
    with fresh():
        x = fluid.data("x", [None, 1], lod_level=1)
        block = fluid.default_main_program().global_block()
        operators = ("sequence_reverse", "Y", "middle"), ("sequence_pool", "Out", "y")
        for type, slot, name in operators:
            given = "x" if name == "middle" else "middle"
            made = block.create_var(name=name, dtype="float32", lod_level=1)
            attrs = {"pooltype": "FIRST"} if name == "y" else {}
            block.append_op(type, inputs={"X": [given]}, outputs={slot: [made]}, attrs=attrs)
        rows = np.arange(4, dtype="float32")[:, None]
        fed = fluid.create_lod_tensor(rows, [[1, 3]], fluid.CPUPlace())
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed={x.name: fed}, fetch_list=["y"])
    assert found.ravel().tolist() == [0, 3]


@pytest.mark.exhaustive
def test_ctc_loss_of_sequences() -> None:
    """Loss and gradient are those of 1.8.5; `norm_by_times` scales only the gradient."""
    scores = np.random.RandomState(0).randn(9, 5).astype("float32")
    with fresh():
        x = fluid.data("x", [None, 5], lod_level=1)
        y = fluid.data("y", [None, 1], "int32", lod_level=1)
        x.stop_gradient = False
        loss = layers.warpctc(x, y, blank=4, norm_by_times=True)
        assert loss.name.startswith("warpctc_") and loss.name.endswith(".tmp_0")
        gradient = fluid.gradients(loss, x)[0]
        given = {"x": fed(scores, [5, 4]), "y": fed(np.array([[1], [2], [0]], "int32"), [2, 1])}
        (found, _), (slopes, _) = run(given, loss, gradient)
    np.testing.assert_allclose(found, [[3.914595], [5.591709]], 1e-5)
    rows = [
        0.276822,
        0.132641,
        0.107483,
        0.189938,
        0.143981,
        0.293454,
        0.258716,
        0.397812,
        0.443442,
    ]
    np.testing.assert_allclose(np.abs(slopes).sum(1), rows, 1e-4)


def test_gradients_have_the_sequences_of_their_values() -> None:
    with fresh():
        x = fluid.data("x", [None, 1], "float32", lod_level=1)
        x.stop_gradient = False
        loss = layers.reduce_sum(layers.sequence_pool(x, "last"))
        fluid.backward.append_backward(loss)
        feed = {"x": fluid.create_lod_tensor(np.ones((3, 1), "float32"), [[2, 1]], None)}
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed=feed, fetch_list=["x@GRAD"], return_numpy=False)
    assert found.recursive_sequence_lengths() == [[2, 1]]
    assert np.array(found).tolist() == [[0], [1], [1]]
