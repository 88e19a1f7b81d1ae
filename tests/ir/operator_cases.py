"""Operators with only the attributes that Paddle requires, to run in Paddle and here.

Operands come from the samples of ops and from the operators of saved programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphopt.ir.dialect.definition import default_attrs, definition
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.operators import OperatorRow, operators
from graphopt.ir.translate.operators.table import BY_TYPE, DialectRow
from graphopt_tests.ir.test_ops import SAMPLES
from graphopt_tests.ir.test_saved_types import CASES, Case, listed
from graphopt_tests.op_calls import build, groups_of
from graphopt_tests.ops.base import Sample

# the most elements of an operand and of a result
MOST = 128
_DTYPES = ("float32", "float64", "int32", "int64", "bool")

DIFFERENT = {
    "empty": "its memory has no meaning",
    "hierarchical_sigmoid": "weights that do not fit the default of two classes are refused",
    "polygamma": "of order 0 it is the digamma function; Paddle gives -inf",
}
"""Operators that are not compared, and why."""

_IMAGE = np.zeros((1, 2, 2, 2), "float32")
_ROWS = np.arange(6, dtype="float32").reshape(2, 3)
_SCALES = {"Scale": np.float32([2, 4]), "ZeroPoint": np.float32([0, 0])}
_VARIANCES = [0.1, 0.1, 0.2, 0.2]
MORE = [
    Case(
        *("prior_box", {"Input": _IMAGE, "Image": _IMAGE}, {"Boxes": _IMAGE, "Variances": _IMAGE}),
        {"min_sizes": [1.5], "aspect_ratios": [2.0], "variances": _VARIANCES},
    ),
    Case(
        "density_prior_box",
        {"Input": _IMAGE, "Image": _IMAGE},
        {"Boxes": _IMAGE, "Variances": _IMAGE},
        {
            "variances": _VARIANCES,
            "densities": [2],
            "fixed_sizes": [1.5],
            "fixed_ratios": [1.0],
        },
    ),
    Case(
        *("fused_elemwise_add_activation", {"X": _ROWS, "Y": _ROWS}, {"Out": _ROWS}),
        {"functor_list": ["elementwise_add", "scale"]},
    ),
    Case("quantize_linear", {"X": _ROWS, **_SCALES}, {"Y": _ROWS}, {}),
    Case("dequantize_linear", {"X": _ROWS, **_SCALES}, {"Y": _ROWS}, {}),
    Case("lrn", {"X": _IMAGE + 1}, {"Out": _IMAGE}, {}),
    Case("sequence_mask", {"X": np.int64([1, 3])}, {"Y": _ROWS}, {"out_dtype": 3}),
    Case(
        "log_loss",
        {"Predicted": _ROWS[:, :1] / 9 + 0.1, "Labels": _ROWS[:, :1] / 9},
        {"Loss": 0},
        {"epsilon": 1e-4},
    ),
    Case("label_smooth", {"X": _ROWS}, {"Out": _ROWS}, {}),
    Case("hard_swish", {"X": _ROWS - 2}, {"Out": _ROWS}, {}),
    Case("soft_relu", {"X": _ROWS * 20 - 50}, {"Out": _ROWS}, {}),
    Case(
        "huber_loss",
        {"X": _ROWS[:, :1], "Y": _ROWS[:, 1:2] * 2},
        {"Out": _ROWS, "Residual": _ROWS},
        {"delta": 1.0},
    ),
    Case("matmul", {"X": _ROWS, "Y": _ROWS.T}, {"Out": _ROWS}, {}),
    Case("mul", {"X": _ROWS, "Y": _ROWS.T}, {"Out": _ROWS}, {}),
    Case("reduce_mean", {"X": _ROWS}, {"Out": _ROWS}, {}),
]
"""Further operators, with all attributes that their cases state."""


def cases() -> Iterator[dict[str, Any]]:
    """Yield one case of each operator that has operands to try."""
    saved = {case.values[0].type: case.values[0] for case in CASES}
    more = {case.type: case for case in MORE}
    for type, row in operators().items():
        if row.only or type in DIFFERENT:
            continue
        if type in more:
            made = _of_slots(row, *more[type][1:])
            assert made is not None, f"{type} needs other attributes"
            made["attrs"] = more[type].attrs
        elif type in saved:
            made = _of_slots(row, *saved[type][1:])
        elif type in BY_TYPE:
            each = (_of_sample(row, BY_TYPE[type], s) for s in SAMPLES.get(BY_TYPE[type].op, ()))
            made = next((case for case in each if case is not None), None)
        else:
            made = None
        if made is not None:
            yield made


def _of_sample(row: OperatorRow, own: DialectRow, sample: Sample) -> dict[str, Any] | None:
    """Build the case with a sample's operands; the op gives the number of results."""
    inputs = dict(zip(own.inputs, groups_of(sample), strict=False))
    results, op = definition(own.op).results, build(own.op, sample)[1]
    names = {result for result, _ in results}
    counts = dict.fromkeys(own.outputs, 1)
    if len(own.outputs) == 1:
        counts[own.outputs[0]] = len(op.results) if len(names) == 1 else 1
    stated = {**default_attrs(own.op), **sample.attrs}
    attrs = {own.renamed.get(name, name): value for name, value in stated.items()}
    return None if issubclass(own.op, RandomOp) else _case(row, inputs, counts, attrs)


def _of_slots(
    row: OperatorRow,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> dict[str, Any] | None:
    given = {slot: listed(arrays) for slot, arrays in inputs.items()}
    counts = {slot: len(listed(arrays)) for slot, arrays in outputs.items()}
    return _case(row, given, counts, attrs)


def _case(
    row: OperatorRow,
    inputs: Mapping[str, list[Any]],
    counts: dict[str, int],
    attrs: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Build the case, or return None.

    It is None if an operand is large or of another dtype, or if a required attribute is unknown.
    """
    arrays = [array for group in inputs.values() for array in group]
    if any(a.size > MOST or str(a.dtype) not in _DTYPES for a in arrays):
        return None
    required = [n for n, a in row.attributes.items() if a.kind and a.stated is None]
    if any(name not in attrs for name in required):
        return None
    counts = {slot: count for slot, count in counts.items() if slot in row.slots[1]}
    compared = list(counts)
    for slot in row.marked_slots[1]:
        if "*" not in slot:
            counts.setdefault(slot.rstrip("?"), 1)
    return {
        "type": row.type,
        "inputs": {slot: [written(a) for a in group] for slot, group in inputs.items() if group},
        "attrs": {name: _value(attrs[name]) for name in required},
        "outputs": counts,
        "skip": sorted(f"out_{slot}_0" for slot in counts.keys() - set(compared)),
    }


def _value(value: Any) -> Any:
    if isinstance(value, str) and value in _DTYPES:
        return as_dtype(value).code
    return list(value) if isinstance(value, tuple) else value


def written(array: Any) -> dict[str, Any]:
    """Encode an array as `run_in_paddle` writes results."""
    values = np.asarray(array).reshape(-1).tolist()
    if array.dtype.kind == "f":
        values = [float(f"{value:.7g}") for value in values]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values}
