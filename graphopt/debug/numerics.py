"""`graphopt-opt --numerics`: the distance by which each pass moves the results, on the user's data.

The passes run one after the other. After each that changes the program, the program is compiled and
run as usual, and its results are compared with the results before the pass ("unfused") and with the
results of the original program in the reference interpreter, which computes in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.display.table import table
from graphopt.display.units import several
from graphopt.errors import FeedError
from graphopt.ir.dialect.signature import STATE, Port, main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of, show
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import PassRun

Array = np.ndarray[Any, Any]
Results = Mapping[str, Array]
SCHEMA = 1


@dataclass(frozen=True)
class Error:
    """The largest differences between two runs, and the result with the largest relative one.

    `rel` is relative to the largest element of a result, `ulp` in units in the last place of the
    element. A number that is finite in one run only is infinitely far off.
    """

    abs: float
    rel: float
    ulp: float
    result: str

    def __str__(self) -> str:
        return f"{self.abs:.2g} / {self.rel:.2g} / {self.ulp:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {"abs": self.abs, "rel": self.rel, "ulp": self.ulp, "result": self.result}


@dataclass(frozen=True)
class Moved:
    """The effect of one pass on the numbers. `float64` is None without a reference."""

    pass_name: str
    claim: str
    times: int
    float64: Error | None
    unfused: Error
    switched_off: bool = False


@dataclass(frozen=True)
class PassEffects:
    """The effects of all passes, in order; `unfused` is the original program against float64."""

    data: str
    unfused: Error | None
    passes: tuple[Moved, ...]
    notes: tuple[str, ...] = ()

    @property
    def switched_off(self) -> frozenset[str]:
        """The passes that moved results by more than the budget."""
        return frozenset(moved.pass_name for moved in self.passes if moved.switched_off)

    def text(self) -> str:
        """Format a table; each cell has the largest absolute, relative and ulp error."""
        rows = [("(no pass)", "", "", _cell(self.unfused), "")]
        rows += [
            (
                moved.pass_name,
                moved.claim,
                str(moved.times),
                _cell(moved.float64),
                str(moved.unfused) + (", switched off" if moved.switched_off else ""),
            )
            for moved in self.passes
        ]
        head = ("pass", "claims", "rewrites", "against float64", "against the program before")
        lines = [f"numerics on {self.data}: largest abs / rel / ulp error of all results"]
        return "\n".join([*lines, table(head, rows), *self.notes])

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "schema": SCHEMA,
            "data": self.data,
            "notes": list(self.notes),
            "original": self.unfused.to_json() if self.unfused else None,
            "passes": [
                {
                    "pass": moved.pass_name,
                    "claims": moved.claim,
                    "times": moved.times,
                    "float64": moved.float64.to_json() if moved.float64 else None,
                    "unfused": moved.unfused.to_json(),
                    "switched_off": moved.switched_off,
                }
                for moved in self.passes
            ],
        }


def _cell(error: Error | None) -> str:
    return "-" if error is None else str(error)


def measure(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    inputs: Mapping[str, Array],
    *,
    data: str = "the data given",
    budget: float | None = None,
    context: Context | None = None,
) -> PassEffects:
    """Measure how far each pass moves the results of a module, which is not changed.

    `inputs` are feeds and state by name. A pass whose `rel` against the program before it exceeds
    the `budget` is switched off: later ones are measured without it.
    """
    from graphopt.debug.compare import run_module

    exact, notes = _in_float64(module, inputs)
    base = module.clone()
    results = run_module(base, inputs)
    original = error_of(results, exact)
    notes += [
        f"all elements of {name} are NaN, so it cannot be compared: give other data"
        for name, array in results.items()
        if array.size and array.dtype.kind not in "biuc" and np.isnan(array.astype(float)).all()
    ]
    moved: list[Moved] = []
    for made in passes:
        trial = base.clone()
        run = PassRun(trial, PassContext({}))
        run.one("", made, context)
        if trial.is_structurally_equivalent(base):
            continue
        found = run_module(trial, inputs)
        error = error_of(found, results)
        assert error is not None
        off = budget is not None and not error.rel <= budget
        numerics = getattr(made, "numerics", None)
        claim = numerics.value if numerics is not None else "nothing"
        times = sum(run.report.times(ran) for ran in run.report.ran)
        moved.append(Moved(made.name, claim, times, error_of(found, exact), error, off))
        if not off:
            base, results = trial, found
    return PassEffects(data, original, tuple(moved), tuple(notes))


def _in_float64(module: ModuleOp, inputs: Mapping[str, Array]) -> tuple[Results | None, list[str]]:
    """Compute the results in the interpreter; None with a note where it cannot."""
    from graphopt.reference import Unsupported, evaluate, is_random

    for op in module.walk():
        if is_random(op):
            return None, [f"not compared with float64: {op.name} draws random numbers"]
    try:
        return evaluate(module, inputs, precision="float64"), []
    except Unsupported as error:
        return None, [f"not compared with float64: {error}"]


def error_of(found: Results, wanted: Results | None) -> Error | None:
    """Find the largest errors of real results; None without expected results."""
    if wanted is None:
        return None
    worst = Error(0.0, 0.0, 0.0, "")
    for name, array in found.items():
        other = wanted[name]
        if array.dtype.kind in "biu":
            worst = _join_errors(worst, _integer_error(array != other, name))
        elif array.dtype.kind != "c":
            worst = _join_errors(worst, _difference(array, other, name))
    return worst


def _join_errors(a: Error, b: Error) -> Error:
    larger = b if b.rel > a.rel or (not a.result and b.abs) else a
    return Error(max(a.abs, b.abs), max(a.rel, b.rel), max(a.ulp, b.ulp), larger.result)


def _integer_error(wrong: Array, name: str) -> Error:
    """Compute the error of integers: one that differs counts as infinitely far off."""
    if not wrong.any():
        return Error(0.0, 0.0, 0.0, "")
    return Error(1.0, 1.0, np.inf, name)


def _difference(array: Array, other: Array, name: str) -> Error:
    found, wanted = array.astype(np.float64), other.astype(np.float64)
    alike = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        distance = np.where(alike, 0.0, np.abs(found - wanted))
    distance = np.where(np.isnan(distance), np.inf, distance)
    if not distance.any():
        return Error(0.0, 0.0, 0.0, "")
    largest = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    limits = ml_dtypes.finfo(array.dtype)
    size = np.where(np.isfinite(wanted), np.abs(wanted), 0.0)
    exponent = np.floor(np.log2(np.maximum(size, float(limits.smallest_normal))))
    with np.errstate(divide="ignore"):
        return Error(
            float(distance.max()),
            float(np.divide(distance.max(), largest)),
            float(np.max(distance / (np.exp2(exponent) * float(limits.eps)))),
            name,
        )


# Inputs ---------------------------------------------------------------------------------------


def inputs_for(module: ModuleOp, file: str | None, seed: int = 0) -> tuple[dict[str, Array], str]:
    """Read feeds and state from an npz file, draw the rest at random, and describe the data.

    Raises FeedError for a name that the program does not have, or another dtype or shape than it
    declares; OSError and ValueError for a file that cannot be read.
    """
    given = _read(Path(file)) if file else {}
    ports = {port.name: port for port in signature_of(module).arguments}
    unknown = set(given) - ports.keys()
    if unknown:
        raise FeedError(
            f"{file} contains '{min(unknown)}', which is no input of the program; "
            f"inputs are {', '.join(sorted(ports))}"
        )
    found = {name: _fitting(ports[name], array) for name, array in given.items()}
    return _complete_inputs(module, found, seed), _describe_data(file, len(ports) - len(found))


def _describe_data(file: str | None, missing: int) -> str:
    if file is None:
        return "random data"
    return f"{file} and random data for {several(missing, 'input')}" if missing else file


def _complete_inputs(module: ModuleOp, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Draw missing inputs at random; unknown dimensions get a size of the given inputs."""
    from graphopt.debug.compare import random_inputs
    from graphopt.reference.boundary import as_used

    sizes = [
        size
        for port in signature_of(module).arguments
        if port.name in given
        for dim, size in zip(shape_of(port.type), given[port.name].shape, strict=True)
        if dim == UNKNOWN
    ]
    found = random_inputs(module, seed, sizes[0] if sizes else 3)
    block = main_function(module).body.block
    for value, port in zip(block.args, signature_of(module).arguments, strict=True):
        array = found[port.name]
        if port.kind == STATE and array.ndim > 1 and dtype_of(port.type).is_floating:
            # scale weights as initializers do, so that a deep network's values stay in range
            into = math.prod(array.shape[1:]) if array.ndim > 2 else array.shape[0]
            array = (array / np.sqrt(max(into, 1))).astype(array.dtype)
        found[port.name] = as_used(value, array)
    return {**found, **given}


def _read(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _fitting(port: Port, array: Array) -> Array:
    dtype = dtype_of(port.type).numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)  # NumPy's files cannot name bfloat16
    declared = shape_of(port.type)
    fits = len(declared) == array.ndim and all(
        want in (UNKNOWN, have) for want, have in zip(declared, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise FeedError(
            f"'{port.name}' should be {show(port.type)}, found {list(array.shape)} {array.dtype}"
        )
    return array


def lines(numbers: PassEffects) -> Iterator[str]:
    """Yield a line for each pass that was switched off."""
    for moved in numbers.passes:
        if moved.switched_off:
            yield (
                f"{moved.pass_name} is switched off: the pass changes {moved.unfused.result} by "
                f"{moved.unfused.rel:.2g} of its largest element"
            )
