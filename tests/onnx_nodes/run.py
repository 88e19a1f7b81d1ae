"""`make onnx-nodes`: the node tests of the package onnx, including PyTorch's.

    python tests/onnx_nodes/run.py [--only TEXT] [--keep FILE]

Each test is a model of one node, or of the nodes that a function expands to, with inputs and
outputs. It passes, is refused by name, or is wrong. The findings are shown by operator in
`docs/reference/onnx-nodes.md`. With `--keep` each verdict is appended to a file, and tests with a
verdict in the file are not run again, so that an interrupted run can continue.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Each program runs once, so it is compiled quickly; JAX reads this when it is imported.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import numpy as np
import onnx
from onnx import numpy_helper

from graphopt.errors import UnsupportedError
from graphopt.models.model import read_model

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "onnx-nodes.md"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")

# What a test may differ by where it does not say more: half types round once or twice more.
RELATIVE = {"bfloat16": 2e-2, "float16": 3e-3}
ABSOLUTE = {"bfloat16": 1e-2, "float16": 1e-3, "float64": 1e-7, "float32": 1e-6}
# Their numbers are drawn: a test can say no more than the dtype and the shape.
RANDOM = ("test_bernoulli", "test_training_dropout", "test_randomuniformlike")
DRAWN_NOTHING = ("zero_ratio",)

# Operators that models for inference do not have: of training, of strings and of lists of tensors,
# of classical learning, of files of images, and those that ONNX itself calls a preview.
NOT_OF_INFERENCE = frozenset(
    (
        *("Adam", "Adagrad", "Momentum", "Gradient"),
        *("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"),
        *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
        *("SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"),
        *("Optional", "OptionalHasElement", "OptionalGetElement", "ImageDecoder"),
        *("ArrayFeatureExtractor", "Binarizer", "LabelEncoder", "TreeEnsemble", "FlexAttention"),
    )
)
NO_TYPE = "which graphopt has no type for"


@dataclass(frozen=True)
class Case:
    """A test: its kind, name, model, and inputs with their outputs."""

    kind: str
    name: str
    model: bytes
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Verdict:
    """The verdict on a test: "passed", "refused" or "wrong", and the reason."""

    outcome: str
    why: str = ""


def node_cases(only: str = "") -> Iterator[Case]:
    """Yield the node tests, which the package builds on demand."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for case in found:
        if only in case.name and case.model is not None:
            sets = case.data_sets or []
            model = case.model.SerializeToString()
            yield Case("node", case.name, model, sets, case.rtol, case.atol)


def stored_cases(kind: str, only: str = "") -> Iterator[Case]:
    """Yield the tests of a kind that the package stores as files."""
    for folder in sorted((DATA / kind).iterdir()):
        path = folder / "model.onnx"
        if only not in folder.name or not path.is_file():
            continue
        sets = []
        for data in sorted(folder.glob("test_data_set_*")):
            sets.append((_tensors(data, "input"), _tensors(data, "output")))
        yield Case(kind, folder.name, path.read_bytes(), sets, 1e-3, 1e-5)


def _tensors(folder: Path, side: str) -> list[Any]:
    found: list[Any] = []
    for number in range(len(list(folder.glob(f"{side}_*.pb")))):
        proto = onnx.TensorProto()
        proto.ParseFromString((folder / f"{side}_{number}.pb").read_bytes())
        found.append(proto)
    return found


def judge(case: Case) -> Verdict:
    """Read the model of a test, run it, and compare its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(case.model)
        try:
            model = read_model(path)
            for inputs, outputs in case.sets:
                found = model.run(dict(zip(model.feed_names, map(_array, inputs), strict=False)))
                wanted = [*map(_array, outputs)]
                problem = differ(case, found, wanted)
                if problem:
                    return Verdict("wrong", problem)
        except UnsupportedError as error:
            return Verdict("refused", str(error).replace(f"{path}: ", ""))
        except Exception as error:
            return Verdict("wrong", f"{type(error).__name__}: {error}")
    return Verdict("passed")


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def is_random(name: str) -> bool:
    """Return whether the outputs of a test are random."""
    return name.startswith(RANDOM) and not any(text in name for text in DRAWN_NOTHING)


def differ(case: Case, found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Describe the first difference from the results of a test; empty for equal results."""
    for new, old in zip(found, wanted, strict=True):
        new, old = np.asarray(new), np.asarray(old)
        if (new.dtype, new.shape) != (old.dtype, old.shape):
            return f"{new.dtype} {list(new.shape)} where {old.dtype} {list(old.shape)} is right"
        kind = str(old.dtype)
        if is_random(case.name):
            continue
        if old.dtype.kind not in "fcV" and kind != "bfloat16":
            if not np.array_equal(new, old):
                return "other numbers"
            continue
        rtol = max(case.rtol, RELATIVE.get(kind, 0.0))
        wide = np.complex128 if old.dtype.kind == "c" else np.float64
        largest = np.abs(old.astype(wide)[np.isfinite(old.astype(wide))]).max(initial=1)
        atol = max(case.atol, ABSOLUTE.get(kind, 0.0) * float(largest))
        if not np.allclose(new.astype(wide), old.astype(wide), rtol, atol, equal_nan=True):
            return "other numbers"
    return ""


def operator_of(case: Case) -> str:
    """Return the operator of a node test, empty for several; other tests have their kind."""
    nodes = onnx.load_model_from_string(case.model).graph.node
    types = list(dict.fromkeys(node.op_type for node in nodes if node.op_type != "Constant"))
    if case.kind != "node":
        return f"({case.kind})"
    if len(types) == 1 and "_expanded" not in case.name:
        return types[0]
    return ""


def named_operators(cases: Sequence[Case]) -> dict[str, str]:
    """Map each test to its operator; an expanded function counts as the function."""
    found = {case.name: operator_of(case) for case in cases}
    for name, operator in found.items():
        if not operator:
            found[name] = found.get(name.partition("_expanded")[0], "") or "(several)"
    return found


def table(verdicts: Mapping[str, Verdict], operators: Mapping[str, str]) -> list[str]:
    """Format the rows of the page: one for each operator, with the reasons of its refusals."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for name, verdict in verdicts.items():
        operator = operators[name]
        counts[operator][verdict.outcome] += 1
        if verdict.why:
            reasons[operator].setdefault(_reason(verdict.why))
    lines = ["| operator | passed | refused | wrong | why |", "|---|---|---|---|---|"]
    for operator in sorted(counts, key=str.lower):
        each = counts[operator]
        why = "; ".join([*reasons[operator]][:3])
        row = (each["passed"], each["refused"] or "", each["wrong"] or "", why)
        lines.append(f"| {operator} | {' | '.join(map(str, row))} |")
    return lines


def _reason(text: str) -> str:
    """Shorten the reason of a refusal to a few words."""
    if "has no translation" in text:
        return "no rule"
    if NO_TYPE in text:
        before = text.partition(f", {NO_TYPE}")[0].replace("graphopt has no type for", "")
        return f"no type {before.split()[-1]}"
    if "graphopt has no type for" in text:
        return f"no type {text.partition('no type for ')[2].partition(';')[0]}"
    return text.partition(" [operator")[0].partition("\n")[0].replace("|", "/")[:110]


def shares(
    verdicts: Mapping[str, Verdict], operators: Mapping[str, str]
) -> list[tuple[str, Counter[str]]]:
    """Count the outcomes, for all tests and for operators of inference."""
    groups: dict[str, list[str]] = {"all tests": list(verdicts)}
    of_inference = [name for name in verdicts if operators[name] not in NOT_OF_INFERENCE]
    groups["of operators that inference models use"] = of_inference
    groups["of these, with types that the dialect has"] = [
        name for name in of_inference if not _lacks_type(verdicts[name])
    ]
    return [(what, Counter(verdicts[n].outcome for n in names)) for what, names in groups.items()]


def _lacks_type(verdict: Verdict) -> bool:
    return "graphopt has no type for" in verdict.why


def write_page(verdicts: Mapping[str, Verdict], operators: Mapping[str, str]) -> None:
    """Write the page of the findings."""
    summary = ["| | passed | refused | wrong | passed, % |", "|---|---|---|---|---|"]
    for what, counts in shares(verdicts, operators):
        total = sum(counts.values())
        row = (counts["passed"], counts["refused"], counts["wrong"])
        share = 100 * counts["passed"] / max(total, 1)
        summary.append(f"| {what} | {' | '.join(map(str, row))} | {share:.1f} |")
    lines = [
        "# ONNX's own tests of nodes",
        "",
        f"`make onnx-nodes` runs the tests of the package onnx {onnx.__version__}: its node tests,",
        "also with functions expanded to their nodes, and its tests of PyTorch's operators. A test",
        "is refused if graphopt names the feature that it lacks. It is wrong if numbers, types or",
        "shapes differ, or if anything else is raised.",
        "",
        *summary,
        "",
        "The second row leaves out operators of training, of strings, of lists of tensors, of",
        "classical learning and of image files, and operators that ONNX marks as a preview. The",
        "dialect has no type for text, nor for lists of tensors and optional values as feeds or",
        "fetches. Of random numbers the tests compare only the dtype and the shape.",
        "",
        *table(verdicts, operators),
    ]
    PAGE.write_text("\n".join(lines) + "\n")


def read_verdicts(file: Path) -> dict[str, Verdict]:
    """Read the verdicts that a run wrote to a file, by test name."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {name: Verdict(outcome, why) for name, outcome, why in rows}


def main(arguments: Sequence[str]) -> int:
    """Run the tests; with `--only` no page is written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="the tests that have this text in their names")
    parser.add_argument(
        "--keep", type=Path, help="a file of verdicts: add to it, and go on from it"
    )
    options = parser.parse_args(arguments)
    only, kept = options.only, options.keep
    cases = [*node_cases(only)]
    for kind in KINDS[1:]:
        cases += stored_cases(kind, only)
    verdicts = read_verdicts(kept) if kept is not None and kept.exists() else {}
    for number, case in enumerate(cases):
        if case.name in verdicts:
            continue
        verdicts[case.name] = verdict = judge(case)
        if kept is not None:
            with kept.open("a") as file:
                print(json.dumps([case.name, verdict.outcome, verdict.why]), file=file)
        if verdict.outcome == "wrong" or only:
            print(f"{case.name}: {verdict.outcome} {verdict.why[:300]}", flush=True)
        elif number % 200 == 199:
            print(f"{number + 1} of {len(cases)}", flush=True)
    operators = named_operators(cases)
    for what, counts in shares(verdicts, operators):
        print(what, dict(counts))
    if not only:
        write_page(verdicts, operators)
    return 1 if any(verdict.outcome == "wrong" for verdict in verdicts.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
