"""fuse-conv-epilogue on generated convolutions, and further reasons to decline."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from graphopt.passes.engine.fusion import Applied, Declined, Outcome, sweep
from graphopt.passes.target.choose_kernel import ChooseKernel
from graphopt.passes.target.fuse_conv_epilogue import FuseConvEpilogue
from graphopt.testing import check_preserves_meaning, parse
from graphopt_tests.example_counts import examples

RULES = [(FuseConvEpilogue.name, rule) for rule in FuseConvEpilogue.RULES]
QUICK = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
HEAD = """
func.func @main(
  feed %x: tensor<{x}xf32>, state %w: tensor<{w}xf32>, state %b: tensor<{b}xf32>,
  feed %r: tensor<{r}xf32>
) -> (fetch "y": tensor<{y}xf32>{more}) {{
  %s = pd.sin(%x)
  %c = pd.conv2d(%s, %w) {{data_format = "NHWC", strides = {strides}, paddings = {pads}}}
{rest}
}}
"""
ENDS = {
    "bias": "%y = pd.add(%c, %b)",
    "relu": "%t = pd.add(%b, %c) %y = pd.relu(%t)",
    "residual": "%t = pd.add(%c, %b) %y = pd.add(%t, %r)",
    "block": "%t = pd.add(%c, %b) %u = pd.add(%r, %t) %y = pd.relu(%u)",
}
PLAIN = " func.return %y : tensor<{y}xf32>"
TRAINED = """
  %one = pd.full_like(%y) {{value = 1.0}}
  %g, %h, %i = pd.grad(of = [%y], wrt = [%s, %w, %b], cotangents = [%one])
  func.return %y, %g, %h, %i
    : tensor<{y}xf32>, tensor<{x}xf32>, tensor<{w}xf32>, tensor<{b}xf32>
"""


def program(end: str, *, trained: bool, **sizes: Any) -> str:
    """Format a program with a convolution that ends in one of the `ENDS`."""
    names = (
        ""
        if not trained
        else ", ".join(
            [
                "",
                *(
                    f'fetch "{n}": tensor<{sizes[k]}xf32>'
                    for n, k in zip("ghi", "xwb", strict=True)
                ),
            ]
        )
    )
    rest = ENDS[end] + (TRAINED if trained else PLAIN).format(**sizes)
    return HEAD.format(rest=rest, more=names, **sizes)


def text_of(sizes: list[int]) -> str:
    return "x".join(map(str, sizes))


@pytest.mark.exhaustive
def test_the_pass_preserves_meaning() -> None:
    """Strides, padding and biases of both shapes keep results and all derivatives."""
    fired = 0

    def fused(module: ModuleOp) -> list[Outcome]:
        return sweep(module, RULES)

    @settings(QUICK, max_examples=examples(24))
    @given(st.data())
    def check(data: Any) -> None:
        nonlocal fired
        pair = st.lists(st.integers(1, 3), min_size=2, max_size=2)
        kernel, strides = data.draw(pair), data.draw(pair)
        pads = [data.draw(st.integers(0, size // 2)) for size in kernel]
        sizes = [data.draw(st.integers(size, size + 4)) for size in kernel]
        outs = [
            (n + 2 * pad - size) // stride + 1
            for n, size, stride, pad in zip(sizes, kernel, strides, pads, strict=True)
        ]
        y = text_of([2, *outs, 5])
        text = program(
            data.draw(st.sampled_from(list(ENDS))),
            trained=data.draw(st.booleans()),
            x=text_of([2, *sizes, 3]),
            w=text_of([5, 3, *kernel]),
            b=data.draw(st.sampled_from(["5", "1x1x1x5"])),
            r=y,
            y=y,
            strides=strides,
            pads=pads,
        )
        outcomes = check_preserves_meaning(parse(text), fused)
        fired += sum(isinstance(outcome, Applied) for outcome in outcomes)

    check()
    assert fired == examples(24)


def declined(text: str) -> list[str]:
    return [o.reason.name for o in sweep(parse(text), RULES) if isinstance(o, Declined)]


SIZES = {
    "x": "2x4x4x3",
    "w": "5x3x1x1",
    "b": "5",
    "y": "2x4x4x5",
    "strides": [1, 1],
    "pads": [0, 0],
}


def test_a_residual_of_another_shape() -> None:
    """A residual of another shape stays a separate sum, after the bias."""
    text = program("residual", trained=False, r="2x1x1x5", **SIZES)
    assert declined(text) == ["residual-shape"]


def test_without_a_kernel() -> None:
    """An op without a kernel keeps its algorithm, which XLA computes."""
    module = parse(program("bias", trained=False, r="2x4x4x5", **SIZES))
    sweep(module, RULES)
    assert not any(isinstance(o, Applied) for o in ChooseKernel().rewrite(module))
