"""Attention as people write it: each form becomes one op, with the same losses in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import Report, optimize
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy

HEADS, SIZE, ROWS = 2, 4, 3
WIDTH = HEADS * SIZE
Var = Any
RANDOM = np.random.default_rng(0)
FEEDS = {
    "x": RANDOM.standard_normal((2, ROWS, WIDTH)).astype("float32"),
    "near": RANDOM.standard_normal((HEADS, ROWS, ROWS)).astype("float32"),
    "pad": np.array([[[[0, 0, -1e4]]], [[[0, 0, 0]]]], "float32"),
    "cosine": np.cos(RANDOM.standard_normal((1, 5, 1, SIZE))).astype("float32"),
    "sine": np.sin(RANDOM.standard_normal((1, 5, 1, SIZE))).astype("float32"),
    "cache": RANDOM.standard_normal((2, 4, HEADS, SIZE)).astype("float32"),
    "hide": np.array([[[[False, False, True]]], [[[False, True, False]]]]),
}


def data(name: str) -> Var:
    """Make a placeholder with open batch and length."""
    shape = [
        -1 if dim in (2, ROWS) and axis != 1 else dim for axis, dim in enumerate(shape_of(name))
    ]
    return static.data(name, shape, str(FEEDS[name].dtype))


def shape_of(name: str) -> tuple[int, ...]:
    return FEEDS[name].shape


def heads(x: Var) -> Var:
    return paddle.transpose(paddle.reshape(x, [0, 0, HEADS, SIZE]), [0, 2, 1, 3])


def projected(x: Var) -> list[Var]:
    return [heads(nn.Linear(WIDTH, WIDTH)(x)) for _ in range(3)]


def joined(core: Var) -> Var:
    return paddle.reshape(paddle.transpose(core, [0, 2, 1, 3]), [0, 0, WIDTH])


def ended(core: Var, x: Var) -> Var:
    return paddle.add(nn.Linear(WIDTH, WIDTH)(joined(core)), x)


def weighted(scores: Var, v: Var, axis: int = -1) -> Var:
    return paddle.matmul(F.softmax(scores, axis=axis), v)


def with_scores(change: Callable[[Var], Var], axis: int = -1) -> Callable[[], Var]:
    """Build self-attention that changes the scores before the softmax."""

    def build() -> Var:
        x = data("x")
        q, k, v = projected(x)
        return ended(weighted(change(paddle.matmul(q, k, transpose_y=True)), v, axis), x)

    return build


def read_shapes() -> Var:
    """Build attention that takes batch and length from the tensors' shapes."""
    x = data("x")
    n, t = paddle.shape(x)[0], paddle.shape(x)[1]
    q, k, v = (
        paddle.transpose(
            paddle.reshape(nn.Linear(WIDTH, WIDTH)(x), [n, t, HEADS, SIZE]), [0, 2, 1, 3]
        )
        for _ in range(3)
    )
    core = weighted(paddle.matmul(q * SIZE**-0.5, k, transpose_y=True), v)
    core = paddle.transpose(core, [0, 2, 1, 3])
    sizes = paddle.shape(core)
    core = paddle.reshape(core, [sizes[0], sizes[1], WIDTH])
    return paddle.add(x, nn.Linear(WIDTH, WIDTH)(core))


def joint_of_five() -> Var:
    """Build attention with one projection, [n, t, 3, heads, size], split by indices."""
    x = data("x")
    qkv = paddle.reshape(nn.Linear(WIDTH, 3 * WIDTH)(x), [0, 0, 3, HEADS, SIZE])
    qkv = paddle.transpose(qkv, [2, 0, 3, 1, 4])
    return ended(weighted(paddle.matmul(qkv[0], qkv[1], transpose_y=True), qkv[2]), x)


def joint_by_heads() -> Var:
    """Build attention with one projection whose columns are q, k and v of each head."""
    x = data("x")
    qkv = paddle.reshape(nn.Linear(WIDTH, 3 * WIDTH)(x), [0, 0, HEADS, 3 * SIZE])
    q, k, v = paddle.split(paddle.transpose(qkv, [0, 2, 1, 3]), 3, axis=-1)
    scores = paddle.matmul(q, paddle.transpose(k, [0, 1, 3, 2])) / SIZE**0.5
    return ended(weighted(scores, v), x)


def turned_weights() -> Var:
    """Build attention with weights as [out, in]."""
    x = data("x")
    weights = [static.create_parameter([WIDTH, WIDTH], "float32") for _ in range(4)]
    q, k, v = (heads(paddle.matmul(x, w, transpose_y=True)) for w in weights[:3])
    core = weighted(paddle.matmul(q, k, transpose_y=True), v)
    return paddle.add(x, paddle.matmul(joined(core), weights[3], transpose_y=True))


def keys_without_bias() -> Var:
    x = data("x")
    q, k, v = (heads(nn.Linear(WIDTH, WIDTH, bias_attr=bias)(x)) for bias in (None, False, None))
    return ended(weighted(paddle.matmul(q, k, transpose_y=True), v), x)


def fully_connected() -> Var:
    """Build attention with layers of static.nn.fc, which are Paddle's mul."""
    x = data("x")

    def fc(x: Var) -> Var:
        return static.nn.fc(x, WIDTH, num_flatten_dims=2)

    q, k, v = (heads(fc(x)) for _ in range(3))
    return paddle.add(x, fc(joined(weighted(paddle.matmul(q, k, transpose_y=True), v))))


def rotated(x: Var, cosine: Var, sine: Var) -> Var:
    first, second = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return x * cosine + paddle.concat([-second, first], axis=-1) * sine


def grouped_queries() -> Var:
    """Build LLaMA's attention: rotary positions, one key-value head, sizes read from tensors."""
    x = data("x")
    n, t = paddle.shape(x)[0], paddle.shape(x)[1]
    q = paddle.reshape(nn.Linear(WIDTH, WIDTH, bias_attr=False)(x), [n, t, HEADS, SIZE])
    k, v = (
        paddle.reshape(nn.Linear(WIDTH, SIZE, bias_attr=False)(x), [n, t, 1, SIZE])
        for _ in range(2)
    )
    turns = [paddle.slice(data(name), [1], [0], [t]) for name in ("cosine", "sine")]
    k = rotated(k, *turns)
    k, v = (paddle.tile(paddle.unsqueeze(part, [3]), [1, 1, 1, HEADS, 1]) for part in (k, v))
    q, k, v = (
        paddle.transpose(part, [0, 2, 1, 3])
        for part in (
            rotated(q, *turns),
            paddle.reshape(k, [0, 0, HEADS, SIZE]),
            paddle.reshape(v, [0, 0, HEADS, SIZE]),
        )
    )
    core = weighted(paddle.matmul(q, k, transpose_y=True) + data("pad"), v)
    core = paddle.reshape(paddle.transpose(core, [0, 2, 1, 3]), [n, t, WIDTH])
    return paddle.add(x, nn.Linear(WIDTH, WIDTH)(core))


def after_a_cache() -> Var:
    """Append keys and values to a cache of earlier steps, [n, t, heads, size]."""
    x = data("x")
    q, k, v = (paddle.reshape(nn.Linear(WIDTH, WIDTH)(x), [0, 0, HEADS, SIZE]) for _ in range(3))
    k, v = (paddle.concat([data("cache"), part], axis=1) for part in (k, v))
    q, k, v = (paddle.transpose(part, [0, 2, 1, 3]) for part in (q, k, v))
    return ended(weighted(paddle.matmul(q, k, transpose_y=True), v), x)


def by_einsum() -> Var:
    """Build attention by two einsums, with the heads after the length."""
    x = static.data("x", shape_of("x"), "float32")
    q, k, v = (paddle.reshape(nn.Linear(WIDTH, WIDTH)(x), [0, 0, HEADS, SIZE]) for _ in range(3))
    scores = paddle.einsum("blhe,bshe->bhls", q, k) / SIZE**0.5
    core = paddle.einsum("bhls,bshd->blhd", F.softmax(scores), v)
    return paddle.add(nn.Linear(WIDTH, WIDTH)(paddle.reshape(core, [0, 0, WIDTH])), x)


def in_windows() -> Var:
    """Build Swin's attention: each window of an image has a mask."""
    x = static.data("x", shape_of("x"), "float32")
    q, k, v = projected(x)
    scores = paddle.matmul(q * 0.5, k, transpose_y=True) + data("near")
    apart = paddle.reshape(scores, [1, 2, HEADS, ROWS, ROWS])
    apart = apart + paddle.unsqueeze(static.data("pad", shape_of("pad"), "float32"), [0])
    return ended(weighted(paddle.reshape(apart, [-1, HEADS, ROWS, ROWS]), v), x)


def hidden(scores: Var) -> Var:
    return paddle.where(data("hide"), paddle.full([1], -1e4), scores)


FORMS: dict[str, Callable[[], Var]] = {
    "sizes read off tensors": read_shapes,
    "one projection of five axes": joint_of_five,
    "one projection by heads": joint_by_heads,
    "transposed weights": turned_weights,
    "keys without bias": keys_without_bias,
    "static.nn.fc": fully_connected,
    "two masks": with_scores(lambda s: s * 0.5 + data("near") + data("pad")),
    "mask, then scale": with_scores(lambda s: paddle.scale(s + data("pad"), 0.5)),
    "mask on the left": with_scores(lambda s: data("pad") + s / 2.0),
    "hidden where true": with_scores(hidden),
    "rotary positions and grouped queries": grouped_queries,
    "after a cache": after_a_cache,
    "a mask that is subtracted": with_scores(lambda s: (s + data("near")) * 0.5 - data("pad")),
    "einsum": by_einsum,
    "in windows": in_windows,
    "softmax axis 3": with_scores(lambda s: s, axis=3),
}


def report_of(build: Callable[[], Var], *fetched: str) -> Report:
    """Optimize the program with fused_attention, and return the report."""
    with fresh() as (main, _):
        out = build()
        used = [n for n in FEEDS if main.global_block().has_var(n)]
        module = parse_program(main, used, [out.name, *fetched])
    return optimize(module, PassContext({"fused_attention": True}, frozenset({"fused_attention"})))


# forms whose fused op reads something new: a sum, a transpose, zeros
TRAINED = ("transposed weights", "keys without bias", "two masks", "mask, then scale")
TRAINED = (*TRAINED, "hidden where true", "sizes read off tensors")
TRAINED = (*TRAINED, "rotary positions and grouped queries", "after a cache")
TRAINED = (*TRAINED, "a mask that is subtracted", "einsum", "in windows")


@pytest.mark.every(3)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_one_op(form: str) -> None:
    """Each form in float32 becomes one op; some are trained with and without the fusion."""

    def losses(**flags: bool) -> list[float]:
        with fresh() as (main, startup):
            paddle.seed(5)
            loss = paddle.mean(paddle.square(FORMS[form]()))
            paddle.optimizer.SGD(0.1).minimize(loss)
            used = {n: FEEDS[n] for n in FEEDS if main.global_block().has_var(n)}
            executor = static.Executor(paddle.CPUPlace())
            executor.run(startup)
            program = CompiledProgram(main, strategy(**flags))
            return [executor.run(program, used, [loss])[0].item() for _ in range(2)]

    fired = [o.rule for o in report_of(FORMS[form]).outcomes if isinstance(o, Applied)]
    assert fired.count("fused-attention") == 1, fired
    if form not in TRAINED:
        return
    plain = losses()
    assert len(set(plain)) == 2
    np.testing.assert_allclose(losses(fused_attention=True), plain, rtol=1e-4)


def test_windows_of_heads_that_were_reshaped() -> None:
    """One reshape splits the heads, so that a second run of the passes makes no change."""
    flag = "fuse_dot_product_attention"
    with fresh() as (main, _):
        flat = static.data("flat", [2, HEADS * ROWS * SIZE], "float32")
        q = paddle.reshape(flat, [2, HEADS, ROWS, SIZE])
        k, v = (static.data(name, [2, HEADS, ROWS, SIZE], "float32") for name in "kv")
        scores = paddle.matmul(q, k, transpose_y=True) * 0.5
        apart = paddle.reshape(scores, [1, 2, HEADS, ROWS, ROWS])
        apart = apart + static.data("mask", [1, 2, 1, ROWS, ROWS], "float32")
        out = weighted(paddle.reshape(apart, [-1, HEADS, ROWS, ROWS]), v)
        fed = ["flat", "k", "v", "mask"]
        module = parse_program(main, fed, [out.name, (q + 1.0).name])
    context = PassContext({flag: True}, frozenset({flag}))
    assert len(optimize(module, context).applied(flag.replace("_", "-"))) == 1
    again = optimize(module, context).outcomes
    assert not [outcome for outcome in again if isinstance(outcome, Applied)]


def needed(report: Report) -> set[str]:
    return {str(o.reason) for o in report.declined("fused-attention")}


def test_weights_that_are_asked_for() -> None:
    """need_weights exposes the softmax, which the fused op does not return."""

    def build() -> Var:
        x = data("x")
        out, weights = nn.MultiHeadAttention(WIDTH, HEADS, need_weights=True)(x, x, x)
        return paddle.add(paddle.mean(out), paddle.mean(weights))

    report = report_of(build)
    assert not report.applied("fused-attention")
    assert any("`softmax` is also read by" in text for text in needed(report)), needed(report)


def test_keys_from_a_cache() -> None:
    """The keys and values for the next step are results of the fused op."""
    with fresh() as (main, startup):
        x = data("x")
        layer = nn.MultiHeadAttention(WIDTH, HEADS)
        kept = [static.data(n, [-1, HEADS, -1, SIZE], "float32") for n in ("keys", "values")]
        out, cache = layer(x, x, x, None, nn.MultiHeadAttention.Cache(*kept))
        wanted = [out, cache.k, cache.v]
        found = paddle.explain(main, strategy(fused_attention=True), wanted)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        feed = {"x": FEEDS["x"]}
        feed |= {v.name: RANDOM.standard_normal((2, HEADS, 5, SIZE), "float32") for v in kept}
        plain, fused = (
            executor.run(CompiledProgram(main, strategy(fused_attention=flag)), feed, wanted)
            for flag in (False, True)
        )
    assert found.applied("fused-attention") == 1
    for have, want in zip(fused, plain, strict=True):
        np.testing.assert_allclose(have, want, atol=1e-6)


def test_keys_of_a_cache_alone() -> None:
    """For keys and values that were projected earlier, explain names the missing projection."""
    with fresh() as (main, _):
        x = data("x")
        layer = nn.MultiHeadAttention(WIDTH, HEADS)
        kept = [static.data(n, [-1, HEADS, -1, SIZE], "float32") for n in ("keys", "values")]
        out, _ = layer(x, x, x, None, nn.MultiHeadAttention.StaticCache(*kept))
        found = paddle.explain(main, strategy(fused_attention=True), [out])
    assert found.applied("fused-attention") == 0
    (miss,) = found.report.near_misses("fused-attention")
    text = "only-the-core: `k` should be a projection in heads, found an argument"
    assert str(miss.reason) == text


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda s: paddle.tanh(s * 0.5) * 8.0, "found pd.tanh"),
        (lambda s: paddle.exp(paddle.transpose(s, [0, 2, 1])), "found pd.transpose"),
        (
            lambda s: sum((static.data(n, [3], "float32") for n in "abcd"), s),
            "found more than two masks",
        ),
    ],
)
def test_scores_of_other_ops(change: Callable[[Var], Var], found: str) -> None:
    """Attention that no fusion matches is reported, with the first op that prevents it."""
    with fresh() as (main, _):
        q, k, v = (static.data(n, [2, 3, 4], "float32") for n in "qkv")
        out = weighted(change(paddle.matmul(q, k, transpose_y=True)), v)
        report = paddle.explain(main, strategy(fuse_dot_product_attention=True), [out])
    (row,) = [r for r in report.refusals() if r.pass_name == "fuse-dot-product-attention"]
    assert row.near and found in row.text, row


def test_a_softmax_that_weighs_no_values_of_keys() -> None:
    """An expectation over fixed numbers, as in detectors, is not reported as attention."""
    with fresh() as (main, _):
        x = static.data("x", [2, 8], "float32")
        weights = F.softmax(nn.Linear(8, 16)(x))
        out = paddle.matmul(weights, paddle.reshape(paddle.arange(16, dtype="float32"), [16, 1]))
        report = paddle.explain(main, strategy(fuse_dot_product_attention=True), [out])
    assert not [r for r in report.refusals() if r.pass_name == "fuse-dot-product-attention"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_with_a_softmax_in_float32(dtype: str) -> None:
    """The core includes the casts around the softmax, and the mask may be float32."""
    with fresh() as (main, _):
        q, k, v = (static.data(n, [2, 3, 4], dtype) for n in "qkv")
        scores = paddle.cast(paddle.matmul(q, k, transpose_y=True) * 0.5, "float32")
        weights = F.softmax(scores + static.data("mask", [3], "float32"))
        out = paddle.cast(paddle.matmul(paddle.cast(weights, dtype), v), "float32")
        feeds = {n: RANDOM.standard_normal((2, 3, 4)).astype("float32") for n in "qkv"}
        feed = {n: a.astype(as_dtype(dtype).numpy) for n, a in feeds.items()}
        feed["mask"] = np.array([0, -1e9, 0.5], "float32")
        results: list[np.ndarray[Any, Any]] = []
        for fused in (False, True):
            program = CompiledProgram(main, strategy(fuse_dot_product_attention=fused))
            executor = static.Executor(paddle.CPUPlace())
            results.append(executor.run(program, feed, [out])[0])
        found = paddle.explain(main, strategy(fuse_dot_product_attention=True), [out])
    assert found.applied("fuse-dot-product-attention") == 1
    np.testing.assert_allclose(results[1], results[0], atol=3e-2)
