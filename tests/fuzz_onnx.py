"""Writes generated programs as ONNX, reads them again, and compares the numbers.

    python tests/fuzz_onnx.py [COUNT] [SEED] [--onnxruntime]

`make fuzz` runs it. Each program is written unchanged and optimized, and graphopt reads and runs
the
files; with `--onnxruntime` ONNX Runtime runs them, too. The reference interpreter computes the
expected numbers. The programs of one seed are always the same. A program with an operator that ONNX
lacks is counted, and is no failure. The exit status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parent
APART = 1_000_000
"""The numbers between the first programs of two seeds."""
ALIKE = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-4, "float64": 1e-6}
"""How far results may be apart, relative to the largest number, by the least exact dtype."""
Results = Mapping[str, Any]


def load_settings() -> None:
    """Load the tests' `conftest.py`: JAX's settings and the name `graphopt_tests`."""
    spec = importlib.util.spec_from_file_location("graphopt_conftest", TESTS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    if "graphopt_tests" not in sys.modules:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def inference_part(module: Any) -> Any:
    """Copy the program with dropout and statistics as after training, and without state updates."""
    from graphopt.ir.dialect.op import PdOp
    from graphopt.ir.dialect.signature import FETCH, main_function, signature_of
    from graphopt.ir.dialect.signature_edit import edit_signature
    from graphopt.passes.engine.rewrite import with_attrs

    made = module.clone()
    for op in list(made.walk()):
        if isinstance(op, PdOp) and op.attr_values().get("is_test") is False:
            new = with_attrs(op, {"is_test": True})
            for old, value in zip(op.results, new.results, strict=True):
                value.name_hint = old.name_hint
                old.replace_all_uses_with(value)
            assert op.parent is not None
            op.parent.insert_op_before(new, op)
            op.detach()
    ports = signature_of(made).results
    with edit_signature(main_function(made)) as edit:
        edit.keep_results([at for at, port in enumerate(ports) if port.kind == FETCH])
    made.verify()
    return made


def written(module: Any, inputs: Results) -> bytes:
    """Write the program as ONNX, with its state inputs as parameters."""
    import onnx_ir

    from graphopt.ir.dialect.signature import FEED, signature_of
    from graphopt.models.export.onnx.graph import graph_of

    ports = signature_of(module).arguments
    state = {port.name: inputs[port.name] for port in ports if port.kind != FEED}
    feeds = [port for port in ports if port.kind == FEED]
    return onnx_ir.to_proto(graph_of(module, state, feeds, 20)).SerializeToString()


def by_graphopt(data: bytes, inputs: Results) -> list[Any]:
    """Read the file with graphopt, and run it."""
    from graphopt.models.model import read_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(data)
        model = read_model(path)
        found = model.run({name: inputs[name] for name in model.feed_names})
    return [np.asarray(each) for each in found]


def by_onnxruntime(data: bytes, inputs: Results) -> list[Any] | None:
    """Run the file in ONNX Runtime; return None where it has no kernel for a dtype."""
    import onnxruntime

    if any(array.dtype.name == "bfloat16" for array in inputs.values()):
        return None  # its Python has no arrays of them
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            return None
        raise
    return session.run(None, {port.name: inputs[port.name] for port in session.get_inputs()})


class Fuzzer:
    """A fuzzer that tries one program after another and counts the outcomes."""

    def __init__(self, *, onnxruntime: bool = False) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.readers: dict[str, Callable[[bytes, Results], list[Any] | None]] = {}
        self.readers["graphopt"] = by_graphopt
        if onnxruntime:
            self.readers["ONNX Runtime"] = by_onnxruntime

    def try_program(self, generated: Any, number: int) -> None:
        """Write and compare one program, both unchanged and optimized."""
        from graphopt_tests.proof import judge
        from graphopt_tests.proof.transforms import everything

        module = inference_part(generated.module)
        inputs = judge.inputs_of(module)
        try:
            wanted = judge.results(module, inputs, "declared")
        except judge.Unknown as error:
            self.outcomes[f"not known: {error}"] += 1
            return
        for name, transform in {"as it is": None, **everything()}.items():
            changed = module.clone()
            if transform is not None:
                transform(changed)
            notes = ", ".join((*generated.notes, name))
            self._try(changed, inputs, wanted, f"program {number} ({notes})")

    def _try(self, module: Any, inputs: Results, wanted: Results, title: str) -> None:
        from graphopt.errors import UnsupportedError

        reader = "the writer"
        try:
            try:
                data = written(module, inputs)
            except UnsupportedError as error:
                for line in str(error).splitlines()[1:-1]:
                    self.outcomes[f"refused: {line.partition('(')[0].strip()}"] += 1
                return
            self.outcomes["written"] += 1
            for reader, run_by in self.readers.items():
                found = run_by(data, inputs)
                wrong = "" if found is None else difference(wanted, found)
                assert not wrong, wrong
                self.outcomes[f"{'no kernels' if found is None else 'equal'} in {reader}"] += 1
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            self.failures.append(
                f"{title}, {reader}: {type(error).__name__}: {error} ({place})\n{module}"
            )


def difference(wanted: Results, found: Sequence[Any]) -> str:
    """Describe the difference of two sets of results in a sentence; return "" if they agree."""
    from graphopt_tests.proof import judge

    named = dict(zip(wanted, found, strict=True))
    kinds = {array.dtype.name for array in wanted.values()} & ALIKE.keys()
    return judge.difference(wanted, named, max((ALIKE[kind] for kind in kinds), default=0.0))


def run(count: int, seed: int = 0, *, onnxruntime: bool = False) -> Fuzzer:
    """Try the first `count` programs of a seed, and return the fuzzer with its outcomes."""
    from graphopt.testing.mutations import TWISTS
    from graphopt_tests.proof.corpus import all_patterns, collect

    fuzzer = Fuzzer(onnxruntime=onnxruntime)
    twists = [twist for twist in TWISTS if twist != "differentiate"]
    first = seed * APART
    made = collect(all_patterns(), count, first, twists, inference=True)
    for number, generated in enumerate(made):
        fuzzer.try_program(generated, first + number)
    return fuzzer


def main() -> int:
    """Try the programs, and print the outcomes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--onnxruntime", action="store_true")
    arguments = parser.parse_args()
    load_settings()
    fuzzer = run(arguments.count, arguments.seed, onnxruntime=arguments.onnxruntime)
    for outcome, times in sorted(fuzzer.outcomes.items()):
        print(f"{times:8} {outcome}")
    for failure in fuzzer.failures[:10]:
        print(f"\n{failure}")
    print(f"{len(fuzzer.failures)} failures of {arguments.count} programs")
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
