"""Saved models in other formats: the readers that compute the right numbers, and the node counts.

    python benchmarks/exports.py --models FOLDER
    python benchmarks/exports.py --openvino PYTHON --iree PYTHON --paddle2onnx PYTHON ...

graphopt, paddle2onnx and jax2onnx write each model of the folder (with `inputs.npz`, `outputs.npz`
and a program of Paddle 3 or 2), and each reader runs the files in its own process. A reader needs
the Python of an environment with it; its columns are left out without. Results count as equal at
1e-4 of Paddle's own. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
WORKER = HERE / "exports_worker.py"
MODELS = HERE.parent / "tests" / "data" / "models"
SECONDS = 600
EQUAL = "equal"


class Way(NamedTuple):
    """A column: the writer of a model, the format, the reader, and the reader's Python."""

    title: str
    writer: str
    suffix: str
    reader: str
    python: str


def ways(arguments: argparse.Namespace) -> list[Way]:
    """List the columns that have an interpreter."""
    own, openvino, iree = sys.executable, arguments.openvino, arguments.iree
    found = [
        Way("ONNX in ONNX Runtime", "graphopt", ".onnx", "onnxruntime", own),
        Way("ONNX in OpenVINO", "graphopt", ".onnx", "openvino", openvino),
        Way("pdmodel in OpenVINO", "graphopt", ".pdmodel", "openvino", openvino),
        Way("StableHLO in IREE", "graphopt", ".stablehlo", "iree", iree),
        Way("paddle2onnx", "paddle2onnx", ".onnx", "onnxruntime", arguments.paddle2onnx),
        Way("jax2onnx", "jax2onnx", ".onnx", "onnxruntime", arguments.jax2onnx),
    ]
    return [way for way in found if way.python]


def run(command: Sequence[Any], **environment: str) -> str:
    """Run a process; return the last line of its error, empty on success."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    if done.returncode < 0 or done.returncode == 134:
        return "abort"
    lines = [line for line in done.stderr.splitlines() if "rror" in line] or ["error"]
    return lines[-1].strip()[:90] if done.returncode else ""


def model_files(case: Path) -> tuple[Path, Path | None]:
    """Find the program, of Paddle 3 if there is one, and its parameters."""
    names = ("model.json", "model_pir_v3.json", "model.pdmodel")
    program = next(case / name for name in names if (case / name).exists())
    names = ("model.pdiparams",)
    if program.suffix == ".json":
        names = ("model_pir.pdiparams", *names)
    return program, next((case / name for name in names if (case / name).exists()), None)


def written(way: Way, case: Path, target: Path, inputs: dict[str, Any]) -> str:
    """Write a model; return the reason for a failure, empty on success."""
    program, params = model_files(case)
    if way.writer == "graphopt":
        import graphopt
        from graphopt.errors import GraphoptError

        model = graphopt.import_model(program, params)
        options: dict[str, Any] = {"reader": "openvino"} if way.suffix == ".pdmodel" else {}
        if way.suffix == ".stablehlo":
            options["sizes"] = {name: inputs[name].shape for name in model.feed_names}
        try:
            model.export(target, **options)
        except GraphoptError:
            return "refused"
        return ""
    if way.writer == "jax2onnx":
        tree = {"PYTHONPATH": str(HERE.parent)}
        return run([way.python, WORKER, "jax2onnx", program, case / "inputs.npz", target], **tree)
    tool = Path(way.python).with_name("paddle2onnx")
    names = ["--model_dir", case, "--model_filename", program.name, "--save_file", target]
    names += ["--params_filename", params.name] if params else []
    failed = run([tool, *names, "--opset_version", 19])
    return failed or ("" if target.exists() else "nothing written")


def nodes_of(path: Path) -> int:
    """Count the nodes of an ONNX model except constants, with the nodes of branches and loops."""
    import onnx

    def count(graph: Any) -> Iterator[int]:
        for node in graph.node:
            yield node.op_type != "Constant"
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield from count(attribute.g)

    return sum(count(onnx.load(path, load_external_data=False).graph))


def outcome(way: Way, case: Path, folder: Path) -> tuple[str, int]:
    """Write and run a model in one way; return the outcome and the number of nodes."""
    target = folder / f"{case.name}.{way.writer}{way.suffix}"
    with np.load(case / "inputs.npz") as file:
        inputs = {name: file[name] for name in file.files}
    if not target.exists() and (failed := written(way, case, target, inputs)):
        return failed, 0
    nodes = nodes_of(target) if way.suffix == ".onnx" else 0
    results = folder / f"{case.name}.npz"
    reader = sys.executable if way.reader == "onnxruntime" else way.python
    failed = run([reader, WORKER, way.reader, target, case / "inputs.npz", results])
    if failed:
        return failed, nodes
    own = case / "outputs_pir.npz"
    with np.load(own if own.exists() else case / "outputs.npz") as old, np.load(results) as new:
        return (EQUAL if same(new, old) else "other numbers"), nodes


def same(new: Any, old: Any) -> bool:
    """True for the same number of results, each near the one that Paddle recorded."""
    pairs = [(new[name], old[name]) for name in old.files if name in new.files]
    return len(pairs) == len(old.files) and all(
        a.size == b.size
        and np.allclose(a.reshape(b.shape), b, rtol=1e-4, atol=1e-5, equal_nan=True)
        for a, b in pairs
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=Path, default=MODELS, metavar="FOLDER")
    for name in ("openvino", "iree", "paddle2onnx", "jax2onnx"):
        parser.add_argument(f"--{name}", default="", metavar="PYTHON")
    arguments = parser.parse_args()
    columns = ways(arguments)
    print("| model |", " | ".join(way.title for way in columns), "|")
    print("|---" * (1 + len(columns)), "|", sep="")
    equal = [0] * len(columns)
    cases = sorted(path.parent for path in arguments.models.glob("infer_*/inputs.npz"))
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            cells: list[str] = []
            for at, way in enumerate(columns):
                found, nodes = outcome(way, case, Path(folder))
                equal[at] += found == EQUAL
                cells.append(f"{found}, {nodes} nodes" if nodes else found)
            print(f"| {case.name} |", " | ".join(cells), "|", flush=True)
    print("| equal |", " | ".join(f"{count} of {len(cases)}" for count in equal), "|")


if __name__ == "__main__":
    main()
