"""Semantics of Paddle's ops that a formula on a sample does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from xdsl.ir import Block

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import (
    Hardsigmoid,
    Hardswish,
    LeakyRelu,
    Relu,
    Relu6,
    Softmax,
)
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.ops.fused import FusedBatchNormAct, FusedGemmEpilogue
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.math import Abs, Clip, Maximum, Subtract
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.ops.pool import Pool2d
from graphopt.ir.dialect.ops.random import Dropout, Gaussian, TruncatedGaussian, Uniform
from graphopt.ir.dialect.ops.shape import Squeeze
from graphopt.ir.dialect.types import shape_of, tensor
from graphopt.lowering.collectives import AXIS, Replicas
from graphopt_tests.op_calls import compute, rule_of
from graphopt_tests.ops.base import Array, bf16, f32, f64, i64, sample
from graphopt_tests.ops.norm import vectors

pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def close(have: Any, want: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(have), want, rtol=tolerance, atol=tolerance)


def test_booleans_are_not_subtracted() -> None:
    """Booleans cannot be subtracted. Paddle 2.6.2 does not add them either, but multiplies them."""
    mask = Block(arg_types=[tensor((3,), "bool")]).args[0]
    with pytest.raises(ProgramError, match="booleans cannot be subtracted; not_equal says"):
        Subtract.make(mask, mask)


@pytest.mark.parametrize(
    ("op_class", "attrs", "x", "slope"),
    [
        (Relu, {}, 0.0, 0),
        (Relu6, {}, 0.0, 0),
        (Relu6, {}, 6.0, 0),
        (LeakyRelu, {"negative_slope": 0.1}, 0.0, 1.0),
        (Hardsigmoid, {"slope": 0.25}, -2.0, 0),
        (Hardsigmoid, {"slope": 0.25}, 2.0, 0),
        (Hardswish, {}, -3.0, 0),
        (Hardswish, {}, 3.0, 1),
        (Clip, {"min": -1.0, "max": 1.0}, -1.0, 0),
        (Clip, {"min": -1.0, "max": 1.0}, 1.0, 0),
        (Abs, {}, 0.0, 0),
    ],
)
def test_gradient_at_a_kink(
    op_class: type[PdOp], attrs: dict[str, Any], x: float, slope: float
) -> None:
    """The gradient at a kink is the one-sided derivative that Paddle 2.6 chooses."""
    close(jax.grad(lambda x: compute(op_class, x, **attrs))(jnp.asarray(x)), slope)


def test_gradient_at_a_tie() -> None:
    """Each of two equal maxima gets half of the gradient, as in Paddle 3."""
    x = jnp.ones(1)
    grads = jax.grad(lambda x, y: compute(Maximum, x, y).sum(), argnums=(0, 1))(x, x)
    close(grads, np.full((2, 1), 0.5))


def test_padding_row_gets_no_gradient() -> None:
    """The row of `padding_idx` reads as zero and keeps its value in training."""
    rows = i64([1, 0, 1, 2])
    grad = jax.grad(lambda w: compute(Embedding, rows, w, padding_idx=1).sum())(f32(3, 2))
    close(grad, [[1, 1], [0, 0], [1, 1]])


def test_cross_entropy_gradient() -> None:
    """The gradient is softmax - one_hot; ignored rows and the returned softmax pass none."""
    x, label = f64(3, 4), i64([[1], [-100], [3]])

    def results(x: Any) -> Any:
        softmax, loss = compute(CrossEntropyWithSoftmax, x, label)
        return loss.sum(), softmax[:, 0].sum()

    (of_loss, of_softmax), softmax = jax.jit(jax.jacobian(results))(x), jax.nn.softmax(x)
    close(of_loss, [softmax[0] - np.eye(4)[1], np.zeros(4), softmax[2] - np.eye(4)[3]])
    close(of_softmax, np.zeros((3, 4)))


def test_cross_entropy_of_large_logits() -> None:
    """No probability is below exp(-64), as in Paddle; the gradient ignores this bound."""
    loss = compute(CrossEntropyWithSoftmax, f32([[50.0, 0.0], [300.0, 0.0]]), i64([1, 1]))[1]
    close(loss, [[50], [64]])


def test_softmax_has_a_floor() -> None:
    """A class whose probability underflows still has a finite loss, and a gradient."""

    def loss(x: Array) -> Array:
        p = compute(Softmax, x)
        return compute(CrossEntropyWithSoftmax, p, i64([0]), use_softmax=False)[1].sum()

    value, gradient = jax.value_and_grad(loss)(jnp.asarray(f32([[0.0, 200.0, 0.0]])))
    close(value, 64)
    close(gradient, [[-1, 1, np.exp(-64)]])


def test_max_pool_gradient_goes_to_the_first() -> None:
    """The first of equal elements in a window gets the whole gradient."""
    window = {"kernel_size": (1, 2), "strides": (1, 2)}
    grad = jax.grad(lambda x: compute(Pool2d, x, **window).sum())(jnp.zeros((1, 1, 1, 4)))
    close(grad, [[[[1, 0, 1, 0]]]])


@pytest.mark.parametrize(("exclusive", "corner"), [(True, np.nan), (False, 0)])
def test_pool_window_in_padding(exclusive: bool, corner: float) -> None:
    """With ceil_mode a window may be all padding; Paddle divides 0 by its count."""
    shape = {"kernel_size": (2, 2), "strides": (2, 2), "paddings": (1, 1), "ceil_mode": True}
    out = compute(Pool2d, f32(1, 1, 4, 4), pooling_type="avg", exclusive=exclusive, **shape)
    assert out.shape == (1, 1, 3, 3)
    out = compute(Pool2d, f32(1, 1, 5, 5), pooling_type="avg", exclusive=exclusive, **shape)
    assert out.shape == (1, 1, 4, 4)
    close(out[0, 0, 3, 3], corner)


def test_batch_norm_of_large_numbers() -> None:
    """The variance keeps its digits when the mean is far larger than the deviation."""
    x = 4096 + f32([[-0.5], [0.5]] * 8)
    out, _, variance, *_ = compute(BatchNorm, x, *vectors(1)[:2])
    close(np.abs(out), np.ones((16, 1)), 1e-4)
    assert abs(variance[0]) < 2


def test_batch_norm_statistics_are_constants() -> None:
    """Gradients flow through the normalized output alone."""
    rule = rule_of(BatchNorm, sample(f64(4, 2), f64(2), abs(f64(2))))

    def total(x: Any) -> Any:
        return sum(statistic.sum() for statistic in rule(x, f64(2), abs(f64(2)))[1:])

    close(jax.grad(total)(f64(4, 2)), np.zeros((4, 2)))


@pytest.mark.every(2)
@pytest.mark.parametrize("op_class", [BatchNorm, FusedBatchNormAct])
def test_synchronised_batch_norm(op_class: type[PdOp]) -> None:
    """Four replicas with a quarter of the rows each give the numbers and gradients of all rows."""
    x, weights = f64(8, 3), f64(8, 3)
    state = [array.astype("float64") for array in vectors(3)]
    case = sample(x, *state, sync=True)
    alone = rule_of(op_class, case)
    replica = rule_of(op_class, case, Replicas(AXIS, 4))
    mapped = jax.vmap(replica, (0, None, None, None, None), axis_name=AXIS)

    def whole_loss(x: Any) -> Any:
        out, *statistics = alone(x, *state)
        return (out * weights).sum(), (out, statistics)

    def split_loss(x: Any) -> Any:
        out, *statistics = mapped(x.reshape(4, 2, 3), *state)
        return (out.reshape(8, 3) * weights).sum(), (out.reshape(8, 3), statistics)

    (_, (out, statistics)), grad = jax.value_and_grad(whole_loss, has_aux=True)(x)
    (_, (split_out, split_statistics)), split_grad = jax.value_and_grad(split_loss, has_aux=True)(x)
    close(split_out, out, 1e-12)
    close(split_grad, grad, 1e-12)
    for each, one in zip(split_statistics, statistics, strict=True):
        close(each, np.broadcast_to(one, (4, 3)), 1e-12)


@pytest.mark.parametrize("make", [bf16, i64])
@pytest.mark.parametrize(("reduction", "scale"), [("sum", 1), ("mean", 0.25)])
def test_all_reduce(reduction: str, scale: float, make: Callable[..., Any]) -> None:
    """Each of four replicas gets the sum or the mean, in the operand's dtype."""
    x = make([[1, 2], [3, 4], [5, 6], [7, 8]])
    rule = rule_of(AllReduce, sample(x[0], reduction=reduction), Replicas(AXIS, 4))
    (out,) = jax.vmap(rule, axis_name=AXIS)(x)
    assert out.dtype == x.dtype
    close(out.astype("float32"), np.tile([16 * scale, 20 * scale], (4, 1)))


@pytest.mark.parametrize(
    ("mode", "kept"), [("upscale_in_train", 1 / 0.7), ("downgrade_in_infer", 1.0)]
)
def test_dropout_in_training(mode: str, kept: float) -> None:
    """A share p of the elements is zero, the others are scaled; the key decides which."""
    case = sample(np.ones(20_000, "float32"), p=0.3, mode=mode)
    x = case.operands[0]
    first, again = (rule_of(Dropout, case, seed=1)(x)[0] for _ in range(2))
    other = rule_of(Dropout, case, seed=2)(x)[0]
    close(np.unique(np.asarray(first)), [0, kept])
    assert abs(np.mean(np.asarray(first) == 0) - 0.3) < 0.02
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.exhaustive
def test_random_tensors() -> None:
    """Distributions have their range, mean and deviation; a truncated one ends at 2 deviations."""
    uniform = np.asarray(compute(Uniform, shape=(20_000,), min=-1.0, max=3.0))
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() <= 3
    gaussian = np.asarray(compute(Gaussian, shape=(20_000,), mean=2.0, std=0.5))
    assert abs(gaussian.mean() - 2) < 0.02
    assert abs(gaussian.std() - 0.5) < 0.02
    cut = np.asarray(compute(TruncatedGaussian, shape=(20_000,), mean=2.0, std=0.5))
    assert np.abs(cut - 2).max() <= 1
    assert abs(cut.std() - 0.44) < 0.02
    # (-1 - 5, 1 - 5) in deviations of 1: the mean is 5 + (pdf(-6) - pdf(-4)) / (cdf(-4) - cdf(-6))
    bounded = np.asarray(compute(TruncatedGaussian, shape=(20_000,), mean=5.0, a=-1.0, b=1.0))
    assert (bounded.min() >= -1, bounded.max() <= 1) == (True, True)
    assert abs(bounded.mean() - 0.774) < 0.02
    # bounds of a hundred deviations leave a normal distribution, without one of them in it
    wide = np.asarray(compute(TruncatedGaussian, shape=(1 << 20,), std=0.02, a=-2.0, b=2.0))
    assert np.abs(wide).max() < 6 * 0.02
    assert abs(wide.std() - 0.02) < 1e-4


def test_random_half_types_have_many_values() -> None:
    """Half types are drawn in float32: a direct draw has 8 bits and repeats itself."""
    drawn = np.asarray(compute(Gaussian, shape=(4096,), dtype="bfloat16")).astype("float32")
    assert len(np.unique(drawn)) > 500


def test_unknown_activation_of_a_fused_op() -> None:
    """The error names the unknown activation."""
    with pytest.raises(UnsupportedError, match="'maxout' is not an activation"):
        compute(FusedGemmEpilogue, f32(2, 3), f32(3, 4), f32(4), activation="maxout")


def test_squeeze_of_an_unknown_size() -> None:
    """An unknown size is squeezed as a 1 if its axis is named, and stays if no axes are."""
    x = tensor((-1, 3, 1), "float32")
    assert shape_of(Squeeze.infer(x, (0,))) == (3, 1)
    assert shape_of(Squeeze.infer(x, ())) == (-1, 3)
