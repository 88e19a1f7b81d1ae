"""Dropout whose rate is a variable: shares and scales as in Paddle 2.6.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run

ONES = np.ones((40, 500), "float32")
F = paddle.nn.functional


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("rate", "upscaled", "plain", "tested"),
    [(0.25, 4 / 3, 1, 0.75), (0.0, 1, 1, 1), (1.0, 0, 0, 0)],
)
def test_rates_that_a_run_decides(
    rate: float, upscaled: float, plain: float, tested: float
) -> None:
    with fresh() as (main, _):
        x, p = static.data("x", [None, 500]), static.data("p", [1])
        x.stop_gradient = False
        made = [
            F.dropout(x, p),
            F.dropout(x, p, mode="downscale_in_infer"),
            F.dropout(x, p, axis=0),
        ]
        still = [F.dropout(x, p, training=False)]
        still += [F.dropout(x, p, training=False, mode="downscale_in_infer")]
        (slope,) = static.gradients([paddle.sum(made[0])], [x])
        feed: dict[str, Any] = {"x": ONES, "p": np.array([rate], "float32")}
        *found, unchanged, scaled, gradient = run([*made, *still, slope], **feed)
        test = main.clone(for_test=True)
        (in_test,) = static.Executor().run(test, feed, [made[0]])
    for out, kept in zip(found, (upscaled, plain, upscaled), strict=True):
        np.testing.assert_allclose(np.unique(out), sorted({0, kept} if rate else {kept}), 1e-6)
    np.testing.assert_allclose([np.mean(out == 0) for out in found[:2]], [rate] * 2, atol=0.02)
    assert (found[2] == found[2][:, :1]).all()
    np.testing.assert_array_equal(unchanged, ONES)
    np.testing.assert_allclose(scaled, tested * ONES, 1e-6)
    np.testing.assert_array_equal(gradient, found[0])
    np.testing.assert_array_equal(in_test, ONES)


@pytest.mark.filterwarnings("ignore:no variable in your model")
def test_rates_are_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with fresh() as (main, _):
        x, p = static.data("x", [None, 4]), static.data("p", [1])
        out = F.dropout(x, paddle.scale(p, 0.5), training=False, mode="downscale_in_infer")
        exe = static.Executor()
        static.save_inference_model(path, [x, p], [out], exe, program=main)
        program, names, fetches = static.load_inference_model(path, exe)
        feed = {"x": ONES[:, :4], "p": np.array([0.5], "float32")}
        (found,) = exe.run(program, {name: feed[name] for name in names}, fetches)
        # what only the rate depends on is not pruned
        (again,) = exe.run(main, feed, [out], use_prune=True)
    np.testing.assert_array_equal(again, found)
    np.testing.assert_allclose(found, 0.75 * ONES[:, :4], 1e-6)


def test_rates_that_are_no_number() -> None:
    with fresh(), pytest.raises(ValueError, match="'p' should be one float, found float32"):
        F.dropout(static.data("x", [2, 4]), static.data("p", [2]))
