"""Pools on CPUs: maxima and sums over windows by shifts, and the pass that chooses them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.pooling import Slides, largest, largest_with_places, total
from graphopt.lowering.ops import pool
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.target.choose_pooling import ChoosePooling
from graphopt.testing import check_preserves_meaning, parse
from graphopt_tests.example_counts import examples

QUICK = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def arrays(draw: Any) -> tuple[tuple[int, ...], Slides]:
    """Draw a shape with windows that fit it; some skip elements, some overlap."""
    slides = draw(
        st.lists(
            st.tuples(
                *(st.integers(1, 3), st.integers(1, 4)),
                st.tuples(st.integers(0, 1), st.integers(0, 1)),
            ).filter(lambda slide: max(slide[2]) < slide[0]),
            min_size=1,
            max_size=3,
        )
    )
    shape = tuple(draw(st.integers(size, size + 4)) for size, _, _ in slides)
    return shape, tuple(slides)


@pytest.mark.parametrize("sizes", [(7, 5), (3, 8), (1, 2)])
def test_averages_of_windows_that_differ(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of slices equal sums of gathered elements, with their derivatives."""
    x = np.random.default_rng(0).standard_normal((2, *sizes, 3)).astype("float32")
    windows = [
        pool.adaptive_windows(size, number) for size, number in zip(sizes, (3, 5), strict=True)
    ]

    def both(x: Any) -> Any:
        sums, pull = jax.vjp(lambda x: pool.reduce_windows(x, windows, 1, lax.add, 0.0), x)
        return sums, pull(jnp.cos(sums))[0]

    found = both(x)
    monkeypatch.setattr(pool, "_MOST_SLICES", 0)
    for own, gathered in zip(found, both(x), strict=True):
        np.testing.assert_allclose(own, gathered, rtol=1e-5, atol=1e-5)


@pytest.mark.exhaustive
@settings(QUICK, max_examples=examples(25))
@given(arrays(), st.integers(0, 99), st.booleans(), st.booleans())
def test_gradients(
    case: tuple[tuple[int, ...], Slides], seed: int, ties: bool, is_sum: bool
) -> None:
    """Values and gradients equal XLA's, also where several elements are the largest."""
    shape, slides = case
    random = np.random.default_rng(seed)
    x = random.integers(0, 3, shape).astype(float) if ties else random.normal(size=shape)
    own = total if is_sum else largest

    def plain(x: Any) -> Any:
        sizes, strides, pads = zip(*slides, strict=True)
        start, combine = (0.0, lax.add) if is_sum else (-np.inf, lax.max)
        return lax.reduce_window(x, start, combine, sizes, strides, pads)

    def both(function: Any) -> Any:
        def run(x: Any) -> Any:
            y, pull = jax.vjp(function, x)
            return y, *pull(jnp.cos(jnp.arange(y.size, dtype=x.dtype)).reshape(y.shape))

        return jax.jit(run)(x)

    with jax.enable_x64(True):
        found, wanted = both(lambda x: own(x, slides)), both(plain)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "slides",
    [((3, 2, (1, 1)), (3, 2, (1, 0))), ((1, 1, (0, 0)), (2, 3, (0, 1))), ((2, 2, (0, 0)),) * 2],
)
def test_places(slides: Slides) -> None:
    """Of equal maxima the first is chosen, of minus infinities the first outside the padding."""
    values = np.array([-np.inf, 0, 1, np.inf, np.nan], np.float32)
    found = jax.jit(lambda x: largest_with_places(x, slides))
    for most in (2, 4, 5):
        x = np.random.default_rng(most).choice(values[:most], (2, 6, 7))
        sides = [(0, 0), *[pads for _, _, pads in slides]]
        padded = np.pad(x, sides, constant_values=np.nan)
        inside = np.pad(np.ones_like(x, bool), sides)
        places = np.pad(np.broadcast_to(np.arange(42).reshape(6, 7), x.shape), sides)
        y, at = map(np.asarray, found(x))
        for n, i, j in np.ndindex(*y.shape):
            window = (
                n,
                *[
                    slice(k * stride, k * stride + size)
                    for k, (size, stride, _) in zip((i, j), slides, strict=True)
                ],
            )
            seen = padded[window][inside[window]]
            first = int(np.argmax(seen))  # which takes nan for the largest
            np.testing.assert_equal(y[n, i, j], seen[first])
            assert at[n, i, j] == places[window][inside[window]][first]


@pytest.mark.every(3)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["kernel", "adaptive", "global"])
def test_tiles(layout: str, kind: str) -> None:
    """Averages of large adjacent windows are right, with their derivatives."""
    sizes, counts = (8, 10), {"global": (1, 1)}.get(kind, (2, 2))
    options = {
        "kernel": "kernel_size = [4, 5], strides = [4, 5], paddings = [0, 0]",
        "adaptive": "kernel_size = [2, 2], adaptive = true",
        "global": "kernel_size = [1, 1], global_pooling = true",
    }[kind]

    def shape(sizes: tuple[int, int]) -> str:
        return "x".join(map(str, [2, *sizes, 3] if layout == "NHWC" else [2, 3, *sizes]))

    text = PROGRAM.format(
        x=shape(sizes), y=shape(counts), options=options, layout=layout, kind="avg"
    )
    (outcome,) = check_preserves_meaning(parse(text), ChoosePooling().rewrite)
    assert isinstance(outcome, Applied)
    module = parse(text)
    ChoosePooling().rewrite(module)
    assert 'algorithm = "tiles"' in str(module)


@pytest.mark.exhaustive
def test_second_derivative() -> None:
    """The gradient's gradient is right, and rows can be mapped by vmap."""
    slides = ((1, 1, (0, 0)), (3, 2, (1, 1)))
    x = np.random.default_rng(0).normal(size=(2, 7)).astype("float32")

    def slope(x: Any) -> Any:
        return jnp.sum(jnp.sin(jax.grad(lambda x: jnp.sum(largest(x, slides) ** 2))(x)))

    found = jax.grad(slope)(x)
    chosen = (jax.grad(lambda x: jnp.sum(largest(x, slides)))(x)).astype("float32")
    np.testing.assert_allclose(found, np.cos(2 * x * chosen) * 2 * chosen, rtol=1e-5)
    rows = jax.vmap(jax.grad(lambda row: jnp.sum(largest(row, slides[1:]))))(x)
    np.testing.assert_allclose(rows, chosen)


PROGRAM = """
func.func @main(%x: tensor<{x}xf32> {{pd.feed = "x"}})
  -> (tensor<{y}xf32> {{pd.fetch = "y"}}, tensor<{x}xf32> {{pd.fetch = "g"}}) {{
  %s = pd.sin(%x) : tensor<{x}xf32>
  %y = pd.pool2d(%s) {{
    {options},
    data_format = "{layout}", pooling_type = "{kind}"
  }} : (tensor<{x}xf32>) -> tensor<{y}xf32>
  %one = pd.full_like(%y) {{value = 1.0}} : tensor<{y}xf32>
  %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one])
    : (tensor<{y}xf32>, tensor<{x}xf32>, tensor<{y}xf32>) -> tensor<{x}xf32>
  func.return %y, %g : tensor<{y}xf32>, tensor<{x}xf32>
}}
"""


@pytest.mark.exhaustive
def test_the_pass_preserves_meaning() -> None:
    """Generated pools keep their results: both layouts, strides, padding, partial windows."""
    fired = 0

    @settings(QUICK, max_examples=examples(20))
    @given(st.data())
    def check(data: Any) -> None:
        nonlocal fired
        pair = st.lists(st.integers(1, 3), min_size=2, max_size=2)
        kernel = data.draw(pair)
        strides = [data.draw(st.integers(1, size)) for size in kernel]
        ceil, layout = data.draw(st.booleans()), data.draw(st.sampled_from(["NCHW", "NHWC"]))
        # windows of nothing but padding have no maximum
        pads = [0 if ceil else data.draw(st.integers(0, size // 2)) for size in kernel]
        sizes = [data.draw(st.integers(size, size + 4)) for size in kernel]
        outs = [
            (n + 2 * pad - size + (stride - 1 if ceil else 0)) // stride + 1
            for n, size, stride, pad in zip(sizes, kernel, strides, pads, strict=True)
        ]

        def shape(sizes: list[int]) -> str:
            return "x".join(map(str, [2, *sizes, 3] if layout == "NHWC" else [2, 3, *sizes]))

        text = PROGRAM.format(
            x=shape(sizes),
            y=shape(outs),
            options=f"kernel_size = {kernel}, strides = {strides}, paddings = {pads}, "
            f"ceil_mode = {str(ceil).lower()}",
            layout=layout,
            kind=data.draw(st.sampled_from(["max", "avg"])),
        )
        outcomes = check_preserves_meaning(parse(text), ChoosePooling().rewrite)
        fired += sum(isinstance(outcome, Applied) for outcome in outcomes)

    check()
    assert fired == examples(20)
