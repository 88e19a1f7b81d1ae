"""Layers by data, by ranks and by boxes give the same numbers after saving and loading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.incubate import layers as ranking
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.frontend.test_ranking_layers import TREE, valued

DRAW = np.random.RandomState(1)
layers, contrib = fluid.layers, fluid.contrib.layers
Data = Callable[..., Any]
MAKERS: list[Callable[[Data], Any]] = []


def maker(function: Callable[[Data], Any]) -> Callable[[Data], Any]:
    """Register a function that builds layers from feeds that its argument declares."""
    MAKERS.append(function)
    return function


def draw(*shape: int) -> Any:
    return DRAW.randn(*shape).astype("float32")


@maker
def loss_of_a_transducer(data: Data) -> Any:
    x, label = data("x", draw(2, 4, 3, 5)), data("y", np.array([[1, 2], [3, 1]], "int32"))
    lengths = data("n", np.array([4, 3], "int32")), data("m", np.array([2, 1], "int32"))
    return paddle.nn.functional.rnnt_loss(x, label, *lengths, reduction="none")


@maker
def layers_of_groups(data: Data) -> Any:
    attrs = valued("w", draw(2, 4, 5)), valued("b", draw(2, 5))
    x = data("x", draw(2, 3, 4), whole=True)
    return ranking.batch_fc(x, [2, 4, 5], attrs[0], [2, 5], attrs[1], "relu")


@maker
def ranked(data: Data) -> Any:
    ranks = np.array([[2, 1, 1, 2, 0], [1, 1, 1, 0, 0], [0, 1, 2, 0, 0]], "int32")
    table = valued("w", draw(8, 3))
    return ranking.rank_attention(data("x", draw(3, 2)), data("r", ranks), [8, 3], table, 2)


@maker
def children(data: Data) -> Any:
    x = data("x", np.array([[0], [1], [2], [4]]))
    return list(contrib.tdm_child(x, 6, 2, valued("t", np.array(TREE, "int32"))))


@maker
def sampled(data: Data) -> Any:
    above, nodes = np.array([[1, 3], [1, 4], [2, 5]], "int32"), np.arange(1, 6, dtype="int32")
    attrs = valued("a", above), valued("n", nodes[:, None])
    x = data("x", np.array([[0], [1], [2]]))
    out, labels, mask = ranking.tdm_sampler(x, [1, 2], [2, 3], 3, *attrs, seed=7)
    return [*out, *labels, *mask]


@maker
def hashed(data: Data) -> Any:
    return layers.hash(data("x", np.array([[5], [8]], "int32")), 1000, 3)


@maker
def tree(data: Data) -> Any:
    edges = data("e", np.array([[[1, 2], [1, 3], [0, 0]]], "int32"))
    attr = valued("w", draw(2, 3, 3, 2))
    return contrib.tree_conv(data("x", draw(1, 4, 2)), edges, 3, 2, 2, None, attr, False)


@maker
def quadrangles(data: Data) -> Any:
    corners = np.array([[2, 2, 6, 2, 5, 6, 2, 6], [0, 0, 8, 0, 8, 8, 0, 8]], "float32")
    made = layers.roi_perspective_transform(
        data("x", draw(2, 1, 6, 6)), data("r", corners, [1, 1]), 3, 3, 0.5
    )
    return list(made)


@maker
def moved_cells(data: Data) -> Any:
    boxes = data("r", np.array([[1, 1, 4, 4], [0, 2, 5, 5]], "float32"), [2])
    x, moves = data("x", draw(1, 4, 6, 8)), data("t", draw(2, 2, 2, 3))
    size = {"pooled_height": 2, "pooled_width": 3, "part_size": (2, 3), "sample_per_part": 2}
    return layers.deformable_roi_pooling(x, boxes, moves, group_size=(1, 1), **size)


@maker
def tagged(data: Data) -> Any:
    tags = data("t", np.array([[1], [2], [3], [1]]), [2, 1, 1])
    x, wanted = data("x", draw(5, 2), [2, 1, 2]), data("w", np.array([1]))
    return list(layers.filter_by_instag(x, tags, wanted, True, 7))


@maker
def side_by_side(data: Data) -> Any:
    x, y = data("x", draw(3, 2), [2, 1]), data("y", draw(4, 2), [1, 3])
    return list(contrib.match_matrix_tensor(x, y, 2, param_attr=valued("w", draw(2, 2, 2))))


@maker
def block(data: Data) -> Any:
    x, size = data("x", draw(3, 4, 5)), data("n", np.array([2], "int32"))
    return [paddle.crop(x, [2, size, -1], [1, size, 0]), paddle.crop(x, [2, 3, 2], [1, 0, 3])]


@pytest.mark.every(5)
@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_saved_and_loaded(make: Callable[[Data], Any], tmp_path: Path) -> None:
    feed: dict[str, Any] = {}
    declared: list[Any] = []

    def data(name: str, value: Any, lengths: list[int] | None = None, whole: bool = False) -> Any:
        shape = [value.shape[0] if whole else None, *value.shape[1:]]
        made = fluid.data(name, shape, str(value.dtype), lod_level=0 if lengths is None else 1)
        place = fluid.CPUPlace()
        feed[name] = value if lengths is None else fluid.create_lod_tensor(value, [lengths], place)
        declared.append(made)
        return made

    path = str(tmp_path / "m")
    with fresh() as (main, startup):
        made = make(data)
        wanted = made if isinstance(made, list) else [made]
        exe = static.Executor()
        if startup.global_block().ops:
            exe.run(startup)
        before = exe.run(main, feed, wanted, return_numpy=False)
        static.save_inference_model(path, declared, wanted, exe, program=main)
    with fresh():
        exe = static.Executor()
        program, names, fetches = static.load_inference_model(path, exe)
        kept = {name: feed[name] for name in names}
        after = exe.run(program, kept, fetches, return_numpy=False)
    for have, want in zip(after, before, strict=True):
        assert have.recursive_sequence_lengths() == want.recursive_sequence_lengths()
        np.testing.assert_array_equal(np.asarray(have), np.asarray(want))
        assert np.asarray(have).dtype == np.asarray(want).dtype
