"""Operators: the steps of a program's blocks, with Paddle's own types, slots and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from graphopt.ir.location import Location

if TYPE_CHECKING:
    from graphopt.ir.program import Block

EMPTY = "@EMPTY@"


class OpRole:
    """The bit flags of the `op_role` attribute (Paddle: OpProtoAndCheckerMaker.OpRole)."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZE = 2
    LR_SCHEDULE = 16
    LOSS = 256


class AttrKind:
    """The kinds of attribute that saved programs declare (Paddle: AttrType).

    A `BLOCK` is held as a block's index; a `VAR` as the name of a variable that the operator reads.
    """

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    FLOAT64S = 12
    VAR = 13
    VARS = 14
    FLOAT64 = 15
    SCALAR = 16
    SCALARS = 17


class Operator:
    """One step of a block: a type, named slots of variable names, attributes.

    `location` is the user's source line, None where a loaded model does not say. `attr_kinds` has
    the `AttrKind` of each attribute of a loaded operator, and nothing for operators made here;
    `saved` is the loaded operator's own bytes, which the writer repeats if nothing was changed.
    `is_loaded` is True for operators of files, whose slots and attributes nobody has checked.
    """

    saved: bytes | None = None
    is_loaded = False

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        location: Location | None = None,
    ) -> None:
        self.block = block
        self.type = type
        self.inputs = {slot: list(names) for slot, names in inputs.items()}
        self.outputs = {slot: list(names) for slot, names in outputs.items()}
        self.attrs = dict(attrs)
        self.attr_kinds: dict[str, int] = {}
        self.location = location

    def copy_to(self, block: Block) -> Operator:
        """An operator like this one that belongs to `block`."""
        twin = Operator(block, self.type, self.inputs, self.outputs, self.attrs, self.location)
        twin.attr_kinds = dict(self.attr_kinds)
        twin.saved = self.saved
        twin.is_loaded = self.is_loaded
        return twin

    def input(self, slot: str) -> list[str]:
        """The variable names in an input slot, [] when the slot is absent."""
        return list(self.inputs.get(slot, ()))

    def output(self, slot: str) -> list[str]:
        """The variable names in an output slot, [] when the slot is absent."""
        return list(self.outputs.get(slot, ()))

    @property
    def input_names(self) -> list[str]:
        """The names of the input slots."""
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        """The names of the output slots."""
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """Every variable name read, in slot order."""
        return [name for names in self.inputs.values() for name in names if name != EMPTY]

    @property
    def output_arg_names(self) -> list[str]:
        """Every variable name written, in slot order."""
        return [name for names in self.outputs.values() for name in names if name != EMPTY]

    @property
    def role(self) -> int:
        """The `op_role` flags, Forward when unset."""
        return int(self.attrs.get("op_role", OpRole.FORWARD))

    def attr(self, name: str) -> Any:
        """The value of an attribute; ValueError when the operator has none of that name."""
        if name in self.attrs:
            return self.attrs[name]
        if name in _ON_EVERY_OPERATOR:
            return _ON_EVERY_OPERATOR[name]
        raise ValueError(f"operator {self.type} has no attribute '{name}'")

    def has_attr(self, name: str) -> bool:
        """True when the attribute is set, or one that every operator has."""
        return name in self.attrs or name in _ON_EVERY_OPERATOR

    def all_attrs(self) -> dict[str, Any]:
        """A copy of the attributes."""
        return dict(self.attrs)

    @property
    def attr_names(self) -> list[str]:
        """The names of the attributes that are set."""
        return list(self.attrs)

    def _set_attr(self, name: str, value: Any) -> None:
        self.attrs[name] = value
        self.block.program.touch()

    def _remove_attr(self, name: str) -> None:
        self.attrs.pop(name, None)
        self.block.program.touch()

    def attr_type(self, name: str) -> int:
        """The `AttrKind` of an attribute; ValueError when the operator has none of that name."""
        value = self.attr(name)
        if name in self.attr_kinds:
            return self.attr_kinds[name]
        if not isinstance(value, (list, tuple)):
            return _kind(value)
        items = cast("Sequence[object]", value)
        return _LISTS[_kind(items[0]) if items else AttrKind.INT]

    @property
    def idx(self) -> int:
        """The position in the block; ValueError when the operator has been removed from it."""
        for position, op in enumerate(self.block.ops):
            if op is self:
                return position
        raise ValueError(f"operator {self.type} is not in its block any more")

    def rename(self, name: str, new_name: str) -> None:
        """Read and write another variable instead of one."""
        self._rename_input(name, new_name)
        self._rename_output(name, new_name)

    def _rename_input(self, old_name: str, new_name: str) -> None:
        _rename(self.inputs, old_name, new_name)
        self.saved = None
        self.block.program.touch()

    def _rename_output(self, old_name: str, new_name: str) -> None:
        _rename(self.outputs, old_name, new_name)
        self.saved = None
        self.block.program.touch()

    def __repr__(self) -> str:
        def slots(slots: Mapping[str, Sequence[str]]) -> str:
            return ", ".join(f"{slot}=[{', '.join(names)}]" for slot, names in slots.items())

        shown = [
            f"{name}={value!r}"
            for name, value in sorted(self.attrs.items())
            if name not in ("op_callstack", "op_namescope", "op_device")
        ]
        arguments = ", ".join(filter(None, [slots(self.inputs), *shown]))
        where = f"  # {self.location}" if self.location else ""
        return f"{{{slots(self.outputs)}}} = {self.type}({arguments}){where}"

    def to_string(self, throw_on_error: bool = False) -> str:
        """The operator as text; the argument is accepted for compatibility."""
        return repr(self)


_ON_EVERY_OPERATOR = {"op_role": OpRole.FORWARD, "op_namescope": "/", "op_device": ""}
_KINDS: Mapping[type, int] = {
    bool: AttrKind.BOOLEAN,
    int: AttrKind.INT,
    float: AttrKind.FLOAT,
    str: AttrKind.STRING,
}
_LISTS = {
    AttrKind.BOOLEAN: AttrKind.BOOLEANS,
    AttrKind.INT: AttrKind.INTS,
    AttrKind.FLOAT: AttrKind.FLOATS,
    AttrKind.STRING: AttrKind.STRINGS,
}


def _kind(value: object) -> int:
    return _KINDS.get(type(value), AttrKind.STRING)


def _rename(slots: Mapping[str, list[str]], name: str, new_name: str) -> None:
    for names in slots.values():
        names[:] = [new_name if found == name else found for found in names]
