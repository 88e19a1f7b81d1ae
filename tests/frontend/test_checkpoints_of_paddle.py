"""Checkpoints of half precision and of wrapped optimizers: load Paddle's, and save for Paddle.

`tests/data/checkpoints` was recorded from 2.6.2. For `o1`, `o2` and `o2_bfloat16` its CPU was taken
to have all operators in half precision, as a GPU has; `o2_cpu` is without that, and so in float32.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.static import amp
from graphopt_tests.frontend.programs import fresh, start, weight

CHECKPOINTS = Path(__file__).parents[1] / "data/checkpoints"
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "o1": lambda: amp.decorate(paddle.optimizer.Adam(0.1)),
    "o2": lambda: amp.decorate(paddle.optimizer.Adam(0.1), level="O2"),
    "o2_bfloat16": lambda: amp.decorate(
        paddle.optimizer.Momentum(0.1), level="O2", dtype="bfloat16"
    ),
    "lookahead": lambda: paddle.incubate.LookAhead(paddle.optimizer.Momentum(0.1), 0.5, 2),
}


def minimized(case: str) -> None:
    """Build a small program of the optimizer, and set its first values in the scope."""
    x = static.data("x", [4, 3])
    loss = paddle.mean(paddle.matmul(x, weight("w", np.ones((3, 2)))))
    optimizer = OPTIMIZERS[case]()
    optimizer.minimize(loss)
    start()
    if hasattr(optimizer, "amp_init"):
        optimizer.amp_init(paddle.CPUPlace())


def load(path: Path | str) -> None:
    static.load(static.default_main_program(), str(path), static.Executor(paddle.CPUPlace()))


def arrays(path: Path | str) -> dict[str, Any]:
    """Read the arrays of a checkpoint by name, from Paddle's own pickles."""
    found: dict[str, Any] = {}
    for suffix in ("pdparams", "pdopt"):
        found |= pickle.loads(Path(f"{path}.{suffix}").read_bytes())
    return {name: np.asarray(v) for name, v in found.items() if not name.startswith("Structured")}


def value(name: str) -> Any:
    return np.array(static.global_scope().find_var(name).get_tensor())


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_checkpoints_go_both_ways(case: str, tmp_path: Path) -> None:
    """Each value of Paddle's file is loaded; a save has the same names, dtypes and sizes."""
    recorded = arrays(CHECKPOINTS / case)
    with fresh():
        minimized(case)
        load(CHECKPOINTS / case)
        for name, array in recorded.items():
            assert value(name).tobytes() == array.tobytes(), name
        static.save(static.default_main_program(), str(tmp_path / "m"))
    saved = arrays(tmp_path / "m")
    assert saved.keys() == recorded.keys()
    for name, array in saved.items():
        assert (array.dtype, array.size) == (recorded[name].dtype, recorded[name].size), name
        assert array.tobytes() == recorded[name].tobytes(), name


def test_master_weights_from_and_to_float32(tmp_path: Path) -> None:
    """On a CPU Paddle's O2 is float32: parameters and their state load into the master weights."""
    recorded = arrays(CHECKPOINTS / "o2_cpu")
    with fresh():
        minimized("o2")
        load(CHECKPOINTS / "o2_cpu")
        np.testing.assert_array_equal(value("w_fp32_master_0"), recorded["w"])
        np.testing.assert_array_equal(value("w"), recorded["w"].astype("float16"))
        for kind in ("moment1_0", "moment2_0", "beta1_pow_acc_0"):
            np.testing.assert_array_equal(value(f"w_fp32_master_0_{kind}"), recorded[f"w_{kind}"])
        static.save(static.default_main_program(), str(tmp_path / "half"))
    with fresh():
        minimized("o1")
        load(tmp_path / "half")
        static.save(static.default_main_program(), str(tmp_path / "single"))
    saved = arrays(tmp_path / "single")
    assert saved.keys() == recorded.keys()
    for name, array in saved.items():
        assert array.tobytes() == recorded[name].tobytes(), name
