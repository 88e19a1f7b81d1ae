"""Functions whose results depend on sizes that only the run knows, against declared sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh

FROM, TO = np.array([0, 1, 2, 0]), np.array([1, 2, 1, 0])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantile": lambda x: paddle.quantile(x, [0.3, 1.0], 1, interpolation="nearest"),
    "quantile of all": lambda x: paddle.quantile(x, 0.25),
    "median": lambda x: paddle.median(x, 0, keepdim=True),
    "lower median": lambda x: paddle.median(x, 1, mode="min")[0],
    "fftshift": lambda x: paddle.fft.fftshift(x),
    "ifftshift": lambda x: paddle.fft.ifftshift(x, 1),
    "stft": lambda x: paddle.as_real(paddle.signal.stft(x, 4, 3)),
    "istft": lambda x: paddle.signal.istft(paddle.signal.stft(x, 4), 4),
    "frame": lambda x: paddle.signal.frame(x, 3, 2),
    "frame along axis 0": lambda x: paddle.signal.frame(x, 2, 1, 0),
    "overlap_add": lambda x: paddle.signal.overlap_add(x, 2),
    "overlap_add along axis 0": lambda x: paddle.signal.overlap_add(x[:, :2], 1, 0),
    "send_u_recv": lambda x: paddle.geometric.send_u_recv(x, assign(FROM), assign(TO), "mean"),
    "send_ue_recv": lambda x: paddle.geometric.send_ue_recv(
        x, assign(FROM + 0.5), assign(FROM), assign(TO), "mul", "max"
    ),
    "segment_sum": lambda x: paddle.geometric.segment_sum(x[:3], assign(np.array([0, 0, 2]))),
}


def assign(values: Any) -> Any:
    return paddle.assign(np.asarray(values, "int64" if values.dtype == np.int64 else "float32"))


def found(function: Callable[[Any], Any], declared: Sequence[Any], fed: list[Any]) -> list[Any]:
    """Compute the function and its gradient for each array, in one program."""
    with fresh():
        x = static.data("x", declared, "float32")
        x.stop_gradient = False
        made = function(x)
        made_and_slope = [made, *static.gradients(paddle.sum(made * made), x)]
        exe = static.Executor()
        return [
            each for array in fed for each in exe.run(feed={"x": array}, fetch_list=made_and_slope)
        ]


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_open_sizes_give_the_numbers_of_declared_ones(name: str) -> None:
    """Paddle 2.6.2 accepts open sizes in all but istft and median."""
    shapes = [(4, 6), (5, 8)]
    fed = [np.random.RandomState(0).rand(*shape).astype("float32") for shape in shapes]
    declared = [each for x in fed for each in found(FUNCTIONS[name], x.shape, [x])]
    for one, other in zip(found(FUNCTIONS[name], [None, None], fed), declared, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
