"""Trials of oneDNN's kernels in a child process: `python -m ...kernel_trial FORM...`.

One line of output says that a form begins, a second one how it ended. A form that ends the process
has no second line.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

BEGINS, ENDS = "begins", "ends"


def main(forms: list[str]) -> None:
    """Try these forms, one after the other."""
    with suppress(AttributeError, OSError):
        os.nice(10)
    for form in forms:
        print(BEGINS, form, flush=True)
        try:
            reason = wrong(form)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        print(ENDS, form, reason, flush=True)


def wrong(form: str) -> str:
    """Return the reason to refuse a form, or "" if its results agree with XLA's.

    Run each case twice and compare the bits, on odd sizes, forward and backward. KeyError for an
    unknown form.
    """
    import jax
    import numpy as np
    from jax import numpy as jnp

    if form == "epilogue":
        _try_packed()
    for index, (own, xla, shapes, dtype) in enumerate(_cases()[form]):
        random = np.random.default_rng(index)
        operands = [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]
        compiled, wanted = (_with_derivative(function, jax) for function in (own, xla))
        first, second, right = compiled(*operands), compiled(*operands), wanted(*operands)
        least = 2e-2 if dtype == "bfloat16" else 1e-5
        for a, b, c in zip(first, second, right, strict=True):
            a, b, c = (np.asarray(each, "float64") for each in (a, b, c))
            if not np.array_equal(a, b):
                return f"case {index} gives different bits in a second run"
            if not np.max(np.abs(a - c)) <= least * max(np.max(np.abs(c)), 1):
                return f"case {index} differs from XLA's result by {np.max(np.abs(a - c)):.3g}"
    return ""


def _try_packed() -> None:
    """Let oneDNN read blocked filters, also of odd sizes: a crash there ends this child."""
    from graphopt.lowering.kernels.onednn_blocks import block_of, call_of

    for kernel, pad, outs in ((3, 1, 64), (1, 0, 37)):
        geometry = ((1, 1), (pad, pad), "EXPLICIT", (1, 1))
        block_of(call_of((2, 13, 11, 19), (kernel, kernel, 19, outs), geometry, True, 2))


def _with_derivative(function: Callable[..., Any], jax: Any) -> Callable[..., Any]:
    def both(*operands: Any) -> Any:
        out, back = jax.vjp(function, *operands)
        return out, *back(out)

    return jax.jit(both)


Cases = list[tuple[Callable[..., Any], Callable[..., Any], list[tuple[int, ...]], str]]


def _cases() -> Mapping[str, Cases]:
    """List for each form its function, XLA's, the operand shapes, and their dtype."""
    from graphopt.lowering.kernels import onednn
    from graphopt.lowering.kernels.convolution import WAYS, FilterWindow, xla_convolution

    def products(dtype: str, cases: list[tuple[list[tuple[int, ...]], bool, bool]]) -> Cases:
        def of(function: Any, left: bool, right: bool) -> Callable[..., Any]:
            return lambda x, y: function(x, y, left, right)

        return [
            (of(onednn.matmul, *sides), of(onednn.plain, *sides), shapes, dtype)
            for shapes, *sides in cases
        ]

    def convolutions(windows: list[FilterWindow]) -> Cases:
        def of(function: Any, window: FilterWindow) -> Callable[..., Any]:
            return lambda x, w: function(x, w, window)

        shapes, in_groups = (3, 13, 11, 19), (3, 13, 11, 20)
        alone: Cases = [
            (
                of(onednn.convolve, window),
                of(xla_convolution, window),
                [shapes, (*window.kernel, shapes[3], 37)],
                "float32",
            )
            for window in windows
        ]
        groups: Cases = [
            (
                of(onednn.convolve_groups, window),
                of(WAYS["groups"], window),
                [in_groups, (*window.kernel, in_groups[3] // 4, 36)],
                "float32",
            )
            for window in windows
        ]
        return [*alone, *groups]

    def sums(windows: list[FilterWindow]) -> Cases:
        def of(function: Any, window: FilterWindow, relu: bool) -> Callable[..., Any]:
            def compute(x: Any, w: Any, bias: Any, residual: Any = None) -> Any:
                return function(onednn.Epilogue(window, w.shape, relu), x, w, bias, residual)

            return compute

        shape, cases = (3, 13, 11, 19), []
        for window in windows:
            sizes = onednn.out_sizes(shape[1:3], window)
            operands = [shape, (*window.kernel, shape[3], 37), (37,), (shape[0], *sizes, 37)]
            for relu, count in itertools.product((False, True), (3, 4)):
                own, xla = (
                    of(f, window, relu) for f in (onednn.convolve_and_add, onednn.plain_sum)
                )
                cases.append((own, xla, operands[:count], "float32"))
        return cases

    two = [
        ([(67, 33), (33, 21)], False, False),
        ([(67, 33), (21, 33)], False, True),
        ([(33, 67), (33, 21)], True, False),
        ([(5, 67, 33), (33, 1)], False, False),
    ]
    many = [
        ([(2, 3, 67, 33), (2, 3, 33, 21)], False, False),
        ([(6, 67, 33), (6, 21, 33)], False, True),
        ([(6, 33, 67), (6, 33, 21)], True, False),
    ]
    same, none = ((1, 1), (1, 1)), ((0, 0), (0, 0))
    return {
        "product": products("float32", two),
        "batched": products("float32", many),
        "half": products("bfloat16", [*two, *many]),
        "convolution": convolutions(
            [
                FilterWindow((3, 3), (1, 1), same, (1, 1)),
                FilterWindow((3, 3), (2, 2), same, (1, 1)),
                FilterWindow((7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
                FilterWindow((3, 2), (2, 1), ((0, 1), (1, 0)), (2, 1)),
                FilterWindow((1, 1), (1, 1), none, (1, 1)),
                FilterWindow((5, 1), (1, 1), ((2, 2), (0, 0)), (1, 1)),
            ]
        ),
        "epilogue": sums(
            [
                FilterWindow((3, 3), (1, 1), same, (1, 1)),
                FilterWindow((3, 2), (2, 1), ((0, 1), (1, 0)), (2, 1)),
                FilterWindow((1, 1), (1, 1), none, (1, 1)),
            ]
        ),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
