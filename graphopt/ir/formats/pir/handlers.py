"""PIR operators that a row of the tables cannot describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.errors import FormatError
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.attributes import dtype_code
from graphopt.ir.formats.pir.composites import COMPOSITES
from graphopt.ir.formats.pir.constants import Constant
from graphopt.ir.formats.pir.control import CONTROL
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.registry import SPECIAL
from graphopt.ir.formats.pir.rows import base_name, row_of
from graphopt.ir.formats.pir_json.records import PirOp, PirType
from graphopt.ir.program import Operator, Parameter, Variable

# The file's own operators: state, feeds, fetches, lists ----------------------------------------


def _parameter(self: Importer, op: PirOp) -> None:
    """Persistable ones are stored in files and scopes; the others are copies without values."""
    (result,) = op.results
    name = op.attribute("parameter_name")
    persistable = op.flag("persistable", default=True)
    type_, block = result.type, self.program.global_block()
    self.named[result.id] = name
    if name in block.vars:
        return
    if type_.dtype is None or not persistable or not all(dim > 0 for dim in type_.dims):
        stops = op.flag("stop_gradient")
        self.declare(name, type_, persistable=persistable, stop_gradient=stops)
        return
    block.vars[name] = Parameter(
        block,
        name,
        type_.dims,
        as_dtype(type_.dtype),
        trainable=not op.flag("stop_gradient"),
        need_clip=bool(op.attribute("need_clip", True)),
        is_distributed=bool(op.attribute("is_distributed", False)),
    )


def _data(self: Importer, op: PirOp) -> None:
    """A feed, or state that is no parameter, such as an optimizer's."""
    (result,) = op.results
    name = self.named[result.id] = self.names.name(op, result.id, self.named)
    persistable = op.flag("persistable")
    stops = op.flag("stop_gradient", default=True)
    self.declare(name, result.type, persistable=persistable, stop_gradient=stops)
    if not persistable:
        variable = self.block.vars[name]
        variable.is_data = variable.need_check_feed = True
        self.feeds.append(name)


def _fetch(self: Importer, op: PirOp) -> None:
    column = op.attribute("col")
    if self.block is not self.program.global_block():
        raise FormatError(f"{self.source.source}: expected fetches outside of blocks, found one")
    self.fetches.append((column, self.value(op.operands[0])))


def _write_state(self: Importer, op: PirOp, attribute: str) -> None:
    """The value is the state of this name: it is made under it, or copied to it."""
    name, value = op.attribute(attribute), op.operands[0]
    block = self.program.global_block()
    source = self.value(value)
    type_ = self.types.get(value, PirType("NULL"))
    if name not in block.vars:
        inner, self.block = self.block, block
        self.declare(name, type_)
        self.block = inner
    variable = block.vars[name]
    variable.persistable = True
    if source != name:
        self.emit("assign", {"X": [source]}, {"Out": [name]}, {}, source=op)
    elif attribute == "parameter_name" and not isinstance(variable, Parameter):
        block.vars[name] = _as_parameter(variable)


def _as_parameter(variable: Variable) -> Variable:
    if not variable.has_type or not all(dim > 0 for dim in variable.shape):
        return variable
    stops = variable.stop_gradient
    made = Parameter(variable.block, variable.name, variable.shape, variable.dtype)
    made.stop_gradient = stops
    return made


def _set_parameter(self: Importer, op: PirOp) -> None:
    _write_state(self, op, "parameter_name")


def _shadow_output(self: Importer, op: PirOp) -> None:
    _write_state(self, op, "output_name")


def _combine(self: Importer, op: PirOp) -> None:
    (result,) = op.results
    parts = [self.constant(value) for value in op.operands]
    known = [part for part in parts if part is not None]
    if known and len(known) == len(parts):
        self.constants[result.id] = Constant([n for part in known for n in part.as_list()])
    self.lists[result.id] = [self.value(value) for value in op.operands if self.is_there(value)]


def _split_list(self: Importer, op: PirOp) -> None:
    names = self.values(op.operands[0])
    if len(names) != len(op.results):
        raise FormatError(
            f"{self.source.source}: builtin.split gives {len(op.results)} of {len(names)} values"
        )
    for result, name in zip(op.results, names, strict=True):
        self.named[result.id] = name


def _element(self: Importer, op: PirOp) -> None:
    names, index = self.values(op.operands[0]), op.attribute("index")
    if not 0 <= index < len(names):
        raise FormatError(f"{self.source.source}: builtin.slice {index!r} of {len(names)} values")
    self.named[op.results[0].id] = names[index]


# Constants -------------------------------------------------------------------------------------


def _constant(self: Importer, op: PirOp, type_: str, attrs: Mapping[str, Any]) -> None:
    """An operator without operands, which goes again when its value became an attribute."""
    self.same_names(op)
    names = self.results(op)
    made = self.emit(type_, {}, {"Out": names}, attrs, source=op)
    self.constant_ops.append(made)


def _full(self: Importer, op: PirOp) -> None:
    """`str_value` is exact where the attribute `value` of saved programs has 32 bits."""
    code, value = dtype_code(str(op.attribute("dtype"))), op.attribute("value")
    if code is None or isinstance(value, complex) or not isinstance(value, int | float):
        self.opaque(op)
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
    _constant(self, op, "fill_constant", attrs)


def _full_int_array(self: Importer, op: PirOp) -> None:
    values = op.attribute("value", [])
    code = dtype_code(str(op.attribute("dtype", "int64")))
    attrs = _listed(values, as_dtype("int64" if code in (None, -1) else code))
    _constant(self, op, "assign_value", {**attrs, "shape": [len(values)]})


def _assign_value(self: Importer, op: PirOp) -> None:
    code = dtype_code(str(op.attribute("dtype")))
    if code in (None, -1):
        self.opaque(op)
        return
    attrs = _listed(op.attribute("values", []), as_dtype(code))
    _constant(self, op, "assign_value", {**attrs, "shape": op.attribute("shape", [])})


# The attribute in which legacy lists numbers of each element type.
_LISTS = {"bool": "bool_values", "int32": "int32_values", "int64": "int64_values"}
_FLOATS = {"float32": "fp32_values", "float64": "fp64_values"}


def _listed(values: list[Any], dtype: Any) -> dict[str, Any]:
    if dtype in _LISTS:
        return {"dtype": dtype.code, _LISTS[dtype]: [int(value) for value in values]}
    name = _FLOATS.get(dtype, "values")
    return {"dtype": dtype.code, name: values}


# Operators with another form in legacy ---------------------------------------------------------


def _by_row(self: Importer, op: PirOp, **attrs: Any) -> Operator | None:
    row = row_of(op.name.partition(".")[2])
    if row is None or self.is_newer(op, row):
        self.opaque(op)
        return None
    return self.by_row(op, row, **attrs)


def _reduce(self: Importer, op: PirOp) -> None:
    """Without axes legacy sets a flag."""
    made = _by_row(self, op)
    if made is None or not (made.type.startswith("reduce_")):
        return
    dim = made.attrs.get("dim", [])
    if made.attr_kinds.get("dim") is None:
        made.attrs["dim"] = dim if isinstance(dim, list) else [dim]
        made.attrs["reduce_all"] = not made.attrs["dim"]
    made.attrs.setdefault("keep_dim", False)
    made.attrs.setdefault("in_dtype", -1)
    made.attrs.setdefault("out_dtype", -1)


def _triangle(self: Importer, op: PirOp) -> None:
    _by_row(self, op, lower=base_name(op.name).removesuffix("_grad").endswith("tril"))


def _close(self: Importer, op: PirOp) -> None:
    """Legacy has the tolerances as text."""
    made = _by_row(self, op)
    for name in ("rtol", "atol"):
        if made is not None and made.attr_kinds.get(name) is None and name in made.attrs:
            made.attrs[name] = str(made.attrs[name])


def _shape64(self: Importer, op: PirOp) -> None:
    """Legacy gives sizes in 32 bits."""
    self.same_names(op)
    narrow = self.new(f"shape_{op.results[0].id}.int32", PirType("dtensor", "int32", _dims(op)))
    self.emit("shape", {"Input": self.values(op.operands[0])}, {"Out": [narrow]}, {}, source=op)
    codes = {"in_dtype": as_dtype("int32").code, "out_dtype": as_dtype("int64").code}
    self.emit("cast", {"X": [narrow]}, {"Out": self.results(op)}, codes, source=op)


def _dims(op: PirOp) -> tuple[int, ...]:
    return op.results[0].type.dims


def _set_value(self: Importer, op: PirOp) -> None:
    made = _by_row(self, op)
    if made is None:
        return
    type_ = self.types.get(op.operands[0], PirType("NULL"))
    made.attrs["dtype"] = -1 if type_.dtype is None else as_dtype(type_.dtype).code
    if "ValueTensor" in made.inputs:
        made.attrs.setdefault("shape", [])


def _note_shape(self: Importer, op: PirOp) -> None:
    """Legacy has another output, by which its gradient operator knows X's shape."""
    made = _by_row(self, op)
    if made is None or "Out" not in made.outputs:
        return
    source = op.operands[0]
    type_ = self.types.get(source, PirType("NULL"))
    note = self.new(f"{made.outputs['Out'][0]}.xshape", _noted(type_))
    made.outputs["XShape"] = [note]
    self.shape_notes[op.results[0].id] = note


def _noted(type_: PirType) -> PirType:
    return PirType("dtensor", type_.dtype, (0, *type_.dims[:8]))


def _of_note(self: Importer, op: PirOp) -> None:
    """The gradient of an operator that notes X's shape."""
    row, link = row_of(op.name.partition(".")[2]), self.links.of(op)
    note = None
    if link is not None:
        note = self.shape_notes.get(link.forward.results[0].id)
    if row is None:
        self.opaque(op)
        return
    made = self.by_row(op, row)
    if made is None or note is None:
        return
    made.inputs.pop("X", None)
    made.inputs = {**made.inputs, "XShape": [note]}


def _repeat(self: Importer, op: PirOp) -> None:
    """Legacy's operator has the number as an attribute, ours as a tensor."""
    made = _by_row(self, op)
    number = None if made is None else made.attrs.get("Repeats")
    if made is None or not isinstance(number, int):
        return
    made_ops = self.block.ops
    made_ops.pop()
    name = self.new(f"repeats_{op.results[0].id}", PirType("dtensor", "int64", (1,)))
    attrs = {**_listed([number], as_dtype("int64")), "shape": [1]}
    self.emit("assign_value", {}, {"Out": [name]}, attrs, source=op)
    made.inputs["RepeatsTensor"] = [name]
    made_ops.append(made)


def _no_split(self: Importer, op: PirOp) -> None:
    """Sections as an attribute leave out the number of parts."""
    made = _by_row(self, op)
    if made is not None:
        made.attrs.setdefault("num", 0)
        made.attrs.setdefault("sections", [])


_REDUCTIONS = ("all", "any", "amax", "amin", "max", "min", "mean", "prod", "sum")
_NOTING = ("reshape", "transpose", "flatten", "squeeze", "unsqueeze")

SPECIAL.update(
    {
        "builtin.parameter": _parameter,
        "builtin.set_parameter": _set_parameter,
        "builtin.shadow_output": _shadow_output,
        "builtin.combine": _combine,
        "builtin.split": _split_list,
        "builtin.slice": _element,
        "pd_op.data": _data,
        "pd_op.fetch": _fetch,
        "pd_op.full": _full,
        "pd_op.full_int_array": _full_int_array,
        "pd_op.assign_value": _assign_value,
        "pd_op.allclose": _close,
        "pd_op.isclose": _close,
        "pd_op.shape64": _shape64,
        "pd_op.set_value": _set_value,
        "pd_op.set_value_with_tensor": _set_value,
        "pd_op.repeat_interleave": _repeat,
        "pd_op.split": _no_split,
        "pd_op.split_with_num": _no_split,
        **dict.fromkeys(
            (f"pd_op.{n}{g}" for n in ("tril", "triu") for g in ("", "_grad")), _triangle
        ),
        **dict.fromkeys((f"pd_op.{n}{g}" for n in _REDUCTIONS for g in ("", "_grad")), _reduce),
        **dict.fromkeys((f"pd_op.{name}" for name in _NOTING), _note_shape),
        **dict.fromkeys((f"pd_op.{name}_grad" for name in _NOTING), _of_note),
        **COMPOSITES,
        **CONTROL,
    }
)
