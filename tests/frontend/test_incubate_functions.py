"""Functions and layers of paddle.incubate.nn, with numbers of Paddle 3.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.incubate import nn
from graphopt.incubate.nn import functional as incubate
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh, run

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")


def normed(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def test_norms_of_sums() -> None:
    weight, bias = np.array([1, 2, 1, 0.5], "float32"), np.full(4, 0.5, "float32")
    found = computed(
        lambda x, w, b: [
            incubate.fused_rms_norm(x, w, b, 1e-5, 2),
            *incubate.fused_rms_norm(x, w, None, 1e-5, 2, bias=b, residual=x),
            incubate.fused_layer_norm(x, w, b, 1e-5, begin_norm_axis=2),
            *incubate.fused_layer_norm(
                x, w, b, 1e-5, residual_alpha=0.5, begin_norm_axis=2, bias=b, residual=x
            ),
            incubate.fused_layer_norm(x, None, None, 1e-5, residual=x),
            incubate.fused_bias_dropout_residual_layer_norm(x, x, b, w, b, training=False),
        ],
        x=X,
        w=weight,
        b=bias,
    )
    double = 2 * X + bias

    def root(x: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    wanted = [
        *(root(X) * weight + bias, root(double) * weight, double),
        *(normed(X) * weight + bias, normed(1.5 * X + bias) * weight + bias, 1.5 * X + bias),
        *(2 * X, normed(double) * weight + bias),
    ]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, expected, 1e-4, 1e-5)


def test_the_norm_of_a_sum_as_paddle_saves_it() -> None:
    """The results are norm, sum, means, and inverse standard deviations."""
    weight, bias = np.array([1, 2, 1, 0.5], "float32"), np.full(4, 0.5, "float32")
    kind, outs = "fused_bias_residual_layernorm", ("out", "residual_out", "mean", "variance")
    with fresh():
        x, w, b = (
            static.data(n, list(v.shape), "float32")
            for n, v in zip("xwb", (X, weight, bias), strict=True)
        )
        block = x.block
        results = {slot: block.create_var(slot, dtype="float32") for slot in outs}
        slots = {"x": x, "bias": b, "residual": x, "norm_weight": w, "norm_bias": b}
        attrs = {"epsilon": 1e-5, "residual_alpha": 0.5, "begin_norm_axis": 2, "quant_scale": -1.0}
        block.append_op(kind, slots, results, attrs)
        total = block.create_var("total", dtype="float32")
        block.append_op(
            kind, {"x": x, "residual": x}, {"out": total}, attrs | {"residual_alpha": 1.0}
        )
        found = run([*results.values(), total], x=X, w=weight, b=bias)
    added = 1.5 * X + bias
    rows = added.reshape(6, 4)
    wanted = [normed(added) * weight + bias, added, rows.mean(1)]
    for value, expected in zip(
        found, [*wanted, 1 / np.sqrt(rows.var(1) + 1e-5), 2 * X], strict=True
    ):
        np.testing.assert_allclose(value, expected, 1e-4, 1e-5)


def test_linear_layers_with_what_follows() -> None:
    weight = np.random.default_rng(1).standard_normal((4, 3)).astype("float32")
    bias = np.array([1, -1, 0], "float32")
    found = computed(
        lambda x, w, b: [
            incubate.fused_linear(x, w, b),
            incubate.fused_matmul_bias(x, w.mT, None, False, True),
            incubate.fused_linear_activation(x, w, b, activation="relu"),
            incubate.fused_dropout_add(x, x, 0.5, False, "downscale_in_infer"),
            incubate.fused_bias_act(x, act_method="swiglu"),
        ],
        x=X,
        w=weight,
        b=bias,
    )
    linear = X @ weight + bias
    gate, rest = X[..., :2], X[..., 2:]
    wanted = [linear, X @ weight, np.maximum(linear, 0), 1.5 * X, gate / (1 + np.exp(-gate)) * rest]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("neighbours", [True, False])
def test_positions_turn_pairs(neighbours: bool) -> None:
    """A pair (a, b) at position p becomes (a cos - b sin, b cos + a sin)."""
    q = np.random.default_rng(0).standard_normal((2, 3, 2, 4)).astype("float32")
    angles = np.repeat(np.arange(3)[:, None] / 10000 ** (np.arange(0, 4, 2) / 4), 2, 1)
    if neighbours:
        partner = np.stack([-q[..., 1::2], q[..., ::2]], -1).reshape(q.shape)
    else:
        partner = np.concatenate([-q[..., 2:], q[..., :2]], -1)

    def wanted(angles: Any) -> Any:
        return q * np.cos(angles)[..., None, :] + partner * np.sin(angles)[..., None, :]

    ids = np.array([[2, 0, 1], [0, 0, 2]])
    sin, cos = (f(angles).astype("float32") for f in (np.sin, np.cos))
    rotated = incubate.fused_rotary_position_embedding

    def outputs(q: Any, sin: Any, cos: Any, ids: Any) -> list[Any]:
        first, second, third = rotated(q, q, use_neox_rotary_style=neighbours)
        assert third is None
        late = rotated(q, None, None, sin, cos, ids, neighbours)[0]
        turned = paddle.transpose(q, [1, 0, 2, 3])
        major = rotated(turned, use_neox_rotary_style=neighbours, time_major=True)[0]
        return [first, second, paddle.transpose(major, [1, 0, 2, 3]), late]

    found = computed(outputs, q=q, sin=sin, cos=cos, ids=ids)
    for value in found[:3]:
        np.testing.assert_allclose(value, wanted(angles), 1e-5, 1e-6)
    np.testing.assert_allclose(found[3], wanted(angles[ids]), 1e-5, 1e-6)


def test_layers_hold_the_parameters() -> None:
    def outputs(x: Any) -> list[Any]:
        after, before = (
            nn.FusedFeedForward(4, 8, 0.0),
            nn.FusedFeedForward(4, 8, normalize_before=True),
        )
        after.eval()
        return [
            after(x),
            before(x),
            nn.FusedLinear(4, 2, transpose_weight=True)(x),
            nn.FusedDropoutAdd(0.0)(x, x),
            nn.FusedBiasDropoutResidualLayerNorm(4, 0.0)(x, x),
        ]

    after, before, linear, added, norm = computed(outputs, x=X)
    assert before.shape == X.shape and linear.shape == (2, 3, 2)
    np.testing.assert_allclose(after.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(added, 2 * X, 1e-6)
    np.testing.assert_allclose(norm, normed(2 * X), 1e-4, 1e-5)


def test_functions_of_incubate() -> None:
    scores = X[None]
    found = computed(
        lambda x: [
            paddle.incubate.softmax_mask_fuse(x, x),
            paddle.incubate.identity_loss(x, 1),
            paddle.incubate.graph_send_recv(
                x[0, 0], paddle.assign(np.array([0, 2])), paddle.assign(np.array([1, 1]))
            ),
        ],
        x=scores,
    )
    powers = np.exp(2 * scores)
    np.testing.assert_allclose(found[0], powers / powers.sum(-1, keepdims=True), 1e-5)
    np.testing.assert_allclose(found[1], X.mean(), 1e-5)
    np.testing.assert_allclose(found[2], [0 * X[0, 0], X[0, 0] + X[0, 2], 0 * X[0, 0]], 1e-5)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (
            lambda x: incubate.fused_rms_norm(x, x, x, 1e-5, 2, quant_scale=1.0),
            UnsupportedError,
            "no quantised",
        ),
        (lambda x: incubate.fused_rotary_position_embedding(x), ValueError, "an even size"),
        (
            lambda x: incubate.fused_linear_activation(x, x, x, activation="tanh"),
            ValueError,
            "relu",
        ),
        (lambda x: nn.FusedFeedForward(4, 4, nranks=2), UnsupportedError, "tensor parallelism"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Any, error: type[Exception], words: str) -> None:
    with fresh(), pytest.raises(error, match=words):
        wrong(static.data("x", [2, 3, 4]))
