"""Runs single operators in an installed Paddle: reads cases from standard input, prints results.

A case is a line of JSON as in `tests/data/operator_defaults.jsonl`, without results. Each runs in a
process of its own, because some operators end the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

SECONDS = 30


def main() -> None:
    """Print each case with its results, or with the error."""
    import paddle  # pyright: ignore[reportMissingImports]

    paddle.enable_static()
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps({**case, **_apart(paddle, case)}), flush=True)


def _apart(paddle: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Call `_run` in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w") as file:
            file.write(json.dumps(_run(paddle, case)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"error": "the process ended"}


def _run(paddle: Any, case: dict[str, Any]) -> dict[str, Any]:
    static = paddle.static
    program = static.Program()
    try:
        with static.program_guard(program, static.Program()):
            block, feeds = program.global_block(), {}
            inputs: dict[str, list[Any]] = {}
            for slot, arrays in case["inputs"].items():
                for at, array in enumerate(arrays):
                    value = np.array(array["values"], array["dtype"]).reshape(array["shape"])
                    feeds[f"{slot}_{at}"] = value
                    made = block.create_var(
                        name=f"{slot}_{at}", shape=value.shape, dtype=array["dtype"], is_data=True
                    )
                    made.desc.set_need_check_feed(False)
                    inputs.setdefault(slot, []).append(made)
            outputs = {
                slot: [
                    block.create_var(name=f"out_{slot}_{at}", dtype="float32") for at in range(n)
                ]
                for slot, n in case["outputs"].items()
            }
            block.append_op(type=case["type"], inputs=inputs, outputs=outputs, attrs=case["attrs"])
        made = [each for group in outputs.values() for each in group]
        wanted = [each for each in made if each.name not in case["skip"]]
        exe = static.Executor(paddle.CPUPlace())
        found = exe.run(program, feeds, wanted, return_numpy=False)
        results = {v.name: _listed(np.array(f)) for v, f in zip(wanted, found, strict=True)}
        # what no kernel wrote is an empty tensor of no type
        results = {n: r for n, r in results.items() if (r["dtype"], r["shape"]) != ("float64", [0])}
        return {"results": results} if results else {"error": "nothing was computed"}
    except Exception as error:
        return {"error": str(error).strip().splitlines()[-1][:120]}


def _listed(array: Any) -> dict[str, Any]:
    values = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        values = [float(f"{value:.7g}") for value in values]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values}


if __name__ == "__main__":
    main()
