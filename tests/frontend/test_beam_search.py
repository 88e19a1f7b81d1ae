"""paddle.fluid: beam search in a loop over tensor arrays of sequences, against Paddle 1.8.5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt.fluid import layers
from graphopt_tests.frontend.test_fluid import fresh

CPU = fluid.CPUPlace()
SENTENCES, WORDS, WIDTH, END = 3, 6, 3, 1


def decoder(beam_size: int) -> tuple[Any, Any]:
    """Build a small version of the machine translation decoder in Paddle's book."""
    most, counter = layers.fill_constant([1], "int64", 5), layers.zeros([1], "int64")
    states, ids, scores = (layers.create_array(kind) for kind in ("float32", "int64", "float32"))
    layers.array_write(fluid.data("context", [None, WIDTH]), counter, states)
    layers.array_write(fluid.data("ids", [None, 1], "int64", lod_level=2), counter, ids)
    layers.array_write(fluid.data("scores", [None, 1], lod_level=2), counter, scores)
    going = layers.less_than(counter, most)
    loop = layers.While(going)
    with loop.block():
        pre_ids = layers.array_read(ids, counter)
        pre_score = layers.array_read(scores, counter)
        state = layers.sequence_expand(layers.array_read(states, counter), pre_score)
        word = layers.embedding(pre_ids, [WORDS, WIDTH], param_attr="emb")
        state = layers.fc([state, word], WIDTH, act="tanh", param_attr=["w1", "w2"], bias_attr="b1")
        marks = layers.lod_reset(state, pre_score)
        marks = layers.fc(marks, WORDS, act="softmax", param_attr="w3", bias_attr="b3")
        best, indices = layers.topk(marks, beam_size)
        total = layers.elementwise_add(layers.log(best), layers.reshape(pre_score, [-1]), axis=0)
        found = layers.beam_search(pre_ids, pre_score, indices, total, beam_size, END)
        layers.increment(counter, 1, in_place=True)
        layers.array_write(state, counter, states)
        layers.array_write(found[0], counter, ids)
        layers.array_write(found[1], counter, scores)
        is_open = layers.logical_not(layers.is_empty(found[0]))
        layers.logical_and(layers.less_than(counter, most), is_open, out=going)
    return layers.beam_search_decode(ids, scores, beam_size, END)


def fed(values: Any, dtype: str) -> Any:
    lengths = [[1] * SENTENCES] * 2
    return fluid.create_lod_tensor(np.array(values, dtype).reshape(-1, 1), lengths, CPU)


def decoded(seed: int, beam_size: int) -> tuple[Any, Any]:
    """Decode with random parameters; return words and scores."""
    draw = np.random.RandomState(seed)
    sizes = {"emb": [WORDS, WIDTH], "w1": [WIDTH] * 2, "w2": [WIDTH] * 2, "b1": [WIDTH]}
    sizes |= {"w3": [WIDTH, WORDS], "b3": [WORDS]}
    with fresh():
        outs = decoder(beam_size)
        exe = fluid.Executor(CPU)
        exe.run(fluid.default_startup_program())
        for name, size in sizes.items():
            value = (draw.randn(*size) * 2).astype("float32")
            fluid.global_scope().find_var(name).get_tensor().set(value, CPU)
        feed = {
            "context": draw.randn(SENTENCES, WIDTH).astype("float32"),
            "ids": fed([0] * SENTENCES, "int64"),
            "scores": fed([1.0] * SENTENCES, "float32"),
        }
        return exe.run(feed=feed, fetch_list=list(outs), return_numpy=False)


# as Paddle 1.8.5 has them
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("seed", "beam_size", "words", "lengths", "last"),
    [
        pytest.param(
            *(2, 2, "000000 054343 000000 054343 000000 005434", [[2, 2, 2], [6] * 6], -0.2425),
            marks=pytest.mark.exhaustive,
        ),
        (5, 1, "000000 01 001", [[1, 1, 1], [6, 2, 3]], -0.0737),
    ],
)
def test_the_decoder_of_the_book(
    seed: int, beam_size: int, words: str, lengths: list[list[int]], last: float
) -> None:
    """The number of beams varies from step to step, and each sentence ends on its own."""
    ids, scores = decoded(seed, beam_size)
    assert ids.recursive_sequence_lengths() == scores.recursive_sequence_lengths() == lengths
    assert np.array(ids).dtype == "int64"
    np.testing.assert_allclose(np.array(scores)[lengths[1][0] - 1], last, atol=1e-4)
    assert "".join(str(word) for word in np.array(ids)) == words.replace(" ", "")


def test_the_beam_that_each_result_continues() -> None:
    """A sentence whose beams have all ended is left out."""
    with fresh():
        names = ("pre_ids", "pre_scores", "words", "marks")
        kinds = ("int64", "float32", "int64", "float32")
        widths = (1, 1, 2, 2)
        given = [
            fluid.data(name, [None, width], kind, lod_level=2)
            for name, kind, width in zip(names, kinds, widths, strict=True)
        ]
        outs = layers.beam_search(*given, beam_size=2, end_id=0, return_parent_idx=True)
        values = ([[1], [2], [0], [0]], [[0.1]] * 4, [[4, 2]] * 4, [[0.5, 0.3], [0.6, 0.1]] * 2)
        feed = {
            name: fluid.create_lod_tensor(np.array(value, kind), [[2, 2], [1] * 4], CPU)
            for name, value, kind in zip(names, values, kinds, strict=True)
        }
        found = fluid.Executor(CPU).run(feed=feed, fetch_list=list(outs), return_numpy=False)
    assert [np.array(each).ravel().tolist() for each in found[::2]] == [[4, 4], [0, 1]]
    assert found[0].recursive_sequence_lengths() == [[2, 2], [1, 1, 0, 0]]


def test_beams_need_their_lengths() -> None:
    with fresh():
        dense, words = fluid.data("x", [None, 1]), fluid.data("w", [None, 1], "int64")
        with pytest.raises(UnsupportedError, match=r"beam_search.*'scores' is 'x'"):
            layers.beam_search(words, dense, words, dense, 2, 0)
        at = layers.zeros([1], "int64")
        arrays = layers.array_write(words, at), layers.array_write(dense, at)
        with pytest.raises(UnsupportedError, match="should be sequences of two levels"):
            layers.beam_search_decode(*arrays, 2, 0)


def test_sequences_in_an_array() -> None:
    """An element that is read has the sequence lengths that it was written with."""
    with fresh():
        x = fluid.data("x", [None, 1], lod_level=1)
        at = layers.zeros([1], "int64")
        array = layers.array_write(x, at)
        layers.array_write(layers.sequence_reverse(x), layers.increment(at, in_place=False), array)
        sums = layers.sequence_pool(layers.array_read(array, at), "sum")
        value = fluid.create_lod_tensor(np.ones((3, 1), "float32"), [[1, 2]], CPU)
        (found,) = fluid.Executor(CPU).run(feed={"x": value}, fetch_list=[sums])
    assert found.tolist() == [[1], [2]]


@pytest.mark.exhaustive
def test_a_saved_search_names_its_lengths_and_goes_nowhere_else(tmp_path: Path) -> None:
    """Feeds have lengths of both levels; formats that need known sizes refuse the model."""
    pytest.importorskip("onnx_ir")
    with fresh():
        outs, exe = decoder(2), fluid.Executor(CPU)
        exe.run(fluid.default_startup_program())
        feeds = ["context", "ids", "scores"]
        fluid.io.save_inference_model(str(tmp_path / "m"), feeds, list(outs), exe)
        model = paddle.import_model(tmp_path / "m")
    levels = [f"{name}@lens{level}" for name in feeds[1:] for level in (0, "")]
    assert model.fed_names == [*feeds, *levels]
    refused = (
        r"pd.beam_search .*\n.*pd.beam_search_decode .*\nsearch with paddle.nn.BeamSearchDecoder"
    )
    with pytest.raises(UnsupportedError, match=refused):
        model.export(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
