"""Products and convolutions by oneDNN: numbers and derivatives equal XLA's.

Where jaxlib has no oneDNN, XLA computes both sides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops.fused import PACKED
from graphopt.lowering.kernels import onednn, onednn_here
from graphopt.lowering.kernels.convolution import WAYS, FilterWindow, xla_convolution
from graphopt.lowering.kernels.onednn_blocks import (
    BLOCKS,
    block_of,
    call_of,
    is_right,
    pack_filters,
)
from graphopt.lowering.ops.fused import fused_conv2d_add_act

Array = np.ndarray[Any, Any]
PRODUCTS = [
    ((7, 5), (5, 3), False, False),
    ((7, 5), (3, 5), False, True),
    ((5, 7), (5, 3), True, False),
    ((2, 3, 7, 5), (5, 3), False, False),
    ((2, 3, 7, 5), (2, 3, 5, 4), False, False),
    ((2, 7, 5), (2, 4, 5), False, True),
    ((2, 5, 7), (2, 5, 4), True, False),
    ((1, 1), (1, 1), True, False),
    # not of a form
    ((5, 7), (3, 5), True, True),
    ((5,), (5, 3), False, False),
    ((2, 5, 7), (5, 3), True, False),
    ((0, 5), (5, 3), False, False),
]
WINDOWS = [
    (FilterWindow((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)), "rows"),
    (FilterWindow((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)), "patches"),
    (FilterWindow((3, 2), (1, 1), ((0, 2), (1, 0)), (2, 1)), ""),
    # padded by more than a filter reaches: the gradient of the images is XLA's
    (FilterWindow((3, 3), (1, 1), ((3, 3), (2, 2)), (1, 1)), ""),
    (FilterWindow((3, 3), (2, 1), ((0, 1), (1, 1)), (2, 2)), "patches"),
]


def derivatives(function: Callable[..., Any], *operands: Any) -> list[Array]:
    """Compute the result, the gradients of the sum of its sines, and second derivatives alike."""
    every = range(len(operands))

    def loss(*values: Any) -> Any:
        return jnp.sum(jnp.sin(function(*values)))

    def slope(*values: Any) -> Any:
        return sum(jnp.sum(jnp.sin(g)) for g in jax.grad(loss, every)(*values))

    computed = jax.jit(
        lambda *v: (function(*v), jax.grad(loss, every)(*v), jax.grad(slope, every)(*v))
    )
    return [np.asarray(leaf, "float64") for leaf in jax.tree.leaves(computed(*operands))]


def drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]


@pytest.mark.every(5)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("x", "y", "left", "right"), PRODUCTS)
def test_products(
    x: tuple[int, ...], y: tuple[int, ...], left: bool, right: bool, dtype: str
) -> None:
    """Products agree for odd sizes, transposed operands, batches, and forms that oneDNN lacks."""
    operands = drawn(x, y, dtype=dtype)

    def plain(a: Any, b: Any) -> Any:
        return jnp.matmul(a.mT if left and a.ndim > 1 else a, b.mT if right and b.ndim > 1 else b)

    found = derivatives(lambda a, b: onednn.matmul(a, b, left, right), *operands)
    error = 2e-5 if dtype == "float32" else 0.05
    for own, wanted in zip(found, derivatives(plain, *operands), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=error, atol=error)


def test_no_instructions_for_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA computes products in bfloat16 where oneDNN would abort the process."""
    monkeypatch.setattr(onednn_here, "instructions", lambda: frozenset({"avx2"}))
    onednn_here.why_not_half.cache_clear()
    try:
        lowered = jax.jit(partial(onednn.matmul, transpose_x=True, transpose_y=False)).lower(
            *drawn((64, 32), (64, 16), dtype="bfloat16")
        )
        assert "onednn" not in lowered.as_text()
    finally:
        onednn_here.why_not_half.cache_clear()


@pytest.mark.every(3)
@pytest.mark.parametrize(("window", "algorithm"), WINDOWS)
def test_convolutions(window: FilterWindow, algorithm: str) -> None:
    """Convolutions agree with strides, holes, uneven padding, and each form of filter gradient."""
    operands = drawn((2, 9, 8, 5), (*window.kernel, 5, 6))
    found = derivatives(lambda x, w: onednn.convolve(x, w, window, algorithm), *operands)
    wanted = derivatives(lambda x, w: xla_convolution(x, w, window), *operands)
    for own, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, right, atol=3e-5 * max(np.max(np.abs(right)), 1))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "window",
    [
        pytest.param(window, marks=pytest.mark.exhaustive if at else ())
        for at, (window, _) in enumerate(WINDOWS)
    ],
)
def test_groups(window: FilterWindow) -> None:
    """Convolutions in two groups, of two channels to three each, agree."""
    operands = drawn((2, 9, 8, 4), (*window.kernel, 2, 6))
    found = derivatives(lambda x, w: onednn.convolve_groups(x, w, window), *operands)
    wanted = derivatives(lambda x, w: WAYS["groups"](x, w, window), *operands)
    for own, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, right, atol=3e-5 * max(np.max(np.abs(right)), 1))


@pytest.mark.every(5)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("window", "algorithm"), WINDOWS[::2])
def test_sums(window: FilterWindow, algorithm: str, residual: bool, relu: bool) -> None:
    """A convolution with its bias, residual and relu, and the derivatives by each of them."""
    places = onednn.out_sizes((9, 8), window)
    operands = drawn((2, 9, 8, 5), (*window.kernel, 5, 6), (6,), (2, *places, 6))
    operands = operands if residual else operands[:3]
    own = onednn.Epilogue(window, (*window.kernel, 5, 6), relu, algorithm)
    found = derivatives(lambda *v: onednn.convolve_and_add(own, *(*v, None)[:4]), *operands)
    wanted = derivatives(lambda *v: onednn.plain_sum(own, *v), *operands)
    for result, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result, right, atol=3e-5 * max(np.max(np.abs(right)), 1))


@pytest.mark.parametrize("outs", [16, 40])
def test_packed_filters(outs: int) -> None:
    """A filter in the block that oneDNN prefers is right, and one in another block, too."""
    window, filter = WINDOWS[0][0], (3, 3, 5, outs)
    x, w, b = drawn((2, 9, 8, 5), filter, (outs,))
    geometry = (window.strides, (1, 1), "EXPLICIT", window.dilations)
    call = call_of(x.shape, filter, geometry, True, 1)
    assert call.epilogue.window == window
    block = block_of(call)
    assert block in (*BLOCKS, 0) and is_right(call, block) == (block > 0)
    wanted = onednn.plain_sum(call.epilogue, x, w, b)
    op = partial(call_rule, fused_conv2d_add_act)
    values = {"input": x, "bias": b, "residual": None, "strides": (1, 1), "paddings": (1, 1)}
    values |= {"padding_algorithm": "EXPLICIT", "dilations": (1, 1), "algorithm": ""}
    values |= {"filter_format": PACKED, "kernel": "onednn", "activation": "relu"}
    for size in {block or 16, 7}:
        found = op({**values, "filter": pack_filters(np.asarray(w), size)})
        np.testing.assert_allclose(found, wanted, atol=3e-5)


def test_maps() -> None:
    """Under vmap XLA computes; in shard_map each device makes its own call."""
    (x,) = drawn((4, 6, 5))
    found = jax.vmap(lambda a: onednn.matmul(a, a, True, False))(x)
    np.testing.assert_allclose(found, x.mT @ x, rtol=1e-5, atol=1e-5)
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        lambda a: lax.psum(onednn.matmul(a[0], a[0], True, False), "d"),
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    np.testing.assert_allclose(jax.jit(mapped)(x), (x.mT @ x).sum(0), rtol=1e-5, atol=1e-5)


def step(x: Any, w: Any, f: Any) -> tuple[Any, ...]:
    """Compute the results and derivatives of a product and a convolution."""
    window = FilterWindow((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))

    def both(x: Any, w: Any, f: Any) -> Any:
        images = onednn.matmul(x, w, False, False).reshape(2, 16, 16, -1)
        return onednn.convolve(images, f, window)

    out, back = jax.vjp(both, x, w, f)
    return out, *back(out)


def test_two_threads() -> None:
    """Steps in two threads at once give the same bits each time."""
    operands = drawn((512, 24), (24, 16), (3, 3, 16, 8))
    compiled = jax.jit(step)
    wanted = [np.asarray(each) for each in compiled(*operands)]
    differing: list[int] = []

    def run() -> None:
        for at in range(25):
            found = compiled(*operands)
            pairs = zip(found, wanted, strict=True)
            if not all(np.array_equal(np.asarray(own), right) for own, right in pairs):
                differing.append(at)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not differing


@pytest.mark.exhaustive
def test_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines without oneDNN, a marked op makes no call of it."""
    operands = drawn((512, 24), (24, 16), (3, 3, 16, 8))
    assert onednn_here.why_not_here() or "__onednn$" in jax.jit(step).lower(*operands).as_text()
    monkeypatch.setattr(onednn, "why_not_here", lambda: "not here")
    jax.clear_caches()
    assert "__onednn$" not in jax.jit(lambda *v: step(*v)).lower(*operands).as_text()
