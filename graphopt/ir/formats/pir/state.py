"""PIR operators of a file itself: parameters, feeds, fetches, and lists of values."""

from __future__ import annotations

from graphopt.errors import FormatError
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.constants import PirConstant
from graphopt.ir.formats.pir.importer import Importer
from graphopt.ir.formats.pir.registry import imports
from graphopt.ir.formats.pir_json.records import PirOp, PirType
from graphopt.ir.program import Parameter, Variable


@imports("builtin.parameter")
def parameter(importer: Importer, op: PirOp) -> None:
    """Import a parameter; one that is not persistable is a copy that nothing initializes."""
    (result,) = op.results
    name = op.attribute("parameter_name")
    persistable = op.flag("persistable", default=True)
    type_, block = result.type, importer.program.global_block()
    importer.named[result.id] = name
    if name in block.vars:
        return
    if type_.dtype is None or not persistable or not all(dim > 0 for dim in type_.dims):
        stops = op.flag("stop_gradient")
        importer.declare(name, type_, persistable=persistable, stop_gradient=stops)
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


@imports("pd_op.data")
def data(importer: Importer, op: PirOp) -> None:
    """Import a feed, or state that is no parameter, such as an optimizer's."""
    (result,) = op.results
    name = importer.named[result.id] = importer.names.name(op, result.id, importer.named)
    persistable = op.flag("persistable")
    stops = op.flag("stop_gradient", default=True)
    importer.declare(name, result.type, persistable=persistable, stop_gradient=stops)
    if not persistable:
        variable = importer.block.vars[name]
        variable.is_data = variable.need_check_feed = True
        importer.feeds.append(name)


@imports("pd_op.fetch")
def fetch(importer: Importer, op: PirOp) -> None:
    column = op.attribute("col")
    if importer.block is not importer.program.global_block():
        raise FormatError(
            f"{importer.source.source}: expected fetches outside of blocks, found one"
        )
    importer.fetches.append((column, importer.value(op.operands[0])))


def _write_state(importer: Importer, op: PirOp, attribute: str) -> None:
    """Write a value to the state of this name: copy it, unless it already has the name."""
    name, value = op.attribute(attribute), op.operands[0]
    block = importer.program.global_block()
    source = importer.value(value)
    type_ = importer.types.get(value, PirType("NULL"))
    if name not in block.vars:
        inner, importer.block = importer.block, block
        importer.declare(name, type_)
        importer.block = inner
    variable = block.vars[name]
    variable.persistable = True
    if source != name:
        importer.emit("assign", {"X": [source]}, {"Out": [name]}, {}, source=op)
    elif attribute == "parameter_name" and not isinstance(variable, Parameter):
        block.vars[name] = _as_parameter(variable)


def _as_parameter(variable: Variable) -> Variable:
    if not variable.has_type or not all(dim > 0 for dim in variable.shape):
        return variable
    stops = variable.stop_gradient
    made = Parameter(variable.block, variable.name, variable.shape, variable.dtype)
    made.stop_gradient = stops
    return made


@imports("builtin.set_parameter")
def set_parameter(importer: Importer, op: PirOp) -> None:
    _write_state(importer, op, "parameter_name")


@imports("builtin.shadow_output")
def shadow_output(importer: Importer, op: PirOp) -> None:
    _write_state(importer, op, "output_name")


@imports("builtin.combine")
def combine(importer: Importer, op: PirOp) -> None:
    (result,) = op.results
    parts = [importer.constant(value) for value in op.operands]
    known = [part for part in parts if part is not None]
    if known and len(known) == len(parts):
        importer.constants[result.id] = PirConstant([n for part in known for n in part.as_list()])
    importer.lists[result.id] = [
        importer.value(value) for value in op.operands if importer.is_there(value)
    ]


@imports("builtin.split")
def split_list(importer: Importer, op: PirOp) -> None:
    names = importer.values(op.operands[0])
    if len(names) != len(op.results):
        raise FormatError(
            f"{importer.source.source}: expected builtin.split of {len(names)} values to have "
            f"as many results, found {len(op.results)}"
        )
    for result, name in zip(op.results, names, strict=True):
        importer.named[result.id] = name


@imports("builtin.slice")
def element(importer: Importer, op: PirOp) -> None:
    names, index = importer.values(op.operands[0]), op.attribute("index")
    if not 0 <= index < len(names):
        raise FormatError(
            f"{importer.source.source}: expected the index of builtin.slice in "
            f"0..{len(names) - 1}, found {index!r}"
        )
    importer.named[op.results[0].id] = names[index]
