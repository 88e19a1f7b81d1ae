"""Convolutions and batch norms on CPUs: algorithms, layouts, and their own derivatives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.kernels import convolution
from graphopt.lowering.kernels.convolution import (
    WAYS,
    FilterWindow,
    convolve_planes,
    xla_convolution,
)
from graphopt.lowering.ops.norm import batch_norm
from graphopt.passes.engine.fusion import Applied, Declined, Fusion, Outcome
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.registry import own_passes
from graphopt.passes.target import choose_convolution
from graphopt.passes.target.assign_layout import AssignLayout
from graphopt.passes.target.choose_convolution import ChooseConvolution
from graphopt.testing import check_pass, check_preserves_meaning, parse, programs
from graphopt.testing.programs import Generated

Array = np.ndarray[Any, Any]
QUICK = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
FOR_IMAGES = (
    "drop-kept-state",
    "fold-batch-norm",
    "assign-layout",
    "choose-convolution",
    "prepare-weights",
)
TRAINING: dict[str, Any] = {
    "is_test": False,
    "use_global_stats": False,
    "trainable_statistics": False,
    "data_format": "NCHW",
    "sync": False,
    "replicas": ALONE,
}


@st.composite
def images(draw: Any) -> tuple[FilterWindow, tuple[int, ...], int]:
    """Draw a window, the shape of images that it fits, and the filters per channel."""
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, strides, dilations = draw(pair), draw(pair), draw(pair)
    pads = draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2))
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    sizes = [
        draw(st.integers(max(own - sum(pad), 1), own + 4))
        for own, pad in zip(reach, pads, strict=True)
    ]
    shape = (draw(st.integers(1, 2)), *sizes, draw(st.integers(1, 3)))
    return FilterWindow(kernel, strides, pads, dilations), shape, draw(st.integers(1, 2))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.exhaustive
def test_volumes_as_planes(groups: int, *, channels_last: bool) -> None:
    """Results and gradients equal XLA's convolution of volumes."""
    window = FilterWindow((3, 2, 3), (2, 1, 2), ((1, 2), (0, 1), (2, 0)), (1, 2, 1))
    chance = np.random.default_rng(groups)
    filters = chance.standard_normal((6, 4 // groups, *window.kernel))
    shape = (2, 5, 6, 7, 4) if channels_last else (2, 4, 5, 6, 7)
    volumes, image = chance.standard_normal(shape), "NDHWC" if channels_last else "NCDHW"

    def plain(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            *(x, w, window.strides, window.pads),
            rhs_dilation=window.dilations,
            dimension_numbers=(image, "OIDHW", image),
            feature_group_count=groups,
        )

    def planes(x: Any, w: Any) -> Any:
        return convolve_planes(x, w, window, groups, channels_last=channels_last)

    def measured(way: Any) -> Any:
        return jax.value_and_grad(lambda x, w: jnp.sum(jnp.sin(way(x, w))), (0, 1))

    with jax.enable_x64(True):
        expected, found = (jax.jit(measured(way))(volumes, filters) for way in (plain, planes))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.slow
@settings(QUICK, max_examples=6)
@given(images(), st.integers(0, 99))
def test_ways(name: str, case: tuple[FilterWindow, tuple[int, ...], int], seed: int) -> None:
    """Results, gradients and second derivatives equal XLA's convolution.

    XLA ends the process when it compiles some second derivatives of its own with dilations.
    """
    window, shape, count = case
    twice = window.dilations == (1, 1)
    if name == "matmul":
        window = FilterWindow((1, 1), window.strides, window.pads, (1, 1))
    if name == "rows":
        window = replace(window, strides=(1, 1))
    if name == "winograd":
        pads = tuple((before + 1, after + 1) for before, after in window.pads)
        window = FilterWindow((3, 3), (1, 1), pads, (1, 1))
    random = np.random.default_rng(seed)
    groups = {"shifts": shape[3], "groups": 2}.get(name, 1)
    shape = (*shape[:3], 2 * shape[3]) if name == "groups" else shape
    x = random.normal(size=shape)
    w = random.normal(size=(*window.kernel, shape[3] // groups, groups * count))

    def plain(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            w,
            window.strides,
            window.pads,
            rhs_dilation=window.dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    with jax.enable_x64(True):
        for found, wanted in zip(
            derivatives(lambda x, w: WAYS[name](x, w, window), x, w, twice=twice),
            derivatives(plain, x, w, twice=twice),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.every(3)
@pytest.mark.parametrize(("groups", "own"), [(8, 4), (6, 5), (5, 17), (34, 2), (20, 16)])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups(groups: int, own: int, stride: int) -> None:
    """Groups are computed a few together, with and without a loop, and one after another."""
    random = np.random.default_rng(0)
    window = FilterWindow((3, 2), (stride, 1), ((1, 1), (0, 2)), (1, 2))
    x = random.normal(size=(2, 5, 4, groups * own))
    w = random.normal(size=(3, 2, own, groups * 3))

    def plain(x: Any, w: Any) -> Any:
        xs, ws = jnp.split(x, groups, 3), jnp.split(w, groups, 3)
        each = [xla_convolution(*pair, window) for pair in zip(xs, ws, strict=True)]
        return jnp.concatenate(each, 3)

    with jax.enable_x64(True):
        for found, wanted in zip(
            derivatives(lambda x, w: WAYS["groups"](x, w, window), x, w, twice=stride == 1),
            derivatives(plain, x, w, twice=stride == 1),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_the_cotangent_of_shifts_is_computed_once() -> None:
    """In training a barrier keeps XLA from fusing the cotangent's producer into each read."""
    window = FilterWindow((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = np.ones((1, 4, 4, 2), "float32"), np.ones((3, 3, 1, 2), "float32")

    def forward(x: Any, w: Any) -> Any:
        return WAYS["shifts"](x, w, window)

    def backward(x: Any, w: Any) -> Any:
        return jax.vjp(forward, x, w)[1](x)

    texts = [jax.jit(function).lower(x, w).as_text() for function in (forward, backward)]
    assert ["optimization_barrier" in text for text in texts] == [False, True]


@pytest.mark.exhaustive
def test_large_images_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of filters computed image by image equal the whole batch's."""
    random = np.random.default_rng(0)
    x, w = random.normal(size=(3, 4, 5, 2)), random.normal(size=(3, 2, 2, 3))
    window = FilterWindow((3, 2), (1, 1), ((1, 1), (0, 2)), (1, 2))

    def run(x: Any, w: Any) -> Any:
        return WAYS["rows"](x, w, window)

    with jax.enable_x64(True):
        whole = derivatives(run, x, w)
        monkeypatch.setattr(convolution, "LARGE", 0)
        for found, wanted in zip(derivatives(run, x, w), whole, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def derivatives(function: Any, *operands: Array, twice: bool = True) -> list[Array]:
    """Compute the result, the gradients of the sum of its sines, and second derivatives alike.

    The second derivatives need `twice`.
    """

    def loss(*values: Any) -> Any:
        return jnp.sum(jnp.sin(function(*values)))

    def slope(*values: Any) -> Any:
        return sum(jnp.sum(jnp.sin(g)) for g in jax.grad(loss, range(len(operands)))(*values))

    every = range(len(operands))
    computed = jax.jit(
        lambda *v: (
            *(function(*v), jax.grad(loss, every)(*v)),
            jax.grad(slope, every)(*v) if twice else (),
        )
    )
    return [np.asarray(leaf) for leaf in jax.tree.leaves(computed(*operands))]


@pytest.mark.exhaustive
def test_batch_norm_derivatives() -> None:
    """Its own derivative, first and second, equals JAX's of the same formula."""
    random = np.random.default_rng(0)
    x, scale, bias = random.normal(size=(3, 2, 4)), random.normal(size=2), random.normal(size=2)
    ones = np.ones(2)

    def own(x: Any, scale: Any, bias: Any) -> Any:
        return batch_norm(x, ones, ones, scale, bias, 0.9, 1e-5, **TRAINING)[0]

    def plain(x: Any, scale: Any, bias: Any) -> Any:
        mean, variance = jnp.mean(x, (0, 2)), jnp.var(x, (0, 2))
        normal = (x - mean[:, None]) / jnp.sqrt(variance + 1e-5)[:, None]
        return normal * scale[:, None] + bias[:, None]

    with jax.enable_x64(True):
        found, wanted = derivatives(own, x, scale, bias), derivatives(plain, x, scale, bias)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_batch_norm_far_from_zero() -> None:
    """Variances keep their digits where the mean is ten thousand times the deviation."""
    x = (1e4 + np.random.default_rng(0).normal(size=(64, 2, 16, 16))).astype("float32")
    zeros, ones = np.zeros(2, "float32"), np.ones(2, "float32")
    out, _, _, mean, inverse = batch_norm(x, zeros, ones, None, None, 0.9, 0.0, **TRAINING)
    wide = x.astype(float)
    deviation = wide.std((0, 2, 3))
    np.testing.assert_allclose(mean, wide.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(1 / np.asarray(inverse), deviation, rtol=1e-3)
    normal = (wide - wide.mean((0, 2, 3))[:, None, None]) / deviation[:, None, None]
    np.testing.assert_allclose(out, normal, atol=5e-3)


IMAGE, ROW = "tensor<1x2x3x4xf32>", "tensor<1x24xf32>"
KEPT = f"""
func.func @main(
  %x: {IMAGE} {{pd.feed = "x"}}, %w: tensor<2x2x1x1xf32> {{pd.feed = "w"}}
) -> ({ROW} {{pd.fetch = "y"}}, {IMAGE} {{pd.fetch = "g"}}) {{
  %c = pd.conv2d(%x, %w) : ({IMAGE}, tensor<2x2x1x1xf32>) -> {IMAGE}
  %t = pd.tanh(%c) : {IMAGE}
  %d = pd.conv2d(%c, %w) : ({IMAGE}, tensor<2x2x1x1xf32>) -> {IMAGE}
  %p = pd.multiply(%t, %d) : {IMAGE}
  %y = pd.reshape(%p) {{shape = [1, 24]}} : ({IMAGE}) -> {ROW}
  %one = pd.full_like(%y) {{value = 1.0}} : {ROW}
  %g = pd.grad(of = [%y], wrt = [%c], cotangents = [%one]) : ({ROW}, {IMAGE}, {ROW}) -> {IMAGE}
  func.return %y, %g : {ROW}, {IMAGE}
}}
"""


def test_what_keeps_its_layout() -> None:
    """Readers of the axes' order, and gradients of images, keep their layout."""
    before = parse(KEPT)
    outcomes = check_preserves_meaning(before, AssignLayout().rewrite)
    reasons = {o.anchor: o.reason.name for o in outcomes if isinstance(o, Declined)}
    assert reasons == {
        "pd.tanh %t": "image-kept",
        "pd.reshape %y": "layout-dependent",
        "pd.grad %g": "differentiated",
    }


def patterns(*names: str) -> list[Fusion]:
    """List the patterns of these passes."""
    return [rule for name in names for rule in own_passes()[name]().RULES]  # pyright: ignore


@pytest.mark.parametrize("made", [AssignLayout, ChooseConvolution])
@pytest.mark.slow
def test_passes_preserve_meaning(made: type[Any]) -> None:
    """Generated networks with convolutions keep outputs, gradients and state."""
    plant = patterns("fuse-resunit", "fuse-relu-depthwise-conv")
    assert check_pass(made, plant=plant, examples=10, must_fire=5) >= 5


@pytest.mark.slow
def test_all_for_cpus_preserve_meaning() -> None:
    """The whole pipeline for CPUs preserves generated training and inference programs."""
    seen: Counter[str] = Counter()
    plant = patterns("fold-batch-norm", "fuse-relu-depthwise-conv")

    @settings(QUICK, max_examples=40)
    @given(programs(plant=plant, training=True) | programs(plant=plant, training=False))
    def check(made: Generated) -> None:
        context = PassContext({}, platform="cpu")
        outcomes = check_preserves_meaning(made.module, lambda m: optimize(m, context).outcomes)
        seen.update(outcome.rule for outcome in outcomes if isinstance(outcome, Applied))

    check()
    assert min(seen[name] for name in FOR_IMAGES) >= 1, seen


@pytest.mark.slow
def test_winograd_preserves_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's algorithm preserves generated networks of small images, also of odd sizes."""
    for name in ("SMALL", "CHANNELS", "WINOGRAD_CHANNELS", "WINOGRAD_TILES"):
        monkeypatch.setattr(choose_convolution, name, 0)
    seen = 0

    def transform(module: ModuleOp) -> list[Outcome]:
        nonlocal seen
        outcomes = ChooseConvolution().rewrite(module)
        seen += sum(
            isinstance(op, Conv2d) and op.attr("algorithm") == "winograd" for op in module.walk()
        )
        return outcomes

    @settings(QUICK, max_examples=6)
    @given(programs(plant=patterns("fuse-resunit", "fold-batch-norm"), training=False))
    def check(made: Generated) -> None:
        check_preserves_meaning(made.module, transform)

    check()
    assert seen >= 1
