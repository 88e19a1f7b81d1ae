"""SIGTERM to a job: all trainers end after the same step, and the script saves its state."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

# every step adds 1 to w; trainer 1 sleeps between steps, and trainer 0 waits for it in them
SCRIPT = """
import os, sys, time
import numpy as np
import graphopt as paddle
from graphopt import static

trainer = paddle.distributed.get_rank()
x = static.data("x", [None, 1])
zero = paddle.nn.initializer.Constant(0.0)
w = paddle.create_parameter([1], "float32", name="w", default_initializer=zero)
loss = paddle.mean(x * w)
paddle.optimizer.SGD(-1.0).minimize(loss)
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
program = static.CompiledProgram(static.default_main_program()).with_data_parallel(loss.name)
feed, done = {"x": np.ones((1, 1), "float32")}, 0
try:
    while True:
        exe.run(program, feed=feed, fetch_list=[loss])
        done += 1
        if done == 3:
            print("pid", os.getpid(), flush=True)
        time.sleep(0.02 * trainer)
finally:
    value = np.array(static.global_scope().find_var("w").get_tensor())
    np.savez(os.path.join(sys.argv[1], f"{trainer}.npz"), value=value, done=done)
    print("saved", flush=True)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("who", ["launcher", "trainer"])
def test_state_of_the_last_step_is_saved(who: str, tmp_path: Path) -> None:
    """All trainers save one step in `finally` within ten seconds, with exit code 143."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "graphopt.launch", "--nproc", "2", "--devices-per-proc", "1"]
    started = subprocess.Popen(
        [*command, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    found: dict[str, int] = {}
    while len(found) < 2:
        line = started.stdout.readline()
        assert line, started.communicate()
        if told := re.match(r"\[(\d)\] pid (\d+)", line):
            found[told[1]] = int(told[2])
    begin = time.monotonic()
    if who == "launcher":
        started.send_signal(signal.SIGTERM)
    else:
        os.kill(found["1"], signal.SIGTERM)
    out, err = started.communicate(timeout=60)
    assert time.monotonic() - begin < 10.0
    assert started.returncode == 128 + signal.SIGTERM, err
    assert "ended by SIGTERM" in err
    assert sorted(re.findall(r"\[(\d)\] saved", out)) == ["0", "1"]
    saved = [np.load(tmp_path / f"{trainer}.npz") for trainer in range(2)]
    assert saved[0]["done"] == saved[1]["done"] == saved[0]["value"] == saved[1]["value"]
