"""Layers of programs that rank items: numbers by hand, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.incubate import layers
from graphopt_tests.frontend.programs import fresh, run, start

DRAW = np.random.RandomState(0)
# item, layer, ancestor, two children
TREE = [[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 5, 0]]
TREE += [[1, 2, 1, 0, 0], [2, 2, 1, 0, 0], [3, 2, 2, 0, 0]]


def valued(name: str, value: Any) -> paddle.ParamAttr:
    return paddle.ParamAttr(name, paddle.nn.initializer.Assign(np.asarray(value)))


def test_a_layer_of_its_own_for_each_group() -> None:
    x = DRAW.randn(2, 3, 4).astype("float32")
    weight, bias = DRAW.randn(2, 4, 5).astype("float32"), DRAW.randn(2, 5).astype("float32")
    with fresh() as (main, _):
        data = static.data("x", [2, None, 4])
        attrs = valued("w", weight), valued("b", bias)
        out = layers.batch_fc(data, [2, 4, 5], attrs[0], [2, 5], attrs[1], "relu")
        (slope,) = static.gradients([paddle.sum(out)], [main.global_block().var("b")])
        start()
        found, gradient = run([out, slope], x=x)
        with pytest.raises(ValueError, match=r"'input' \[groups, n, in\].* should fit, found"):
            layers.batch_fc(data, [3, 4, 5], None, [3, 5], None)
    wanted = np.maximum(x @ weight + bias[:, None], 0)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    np.testing.assert_allclose(gradient, (wanted > 0).sum(1))


def test_items_beside_each_other() -> None:
    """Of three items the first two are in one list, and the third has no rank."""
    x = DRAW.randn(3, 2).astype("float32")
    table = DRAW.randn(2, 2, 2, 3).astype("float32")
    ranks = np.array([[2, 1, 1, 2, 0], [1, 1, 1, 0, 0], [0, 1, 2, 0, 0]], "int32")
    with fresh() as (main, _):
        data, offsets = static.data("x", [None, 2]), static.data("r", [None, 5], "int32")
        data.stop_gradient = False
        out = layers.rank_attention(data, offsets, [8, 3], valued("w", table.reshape(8, 3)), 2)
        # the input is not trained
        assert static.gradients([paddle.sum(out)], [data]) in ([], [None])
        (slope,) = static.gradients([paddle.sum(out)], [main.global_block().var("w")])
        start()
        found, gradient = run([out, slope], x=x, r=ranks)
        with pytest.raises(ValueError, match=r"should begin with 3 \* 3 \* 2"):
            layers.rank_attention(data, offsets, [8, 3], None)
    wanted = [x[1] @ table[1, 0] + x[0] @ table[1, 1], x[1] @ table[0, 0], np.zeros(3)]
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    used = np.stack([x[1], np.zeros(2), x[1], x[0]]).reshape(8, 1)
    np.testing.assert_allclose(gradient, np.broadcast_to(used, (8, 3)), 1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_children_in_a_tree(dtype: str) -> None:
    with fresh():
        x = static.data("x", [None, 1], "int64")
        tree = valued("t", np.array(TREE, dtype))
        made = fluid.contrib.layers.tdm_child(x, 6, 2, tree, dtype)
        start()
        children, leaves = run(list(made), x=np.array([[0], [1], [2], [4]]))
    assert str(children.dtype) == dtype
    assert children.tolist() == [[[0, 0]], [[3, 4]], [[5, 0]], [[0, 0]]]
    assert leaves.tolist() == [[[0, 0]], [[1, 1]], [[1, 0]], [[0, 0]]]


@pytest.mark.every(2)
@pytest.mark.parametrize("positive", [True, False])
def test_other_nodes_of_a_layer(positive: bool) -> None:
    """Sampled nodes differ from each other and from the leaf's; a leaf without a node has none."""
    above, nodes = np.array([[1, 3], [1, 4], [2, 0]], "int32"), np.array([[1], [2], [3], [4], [5]])
    with fresh():
        x = static.data("x", [None, 1], "int64")
        attrs = valued("a", above), valued("n", nodes.astype("int32"))
        out, labels, mask = layers.tdm_sampler(
            x, [1, 2], [2, 3], 3, *attrs, output_positive=positive
        )
        start()
        found = run([*out, *labels, *mask], x=np.array([[0], [1], [2]] * 10))
    first, second = (each[..., 0] for each in found[:2])
    if not positive:
        assert (first == np.tile([[2], [2], [1]], (10, 1))).all()
        assert not found[2].any()
        return
    assert (first == np.tile([[1, 2], [1, 2], [2, 1]], (10, 1))).all()
    assert not second[2::3].any()
    for row, own in ((0, 3), (1, 4)):
        assert (second[row::3, 0] == own).all()
        rest = np.sort(second[row::3, 1:], 1)
        assert (rest == [each for each in (3, 4, 5) if each != own]).all()
    assert (found[3][..., 0] == np.tile([[1, 0, 0], [1, 0, 0], [0, 0, 0]], (10, 1))).all()
    assert (found[5][..., 0] == np.tile([[1, 1, 1], [1, 1, 1], [0, 0, 0]], (10, 1))).all()


def test_more_samples_than_nodes() -> None:
    with fresh(), pytest.raises(ValueError, match="should have a number below that of the nodes"):
        layers.tdm_sampler(static.data("x", [None, 1], "int64"), [2, 2], [2, 3], 3)


def test_sums_of_sequences_with_shows_and_clicks() -> None:
    rows = np.array([[1, 2, 3], [0, 1, -1], [2, 0, 0.5]], "float32")
    with fresh():
        x = fluid.data("x", [None, 3], lod_level=1)
        counts = static.data("c", [None, 2])
        (made,) = layers.fused_seqpool_cvm([x], "sum", counts)
        feed: dict[str, Any] = {"x": fluid.create_lod_tensor(rows, [[2, 1]], fluid.CPUPlace())}
        feed["c"] = np.ones((2, 2), "float32")
        (found,) = fluid.Executor().run(feed=feed, fetch_list=[made])
    shows = np.log([2, 3])
    wanted = np.stack([shows, np.log([4, 1]) - shows, [2, 0.5]], 1)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
