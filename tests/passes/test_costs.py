"""The static cost of ops: operations of products, bytes of operands and results."""

from __future__ import annotations

import pytest

import graphopt as paddle
from graphopt import nn, static, utils
from graphopt.passes.engine.costs import Cost, cost_of_module
from graphopt.runtime.compile.compilation import Compilation

F = nn.functional


def cost(*shapes: list[int | None], of: object) -> Cost:
    """Compute the cost of a function of inputs of these shapes."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        names = [f"x{i}" for i in range(len(shapes))]
        args = [
            static.data(name, shape, "float32") for name, shape in zip(names, shapes, strict=True)
        ]
        assert callable(of)
        out = of(*args)
        program = static.default_main_program()
        return cost_of_module(Compilation(program, tuple(names), (out.name,)).parse())


CASES = {
    "matmul": (([4, 5], [5, 6]), paddle.matmul, 2 * 4 * 5 * 6),
    "batched": (([3, 4, 5], [3, 5, 6]), paddle.matmul, 2 * 3 * 4 * 5 * 6),
    "unknown rows": (([None, 5], [5, 6]), paddle.matmul, 2 * 5 * 6),
    "convolution": (
        ([2, 3, 8, 8], [7, 3, 3, 3]),
        lambda x, w: F.conv2d(x, w, padding=1),
        2 * (2 * 7 * 8 * 8) * (3 * 3 * 3),
    ),
    "groups": (
        ([2, 4, 8, 8], [4, 1, 3, 3]),
        lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        2 * (2 * 4 * 8 * 8) * 9,
    ),
    "transposed": (
        ([2, 3, 8, 8], [3, 7, 2, 2]),
        lambda x, w: F.conv2d_transpose(x, w, stride=2),
        2 * (2 * 3 * 8 * 8) * (7 * 2 * 2),
    ),
    "elementwise": (([4, 5],), F.relu, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(name: str) -> None:
    """The operations are twice the multiplications."""
    shapes, function, flops = CASES[name]
    assert cost(*shapes, of=function).flops == flops


def test_traffic() -> None:
    """Each operand and each result counts once; a view has no traffic."""
    assert cost([4, 5], of=F.relu).traffic == 2 * 4 * 20
    assert cost([4, 5], of=lambda x: x * x).traffic == 2 * 4 * 20
    assert cost([4, 5], of=lambda x: paddle.reshape(x, [20])).traffic == 0


@pytest.mark.parametrize("flag", ["fused_attention", "fused_feedforward", "fuse_gemm_epilogue"])
def test_fused_products_cost_the_same(flag: str) -> None:
    """Fused products have the operations of their parts."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        x = static.data("x", [2, 8, 16], "float32")
        out = nn.TransformerEncoderLayer(16, 2, 32)(x)
        strategy = static.BuildStrategy()
        setattr(strategy, flag, True)
        report = paddle.explain(static.default_main_program(), strategy, [out]).report
    assert report.ops_after < report.ops_before
    assert report.cost_after.flops == report.cost_before.flops
    assert report.cost_after.traffic < report.cost_before.traffic
