"""PIR operators with another form in legacy: constants, flags, text, outputs with shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.attributes import dtype_code
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.registry import imports
from graphopt.ir.formats.pir.rows import base_name, row_of
from graphopt.ir.formats.pir_json.records import PirOp, PirType
from graphopt.ir.program import Operator

# Constants -------------------------------------------------------------------------------------


def _constant(importer: Importer, op: PirOp, type_: str, attrs: Mapping[str, Any]) -> None:
    """Emit an operator without operands, dropped later if its value became an attribute."""
    importer.same_names(op)
    names = importer.results(op)
    made = importer.emit(type_, {}, {"Out": names}, attrs, source=op)
    importer.constant_ops.append(made)


@imports("pd_op.full")
def full(importer: Importer, op: PirOp) -> None:
    """Import `full` with `str_value`, which is exact where a saved `value` has 32 bits."""
    code, value = dtype_code(str(op.attribute("dtype"))), op.attribute("value")
    if code is None or isinstance(value, complex) or not isinstance(value, int | float):
        importer.opaque(op)
        return
    whole = "int" in as_dtype(code).lower() if code >= 0 else False
    text = str(int(value)) if whole and value == value and abs(value) < 2**63 else str(float(value))
    attrs = {
        "shape": op.attribute("shape", []),
        "dtype": code,
        "value": float(value),
        "str_value": text,
        "force_cpu": False,
    }
    _constant(importer, op, "fill_constant", attrs)


@imports("pd_op.full_int_array")
def full_int_array(importer: Importer, op: PirOp) -> None:
    values = op.attribute("value", [])
    code = dtype_code(str(op.attribute("dtype", "int64")))
    attrs = _list_attributes(values, as_dtype("int64" if code in (None, -1) else code))
    _constant(importer, op, "assign_value", {**attrs, "shape": [len(values)]})


@imports("pd_op.assign_value")
def assign_value(importer: Importer, op: PirOp) -> None:
    code = dtype_code(str(op.attribute("dtype")))
    if code in (None, -1):
        importer.opaque(op)
        return
    attrs = _list_attributes(op.attribute("values", []), as_dtype(code))
    _constant(importer, op, "assign_value", {**attrs, "shape": op.attribute("shape", [])})


# The attribute in which legacy lists the numbers, by element type.
_LISTS = {"bool": "bool_values", "int32": "int32_values", "int64": "int64_values"}
_FLOATS = {"float32": "fp32_values", "float64": "fp64_values"}


def _list_attributes(values: list[Any], dtype: Any) -> dict[str, Any]:
    if dtype in _LISTS:
        return {"dtype": dtype.code, _LISTS[dtype]: [int(value) for value in values]}
    name = _FLOATS.get(dtype, "values")
    return {"dtype": dtype.code, name: values}


# Operators with a different form in legacy -----------------------------------------------------


def _by_row(importer: Importer, op: PirOp, **attrs: Any) -> Operator | None:
    row = row_of(op.name.partition(".")[2])
    if row is None or importer.is_newer(op, row):
        importer.opaque(op)
        return None
    return importer.by_row(op, row, **attrs)


_REDUCTIONS = ("all", "any", "amax", "amin", "max", "min", "mean", "prod", "sum")


@imports(*(f"pd_op.{n}{g}" for n in _REDUCTIONS for g in ("", "_grad")))
def reduce(importer: Importer, op: PirOp) -> None:
    """Import a reduction; without axes set the flag `reduce_all`, as in legacy."""
    made = _by_row(importer, op)
    if made is None or not (made.type.startswith("reduce_")):
        return
    dim = made.attrs.get("dim", [])
    if made.attr_kinds.get("dim") is None:
        made.attrs["dim"] = dim if isinstance(dim, list) else [dim]
        made.attrs["reduce_all"] = not made.attrs["dim"]
    made.attrs.setdefault("keep_dim", False)
    made.attrs.setdefault("in_dtype", -1)
    made.attrs.setdefault("out_dtype", -1)


@imports(*(f"pd_op.{n}{g}" for n in ("tril", "triu") for g in ("", "_grad")))
def triangle(importer: Importer, op: PirOp) -> None:
    _by_row(importer, op, lower=base_name(op.name).removesuffix("_grad").endswith("tril"))


@imports("pd_op.allclose", "pd_op.isclose")
def close(importer: Importer, op: PirOp) -> None:
    """Import `allclose` or `isclose`, with the tolerances as text, as in legacy."""
    made = _by_row(importer, op)
    for name in ("rtol", "atol"):
        if made is not None and made.attr_kinds.get(name) is None and name in made.attrs:
            made.attrs[name] = str(made.attrs[name])


@imports("pd_op.shape64")
def shape64(importer: Importer, op: PirOp) -> None:
    """Import `shape64` as `shape`, with 32-bit sizes in legacy, and a cast."""
    importer.same_names(op)
    narrow = importer.new(f"shape_{op.results[0].id}.int32", PirType("dtensor", "int32", _dims(op)))
    importer.emit(
        "shape", {"Input": importer.values(op.operands[0])}, {"Out": [narrow]}, {}, source=op
    )
    codes = {"in_dtype": as_dtype("int32").code, "out_dtype": as_dtype("int64").code}
    importer.emit("cast", {"X": [narrow]}, {"Out": importer.results(op)}, codes, source=op)


def _dims(op: PirOp) -> tuple[int, ...]:
    return op.results[0].type.dims


@imports("pd_op.set_value", "pd_op.set_value_with_tensor")
def set_value(importer: Importer, op: PirOp) -> None:
    made = _by_row(importer, op)
    if made is None:
        return
    type_ = importer.types.get(op.operands[0], PirType("NULL"))
    made.attrs["dtype"] = -1 if type_.dtype is None else as_dtype(type_.dtype).code
    if "ValueTensor" in made.inputs:
        made.attrs.setdefault("shape", [])


_NOTING = ("reshape", "transpose", "flatten", "squeeze", "unsqueeze")


@imports(*(f"pd_op.{name}" for name in _NOTING))
def note_shape(importer: Importer, op: PirOp) -> None:
    """Import an operator with the output `XShape`, which passes X's shape to its gradient."""
    made = _by_row(importer, op)
    if made is None or "Out" not in made.outputs:
        return
    source = op.operands[0]
    type_ = importer.types.get(source, PirType("NULL"))
    note = importer.new(f"{made.outputs['Out'][0]}.xshape", _type_of_note(type_))
    made.outputs["XShape"] = [note]
    importer.shape_notes[op.results[0].id] = note


def _type_of_note(type_: PirType) -> PirType:
    return PirType("dtensor", type_.dtype, (0, *type_.dims[:8]))


@imports(*(f"pd_op.{name}_grad" for name in _NOTING))
def of_note(importer: Importer, op: PirOp) -> None:
    """Import the gradient of an operator that has the output `XShape`."""
    row, link = row_of(op.name.partition(".")[2]), importer.links.of(op)
    note = None
    if link is not None:
        note = importer.shape_notes.get(link.forward.results[0].id)
    if row is None:
        importer.opaque(op)
        return
    made = importer.by_row(op, row)
    if made is None or note is None:
        return
    made.inputs.pop("X", None)
    made.inputs = {**made.inputs, "XShape": [note]}


@imports("pd_op.repeat_interleave")
def repeat(importer: Importer, op: PirOp) -> None:
    """Import `repeat_interleave`, with the number as a tensor, not as legacy's attribute."""
    made = _by_row(importer, op)
    number = None if made is None else made.attrs.get("Repeats")
    if made is None or not isinstance(number, int):
        return
    made_ops = importer.block.ops
    made_ops.pop()
    name = importer.new(f"repeats_{op.results[0].id}", PirType("dtensor", "int64", (1,)))
    attrs = {**_list_attributes([number], as_dtype("int64")), "shape": [1]}
    importer.emit("assign_value", {}, {"Out": [name]}, attrs, source=op)
    made.inputs["RepeatsTensor"] = [name]
    made_ops.append(made)


@imports("pd_op.split", "pd_op.split_with_num")
def no_split(importer: Importer, op: PirOp) -> None:
    """Import a split, with empty defaults for `num` and `sections`."""
    made = _by_row(importer, op)
    if made is not None:
        made.attrs.setdefault("num", 0)
        made.attrs.setdefault("sections", [])
