"""Weights that are computed from other parameters, and parameters as a vector."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.runtime.state.scope import global_scope
from graphopt_tests.frontend.programs import fresh, run, start

utils = nn.utils


def value(name: str) -> np.ndarray:
    found = global_scope().find_var(name)
    assert found is not None
    return found.numpy()


@pytest.mark.every(2)
@pytest.mark.parametrize(("dim", "axes"), [(0, (1,)), (1, (0,)), (None, None), (-1, None)])
def test_a_weight_as_length_times_direction(dim: int | None, axes: tuple[int, ...] | None) -> None:
    """At first the product is the weight; later its norms are g, whatever v is."""
    with fresh() as (main, _):
        layer = utils.weight_norm(nn.Linear(3, 2, bias_attr=False), dim=dim)
        assert list(layer.state_dict()) == ["weight_v", "weight_g"]
        out = layer(static.data("x", [3, 3], "float32"))
        paddle.optimizer.SGD(0.1).minimize(paddle.mean(out * out))
        assert {p.name for p in main.all_parameters()} == {"linear_0.w_1", "linear_0.w_2"}
        start()
        v, g = value("linear_0.w_1"), value("linear_0.w_2")
        (first,) = run([out], x=np.eye(3, dtype="float32"))
        np.testing.assert_allclose(first, v, 1e-6)
        norms = np.sqrt((v**2).sum(axes))
        np.testing.assert_allclose(g, norms, 1e-6)
        global_scope().find_var("linear_0.w_1").get_tensor().set(v * 2)
        global_scope().find_var("linear_0.w_2").get_tensor().set(g * 0 + 3)
        (scaled,) = run([out], x=np.eye(3, dtype="float32"))
        np.testing.assert_allclose(np.sqrt((scaled**2).sum(axes)), g * 0 + 3, 1e-5)
        assert not np.allclose(value("linear_0.w_2"), 3)  # it is trained


@pytest.mark.every(2)
@pytest.mark.parametrize("layer", [nn.Linear, nn.Conv1D])
def test_a_weight_over_its_largest_singular_value(layer: type[nn.Layer]) -> None:
    """Each run moves the vectors closer; an evaluation program does not change them."""
    with fresh():
        made = utils.spectral_norm(layer(4, 3, *([2] if layer is nn.Conv1D else [])))
        assert list(made.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
        shape = [4, 4] if layer is nn.Linear else [1, 4, 5]
        made(static.data("x", shape, "float32"))
        start()
        # singular values 3, 2 and 1: closer ones would need more runs
        rows = np.diag([3.0, 2, 1]) @ np.eye(3, 4 if layer is nn.Linear else 8)
        given = rows.T if layer is nn.Linear else rows.reshape(3, 4, 2)
        global_scope().find_var(made.weight_orig.name).get_tensor().set(given.astype("float32"))
        feed = {"x": np.zeros(shape, "float32")}
        for _ in range(40):
            (weight,) = run([made.weight], **feed)
        matrix = weight.T if layer is nn.Linear else weight.reshape(3, -1)
        np.testing.assert_allclose(np.linalg.svd(matrix)[1][0], 1, 1e-4)
        u = value(made.weight_u.name)
        np.testing.assert_allclose(np.linalg.norm(u), 1, 1e-5)


def test_wrong_uses() -> None:
    with fresh():
        layer = utils.weight_norm(nn.Linear(3, 2))
        with pytest.raises(RuntimeError, match="'weight' has this already"):
            utils.weight_norm(layer)
        with pytest.raises(ValueError, match="Linear has no parameter 'weights'"):
            utils.spectral_norm(nn.Linear(3, 2), "weights")
        with pytest.raises(ValueError, match=r"'dim' should be in \[-2, 2\), found 2"):
            utils.weight_norm(nn.Linear(3, 2), dim=2)
        with pytest.raises(ValueError, match="'n_power_iterations' should be 1 or more"):
            utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=0)
        used = nn.Linear(3, 2)
        used(static.data("x", [1, 3], "float32"))
        with pytest.raises(ProgramError, match=r"reads 'linear_\d\.w_0' already"):
            utils.weight_norm(used)
        with pytest.raises(UnsupportedError, match="belong to its optimizer"):
            utils.clip_grad_norm_([], 1.0)


def test_parameters_as_a_vector() -> None:
    """Parameters become a vector, and an operator of a program writes them back."""
    with fresh():
        layer = nn.Linear(2, 3)
        vector = utils.parameters_to_vector(layer.parameters())
        start()
        (found,) = run([vector])
        expected = [value("linear_0.w_0").reshape(-1), value("linear_0.b_0")]
        assert np.array_equal(found, np.concatenate(expected))
        utils.vector_to_parameters(static.data("new", [9], "float32"), layer.parameters())
        run([], new=np.arange(9, dtype="float32"))
        assert value("linear_0.w_0").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert value("linear_0.b_0").tolist() == [6, 7, 8]
        with pytest.raises(ValueError, match=r"'vec' should be \[9\], found \[9, 3\]"):
            utils.vector_to_parameters(static.data("many", [9, 3], "float32"), layer.parameters())
