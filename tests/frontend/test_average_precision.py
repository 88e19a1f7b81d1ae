"""fluid.layers.detection_map; the numbers are those of Paddle 1.8.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh


def boxes(draw: Any, count: int) -> Any:
    corner = draw.rand(count, 2) * 0.6
    return np.concatenate([corner, corner + 0.1 + draw.rand(count, 2) * 0.3], 1)


def average(seed: int, background: int, difficult: bool, kind: str) -> float:
    draw = np.random.RandomState(seed)
    parts = [draw.randint(0, 4, (30, 1)), draw.rand(30, 1), boxes(draw, 30)]
    found = np.concatenate(parts, 1).astype("float32")
    parts = [draw.randint(0, 4, (12, 1)), draw.randint(0, 2, (12, 1)), boxes(draw, 12)]
    labels = np.concatenate(parts, 1).astype("float32")
    place = fluid.CPUPlace()
    feed = {
        "found": fluid.create_lod_tensor(found, [[10, 20]], place),
        "labels": fluid.create_lod_tensor(labels, [[5, 7]], place),
    }
    with fresh():
        given = [fluid.data(name, [None, 6], "float32", lod_level=1) for name in feed]
        mean = fluid.layers.detection_map(*given, 4, background, 0.3, difficult, ap_version=kind)
        return float(fluid.Executor(place).run(feed=feed, fetch_list=[mean])[0].item())


@pytest.mark.parametrize(
    ("seed", "background", "difficult", "kind", "wanted"),
    [
        (5, 0, True, "integral", 0.3333333),
        (5, 0, True, "11point", 0.34280297),
        (5, 0, False, "11point", 0.06060606),
        (7, 2, True, "integral", 0.1747619),
        (9, 4, True, "11point", 0.04141414),
        (9, 4, False, "integral", 0.04444445),
    ],
)
def test_the_mean_of_average_precisions(
    seed: int, background: int, difficult: bool, kind: str, wanted: float
) -> None:
    assert average(seed, background, difficult, kind) == pytest.approx(wanted, 1e-5)
