"""Operators that a script appends by type without optional attributes, against Paddle 2.6.2."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir import operators as package
from graphopt_tests.ir.operator_cases import MOST, cases

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "operator_defaults.jsonl"
RECORDED = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
TABLE = Path(package.__file__).with_name("operators.txt")
PADDLE = os.environ.get("GRAPHOPT_PADDLE_PYTHON", "")
with_paddle = pytest.mark.skipif(not PADDLE, reason="GRAPHOPT_PADDLE_PYTHON names no Python")


def computed(case: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Compute the case's operator with graphopt."""
    program, feeds = static.Program(), dict[str, Any]()
    block = program.global_block()
    inputs: dict[str, list[Any]] = {}
    for slot, arrays in case["inputs"].items():
        for at, array in enumerate(arrays):
            value = np.array(array["values"], array["dtype"]).reshape(array["shape"])
            feeds[name := f"{slot}_{at}"] = value
            made = block.create_var(name, value.shape, array["dtype"], is_data=True)
            inputs.setdefault(slot, []).append(made)
    outputs = {
        slot: [block.create_var(f"out_{slot}_{at}") for at in range(count)]
        for slot, count in case["outputs"].items()
    }
    with static.program_guard(program, static.Program()):
        block.append_op(case["type"], inputs, outputs, case["attrs"])
    names = list(case["results"])
    found = static.Executor(paddle.CPUPlace()).run(program, feeds, names)
    return dict(zip(names, found, strict=True))


@pytest.mark.every(3)
@pytest.mark.parametrize("case", RECORDED, ids=[case["type"] for case in RECORDED])
def test_an_operator_without_optional_attributes(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy, which compiles nothing, computes Paddle's numbers."""
    monkeypatch.setenv("FLAGS_graphopt_tier", "host")
    paddle.enable_static()
    for name, array in computed(case).items():
        wanted = case["results"][name]
        values = np.array(wanted["values"], wanted["dtype"]).reshape(wanted["shape"])
        np.testing.assert_allclose(array, values, 2e-5, 2e-5, err_msg=name)


@with_paddle
def test_paddle_declares_what_the_table_says(tmp_path: Path) -> None:
    """Paddle declares the slots, attributes, kinds and defaults of the table."""
    copy = tmp_path / TABLE.name
    shutil.copy(TABLE, copy)
    subprocess.run([PADDLE, str(HERE / "record_operators.py"), str(copy)], check=True)
    assert copy.read_text("utf-8") == TABLE.read_text("utf-8")


@with_paddle
def test_paddle_computes_what_is_recorded() -> None:
    """Paddle gives the recorded results; new records replace them, and refusals are printed."""
    given = "".join(json.dumps(case) + "\n" for case in cases())
    script = [PADDLE, str(HERE / "run_in_paddle.py")]
    said = subprocess.run(script, input=given, stdout=subprocess.PIPE, text=True, check=True)
    kept: list[str] = []
    for line in said.stdout.splitlines():
        case = json.loads(line)
        if "error" in case:
            print(case["type"], case["error"])
        elif all(len(result["values"]) <= MOST for result in case["results"].values()):
            kept.append(line)
    before = DATA.read_text("utf-8")
    DATA.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    print(f"{len(kept)} of {given.count(chr(10))} cases recorded")
    assert DATA.read_text("utf-8") == before, "the records are others; read the diff"
