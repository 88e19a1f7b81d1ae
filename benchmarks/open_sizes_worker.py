"""One process of open_sizes.py: exports models, and runs exported ones.

It runs under Paddle, and under `graphopt run`, where `import paddle` is graphopt. Each line of its
input is a request, the name of a function and its arguments in JSON. It prints the result after
`ANSWER`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Shapes = dict[str, tuple[str, list[int]]]

_predictors: dict[str, Any] = {}
_texts: list[str] = []
_reads_only: list[str] = []
SETTLING_RUNS = 3
# ops whose result shapes Paddle cannot infer, or not for the op alone
UNSIZED = ("feed", "fetch", "rnn", "while", "conditional_block")


class Read(Exception):
    """Raised once the text to compile is known, as no more is needed."""


def inputs() -> dict[str, Any]:
    """List the inputs of each network: a dtype and a shape by name, with None for open sizes."""
    from open_sizes_networks import NETWORKS

    return {name: network.inputs for name, network in NETWORKS.items()}


def export_network(name: str, folder: str, sizes: Sequence[Shapes | None]) -> list[str]:
    """Export a network of `open_sizes_networks.py` for each of `sizes`; None leaves sizes open."""
    import paddle
    from open_sizes_networks import NETWORKS

    network = NETWORKS[name]
    paddle.disable_static()
    paddle.seed(0)
    layer = network.build()
    layer.eval()
    paths: list[str] = []
    for number, shapes in enumerate(sizes):
        specs = [
            paddle.static.InputSpec(shapes[key][1] if shapes else size, dtype, key)
            for key, (dtype, size) in network.inputs.items()
        ]
        paths.append(f"{folder}/{number}")
        paddle.jit.save(layer, paths[-1], input_spec=specs)
    return paths


def export_model(prefix: str, folder: str, sizes: Sequence[Shapes | None]) -> list[str]:
    """Export a saved model again for each of `sizes`; None leaves its inputs unchanged."""
    import paddle
    from paddle import static

    paddle.enable_static()
    exe = static.Executor(paddle.CPUPlace())
    paths: list[str] = []
    for number, shapes in enumerate(sizes):
        with static.scope_guard(static.Scope()):
            program, feeds, fetches = static.load_inference_model(prefix, exe)
            variables = [program.global_block().var(name) for name in feeds]
            for variable in variables if shapes else ():
                variable.desc.set_shape(shapes[variable.name][1])
            for op in program.global_block().ops if shapes else ():
                if op.type not in UNSIZED:
                    op.desc.infer_shape(program.global_block().desc)
            paths.append(f"{folder}/{number}")
            static.save_inference_model(paths[-1], variables, fetches, exe, program=program)
    return paths


def load(key: str, path: str) -> None:
    """Create the predictor `key` of an exported model."""
    from paddle import inference

    config = inference.Config(f"{path}.pdmodel", f"{path}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(1)
    config.enable_mkldnn()
    _predictors[key] = inference.create_predictor(config)


def _step(key: str, shapes: Shapes) -> Callable[[], list[Any]]:
    """Return a function that runs a predictor on random arrays of these shapes."""
    generator = np.random.default_rng(0)
    feeds = {
        name: (
            generator.integers(0, 2, shape).astype(dtype)
            if "int" in dtype or dtype == "bool"
            else generator.standard_normal(shape).astype(dtype)
        )
        for name, (dtype, shape) in shapes.items()
    }
    predictor = _predictors[key]

    def run() -> list[Any]:
        for name in predictor.get_input_names():
            handle = predictor.get_input_handle(name)
            handle.reshape(feeds[name].shape)
            handle.copy_from_cpu(feeds[name])
        predictor.run()
        names = predictor.get_output_names()
        return [predictor.get_output_handle(name).copy_to_cpu() for name in names]

    return run


def begin(key: str, shapes: Shapes) -> list[float]:
    """Run until the compiled form is ready; return each result's mean of absolute values."""
    run = _step(key, shapes)
    for _ in range(SETTLING_RUNS):
        found = run()
    return [float(np.mean(np.abs(each.astype("float64")))) for each in found]


def forget() -> None:
    """Drop all predictors."""
    _predictors.clear()


def watch() -> None:
    """Keep a digest of each text that XLA compiles from now on."""
    from jax.stages import Lowered

    compile_text = Lowered.compile

    def compile_noted(lowered: Any, *options: Any, **named: Any) -> Any:
        _texts.append(hashlib.sha256(lowered.as_text().encode()).hexdigest())
        if _reads_only:
            raise Read
        return compile_text(lowered, *options, **named)

    Lowered.compile = compile_noted


def texts(key: str = "", shapes: Shapes | None = None) -> list[str]:
    """Return and forget the digests so far; for a predictor, of the texts of a first run."""
    if shapes is not None:
        _reads_only.append(key)
        with contextlib.suppress(Read):
            _step(key, shapes)()
        _reads_only.clear()
    found = list(_texts)
    _texts.clear()
    return found


def spend(key: str, shapes: Shapes, seconds: float) -> float:
    """Measure the CPU seconds of a run, the mean over `seconds` of runs."""
    run, runs = _step(key, shapes), 0
    began = time.process_time()
    while (spent := time.process_time() - began) < seconds:
        run()
        runs += 1
    return spent / runs


def main() -> None:
    """Answer one request after the other."""
    for line in sys.stdin:
        name, *given = json.loads(line)
        function: Callable[..., Any] = globals()[name]
        try:
            answer = {"found": function(*given)}
        except Exception as error:  # reported to the caller
            text = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {text[-1][:200]}"}
        print("ANSWER " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
