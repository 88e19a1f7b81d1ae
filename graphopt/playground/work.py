"""The work of `graphopt serve` for one request, in a process of its own: `python -m` runs it.

A request is JSON on standard input, with the files that were dropped as base64; the answer is JSON
on standard output. A typed program is text of the IR: no Python of a stranger runs. The process has
limits of memory, time and files, and leaves no file.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.utils.exceptions import DiagnosticException, ParseError

from graphopt.debug.compare import random_inputs
from graphopt.debug.program_source import Subject, subjects
from graphopt.display.units import shape
from graphopt.errors import GraphoptError
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import FEED, Port, inputs_of
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.reference import Unsupported, evaluate
from graphopt.report.page import page
from graphopt.report.stages import Other, optimization
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of

Request = Mapping[str, Any]
Answer = dict[str, Any]
MEMORY, SECONDS, WRITTEN = 6 << 30, 120, 1 << 30
"""The most bytes of memory, seconds of CPU time, and bytes of a written file."""
SUFFIXES = (".mlir", ".pdmodel", ".json", ".onnx")
BESIDE = (".pdiparams", ".pdiparams.info", ".pdparams")
ROWS = 3
"""The size of unknown dimensions in a run, unless another one is given."""
SHOWN = 24
"""The most numbers of an output that are shown."""
_OF_INPUT = (GraphoptError, ParseError, DiagnosticException, OSError, ValueError, TypeError)


def main() -> int:
    """Answer the request on standard input."""
    _limit()
    request = json.load(sys.stdin)
    try:
        with tempfile.TemporaryDirectory(prefix="graphopt-serve-") as folder:
            answer = ACTIONS[request["action"]](request, Path(folder))
    except (*_OF_INPUT, AttributeError, Unsupported) as error:
        answer = {"error": str(error).strip() or type(error).__name__}
    except RecursionError:
        answer = {"error": "the program is nested too deeply"}
    except MemoryError:
        answer = {"error": f"the program needs more than {MEMORY >> 30} GiB of memory"}
    json.dump(answer, sys.stdout)
    return 0


def _limit() -> None:
    """Limit the resources of this process, where the system can."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_FSIZE, WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def subject_of(request: Request, folder: Path) -> Subject:
    """Read the program of a request: typed text, or files of a model; ValueError for others."""
    folder.mkdir(exist_ok=True)
    files = request.get("files") or []
    if not files:
        return _of_text(str(request.get("text", "")))
    paths = [folder / _safe(each["name"]) for each in files]
    for path, each in zip(paths, files, strict=True):
        path.write_bytes(base64.b64decode(each["data"], validate=True))
    programs = [p for p in paths if p.suffix in SUFFIXES or p.name == "__model__"]
    if len(programs) != 1:
        raise ValueError(
            f"drop one program ({', '.join(SUFFIXES)} or __model__) and its parameter files, "
            f"if any; found {', '.join(p.name for p in paths)}"
        )
    if programs[0].suffix == ".mlir":
        return _of_text(programs[0].read_text("utf-8"))
    return subjects(str(programs[0]), [], plain=True)[0]


def _of_text(text: str) -> Subject:
    """Parse a program's text. Of a file that replays a crash, the passes are ignored."""
    module = parse_text(text, "program")
    module.verify()
    return Subject("program", module, {})


def _safe(name: str) -> str:
    """Replace a file name by one of safe characters, with a suffix that models have."""
    plain = re.sub(r"[^\w.-]", "_", Path(name).name)[-80:].lstrip(".-") or "program"
    if not plain.endswith((*SUFFIXES, *BESIDE)) and "." in plain:
        raise ValueError(f"{name}: the suffix should be one of {', '.join((*SUFFIXES, *BESIDE))}")
    return plain


def analyse(request: Request, folder: Path) -> Answer:
    """Build the report page of a program, its text without weights, and its inputs."""
    subject = subject_of(request, folder / "first")
    title = _title(request)
    context = pass_context_for(
        strategy_of(str(request.get("flags", ""))), str(request.get("platform", ""))
    )
    other = None
    if (second := request.get("against")) is not None:
        read = subject_of(second, folder / "second")
        other = Other(_title(second), read.module.clone, context)
    found = optimization(title, subject.module.clone, context, parts=subject.parts, other=other)
    return {
        "title": title,
        "page": page([found], title),
        "text": text_of(subject.module) + "\n",
        "inputs": [_describe_port(port) for port in inputs_of(subject.module) if port.kind == FEED],
    }


def _title(request: Request) -> str:
    files = request.get("files") or []
    names = [each["name"] for each in files if not each["name"].endswith(BESIDE)]
    return names[0] if names else "typed program"


def _describe_port(port: Port) -> Answer:
    sizes = ["?" if dim == UNKNOWN else dim for dim in shape_of(port.type)]
    return {"name": port.name, "dtype": f"{dtype_of(port.type)}", "shape": sizes}


def run(request: Request, folder: Path) -> Answer:
    """Run a program in NumPy on given inputs and random ones; return its outputs."""
    subject = subject_of(request, folder / "first")
    ports = {port.name: port for port in inputs_of(subject.module)}
    given: Mapping[str, Any] = request.get("inputs") or {}
    if unknown := given.keys() - ports.keys():
        raise ValueError(f"there is no input {min(unknown)!r}; inputs are {', '.join(ports)}")
    arrays = random_inputs(
        subject.module, int(request.get("seed", 0)), int(request.get("size") or ROWS)
    )
    arrays |= {name: np.asarray(array) for name, array in subject.known.items() if name in ports}
    for name, values in given.items():
        arrays[name] = np.asarray(values, dtype_of(ports[name].type).numpy)
    made_up = [name for name in ports if name not in subject.known and name not in given]
    found = evaluate(subject.module, arrays)
    return {
        "outputs": [_show_array(name, array) for name, array in found.items()],
        "random": made_up,
        "inputs": [
            _show_array(name, arrays[name]) for name, port in ports.items() if port.kind == FEED
        ],
    }


def _show_array(name: str, array: Any) -> Answer:
    values = np.asarray(array)
    flat: Sequence[Any] = values.reshape(-1)[:SHOWN].tolist()
    return {
        "name": name.partition(" ")[2] or name,
        "type": f"{values.dtype} {shape(values.shape)}",
        "values": [f"{each:.6g}" if isinstance(each, float) else str(each) for each in flat],
        "more": max(values.size - SHOWN, 0),
    }


ACTIONS = {"analyse": analyse, "run": run}

if __name__ == "__main__":
    sys.exit(main())
