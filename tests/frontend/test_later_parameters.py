"""Parameters that 3.3.1 has and 2.6.2 lacks; the numbers for images are those of 3.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh, run

api: Any = paddle  # the stubs have the parameters of 2.6.2
F: Any = paddle.nn.functional
X = np.array([[1.5, -2.0], [3.0, 4.0]], np.float32)


def test_out_is_written_and_returned() -> None:
    """Functions of one result or several write `out`, and take other later names with it."""
    with fresh():
        x = static.data("x", [2, 2])
        total, best, place = (
            paddle.full([2, n], 7.0, dtype)
            for n, dtype in ((2, "float32"), (1, "float32"), (1, "int64"))
        )
        assert api.add(input=x, other=x, out=total, alpha=2) is total
        made = api.topk(x, 1, out=(best, place))
        assert made[0] is best and made[1] is place
        zeros = paddle.ones([2])
        api.zeros([2], out=zeros, device="cpu", pin_memory=False)
        got = run([total, best, place, zeros], x=X)
    np.testing.assert_array_equal(got[0], 3 * X)
    np.testing.assert_array_equal(got[1], [[1.5], [4.0]])
    np.testing.assert_array_equal(got[2], [[0], [1]])
    np.testing.assert_array_equal(got[3], [0, 0])


def test_out_in_a_traced_function() -> None:
    """`out` is written in place, whichever name holds the tensor."""

    @paddle.jit.to_static
    def traced(x: Any) -> Any:
        kept = paddle.zeros_like(x)
        other = kept
        api.exp(x, out=kept)
        return other

    with fresh():
        got = run([traced(static.data("x", [2, 2]))], x=X)
    np.testing.assert_allclose(got[0], np.exp(X), rtol=1e-6)


def test_what_out_cannot_be() -> None:
    """`out` cannot be a number or too few tensors; functions of no tensors have none."""
    with fresh() as (main, _):
        x = static.data("x", [2, 2])
        with pytest.raises(TypeError, match="'out' must be a Variable, found 3"):
            api.add(x, x, out=3)
        with pytest.raises(TypeError, match="out must have 2 Variables"):
            api.topk(x, 1, out=x)
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            api.seed(1, out=x)
        with pytest.raises(TypeError, match="unexpected keyword argument 'device'"):
            api.add(x, x, device="cpu")
        assert main.global_block().ops == []


def test_made_tensors_may_require_gradients() -> None:
    """`requires_grad` is the opposite of `stop_gradient`."""
    with fresh():
        assert not api.ones([2], requires_grad=True).stop_gradient
        assert api.ones([2], requires_grad=False).stop_gradient


def test_factors_and_roundings() -> None:
    """`alpha`, `rounding_mode`, `dtype`, `correction`, `side`, `sorter` work in methods, too."""

    def net(x: Any) -> list[Any]:
        whole, two = x.astype("int64"), paddle.full([2, 2], 2, "int64")
        seven = paddle.full([2, 2], 7.0)
        index = paddle.to_tensor([0])
        order = paddle.to_tensor([1, 2, 0])
        return [
            api.subtract(x, x, alpha=3),
            x.add(x, alpha=0.5),
            api.add(whole, whole, alpha=2),
            api.index_add(x, index, 0, paddle.ones([1, 2]), alpha=2),
            api.divide(x, seven, rounding_mode="floor"),
            api.div(whole, two, rounding_mode="trunc"),
            api.div(whole, two, rounding_mode="floor"),
            api.divide(x * 4, seven, rounding_mode="trunc"),
            api.mean(x, dtype="float64"),
            api.norm(x, dtype="float64"),
            api.linalg.vector_norm(x, dtype="float64"),
            api.var(x, 0, correction=0.5),
            api.var(x, 0, correction=3),
            api.searchsorted(paddle.to_tensor([3.0, 1.0, 2.0]), x, sorter=order, side="right"),
        ]

    got = computed(net, x=X)
    whole = X.astype(np.int64)
    wanted = [
        -2 * X,
        1.5 * X,
        3 * whole,
        X + np.array([[2, 2], [0, 0]]),
        np.floor(X / 7),
        np.trunc(whole / 2),
        whole // 2,
        np.trunc(X * 4 / 7),
        X.mean(dtype=np.float64),
        np.linalg.norm(X.astype(np.float64)),
        np.linalg.norm(X.astype(np.float64)),
        X.var(0) * 2 / 1.5,
        [np.inf, np.inf],
        [[1, 0], [3, 3]],
    ]
    for n, (one, other) in enumerate(zip(got, wanted, strict=True)):
        np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=str(n))
    assert [one.dtype for one in got[8:11]] == [np.float64] * 3
    with fresh(), pytest.raises(ValueError, match="one of floor, trunc"):
        api.divide(paddle.ones([1]), paddle.ones([1]), rounding_mode="up")
    with fresh(), pytest.raises(ValueError, match="contradicts right"):
        api.searchsorted(paddle.ones([1]), paddle.ones([1]), right=True, side="left")


def test_attention_of_groups() -> None:
    """One key head serves several query heads, and `scale` replaces 1 / sqrt(size)."""
    draw = np.random.default_rng(0)
    q, k = draw.normal(size=(1, 3, 4, 2)), draw.normal(size=(1, 3, 2, 2))
    q, k = q.astype(np.float32), k.astype(np.float32)
    attend = F.scaled_dot_product_attention
    grouped, whole = computed(
        lambda q, k, every: [
            attend(q, k, k, scale=0.3, backend="math"),
            attend(q * (0.3 * np.sqrt(2.0)), every, every),
        ],
        q=q,
        k=k,
        every=np.repeat(k, 2, axis=2),
    )
    np.testing.assert_allclose(grouped, whole, rtol=1e-5)
    with fresh():
        x, y = static.data("x", [1, 3, 4, 2]), static.data("y", [1, 3, 3, 2])
        with pytest.raises(ValueError, match="4 heads of the query should be a multiple of the 3"):
            attend(x, y, y)
        with pytest.raises(ValueError, match="as many heads, found 4, 3 and 3"):
            attend(x, y, y, enable_gqa=False)


def test_images_without_aliasing() -> None:
    """Antialiasing works by both curves, by sizes and factors, channels first and last."""
    image = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) ** 2
    resize = F.interpolate
    got = computed(
        lambda x: [
            resize(x, [2, 2], mode="bilinear", antialias=True),
            resize(x, [2, 2], mode="bicubic", antialias=True),
            resize(x, None, 0.6, "bicubic", align_corners=True, antialias=True),
            resize(
                x.transpose([0, 2, 3, 1]),
                [2, 2],
                None,
                "bilinear",
                data_format="NHWC",
                antialias=True,
            ),
        ],
        x=image,
    )
    first = [[9.142858505249023, 18.571430206298828], [56.28572082519531, 81.42857360839844]]
    second = [[5.730085372924805, 15.73595905303955], [56.3834114074707, 86.55935668945312]]
    third = [[-0.7692310810089111, 3.142857074737549]]
    wanted = [[[first]], [[second]], [[third]], np.array([[first]]).transpose(0, 2, 3, 1)]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    with fresh():
        with pytest.raises(ValueError, match="not 'nearest'"):
            resize(static.data("x", [1, 1, 3, 4]), [2, 2], antialias=True)
        with pytest.raises(ValueError, match="must be known when the program is built"):
            resize(static.data("y", [1, 1, -1, 4]), [2, 2], mode="bilinear", antialias=True)


def test_in_place_is_a_new_tensor() -> None:
    """`inplace` of silu and dropout has no effect."""
    with fresh():
        x = static.data("x", [2, 2])
        assert F.silu(x, inplace=True) is not x
        assert F.dropout(x, 0.5, inplace=True) is not x
