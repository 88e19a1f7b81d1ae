"""The attention and feed-forward fusions on networks of the layers of `nn`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.engine.fusion import Applied, Declined, sweep
from graphopt.passes.fusions.fused_feedforward import FuseFeedForward
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import Report, optimize
from graphopt.passes.table.order import ROWS
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy

FLAGS = ("fused_attention", "fused_feedforward", "fuse_dot_product_attention")
EVERY_FUSION = tuple(row.flag for row in ROWS if row.flag.startswith("fuse"))
SHAPES = {"x": (2, 4, 8), "memory": (2, 3, 8), "other": (2, 3, 6)}


def feed(name: str) -> Any:
    """Make a placeholder whose batch size is open."""
    return static.data(name, [None, *SHAPES[name][1:]], "float32")


def encoder(layers: int = 2, **options: Any) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 12, **options)
    return nn.TransformerEncoder(layer, layers, nn.LayerNorm(8))(feed("x"))


def decoder(**options: Any) -> Any:
    layer = nn.TransformerDecoderLayer(8, 2, 12, **options)
    mask = nn.Transformer.generate_square_subsequent_mask(None, 4)  # pyright: ignore
    return nn.TransformerDecoder(layer, 1)(feed("x"), feed("memory"), mask)


def transformer() -> Any:
    net = nn.Transformer(8, 2, 1, 1, 12, normalize_before=True, activation="gelu")
    return net(feed("memory"), feed("x"))


def attention() -> Any:
    """Build attention with keys and values of other sizes, without dropout and residual."""
    net = nn.MultiHeadAttention(8, 2, kdim=8, vdim=6)
    return net(feed("x"), feed("memory"), feed("other"))


def module_of(build: Callable[[], Any]) -> ModuleOp:
    """Parse a training program of a network."""
    with fresh() as (main, _):
        loss = paddle.mean(build())
        paddle.optimizer.SGD(0.1).minimize(loss)
        used = {v.name for v in main.global_block().vars.values()} & SHAPES.keys()
        return parse_program(main, sorted(used), [loss.name])


def explained(flags: tuple[str, ...], build: Callable[[], Any]) -> tuple[Report, ModuleOp]:
    """Optimize a training program under these flags; return report and module."""
    module = module_of(build)
    return optimize(module, PassContext(dict.fromkeys(flags, True), frozenset(flags))), module


def fired(report: Report) -> Counter[str]:
    """Count how often each fusion of Transformer layers or their parts happened."""
    applied = (o.rule for o in report.outcomes if isinstance(o, Applied))
    others = ("fold-identity", "fuse-all-optimizer-ops")
    return Counter(rule for rule in applied if rule not in others)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("build", "attentions", "feed_forwards"),
    [
        (encoder, 2, 2),
        (lambda: encoder(normalize_before=True, activation="gelu"), 2, 2),
        (lambda: encoder(dropout=0.0), 2, 2),
        (lambda: decoder(normalize_before=True), 2, 1),
        (decoder, 2, 1),
        (transformer, 3, 2),
        (attention, 1, 0),
    ],
)
def test_every_layer_is_fused(
    build: Callable[[], Any], attentions: int, feed_forwards: int
) -> None:
    """Each attention is fused by one flag, each feed-forward by the other, cores by the third."""
    wanted = {"fused-attention": attentions, "fused-feedforward": feed_forwards}
    assert fired(explained(EVERY_FUSION, build)[0]) == {k: v for k, v in wanted.items() if v}
    cores = fired(explained(("fuse_dot_product_attention",), build)[0])
    assert cores == {"fuse-dot-product-attention": attentions}


def test_what_is_left_goes_to_the_smaller_patterns() -> None:
    """Without fused_attention, its core and its four linear layers are fused separately."""
    flags = tuple(flag for flag in EVERY_FUSION if flag != "fused_attention")
    assert fired(explained(flags, encoder)[0]) == {
        "fused-feedforward": 2,
        "fuse-dot-product-attention": 2,
        "fuse-gemm-epilogue": 8,
    }


@pytest.mark.parametrize("build", [lambda: encoder(1), lambda: decoder(normalize_before=True)])
@pytest.mark.slow
def test_training_is_the_same(build: Callable[[], Any]) -> None:
    """Three steps give the same losses, including dropout, with and without all flags."""
    feeds = {
        name: np.random.default_rng(i).standard_normal(shape).astype("float32")
        for i, (name, shape) in enumerate(SHAPES.items())
    }

    def losses(**flags: bool) -> list[float]:
        with fresh() as (main, startup):
            paddle.seed(5)
            loss = paddle.mean(paddle.square(build()))
            paddle.optimizer.Momentum(0.1).minimize(loss)
            executor = static.Executor(paddle.CPUPlace())
            executor.run(startup)
            used = {n: feeds[n] for n in feeds if main.global_block().has_var(n)}
            program = CompiledProgram(main, strategy(**flags))
            return [executor.run(program, used, [loss])[0].item() for _ in range(3)]

    plain = losses()
    assert len(set(plain)) == 3
    np.testing.assert_allclose(losses(**dict.fromkeys(FLAGS, True)), plain, rtol=1e-4)


def linear(x: Any, columns: int) -> Any:
    return nn.Linear(x.shape[-1], columns)(x)


def wide_norm() -> Any:
    """Build a layer norm over the last two axes."""
    x = feed("x")
    return nn.LayerNorm([4, 8])(paddle.add(x, linear(F.relu(linear(x, 5)), 8)))


def two_modes() -> Any:
    """Build a dropout for training and another for inference."""
    hidden = F.dropout(F.relu(linear(feed("x"), 5)), 0.5)
    return F.dropout(linear(hidden, 8), 0.5, training=False, mode="downscale_in_infer")


def read_statistics() -> Any:
    """Build a network that uses the mean of its last norm."""
    x = feed("x")
    out = nn.LayerNorm(8)(paddle.add(linear(F.relu(linear(x, 5)), 8), x))
    block = static.default_main_program().global_block()
    mean = next(op for op in block.ops if op.type == "layer_norm").output("Mean")[0]
    return paddle.add(paddle.mean(out), paddle.mean(block.var(mean)))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (wide_norm, "norm-axis: `norm` has begin_norm_axis = 1, not 2, the last axis"),
        (read_statistics, "used-elsewhere: another result of `norm` is also read by pd.mean"),
    ],
)
def test_a_part_is_left_out(build: Callable[[], Any], reason: str) -> None:
    """The whole pattern declines with a reason, and the rest without that part is fused."""
    report, _ = explained(("fused_feedforward",), build)
    declined = [str(o.reason) for o in report.outcomes if isinstance(o, Declined)]
    assert any(text.startswith(reason) for text in declined), declined
    assert fired(report) == {"fused-feedforward": 1}


def test_dropouts_of_two_modes() -> None:
    """The pattern declines, but in the pipeline the inactive dropout is removed before."""
    rules = [(FuseFeedForward.name, rule) for rule in FuseFeedForward.RULES]
    reasons = [str(o.reason) for o in sweep(module_of(two_modes), rules) if isinstance(o, Declined)]
    assert (
        "dropout-modes-differ: `dropout1` has is_test = False, `dropout2` has is_test = True"
        in reasons
    )
    after = fired(explained(("fused_feedforward",), two_modes)[0])
    assert after == {"drop-dropout": 1, "fused-feedforward": 1}
