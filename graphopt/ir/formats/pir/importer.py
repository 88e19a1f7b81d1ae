"""Convert the records of a PIR program to a `Program` of legacy operators, as 2.6 would save it.

Operators in the tables are renamed, slot by slot; a registered import (`registry.py`) handles an
operator that a row cannot express. Operators with neither are kept under their PIR name: a program
with them imports, and running it reports which operators it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphopt.errors import FormatError, LimitError
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.formats.pir.attributes import legacy_attributes, newer_attributes
from graphopt.ir.formats.pir.constants import PirConstant, constant_of
from graphopt.ir.formats.pir.inplace import in_place, overwritten, replaced_constants
from graphopt.ir.formats.pir.links import Links
from graphopt.ir.formats.pir.loop_gradients import LoopGradients
from graphopt.ir.formats.pir.names import Names
from graphopt.ir.formats.pir.registry import IMPORTS
from graphopt.ir.formats.pir.roles import Roles
from graphopt.ir.formats.pir.rows import Operand, PirRow, base_name, row_of
from graphopt.ir.formats.pir.sound import check_operators
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp, PirProgram, PirType
from graphopt.ir.program import AttrKind, Block, Operator, OpRole, Program, Variable, VarKind
from graphopt.ir.translate.inference import columns

_NULL = PirType("NULL")
# One list may be an operand of every operator, and each operator names all its elements.
_MOST_ARGUMENTS = 4_000_000
# The attributes that are one number, although a file may have a list of one.
_NUMBERS = frozenset(("axis", "k", "depth", "maxlen", "dropout_prob", "scale", "min", "max"))
_KINDS = {
    "dense_tensor_array": VarKind.TENSOR_ARRAY,
    "selected_rows": VarKind.SELECTED_ROWS,
}


def import_pir(source: PirProgram) -> Program:
    """Convert a PIR program to legacy operators.

    Raises FormatError for operators that lack operands, results or required attributes, and for
    lists where operators need tensors.
    """
    check_operators(source)
    importer = Importer(source)
    importer.translate(source.block)
    importer.finish()
    return importer.program


class Importer:
    """State of one import: the name of each value, and the block that operators go to."""

    def __init__(self, source: PirProgram) -> None:
        self.source = source
        self.program = Program()
        self.block: Block = self.program.global_block()
        self.links = Links(source.block)
        self.names = Names(source.block, self.links)
        self.loops = LoopGradients(source.block, self.links)
        self.roles = Roles(self.links.gradient_of)
        self.named: dict[int, str] = {}
        self.lists: dict[int, list[str]] = {}
        """The names of the elements of each value that is a list of tensors."""
        self.types: dict[int, PirType] = {}
        self.constants: dict[int, PirConstant] = {}
        self.constant_ops: list[Operator] = []
        self.shape_notes: dict[int, str] = {}
        self.products: dict[int, str] = {}
        """The variable of the product in an operator that also adds, by the operator's result."""
        self.fetches: list[tuple[int, str]] = []
        self.feeds: list[str] = []
        self._serial = 0
        self._arguments = 0
        self._overwritten = overwritten(source.block)
        self._replaced = replaced_constants(source.block)

    # Operators --------------------------------------------------------------------------------

    def translate(self, block: PirBlock) -> None:
        """Append the operators of a block, except for the `cf.yield` at its end."""
        for op in block.ops:
            if op.name != "cf.yield":
                self.operator(op)

    def operator(self, op: PirOp) -> None:
        """Append one operator."""
        self.types.update((result.id, result.type) for result in op.results)
        self.note_constant(op)
        registered = IMPORTS.get(op.name) or IMPORTS.get(base_name(op.name))
        if registered is not None:
            registered(self, op)
            return
        dialect, _, name = op.name.partition(".")
        row = row_of(name) if dialect == "pd_op" else None
        if row is None or self.is_newer(op, row):
            self.opaque(op)
        else:
            self.by_row(op, row)

    def is_newer(self, op: PirOp, row: PirRow) -> bool:
        """True when legacy cannot express an attribute's value, or has fewer operands."""
        newer = newer_attributes(op, row)
        return len(op.operands) > len(row.operands) or any(
            op.attribute(name, value) != value for name, value in newer.items()
        )

    def by_row(self, op: PirOp, row: PirRow, **attrs: Any) -> Operator | None:
        """Append the legacy operator of a row; `attrs` are added to the file's attributes."""
        outputs = self.outputs(op, row)
        inputs: dict[str, list[str]] = {}
        merged = legacy_attributes(op, row)
        if merged is None:
            self.opaque(op)
            return None
        kinds: dict[str, int] = {}
        for value, operand in zip(op.operands, row.operands, strict=False):
            if self.is_there(value):
                self.operand(value, operand, inputs, merged, kinds)
        return self.emit(row.type, inputs, outputs, {**merged, **attrs}, kinds, op)

    def operand(
        self,
        value: int,
        operand: Operand,
        inputs: dict[str, list[str]],
        attrs: dict[str, Any],
        kinds: dict[str, int],
    ) -> None:
        """Put an operand in its legacy position: a slot, or an attribute."""
        constant = self.constant(value) if operand.attribute else None
        if constant is not None:
            number = constant.as_list() if operand.attribute in _NUMBERS else []
            attrs[operand.attribute] = number[0] if len(number) == 1 else constant.value
        elif operand.slot:
            plain, _, note = operand.slot.partition(">")
            if note and value in self.shape_notes:
                inputs[note] = [self.shape_notes[value]]
            else:
                inputs[plain] = self.values(value)
        elif operand.attribute:
            names = self.values(value)
            attrs[operand.attribute] = names[0] if value not in self.lists else names
            kinds[operand.attribute] = AttrKind.VAR if value not in self.lists else AttrKind.VARS

    def opaque(self, op: PirOp) -> None:
        """Append an operator that legacy lacks, under its PIR name."""
        inputs = {
            f"operand_{i}": self.values(v) for i, v in enumerate(op.operands) if self.is_there(v)
        }
        self.same_names(op)
        outputs = {
            f"result_{i}": self.results(op, i) for i, v in enumerate(op.results) if v.is_there
        }
        attrs = {name: op.attribute(name) for name in op.attributes}
        plain = {name: value for name, value in attrs.items() if _is_plain(value)}
        self.emit(op.name, inputs, outputs, plain, {}, op)

    def outputs(self, op: PirOp, row: PirRow) -> dict[str, list[str]]:
        """Name the results of an operator; return the names by slot."""
        self.same_names(op)
        found: dict[str, list[str]] = {}
        pairs = zip(op.results, row.results, strict=False)
        for position, (result, slot) in enumerate(pairs):
            if result.is_there:
                names = self.results(op, position)
                if slot:
                    found[slot] = names
        return found

    def same_names(self, op: PirOp) -> None:
        """Give results that are operands changed in place the operands' names."""
        for result, operand in in_place(op).items():
            value = op.operands[operand]
            if value in self._replaced:
                continue
            new = op.results[result].id
            if value in self.lists:
                self.lists[new] = self.lists[value]
            elif value in self.named:
                self.named[new] = self.named[value]

    def emit(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        kinds: Mapping[str, int] | None = None,
        source: PirOp | None = None,
    ) -> Operator:
        """Append a legacy operator."""
        made = Operator(self.block, type, inputs, outputs, attrs)
        made.attr_kinds = dict(kinds or {})
        made.is_loaded = True
        role = self.roles.role(self.block, made, source)
        if role != OpRole.FORWARD or "op_role" not in made.attrs:
            made.attrs["op_role"] = role
        self.block.ops.append(made)
        return made

    # Values -----------------------------------------------------------------------------------

    def is_there(self, value: int) -> bool:
        """False for an operand that is left out, or that its producer did not compute."""
        return value != 0 and self.types.get(value, _NULL).kind != "NULL"

    def values(self, value: int) -> list[str]:
        """Return the names of a value, one for each element of a list."""
        if value in self.lists:
            names = self.lists[value]
            self._arguments += len(names)
            if self._arguments > _MOST_ARGUMENTS:
                raise LimitError(
                    f"{self.source.source}: expected at most {_MOST_ARGUMENTS} elements of lists "
                    "as operands of all operators together, found more"
                )
            return list(names)
        if value not in self.named:
            raise FormatError(
                f"{self.source.source}: value {value} is used as a tensor, but is not a tensor"
            )
        return [self.named[value]]

    def value(self, value: int) -> str:
        """Return the name of a value that must be one tensor."""
        names = self.values(value)
        if value in self.lists or len(names) != 1:
            raise FormatError(
                f"{self.source.source}: value {value} is used as a tensor, but is a list"
            )
        return names[0]

    def results(self, op: PirOp, position: int = 0) -> list[str]:
        """Name and declare a result, unless it has its operand's name; return the names."""
        result = op.results[position]
        if result.id in self.named:
            return [self.named[result.id]]
        if result.id in self.lists:
            return self.lists[result.id]
        stops = op.flag("stop_gradient", position)
        if result.type.kind == "vec":
            base = self.names.name(op, result.id, self.named)
            self.lists[result.id] = [
                self.declare(self.names.free(f"{base}.{i}"), element, stop_gradient=stops)
                for i, element in enumerate(result.type.elements)
            ]
            return self.lists[result.id]
        name = self.names.name(op, result.id, self.named)
        self.named[result.id] = name
        return [self.declare(name, result.type, stop_gradient=stops)]

    def declare(self, name: str, type: PirType, **flags: Any) -> str:
        """Declare a variable in this block, unless it is known, and return its name."""
        if self.block.find_var(name) is None:
            dtype = None if type.dtype is None else as_dtype(type.dtype)
            shape = None if type.kind == "NULL" else type.dims
            kind = _KINDS.get(type.kind, VarKind.DENSE_TENSOR)
            self.block.vars[name] = Variable(self.block, name, shape, dtype, kind=kind, **flags)
        return name

    def new(self, name: str, type: PirType | None = None, kind: int | None = None) -> str:
        """Declare a variable of this block that stands for no value of the file."""
        found = self.names.free(name)
        self.declare(found, type or PirType("NULL"))
        if kind is not None:
            self.block.vars[found].kind = kind
        return found

    def serial(self) -> int:
        """Return the next number, from 0, for an operator that has blocks."""
        self._serial += 1
        return self._serial - 1

    def constant(self, value: int) -> PirConstant | None:
        """Return the constant that a value always holds; None when it is unknown."""
        return self.constants.get(value)

    def note_constant(self, op: PirOp) -> None:
        """Record the constant of a value that no operator changes in place."""
        found = constant_of(op)
        if found is not None and op.results and op.results[0].id not in self._overwritten:
            self.constants[op.results[0].id] = found

    # The end ----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Add feeds and fetches, and drop constants that became attributes."""
        _drop_unused(self.program, self.constant_ops, (name for _, name in self.fetches))
        if self.fetches:
            self._columns()
        self.program.touch()

    def _columns(self) -> None:
        """Add the feed and fetch operators; a training program, without fetches, gets neither."""
        block = self.program.global_block()
        for name, kind in (("feed", VarKind.FEED_MINIBATCH), ("fetch", VarKind.FETCH_LIST)):
            block.vars.setdefault(name, Variable(block, name, persistable=True, kind=kind))
        feeds, fetches = columns(block, self.feeds, self.fetches)
        for op in (*feeds, *fetches):
            op.attr_kinds = {"col": AttrKind.INT}
        block.ops = [*feeds, *block.ops, *fetches]


def _drop_unused(program: Program, constants: Sequence[Operator], kept: Iterable[str]) -> None:
    """Remove operators that create constants without readers."""
    used = {name for block in program.blocks for op in block.ops for name in op.input_arg_names}
    used.update(kept)
    for block in program.blocks:
        used.update(name for name, variable in block.vars.items() if variable.persistable)
    dropped = {id(op) for op in constants if not used.intersection(op.output_arg_names)}
    for block in program.blocks:
        gone = {n for op in block.ops if id(op) in dropped for n in op.output_arg_names}
        block.ops = [op for op in block.ops if id(op) not in dropped]
        block.vars = {name: v for name, v in block.vars.items() if name not in gone}


def _is_plain(value: object) -> bool:
    """Return whether an operator's attribute can have this value."""
    if isinstance(value, list):
        return all(isinstance(item, bool | int | float | str) for item in value)  # pyright: ignore
    return isinstance(value, bool | int | float | str)
