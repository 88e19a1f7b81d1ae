"""Functions and layers composed of several operators: their numbers and errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import linalg, nn, static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt_tests.frontend.programs import fresh, run, start, types

F = nn.functional
X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]])
WHOLE = np.array([[12, -18, 7], [8, 12, 0]])
GIVEN = [X, SQUARE, WHOLE]


def product_of(left: Any, values: Any, right: Any) -> Any:
    """Multiply singular values and vectors to a matrix."""
    return paddle.matmul(left * values, right, transpose_y=True)


FUNCTIONS: list[tuple[Callable[..., Any], Any, Any]] = [
    # joining, splitting, moving
    (lambda x: paddle.hstack([x, x]), X, np.hstack([X, X])),
    (lambda x: paddle.column_stack([x[0], x[1]]), X, X.T),
    (lambda x: paddle.atleast_3d(x[0]), X, np.atleast_3d(X[0])),
    (lambda x: paddle.tensor_split(x, 2, 1)[1], X, X[:, 2:]),
    (lambda x: paddle.moveaxis(paddle.unsqueeze(x, 0), [0, 2], [2, 0]), X, X.T[:, :, None]),
    (lambda x: paddle.rot90(x, 3), X, np.rot90(X, 3)),
    (lambda x: paddle.unflatten(x, -1, [3, -1]), X, X[..., None]),
    (lambda x: paddle.view(x, "int32"), X, X.view(np.int32)),
    (lambda x: paddle.as_strided(x, [2, 2], [1, 2], 1), X, [[-2, 0.5], [3, 4]]),
    (lambda x: x.unfold(1, 2, 1), X, np.stack([X[:, :2], X[:, 1:]], 1)),
    (lambda x: paddle.block_diag([x, x[0]])[2], X, [0, 0, 0, *X[0]]),
    (lambda x: paddle.combinations(x[0]), X, [[1, -2], [1, 3], [-2, 3]]),
    # places
    (lambda x: paddle.index_fill(x, paddle.assign(np.array([-1])), 1, 9)[0], X, [1, -2, 9]),
    (lambda x: x.take(paddle.assign(np.array([[7, -7]])), "wrap"), X, [[-2, -1]]),
    (lambda x: paddle.slice_scatter(x, x[:, :1], [1], [1], [2], [1]), X, X[:, [0, 0, 2]]),
    (lambda x: paddle.diagonal_scatter(x, x[0, 1:]), X, [[-2, -2, 3], [0.5, 3, -1]]),
    (lambda x: paddle.diagflat(x[0], 1), X, np.diagflat(X[0], 1)),
    (lambda x: paddle.isin(x, x[0]), X, [[True] * 3, [False] * 3]),
    # running results and medians
    (lambda x: paddle.diff(x, prepend=x[:, :1]), X, np.diff(X, prepend=X[:, :1])),
    (lambda x: paddle.cumulative_trapezoid(x, dx=2.0), X, [[-1, 0], [4.5, 7.5]]),
    (lambda x: paddle.nanmedian(x, 1, mode="min")[1], X, [0, 0]),
    (lambda x: paddle.nanquantile(x, [0.25, 0.5], 1), X, np.quantile(X, [0.25, 0.5], 1)),
    # numbers
    (lambda x: paddle.frexp(x)[0], X, np.frexp(X)[0]),
    (lambda x: paddle.lcm(x, paddle.full([], 8, "int64")), WHOLE, np.lcm(WHOLE, 8)),
    (lambda x: paddle.hypot(x, x), X, np.hypot(X, X)),
    (lambda x: paddle.logaddexp(x, x), X, np.logaddexp(X, X)),
    (lambda x: paddle.as_real(paddle.polar(x, x))[..., 0], X, X * np.cos(X)),
    # contractions and linear algebra
    (lambda x: paddle.tensordot(x, x, [[0, 1], [0, 1]]), X, np.tensordot(X, X)),
    (lambda x: paddle.cdist(x, x, 1.0), X, [[0, 10.5], [10.5, 0]]),
    (lambda x: paddle.vander(x[0], 2), X, np.vander(X[0], 2)),
    (lambda x: paddle.einsum("Ba", x), X, X.T),
    (lambda x: linalg.cov(x), X, np.cov(X)),
    (lambda x: linalg.pinv(x), X, np.linalg.pinv(X)),
    (lambda x: linalg.matrix_norm(x, "nuc"), X, np.linalg.norm(X, "nuc")),
    (lambda x: linalg.cond(x, 1), SQUARE, np.linalg.cond(SQUARE, 1)),
    (lambda x: linalg.lstsq(x, x[:, 0])[0], SQUARE, [1, 0]),
    (lambda x: linalg.solve(x, x[:1] * 2, left=False), SQUARE, [[2, 0]]),
    (lambda x: product_of(*linalg.svd_lowrank(x)), X, X),
    (lambda x: product_of(*linalg.svd_lowrank(x, 2, M=x * 3)), X, X * -2),
    (lambda x: product_of(*x.pca_lowrank(1, niter=0)), X, X - X.mean(0)),
    (lambda x: linalg.pca_lowrank(x, 2, False)[1], X, np.linalg.svd(X)[1]),
    (lambda x: linalg.lu_unpack(*linalg.lu(x))[1], SQUARE, [[1, 0], [0.25, 1]]),
    # functional
    (lambda x: F.normalize(x, axis=1), X, X / np.linalg.norm(X, axis=1, keepdims=True)),
    (lambda x: F.pairwise_distance(x, -x, epsilon=0.0), X, 2 * np.linalg.norm(X, axis=1)),
    (lambda x: F.triplet_margin_loss(x, x, -x, epsilon=0.0), X, 0),
    (lambda x: F.alpha_dropout(x, 0.5, training=False), X, X),
    (lambda x: F.fold(F.unfold(x.reshape([1, 1, 2, 3]), 1), [2, 3], 1)[0, 0], X, X),
    (lambda x: F.max_unpool1d(*F.max_pool1d(x[None], 3, return_mask=True), 3)[0, 0], X, [0, 0, 3]),
    (lambda x: F.lp_pool1d(x[None], 2.0, 2, ceil_mode=True), X, [[[5**0.5, 3], [16.25**0.5, 1]]]),
    (lambda x: F.scaled_dot_product_attention(*[x[None, :, None]] * 3, is_causal=True)[0, 0, 0],
     X, X[0]),
    (lambda x: nn.Unflatten(1, [3, 1])(x), X, X[..., None]),
]  # fmt: skip


def build() -> list[Any]:
    """Build the variable of each function."""
    names = {id(a): static.data(f"x{i}", a.shape, str(a.dtype)) for i, a in enumerate(GIVEN)}
    return [function(names[id(array)]) for function, array, _ in FUNCTIONS]


def test_shapes() -> None:
    """The variable of each function has the shape of its result."""
    with fresh():
        for number, (made, (_, _, wanted)) in enumerate(zip(build(), FUNCTIONS, strict=True)):
            assert tuple(made.shape) == np.shape(wanted), number


@pytest.mark.exhaustive
def test_numbers() -> None:
    """Each function computes NumPy's numbers."""
    with fresh():
        got = run(build(), **{f"x{i}": array for i, array in enumerate(GIVEN)})
    for number, (array, (_, _, wanted)) in enumerate(zip(got, FUNCTIONS, strict=True)):
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-9, err_msg=str(number))


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: paddle.moveaxis(x, 0, 5), ValueError, "moveaxis.*destination"),
    (lambda x: paddle.moveaxis(x, [0, 1], [0]), AssertionError, "as many different axes"),
    (lambda x: linalg.householder_product(x, x[0]), AssertionError, "as many rows as columns"),
    (lambda x: linalg.householder_product(x, x), AssertionError, "a vector for each of them"),
    (lambda x: paddle.unflatten(x, 1, [2, 2]), ValueError, "does not divide the 3 of axis 1"),
    (lambda x: paddle.as_strided(x, [9], [1]), ValueError, "leaves"),
    (lambda x: paddle.shard_index(x.astype("int64"), 4, 2, 2), ValueError, "shard_id"),
    (lambda x: paddle.diag_embed(x, 0, 1, 1), ProgramError, "should differ"),
    (lambda x: paddle.polygamma(x, -1), ValueError, "polygamma.*'n'"),
    (lambda x: paddle.gcd(x, x), ProgramError, "integer"),
    (lambda x: linalg.det(x), ProgramError, "square"),
    (lambda x: linalg.lu(x, pivot=False), UnsupportedError, "pivot"),
    (lambda x: linalg.solve(x[:, :2], x, False), ValueError, "should have 2 columns, as 'x' has"),
    (lambda x: paddle.einsum("ij"), AssertionError, "at least one operand is expected"),
    (lambda x: linalg.svd_lowrank(x, 3), ValueError, "'q' should be from 0 to 2, found 3"),
    (lambda x: linalg.pca_lowrank(x, niter=-1), ValueError, "'niter' should not be negative"),
    (lambda x: linalg.matrix_norm(x, 3), ValueError, "matrix_norm.*'p'"),
    (lambda x: F.gumbel_softmax(x, 0.0), ValueError, "temperature"),
    (lambda x: F.alpha_dropout(x, 2.0), ValueError, "alpha_dropout"),
    (lambda x: F.fold(x[None], [3, 3], 2), ProgramError, "not a multiple of the 4"),
    (lambda x: F.selu(x, 1.0), ValueError, "'scale' should be above 1"),
    (lambda x: paddle.eye(-1), TypeError, "should not be negative"),
    (lambda x: F.celu(x, 0), ZeroDivisionError, "'alpha' should not be 0"),
    (lambda x: F.softshrink(x, -0.5), ValueError, "'threshold' should not be negative"),
    (lambda x: F.selu(x, alpha=-1), ValueError, "'alpha' should not be negative"),
    (lambda x: F.pad(x[None, :, :0], [1, 1], "circular", data_format="NCL"), ProgramError, "fit"),
    (
        lambda x: F.cross_entropy(x, x[:, :1].astype("int64"), weight=x[0, :2]),
        ValueError,
        "an element for each of the 3 classes",
    ),
    (lambda x: static.nn.conv2d(x, 1, 3), ValueError, r"conv2d\(\): the input should have 4 axes"),
    (lambda x: F.sparse_attention(x), UnsupportedError, "scaled_dot_product_attention"),
    (lambda x: nn.Conv1D(1, 1, 1, padding_mode="wrap"), ValueError, "padding_mode"),
    (lambda x: static.nn.row_conv(x, 1), ValueError, "row_conv"),
    (lambda x: static.nn.fc(x, "4"), TypeError, "'size' must be an int, found str"),
    (lambda x: static.nn.embedding(x > 0, [3]), ValueError, r"'size' should be \[rows, width\]"),
    (lambda x: static.save(x, "model"), TypeError, r"save\(\): 'program' should be a Program"),
    (lambda x: static.load(x, "model"), TypeError, r"load\(\): 'program' should be a Program"),
    (lambda x: static.amp.decorate(x), TypeError, "should be an Optimizer, found Variable"),
    (lambda x: static.nn.sparse_embedding(x, [2, 2]), UnsupportedError, "static.nn.embedding"),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refused_while_building(call: Callable[[Any], Any], kind: Any, message: str) -> None:
    """An error names the function and the fault, before anything runs."""
    with fresh(), pytest.raises(kind, match=message):
        call(static.data("x", [2, 3], "float32"))


def test_padding_modes_of_convolutions() -> None:
    """A padding mode other than zeros pads before the convolution."""
    image = np.arange(6, dtype="float32").reshape(1, 1, 6)
    ones = paddle.ParamAttr(initializer=nn.initializer.Constant(1.0))
    with fresh() as (main, _):
        x = static.data("x", [1, 1, 6], "float32")
        made = [
            nn.Conv1D(1, 1, 3, padding=1, padding_mode=mode, weight_attr=ones, bias_attr=False)(x)
            for mode in ("reflect", "replicate", "circular")
        ]
        start()
        assert types(main).count("pad3d") == 3
        got = run(made, x=image)
    for array, mode in zip(got, ("reflect", "edge", "wrap"), strict=True):
        padded = np.pad(image[0, 0], 1, mode=mode)  # pyright: ignore
        np.testing.assert_allclose(array[0, 0], np.convolve(padded, np.ones(3), "valid"))


@pytest.mark.exhaustive
def test_spectral_norm_keeps_its_vectors() -> None:
    """The weight is divided by its largest singular value; the vectors are state, not trained."""
    with fresh():
        weight = np.diag([3.0, 2.0]).astype("float32")
        layer = nn.SpectralNorm([2, 2], power_iters=60)
        out = layer(static.data("w", [2, 2], "float32"))
        start()
        (got,) = run([out], w=weight)
        assert list(layer.state_dict()) == ["weight_u", "weight_v"]
        assert layer.weight_u.stop_gradient
    np.testing.assert_allclose(got, weight / 3, rtol=1e-5)


def test_sync_batch_norm_takes_over_the_parameters() -> None:
    """convert_sync_batchnorm keeps weights and names, and replaces the operator."""
    with fresh() as (main, _):
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1D(3))
        before = [p.name for p in net.parameters()]
        converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        converted(static.data("x", [2, 3], "float32"))
        assert [p.name for p in converted.parameters()] == before
        assert types(main)[-1] == "sync_batch_norm"


@pytest.mark.exhaustive
def test_random_layers() -> None:
    """Random functions draw values of the right kind and range."""
    paddle.seed(1)
    with fresh():
        x = paddle.full([400], 1.0)
        made = [
            F.alpha_dropout(x, 0.3),
            F.rrelu(-x, 0.2, 0.4),
            F.gumbel_softmax(paddle.zeros([200, 2]), hard=True),
            paddle.poisson(x * 3),
            paddle.binomial(paddle.full([400], 5, "int64"), x * 0.5),
        ]
        alpha, slopes, hard, counts, tries = run(made)
    assert len(np.unique(alpha.round(4))) == 2
    assert -0.4 <= slopes.min() < -0.35 and -0.25 < slopes.max() <= -0.2
    assert set(np.unique(hard)) == {0, 1} and (hard.sum(1) == 1).all()
    assert abs(counts.mean() - 3) < 0.5 and abs(tries.mean() - 2.5) < 0.5


def test_gradient_modes_change_nothing() -> None:
    """In static mode no_grad changes nothing, as in Paddle."""

    @paddle.no_grad()
    def double(x: Any) -> Any:
        return x * 2

    with fresh(), paddle.no_grad():
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        assert not double(x).stop_gradient
        assert not paddle.is_grad_enabled()


def test_texts_of_types() -> None:
    """`str` gives Paddle's text, which scripts compare and cut; a type still equals its name."""
    dtype = static.data("x", [2], "float32").dtype
    assert str(dtype) == repr(dtype) == f"{dtype!s}" == "paddle.float32"
    assert str(dtype)[7:] == f"{dtype}" == dtype == "float32"
    assert np.dtype(dtype) == np.float32 and pickle.loads(pickle.dumps(dtype)) == dtype
    assert type(DType(dtype)) is DType and DType(dtype) == "float32"


def test_limits_of_types() -> None:
    """finfo and iinfo give the limits of dtypes."""
    assert paddle.finfo("bfloat16").bits == 16
    assert paddle.finfo(paddle.float32).eps == np.finfo("float32").eps
    assert (paddle.iinfo("int8").min, paddle.iinfo("uint8").max) == (-128, 255)
    with pytest.raises(TypeError, match="iinfo"):
        paddle.iinfo("float32")
