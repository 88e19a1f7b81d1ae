"""fluid.layers.detection_map, with numbers of Paddle 1.8.5."""

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


def batch(seed: int, difficult: bool) -> dict[str, Any]:
    """Build the detections and labels of two images, column by column."""
    draw, place = np.random.RandomState(seed), fluid.CPUPlace()
    parts = [draw.randint(0, 4, (30, 1)), draw.rand(30, 1), boxes(draw, 30)]
    found = np.concatenate(parts, 1).astype("float32")
    label, hard = draw.randint(0, 4, (12, 1)), draw.randint(0, 2, (12, 1))
    columns = {"label": label.astype("int32"), "box": boxes(draw, 12).astype("float32")}
    columns |= {"hard": hard.astype("int32")} if difficult else {}
    feed = {name: fluid.create_lod_tensor(rows, [[5, 7]], place) for name, rows in columns.items()}
    return {**feed, "found": fluid.create_lod_tensor(found, [[10, 20]], place)}


def metric(difficult: bool) -> fluid.metrics.DetectionMAP:
    found, box = (
        fluid.data(name, [None, size], "float32", lod_level=1)
        for name, size in (("found", 6), ("box", 4))
    )
    label = fluid.data("label", [None, 1], "int32", lod_level=1)
    hard = fluid.data("hard", [None, 1], "int32", lod_level=1) if difficult else None
    return fluid.metrics.DetectionMAP(
        *(found, label, box, hard, 4),
        overlap_threshold=0.3,
        evaluate_difficult=False,
        ap_version="11point" if difficult else "integral",
    )


@pytest.mark.every(3)
@pytest.mark.parametrize("cloned", [False, True])
@pytest.mark.parametrize(
    ("difficult", "wanted"),
    [
        (True, [(0.06060606, 0.06060606), (0.20454545, 0.08701298), (0.0459596, 0.05940286)]),
        (False, [(0.33333331, 0.33333331), (0.17476191, 0.17088745), (0.03777778, 0.11577618)]),
    ],
)
def test_averages_over_batches_until_a_reset(
    difficult: bool, wanted: list[tuple[float, float]], cloned: bool
) -> None:
    """The numbers and the names of variables are those of Paddle 1.8.5."""
    with fresh():
        own = metric(difficult)
        assert [mean.name for mean in own.get_map_var()] == [
            "detection_map_0.tmp_0",
            "detection_map_1.tmp_0",
        ]
        assert own.has_state.name == "map_eval_0_3_has_state"
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        program = fluid.default_main_program()
        program = program.clone(for_test=True) if cloned else program

        def step(seed: int) -> Any:
            feed, fetches = batch(seed, difficult), list(own.get_map_var())
            return [value.item() for value in exe.run(program, feed=feed, fetch_list=fetches)]

        np.testing.assert_allclose([step(seed) for seed in (5, 7, 9)], wanted, 1e-5)
        own.reset(exe)
        np.testing.assert_allclose(step(5), wanted[0], 1e-5)
        program_of_reset = fluid.Program()
        own.reset(exe, program_of_reset)
        assert [op.type for op in program_of_reset.global_block().ops] == ["fill_constant"]
        np.testing.assert_allclose(step(5), wanted[0], 1e-5)


def test_a_metric_needs_the_number_of_classes() -> None:
    with fresh(), pytest.raises(TypeError, match="'class_num'"):
        x = fluid.data("x", [None, 6], "float32", lod_level=1)
        fluid.metrics.DetectionMAP(x, x, x)
