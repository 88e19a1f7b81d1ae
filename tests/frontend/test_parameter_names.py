"""Parameters can be passed under their names of other releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.frontend.parameter_names import SYNONYMS, with_own_names
from graphopt_tests.frontend.later_names import computed

RECORDED = Path(__file__).parents[1] / "data" / "parameter_names.txt"
ROWS = [line.split() for line in RECORDED.read_text("utf-8").splitlines() if line[0] != "#"]
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def function_of(path: str) -> Any:
    """Find the function of a path such as paddle.fft.fft."""
    found: Any = paddle
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_name_that_paddle_takes(row: list[str]) -> None:
    """Each function of 1.8.5 and 3.3.1 that exists here takes their parameter names."""
    function, pairs = function_of(row[0]), [pair.split("=") for pair in row[1:]]
    for other, own in pairs:
        assert with_own_names(function, {other: 1}) == {own: 1}, other
    wanted = {own: n for n, (_, own) in enumerate(pairs)}
    if len(wanted) == len(pairs):  # not two names for one parameter
        assert with_own_names(function, {other: n for n, (other, _) in enumerate(pairs)}) == wanted


def test_each_synonym_is_one_that_paddle_takes() -> None:
    """Every listed synonym is used by some recorded function."""
    taken = {tuple(pair.split("=")) for row in ROWS for pair in row[1:]}
    listed = {(other, own) for other, owns in SYNONYMS.items() for own in owns}
    assert listed <= taken, listed - taken


def test_they_mean_the_same() -> None:
    """Functions, methods and layers of 1.8 and 3.3 take the other names."""

    def net(x: Any) -> list[Any]:
        layers: Any = paddle.fluid.layers
        picked = layers.index_select(input=x, index=paddle.assign(np.array([3, 1])), dim=1)
        normalised = paddle.nn.LayerNorm(4, eps=1e-3)(x)  # pyright: ignore
        return [picked, layers.roll(input=x, shifts=1, dims=0), x.sum(dim=1), normalised]

    picked, rolled, total, normalised = computed(net, x=X)
    np.testing.assert_array_equal(picked, X[:, [3, 1]])
    np.testing.assert_array_equal(rolled, np.roll(X, 1, 0))
    np.testing.assert_array_equal(total, X.sum(1))
    wanted = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(normalised, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"num_or_sections": [1, 2]}, [1, 2]),
        ({"num_or_sections": [2, -1]}, [2, 1]),
        ({"num_or_sections": [1]}, [1, 2]),
        ({"num_or_indices": [1, 2]}, [1, 1, 1]),
        ({"num_or_indices": 2}, [2, 1]),
        ({"num_or_sections": 3}, [1, 1, 1]),
    ],
)
def test_sizes_of_parts_are_no_indices(given: dict[str, Any], wanted: list[int]) -> None:
    """Of vsplit, 2.6.2 takes the sizes of the parts, and 3.3.1 where the next part begins."""
    parts = computed(lambda x: paddle.vsplit(x, **given), x=X)
    np.testing.assert_array_equal(np.concatenate(parts), X)
    assert [len(part) for part in parts] == wanted


def test_vsplit_takes_one_of_them() -> None:
    with pytest.raises(TypeError, match="either 'num_or_sections' or 'num_or_indices'"):
        paddle.vsplit(paddle.assign(X), 3, None, 3)


def test_other_names_are_refused() -> None:
    """Unknown names raise as before, and so does an argument that is passed twice."""
    roll: Any = paddle.roll
    with pytest.raises(TypeError, match="unexpected keyword argument 'shift'; did you mean 'shi"):
        roll(paddle.assign(X), shift=1)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        roll(paddle.assign(X), 1, input=1)
    assert with_own_names(paddle.roll, {"x": 1, "shifts": 1}) is None
    assert with_own_names(paddle.roll, {"x": 1, "input": 1}) is None
