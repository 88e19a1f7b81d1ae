"""`make storms`: interrupts and raising callbacks, which must never lose state.

    python tests/storms/run.py [COUNT] [--only plain,steps] [--fault interrupt]

Each kind of program trains in a new process (`worker.py`), which is interrupted COUNT times
at random moments, or whose Python function raises COUNT times. Prints a table; the exit
status is 1 when state was lost once.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).parent / "worker.py"
KINDS = ("plain", "devices", "pmap", "steps", "stacked", "compiling", "processes")
FAULTS = ("interrupt", "alarm", "thread", "raise")
FAULTS_OF = {"compiling": ("interrupt",), "processes": ("interrupt", "raise")}
# Seconds between `ready` and the signal: several steps, or a good part of a compilation.
AFTER = {"compiling": 0.3, "processes": 0.01}


def storm(kind: str, fault: str, count: int, seed: int = 0) -> tuple[int, str]:
    """Return how often state was lost, -1 for a worker that failed, and its output."""
    command = [str(WORKER), kind, fault, str(count)]
    environment = dict(os.environ, FLAGS_graphopt_cache_dir="", JAX_PLATFORMS="cpu")
    environment |= {"CPU_NUM": "2" if kind in ("devices", "pmap") else "1"}
    environment.pop("XLA_FLAGS", None)
    if kind == "processes":
        command = ["-m", "graphopt.launch", "--nproc", "2", *command]
    moments, pid = random.Random(seed), 0
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            said.append(line)
            if found := re.search(r"ready (\d+)", line):
                time.sleep(moments.random() * AFTER.get(kind, 0.003))
                pid = int(found[1])
                os.kill(pid, signal.SIGINT)
    text = "".join(line for line in said if "ready" not in line)
    lost = [int(number) for number in re.findall(r"lost (\d+) of", text)]
    trainers = 2 if kind == "processes" else 1
    return (sum(lost) if worker.returncode == 0 and len(lost) == trainers else -1), text


def main() -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--fault", default=",".join(FAULTS))
    options = parser.parse_args()
    failed = False
    print("| program | fault | faults | state lost | s |\n|---|---|---|---|---|")
    for kind in options.only.split(","):
        for fault in options.fault.split(","):
            if fault not in FAULTS_OF.get(kind, FAULTS):
                continue
            start = time.monotonic()
            lost, text = storm(kind, fault, options.count)
            failed |= lost != 0
            seconds = time.monotonic() - start
            print(f"| {kind} | {fault} | {options.count} | {lost} | {seconds:.0f} |", flush=True)
            if lost:
                print(text[-3000:], file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
