"""The launcher: environment, output, signals, exit codes, no processes left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

Started = subprocess.Popen[str]


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Started]:
    """Return a function that launches a script of this text, which needs no graphopt."""

    def start(text: str, *options: str, processes: int = 2) -> Started:
        script = tmp_path / "script"
        script.write_text("import os, signal, sys, time\nfrom pathlib import Path\n" + text)
        command = [sys.executable, "-m", "graphopt.launch", "--nproc", str(processes)]
        return subprocess.Popen(
            [*command, *options, str(script), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRAPHOPT_SILENCE_TIMEOUT": "1"},
        )

    return start


WRITE_PID = 'Path(sys.argv[1], os.environ["PADDLE_TRAINER_ID"]).write_text(str(os.getpid()))\n'


def pids(folder: Path, count: int = 2) -> list[int]:
    """Wait until all trainers run, and return their process ids."""
    limit = time.monotonic() + 20.0
    while time.monotonic() < limit:
        texts = [(folder / str(n)).read_text() for n in range(count) if (folder / str(n)).exists()]
        if len([text for text in texts if text]) == count:
            return [int(text) for text in texts]
        time.sleep(0.02)
    raise AssertionError("the trainers did not start")


def is_gone(pid: int) -> bool:
    """Wait until the process has ended; False after a time limit."""
    limit = time.monotonic() + 10.0
    while time.monotonic() < limit:
        try:
            stat = Path(f"/proc/{pid}/stat")
            if stat.exists() and ") Z " in stat.read_text():
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def finish(started: Started) -> tuple[int, list[str], str]:
    """Return exit code, sorted lines of stdout, and stderr."""
    out, err = started.communicate(timeout=60)
    return started.returncode, sorted(out.splitlines()), err


def test_environment_and_output(launch: Callable[..., Started]) -> None:
    """Trainers get Paddle's variables and the arguments; lines carry the trainer's number."""
    code, out, err = finish(
        launch(
            'e = os.environ\nhere = e["PADDLE_TRAINER_ENDPOINTS"].split(",")\n'
            'assert here[int(e["PADDLE_TRAINER_ID"])] == e["PADDLE_CURRENT_ENDPOINT"]\n'
            'assert len(set(here)) == 3 and all(x.startswith("127.0.0.1:") for x in here)\n'
            'print(e["PADDLE_TRAINERS_NUM"], e["CPU_NUM"], e["GRAPHOPT_SILENCE_TIMEOUT"])\n'
            'assert e["FLAGS_selected_gpus"] == "0"\n'
            'print(len(e["GRAPHOPT_JOB_TOKEN"]), "device_count" in e.get("XLA_FLAGS", ""))\n',
            *("--devices-per-proc", "4"),
            processes=3,
        )
    )
    assert code == 0, err
    assert out == sorted(f"[{n}] {text}" for n in range(3) for text in ("3 4 1", "32 False"))


def test_the_first_failure_ends_all(launch: Callable[..., Started], tmp_path: Path) -> None:
    """The launcher exits with the first failure's code, and ends the other trainers."""
    started = launch(
        WRITE_PID + 'sys.exit(3) if os.environ["PADDLE_TRAINER_ID"] == "1" else time.sleep(600)'
    )
    code, _, err = finish(started)
    assert code == 3
    assert "trainer 1 failed with code 3; ending trainer 0" in err
    assert is_gone(pids(tmp_path, 1)[0])


def test_all_start_again_after_a_failure(launch: Callable[..., Started], tmp_path: Path) -> None:
    """Trainers restart up to the limit, on new ports; the last start gives the exit code."""
    text = (
        'mine = Path(sys.argv[1], "starts" + os.environ["PADDLE_TRAINER_ID"])\n'
        'mine.write_text((mine.read_text() if mine.exists() else "") + "x")\n'
        'print(os.environ["PADDLE_TRAINER_ENDPOINTS"])\n'
        "sys.exit(3) if len(mine.read_text()) < 3 else None\n"
    )
    code, out, err = finish(launch(text, "--max-restarts", "5", processes=1))
    assert code == 0, err
    assert len(set(out)) == 3
    assert re.findall(r"trainers; (\d) restarts left", err) == ["4", "3"]
    (tmp_path / "starts0").unlink()
    code, _, err = finish(launch(text, "--max-restarts", "1", processes=1))
    assert code == 3
    assert "trainers; 0 restarts left" in err


@pytest.mark.exhaustive
def test_a_signal_ends_a_job_that_may_start_again(
    launch: Callable[..., Started], tmp_path: Path
) -> None:
    """A signal is no failure, and ends the job."""
    started = launch(WRITE_PID + "time.sleep(600)", "--max-restarts", "5")
    pids(tmp_path)
    started.send_signal(signal.SIGTERM)
    code, _, err = finish(started)
    assert code == 128 + signal.SIGTERM
    assert "restarting all trainers" not in err


def test_a_signal_reaches_all(launch: Callable[..., Started], tmp_path: Path) -> None:
    """SIGTERM is passed on to all trainers, whose exit code is reported."""
    started = launch(
        "told = []\nsignal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
        + WRITE_PID
        + 'while not told: time.sleep(0.02)\nprint("told")\n'
    )
    pids(tmp_path)
    started.send_signal(signal.SIGTERM)
    code, out, _ = finish(started)
    assert out == ["[0] told", "[1] told"]
    assert code == 0


@pytest.mark.exhaustive
def test_who_does_not_end_is_killed(launch: Callable[..., Started], tmp_path: Path) -> None:
    """A trainer that ignores SIGTERM is killed at the timeout; the exit code is SIGTERM's."""
    text = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WRITE_PID + "time.sleep(600)"
    started = launch(text, "--stop-timeout", "0.2")
    found = pids(tmp_path)
    started.send_signal(signal.SIGTERM)
    code, _, err = finish(started)
    assert code == 128 + signal.SIGTERM
    assert "trainer 0, 1 did not end within 0.2 s (--stop-timeout); killed" in err
    assert all(map(is_gone, found))


@pytest.mark.exhaustive
def test_a_stopped_trainer_is_ended(launch: Callable[..., Started], tmp_path: Path) -> None:
    """A stopped trainer, which handles no signals, is ended with its child processes."""
    started = launch(
        "import subprocess\n"
        'child = subprocess.Popen(["sleep", "600"])\n'
        'Path(sys.argv[1], "child" + os.environ["PADDLE_TRAINER_ID"]).write_text(str(child.pid))\n'
        + WRITE_PID
        + 'number = os.environ["PADDLE_TRAINER_ID"]\n'
        'os.kill(os.getpid(), signal.SIGSTOP) if number == "0" else time.sleep(0.5)\n'
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    code, _, err = finish(started)
    assert code == 128 + signal.SIGKILL
    assert "trainer 1 was ended by SIGKILL; ending trainer 0" in err
    children = [int((tmp_path / f"child{n}").read_text()) for n in range(2)]
    assert all(map(is_gone, pids(tmp_path) + children))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends orphans")
def test_no_orphans(launch: Callable[..., Started], tmp_path: Path) -> None:
    """When the launcher is killed, its trainers end."""
    started = launch(WRITE_PID + "time.sleep(600)")
    found = pids(tmp_path)
    started.kill()
    started.communicate(timeout=60)
    assert all(map(is_gone, found))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--nproc", "0", "x"], "must be 1 or more"),
        (["--nproc", "2"], "required: script"),
    ],
)
def test_usage(options: list[str], told: str, capsys: Any) -> None:
    """Wrong options are errors of the command line."""
    from graphopt.launch import main

    with pytest.raises(SystemExit):
        main(options)
    assert told in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_plain_program_with_a_collective_runs_over_all_trainers(
    launch: Callable[..., Started],
) -> None:
    """A program with a collective, or its clone, spans the trainers; one without runs alone."""
    code, out, err = finish(
        launch(
            "import numpy as np\nfrom graphopt import fluid\n"
            "from graphopt.fluid.layers import collective\n"
            'rank = int(os.environ["PADDLE_TRAINER_ID"])\n'
            'x = fluid.layers.data("x", [1])\ntwice = x * 2.0\n'
            "total = collective._c_allreduce(x)\n"
            "exe = fluid.Executor(fluid.CPUPlace())\n"
            'feed = {"x": np.array([[3.0 + rank]], "float32")}\n'
            "main = fluid.default_main_program()\n"
            "for program in (main, main.clone(for_test=True)):\n"
            "    print(*exe.run(program, feed=feed, fetch_list=[total])[0].ravel())\n",
            processes=2,
        )
    )
    assert code == 0, err
    assert [line for line in out if "Gloo" not in line] == [
        "[0] 7.0",
        "[0] 7.0",
        "[1] 7.0",
        "[1] 7.0",
    ]
