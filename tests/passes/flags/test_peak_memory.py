"""memory_optimize in a new process, with the code that users run: memory and bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from graphopt.runtime.settings.flags import FULL, TIER

SCRIPT = """
import json, resource, sys
import numpy as np
import graphopt as paddle
from graphopt import nn, static
import graphopt.nn.functional as F

paddle.enable_static()
paddle.seed(3)
x = h = static.data("x", [None, 512], "float32")
for _ in range(16):
    h = F.dropout(paddle.tanh(nn.Linear(512, 512)(h)), 0.1)
loss = paddle.mean(paddle.square(h))
paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
strategy = static.BuildStrategy()
strategy.memory_optimize = sys.argv[1] == "1"
program = static.CompiledProgram(static.default_main_program(), strategy)
feed = {"x": np.random.default_rng(0).standard_normal((4096, 512)).astype("float32")}
losses = [exe.run(program, feed, [loss])[0].item() for _ in range(2)]
(executable,) = program._runner.executables()
print(json.dumps({
    "losses": losses,
    "temporary": executable.function.memory_analysis().temp_size_in_bytes,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""


def measured(value: bool) -> dict[str, Any]:
    """Measure two steps with the flag on or off, in one form, without background compilation."""
    given = {key: text for key, text in os.environ.items() if key != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(int(value))],
        env={**given, "JAX_PLATFORMS": "cpu", TIER: FULL},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_less_memory_and_the_same_bits() -> None:
    """The flag more than halves the temporaries, and the peak of the process falls with them."""
    plain, found = measured(False), measured(True)
    assert found["losses"] == plain["losses"]
    assert found["temporary"] < 0.5 * plain["temporary"]
    assert plain["peak"] - found["peak"] > 0.5 * (plain["temporary"] - found["temporary"])
    print(plain, found)
