"""Attention by tiles of the scores: the numbers and derivatives equal attention as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import graphopt as paddle
from graphopt import nn, static, utils
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering.kernels import attention_heads, flash
from graphopt.lowering.kernels.attention import AttentionOperands, ScoreWeighing, at_once
from graphopt.lowering.kernels.attention_heads import attention
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.fusions.fuse_dot_product_attention import FuseLongAttention
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt_tests.op_calls import rule_of
from graphopt_tests.ops.base import bf16, f32, f64, flags, sample

MASKS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "whole": lambda: f64(2, 3, 7, 5),
    "rows": lambda: f64(7, 1),
    "columns": lambda: f64(2, 1, 1, 5),
    "number": lambda: f64(1, 1),
    "boolean": lambda: flags(3, 7, 5) | (np.arange(5) == 2),
    "boolean columns": lambda: flags([[True, False, True, True, False]]),
}
WEIGHING = ScoreWeighing(0.4, -np.inf, 1.25)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Split seven queries, and five keys, into three blocks, of which the last are padded."""
    monkeypatch.setattr(attention_heads, "LONG", 4)
    monkeypatch.setattr(attention_heads, "WHOLE_HEAD", 0)
    monkeypatch.setattr(attention_heads, "LARGE", flash.Tiles(3, 2))
    short = {"QUERIES": 3, "KEYS": 2, "ALL_KEYS": 2, "VECTOR": 1}
    for name, size in short.items():
        monkeypatch.setattr(flash, name, size)
    with jax.enable_x64(True):
        yield


def by_rows(operands: AttentionOperands) -> Any:
    return attention(operands, WEIGHING)


def whole(operands: AttentionOperands) -> Any:
    return at_once(operands, WEIGHING)


WAYS = [(False, 2**16, 0), (False, 13, 0), (True, 0, 0), (True, 70, 2**10)]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("mask", "dropped", "scores", "whole_head"),
    [
        # one way for each form of mask, and one after the other
        pytest.param(mask, *way, marks=() if number % 4 == at else pytest.mark.exhaustive)
        for number, mask in enumerate(MASKS)
        for at, way in enumerate(WAYS)
    ],
)
def test_same_numbers_and_gradients(
    mask: str, dropped: bool, scores: int, whole_head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results and gradients agree for every form of mask, with and without dropout.

    One head after the other, three at once, all at once, and each as one tile.
    """
    monkeypatch.setattr(attention_heads, "WHOLE_HEAD", whole_head)
    monkeypatch.setattr(attention_heads, "SCORES", scores)
    monkeypatch.setattr(attention_heads, "LARGE_SCORES", scores)
    monkeypatch.setattr(attention_heads, "CORES", 2)
    keep = flags(2, 3, 7, 5) if dropped else None
    operands = AttentionOperands(
        f64(2, 3, 7, 4), f64(2, 1, 5, 4), f64(2, 3, 5, 2), MASKS[mask](), keep
    )
    weights = f64(2, 3, 7, 2)

    reals = {n: x for n, x in operands._asdict().items() if x is not None and x.dtype == "f8"}

    def results(function: Callable[[AttentionOperands], Any]) -> Any:
        def loss(reals: dict[str, Any]) -> Any:
            return jnp.sum(weights * function(operands._replace(**reals)))

        return jax.jit(jax.value_and_grad(loss))(reals)

    for have, want in zip(
        jax.tree.leaves(results(by_rows)), jax.tree.leaves(results(whole)), strict=True
    ):
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)


@pytest.mark.exhaustive
def test_second_derivative() -> None:
    """The derivative by rows has a derivative."""
    q, k, v = f64(7, 2), f64(5, 2), f64(5, 2)

    def second(function: Callable[[AttentionOperands], Any]) -> Any:
        def first(q: Any) -> Any:
            grad = jax.grad(
                lambda k: jnp.sum(function(AttentionOperands(q, k, v, None, None)) ** 2)
            )(k)
            return jnp.sum(grad**2)

        return jax.grad(first)(q)

    np.testing.assert_allclose(second(by_rows), second(whole), rtol=1e-9)


def test_even_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have equal lengths, multiples of a vector's, with few padding rows."""
    monkeypatch.setattr(flash, "VECTOR", 16)
    found = [flash._even(count, 256) for count in (7, 256, 257, 300, 512, 640, 767)]
    assert found == [7, 256, 144, 160, 256, 224, 256]


def test_a_row_without_keys() -> None:
    """A row whose keys are all masked by -inf is nan, and no other row is."""
    hidden = np.ones((7, 5), bool)
    hidden[2] = False
    out = by_rows(AttentionOperands(f64(7, 2), f64(5, 2), f64(5, 2), jnp.asarray(hidden), None))
    assert np.isnan(np.asarray(out)).all(1).tolist() == [False, False, True] + [False] * 4


@pytest.mark.every(2)
@pytest.mark.parametrize("make", [f32, bf16])
def test_long_sequences(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """At a real block size, the op draws the same dropout with and without tiles."""
    monkeypatch.setattr(flash, "QUERIES", 128)
    monkeypatch.setattr(flash, "KEYS", 128)
    case = sample(make(1, 300, 4), make(1, 200, 4), make(1, 200, 4), dropout_probability=0.3)
    operands = case.operands
    (long,) = rule_of(FusedDotProductAttention, case)(*operands)
    monkeypatch.setattr(attention_heads, "LONG", 1000)
    (short,) = rule_of(FusedDotProductAttention, case)(*operands)
    assert long.dtype == short.dtype
    np.testing.assert_allclose(
        long.astype("float32"),
        short.astype("float32"),
        rtol=1e-2 if make is bf16 else 1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("length", "trains", "outcome"),
    [
        (512, False, "one op"),
        (511, False, "short-sequence"),
        (512, True, "one op"),
        (511, True, "short-sequence"),
        (None, False, "length-unknown"),
    ],
)
def test_long_sequences_by_default(length: int | None, trains: bool, outcome: str) -> None:
    """On a CPU, a program without flags gets the fused op where it is faster."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        x = static.data("x", [2, length, 8])
        x.stop_gradient = not trains
        weights = nn.functional.softmax(paddle.matmul(x, x, transpose_y=True))
        fetches = [paddle.matmul(weights, x).sum()]
        fetches += static.gradients(fetches, [x]) if trains else []
        program = static.default_main_program()
        module = parse_program(program, ["x"], [fetch.name for fetch in fetches])
    report = optimize(module.clone(), PassContext({}, platform="cpu"))
    (found,) = (o for o in report.outcomes if o.rule == FuseLongAttention.name)
    assert outcome == ("one op" if isinstance(found, Applied) else found.reason.name)
    elsewhere = optimize(module, PassContext({}, platform="gpu"))
    assert not any(o.rule == FuseLongAttention.name for o in elsewhere.outcomes)


@pytest.mark.exhaustive
def test_hidden_tiles_are_skipped() -> None:
    """Masked tiles are not computed: a nan in a masked value has no effect."""
    operands = AttentionOperands(
        f64(1, 6, 4), f64(1, 6, 4), f64(1, 6, 2), np.tri(6, dtype=bool), None
    )
    wanted = whole(operands)[:, :3]
    values = operands.v.copy()
    values[:, 4:] = np.nan
    # tiles are 3 queries by 2 keys, so that the first queries share none with the last two keys
    found = by_rows(operands._replace(v=values))[:, :3]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
